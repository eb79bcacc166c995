"""ConsumerGroupDescribe v0-v1 (KIP-848): consumer groups, their members, what these have and what they will have."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GROUP_OPERATIONS, GroupCoordinator
from ottla.broker.serving.api import Api
from ottla.groups.shard import GroupShard
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def consumer_group_describe(request: ConsumerGroupDescribeRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    if not groups.is_consumer_protocol_enabled:
        return ConsumerGroupDescribeResponse(groups=_refused(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION)))
    nameless = [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
        for group_id in request.group_ids
        if not group_id
    ]

    def answer(described: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        if request.include_authorized_operations:
            for group in described:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=nameless + described)

    return groups.run_for_each(
        [group_id for group_id in request.group_ids if group_id],
        GroupShard.consumer_group_describe,
        _request_for,
        groups.call(caller),
        _refused,
        _groups,
        answer,
    )


def _request_for(group_ids: list[str]) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=group_ids)


def _groups(request: ConsumerGroupDescribeRequest, response: ConsumerGroupDescribeResponse) -> list[DescribedGroup]:
    return response.groups


def _refused(request: ConsumerGroupDescribeRequest, error: KafkaError) -> list[DescribedGroup]:
    return [DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.group_ids]


api = Api(key=69, handler=consumer_group_describe)
