"""Which permission the settings of a resource need: those of a topic or group, on it; all others, on the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.acls import CLUSTER_RESOURCE_NAME, AclOperation, AclResource
from ottla.wire.config_resources import ResourceType
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.caller import Caller

_CLUSTER = (AclResource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_PROTECTED_BY: dict[int, tuple[AclResource, ErrorCode]] = {
    ResourceType.TOPIC: (AclResource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ResourceType.GROUP: (AclResource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ResourceType.BROKER: _CLUSTER,
    ResourceType.BROKER_LOGGER: _CLUSTER,
    ResourceType.CLIENT_METRICS: _CLUSTER,
}


def config_denial(caller: Caller, operation: AclOperation, kind: int, name: str) -> ErrorCode | None:
    """The error for a caller that may not do this with the settings of a resource. A type that does not exist is not
    refused here."""
    if kind not in _PROTECTED_BY:
        return None
    resource, code = _PROTECTED_BY[kind]
    if resource == AclResource.CLUSTER:
        name = CLUSTER_RESOURCE_NAME
    return None if caller.is_allowed(operation, resource, name) else code
