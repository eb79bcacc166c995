"""One seed, one world around a single `GroupShard`: members that come, go, vanish and freeze, and a log.

There is no node here, no network and no loop: requests take a drawn time to the shard and back, some arrive long after
their sender gave up on them, and a crash leaves nothing but the records, as their bytes. So thousands of worlds are
tried in the time that one whole node takes, and what they break is the machines' fault alone.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from ottla.cluster import ClusterImage
from ottla.config import BrokerConfig, GroupConfig
from ottla.groups import Call, decode_record, encode_record
from ottla.groups.shard import GroupShard
from ottla.groups.streams.sessions import HeartbeatReply
from ottla.machine import CoordinatorDecision
from ottla.sim.checkers import Violation, check
from ottla.sim.classic_member import AGES, ClassicMember
from ottla.sim.consumer_member import ConsumerMember
from ottla.sim.group_history import GroupHistory, TopicPartition
from ottla.sim.members import Member, Request, Topics
from ottla.sim.streams_member import (
    CHANGELOG,
    StreamsMember,
    drawn_properties,
    forget_partition_counts,
    why_not_copied,
)
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.topic_record import TopicRecord
from ottla.wire.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.wire.messages.sync_group import SyncGroupRequest

START_TIMESTAMP = 1_700_000_000_000
LIVENESS_MS = 60_000
SESSION_TIMEOUT_MS = 2_000
REBALANCE_TIMEOUT_MS = 3_000
PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://node-1:9092,CONTROLLER://node-1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@node-1:9093",
    "log.dirs": "/data",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "400",
    "group.streams.min.session.timeout.ms": "100",
    "group.streams.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.streams.min.heartbeat.interval.ms": "50",
    "group.streams.heartbeat.interval.ms": "400",
    "group.streams.initial.rebalance.delay.ms": "200",
    "group.streams.assignment.interval.ms": "0",
    "offsets.retention.check.interval.ms": "3000",
}


@dataclass(eq=False)
class Link:
    """One member and its way to the shard."""

    member: Member
    serial: int = 0
    """Counts its requests: an answer to one it gave up on is dropped."""
    is_frozen: bool = False
    is_gone: bool = False
    version: int = 0
    request: Message | None = None


@dataclass(eq=False)
class Waiter:
    link: Link
    serial: int


@dataclass
class Described:
    """The state of a shard's groups and offsets that must survive a restart."""

    groups: dict[str, Any] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], Any] = field(default_factory=dict)


class ShardWorld:
    def __init__(self, seed: int, *, properties: dict[str, str] | None = None) -> None:
        self.seed = seed
        self.rng = random.Random(f"shard world {seed}")
        self.now = 1_000_000
        self.wall_clock_skew_ms = 0
        self.config = BrokerConfig.parse({**PROPERTIES, **(properties or {})})
        self.image = ClusterImage("sim")
        self.topics = Topics()
        self.ends: dict[TopicPartition, int] = {}
        self.history = GroupHistory()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.is_full = False
        self.has_unwritten = False
        """Whether the shard may know more than the log: a group that became empty and could not write so is empty, and
        after a restart its last generation is back until its members' sessions run out, in Kafka as here."""
        self.links: list[Link] = []
        self.restart_count = 0
        self.stateful: dict[str, list[str]] = {}
        """Streams groups whose tasks have state, with their topics, which get no more partitions."""
        self.trace: list[str] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._serials = count()
        self._names = count(1)
        self.shard = self.new_shard()
        self.shard.loaded(self.now, self.timestamp)

    # The shard

    @property
    def timestamp(self) -> int:
        return START_TIMESTAMP + self.now + self.wall_clock_skew_ms

    def new_shard(self) -> GroupShard:
        return GroupShard(
            image=self.image,
            config=lambda: self.config,
            group_config=lambda group_id: GroupConfig.parse({}, self.config),
            rng=random.Random(f"shard {self.seed} {self.restart_count}"),
        )

    def call(self, version: int = 0, waiter: object = None, client: str = "client") -> Call:
        return Call(self.now, self.timestamp, version, waiter, client, "/127.0.0.1")

    def restart(self) -> None:
        """kill -9 and a start: memory is lost, and waiting clients get no answer."""
        self.note("restart")
        self.restart_count += 1
        for link in self.links:
            self.silence(link)
        self.shard = self.replayed(self.log)
        self.shard.loaded(self.now, self.timestamp)
        self.has_unwritten = False

    def reload(self) -> None:
        """The shard is loaded anew in the same process: waiting requests are sent away."""
        self.note("reload")
        self.restart_count += 1
        for answer in self.shard.unload(self.call()):
            self.answer(answer.waiter, answer.response)
        self.shard = self.replayed(self.log)
        self.shard.loaded(self.now, self.timestamp)
        self.has_unwritten = False

    def replayed(self, log: list[tuple[bytes, bytes | None]]) -> GroupShard:
        shard = self.new_shard()
        for key, value in log:
            record = decode_record(key, value)
            assert record is not None
            shard.replay(record)
        return shard

    def carry_out(self, decision: CoordinatorDecision[Any], call: Call, refuse: type[Message] | None = None) -> None:
        """Append, replay, answer; as the broker does."""
        if decision.records:
            encoded = [encode_record(record) for record in decision.records]
            if self.is_full:
                self._refused(decision, call, refuse)
                return
            self.log += encoded
            for record in decision.records:
                self.shard.replay(record)
        reply = decision.reply.response if isinstance(decision.reply, HeartbeatReply) else decision.reply
        if reply is not None and call.waiter is not None:
            self.answer(call.waiter, reply)
        for answer in decision.answers:
            self.answer(answer.waiter, answer.response)

    def _refused(self, decision: CoordinatorDecision[Any], call: Call, refuse: type[Message] | None) -> None:
        error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.note("an append failed")
        if decision.refused is not None and self.rng.random() < 0.5:
            self.has_unwritten = True
            instead = decision.refused(error, call)
            assert not instead.records
            self.carry_out(instead, call)
            return
        # The broker may also have replayed the records already: then it forgets the shard and reads the log anew.
        delayed_fetches = [call.waiter, *(answer.waiter for answer in decision.answers)]
        for waiter in delayed_fetches:
            if waiter is not None:
                self.silence(waiter.link)
        self.reload()

    # Time

    def at(self, delay_ms: int, work: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay_ms, next(self._serials), work))

    def run(self, duration_ms: int, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; whether `until` came true."""
        ends_at = self.now + duration_ms
        while True:
            if until is not None and until():
                return True
            deadline = self.shard.deadline()
            next_at = self._events[0][0] if self._events else ends_at
            if deadline is not None and deadline <= min(next_at, ends_at):
                self.now = max(self.now, deadline)
                while (decision := self.shard.next_due(self.now, self.timestamp)) is not None:
                    self.carry_out(decision, self.call())
            elif next_at <= ends_at and self._events:
                self.now = max(self.now, next_at)
                heapq.heappop(self._events)[2]()
            else:
                self.now = ends_at
                return until is None

    def note(self, what: str) -> None:
        self.trace.append(f"{self.now} {what}")

    # Members

    def add(self, member: Member) -> Link:
        link = Link(member)
        self.links.append(link)
        self.note(f"{member.name} of {member.group_id} comes")
        self._turn(link)
        return link

    def new_classic(self, group_id: str, subscription: list[str], *, instance_id: str | None = None) -> ClassicMember:
        member = ClassicMember(
            self.history,
            self.topics,
            self.rng,
            f"classic-{next(self._names)}",
            group_id,
            subscription,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            instance_id=instance_id,
        )
        member.speak(self.rng.choice(AGES if instance_id is None else AGES[1:]))
        member.fetch_version = 9
        member.commit_version = min(9, member.commit_version)
        return member

    def new_consumer(self, group_id: str, subscription: list[str], *, instance_id: str | None = None) -> ConsumerMember:
        return ConsumerMember(
            self.history,
            self.topics,
            self.rng,
            f"consumer-{next(self._names)}",
            group_id,
            subscription,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            instance_id=instance_id,
        )

    def new_streams(self, group_id: str, topology: list[str]) -> StreamsMember:
        member = StreamsMember(
            self.history,
            self.topics,
            self.rng,
            f"streams-{next(self._names)}",
            group_id,
            topology,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        )
        member.begin(self.rng, topology, is_stateful=group_id in self.stateful)
        return member

    def freeze(self, link: Link, duration_ms: int) -> None:
        self.note(f"{link.member.name} freezes for {duration_ms}")
        link.is_frozen = True

        def thaw() -> None:
            self.note(f"{link.member.name} thaws")
            link.is_frozen = False

        self.at(duration_ms, thaw)

    def vanish(self, link: Link) -> None:
        self.note(f"{link.member.name} vanishes")
        link.is_gone = True
        self.links.remove(link)

    def silence(self, link: Link) -> None:
        """The connection broke."""
        if link.member.is_waiting:
            link.serial += 1
            link.member.handle_silence(self.now)

    def _turn(self, link: Link) -> None:
        """A moment of a member's life, and the next."""
        if link.is_gone:
            return
        member = link.member
        if member.has_left:
            self.note(f"{member.name} has left")
            self.links.remove(link)
            return
        if not link.is_frozen:
            for partition, position in list(member.positions.items()):
                end = self.ends[partition]
                if position < end and self.rng.random() < 0.7:
                    member.advance(partition, self.rng.randint(position + 1, end))
            if not member.is_waiting:
                request = member.next_request(self.now)
                if request is not None:
                    self.send(link, request)
        self.at(self.rng.randint(5, 60), lambda: self._turn(link))

    # Requests

    def send(self, link: Link, request: Request) -> None:
        link.serial += 1
        link.version, link.request = request.version, request.message
        serial = link.serial
        if self.rng.random() < 0.01:
            silent_ms = self.rng.randint(1, 300)
            if self.rng.random() < 0.5:
                # Late: its sender has given up on it. A heartbeat of KIP-848 or a JoinGroup that arrives after its
                # successors asks for an answer that its member then never hears, in Kafka as here, and the member is
                # thrown out for it; so these are never that late.
                is_asking = isinstance(request.message, ConsumerGroupHeartbeatRequest | JoinGroupRequest)
                late_ms = self.rng.randint(0, silent_ms if is_asking else 4_000)
                self.at(late_ms, lambda: self._arrive(link, serial, request))
            self.at(silent_ms, lambda: self.silence(link) if link.serial == serial else None)
            return
        self.at(self.rng.randint(0, 20), lambda: self._arrive(link, serial, request))
        self.at(request.timeout_ms, lambda: self.silence(link) if link.serial == serial else None)

    def _arrive(self, link: Link, serial: int, request: Request) -> None:
        waiter = Waiter(link, serial)
        call = self.call(request.version, waiter, link.member.name)
        self.note(f"{link.member.name} -> {request.message}")
        self.carry_out(self.command(request.message, call), call)

    def command(self, message: Message, call: Call) -> CoordinatorDecision[Any]:
        shard = self.shard
        match message:
            case FindCoordinatorRequest():
                found = Coordinator(key=message.key, node_id=1, host="node-1", port=9092)
                response = FindCoordinatorResponse(node_id=1, host="node-1", port=9092, coordinators=[found])
                return CoordinatorDecision([], response)
            case JoinGroupRequest():
                return shard.join_group(message, call)
            case SyncGroupRequest():
                return shard.sync_group(message, call)
            case HeartbeatRequest():
                return shard.heartbeat(message, call)
            case LeaveGroupRequest():
                return shard.leave_group(message, call)
            case ConsumerGroupHeartbeatRequest():
                return shard.consumer_group_heartbeat(message, call)
            case StreamsGroupHeartbeatRequest():
                return self._streams_heartbeat(message, call)
            case OffsetCommitRequest():
                return shard.commit_offsets(message, call)
            case OffsetFetchRequest():
                decision = shard.fetch_offsets(message.groups[0], call, require_stable=message.require_stable)
                assert not decision.records and decision.reply is not None
                return CoordinatorDecision([], OffsetFetchResponse(groups=[decision.reply]))
            case _:
                raise AssertionError(f"no command for {message}")

    def _streams_heartbeat(self, message: StreamsGroupHeartbeatRequest, call: Call) -> CoordinatorDecision[Any]:
        decision = self.shard.streams_group_heartbeat(message, call)
        assert decision.reply is not None
        for topic in decision.reply.missing:
            self.at(self.rng.randint(1, 200), partial(self.create_topic, topic.name, topic.num_partitions))
        return decision

    def answer(self, waiter: Waiter, response: Message) -> None:
        link, serial = waiter.link, waiter.serial
        self.note(f"{link.member.name} <- {response}")

        def deliver() -> None:
            if link.serial == serial and link.member.is_waiting and not link.is_gone:
                if link.is_frozen:
                    self.at(50, deliver)
                else:
                    link.member.handle(response, self.now)

        self.at(self.rng.randint(0, 20), deliver)

    # Topics

    def add_topic(self, name: str, partition_count: int) -> None:
        topic_id = random.Random(f"{self.seed} {name}").randbytes(16)
        self._change([TopicRecord(name=name, topic_id=topic_id), *self._partitions(topic_id, 0, partition_count)])
        self._see(name, topic_id, partition_count)

    def create_topic(self, name: str, partition_count: int) -> None:
        """An internal topic, for which more than one member may ask."""
        if name not in self.topics.by_name:
            self.add_topic(name, partition_count)

    def add_partitions(self, name: str, partition_count: int) -> None:
        topic = self.topics.by_name[name]
        self.note(f"{name} gets {partition_count} partitions")
        self._change(self._partitions(topic.id, topic.partition_count, partition_count))
        self._see(name, topic.id, partition_count)

    def _see(self, name: str, topic_id: bytes, partition_count: int) -> None:
        self.topics.see(name, topic_id, partition_count)
        for partition in range(partition_count):
            self.ends.setdefault((name, partition), 0)

    def _partitions(self, topic_id: bytes, first: int, end: int) -> list[Message]:
        return [
            PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes(16)],
            )
            for partition in range(first, end)
        ]

    def _change(self, records: list[Message]) -> None:
        changes = self.image.apply(records)
        self.shard.metadata_changed(self.image, changes, self.now)

    def produce(self) -> None:
        for partition in self.ends:
            self.ends[partition] += self.rng.randint(0, 5)

    # What must hold

    def describe(self, shard: GroupShard) -> Described:
        """As answers show it. For a classic group only the written part: nothing while it rebalances."""
        found = Described()
        listing = shard.list_groups(ListGroupsRequest(), self.call(5)).reply
        assert listing is not None
        for group in listing.groups:
            if group.group_type.lower() == "consumer":
                described = shard.consumer_group_describe(
                    ConsumerGroupDescribeRequest(group_ids=[group.group_id]), self.call(1)
                ).reply
                assert described is not None
                found.groups[group.group_id] = described.groups[0]
            elif group.group_type.lower() == "streams":
                streams = shard.streams_group_describe(
                    StreamsGroupDescribeRequest(group_ids=[group.group_id]), self.call(1)
                ).reply
                assert streams is not None
                found.groups[group.group_id] = streams.groups[0]
            elif group.group_state in ("Stable", "Empty"):
                classic = shard.describe_groups(DescribeGroupsRequest(groups=[group.group_id]), self.call(6)).reply
                assert classic is not None
                found.groups[group.group_id] = classic.groups[0]
        for group_id, topic, partition, value in shard.committed_offsets():
            found.offsets[group_id, topic, partition] = value
        return found

    def check_replay(self) -> None:
        """The log, also after compaction, has the same state as the shard."""
        live = self.describe(self.shard)
        latest: dict[bytes, int] = {key: index for index, (key, _) in enumerate(self.log)}
        compacted = [record for index, record in enumerate(self.log) if latest[record[0]] == index]
        forgetful = [record for record in compacted if record[1] is not None]
        for how, log in (("replayed", self.log), ("compacted", compacted), ("without tombstones", forgetful)):
            again = self.describe(self.replayed(log))
            for offset_key, value in live.offsets.items():
                check(
                    again.offsets.get(offset_key) == value,
                    "replay",
                    f"{how}: {offset_key} is {again.offsets.get(offset_key)}, was {value}",
                )
            check(sorted(again.offsets) == sorted(live.offsets), "replay", f"{how}: other offsets")
            for group_id, group in live.groups.items():
                if self.has_unwritten and group.group_state == "Empty":
                    continue
                check(
                    _sorted(again.groups.get(group_id)) == _sorted(group),
                    "replay",
                    f"{how}: {group_id} is {again.groups.get(group_id)}, was {group}",
                )

    def is_settled(self, groups: dict[str, list[str]]) -> bool:
        """Every partition of a group with members has one owner, which read and committed to its end."""
        for group_id, subscription in groups.items():
            members = [link.member for link in self.links if link.member.group_id == group_id]
            if not members:
                continue
            for topic in subscription:
                if not any(topic in member.subscription for member in members):
                    continue
                for partition in range(self.topics.by_name[topic].partition_count):
                    owners = [member for member in members if (topic, partition) in member.claims]
                    end = self.ends[topic, partition]
                    if len(owners) != 1 or not owners[0].has_committed((topic, partition), end):
                        return False
            streams = [member for member in members if isinstance(member, StreamsMember)]
            if why_not_copied(streams, self.config.group_streams_num_standby_replicas):
                return False
        return True

    def check_offsets(self) -> None:
        for (group_id, topic, partition), value in self.describe(self.shard).offsets.items():
            floor = self.history.committed(group_id, (topic, partition)).floor
            self.history.see_offset(group_id, (topic, partition), value.offset, floor)
        request = OffsetFetchRequestGroup(group_id="unknown", topics=None)
        assert self.shard.fetch_offsets(request, self.call(9)).reply is not None


def _sorted(group: Any) -> Any:
    if group is not None:
        group.members.sort(key=lambda member: member.member_id)
        if isinstance(group, DescribedStreamsGroup):
            forget_partition_counts(group)
    return group


def run_world(
    seed: int, *, duration_ms: int = 30_000, kinds: tuple[str, ...] = ("classic", "consumer", "mixed", "streams")
) -> ShardWorld:
    """Members and disturbances for a while; then peace, in which every group settles."""
    world = ShardWorld(seed, properties=drawn_properties(random.Random(f"streams {seed}")))
    try:
        _live(world, duration_ms, kinds)
    except Exception as error:
        error.add_note(f"seed {seed}, after {world.now - 1_000_000} ms")
        for line in world.trace[-60:]:
            error.add_note(line[:400])
        raise
    return world


def _live(world: ShardWorld, duration_ms: int, kinds: tuple[str, ...]) -> None:
    rng = world.rng
    names = [f"topic-{index}" for index in range(rng.randint(1, 3))]
    for name in names:
        world.add_topic(name, rng.randint(1, 6))
    groups: dict[str, tuple[str, list[str]]] = {}
    for index in range(rng.randint(1, 3)):
        groups[f"group-{index}"] = rng.choice(kinds), rng.sample(names, rng.randint(1, len(names)))
    for group_id, (kind, subscription) in groups.items():
        if kind == "streams" and rng.random() < 0.7:
            world.stateful[group_id] = subscription
    max_members = rng.choice((2, 4, 8))
    menu = [
        work
        for work in (_restart, _reload, _more_partitions, _freeze, _vanish, _leave, _jump, _fill, _reset)
        if rng.random() < 0.7
    ]
    ends_at = world.now + duration_ms
    while world.now < ends_at:
        world.produce()
        group_id = rng.choice(list(groups))
        kind, subscription = groups[group_id]
        size = sum(link.member.group_id == group_id for link in world.links)
        if size < max_members and rng.random() < 0.5:
            _come(world, group_id, kind, subscription)
        if menu and rng.random() < 0.4:
            rng.choice(menu)(world)
        world.run(rng.choice((20, 300, 2_000)))
        if rng.random() < 0.3:
            world.check_replay()
            world.check_offsets()
    world.is_full = False
    world.wall_clock_skew_ms = 0
    world.note("peace")
    world.run(10_000)
    world.produce()
    subscriptions = {group_id: subscription for group_id, (_, subscription) in groups.items()}
    if not world.run(LIVENESS_MS, lambda: world.is_settled(subscriptions)):
        raise Violation(f"liveness: {[link.member for link in world.links]} ends {world.ends}")
    world.check_replay()
    world.restart()
    world.produce()
    if not world.run(LIVENESS_MS, lambda: world.is_settled(subscriptions)):
        raise Violation(f"liveness after a restart: {[link.member for link in world.links]} ends {world.ends}")
    world.check_offsets()


def _come(world: ShardWorld, group_id: str, kind: str, subscription: list[str]) -> None:
    rng = world.rng
    if kind == "streams":
        world.add(world.new_streams(group_id, subscription))
        return
    is_classic = kind == "classic" or (kind == "mixed" and rng.random() < 0.5)
    instance_id: str | None = None
    if rng.random() < 0.3:
        # Static members keep their protocol: a downgrade by one that returns with another leaves a group without a
        # leader, in Kafka as here, and no member looks for new partitions until it rebalances for another reason.
        instance_id = f"{'classic' if is_classic else 'consumer'}-instance-{rng.randint(1, 2)}"
        for link in list(world.links):
            is_same = link.member.group_id == group_id and link.member.instance_id == instance_id
            if is_same and rng.random() < 0.7:
                world.vanish(link)
    topics = rng.sample(subscription, rng.randint(1, len(subscription)))
    if instance_id is not None:
        topics = list(subscription)  # Kafka does not share out anew when a classic one returns with another
    if is_classic:
        world.add(world.new_classic(group_id, topics, instance_id=instance_id))
    else:
        world.add(world.new_consumer(group_id, topics, instance_id=instance_id))


def _restart(world: ShardWorld) -> None:
    world.restart()


def _reload(world: ShardWorld) -> None:
    world.reload()


def _more_partitions(world: ShardWorld) -> None:
    name = world.rng.choice(list(world.topics.by_name))
    partition_count = world.topics.by_name[name].partition_count
    has_changelog = name.endswith(CHANGELOG) or any(name in topics for topics in world.stateful.values())
    if partition_count < 10 and not has_changelog:
        world.add_partitions(name, partition_count + world.rng.randint(1, 2))


def _freeze(world: ShardWorld) -> None:
    if world.links:
        world.freeze(world.rng.choice(world.links), world.rng.choice((300, 1_000, 3_000, 6_000)))


def _vanish(world: ShardWorld) -> None:
    if world.links:
        world.vanish(world.rng.choice(world.links))


def _leave(world: ShardWorld) -> None:
    if world.links:
        world.rng.choice(world.links).member.leave()


def _jump(world: ShardWorld) -> None:
    world.wall_clock_skew_ms += world.rng.choice((-86_400_000, -1_000, 1_000, 86_400_000))
    world.wall_clock_skew_ms = max(-250_000_000, min(250_000_000, world.wall_clock_skew_ms))


def _fill(world: ShardWorld) -> None:
    """A full disk for a while."""
    world.is_full = True

    def relieve() -> None:
        world.is_full = False

    world.at(world.rng.choice((50, 500, 3_000)), relieve)


def _reset(world: ShardWorld) -> None:
    for link in world.links:
        if world.rng.random() < 0.5:
            world.silence(link)
