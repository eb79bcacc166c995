"""One partition that this node copies from its leader, as a machine without network, disk or clock.

A follower asks for records from the end of its log on and names the epoch of its last record. If the leader's log
differs, it answers with the diverging epoch (KIP-595, for replicas since Fetch v12): the follower truncates its log
there and goes on. Only records that were never committed are truncated, or records that an unclean election gave up.

States, what moves between them, and the effects:

    Fetching        Diverged                                     -> Truncating      Cut, SyncCut
                    Refused: offset out of range                 -> FindingBounds   AskBounds
                    Refused: fenced leader epoch                 -> Stopped
                    Refused: anything else                       -> Delayed
                    Throttled                                    -> HeldBack
    Truncating      CutSynced                                    -> Fetching
    FindingBounds   BoundsFound: the leader's log ends earlier   -> Truncating      Cut, SyncCut
                    BoundsFound: it starts after this log's end  -> Fetching        Restart
                    BoundsFound: neither                         -> Fetching        AdvanceStart, if it starts later
                    BoundsUnknown                                -> Delayed
    Delayed         Tick, when the delay is over                 -> Fetching; Truncating if F1 says so   SyncCut
    HeldBack        Tick, when the wait is over                  -> Fetching
                    Throttled                                    -> HeldBack (longer)
    every state     CopyFailed: the log is offline               -> Stopped
                    CopyFailed: anything else                    -> Delayed
    Stopped         nothing: a new leader epoch is a new Follower

A state that is not named with an event ignores it: the event is late.

Invariants
  F1  while a cut of the log is not on disk the follower is not Fetching: after a power loss pages of the records that
      were cut off could stand among those of the records copied after them, and nothing would show the difference
  F2  a follower leaves Delayed and HeldBack at the latest when `until` has come
  F3  only a follower that is Fetching has an `asked_offset`: an answer to an earlier request is not copied

Cython compiles this file (types in follower.pxd), and it runs as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from ottla.machine import Tick
from ottla.replication.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, LeaderEpochs
from ottla.wire.errors import ErrorCode

FIRST_BACKOFF_MS = 10
NOT_ASKED = -1
Key = tuple[bytes, int]
"""A topic's id and a partition's index."""


class FollowerLog(Protocol):
    """The part of a log that a follower's decisions read."""

    epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    high_watermark: int


# States


@dataclass(frozen=True, slots=True)
class Fetching:
    """Part of the fetch session: the leader sends what comes after the log's end."""


@dataclass(frozen=True, slots=True)
class Truncating:
    """Not fetched: the log was truncated, and the truncation is not on disk yet."""


@dataclass(frozen=True, slots=True)
class FindingBounds:
    """Not fetched: the log ends outside of the leader's log, whose start and end offsets are being asked for."""


@dataclass(frozen=True, slots=True)
class Delayed:
    """Not fetched for a while, after an error."""

    until: int


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Not fetched for a while: a throttle's limit is reached (KIP-73)."""

    until: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """Not fetched before the metadata changes."""


Following = Fetching | Truncating | FindingBounds | Delayed | HeldBack | Stopped
FETCHING, TRUNCATING, FINDING_BOUNDS, STOPPED = Fetching(), Truncating(), FindingBounds(), Stopped()


# Events


@dataclass(frozen=True, slots=True)
class Diverged:
    """The leader's diverging epoch: `epoch` is the last that both logs have, and it ends at `end_offset`."""

    epoch: int
    end_offset: int
    log: FollowerLog


@dataclass(frozen=True, slots=True)
class Refused:
    """The leader answered with an error."""

    error_code: int


@dataclass(frozen=True, slots=True)
class CutSynced:
    """The log's end is on disk as it is."""


@dataclass(frozen=True, slots=True)
class BoundsFound:
    """Where the leader's log starts and ends."""

    start_offset: int
    end_offset: int
    log: FollowerLog


@dataclass(frozen=True, slots=True)
class BoundsUnknown:
    """The leader did not return its log's start and end."""


@dataclass(frozen=True, slots=True)
class CopyFailed:
    """The log failed to append or truncate."""

    is_offline: bool


@dataclass(frozen=True, slots=True)
class Throttled:
    """The partition is behind, and the throttle allows no copying for so long; 0: it allows copying again."""

    wait_ms: int


Event = Diverged | Refused | CutSynced | BoundsFound | BoundsUnknown | CopyFailed | Throttled | Tick


# Effects


@dataclass(frozen=True, slots=True)
class Cut:
    """Truncate the log to an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class SyncCut:
    """Put the log's end on disk; then CutSynced."""


@dataclass(frozen=True, slots=True)
class AskBounds:
    """Ask the leader where its log starts and ends; then BoundsFound or BoundsUnknown."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Remove all records and begin again at an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class AdvanceStart:
    """Raise the log start offset."""

    offset: int


Effect = Cut | SyncCut | AskBounds | Restart | AdvanceStart


class Follower:
    """One partition that is copied, in one leader epoch. `is_cut`: its log was truncated while it followed an earlier
    leader, and that is not on disk yet. `max_delay_ms` is the longest pause after errors and between checks of a
    throttle.
    """

    __slots__ = ("asked_offset", "delay_ms", "epoch", "is_cut", "key", "max_delay_ms", "state", "topic")

    def __init__(self, key: Key, topic: str, epoch: int, *, is_cut: bool, max_delay_ms: int) -> None:
        self.key = key
        self.topic = topic
        self.epoch = epoch
        self.is_cut = is_cut
        self.max_delay_ms = max_delay_ms
        self.state: Following = TRUNCATING if is_cut else FETCHING
        self.asked_offset = NOT_ASKED
        """The log's end when the leader was last asked for records after it."""
        self.delay_ms = 0
        """The delay after the last error; 0 once something was copied."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.key[1]}"

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take one event; the effects are performed in order."""
        effects = self._handle(event, now)
        if self.state is not FETCHING:
            self.asked_offset = NOT_ASKED
        assert not (self.is_cut and self.state is FETCHING), "F1"
        return effects

    def _handle(self, event: Event, now: int) -> list[Effect]:
        state = self.state
        if isinstance(event, CopyFailed):
            self.state = STOPPED if event.is_offline or state is STOPPED else self._delayed(now)
        elif isinstance(event, CutSynced):
            self.is_cut = False
            if state is TRUNCATING:
                self.state = FETCHING
        elif isinstance(event, Throttled):
            if state is FETCHING or isinstance(state, HeldBack):
                until = now + min(event.wait_ms, self.max_delay_ms)
                self.state = HeldBack(until) if event.wait_ms else FETCHING
        elif isinstance(event, Tick):
            if isinstance(state, Delayed | HeldBack) and state.until <= now:
                self.state = TRUNCATING if self.is_cut else FETCHING
                return [SyncCut()] if self.is_cut else []
        elif state is FETCHING:
            return self._answered(event, now)
        elif state is FINDING_BOUNDS:
            return self._found(event, now)
        return []

    def _answered(self, event: Event, now: int) -> list[Effect]:
        if isinstance(event, Diverged):
            log = event.log
            return self._cut(
                truncation_offset(log.epochs, log.log_end_offset, log.high_watermark, event.epoch, event.end_offset)
            )
        if isinstance(event, Refused):
            if event.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.state = FINDING_BOUNDS
                return [AskBounds()]
            # A fenced epoch: this node's metadata is outdated, and its next records bring the new leader.
            is_fenced = event.error_code == ErrorCode.FENCED_LEADER_EPOCH
            self.state = STOPPED if is_fenced else self._delayed(now)
        return []

    def _found(self, event: Event, now: int) -> list[Effect]:
        if isinstance(event, BoundsUnknown):
            self.state = self._delayed(now)
        elif isinstance(event, BoundsFound):
            log = event.log
            bounds = compare_bounds(log.log_end_offset, event.start_offset, event.end_offset)
            if bounds is Bounds.TRUNCATE:
                return self._cut(event.end_offset)
            self.state = FETCHING
            if bounds is Bounds.RESTART:
                return [Restart(event.start_offset)]
            if log.log_start_offset < event.start_offset:
                return [AdvanceStart(event.start_offset)]
        return []

    def _cut(self, offset: int) -> list[Effect]:
        self.is_cut = True
        self.state = TRUNCATING
        return [Cut(offset), SyncCut()]

    def _delayed(self, now: int) -> Delayed:
        self.delay_ms = longer_delay(self.delay_ms, self.max_delay_ms)
        return Delayed(now + self.delay_ms)


def longer_delay(delay_ms: int, max_ms: int) -> int:
    """The pause after one more error: short at first, doubled each time."""
    return min(max(FIRST_BACKOFF_MS, 2 * delay_ms), max(max_ms, FIRST_BACKOFF_MS))


def truncation_offset(
    epochs: LeaderEpochs, log_end_offset: int, high_watermark: int, epoch: int, end_offset: int
) -> int:
    """The offset to truncate to when the leader answers that `epoch` is the last epoch in common and ends at
    `end_offset`.
    """
    if end_offset == UNDEFINED_OFFSET:
        return min(high_watermark, log_end_offset)  # the leader knows no epochs: only committed records are certain
    if epoch == UNDEFINED_EPOCH:
        return min(end_offset, log_end_offset)
    own_epoch, own_end_offset = epochs.end_offset_for(epoch, log_end_offset)
    if own_epoch == UNDEFINED_EPOCH:
        return min(end_offset, log_end_offset)
    if own_epoch != epoch:
        return min(own_end_offset, log_end_offset)  # the leader never had the epochs between: it is asked again
    return min(own_end_offset, end_offset, log_end_offset)


class Bounds(Enum):
    """What a follower whose log ends outside of its leader's log does, given the leader's log start and end."""

    TRUNCATE = "truncate to the leader's end"
    RESTART = "drop everything and begin at the leader's start"
    FETCH = "go on"


def compare_bounds(log_end_offset: int, leader_start_offset: int, leader_end_offset: int) -> Bounds:
    if leader_end_offset < log_end_offset:
        return Bounds.TRUNCATE
    if leader_start_offset > log_end_offset:
        return Bounds.RESTART
    return Bounds.FETCH


def followed_high_watermark(own: int, leaders: int, log_end_offset: int) -> int:
    """The follower's high watermark after an answer. A new leader may know a lower one; a follower never lowers its
    own.
    """
    return max(own, min(leaders, log_end_offset))
