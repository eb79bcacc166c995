"""The offsets of share groups for administrators: the share coordinator stores them, the group coordinator checks the
group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.coordinators.persister import AT_A_TIME
from ottla.groups.share.group import Partitions, ShareGroup
from ottla.groups.share.groups import keys_of
from ottla.groups.share.state_batches import NO_START_OFFSET
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import UNKNOWN_COUNT, ShareState
from ottla.machine import CoordinatorDecision
from ottla.net import NoAnswer
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from ottla.broker.coordinators.groups import GroupCoordinator
    from ottla.broker.coordinators.persister import Persister
    from ottla.broker.ground import Ground
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replicas.replicas import Replicas
    from ottla.cluster import TopicImage
    from ottla.groups.shard import GroupShard
    from ottla.wire import Message

UNKNOWN_LAG = -1
LATEST = -1
CONSUMER = -1
"""The replica id of a consumer, in ListOffsets."""
_KAFKAS_WORDS = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition."}


def words(code: ErrorCode) -> str:
    """The message that an administrator's tool prints for a refused topic: Kafka's if it differs from Ottla's."""
    return _KAFKAS_WORDS.get(code, code.text)


class ShareOffset(NamedTuple):
    """The position of a share group in a partition."""

    start_offset: int = NO_START_OFFSET
    leader_epoch: int = 0
    lag: int = UNKNOWN_LAG
    error: KafkaError | None = None


class ShareOffsets:
    def __init__(
        self, ground: Ground, replicas: Replicas, peers: Peers, groups: GroupCoordinator, persister: Persister
    ) -> None:
        self._ground = ground
        self._replicas = replicas
        self._peers = peers
        self._groups = groups
        self._persister = persister

    @property
    def is_enabled(self) -> bool:
        return self._groups.is_share_protocol_enabled

    def topics_of(self, group_id: str) -> dict[str, list[int]]:
        """The topics and partitions that a group has offsets of; none for an unknown group. KafkaError if the
        group is not coordinated here."""
        group = self._group(group_id)
        if group is None:
            return {}
        by_id = self._ground.image.topics_by_id
        return {
            by_id[topic_id].name: sorted(indexes)
            for topic_id, indexes in group.partitions.initialized.items()
            if topic_id in by_id
        }

    def _group(self, group_id: str) -> ShareGroup | None:
        machine = self._groups.shard(self._groups.partition_for(group_id)).machine
        if machine is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        group = machine.state.groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    # Describing

    async def describe(self, group_id: str, topic: TopicImage, indexes: Sequence[int]) -> list[ShareOffset]:
        """One row for each partition; a partition without an offset, or that does not exist, has a row without one."""
        rows: list[ShareState | KafkaError | None] = []
        for start in range(0, len(indexes), AT_A_TIME):
            piece = indexes[start : start + AT_A_TIME]
            rows += await asyncio.gather(*(self._summary(group_id, topic, index) for index in piece))
        known = [
            index
            for index, row in zip(indexes, rows, strict=True)
            if isinstance(row, ShareState) and row.delivery_complete_count != UNKNOWN_COUNT
        ]
        ends = await self._end_offsets(topic, known) if known else {}
        return [_offset(row, ends.get(index)) for index, row in zip(indexes, rows, strict=True)]

    async def _summary(self, group_id: str, topic: TopicImage, index: int) -> ShareState | KafkaError | None:
        if index not in topic.partitions:
            return None
        try:
            return await self._persister.summary(SharePartitionKey(group_id, topic.id, index))
        except KafkaError as error:
            return error

    async def _end_offsets(self, topic: TopicImage, indexes: list[int]) -> dict[int, int]:
        """The high watermarks of partitions, here or from their leaders; those of leaders that do not answer are left
        out."""
        ends: dict[int, int] = {}
        elsewhere: dict[int, list[int]] = {}
        for index in indexes:
            leader = topic.partitions[index].leader
            if leader == self._ground.node_id:
                partition = self._replicas.partitions.get(topic.name, index)
                if partition is not None:
                    ends[index] = partition.log.high_watermark
            else:
                elsewhere.setdefault(leader, []).append(index)
        for leader, of_leader in elsewhere.items():
            ends.update(await self._ask_end_offsets(leader, topic.name, of_leader))
        return ends

    async def _ask_end_offsets(self, leader: int, name: str, indexes: list[int]) -> dict[int, int]:
        address = self._ground.broker_address(leader)
        if address is None:
            return {}
        answered: asyncio.Future[Any] = self._ground.loop.create_future()

        def take(answer: Message | NoAnswer) -> None:
            if not answered.done():
                answered.set_result(answer)

        rows = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes]
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=[ListOffsetsTopic(name=name, partitions=rows)])
        self._peers.send(*address, request, take, self._ground.config.request_timeout_ms)
        answer = await answered
        if isinstance(answer, NoAnswer):
            return {}
        return {
            row.partition_index: row.offset
            for topic in answer.topics
            for row in topic.partitions
            if row.error_code == ErrorCode.NONE
        }

    # Changing

    async def alter(self, group_id: str, offsets: dict[bytes, dict[int, int]]) -> dict[SharePartitionKey, KafkaError]:
        """Set the offsets of an empty group: partitions by topic id, each with its start offset. The
        errors of those that could not be altered; KafkaError if the group may not be."""
        partitions: Partitions = {topic_id: frozenset(of_topic) for topic_id, of_topic in offsets.items()}
        epoch: int = await self._run(group_id, lambda machine: machine.share.begin_alter(group_id, partitions))
        failed: dict[SharePartitionKey, KafkaError] = {}
        keys = [
            (SharePartitionKey(group_id, topic_id, index), offset)
            for topic_id, of_topic in offsets.items()
            for index, offset in of_topic.items()
        ]

        async def one(key: SharePartitionKey, offset: int) -> None:
            try:
                await self._persister.initialize(key, epoch, offset)
            except KafkaError as error:
                failed[key] = error

        for start in range(0, len(keys), AT_A_TIME):
            await asyncio.gather(*(one(key, offset) for key, offset in keys[start : start + AT_A_TIME]))
        done = _partitions(key for key, _ in keys if key not in failed)
        call = self._groups.own_call(self._ground.now(), self._ground.clock())
        await self._run(group_id, lambda machine: machine.share.initialized(group_id, done, _partitions(failed), call))
        return failed

    async def delete(self, group_id: str, topic_ids: list[bytes]) -> dict[bytes, KafkaError | None]:
        """Have an empty group forget its offsets of topics: by topic id, None or what went wrong; a topic that the
        group has no offsets of is not in it. KafkaError if the group may not be changed."""
        keys: list[SharePartitionKey] = await self._run(
            group_id, lambda machine: machine.share.begin_delete(group_id, topic_ids)
        )
        results = await self._persister.delete_all(keys)
        by_topic: dict[bytes, KafkaError | None] = {}
        for key, error in results.items():
            by_topic[key.topic_id] = by_topic.get(key.topic_id) or error
        await self._run(group_id, lambda machine: machine.share.deleted(group_id, topic_ids))
        return by_topic

    def of_empty_groups(self, group_ids: Iterable[str]) -> list[SharePartitionKey]:
        """The share partitions of those of the groups that are share groups without members and coordinated here."""
        keys: list[SharePartitionKey] = []
        for group_id in group_ids:
            try:
                group = self._group(group_id)
            except KafkaError:
                continue
            if group is not None and group.is_empty:
                keys += keys_of(group, group.partitions.topic_ids)
        return keys

    async def delete_states(self, group_ids: Iterable[str]) -> dict[str, KafkaError]:
        """Delete all states of empty share groups; the groups whose states could not be deleted, with the error."""
        results = await self._persister.delete_all(self.of_empty_groups(group_ids))
        return {key.group_id: error for key, error in results.items() if error is not None}

    async def _run(self, group_id: str, command: Callable[[GroupShard], CoordinatorDecision[Any]]) -> Any:
        """Run a command of the group's shard; its reply once its records are committed."""

        def decide(machine: GroupShard, request: Any, call: Any) -> CoordinatorDecision[Any]:
            decision = command(machine)
            return CoordinatorDecision(decision.records, (decision.reply,), effects=decision.effects)

        def refuse(request: Any, error: KafkaError) -> KafkaError:
            return error

        call = self._groups.own_call(self._ground.now(), self._ground.clock())
        found = self._groups.run(group_id, decide, group_id, call, refuse)
        found = await found if isinstance(found, asyncio.Future) else found
        if isinstance(found, KafkaError):
            raise found
        return found[0]


def _offset(row: ShareState | KafkaError | None, end_offset: int | None) -> ShareOffset:
    if row is None:
        return ShareOffset()
    if isinstance(row, KafkaError):
        return ShareOffset(error=row)
    lag = UNKNOWN_LAG
    if end_offset is not None and row.start_offset != NO_START_OFFSET and row.delivery_complete_count != UNKNOWN_COUNT:
        lag = end_offset - row.start_offset - row.delivery_complete_count
    return ShareOffset(row.start_offset, row.leader_epoch, lag)


def _partitions(keys: Iterable[SharePartitionKey]) -> Partitions:
    by_topic: dict[bytes, set[int]] = {}
    for key in keys:
        by_topic.setdefault(key.topic_id, set()).add(key.partition)
    return {topic_id: frozenset(indexes) for topic_id, indexes in by_topic.items()}
