"""Streams groups (KIP-1071): the topologies, members and tasks of Kafka Streams applications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.calls import AdminCalls, outcome
from ottla.client.admin.groups import GroupCalls
from ottla.client.cluster import CoordinatorType
from ottla.client.errors import KafkaError
from ottla.client.metadata import TopicPartition
from ottla.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopologyDescription,
    TopologyDescriptionNode,
)

NODE_KINDS = {1: "source", 2: "processor", 3: "sink"}


class StreamsTasks(NamedTuple):
    """Tasks of a member: partitions by subtopology id."""

    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]
    warmup: Mapping[str, tuple[int, ...]]


class StreamsGroupMember(NamedTuple):
    """A thread of an application."""

    member_id: str
    process_id: str
    """The same for all threads of a process."""
    client_id: str
    host: str
    epoch: int
    topology_epoch: int
    assignment: StreamsTasks
    target_assignment: StreamsTasks
    rack_id: str | None
    tags: Mapping[str, str]
    endpoint: tuple[str, int] | None
    """Host and port for Interactive Queries."""
    is_classic: bool


class StreamsSubtopology(NamedTuple):
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: Mapping[str, int]
    """Partitions by topic."""
    changelog_topics: Mapping[str, int]
    """Partitions by topic."""


class StreamsNode(NamedTuple):
    """A node of a described topology."""

    name: str
    kind: str
    """`source`, `processor` or `sink`."""
    topics: tuple[str, ...]
    """The topics that a source reads or a sink writes; empty if the application decides record by record."""
    stores: tuple[str, ...]
    successors: tuple[str, ...]


class StreamsTopologyDescription(NamedTuple):
    """The topology as `Topology.describe()` of Kafka Streams prints it (KIP-1331)."""

    subtopologies: Mapping[str, tuple[StreamsNode, ...]]
    global_stores: tuple[tuple[StreamsNode, StreamsNode], ...]
    """Source and processor of each."""


class StreamsGroupDescription(NamedTuple):
    group_id: str
    state: str
    epoch: int
    target_assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]
    members: tuple[StreamsGroupMember, ...]
    coordinator_id: int
    assignor: str
    """Empty if the broker is too old to tell."""
    topology_description: StreamsTopologyDescription | None = None
    """None unless it was asked for and the broker keeps it."""
    type: str = "streams"

    def partitions_of(self, member: StreamsGroupMember) -> tuple[TopicPartition, ...]:
        """The topics and partitions that a member reads for its active tasks."""
        inputs = {
            one.subtopology_id: (*one.source_topics, *one.repartition_source_topics) for one in self.subtopologies
        }
        return tuple(
            TopicPartition(topic, number)
            for subtopology_id, numbers in member.assignment.active.items()
            for topic in inputs.get(subtopology_id, ())
            for number in numbers
        )


class StreamsGroupCalls(GroupCalls, AdminCalls):
    async def describe_streams_groups(
        self, group_ids: Iterable[str], *, with_topology: bool = False
    ) -> dict[str, StreamsGroupDescription]:
        """State, topology, members and tasks of streams groups. Offsets are those of every group: `group_offsets`,
        `alter_group_offsets` and `delete_group_offsets`. With `with_topology` also the description of the topology
        that brokers of Kafka 4.4 may keep.

        Example:

            for group in (await admin.describe_streams_groups(["word-count"])).values():
                print(group.state, [member.assignment.active for member in group.members])
        """

        async def ask(left: dict[str, None]) -> dict[str, StreamsGroupDescription | KafkaError]:
            answers: dict[str, StreamsGroupDescription | KafkaError] = {}
            for group_id in left:
                coordinator_id = await self._cluster.coordinator(group_id, CoordinatorType.GROUP)
                response: StreamsGroupDescribeResponse = await self._ask_coordinator(
                    CoordinatorType.GROUP,
                    group_id,
                    StreamsGroupDescribeRequest(group_ids=[group_id], include_topology_description=with_topology),
                )
                for one in response.groups:
                    self._forget_moved(CoordinatorType.GROUP, group_id, one.error_code)
                    described = _streams_group(one, coordinator_id)
                    answers[one.group_id] = outcome(one.error_code, one.error_message, described)
            return answers

        return await self._each(dict.fromkeys(group_ids), ask)


def _streams_group(group: DescribedGroup, coordinator_id: int) -> StreamsGroupDescription:
    topology = group.topology
    return StreamsGroupDescription(
        group.group_id,
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        -1 if topology is None else topology.epoch,
        tuple(map(_subtopology, (None if topology is None else topology.subtopologies) or ())),
        tuple(map(_member, group.members)),
        coordinator_id,
        group.assignor_name or "",
        None if group.topology_description is None else _description(group.topology_description),
    )


def _description(described: TopologyDescription) -> StreamsTopologyDescription:
    return StreamsTopologyDescription(
        {one.subtopology_id: tuple(map(_node, one.nodes)) for one in described.subtopologies},
        tuple((_node(one.source), _node(one.processor)) for one in described.global_stores),
    )


def _node(node: TopologyDescriptionNode) -> StreamsNode:
    topics = tuple(node.source_topics) if node.sink_topic is None else (node.sink_topic,)
    kind = NODE_KINDS.get(node.node_type, str(node.node_type))
    return StreamsNode(node.name, kind, topics, tuple(node.stores), tuple(node.successors))


def _subtopology(one: Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        one.subtopology_id,
        tuple(one.source_topics),
        tuple(one.repartition_sink_topics),
        {topic.name: topic.partitions for topic in one.repartition_source_topics},
        {topic.name: topic.partitions for topic in one.state_changelog_topics},
    )


def _member(one: Member) -> StreamsGroupMember:
    endpoint = one.user_endpoint
    return StreamsGroupMember(
        one.member_id,
        one.process_id,
        one.client_id,
        one.client_host,
        one.member_epoch,
        one.topology_epoch,
        _tasks(one.assignment),
        _tasks(one.target_assignment),
        one.rack_id,
        {tag.key: tag.value for tag in one.client_tags},
        None if endpoint is None else (endpoint.host, endpoint.port),
        one.is_classic,
    )


def _tasks(assignment: Assignment) -> StreamsTasks:
    return StreamsTasks(
        _partitions(assignment.active_tasks),
        _partitions(assignment.standby_tasks),
        _partitions(assignment.warmup_tasks),
    )


def _partitions(rows: Iterable[TaskIds]) -> dict[str, tuple[int, ...]]:
    return {row.subtopology_id: tuple(row.partitions) for row in rows}
