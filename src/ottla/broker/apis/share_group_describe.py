"""ShareGroupDescribe v1 (KIP-932): share groups, their members and what these have."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def share_group_describe(request: ShareGroupDescribeRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    if not groups.is_share_protocol_enabled:
        return ShareGroupDescribeResponse(groups=_refused(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION)))
    allowed, denied = caller.split(AclOperation.DESCRIBE, AclResource.GROUP, request.group_ids, str)
    refused = _refused(_request_for(denied), KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    refused += [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID) for group_id in allowed if not group_id
    ]

    def answer(described: list[DescribedGroup]) -> ShareGroupDescribeResponse:
        if request.include_authorized_operations:
            for group in described:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = caller.authorized_operations(AclResource.GROUP, group.group_id)
        return ShareGroupDescribeResponse(groups=refused + [_without_hidden(group, caller) for group in described])

    return groups.run_for_each(
        [group_id for group_id in allowed if group_id],
        GroupShard.share_group_describe,
        _request_for,
        groups.call(caller),
        _refused,
        _groups,
        answer,
    )


def _without_hidden(group: DescribedGroup, caller: Caller) -> DescribedGroup:
    """The group, if the caller may describe all of its topics; otherwise an error without its members."""
    topics = {
        name
        for member in group.members
        for name in (
            *member.subscribed_topic_names,
            *(assigned.topic_name for assigned in member.assignment.topic_partitions),
        )
    }
    if all(map(caller.may_describe_topic, topics)):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has described topic(s) that the client is not authorized to describe.",
    )


def _request_for(group_ids: list[str]) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest(group_ids=group_ids)


def _groups(request: ShareGroupDescribeRequest, response: ShareGroupDescribeResponse) -> list[DescribedGroup]:
    return response.groups


def _refused(request: ShareGroupDescribeRequest, error: KafkaError) -> list[DescribedGroup]:
    return [DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.group_ids]


api = Api(
    key=77,
    handler=share_group_describe,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.GROUP),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
    ),
)
