"""Drives consumer groups as a shard's host does, and consumers of both protocols as their clients do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ottla.cluster import ClusterImage
from ottla.config import GroupConfig
from ottla.groups import Call, GroupRecord, decode_record, encode_record
from ottla.groups.classic_groups import ClassicGroups
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_groups import ConsumerGroups
from ottla.groups.consumer_member import ConsumerMember
from ottla.groups.state import ShardState
from ottla.machine import CoordinatorDecision
from ottla.wire import Message, encode_bytes
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.records.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.records.topic_record import TopicRecord
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.unit.groups.classic_driver import Request, broker_config

GROUP = "group"
Partitions = dict[bytes, list[int]]


class Coordinator:
    may_describe: Callable[[str], bool] | None = None
    """Whether the sender of a request may see a topic."""

    def __init__(self, *, topics: dict[str, int] | None = None, seed: int = 7, **settings: Any) -> None:
        settings.setdefault("group_consumer_assignment_interval_ms", 0)
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.config = broker_config(tuple(sorted(named.items())))
        self.group_settings: dict[str, str] = {}
        self.now = 1_000_000
        self.timestamp = 1_700_000_000_000
        self.image = ClusterImage("cluster")
        self.written: list[tuple[bytes, bytes | None]] = []
        self.last: list[GroupRecord] = []
        """The records of the last decision."""
        self.rng = Random(seed)
        self.write_error: ErrorCode | None = None
        self._start()
        for name, partition_count in (topics or {}).items():
            self.create_topic(name, partition_count)

    def _start(self) -> None:
        self.state = ShardState(
            image=self.image,
            config=lambda: self.config,
            group_config=lambda group_id: GroupConfig.parse(self.group_settings, self.config),
            rng=self.rng,
        )
        self.classic = ClassicGroups(self.state)
        self.consumer = ConsumerGroups(self.state, self.classic)

    # the world

    def create_topic(self, name: str, partition_count: int) -> bytes:
        topic_id = self.rng.randbytes(16)
        self._change(
            [
                TopicRecord(name=name, topic_id=topic_id),
                *(_partition(topic_id, partition) for partition in range(partition_count)),
            ]
        )
        return topic_id

    def add_partitions(self, name: str, partition_count: int) -> None:
        topic = self.image.topics_by_name[name]
        self._change([_partition(topic.id, partition) for partition in range(len(topic.partitions), partition_count)])

    def change_leader(self, name: str) -> None:
        self._change([PartitionChangeRecord(topic_id=self.topic_id(name), partition_id=0, leader=1)])

    def delete_topic(self, name: str) -> None:
        self._change([RemoveTopicRecord(topic_id=self.topic_id(name))])

    def topic_id(self, name: str) -> bytes:
        return self.image.topics_by_name[name].id

    def _change(self, records: list[Message]) -> None:
        changes = self.image.apply(records)
        self.consumer.metadata_changed(changes, self.now)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, with everything that is due on the way."""
        end = self.now + milliseconds
        while (due := self.state.timers.deadline()) is not None and due <= end:
            self._move_to(max(due, self.now))
            self._run_due()
        self._move_to(end)

    def _run_due(self) -> None:
        while (operation := self.state.timers.pop_due(self.now)) is not None:
            call = Call(now=self.now, timestamp=self.timestamp, api_version=-1)
            self._carry_out(operation(self.now, self.timestamp), None, call)

    def _move_to(self, now: int) -> None:
        self.timestamp += now - self.now
        self.now = now

    def restart(self) -> None:
        """What a coordinator knows after it has read the log again."""
        self._start()
        for key, value in self.written:
            record = decode_record(key, value)
            assert record is not None
            self._replay(record)
        self.classic.loaded(self.now, self.timestamp)
        self.consumer.loaded(self.now)

    # requests

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        *,
        topics: list[str] | None = None,
        regex: str | None = None,
        owned: Partitions | None = None,
        instance: str | None = None,
        rack: str | None = None,
        rebalance_ms: int | None = None,
        assignor: str | None = None,
        version: int = 1,
        group: str = GROUP,
        client_id: str = "client",
    ) -> ConsumerGroupHeartbeatResponse:
        """A join has what a client puts into it unless it is given."""
        if epoch == 0:
            owned = {} if owned is None else owned
            rebalance_ms = 60_000 if rebalance_ms is None else rebalance_ms
            topics = [] if topics is None and regex is None else topics
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=-1 if rebalance_ms is None else rebalance_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in owned.items()
            ],
        )
        response: ConsumerGroupHeartbeatResponse = self.send(self.consumer.heartbeat, request, version, client_id)
        return response

    def send(self, command: Any, message: Message, version: int, client_id: str = "client") -> Any:
        request = Request(version)
        call = Call(
            now=self.now,
            timestamp=self.timestamp,
            api_version=version,
            client_id=client_id,
            client_host="/127.0.0.1",
            waiter=request,
            may_describe=self.may_describe,
        )
        self._carry_out(command(message, call), request, call)
        self._run_due()
        return request.response if request.response is not None else request

    def join_group(self, request: JoinGroupRequest, version: int = 9) -> Any:
        found = self.state.groups.get(request.group_id)
        in_consumer_group = isinstance(found, ConsumerGroup) and not found.is_empty
        return self.send(self.consumer.classic_join if in_consumer_group else self.classic.join, request, version)

    def sync_group(self, request: SyncGroupRequest, version: int = 5) -> Any:
        return self.send(self.consumer.classic_sync if self.is_consumer else self.classic.sync, request, version)

    def classic_heartbeat(self, request: HeartbeatRequest, version: int = 4) -> ErrorCode:
        command = self.consumer.classic_heartbeat if self.is_consumer else self.classic.heartbeat
        return ErrorCode(self.send(command, request, version).error_code)

    def leave_group(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[MemberIdentity(member_id=id, group_instance_id=instance) for id, instance in members],
        )
        response = self.send(self.consumer.classic_leave if self.is_consumer else self.classic.leave, request, 5)
        return [ErrorCode(member.error_code) for member in response.members]

    # what is there

    @property
    def is_consumer(self) -> bool:
        return isinstance(self.state.groups.get(GROUP), ConsumerGroup)

    @property
    def group(self) -> ConsumerGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def member(self, member_id: str) -> ConsumerMember:
        return self.group.members[member_id]

    @property
    def kinds(self) -> list[str]:
        """What the records of the last decision are, with a minus for those that take something away."""
        return [
            ("" if record.value is not None else "-")
            + type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
            for record in self.last
        ]

    def _carry_out(self, decision: CoordinatorDecision[Any], caller: Request | None, call: Call) -> None:
        if decision.records and self.write_error is not None:
            error, self.write_error = KafkaError(self.write_error), None
            if decision.refused is None:
                assert caller is not None and decision.reply is not None
                caller.answer(type(decision.reply)(error_code=error.code))
                return
            decision = decision.refused(error, call)
            assert not decision.records
        self.last = decision.records
        for record in decision.records:
            self.written.append(encode_record(record))
            self._replay(record)
        if caller is not None and decision.reply is not None:
            caller.answer(decision.reply)
        for answer in decision.answers:
            answer.waiter.answer(answer.response)

    def _replay(self, record: GroupRecord) -> None:
        if isinstance(record.key, GroupMetadataKey):
            self.classic.replay(record.key, record.value)  # type: ignore[arg-type]
        else:
            self.consumer.replay(record.key, record.value)


def _partition(topic_id: bytes, partition: int) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id, partition_id=partition, replicas=[1], isr=[1], leader=1, directories=[bytes(16)]
    )


@dataclass(eq=False)
class Consumer:
    """A client of the consumer protocol: takes what it is given, gives up what it has to, and says so."""

    coordinator: Coordinator
    id: str
    topics: list[str] | None = None
    regex: str | None = None
    instance: str | None = None
    assignor: str | None = None
    epoch: int = 0
    owned: Partitions = field(default_factory=dict)
    assigned: Partitions = field(default_factory=dict)
    said: Partitions | None = None
    """What it last said that it owns."""
    must_say_all: bool = False
    """After a lost answer, a client sends all its fields again and gets all of its assignment."""

    def beat(self) -> ErrorCode:
        is_full = self.epoch == 0 or self.must_say_all
        owned = {id: list(each) for id, each in self.owned.items() if each}
        response = self.coordinator.heartbeat(
            self.id,
            self.epoch,
            topics=self.topics if is_full else None,
            regex=self.regex if is_full else None,
            instance=self.instance,
            assignor=self.assignor if is_full else None,
            rebalance_ms=60_000 if is_full else None,
            owned=owned if is_full or self.owned != self.said else None,
        )
        code = ErrorCode(response.error_code)
        if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.lose_all()
            return code
        if code:
            return code
        self.said = self.owned
        self.must_say_all = False
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.assigned = {topic.topic_id: list(topic.partitions) for topic in response.assignment.topic_partitions}
            kept = {
                id: [partition for partition in partitions if partition in self.assigned.get(id, ())]
                for id, partitions in self.owned.items()
            }
            kept = {id: partitions for id, partitions in kept.items() if partitions}
            # partitions are given up before others are taken, and that is said before
            self.owned = self.assigned if kept == {id: each for id, each in self.owned.items() if each} else kept
        elif self.owned != self.assigned:
            self.owned = self.assigned
        return code

    def lose_all(self) -> None:
        self.epoch, self.owned, self.assigned, self.said = 0, {}, {}, None
        self.must_say_all = False

    def leave(self) -> None:
        self.coordinator.heartbeat(self.id, -1, instance=self.instance)
        self.lose_all()

    @property
    def partitions(self) -> set[tuple[bytes, int]]:
        return {(id, partition) for id, partitions in self.owned.items() for partition in partitions}


@dataclass(eq=False)
class ClassicConsumer:
    """A client of the classic protocol: it keeps its partitions over a rebalance (cooperative), or not (eager)."""

    coordinator: Coordinator
    topics: list[str]
    instance: str | None = None
    is_eager: bool = False
    id: str = ""
    generation: int = -1
    owned: dict[str, list[int]] = field(default_factory=dict)
    join_code: ErrorCode = ErrorCode.NONE

    @property
    def protocol(self) -> str:
        return "range" if self.is_eager else "cooperative-sticky"

    def subscription(self) -> bytes:
        owned = {} if self.is_eager else self.owned
        message = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[TopicPartition(topic=topic, partitions=each) for topic, each in owned.items()],
            generation_id=self.generation,
        )
        return b"\x00\x03" + encode_bytes(message, 3)

    def request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=self.protocol, metadata=self.subscription())],
        )

    def join(self) -> Any:
        """The response, or the request if it waits."""
        if self.is_eager:
            self.owned = {}
        response = self.coordinator.join_group(self.request())
        if not isinstance(response, Request) and response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = response.member_id
            response = self.coordinator.join_group(self.request())
        return response

    def take(self, response: Any) -> ErrorCode:
        """The JoinGroup is answered: sync."""
        self.join_code = ErrorCode(response.error_code)
        if response.error_code:
            if self.join_code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.id, self.generation, self.owned = "", -1, {}
            return self.join_code
        self.id, self.generation = response.member_id, response.generation_id
        return self.sync(response.protocol_name)

    def sync(self, protocol_name: str | None = None) -> ErrorCode:
        synced = self.coordinator.sync_group(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocol_name=protocol_name or self.protocol,
            )
        )
        if isinstance(synced, Request):
            return ErrorCode.NONE  # the leader has not brought the assignment yet
        if not synced.error_code:
            assert synced.assignment[:2] == b"\x00\x03"
            assignment = decode_assignment(synced.assignment)
            self.owned = {topic.topic: list(topic.partitions) for topic in assignment.assigned_partitions}
        return ErrorCode(synced.error_code)

    def beat(self) -> ErrorCode:
        """Heartbeat, and join again if that is asked."""
        if self.generation == -1:
            return self.take(self.join())
        code = self.coordinator.classic_heartbeat(
            HeartbeatRequest(
                group_id=GROUP, generation_id=self.generation, member_id=self.id, group_instance_id=self.instance
            )
        )
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            response = self.join()
            if not isinstance(response, Request):
                self.take(response)
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
            self.id, self.generation, self.owned = "", -1, {}
        return code


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    from ottla.groups.consumer_protocol import decode_assignment as decode

    return decode(data)


def settle(clients: Iterable[Consumer | ClassicConsumer], rounds: int = 20) -> None:
    """Let everyone send heartbeats until the group is stable."""
    clients = list(clients)
    for _ in range(rounds):
        for client in clients:
            client.beat()
        coordinator = clients[0].coordinator
        if coordinator.is_consumer and coordinator.group.state == "Stable":
            for client in clients:
                client.beat()
            return
    raise AssertionError(f"not stable after {rounds} rounds: {clients[0].coordinator.group.state}")
