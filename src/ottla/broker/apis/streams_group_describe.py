"""StreamsGroupDescribe v0-v1 (KIP-1071): streams groups, their topologies, members and tasks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ottla.broker.apis.described_groups import DescribedKind, describe_groups
from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def streams_group_describe(request: StreamsGroupDescribeRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    request_for = partial(_request_for, request)
    return describe_groups(KIND, request, request_for, groups.is_streams_protocol_enabled, groups, caller)


def _request_for(request: StreamsGroupDescribeRequest, group_ids: list[str]) -> StreamsGroupDescribeRequest:
    return StreamsGroupDescribeRequest(
        group_ids=group_ids, include_topology_description=request.include_topology_description
    )


def _topics(group: DescribedGroup) -> Iterator[str]:
    """Every topic of the topology."""
    topology = group.topology
    for subtopology in (topology.subtopologies if topology is not None else None) or ():
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        yield from (topic.name for topic in subtopology.repartition_source_topics)
        yield from (topic.name for topic in subtopology.state_changelog_topics)


KIND = DescribedKind(
    GroupShard.streams_group_describe,
    DescribedGroup,
    StreamsGroupDescribeResponse,
    _topics,
    "The described group uses topics that the client is not authorized to describe.",
)

api = Api(
    key=89,
    handler=streams_group_describe,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.GROUP),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
    ),
)
