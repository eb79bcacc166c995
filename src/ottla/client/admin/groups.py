"""Groups: their members, committed offsets and lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ottla.client.admin.calls import AdminCalls, outcome
from ottla.client.admin.topics import TopicCalls
from ottla.client.cluster import CoordinatorType
from ottla.client.core.isolation import IsolationLevel
from ottla.client.core.offsets import (
    OffsetAndMetadata,
    plan_commit,
    read_commit,
    read_offset_fetch,
    shape_offset_fetch,
)
from ottla.client.core.partitions import by_topic
from ottla.client.errors import ErrorCode, KafkaError, UnsupportedByBroker, error_of
from ottla.client.metadata import TopicPartition
from ottla.wire import WireError
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribedGroup as DescribedClassicGroup
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.primitives import ZERO_UUID
from ottla.wire.sentinels import LATEST_TIMESTAMP
from ottla.wire.sink_decisions import is_sink_decision

_OFFSET_FETCH = 9
_LAST_VERSION_WITH_NAMES = 9


class GroupListing(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    """Empty if the broker is too old to tell."""
    type: str
    """`Classic`, `Consumer`, `Share` or `Streams`; empty if the broker is too old to tell."""


class GroupMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    """Where the group's plan sends it, in groups that the broker plans."""
    epoch: int | None = None
    rack_id: str | None = None
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None
    is_upgraded: bool | None = None
    """Whether it speaks the consumer protocol, in a group that moves to it; None if the broker does not report it."""


class GroupDescription(NamedTuple):
    group_id: str
    type: str
    """`classic` or `consumer`: the protocol of the group."""
    state: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator_id: int
    epoch: int | None = None
    target_assignment_epoch: int | None = None
    """The epoch of the plan that members move to, in groups that the broker plans."""


class PartitionLag(NamedTuple):
    """How far a group is behind the end of a partition."""

    committed: int | None
    end: int
    lag: int | None
    """None where nothing was committed, or where the offset counts the batches of an exactly-once Spark sink."""


class GroupCalls(TopicCalls, AdminCalls):
    async def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """All groups of all brokers, or those of these states and types.

        Example:

            for group in await admin.list_groups(states=["Stable"]):
                print(group.group_id)
        """

        async def ask() -> list[GroupListing]:
            found: dict[str, GroupListing] = {}
            for node_id in await self._brokers():
                request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
                response: ListGroupsResponse = await self._cluster.send(node_id, request)
                if response.error_code:
                    raise error_of(response.error_code)
                for one in response.groups:
                    found[one.group_id] = GroupListing(one.group_id, one.protocol_type, one.group_state, one.group_type)
            return [found[group_id] for group_id in sorted(found)]

        return await self._one(ask)

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """State and members of groups of both protocols.

        Example:

            described = await admin.describe_groups(["billing"])
            print(described["billing"].state)
        """

        async def ask(left: dict[str, None]) -> dict[str, GroupDescription | KafkaError]:
            return {group_id: await self._describe_group(group_id) for group_id in left}

        return await self._each(dict.fromkeys(group_ids), ask)

    async def _describe_group(self, group_id: str) -> GroupDescription | KafkaError:
        """Described as a group of the consumer protocol, or, if the broker says that it is none, as a classic group."""
        coordinator_id = await self._cluster.coordinator(group_id, CoordinatorType.GROUP)
        try:
            response: ConsumerGroupDescribeResponse = await self._ask_coordinator(
                CoordinatorType.GROUP, group_id, ConsumerGroupDescribeRequest(group_ids=[group_id])
            )
            described = response.groups[0]
            if described.error_code == 0:
                return _consumer_group(described, coordinator_id)
            if described.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                self._forget_moved(CoordinatorType.GROUP, group_id, described.error_code)
                return error_of(described.error_code, described.error_message)
        except UnsupportedByBroker:
            pass
        classic: DescribeGroupsResponse = await self._ask_coordinator(
            CoordinatorType.GROUP, group_id, DescribeGroupsRequest(groups=[group_id])
        )
        found = classic.groups[0]
        if found.error_code:
            self._forget_moved(CoordinatorType.GROUP, group_id, found.error_code)
            return error_of(found.error_code, found.error_message or f"group {group_id}")
        if found.group_state == "Dead":
            return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        return _classic_group(found, coordinator_id)

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, and what they have committed.

        Example:

            await admin.delete_groups(["billing"])
        """

        async def ask(left: dict[str, None]) -> dict[str, KafkaError | None]:
            answers: dict[str, KafkaError | None] = {}
            for group_id in left:
                response: DeleteGroupsResponse = await self._ask_coordinator(
                    CoordinatorType.GROUP, group_id, DeleteGroupsRequest(groups_names=[group_id])
                )
                for one in response.results:
                    self._forget_moved(CoordinatorType.GROUP, group_id, one.error_code)
                    answers[one.group_id] = outcome(one.error_code, f"group {one.group_id}: {_text(one)}", None)
            return answers

        await self._each(dict.fromkeys(group_ids), ask)

    async def group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed, for these partitions or for all.

        Example:

            for partition, committed in (await admin.group_offsets("billing")).items():
                print(partition, committed.offset)
        """
        wanted = None if partitions is None else by_topic(partitions)

        async def ask() -> dict[TopicPartition, OffsetAndMetadata]:
            node_id = await self._cluster.coordinator(group_id, CoordinatorType.GROUP)
            connection = await self._cluster.connection(node_id)
            version = connection.version_of(_OFFSET_FETCH, _LAST_VERSION_WITH_NAMES)
            request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=require_stable)
            group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
            if wanted is not None:
                request.topics = [
                    OffsetFetchRequestTopic(name=topic, partition_indexes=numbers) for topic, numbers in wanted.items()
                ]
                group.topics = [
                    OffsetFetchRequestTopics(name=topic, partition_indexes=numbers) for topic, numbers in wanted.items()
                ]
            request.groups = [group]
            shape_offset_fetch(request, version)
            response: OffsetFetchResponse = await self._ask_coordinator(
                CoordinatorType.GROUP, group_id, request, max_version=version
            )
            code, committed, refused = read_offset_fetch(response, lambda _: None)
            for failed in (code, *refused.values()):
                if failed:
                    self._forget_moved(CoordinatorType.GROUP, group_id, failed)
                    raise error_of(failed)
            return committed

        return await self._one(ask)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Set what a group has committed. It must have no members.

        Example:

            await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
        """

        async def ask(
            left: dict[TopicPartition, OffsetAndMetadata],
        ) -> dict[TopicPartition, KafkaError | None]:
            request, _ = plan_commit(group_id, left, topic_id=lambda _: ZERO_UUID)
            response = await self._ask_coordinator(
                CoordinatorType.GROUP, group_id, request, max_version=_LAST_VERSION_WITH_NAMES
            )
            refused = read_commit(response, lambda _: None)
            for code in refused.values():
                self._forget_moved(CoordinatorType.GROUP, group_id, code)
            return {
                partition: error_of(refused[partition], _because_of_members(refused[partition], group_id))
                if partition in refused
                else None
                for partition in left
            }

        given = {
            partition: OffsetAndMetadata(one) if isinstance(one, int) else one for partition, one in offsets.items()
        }
        await self._each(given, ask)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group has committed for partitions of topics it does not read.

        Example:

            await admin.delete_group_offsets("billing", [TopicPartition("orders", 0)])
        """

        async def ask(left: dict[TopicPartition, None]) -> dict[TopicPartition, KafkaError | None]:
            request = OffsetDeleteRequest(
                group_id=group_id,
                topics=[
                    OffsetDeleteRequestTopic(
                        name=topic,
                        partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
                    )
                    for topic, numbers in by_topic(left).items()
                ],
            )
            response: OffsetDeleteResponse = await self._ask_coordinator(CoordinatorType.GROUP, group_id, request)
            if response.error_code:
                self._forget_moved(CoordinatorType.GROUP, group_id, response.error_code)
                raise error_of(response.error_code)
            return {
                TopicPartition(topic.name, one.partition_index): outcome(one.error_code, None, None)
                for topic in response.topics
                for one in topic.partitions
            }

        await self._each(dict.fromkeys(partitions), ask)

    async def group_lag(
        self, group_id: str, *, isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[TopicPartition, PartitionLag]:
        """How far a group is behind, for every partition it has committed or reads now.

        With READ_COMMITTED the end is the last stable offset, and a short tail is counted by the records in it that a
        reader can get: transaction markers and aborted records are no lag.

        Example:

            for partition, behind in (await admin.group_lag("billing")).items():
                print(partition, behind.lag)
        """
        committed = await self.group_offsets(group_id)
        partitions = dict.fromkeys(committed)
        try:
            members = (await self.describe_groups([group_id]))[group_id].members
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND or not committed:
                raise
            members = ()  # a streams group, of which all that was committed is known
        for member in members:
            partitions.update(dict.fromkeys(member.assignment))
        ends = await self.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP), isolation_level=isolation_level)
        lags = {}
        for partition in sorted(partitions):
            end = ends[partition].offset
            known = committed.get(partition)
            if known is None:
                lags[partition] = PartitionLag(None, end, None)
            elif is_sink_decision(known.metadata):
                lags[partition] = PartitionLag(known.offset, end, None)
            else:
                lags[partition] = PartitionLag(known.offset, end, max(end - known.offset, 0))
        if isolation_level is IsolationLevel.READ_COMMITTED:
            tails = {
                partition: (end - lag, end) for partition, (_, end, lag) in lags.items() if lag is not None and lag > 0
            }
            if tails:
                with suppress(KafkaError):  # what cannot be counted stays a difference of offsets
                    for partition, count in (await self._count_readable(tails)).items():
                        lags[partition] = lags[partition]._replace(lag=count)
        return lags

    async def _count_readable(self, tails: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
        from ottla.client.admin.tails import count_readable  # reads records, which few commands need

        counts: dict[TopicPartition, int] = {}
        for node_id, led in (await self._by_leader(tails)).items():
            counts |= await count_readable(self._cluster, node_id, {one: tails[one] for one in led})
        return counts

    async def remove_members(self, group_id: str, group_instance_ids: Iterable[str], *, reason: str = "") -> None:
        """Make static members leave a group at once.

        Example:

            await admin.remove_members("billing", ["instance-1"], reason="its machine is gone")
        """

        async def ask(left: dict[str, None]) -> dict[str, KafkaError | None]:
            request = LeaveGroupRequest(
                group_id=group_id,
                members=[MemberIdentity(group_instance_id=one, reason=reason or None) for one in left],
            )
            response: LeaveGroupResponse = await self._ask_coordinator(CoordinatorType.GROUP, group_id, request)
            if response.error_code:
                self._forget_moved(CoordinatorType.GROUP, group_id, response.error_code)
                raise error_of(response.error_code)
            return {one.group_instance_id or "": outcome(one.error_code, None, None) for one in response.members}

        await self._each(dict.fromkeys(group_instance_ids), ask)


def _text(result: Any) -> str:
    return error_of(result.error_code).code.text


def _because_of_members(code: ErrorCode, group_id: str) -> str | None:
    if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH):
        return f"group {group_id} has members: stop them first"
    return None


def _assigned(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions
    )


def _consumer_group(group: DescribedConsumerGroup, coordinator_id: int) -> GroupDescription:
    members = tuple(
        GroupMember(
            one.member_id,
            one.instance_id,
            one.client_id,
            one.client_host,
            _assigned(one.assignment),
            _assigned(one.target_assignment),
            one.member_epoch,
            one.rack_id,
            tuple(one.subscribed_topic_names),
            one.subscribed_topic_regex or None,
            None if one.member_type < 0 else one.member_type == 1,
        )
        for one in group.members
    )
    return GroupDescription(
        group.group_id,
        "consumer",
        group.group_state,
        group.assignor_name,
        members,
        coordinator_id,
        group.group_epoch,
        group.assignment_epoch,
    )


def _classic_group(group: DescribedClassicGroup, coordinator_id: int) -> GroupDescription:
    # Imported here: few programs describe classic groups, and the import loads all assignors.
    from ottla.client.core.consumer_protocol import decode_assignment

    members = []
    for one in group.members:
        assignment: tuple[TopicPartition, ...] = ()
        if group.protocol_type == "consumer" and one.member_assignment:
            try:
                assignment = tuple(decode_assignment(bytes(one.member_assignment)))
            except (WireError, KafkaError):
                assignment = ()
        members.append(GroupMember(one.member_id, one.group_instance_id, one.client_id, one.client_host, assignment))
    return GroupDescription(
        group.group_id, "classic", group.group_state, group.protocol_data, tuple(members), coordinator_id
    )
