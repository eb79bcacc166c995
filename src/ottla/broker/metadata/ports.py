"""The two ports that keep rooms from owning each other in a circle.

Rooms above metadata ask the active controller through `ControllerPort`. The lifecycle reads the state of the local
broker that the controller needs through `LocalBroker`, and calls the active controller's APIs on this node through
`LocalApis`.
"""

from __future__ import annotations

from typing import Any, Protocol

from ottla.storage import Logs
from ottla.wire import Message

ANSWER_TIMEOUT_MS = 30_000


class ControllerPort(Protocol):
    """What replicas and coordinators ask of the active controller, on this node or on another."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 before it is registered."""

    async def ask(self, request: Message, *, timeout_ms: int = ANSWER_TIMEOUT_MS) -> Any:
        """The active controller's response. KafkaError REQUEST_TIMED_OUT if none is found in time."""


class LocalBroker(Protocol):
    """The state of this broker that the lifecycle reports to the controller."""

    @property
    def logs(self) -> Logs: ...

    @property
    def host_name(self) -> str:
        """What listeners on every interface are advertised as, if nothing else is configured."""

    @property
    def leads_anything(self) -> bool:
        """Whether this broker leads a partition."""

    def port(self, listener: str) -> int:
        """The port that a listener was opened on."""


class LocalApis(Protocol):
    """The APIs of this node, called without a connection."""

    async def answer(self, request: Message, client_id: str) -> Any:
        """The response of this node's own handler; nothing is forwarded."""
