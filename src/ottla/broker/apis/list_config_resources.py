"""ListConfigResources v0-v1: the names of what can have settings. Version 0 only knows client metrics subscriptions."""

from __future__ import annotations

from ottla.broker.apis.describe_configs import BROKER_LOGGER_RESOURCE
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, cluster_wide
from ottla.cluster.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.wire.acls import AclOperation
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

ALL_TYPES = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


def list_config_resources(
    request: ListConfigResourcesRequest, ground: Ground, caller: Caller
) -> ListConfigResourcesResponse:
    kinds = list(dict.fromkeys(request.resource_types))
    if caller.api_version == 0:
        kinds = [CLIENT_METRICS_RESOURCE]
    elif not kinds:
        kinds = list(ALL_TYPES)
    if any(kind not in ALL_TYPES for kind in kinds):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind) for kind in kinds for name in _names(kind, ground)
        ]
    )


def _names(kind: int, ground: Ground) -> list[str]:
    if kind == TOPIC_RESOURCE:
        return list(ground.image.topics_by_name)
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        return [str(broker.id) for broker in ground.image.brokers.values() if not broker.is_fenced]
    return [name for configured, name in ground.image.configs if configured == kind]


api = Api(key=74, handler=list_config_resources, needs=cluster_wide(AclOperation.DESCRIBE_CONFIGS))
