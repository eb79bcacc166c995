"""ShareGroupDescribe v1 (KIP-932): share groups, their members and what these have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.broker.apis.described_groups import DescribedKind, describe_groups
from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def share_group_describe(request: ShareGroupDescribeRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    return describe_groups(KIND, request, _request_for, groups.is_share_protocol_enabled, groups, caller)


def _request_for(group_ids: list[str]) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest(group_ids=group_ids)


def _topics(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        yield from member.subscribed_topic_names
        yield from (assigned.topic_name for assigned in member.assignment.topic_partitions)


KIND = DescribedKind(GroupShard.share_group_describe, DescribedGroup, ShareGroupDescribeResponse, _topics)

api = Api(
    key=77,
    handler=share_group_describe,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.GROUP),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
    ),
)
