"""Markers: the outcome of a transaction, written into every partition that has records of it.

A coordinator requests the markers of a decided transaction and gets a report of each that is written. A failed write is
retried until it succeeds, or until the shard that requested it is dropped: its successor requests the markers again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.machine import Call
from ottla.records import end_txn_marker
from ottla.transactions import SendMarkers, TopicPartition
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from ottla.broker.coordinators.groups import GroupCoordinator
    from ottla.broker.coordinators.hosted_shard import HostedShard
    from ottla.broker.coordinators.remote import RemoteBrokers
    from ottla.broker.ground import Ground
    from ottla.broker.replicas.replicas import Replicas
    from ottla.transactions import TransactionShard

log = logging.getLogger("ottla.coordinators")

RETRY_MS = 100
_STOPPING = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""A newer producer or coordinator has written to the partition: as in Kafka, these markers are dropped."""


class TransactionMarkers:
    def __init__(self, ground: Ground, replicas: Replicas, groups: GroupCoordinator, remote: RemoteBrokers) -> None:
        self._ground = ground
        self._replicas = replicas
        self._groups = groups
        self._remote = remote

    def send(self, hosted: HostedShard[TransactionShard], effect: SendMarkers) -> None:
        """Write at once the markers that can be: the producer may then begin its next transaction without waiting."""
        written: list[TopicPartition] = []
        retried: list[TopicPartition] = []
        elsewhere: dict[int, list[TopicPartition]] = {}
        is_stopped = False
        for partition in effect.partitions:
            image = self._ground.image.partition(*partition)
            if image is not None and image.leader != self._ground.node_id:
                elsewhere.setdefault(image.leader, []).append(partition)
                continue
            try:
                done = self.write(
                    partition,
                    effect.producer_id,
                    effect.producer_epoch,
                    is_commit=effect.is_commit,
                    coordinator_epoch=effect.coordinator_epoch,
                    transaction_version=effect.transaction_version,
                )
            except KafkaError as error:
                if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not self._exists(partition):
                    written.append(partition)  # deleted meanwhile: it needs no marker
                elif error.code in _STOPPING:
                    is_stopped = True
                    log.error(
                        "the transaction marker of %s is not written to %s-%d: %s",
                        effect.transactional_id,
                        *partition,
                        error,
                    )
                else:
                    retried.append(partition)
                continue
            if done is None:
                written.append(partition)
            else:
                self._ground.spawn(self._tell_when_done(hosted, effect, partition, done))
        if is_stopped:
            return
        for leader_id, partitions in elsewhere.items():
            self._remote.write_markers(
                leader_id, effect, partitions, lambda codes: self._written_elsewhere(hosted, effect, codes)
            )
        if retried:
            self._ground.loop.call_later(RETRY_MS / 1000, self._retry, hosted, effect, tuple(retried))
        if written:
            self._tell(hosted, effect, written)

    def _written_elsewhere(
        self, hosted: HostedShard[TransactionShard], effect: SendMarkers, codes: dict[TopicPartition, ErrorCode]
    ) -> None:
        if any(code in _STOPPING for code in codes.values()):
            log.error("the transaction markers of %s are not written: %s", effect.transactional_id, codes)
            return
        written = [
            partition
            for partition, code in codes.items()
            if code == ErrorCode.NONE or (code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not self._exists(partition))
        ]
        retried = tuple(partition for partition in codes if partition not in written)
        if retried:
            self._ground.loop.call_later(RETRY_MS / 1000, self._retry, hosted, effect, retried)
        if written:
            self._tell(hosted, effect, written)

    def write(
        self,
        at: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> asyncio.Future[None] | None:
        """One marker; None when it is committed, otherwise a future for that. KafkaError when it cannot be written."""
        ground = self._ground
        if producer_id < 0 or producer_epoch < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a marker needs a producer id and an epoch")
        if at.topic == GROUP_METADATA_TOPIC:
            if not self._exists(at):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            future = self._groups.shard(at.partition).end_transaction(
                producer_id,
                producer_epoch,
                is_commit=is_commit,
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
            )
            return None if future.done() and future.exception() is None else future
        partition = self._replicas.partition(at.topic, at.partition)
        timestamp = ground.clock()
        marker = end_txn_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_commit=is_commit,
            coordinator_epoch=coordinator_epoch,
            timestamp=timestamp,
        )
        partition.append_as_coordinator(marker, timestamp, ground.now(), transaction_version)
        if partition.log.high_watermark < partition.log.log_end_offset:
            return ground.spawn(partition.commit())
        return None

    def _exists(self, partition: TopicPartition) -> bool:
        return self._ground.image.partition(*partition) is not None

    def _retry(
        self, hosted: HostedShard[TransactionShard], effect: SendMarkers, partitions: tuple[TopicPartition, ...]
    ) -> None:
        if not hosted.is_gone and not self._ground.is_stopping:
            self.send(hosted, replace(effect, partitions=partitions))

    async def _tell_when_done(
        self,
        hosted: HostedShard[TransactionShard],
        effect: SendMarkers,
        partition: TopicPartition,
        done: asyncio.Future[None],
    ) -> None:
        try:
            await done
        except (KafkaError, OSError):
            self._ground.loop.call_later(RETRY_MS / 1000, self._retry, hosted, effect, (partition,))
            return
        self._tell(hosted, effect, [partition])

    def _tell(
        self, hosted: HostedShard[TransactionShard], effect: SendMarkers, partitions: list[TopicPartition]
    ) -> None:
        machine = hosted.machine
        if hosted.is_gone or machine is None:
            return
        ground = self._ground
        now, timestamp = ground.now(), ground.clock()
        transaction = effect.transactional_id, effect.producer_id, effect.producer_epoch
        decision = machine.markers_written(*transaction, partitions, timestamp)
        if decision.records:
            hosted.carry_out(decision, Call(now, timestamp))
            if machine.markers_written(*transaction, (), timestamp).records:
                # The record that completes the transaction could not be written (the disk may be full), and nothing
                # else would retry.
                ground.loop.call_later(RETRY_MS / 1000, self._tell, hosted, effect, [])
