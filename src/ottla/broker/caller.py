"""What a handler learns of the client that sent a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Client:
    """The other end of a connection, and the listener it came through."""

    host: str
    port: int
    listener: str
    role: str
    """Whether the listener is that of a broker or of a controller."""
    software_name: str = ""
    software_version: str = ""
    """What ApiVersions said of the client's software."""
    broker_id: int = -1
    """Of a controller's listener: the broker whose heartbeats come through this connection."""


@dataclass(slots=True)
class Caller:
    """The sender of one request."""

    client_id: str | None
    client: Client
    api_key: int
    api_version: int
    principal: str = "User:ANONYMOUS"
    throttle_ms: int = 0
    """A handler sets it when a quota is exceeded: the connection is not read for so long after the answer."""
    is_forwarded: bool = False
    """Whether a broker passed the request on, and has checked what concerns brokers."""
    is_refused: bool = False
    """A handler sets it to have the connection closed: the only answer that acks=0 leaves room for."""


BoundHandler = Callable[[Any, Caller], Any]
"""An API's handler together with the rooms that it needs."""
