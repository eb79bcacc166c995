"""The transaction coordinator of a node: its partitions of `__transaction_state`, and the transactional ids in them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.coordinators.events import log_records
from ottla.broker.coordinators.hosted_shard import Refuse, coordinator_error
from ottla.broker.coordinators.markers import TransactionMarkers
from ottla.broker.coordinators.remote import RemoteBrokers
from ottla.broker.coordinators.runtime import Coordinator
from ottla.cluster.features import TRANSACTION_VERSION
from ottla.machine import Call, CoordinatorDecision
from ottla.transactions import (
    SendMarkers,
    TopicPartition,
    TransactionRecord,
    TransactionShard,
    decode_record,
    encode_record,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import TRANSACTION_STATE_TOPIC
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ottla.wire.messages.end_txn import EndTxnResponse

if TYPE_CHECKING:
    from ottla.broker.caller import Caller
    from ottla.broker.coordinators.groups import GroupCoordinator
    from ottla.broker.coordinators.hosted_shard import HostedShard
    from ottla.broker.coordinators.producer_ids import ProducerIds
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replicas.partitions import Partition
    from ottla.broker.replicas.replicas import Replicas

CLIENT_VERSION_THAT_ADDS = 2
ENDING = frozenset(
    [
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    ]
)
"""Refusals after which a producer ends, or gives up its transaction."""


class TransactionPartitions(NamedTuple):
    """Partitions to add to a producer's transaction, or to verify in it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    client_version: int
    api_key: int = 24


Codes = dict[TopicPartition, ErrorCode]


class TransactionCoordinator(Coordinator[TransactionShard]):
    topic = TRANSACTION_STATE_TOPIC

    def __init__(
        self,
        ground: Ground,
        replicas: Replicas,
        controller: ControllerPort,
        peers: Peers,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
    ) -> None:
        super().__init__(ground, replicas, controller)
        self.remote = RemoteBrokers(ground, peers)
        self.markers = TransactionMarkers(ground, replicas, groups, self.remote)
        self.producer_ids = producer_ids
        self.past_counts: Counter[str] = Counter()
        """Counters of shards that are no longer on this node."""
        self.unconfirmed_count = 0
        self.delayed_produces: dict[int, asyncio.Future[None]] = {}
        """By producer id: its latest produce request that waits for a coordinator."""

    def new_machine(self, index: int) -> TransactionShard:
        ground = self.ground
        image = ground.image.partition(self.topic, index)
        return TransactionShard(
            config=lambda: ground.config,
            transaction_version=lambda: self.transaction_version,
            new_producer_id=self._take_producer_id,
            coordinator_epoch=image.leader_epoch if image is not None else 0,
        )

    @property
    def transaction_version(self) -> int:
        return self.ground.image.features.get(TRANSACTION_VERSION, 0)

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        return encode_record(record)

    def written(self, records: list[TransactionRecord], *, is_due: bool) -> None:
        log_records(records, is_due=is_due)

    def decode(self, key: bytes, value: bytes | None) -> TransactionRecord | None:
        return decode_record(key, value)

    def complete_transaction(self, machine: TransactionShard, producer_id: int, is_commit: bool) -> None:
        machine.replay_transaction_end(producer_id, is_commit=is_commit)

    def retired(self, machine: TransactionShard) -> None:
        self.past_counts.update(machine.counts)

    def own_call(self, now: int, timestamp: int) -> Call:
        return Call(now, timestamp)

    def call(self, caller: Caller) -> Call:
        return Call(self.ground.now(), self.ground.clock(), caller.api_version)

    def creatable_topic(self) -> CreatableTopic:
        config = self.ground.config
        return CreatableTopic(
            name=self.topic,
            num_partitions=config.transaction_state_log_num_partitions,
            replication_factor=config.transaction_state_log_replication_factor,
            configs=[
                CreatableTopicConfig(name=name, value=value)
                for name, value in (
                    ("cleanup.policy", "compact"),
                    ("compression.type", "uncompressed"),
                    ("min.insync.replicas", str(config.transaction_state_log_min_isr)),
                    ("segment.bytes", str(config.transaction_state_log_segment_bytes)),
                    ("unclean.leader.election.enable", "false"),
                )
            ],
        )

    @property
    def configured_partition_count(self) -> int:
        return self.ground.config.transaction_state_log_num_partitions

    def perform(self, hosted: HostedShard[TransactionShard], effects: list[SendMarkers]) -> None:
        for effect in effects:
            self.markers.send(hosted, effect)

    def confirmed(self, hosted: HostedShard[TransactionShard], answer: Any, request: Any, refuse: Refuse) -> Any:
        """The answer, or a future that confirms leadership first. A deposed coordinator may have an older epoch or
        state of the producer than its successor. So two kinds of answers are confirmed: those that end a producer or
        its transaction, and those that report success without a new record, whose commit would have proved leadership.
        (In version 1 of the protocol all transactions of a producer have one epoch: an earlier one that had this
        partition, or that was committed, looks like the one at hand.)
        """
        if isinstance(answer, asyncio.Future):
            return answer
        code = answer if isinstance(answer, ErrorCode) else getattr(answer, "error_code", ErrorCode.NONE)
        is_ending = not ENDING.isdisjoint(answer.values()) if isinstance(answer, dict) else code in ENDING
        is_done_already = code == ErrorCode.NONE and isinstance(answer, ErrorCode | EndTxnResponse)
        if not (is_ending or is_done_already) or self.replicas.leadership.is_certain(hosted.partition):
            return answer
        return self.ground.spawn(self._confirmed(answer, hosted.partition, request, refuse))

    async def _confirmed(self, answer: Any, partition: Partition, request: Any, refuse: Refuse) -> Any:
        try:
            await self.replicas.leadership.confirm(partition)
        except KafkaError as error:
            return refuse(request, coordinator_error(error))
        return answer

    # --- Partitions of transactions

    def add_partitions(self, request: TransactionPartitions, call: Call) -> ErrorCode | asyncio.Future[ErrorCode]:
        """AddPartitionsToTxn and AddOffsetsToTxn of one transactional id."""
        found: ErrorCode | asyncio.Future[ErrorCode] = self.run(
            request.transactional_id, _add_partitions, request, call, _refused
        )
        return found

    def verify_partitions(self, request: TransactionPartitions) -> Codes | asyncio.Future[Codes]:
        try:
            hosted = self.shard(self.partition_for(request.transactional_id))
        except KafkaError as error:
            return _refused_all(request, error)
        if hosted.machine is None:
            return dict.fromkeys(request.partitions, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        codes = hosted.machine.verify_partitions(
            request.transactional_id, request.producer_id, request.producer_epoch, request.partitions
        )
        verified: Codes | asyncio.Future[Codes] = self.confirmed(hosted, codes, request, _refused_all)
        return verified

    def admit(self, request: TransactionPartitions) -> Codes | asyncio.Future[Codes]:
        """Check whether a producer may write to these partitions (KIP-890): a partition's leader asks before it opens a
        transaction in its log. From protocol version 2 on this adds the partitions to the transaction; the record of
        that is committed before the answer, so that no data is written without it.
        """
        adds = request.client_version >= CLIENT_VERSION_THAT_ADDS
        image = self.ground.image.partition(self.topic, self.partition_for(request.transactional_id))
        if image is not None and image.leader != self.ground.node_id:
            return self.remote.admit(image.leader, request, adds=adds)
        if not adds:
            return self.verify_partitions(request)
        call = Call(self.ground.now(), self.ground.clock(), api_version=5)
        answer: Codes | asyncio.Future[Codes] = self.run(
            request.transactional_id, _add_partitions, request, call, _refused_all, _for_all
        )
        if isinstance(answer, dict):
            return answer
        if not answer.done():
            hosted = self.shards.get(self.partition_for(request.transactional_id))
            if hosted is not None:
                hosted.append_now()
        return answer.result() if answer.done() else answer

    # Producer ids

    async def reserve_producer_id(self) -> None:
        """Wait until producer ids are available for a shard."""
        while self.producer_ids.is_empty:
            await self.producer_ids.allocate()

    def _take_producer_id(self) -> int | None:
        producer_id = self.producer_ids.take()
        if producer_id is None:
            self.ground.spawn(self.reserve_producer_id())
        return producer_id


def _add_partitions(machine: TransactionShard, request: TransactionPartitions, call: Call) -> CoordinatorDecision[Any]:
    return machine.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.partitions,
        call,
        client_version=request.client_version,
        api_key=request.api_key,
    )


def _refused(request: TransactionPartitions, error: KafkaError) -> ErrorCode:
    return error.code


def _refused_all(request: TransactionPartitions, error: KafkaError) -> Codes:
    return dict.fromkeys(request.partitions, error.code)


def _for_all(request: TransactionPartitions, code: ErrorCode) -> Codes:
    return dict.fromkeys(request.partitions, code)
