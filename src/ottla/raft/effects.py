"""Events that a replica of the metadata log handles, and the effects that it asks for, in the order in which they are
performed.

Requests and responses are Kafka's own messages. A `Send` carries an id that comes back with its answer, or with
`Unanswered` if no answer will come. The driver that performs the effects owns the files and the connections and decides
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.raft.quorum_state import QuorumState
from ottla.raft.voters import Voters
from ottla.wire import Message


class Destination(NamedTuple):
    """Where a request goes: a voter, or (id -1) an address whose node may know the leader."""

    id: int
    host: str
    port: int


class SnapshotId(NamedTuple):
    """A snapshot of everything before `end_offset`. `epoch` is that of its last record."""

    end_offset: int
    epoch: int


# Events

UNTOLD_HIGH_WATERMARK = 0x7FFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class Started:
    """The log is open and requests can be sent."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """The node is about to end: a leader hands over."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request of another replica. `token` comes back with the answer."""

    request: Message
    token: object


@dataclass(frozen=True, slots=True)
class Answered:
    id: int
    response: Message


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No answer will come. `is_closed`: the other side closed or refused the connection, so its process may be gone."""

    id: int
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class Flushed:
    """Everything before `end_offset` is on this replica's disk, or a truncation or snapshot was carried out."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class VotersChanged:
    """The log's last VotersRecord changed: it counts as soon as it is written (KIP-853)."""

    voters: Voters


# Effects


@dataclass(frozen=True, slots=True)
class Persist:
    """Write the election state to the disk and sync it before the next effect is performed."""

    state: QuorumState


@dataclass(frozen=True, slots=True)
class Send:
    id: int
    to: Destination
    request: Message


@dataclass(frozen=True, slots=True)
class Reply:
    token: object
    response: Message


@dataclass(frozen=True, slots=True)
class Serve:
    """Answer a fetch with the log from `offset` on: at once if there are records, or a high watermark, that the fetcher
    does not have; else as soon as there are, or when the fetch's wait is over.
    """

    token: object
    offset: int
    max_bytes: int
    max_wait_ms: int
    high_watermark: int = UNTOLD_HIGH_WATERMARK
    """The high watermark that the fetcher has; the largest possible one if its request does not say."""


@dataclass(frozen=True, slots=True)
class ServeSnapshot:
    """Answer with a piece of a snapshot."""

    token: object
    snapshot: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class WriteLeaderChange:
    """Write the LeaderChange record at the end of the log, as the first of this epoch, and sync it."""

    epoch: int
    granting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WriteVoters:
    """Write a VotersRecord at the end of the log, and sync it: the leader counts with these voters from now on."""

    voters: Voters


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Write what the leader sent, and sync it."""

    records: memoryview | bytes | bytearray


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Remove everything from this offset on: the leader's log differs there."""

    offset: int


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """A piece of the leader's snapshot. With the last one the snapshot takes the place of the whole log."""

    snapshot: SnapshotId
    position: int
    data: memoryview | bytes | bytearray
    is_last: bool


@dataclass(frozen=True, slots=True)
class Commit:
    """Everything before the high watermark is on the disks of a majority and will never be lost."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The leader of an epoch; -1: none is known."""

    leader_id: int
    epoch: int
