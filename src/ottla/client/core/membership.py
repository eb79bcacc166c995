"""What both kinds of membership in a group have in common: what happens to them and what they want done.

A membership is a machine: `handle(event, now) -> effects`, `deadline() -> when it wants a Tick`. It never calls the
application: it asks for a `Release` or a `Take` and goes on when it hears `Released` or `Taken`. The consumer performs
those two inside `poll` only, as Kafka's do: a consumer in the middle of its records keeps its partitions until it asks
for more. Two clocks run beside each other: heartbeats say that the process lives (session.timeout.ms, seen by the
coordinator), polls that the application gets on with its work (max.poll.interval.ms, seen here).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Protocol

from ottla.client.core.backoff import Backoff
from ottla.client.core.partitions import TopicPartition
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError

COORDINATOR_LOST = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Another broker coordinates the group now: look it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipConfig:
    """The settings of a consumer that concern its group, under Kafka's names."""

    group_id: str
    group_instance_id: str | None = None
    client_rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    partition_assignment_strategy: Sequence[str] = ("range", "cooperative-sticky")
    group_remote_assignor: str | None = None

    def backoff_ms(self, attempt: int, rng: Random) -> int:
        """How long to wait after the n-th failure in a row, with a fifth of chance either way."""
        return int(Backoff(self.retry_backoff_ms, self.retry_backoff_max_ms, rng).pause_ms(attempt + 1))


# Events


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The application, or its pattern over new metadata, asks for these topics; a regex is the broker's to match."""

    topics: tuple[str, ...]
    regex: str | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The application is done with the group."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The application asked for records."""


@dataclass(frozen=True, slots=True)
class Responded:
    request: Message
    response: Message


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No answer will come: no coordinator, no connection, or no time left."""

    request: Message


@dataclass(frozen=True, slots=True)
class Refused:
    """The client cannot send this at all, say because the broker does not have the API."""

    request: Message
    error: KafkaError


@dataclass(frozen=True, slots=True)
class Released:
    """The application has given up what the last Release named."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The application has taken what the last Take named."""


@dataclass(frozen=True, slots=True)
class TopicsKnown:
    """Metadata came: partition counts of the topics that exist, and their names by id."""

    partition_counts: Mapping[str, int]
    names: Mapping[bytes, str]
    is_answer: bool = False
    """Whether it came for a LearnTopics, and therefore has all of its topics that exist."""


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """The coordinator did not take a commit that carried this generation (or member epoch)."""

    code: ErrorCode
    generation: int


# Effects


@dataclass(frozen=True, slots=True)
class Send:
    """To the group's coordinator, found first if need be; `Responded` or `Unanswered` comes back."""

    request: Message
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ForgetCoordinator:
    """The coordinator changed, or it does not answer."""


@dataclass(frozen=True, slots=True)
class Release:
    """Give these partitions up: commit, tell the application, then say `Released`. What `is_lost` may be in other
    hands already: nothing can be committed for it."""

    partitions: tuple[TopicPartition, ...]
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Take:
    """Begin to read these partitions, tell the application, then say `Taken`."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class LearnTopics:
    """Ask for the metadata of these topics, by name or by id, then say `TopicsKnown`."""

    topics: tuple[str, ...]
    topic_ids: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Fail:
    """Membership is over: the application hears of it at its next poll."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Left:
    """The member has left the group and owns nothing."""


Effect = Send | ForgetCoordinator | Release | Take | LearnTopics | Fail | Left


class Membership(Protocol):
    """The consumer's view of its membership, for both protocols."""

    member_id: str
    is_polling: bool
    """While the application waits in poll, max.poll.interval.ms does not run."""

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """The partitions this member has taken and not released."""

    @property
    def generation(self) -> int:
        """The generation or member epoch in commits; -1 outside the group."""

    @property
    def is_rebalancing(self) -> bool:
        """Whether its partitions may soon be others."""

    @property
    def is_joining(self) -> bool:
        """Whether the generation may be over already: nothing can be committed until the group has settled."""

    @property
    def has_failed(self) -> bool: ...

    @property
    def has_expired(self) -> bool:
        """Whether the application did not poll for max.poll.interval.ms, and the member is out of the group."""

    def handle(self, event: object, now: int) -> list[Effect]: ...

    def deadline(self) -> int | None: ...


class State(Enum):
    """The state of a member; each protocol has its own transitions."""

    UNSUBSCRIBED = "unsubscribed"
    PREPARING = "preparing"
    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    RELEASING = "releasing"
    TAKING = "taking"
    STABLE = "stable"
    LOSING = "losing"
    EXPIRED = "expired"
    LEAVING = "leaving"
    FAILED = "failed"


_OUTSIDE = (State.UNSUBSCRIBED, State.EXPIRED, State.LEAVING, State.FAILED)


class Member:
    """Common to both protocols: the owned partitions, what the application is asked to do with them, and its last
    poll."""

    def __init__(self, config: MembershipConfig, rng: Random) -> None:
        self.config = config
        self.state = State.UNSUBSCRIBED
        self.is_polling = False
        self._rng = rng
        self._topics: tuple[str, ...] = ()
        self._owned: dict[TopicPartition, None] = {}
        self._heartbeat_at = 0
        self._failure_count = 0
        self._polled_at = 0
        self._asked_count = 0

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return tuple(self._owned)

    @property
    def is_rebalancing(self) -> bool:
        return self.state not in (State.STABLE, State.UNSUBSCRIBED)

    @property
    def has_failed(self) -> bool:
        return self.state is State.FAILED

    @property
    def has_expired(self) -> bool:
        return self.state is State.EXPIRED

    def _poll_due(self) -> list[int]:
        """When the application has to have come back, if it has to."""
        if self.state in _OUTSIDE or self.is_polling:
            return []
        return [self._polled_at + self.config.max_poll_interval_ms]

    def _release(self, partitions: tuple[TopicPartition, ...], *, is_lost: bool = False) -> list[Effect]:
        self._asked_count += 1
        return [Release(partitions, is_lost)]

    def _has_performed_all(self) -> bool:
        """The application has released or taken these partitions; True if no other request to it is open."""
        assert self._asked_count > 0, "nothing was asked for"
        self._asked_count -= 1
        return not self._asked_count

    def _keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Keep only these of the owned partitions."""
        kept = set(partitions)
        self._owned = {partition: None for partition in self._owned if partition in kept}
