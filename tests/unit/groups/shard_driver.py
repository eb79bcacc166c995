"""A shard as its driver sees it: decisions are encoded, decoded and replayed, as at an append and at a restart."""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.cluster import ClusterImage, TopicImage
from ottla.config import BrokerConfig, GroupConfig
from ottla.groups import Call, GroupRecord, GroupShard, decode_record, encode_record
from ottla.machine import CoordinatorDecision
from ottla.wire import encode_bytes
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from ottla.wire.messages.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "group.initial.rebalance.delay.ms": "0",
}
START_TIMESTAMP = 1_700_000_000_000
MINUTE_MS = 60_000
NO_TOPIC_ID = bytes(16)
Committed = tuple[int, int, str]
"""An offset with its leader epoch and metadata."""


def topic_id(name: str, incarnation: int = 0) -> bytes:
    return f"{name}-{incarnation}".encode().ljust(16, b".")[:16]


class Shard:
    """A GroupShard, its log, and both clocks."""

    def __init__(self, *topics: str, **settings: str) -> None:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig.parse(NODE | names)
        self.image = ClusterImage()
        for name in topics or ("t", "u"):
            topic = TopicImage(name, topic_id(name))
            self.image.topics_by_name[name] = self.image.topics_by_id[topic.id] = topic
        self.now = 1_000
        self.timestamp = START_TIMESTAMP
        self.log: list[tuple[bytes, bytes | None, int] | tuple[int, bool]] = []
        """Records with the producer id of their batch, and markers of transactions."""
        self.machine = self.new_machine()
        self.machine.loaded(self.now, self.timestamp)

    def new_machine(self) -> GroupShard:
        return GroupShard(
            image=self.image,
            config=lambda: self.config,
            group_config=lambda group_id: GroupConfig.parse({}, self.config),
            rng=Random(1),
        )

    def call(self, version: int, waiter: Any = None) -> Call:
        return Call(self.now, self.timestamp, version, waiter, "client", "/127.0.0.1")

    def append(self, decision: CoordinatorDecision[Any], producer_id: int = -1) -> Any:
        """What the driver does with a decision; returns its reply."""
        for record in decision.records:
            key, value = encode_record(record)
            self.log.append((key, value, producer_id))
            self.machine.replay(record, producer_id)
        return decision.reply

    def restarted(self) -> GroupShard:
        """The shard that the log makes."""
        machine = self.new_machine()
        for entry in self.log:
            if len(entry) == 2:
                machine.replay_transaction_end(entry[0], is_commit=entry[1])
                continue
            key, value, producer_id = entry
            record = decode_record(key, value)
            assert record is not None
            machine.replay(record, producer_id)
        return machine

    def restart(self) -> None:
        self.machine = self.restarted()
        self.machine.loaded(self.now, self.timestamp)

    def pass_ms(self, duration_ms: int) -> list[GroupRecord]:
        """Let time go by, from deadline to deadline; returns the records that deadlines wrote."""
        end = self.now + duration_ms
        written: list[GroupRecord] = []
        while (deadline := self.machine.deadline()) is not None and deadline <= end:
            written += self.step()
        self.move_to(end)
        return written

    def step(self) -> list[GroupRecord]:
        """Wait for the next deadline; returns the records that it wrote."""
        deadline = self.machine.deadline()
        assert deadline is not None
        self.move_to(max(deadline, self.now))
        decision = self.machine.next_due(self.now, self.timestamp)
        assert decision is not None
        self.append(decision)
        return decision.records

    def move_to(self, now: int) -> None:
        self.timestamp += now - self.now
        self.now = now

    # Requests.

    def commit(
        self,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        offset: int = 10,
        *,
        version: int = 9,
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
        retention_ms: int = -1,
        metadata: str | None = "",
        leader_epoch: int = -1,
        id: bytes | None = None,
    ) -> int:
        """Commit one offset; returns the error code."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id(topic) if id is None else id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )
        response = self.append(self.machine.commit_offsets(request, self.call(version)))
        [result] = response.topics[0].partitions
        assert (response.topics[0].name, result.partition_index) == (topic, partition)
        code: int = result.error_code
        return code

    def commit_in_transaction(
        self,
        producer_id: int,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        offset: int = 10,
        *,
        generation: int = -1,
        member_id: str = "",
        metadata: str | None = "",
        version: int = 5,
    ) -> int:
        request = TxnOffsetCommitRequest(
            transactional_id="txn",
            group_id=group,
            producer_id=producer_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        response = self.append(self.machine.commit_transaction_offsets(request, self.call(version)), producer_id)
        code: int = response.topics[0].partitions[0].error_code
        return code

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.log.append((producer_id, is_commit))
        self.machine.replay_transaction_end(producer_id, is_commit=is_commit)

    def fetch(
        self,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        *,
        is_stable: bool = False,
        id: bytes = NO_TOPIC_ID,
        member_id: str | None = None,
        epoch: int = -1,
    ) -> tuple[int, int]:
        """The committed offset and the error code of one partition."""
        request = OffsetFetchRequestGroup(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            topics=[OffsetFetchRequestTopics(name=topic, topic_id=id, partition_indexes=[partition])],
        )
        response = self.fetch_group(request, is_stable=is_stable)
        if response.error_code:
            return -1, response.error_code
        [result] = response.topics[0].partitions
        assert (response.topics[0].topic_id, result.partition_index) == (id, partition)
        return result.committed_offset, result.error_code

    def fetch_group(self, request: OffsetFetchRequestGroup, *, is_stable: bool = False) -> OffsetFetchResponseGroup:
        decision = self.machine.fetch_offsets(request, self.call(10), require_stable=is_stable)
        assert not decision.records and decision.reply is not None
        return decision.reply

    def fetch_all(self, group: str = "g", *, is_stable: bool = False) -> dict[tuple[str, int], tuple[int, int]]:
        """All of a group's offsets with their error codes."""
        response = self.fetch_group(OffsetFetchRequestGroup(group_id=group, topics=None), is_stable=is_stable)
        assert response.error_code == 0
        return {
            (topic.name, partition.partition_index): (partition.committed_offset, partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        }

    def delete_offsets(self, group: str = "g", topic: str = "t", *partitions: int) -> OffsetDeleteResponse:
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions or (0,)],
                )
            ],
        )
        response: OffsetDeleteResponse = self.append(self.machine.delete_offsets(request, self.call(0)))
        return response

    def delete_groups(self, *groups: str) -> dict[str, int]:
        request = DeleteGroupsRequest(groups_names=list(groups))
        response = self.append(self.machine.delete_groups(request, self.call(2)))
        return {result.group_id: result.error_code for result in response.results}

    def join(self, group: str = "g", *, protocol_type: str = "consumer", topics: tuple[str, ...] = ("t",)) -> str:
        """Have a member join a classic group and get its assignment; returns its id. The group is Stable then."""
        metadata = subscription(*topics) if protocol_type == "consumer" else b"settings"
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        decision: CoordinatorDecision[Any] | None = self.machine.join_group(request, self.call(3, "join"))
        assert decision is not None
        self.append(decision)
        joined: Any = next((answer.response for answer in decision.answers), decision.reply)
        if joined is None:
            decision = self.machine.next_due(self.now, self.timestamp)
            assert decision is not None
            self.append(decision)
            joined = decision.answers[0].response
        assert isinstance(joined, JoinGroupResponse) and joined.error_code == 0, joined
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
        )
        self.append(self.machine.sync_group(sync, self.call(3, "sync")))
        assert self.machine.state.groups[group].state == "Stable"
        return joined.member_id


def subscription(*topics: str) -> bytes:
    """What a consumer tells its group: the version, and the topics that it wants to read."""
    return b"\x00\x00" + encode_bytes(ConsumerProtocolSubscription(topics=list(topics)), 0)


def state_of(machine: GroupShard) -> tuple[Any, ...]:
    """All that a restart must bring back."""
    offsets = machine.offsets.committed
    return (
        {
            (group, topic, partition): value
            for group, topic, partition, value in sorted(machine.committed_offsets(), key=lambda entry: entry[:3])
        },
        {
            (group, topic, partition): dict(producers)
            for group, topics in sorted(offsets._pending.items())
            for topic, partitions in sorted(topics.items())
            for partition, producers in sorted(partitions.items())
        },
        {producer: sorted(partitions) for producer, partitions in sorted(offsets._transactions.items())},
        machine.offset_count,
        sorted((group.id, group.type, group.state, group.protocol_type) for group in machine.state.groups.values()),
    )
