"""Groups on a whole node: members of both protocols come and go, read, commit, crash and freeze.

Each member is a program of its own with its own connection. The workload knows from `GroupHistory` what they were
promised; here it decides which members run, and at the end that every group settles: each partition has one owner,
which has read and committed all of it, and the coordinator describes it alike before and after a restart.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import count
from typing import Any, TypeVar

from ottla.sim.checkers import check
from ottla.sim.classic_member import AGES, ClassicMember
from ottla.sim.client import Client, NoAnswer, batch_of
from ottla.sim.cluster import Host, Sim
from ottla.sim.consumer_member import ConsumerMember
from ottla.sim.group_history import GroupHistory, TopicPartition
from ottla.sim.members import Member, Topics
from ottla.sim.router import PASSING
from ottla.sim.streams_member import StreamsMember, forget_partition_counts, why_not_copied
from ottla.sim.workloads import RETRY_S, until_done
from ottla.wire.apis import response_class
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import GROUP_METADATA_TOPIC
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse

SESSION_TIMEOUT_MS = 3_000
REBALANCE_TIMEOUT_MS = 4_000
TURN_S = 0.04
SETTLE_S = 60.0
MAX_PARTITIONS = 8
PROPERTIES = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "100",
    "group.streams.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.streams.min.heartbeat.interval.ms": "50",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "200",
    "group.streams.num.standby.replicas": "0",
}
"""Timeouts so short that members are thrown out by the second."""
NOT_THERE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)
DYNAMIC, STATIC = 0.75, 0.25
AnyMember = TypeVar("AnyMember", bound=Member)


class Program:
    """A member's process: the member, its connection, its task."""

    def __init__(self, member: Member, client: Client) -> None:
        self.member = member
        self.client = client
        self.frozen_until_s = 0.0
        self.task: asyncio.Task[None] | None = None


class Groups:
    name = "groups"

    def __init__(
        self,
        sim: Sim,
        host: Host,
        rng: random.Random,
        configs: dict[str, str] | None = None,
        kinds: Sequence[str] = ("classic", "consumer", "mixed", "streams"),
    ) -> None:
        self._sim = sim
        self._host = host
        self.rng = rng
        self._configs = {"flush.messages": "1", **(configs or {})}
        self._client = sim.client("groups", host.name)
        self.history = GroupHistory()
        self.topics = Topics()
        self.programs: list[Program] = []
        self.ends: dict[TopicPartition, int] = {}
        """How far each partition is known to reach."""
        self._names = count(1)
        self._topic_names = [f"groups-{index}" for index in range(rng.randint(1, 2))]
        self.groups: dict[str, tuple[str, list[str]]] = {
            f"group-{index}": (
                rng.choice(kinds),
                rng.sample(self._topic_names, rng.randint(1, len(self._topic_names))),
            )
            for index in range(rng.randint(1, 3))
        }
        self._stateful = [
            group_id for group_id, (kind, _) in self.groups.items() if kind == "streams" and rng.random() < 0.7
        ]
        """Streams groups whose tasks have state: their topics get no more partitions."""
        self._max_members = rng.choice((2, 4))
        self._described: dict[str, Any] | None = None

    async def set_up(self) -> None:
        for name in self._topic_names:
            partitions = self.rng.randint(1, 4)
            await until_done(
                lambda name=name, partitions=partitions: self._client.create_topic(  # type: ignore[misc]
                    name, partitions, self._configs
                ),
                ErrorCode.TOPIC_ALREADY_EXISTS,
            )
        await self.open_coordinator()
        await self.see_topics()

    async def open_coordinator(self) -> None:
        """Have `__consumer_offsets` made, and synced before it answers: a power loss must not take commits back."""
        while True:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=list(self.groups))
            try:
                response = await self._client.request(request, FindCoordinatorResponse)
                if all(found.error_code == 0 for found in response.coordinators):
                    break
            except NoAnswer:
                pass
            await asyncio.sleep(RETRY_S)
        await until_done(
            lambda: self._client.alter_topic_config(GROUP_METADATA_TOPIC, "flush.messages", "1"),
            ErrorCode.TOPIC_ALREADY_EXISTS,
        )

    async def see_topics(self) -> None:
        response = await self._client.metadata()
        for topic in response.topics:
            if topic.name in self._topic_names and not topic.error_code:
                self.topics.see(topic.name, topic.topic_id, len(topic.partitions))
                for partition in range(len(topic.partitions)):
                    self.ends.setdefault((topic.name, partition), 0)

    # Steps

    async def step(self) -> None:
        self.look_for_failures()
        rng = self.rng
        chance = rng.random()
        group_id = rng.choice(list(self.groups))
        try:
            if chance < 0.5:
                await self.produce(rng.choice(list(self.ends)))
            elif chance < 0.62:
                if sum(program.member.group_id == group_id for program in self.programs) < self._max_members:
                    self.come(group_id)
            elif chance < 0.64 and self.programs:
                await self.crash(rng.choice(self.programs))
            elif chance < 0.66 and self.programs:
                rng.choice(self.programs).member.leave()
            elif chance < 0.68 and self.programs:
                self.freeze(rng.choice(self.programs), rng.choice((0.5, 2.0, 8.0)))
            elif chance < 0.69:
                await self.add_partition(rng.choice(self._topic_names))
            elif chance < 0.75:
                await self.see_topics()
            elif chance < 0.8:
                await self.check_offsets(group_id)
            else:
                await asyncio.sleep(rng.uniform(0.0, 0.3))
        except NoAnswer:
            await asyncio.sleep(RETRY_S)
        except KafkaError as error:
            if error.code not in PASSING:
                raise
            await asyncio.sleep(RETRY_S)

    def look_for_failures(self) -> None:
        for program in list(self.programs):
            if program.task is not None and program.task.done():
                self._forget(program)
                program.task.result()

    async def produce(self, partition: TopicPartition) -> None:
        values = [self._sim.new_value(20) for _ in range(self.rng.choice((1, 2, 5)))]
        offset = await self._client.produce(*partition, batch_of(values, self._sim.clock()))
        self.ends[partition] = max(self.ends[partition], offset + len(values))

    async def add_partition(self, topic: str) -> None:
        partition_count = self.topics.by_name[topic].partition_count + 1
        has_changelog = any(topic in self.groups[group_id][1] for group_id in self._stateful)
        if partition_count <= MAX_PARTITIONS and not has_changelog:
            try:
                await self._client.create_partitions(topic, partition_count)
            except KafkaError as error:
                if error.code is not ErrorCode.INVALID_PARTITIONS:  # one of the last attempts that got no answer
                    raise
            await self.see_topics()

    # Members

    def come(self, group_id: str) -> Program:
        kind, subscription = self.groups[group_id]
        if kind == "streams":
            return self.start(self.new_streams(group_id, subscription))
        is_classic = kind == "classic" or (kind == "mixed" and self.rng.random() < 0.5)
        instance_id: str | None = None
        if self.rng.random() < STATIC:
            # Static members keep their protocol: a downgrade by one that returns with another leaves a group that
            # no member leads, in Kafka as here, and none looks for new partitions until it rebalances once more.
            instance_id = f"{'classic' if is_classic else 'consumer'}-instance-{self.rng.randint(1, 2)}"
            for program in list(self.programs):
                is_same = (program.member.group_id, program.member.instance_id) == (group_id, instance_id)
                # A consumer waits until the other one has left; a classic member takes over from a living one.
                if is_same and (not is_classic or self.rng.random() < 0.7):
                    self.end(program)
        topics = self.rng.sample(subscription, self.rng.randint(1, len(subscription)))
        if instance_id is not None:
            topics = list(subscription)  # Kafka does not share out anew when a classic one returns with another
        return self.start(self.new_member(group_id, topics, is_classic=is_classic, instance_id=instance_id))

    def new_member(
        self, group_id: str, topics: list[str], *, is_classic: bool, instance_id: str | None = None
    ) -> ClassicMember | ConsumerMember:
        if is_classic:
            classic = self._new(ClassicMember, "classic", group_id, topics, instance_id)
            classic.speak(self.rng.choice(AGES if instance_id is None else AGES[1:]))
            return classic
        member = self._new(ConsumerMember, "consumer", group_id, topics, instance_id)
        member.commit_version = member.fetch_version = self.rng.choice((9, 10))
        member.assignor = self.rng.choice((None, "uniform", "range"))
        return member

    def new_streams(self, group_id: str, topology: list[str]) -> StreamsMember:
        member = self._new(StreamsMember, "streams", group_id, topology)
        member.begin(member.rng, topology, is_stateful=group_id in self._stateful)
        member.commit_version = member.fetch_version = self.rng.choice((9, 10))
        return member

    def _new(
        self, kind: type[AnyMember], prefix: str, group_id: str, topics: list[str], instance_id: str | None = None
    ) -> AnyMember:
        """A member with the next number and a random source of its own."""
        name = f"{prefix}-{next(self._names)}"
        return kind(
            self.history,
            self.topics,
            random.Random(f"{self._sim.seed} {name}"),
            name,
            group_id,
            topics,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            instance_id=instance_id,
        )

    def start(self, member: Member) -> Program:
        self._sim.loop.trace.note("groups", f"{member.name} of {member.group_id} comes")
        program = Program(member, self._sim.client(member.name, self._host.name))
        program.task = self._sim.loop.create_task(self._live(program), name=member.name)
        self.programs.append(program)
        return program

    async def crash(self, program: Program) -> None:
        self._sim.loop.trace.note("groups", f"{program.member.name} crashes")
        self.end(program)

    def end(self, program: Program) -> None:
        assert program.task is not None
        program.task.cancel()
        self._forget(program)

    def _forget(self, program: Program) -> None:
        self.programs.remove(program)
        self._sim.forget_client(program.member.name)

    def freeze(self, program: Program, duration_s: float) -> None:
        self._sim.loop.trace.note("groups", f"{program.member.name} freezes for {duration_s} s")
        program.frozen_until_s = self._sim.loop.time() + duration_s

    async def _live(self, program: Program) -> None:
        while not program.member.has_left:
            await asyncio.sleep(self.rng.uniform(0.0, TURN_S))
            await self._thaw(program)
            await self._read(program)
            await self.exchange(program)

    async def _thaw(self, program: Program) -> None:
        if (left_s := program.frozen_until_s - self._sim.loop.time()) > 0:
            await asyncio.sleep(left_s)

    async def exchange(self, program: Program) -> None:
        """Send what the member wants to send, and hand it the answer."""
        member, loop = program.member, self._sim.loop
        loads_before, coordinator = self._sim.loads(member.group_id), self._sim.coordinator(member.group_id)
        request = member.next_request(loop.now())
        if request is None:
            return
        name = type(request.message).__name__.removesuffix("Request")
        try:
            response = await program.client.request(
                request.message,
                response_class(type(request.message).__schema__.api_key),  # type: ignore[arg-type]
                version=request.version,
                timeout_s=request.timeout_ms / 1000,
            )
        except NoAnswer:
            await self._thaw(program)
            loop.trace.note(member.name, f"{name}: no answer")
            member.handle_silence(loop.now())
        else:
            await self._thaw(program)
            before = dict(member.codes)
            if not self._is_current(program.client, member.group_id, coordinator):
                # A node that was deposed without knowing it may give old answers, in Kafka, too. It cannot answer
                # requests that write.
                loads_before = None
                if isinstance(response, OffsetFetchResponse):
                    loop.trace.note(member.name, "no answer of the coordinator")
                    member.handle_silence(loop.now())
                    return
            # A coordinator that reads its log answers classic heartbeats blindly, as Kafka's does: they prove nothing.
            is_certain = loads_before is not None and loads_before == self._sim.loads(member.group_id)
            member.handle(response, loop.now(), is_certain=is_certain)
            codes = [code.name for code, count in member.codes.items() if before.get(code) != count]
            loop.trace.note(member.name, f"{name}: {' '.join(codes) or 'answered'}, {member!r}")

    def _is_current(self, client: Client, group_id: str, coordinator: tuple[int, int]) -> bool:
        """Whether the last request went to the broker that coordinated the group all the time."""
        return client.asked_id == coordinator[0] and coordinator == self._sim.coordinator(group_id)

    async def _read(self, program: Program) -> None:
        member = program.member
        for partition, position in list(member.positions.items()):
            if self.ends.get(partition, 0) > position and self.rng.random() < 0.7:
                try:
                    fetched = await program.client.fetch(*partition, position)
                except NoAnswer:
                    return
                except KafkaError as error:
                    if error.code not in PASSING:
                        raise
                    return
                await self._thaw(program)
                if partition in member.positions:
                    member.advance(partition, max(fetched.next_offset, member.positions[partition]))

    # What must hold

    async def check_offsets(self, group_id: str) -> None:
        """Ask for the committed offsets of a group, from outside."""
        floors = {partition: self.history.committed(group_id, partition).floor for partition in self.ends}
        coordinator = self._sim.coordinator(group_id)
        found = await self.committed_offsets(group_id)
        if not self._is_current(self._client, group_id, coordinator):
            return
        for partition, floor in floors.items():
            self.history.see_offset(group_id, partition, found.get(partition, -1), floor)

    async def committed_offsets(self, group_id: str) -> dict[TopicPartition, int]:
        group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        request = OffsetFetchRequest(groups=[group], require_stable=False)
        while True:
            response = await self._client.request(request, OffsetFetchResponse, version=9)
            code = ErrorCode(response.groups[0].error_code)
            if code is ErrorCode.NONE:
                break
            if code not in NOT_THERE:
                raise KafkaError(code)
            await asyncio.sleep(RETRY_S)
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in response.groups[0].topics
            for partition in topic.partitions
        }

    def is_settled(self) -> bool:
        return all(self._is_settled(group_id) for group_id in self.groups)

    def _is_settled(self, group_id: str) -> bool:
        members = [program.member for program in self.programs if program.member.group_id == group_id]
        if not members:
            return True
        for partition, end in self.ends.items():
            if any(partition[0] in member.subscription for member in members):
                owners = [member for member in members if partition in member.claims]
                if len(owners) != 1 or not owners[0].has_committed(partition, end):
                    return False
        streams = [member for member in members if isinstance(member, StreamsMember)]
        if why_not_copied(streams, int(self._sim.properties["group.streams.num.standby.replicas"])):
            return False
        now = self._sim.loop.now()
        return all(member.is_steady and now < member.lease_ends_at for member in members)

    async def settle(self) -> None:
        """No member comes or goes any more, and none is frozen: everything is read and committed."""
        await asyncio.sleep(
            max((program.frozen_until_s - self._sim.loop.time() for program in self.programs), default=0)
        )
        await until_done(self.see_topics, ErrorCode.NONE)
        for group_id in self.groups:
            if not any(program.member.group_id == group_id for program in self.programs):
                self.come(group_id)
        for partition in list(self.ends):
            await until_done(lambda partition=partition: self.produce(partition), ErrorCode.NONE)  # type: ignore[misc]
        await self._until_settled()

    async def _until_settled(self) -> None:
        deadline_s = self._sim.loop.time() + SETTLE_S
        while True:
            self.look_for_failures()
            for group_id in self.groups:
                await self._some_member(group_id)
            if self.is_settled():
                return
            state = {group_id: self._is_settled(group_id) for group_id in self.groups}
            members = [program.member for program in self.programs]
            check(self._sim.loop.time() < deadline_s, "liveness", f"{state} of {members}, ends {self.ends}")
            await asyncio.sleep(0.2)

    async def _some_member(self, group_id: str) -> None:
        """The last of a group may have been on its way out when the world became kind."""
        if not any(program.member.group_id == group_id for program in self.programs):
            self.come(group_id)

    async def verify(self) -> None:
        """Twice in a row, with a restart of the node between: the members stay, so their groups must, too."""
        await self._until_settled()
        for group_id in self.groups:
            await self.check_offsets(group_id)
        described = await self.describe()
        if self._described is not None:
            for group_id in self.groups:
                before, after = self._described.get(group_id), described.get(group_id)
                check(before == after, "restart", f"{group_id} was {before}, is {after}")
        self._described = described

    async def describe(self) -> dict[str, Any]:
        """The coordinator's description of each group: its members, epochs and assignments, ordered by member."""
        while True:
            listing = await self._client.request(ListGroupsRequest(), ListGroupsResponse)
            if not listing.error_code:
                break
            await asyncio.sleep(RETRY_S)
        found: dict[str, Any] = {}
        for group in listing.groups:
            if group.group_id in self.groups:
                found[group.group_id] = await self._describe(group)
        return found

    async def _describe(self, group: ListedGroup) -> Any:
        group_id = group.group_id
        described: Any
        deadline_s = self._sim.loop.time() + SETTLE_S
        while True:
            if group.group_type.lower() == "consumer":
                described = await self._client.request(
                    ConsumerGroupDescribeRequest(group_ids=[group_id]), ConsumerGroupDescribeResponse
                )
            elif group.group_type.lower() == "streams":
                described = await self._client.request(
                    StreamsGroupDescribeRequest(group_ids=[group_id]), StreamsGroupDescribeResponse
                )
                forget_partition_counts(described.groups[0])
            else:
                described = await self._client.request(DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse)
            code = ErrorCode(described.groups[0].error_code)
            check(code is ErrorCode.NONE or code in NOT_THERE, "describe", f"{group_id}: {code.name}")
            state = described.groups[0].group_state
            if code is ErrorCode.NONE and state == "Stable":
                break
            check(self._sim.loop.time() < deadline_s, "stable", f"{group_id} is {state}, {code.name}")
            await asyncio.sleep(RETRY_S)
        described.groups[0].members.sort(key=lambda member: member.member_id)
        return described.groups[0]
