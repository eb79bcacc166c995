"""A member of a streams group (KIP-1071), as a Kafka Streams client is one.

Each topic of its subscription is a subtopology of its own, so a task is a partition: an active task is owned, read and
committed as a consumer's partition is (`ConsumerMember`). Beside those it keeps copies: standby tasks, and warm-up
tasks whose progress it reports. What a coordinator must not do, apart from giving one task to two members: give a
process two copies of one task's state, a member one task in two roles, or an epoch that is lower than the last.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from ottla.groups.streams.tasks import TaskId, rows, task_set
from ottla.sim.checkers import check
from ottla.sim.consumer_member import ConsumerMember
from ottla.sim.group_history import Claim, TopicPartition
from ottla.sim.members import Request
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.streams_group_describe import DescribedGroup
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)

PROCESS_COUNT = 3
END_OFFSET = 100_000
RESTORED = 0.5
"""The chance that a warm-up task has caught up by the next heartbeat."""


CHANGELOG = "-changelog"
"""Ends the names of internal topics."""


def drawn_properties(rng: random.Random) -> dict[str, str]:
    """How tasks of streams groups are assigned in this world."""
    return {
        "group.streams.num.standby.replicas": str(rng.choice((0, 1, 2))),
        "group.streams.assignors": rng.choice(("sticky", "highly_available")),
        "group.streams.assignment.interval.ms": str(rng.choice((0, 1_000))),
        "group.streams.num.warmup.replicas": str(rng.choice((0, 1, 2))),
    }


def why_not_copied(members: list[StreamsMember], wanted_count: int) -> str:
    """At rest each task has as many standby copies as its group wants and other processes can hold, and none is being
    warmed up. What is not so; empty if all of it is."""
    processes = {member.process_id for member in members}
    has_state = any(member.is_stateful for member in members)
    standby_count = min(wanted_count, len(processes) - 1) if has_state else 0
    copies = Counter(partition for member in members for partition in member.standby)
    for partition in sorted({partition for member in members for partition in member.claims}):
        if copies[partition] != standby_count:
            return f"{copies[partition]} standby copies of {partition}, not {standby_count}"
    return "tasks are warmed up" if any(member.warmup for member in members) else ""


def forget_partition_counts(group: DescribedGroup) -> None:
    """A coordinator that has just loaded learns the sizes of internal topics with the next heartbeat, as Kafka's."""
    subtopologies = group.topology.subtopologies if group.topology is not None else None
    for subtopology in subtopologies or ():
        for topic in (*subtopology.state_changelog_topics, *subtopology.repartition_source_topics):
            topic.partitions = 0


class ProcessCopy:
    """A member's place in its process: no two members of a process have a copy of the same task."""

    def __init__(self, member: StreamsMember) -> None:
        self.name = self.identity = member.name
        self.group_id = f"{member.group_id} {member.process_id}"
        self._member = member

    @property
    def lease_ends_at(self) -> int:
        return self._member.lease_ends_at


class StreamsMember(ConsumerMember):
    process_id = ""
    is_stateful = False
    topology: tuple[str, ...] = ()
    """The topics of the application, the same for all of its members."""
    has_progress = True
    """Whether it speaks version 1 of heartbeats, and so reports how far it has restored."""

    def begin(self, rng: random.Random, topology: list[str], *, is_stateful: bool) -> None:
        self.process_id = f"process-{rng.randrange(PROCESS_COUNT)}"
        self.topology, self.is_stateful = tuple(topology), is_stateful
        self.has_progress = rng.random() < 0.7
        self.standby: frozenset[TopicPartition] = frozenset()
        self.warmup: frozenset[TopicPartition] = frozenset()
        self._in_process = ProcessCopy(self)
        self._copies: dict[TopicPartition, Claim] = {}
        """Tasks that it has in any role."""
        self._is_told = False
        """Whether the coordinator knows which tasks it has."""

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} standby {sorted(self.standby)} warmup {sorted(self.warmup)}>"

    # Requests

    def _heartbeat(self, now: int) -> Request:
        self._heartbeat_at = now + self.heartbeat_interval_ms
        message = StreamsGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.generation
        )
        if self.generation >= 0:
            if self._says_all or not self._is_told or self.rng.random() < 0.3:
                active, standby, warmup = self._tasks(self.claims), self._tasks(self.standby), self._tasks(self.warmup)
                message.active_tasks = rows(active, StreamsGroupHeartbeatRequestTaskIds)
                message.standby_tasks = rows(standby, StreamsGroupHeartbeatRequestTaskIds)
                message.warmup_tasks = rows(warmup, StreamsGroupHeartbeatRequestTaskIds)
            if self._says_all:
                message.rebalance_timeout_ms = self.rebalance_timeout_ms
                message.process_id = self.process_id
            if not self._joined:
                message.topology = self._topology()
            if self.has_progress and self.warmup:
                restored = END_OFFSET if self.rng.random() < RESTORED else 0
                message.task_offsets = self._offsets(restored)
                message.task_end_offsets = self._offsets(END_OFFSET)
        return Request(message, 1 if self.has_progress else 0)

    def _tasks(self, partitions: Any) -> list[TaskId]:
        return [TaskId(str(self.topology.index(topic)), partition) for topic, partition in partitions]

    def _offsets(self, offset: int) -> list[TaskOffset]:
        return [
            TaskOffset(subtopology_id=task.subtopology_id, partition=task.partition, offset=offset)
            for task in sorted(self._tasks(self.warmup))
        ]

    def _topology(self) -> Topology:
        subtopologies = []
        for index, topic in enumerate(self.topology):
            of_topic = Subtopology(subtopology_id=str(index), source_topics=[topic])
            if self.is_stateful:
                of_topic.state_changelog_topics = [TopicInfo(name=f"{self.group_id}-{topic}{CHANGELOG}")]
            subtopologies.append(of_topic)
        return Topology(epoch=0, subtopologies=subtopologies)

    # Answers

    def _handle_member(self, sent: Message, response: Message, now: int) -> None:
        assert isinstance(sent, StreamsGroupHeartbeatRequest)
        assert isinstance(response, StreamsGroupHeartbeatResponse)
        code = self._note(response.error_code)
        if sent.member_epoch < 0:
            self.has_left = True
        elif code is ErrorCode.NONE:
            self._is_told = sent.active_tasks is not None or self._is_told
            self._take_answer(response, now)
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            self._thrown_out(now)
        elif self._passed(code, now):
            self._says_all = True
        else:
            self._expect(code, "StreamsGroupHeartbeat")

    def _take_answer(self, response: StreamsGroupHeartbeatResponse, now: int) -> None:
        if self._joined:
            what = f"{self.name} at {self.generation} got {response.member_epoch}"
            check(response.member_epoch >= self.generation, "epoch", what)
        self._joined, self._says_all = True, False
        self.generation = response.member_epoch
        self.heartbeat_interval_ms = min(response.heartbeat_interval_ms, 500)
        self._heartbeat_at = now + self.heartbeat_interval_ms
        is_dropping = False
        if response.active_tasks is not None:
            target = self._partitions(response.active_tasks)
            standby = frozenset(self._partitions(response.standby_tasks))
            warmup = frozenset(self._partitions(response.warmup_tasks))
            count = len(set(target) | standby | warmup)
            what = f"{self.name}: active {target}, standby {sorted(standby)}, warm-up {sorted(warmup)}"
            check(count == len(target) + len(standby) + len(warmup), "roles", f"a task has two roles: {what}")
            check(self.is_stateful or not (standby or warmup), "copies", f"copies of tasks without state: {what}")
            is_dropping = not (self.standby <= standby and self.warmup <= warmup)
            self.standby, self.warmup, self._target = standby, warmup, target
            self._is_told = not (is_dropping or set(target) != set(self.claims))
            self._keep_copies(now)
            if is_dropping:
                self._heartbeat_at = now
        self._confirm(is_settled=not is_dropping and not self._to_revoke())
        if self._is_certain:
            for claim in self._copies.values():
                self.history.renew(claim)

    def _partitions(self, answered: Any) -> list[TopicPartition]:
        return [(self.topology[int(task.subtopology_id)], task.partition) for task in sorted(task_set(answered))]

    # Ownership

    def _keep_copies(self, now: int) -> None:
        """Copies of this process: those that it has no longer are released, new ones taken."""
        has = {*self.claims, *self.standby, *self.warmup}
        for partition in [partition for partition in self._copies if partition not in has]:
            self.history.release(self._copies.pop(partition), now)
        for partition in sorted(has - self._copies.keys()):
            self._copies[partition] = self.history.take(
                self._in_process, partition, self.generation, now, is_classic=False
            )

    def _take(self, partitions: list[TopicPartition], now: int) -> None:
        super()._take(partitions, now)
        self._keep_copies(now)

    def _give_up(self, now: int, partitions: list[TopicPartition] | None = None) -> None:
        super()._give_up(now, partitions)
        self._is_told = False
        if partitions is None or self.is_leaving:
            self.standby = self.warmup = frozenset()
        self._keep_copies(now)

    def _unanswered(self, sent: Message, now: int) -> None:
        self._says_all = True
        self._is_told = False
        if isinstance(sent, StreamsGroupHeartbeatRequest):
            self._heartbeat_at = now
            if sent.member_epoch < 0:
                self.has_left = True
