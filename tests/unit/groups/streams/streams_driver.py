"""A shard with streams groups, and members that behave as Kafka Streams does: they give up and take tasks as told."""

from __future__ import annotations

from typing import Any

from ottla.cluster import ImageChanges, PartitionImage, TopicImage
from ottla.config import GroupConfig
from ottla.groups import GroupShard
from ottla.groups.shard import GroupShard as Machine
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.tasks import TaskId, rows, task_set
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic
from ottla.wire.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestEndpoint,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.unit.groups.shard_driver import Shard, topic_id

SESSION_MS = 45_000
REBALANCE_MS = 60_000
PARTITION = PartitionImage((1,), (1,), (), (), 1, 0, 0, (bytes(16),))
SIMPLE = Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=["t"])])
STATEFUL = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(
            subtopology_id="0", source_topics=["t"], state_changelog_topics=[TopicInfo(name="g-store-changelog")]
        )
    ],
)
WORD_COUNT = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(subtopology_id="0", source_topics=["t"], repartition_sink_topics=["g-counts-repartition"]),
        Subtopology(
            subtopology_id="1",
            repartition_source_topics=[TopicInfo(name="g-counts-repartition")],
            state_changelog_topics=[
                TopicInfo(name="g-counts-changelog", topic_configs=[KeyValue(key="cleanup.policy", value="compact")])
            ],
        ),
    ],
)


class StreamsShard(Shard):
    """Topics have partitions; internal topics come when `create_missing` is called."""

    def __init__(self, partition_counts: dict[str, int], **settings: str) -> None:
        settings.setdefault("group_streams_assignment_interval_ms", "0")
        settings.setdefault("group_streams_initial_rebalance_delay_ms", "0")
        self.own: dict[str, str] = {}
        """The group's own settings."""
        super().__init__(*partition_counts, **settings)
        for name, count in partition_counts.items():
            self.image.topics_by_name[name].partitions.update(dict.fromkeys(range(count), PARTITION))
        self.missing: list[CreatableTopic] = []

    def new_machine(self) -> GroupShard:
        machine = super().new_machine()
        machine.state.group_config = lambda group_id: GroupConfig.parse(self.own, self.config)
        return machine

    def request(self, request: StreamsGroupHeartbeatRequest, version: int = 1) -> StreamsGroupHeartbeatResponse:
        decision = self.machine.streams_group_heartbeat(request, self.call(version))
        reply = self.append(decision)
        self.missing = list(reply.missing)
        response: StreamsGroupHeartbeatResponse = reply.response
        return response

    def topic_created(self, name: str, partition_count: int) -> None:
        topic = TopicImage(name, topic_id(name))
        topic.partitions.update(dict.fromkeys(range(partition_count), PARTITION))
        self.image.topics_by_name[name] = self.image.topics_by_id[topic.id] = topic
        changes = ImageChanges()
        changes.topics_created[topic.id] = topic
        self.machine.metadata_changed(self.image, changes, self.now)

    def create_missing(self) -> list[str]:
        """The names of the topics that the last heartbeat found missing; now they are there."""
        for topic in self.missing:
            self.topic_created(topic.name, topic.num_partitions)
        return [topic.name for topic in self.missing]

    @property
    def group(self) -> StreamsGroup:
        found = self.machine.state.groups["g"]
        assert isinstance(found, StreamsGroup)
        return found


class Member:
    """An instance of the application, with one thread."""

    def __init__(self, shard: StreamsShard, id: str, topology: Topology = SIMPLE, process: str | None = None) -> None:
        self.shard = shard
        self.id = id
        self.process = process or f"process-{id}"
        self.topology = topology
        self.epoch = 0
        self.tasks: dict[str, frozenset[TaskId]] = {
            "active": frozenset(),
            "standby": frozenset(),
            "warmup": frozenset(),
        }
        self.version = 1
        self.is_slow = False
        """It keeps the tasks that the coordinator wants back."""
        self.endpoint: tuple[str, int] | None = None
        self.tags: dict[str, str] = {}
        self.endpoint_epoch = -1
        self.last: StreamsGroupHeartbeatResponse = StreamsGroupHeartbeatResponse()

    def beat(self, *, error: int = ErrorCode.NONE, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """A heartbeat with everything that the member knows; `fields` say otherwise."""
        is_joining = self.epoch == 0
        request = StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id=self.id,
            member_epoch=self.epoch,
            endpoint_information_epoch=self.endpoint_epoch,
            active_tasks=self._rows("active"),
            standby_tasks=self._rows("standby"),
            warmup_tasks=self._rows("warmup"),
        )
        if is_joining:
            request.topology = self.topology
            request.rebalance_timeout_ms = REBALANCE_MS
            request.process_id = self.process
            request.client_tags = [KeyValue(key=key, value=value) for key, value in self.tags.items()]
            if self.endpoint is not None:
                request.user_endpoint = StreamsGroupHeartbeatRequestEndpoint(
                    host=self.endpoint[0], port=self.endpoint[1]
                )
        for name, value in fields.items():
            setattr(request, name, value)
        response = self.last = self.shard.request(request, self.version)
        assert response.error_code == error, (response.error_code, response.error_message)
        if error == ErrorCode.NONE:
            self._take(response)
        return response

    def _rows(self, role: str) -> list[StreamsGroupHeartbeatRequestTaskIds]:
        return rows(self.tasks[role], StreamsGroupHeartbeatRequestTaskIds)

    def _take(self, response: StreamsGroupHeartbeatResponse) -> None:
        self.epoch = response.member_epoch
        self.endpoint_epoch = response.endpoint_information_epoch
        if response.active_tasks is not None:
            told = {
                "active": task_set(response.active_tasks),
                "standby": task_set(response.standby_tasks),
                "warmup": task_set(response.warmup_tasks),
            }
            self.tasks = {role: tasks | self.tasks[role] for role, tasks in told.items()} if self.is_slow else told

    def give_up(self) -> None:
        """Be slow no longer: the member has what its group thinks it has."""
        has = self.shard.group.members[self.id].assigned
        self.is_slow = False
        self.tasks = {"active": frozenset(has.active), "standby": has.standby, "warmup": has.warmup}

    def leave(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        request = StreamsGroupHeartbeatRequest(group_id="g", member_id=self.id, member_epoch=-1)
        for name, value in fields.items():
            setattr(request, name, value)
        return self.shard.request(request)

    def report(self, *offsets: tuple[str, int, int], end: bool = False) -> StreamsGroupHeartbeatResponse:
        """A heartbeat with how far the state of tasks is restored."""
        told = [TaskOffset(subtopology_id=id, partition=partition, offset=offset) for id, partition, offset in offsets]
        return self.beat(task_end_offsets=told) if end else self.beat(task_offsets=told)

    @property
    def active(self) -> list[tuple[str, int]]:
        return sorted((task.subtopology_id, task.partition) for task in self.tasks["active"])

    @property
    def standby(self) -> list[tuple[str, int]]:
        return sorted((task.subtopology_id, task.partition) for task in self.tasks["standby"])

    @property
    def warmup(self) -> list[tuple[str, int]]:
        return sorted((task.subtopology_id, task.partition) for task in self.tasks["warmup"])

    @property
    def statuses(self) -> list[int]:
        return [status.status_code for status in self.last.status or ()]


def settle(shard: StreamsShard, *members: Member, rounds: int = 12) -> None:
    """Heartbeats of all members until nothing changes: the group is Stable then."""
    for _ in range(rounds):
        for member in members:
            member.beat()
        shard.create_missing()
        if shard.group.state == "Stable":
            return
    raise AssertionError(f"the group is {shard.group.state} after {rounds} rounds")


def everything(machine: Machine) -> dict[str, Any]:
    """What a restart must bring back of every streams group."""
    return {
        group.id: {
            name: getattr(group, name)
            for name in (
                "epoch",
                "metadata_hash",
                "validated_topology_epoch",
                "assignment_configs",
                "assignment_epoch",
                "assignment_timestamp",
                "members",
                "targets",
                "topology",
                "source_topics",
                "owners",
                "state",
            )
        }
        for group in machine.state.groups.values()
        if isinstance(group, StreamsGroup)
    }
