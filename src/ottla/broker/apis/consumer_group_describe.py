"""ConsumerGroupDescribe v0-v1 (KIP-848): consumer groups, their members, and each member's present and target
assignment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.broker.apis.described_groups import DescribedKind, describe_groups
from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def consumer_group_describe(request: ConsumerGroupDescribeRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    return describe_groups(KIND, request, _request_for, groups.is_consumer_protocol_enabled, groups, caller)


def _request_for(group_ids: list[str]) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=group_ids)


def _topics(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        yield from member.subscribed_topic_names
        for assignment in (member.assignment, member.target_assignment):
            yield from (assigned.topic_name for assigned in assignment.topic_partitions)


KIND = DescribedKind(GroupShard.consumer_group_describe, DescribedGroup, ConsumerGroupDescribeResponse, _topics)

api = Api(
    key=69,
    handler=consumer_group_describe,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.GROUP),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
    ),
)
