"""What a state machine of Ottla looks like from outside, so that one driver (`net.Driver`) can run all of them.

Machines are pure: time comes in as `now` (monotonic milliseconds), chance as a `random.Random`, messages as events, and
what they want done goes out as data. Two shapes meet here:

- a *timed* machine (`Machine`) is handed events, returns effects and says when it next wants a `Tick`;
- a *shard* (controller, group coordinator, ...) answers a command with a `Decision`: the records that make it true and
  the reply that may leave once they are durable. Its `replay(record)` is the only thing that changes its state. The
  shards of coordinators learn from a `Call` when a command came, and return a `CoordinatorDecision`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Tick:
    """The event a machine receives when its deadline has come."""


class Machine(Protocol):
    """A timed state machine, run by a driver on an event loop or stepped by a test."""

    def handle(self, event: Any, now: int) -> Sequence[Any]:
        """Take one event and return the effects it has, to be performed in order."""

    def deadline(self) -> int | None:
        """When the machine next wants a Tick, in monotonic milliseconds; None if only events can move it."""


@dataclass(slots=True)
class Decision(Generic[Reply]):
    """What a command decided: records to be written, and the reply that is true once they are.

    `is_atomic` records take effect together or not at all; the others may be cut into several batches of the log, each
    of which leaves a state that is right by itself (say, one partition's new leader after another's).
    """

    records: list[Any]
    reply: Reply
    is_atomic: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """When a command comes to a shard of a coordinator, in which version of its API, and from which caller."""

    now: int
    """Monotonic milliseconds: deadlines."""
    timestamp: int
    """Wall clock milliseconds: what goes into records."""
    api_version: int = 0
    waiter: Any = None
    """Stands for the caller in the `answers` of a later decision, if this command's own leaves it waiting; the shard
    only keeps it and hands it back."""


class Answer(NamedTuple):
    """The response to a request that an earlier decision left waiting."""

    waiter: Any
    response: Any


@dataclass(slots=True)
class CoordinatorDecision(Decision[Reply]):
    """What a command of a coordinator's shard decided: records to be written as one batch, and what may leave once they
    are durable: the reply, the effects and the answers.

    A shard whose callers can wait (JoinGroup, SyncGroup) has None as the reply then: the call's `waiter` is answered by
    a later decision, or by this one.
    """

    effects: list[Any] = field(default_factory=list)
    """What the coordinator is to do, in the shard's own words, such as SendMarkers."""
    answers: list[Answer] = field(default_factory=list)
    refused: Callable[[Any, Any], CoordinatorDecision[Any]] | None = None
    """What to do instead if the records cannot be written, from the error and the call. A decision without it changed
    nothing but by its records, so its caller gets the error and that is all. It must return a decision without
    records."""
