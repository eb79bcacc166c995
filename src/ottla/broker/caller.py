"""The client and the permissions behind a request, as handlers see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ottla.broker.access import EVERYTHING, Access
from ottla.security.principal import Principal
from ottla.wire.acls import CLUSTER_RESOURCE_NAME, SUPPORTED_OPERATIONS, AclOperation, AclResource

Thing = TypeVar("Thing")


class ClientLogin(Protocol):
    """What SaslHandshake, SaslAuthenticate and the connection ask of its login (`serving.login`)."""

    def handshake(self, request: Any, caller: Caller) -> Any: ...
    def authenticate(self, request: Any, caller: Caller) -> Any: ...
    def closed(self) -> None: ...


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
    """On a controller's listener: the broker whose heartbeats come through this connection."""
    access: Access = EVERYTHING
    """What the principal of this connection may do; replaced when a login ends."""
    login: ClientLogin | None = None
    """On a SASL listener: the login under way, or the session if it expires."""


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
    """Whether a broker forwarded the request, and has made the checks that concern brokers."""
    done_in_order: asyncio.Future[Any] | None = None
    """A handler sets it if the client's next request must not be started before this is done."""
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
        """As `is_allowed`, for a resource that the request does not name (an entry of a list, authorized operations): a
        denial is not logged."""
        return self.client.access.is_allowed(operation, resource, name, is_logged=False)

    def is_allowed_on_cluster(self, operation: AclOperation, *, is_logged: bool = True) -> bool:
        """`is_logged` False: another permission will do as well, so that a denial of this one is nothing to report."""
        return self.client.access.is_allowed(
            operation, AclResource.CLUSTER, CLUSTER_RESOURCE_NAME, api_key=self.api_key, is_logged=is_logged
        )

    def is_allowed_on_any(self, operation: AclOperation, resource: AclResource) -> bool:
        """Whether there is any resource of this type on which the sender may do this (KIP-679)."""
        return self.client.access.is_allowed_on_any(operation, resource)

    def may_describe_topic(self, name: str) -> bool:
        return self.is_allowed(AclOperation.DESCRIBE, AclResource.TOPIC, name)

    def is_topic_visible(self, name: str) -> bool:
        return self.is_visible(AclOperation.DESCRIBE, AclResource.TOPIC, name)

    def split(
        self,
        operation: AclOperation,
        resource: AclResource,
        things: Iterable[Thing],
        name: Callable[[Thing], str | None],
        *,
        is_logged: bool = True,
    ) -> tuple[list[Thing], list[Thing]]:
        """The things on which the sender may do this, and the others. A thing without a name is in the first list: the
        handler answers with its error. `is_logged` False: a list is filtered, whose things were not asked for.
        """
        access = self.client.access
        if access.authorizer is None:
            return list(things), []
        allowed: list[Thing] = []
        denied: list[Thing] = []
        for thing in things:
            named = name(thing)
            is_allowed = named is None or access.is_allowed(
                operation, resource, named, api_key=self.api_key, is_logged=is_logged
            )
            (allowed if is_allowed else denied).append(thing)
        return allowed, denied

    def authorized_operations(self, resource: AclResource, name: str = CLUSTER_RESOURCE_NAME) -> int:
        """What the sender may do with a topic, group or the cluster, as the bits of an AuthorizedOperations field."""
        return sum(
            1 << operation for operation in SUPPORTED_OPERATIONS[resource] if self.is_visible(operation, resource, name)
        )

    def cluster_operations(self) -> int:
        """What the sender may do with the cluster, as such bits; 0 if it may not describe the cluster."""
        if not self.is_allowed_on_cluster(AclOperation.DESCRIBE):
            return 0
        return self.authorized_operations(AclResource.CLUSTER)


BoundHandler = Callable[[Any, Caller], Any]
"""An API's handler together with the rooms that it needs."""
