"""StreamsGroupDescribe v0-v1 (KIP-1071): streams groups, their topologies, members and tasks."""

from __future__ import annotations

from functools import partial
from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def streams_group_describe(request: StreamsGroupDescribeRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    if not groups.is_streams_protocol_enabled:
        return StreamsGroupDescribeResponse(groups=_refused(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION)))
    allowed, denied = caller.split(AclOperation.DESCRIBE, AclResource.GROUP, request.group_ids, str)
    request_for = partial(_request_for, request)
    refused = _refused(request_for(denied), KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    refused += [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID) for group_id in allowed if not group_id
    ]

    def answer(described: list[DescribedGroup]) -> StreamsGroupDescribeResponse:
        if request.include_authorized_operations:
            for group in described:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = caller.authorized_operations(AclResource.GROUP, group.group_id)
        return StreamsGroupDescribeResponse(groups=refused + [_without_hidden(group, caller) for group in described])

    return groups.run_for_each(
        [group_id for group_id in allowed if group_id],
        GroupShard.streams_group_describe,
        request_for,
        groups.call(caller),
        _refused,
        _groups,
        answer,
    )


def _without_hidden(group: DescribedGroup, caller: Caller) -> DescribedGroup:
    """The group, if the caller may describe every topic of its topology; otherwise an error without its content."""
    topology = group.topology
    topics = {
        name
        for subtopology in (topology.subtopologies if topology is not None else None) or ()
        for name in (
            *subtopology.source_topics,
            *subtopology.repartition_sink_topics,
            *(topic.name for topic in subtopology.repartition_source_topics),
            *(topic.name for topic in subtopology.state_changelog_topics),
        )
    }
    if all(map(caller.may_describe_topic, topics)):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The described group uses topics that the client is not authorized to describe.",
    )


def _request_for(request: StreamsGroupDescribeRequest, group_ids: list[str]) -> StreamsGroupDescribeRequest:
    return StreamsGroupDescribeRequest(
        group_ids=group_ids, include_topology_description=request.include_topology_description
    )


def _groups(request: StreamsGroupDescribeRequest, response: StreamsGroupDescribeResponse) -> list[DescribedGroup]:
    return response.groups


def _refused(request: StreamsGroupDescribeRequest, error: KafkaError) -> list[DescribedGroup]:
    return [DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.group_ids]


api = Api(
    key=89,
    handler=streams_group_describe,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.GROUP),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
    ),
)
