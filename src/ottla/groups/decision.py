"""What a command of a group shard decided, and what it learns of who calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.groups.records import GroupRecord
from ottla.wire import Message
from ottla.wire.errors import KafkaError

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls, when, and how a member that has to wait is answered."""

    now: int
    """Monotonic milliseconds: deadlines."""
    timestamp: int
    """Wall clock milliseconds: what goes into records."""
    api_version: int
    client_id: str = ""
    client_host: str = ""
    waiter: Any = None
    """Stands for the caller in `GroupDecision.answers`; the shard only keeps it and hands it back."""


class Answer(NamedTuple):
    """The response to a request that was left waiting (JoinGroup, SyncGroup)."""

    waiter: Any
    response: Message


@dataclass(slots=True)
class GroupDecision(Generic[Reply]):
    """Records to be written as one batch, and what may leave once they are durable.

    `reply` is None when the caller has to wait: its `waiter` is answered by a later decision, or by this one.
    """

    records: list[GroupRecord]
    reply: Reply | None
    answers: list[Answer] = field(default_factory=list)
    refused: Callable[[KafkaError, Call], GroupDecision[Any]] | None = None
    """What to do instead if the records cannot be written. A decision without it changed nothing but by its records,
    so its caller gets the error and that is all. It must return a decision without records."""
