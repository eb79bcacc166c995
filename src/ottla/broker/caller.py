"""What a handler learns of the client that sent a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.broker.access import EVERYTHING, Access
from ottla.security.principal import Principal
from ottla.wire.acls import CLUSTER_RESOURCE_NAME, AclOperation, AclResource


class ClientLogin(Protocol):
    """What SaslHandshake and SaslAuthenticate ask of a connection's login (`serving.login`)."""

    def handshake(self, request: Any, caller: Caller) -> Any: ...
    def authenticate(self, request: Any, caller: Caller) -> Any: ...


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
    access: Access = EVERYTHING
    """What the principal of this connection may do; replaced when a login ends."""
    login: ClientLogin | None = None
    """On a SASL listener: the login under way, or the session if that has an end."""


@dataclass(slots=True)
class Caller:
    """The sender of one request."""

    client_id: str | None
    client: Client
    api_key: int
    api_version: int
    throttle_ms: int = 0
    """A handler sets it when a quota is exceeded: the connection is not read for so long after the answer."""
    is_forwarded: bool = False
    """Whether a broker passed the request on, and has checked what concerns brokers."""
    is_refused: bool = False
    """A handler sets it to have the connection closed, after the answer if it gives one that was delayed: acks=0 leaves
    room for no other."""

    @property
    def principal(self) -> Principal:
        return self.client.access.principal

    def is_allowed(self, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Whether the sender may do this on a topic, group, transactional id, token or user."""
        return self.client.access.is_allowed(operation, resource, name, api_key=self.api_key)

    def is_visible(self, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """The same for a resource that the request does not name: a list is filtered by it, or authorized operations
        are collected, so that a denial is nothing to report."""
        return self.client.access.is_allowed(operation, resource, name, is_logged=False)

    def is_allowed_on_cluster(self, operation: AclOperation) -> bool:
        return self.client.access.is_allowed(
            operation, AclResource.CLUSTER, CLUSTER_RESOURCE_NAME, api_key=self.api_key
        )

    def is_allowed_on_any(self, operation: AclOperation, resource: AclResource) -> bool:
        """Whether there is any resource of this type on which the sender may do this (KIP-679)."""
        return self.client.access.is_allowed_on_any(operation, resource)


BoundHandler = Callable[[Any, Caller], Any]
"""An API's handler together with the rooms that it needs."""
