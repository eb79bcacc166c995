"""Share groups (KIP-932): their members, the offsets at which their records begin, and their deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.calls import AdminCalls, outcome
from ottla.client.admin.groups import GroupCalls, GroupDescription, GroupMember
from ottla.client.cluster import CoordinatorType
from ottla.client.core.partitions import by_topic
from ottla.client.errors import KafkaError, error_of
from ottla.client.metadata import TopicPartition
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)
from ottla.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


class SharePartitionOffset(NamedTuple):
    """Where a share group is in a partition."""

    start_offset: int
    """The first offset that is not done with; -1 before the first member read the partition."""
    leader_epoch: int
    lag: int | None
    """Records that are not yet acknowledged (KIP-1226); None if the broker does not report it."""


class ShareGroupCalls(GroupCalls, AdminCalls):
    async def describe_share_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """State and members of share groups.

        Example:

            described = await admin.describe_share_groups(["workers"])
            print(described["workers"].state)
        """

        async def ask(left: dict[str, None]) -> dict[str, GroupDescription | KafkaError]:
            answers: dict[str, GroupDescription | KafkaError] = {}
            for group_id in left:
                coordinator_id = await self._cluster.coordinator(group_id, CoordinatorType.GROUP)
                response: ShareGroupDescribeResponse = await self._ask_coordinator(
                    CoordinatorType.GROUP, group_id, ShareGroupDescribeRequest(group_ids=[group_id])
                )
                for one in response.groups:
                    self._forget_moved(CoordinatorType.GROUP, group_id, one.error_code)
                    described = _share_group(one, coordinator_id)
                    answers[one.group_id] = outcome(one.error_code, one.error_message, described)
            return answers

        return await self._each(dict.fromkeys(group_ids), ask)

    async def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, SharePartitionOffset]:
        """Start offsets and lag of a share group, of all partitions that it has read or of these.

        Example:

            for partition, at in (await admin.list_share_group_offsets("workers")).items():
                print(partition, at.start_offset, at.lag)
        """
        topics = None
        if partitions is not None:
            topics = [
                DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=list(numbers))
                for topic, numbers in by_topic(partitions).items()
            ]

        async def ask() -> dict[TopicPartition, SharePartitionOffset]:
            request = DescribeShareGroupOffsetsRequest(
                groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)]
            )
            response: DescribeShareGroupOffsetsResponse = await self._ask_coordinator(
                CoordinatorType.GROUP, group_id, request
            )
            found: dict[TopicPartition, SharePartitionOffset] = {}
            for group in response.groups:
                if group.error_code:
                    self._forget_moved(CoordinatorType.GROUP, group_id, group.error_code)
                    raise error_of(group.error_code, group.error_message)
                for topic in group.topics:
                    for one in topic.partitions:
                        if one.error_code:
                            raise error_of(one.error_code, one.error_message)
                        found[TopicPartition(topic.topic_name, one.partition_index)] = SharePartitionOffset(
                            one.start_offset, one.leader_epoch, one.lag if one.lag >= 0 else None
                        )
            return found

        return await self._one(ask)

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Deliver the records of partitions again from these offsets on; the group must have no members.

        Example:

            await admin.alter_share_group_offsets("workers", {TopicPartition("orders", 0): 0})
        """

        async def ask(left: dict[TopicPartition, int]) -> dict[TopicPartition, KafkaError | None]:
            request = AlterShareGroupOffsetsRequest(
                group_id=group_id,
                topics=[
                    AlterShareGroupOffsetsRequestTopic(
                        topic_name=topic,
                        partitions=[
                            AlterShareGroupOffsetsRequestPartition(
                                partition_index=number, start_offset=left[TopicPartition(topic, number)]
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(left).items()
                ],
            )
            response: AlterShareGroupOffsetsResponse = await self._ask_coordinator(
                CoordinatorType.GROUP, group_id, request
            )
            if response.error_code:
                self._forget_moved(CoordinatorType.GROUP, group_id, response.error_code)
                raise error_of(response.error_code, response.error_message)
            return {
                TopicPartition(topic.topic_name, one.partition_index): outcome(one.error_code, one.error_message, None)
                for topic in response.responses
                for one in topic.partitions
            }

        await self._each(dict(offsets), ask)

    async def delete_share_group_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Forget what a share group has done in topics; the group must have no members.

        Example:

            await admin.delete_share_group_offsets("workers", ["orders"])
        """

        async def ask(left: dict[str, None]) -> dict[str, KafkaError | None]:
            request = DeleteShareGroupOffsetsRequest(
                group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in left]
            )
            response: DeleteShareGroupOffsetsResponse = await self._ask_coordinator(
                CoordinatorType.GROUP, group_id, request
            )
            if response.error_code:
                self._forget_moved(CoordinatorType.GROUP, group_id, response.error_code)
                raise error_of(response.error_code, response.error_message)
            return {one.topic_name: outcome(one.error_code, one.error_message, None) for one in response.responses}

        await self._each(dict.fromkeys(topics), ask)

    async def delete_share_groups(self, group_ids: Iterable[str]) -> None:
        """Delete share groups without members, and their state.

        Example:

            await admin.delete_share_groups(["workers"])
        """
        await self.delete_groups(group_ids)


def _share_group(group: DescribedGroup, coordinator_id: int) -> GroupDescription:
    members = tuple(
        GroupMember(
            member_id=one.member_id,
            group_instance_id=None,
            client_id=one.client_id,
            host=one.client_host,
            assignment=tuple(
                TopicPartition(topic.topic_name, number)
                for topic in one.assignment.topic_partitions
                for number in topic.partitions
            ),
            epoch=one.member_epoch,
            rack_id=one.rack_id,
            subscribed_topics=tuple(one.subscribed_topic_names),
        )
        for one in group.members
    )
    return GroupDescription(
        group.group_id,
        "share",
        group.group_state,
        group.assignor_name,
        members,
        coordinator_id,
        group.group_epoch,
        group.assignment_epoch,
    )
