"""DeleteGroups v0-v3: groups without members go, with all that they had committed. v3 says in words why not."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(request: DeleteGroupsRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    allowed, denied = caller.split(AclOperation.DELETE, AclResource.GROUP, dict.fromkeys(request.groups_names), str)
    refused = _refused(_request_for(denied), KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))

    def answer(results: list[DeletableGroupResult]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=results + refused)

    return groups.run_for_each(
        allowed,
        GroupShard.delete_groups,
        _request_for,
        groups.call(caller),
        _refused,
        _results,
        answer,
    )


def _request_for(group_ids: list[str]) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=group_ids)


def _results(request: DeleteGroupsRequest, response: DeleteGroupsResponse) -> list[DeletableGroupResult]:
    return response.results


def _refused(request: DeleteGroupsRequest, error: KafkaError) -> list[DeletableGroupResult]:
    return [
        DeletableGroupResult(group_id=group_id, error_code=error.code, error_message=error.message)
        for group_id in request.groups_names
    ]


api = Api(key=42, handler=delete_groups, needs=(Need(AclOperation.DELETE, AclResource.GROUP),))
