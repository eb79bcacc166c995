"""DescribeGroups v0-v6: classic groups with their members and what each of them reads."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse


def describe_groups(request: DescribeGroupsRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    allowed, denied = caller.split(AclOperation.DESCRIBE, AclResource.GROUP, request.groups, str)

    def answer(described: list[DescribedGroup]) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            for group in described:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = caller.authorized_operations(AclResource.GROUP, group.group_id)
        refused = _refused(_request_for(denied), KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return DescribeGroupsResponse(groups=refused + described)

    return groups.run_for_each(
        allowed, GroupShard.describe_groups, _request_for, groups.call(caller), _refused, _groups, answer
    )


def _request_for(group_ids: list[str]) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=group_ids)


def _groups(request: DescribeGroupsRequest, response: DescribeGroupsResponse) -> list[DescribedGroup]:
    return response.groups


def _refused(request: DescribeGroupsRequest, error: KafkaError) -> list[DescribedGroup]:
    return [DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.groups]


api = Api(key=15, handler=describe_groups, needs=(Need(AclOperation.DESCRIBE, AclResource.GROUP),))
