"""DeleteGroups v0-v3: deletes groups without members, with their offsets. v3 has an error message."""

from __future__ import annotations

import inspect
from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.coordinators.share_offsets import ShareOffsets
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(
    request: DeleteGroupsRequest, groups: GroupCoordinator, share_offsets: ShareOffsets, caller: Caller
) -> Any:
    allowed, denied = caller.split(AclOperation.DELETE, AclResource.GROUP, dict.fromkeys(request.groups_names), str)
    refused = _refused(_request_for(denied), KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if share_offsets.of_empty_groups(allowed):
        return _delete_with_states(allowed, refused, groups, share_offsets, caller)
    return _delete(allowed, refused, groups, caller)


async def _delete_with_states(
    group_ids: list[str],
    refused: list[DeletableGroupResult],
    groups: GroupCoordinator,
    share_offsets: ShareOffsets,
    caller: Caller,
) -> DeleteGroupsResponse:
    """Delete the states of share groups first: the deletion of a group without states can be repeated, but states
    without a group would remain for ever.
    """
    failed = await share_offsets.delete_states(group_ids)
    refused += [
        DeletableGroupResult(group_id=group_id, error_code=error.code, error_message=error.message)
        for group_id, error in failed.items()
    ]
    answer = _delete([group_id for group_id in group_ids if group_id not in failed], refused, groups, caller)
    response: DeleteGroupsResponse = await answer if inspect.isawaitable(answer) else answer
    return response


def _delete(allowed: list[str], refused: list[DeletableGroupResult], groups: GroupCoordinator, caller: Caller) -> Any:

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
