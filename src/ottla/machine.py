"""What a state machine of Ottla looks like from outside, so that one driver can run all of them.

Machines are pure: time comes in as `now` (monotonic milliseconds), chance as a `random.Random`, messages as events, and
what they want done goes out as data. Two shapes meet here:

- a *timed* machine (`Machine`) is handed events, returns effects and says when it next wants a `Tick`;
- a *shard* (controller, group coordinator, ...) answers a command with a `Decision`: the records that make it true and
  the reply that may leave once they are durable. Its `replay(record)` is the only thing that changes its state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Tick:
    """The event a machine receives when its deadline has come."""


class Machine(Protocol):
    """A timed state machine, run by a driver on an event loop or stepped by a test."""

    def handle(self, event: object, now: int) -> list[object]:
        """Take one event and return the effects it has, to be performed in order."""

    def deadline(self) -> int | None:
        """When the machine next wants a Tick, in monotonic milliseconds; None if only events can move it."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[Reply]):
    """What a command decided: records to be written, and the reply that is true once they are.

    `is_atomic` records take effect together or not at all; the others may be cut into several batches of the log, each
    of which leaves a state that is right by itself (say, one partition's new leader after another's).
    """

    records: list[Any]
    reply: Reply
    is_atomic: bool = True
