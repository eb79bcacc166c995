"""IncrementalAlterConfigs v0-v1: change single settings, in the metadata log. Log levels change here and now."""

from __future__ import annotations

from collections import Counter

from ottla.broker.apis.config_changes import check_configs, check_is_allowed, configs_after, decide, is_for_controller
from ottla.broker.apis.describe_configs import BROKER_LOGGER_RESOURCE, check_is_this_node
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving import loggers
from ottla.broker.serving.api import Api, Need
from ottla.controller import Controller
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ground: Ground, metadata: Metadata, caller: Caller
) -> IncrementalAlterConfigsResponse:
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    answers: list[AlterConfigsResourceResponse | None] = []
    forwarded: list[AlterConfigsResource] = []
    for resource in request.resources:
        try:
            is_done = False
            if named[resource.resource_type, resource.resource_name] == 1:
                check_is_allowed(caller, resource.resource_type, resource.resource_name)
                if not is_for_controller(caller):
                    is_done = _check(resource, ground, validate_only=request.validate_only)
        except KafkaError as error:
            answers.append(_answer(resource, error.code, error.message))
            continue
        if is_done:
            answers.append(_answer(resource, ErrorCode.NONE, None))
        else:
            answers.append(None)
            forwarded.append(resource)
    decided = []
    if forwarded:
        rest_of_it = IncrementalAlterConfigsRequest(resources=forwarded, validate_only=request.validate_only)
        decided = (await decide(metadata, caller, rest_of_it, Controller.incremental_alter_configs)).responses
    rest = iter(decided)
    return IncrementalAlterConfigsResponse(responses=[answer or next(rest) for answer in answers])


def _check(resource: AlterConfigsResource, ground: Ground, *, validate_only: bool) -> bool:
    """Whether this broker handles the resource without the controller. KafkaError if it refuses it."""
    kind, name = resource.resource_type, resource.resource_name
    if len({config.name for config in resource.configs}) != len(resource.configs):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if kind == BROKER_LOGGER_RESOURCE:
        check_is_this_node(name, ground)
        for config in resource.configs:
            loggers.check_change(config.name, config.config_operation, config.value)
        if not validate_only:
            for config in resource.configs:
                loggers.change(config.name, config.config_operation, config.value)
        return True
    check_configs(ground, kind, name, configs_after(ground, kind, name, resource.configs))
    return False


def _answer(resource: AlterConfigsResource, code: ErrorCode, message: str | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


api = Api(
    key=44,
    handler=incremental_alter_configs,
    needs=(
        Need(AclOperation.ALTER_CONFIGS, AclResource.TOPIC),
        Need(AclOperation.ALTER_CONFIGS, AclResource.GROUP),
        Need(AclOperation.ALTER_CONFIGS, AclResource.CLUSTER),
    ),
    is_checked_then_forwarded=True,
)
