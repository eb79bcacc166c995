"""AlterConfigs v0-v2, the older way: a resource gets exactly the settings of the request, all others go back."""

from __future__ import annotations

from collections import Counter

from ottla.broker.apis.config_changes import check_configs, check_is_allowed, decide, is_for_controller
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.controller import Controller
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def alter_configs(
    request: AlterConfigsRequest, ground: Ground, metadata: Metadata, caller: Caller
) -> AlterConfigsResponse:
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    answers: list[AlterConfigsResourceResponse | None] = []
    forwarded: list[AlterConfigsResource] = []
    for resource in request.resources:
        try:
            if named[resource.resource_type, resource.resource_name] == 1:
                check_is_allowed(caller, resource.resource_type, resource.resource_name)
                if not is_for_controller(caller):
                    _check(resource, ground)
        except KafkaError as error:
            answers.append(
                AlterConfigsResourceResponse(
                    error_code=error.code,
                    error_message=error.message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
            continue
        answers.append(None)
        forwarded.append(resource)
    decided = []
    if forwarded:
        rest_of_it = AlterConfigsRequest(resources=forwarded, validate_only=request.validate_only)
        decided = (await decide(metadata, caller, rest_of_it, Controller.alter_configs)).responses
    rest = iter(decided)
    return AlterConfigsResponse(responses=[answer or next(rest) for answer in answers])


def _check(resource: AlterConfigsResource, ground: Ground) -> None:
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    absent = [config.name for config in resource.configs if config.value is None]
    if absent:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Null value not supported for : " + ", ".join(absent))
    after = {config.name: config.value for config in resource.configs if config.value is not None}
    check_configs(ground, resource.resource_type, resource.resource_name, after)


api = Api(
    key=33,
    handler=alter_configs,
    needs=(
        Need(AclOperation.ALTER_CONFIGS, AclResource.TOPIC),
        Need(AclOperation.ALTER_CONFIGS, AclResource.GROUP),
        Need(AclOperation.ALTER_CONFIGS, AclResource.CLUSTER),
    ),
    is_checked_then_forwarded=True,
)
