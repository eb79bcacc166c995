"""The share coordinator of a node: `__share_group_state`, and the states of share partitions in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.coordinators.runtime import Coordinator
from ottla.groups.share.state_records import (
    SharePartitionKey,
    ShareStateRecord,
    decode_state_record,
    encode_state_record,
)
from ottla.groups.share.state_shard import ShareOutcome, ShareStateShard, ShareWrite
from ottla.machine import Call, CoordinatorDecision
from ottla.records import Compression, Record
from ottla.wire import WireError
from ottla.wire.errors import KafkaError
from ottla.wire.internal_topics import SHARE_GROUP_STATE_TOPIC
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from ottla.broker.coordinators.hosted_shard import HostedShard
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.replicas.replicas import Replicas
    from ottla.cluster import ImageChanges

Command = Callable[[ShareStateShard, Call], CoordinatorDecision[ShareOutcome]]
Outcome = ShareOutcome | asyncio.Future[ShareOutcome]
SNAPSHOTS_PER_TURN = 100
"""How many share partitions that were not written for a while get a new snapshot in one decision."""


class _Pruning(NamedTuple):
    """What can be deleted of a shard's log, once the log is committed up to its present end."""

    machine: ShareStateShard
    redundant_offset: int
    end_offset: int


class ShareCoordinator(Coordinator[ShareStateShard]):
    topic = SHARE_GROUP_STATE_TOPIC

    def __init__(self, ground: Ground, replicas: Replicas, controller: ControllerPort) -> None:
        super().__init__(ground, replicas, controller)
        self._planned: dict[int, _Pruning] = {}
        """By partition of `__share_group_state`."""

    def new_machine(self, index: int) -> ShareStateShard:
        ground = self.ground
        return ShareStateShard(config=lambda: ground.config, is_partition=self._is_partition)

    def _is_partition(self, topic_id: bytes, partition: int) -> bool:
        topic = self.ground.image.topics_by_id.get(topic_id)
        return topic is not None and partition in topic.partitions

    def encode(self, record: ShareStateRecord) -> tuple[bytes, bytes | None]:
        return encode_state_record(record)

    def decode(self, key: bytes, value: bytes | None) -> ShareStateRecord | None:
        return decode_state_record(key, value)

    def replay(
        self, machine: ShareStateShard, index: int, records: list[Record], start_offset: int, producer_id: int
    ) -> None:
        for record in records:
            if record.offset < start_offset or record.key is None:
                continue
            machine.log_offset = record.offset
            try:
                decoded = decode_state_record(record.key, record.value)
            except WireError as error:
                self.passed_over(index, record, error)
                continue
            if decoded is not None:
                machine.replay(decoded)

    def own_call(self, now: int, timestamp: int) -> Call:
        return Call(now, timestamp)

    def creatable_topic(self) -> CreatableTopic:
        config = self.ground.config
        return CreatableTopic(
            name=self.topic,
            num_partitions=config.share_coordinator_state_topic_num_partitions,
            replication_factor=config.share_coordinator_state_topic_replication_factor,
            configs=[
                CreatableTopicConfig(name=name, value=value)
                for name, value in (
                    ("cleanup.policy", "delete"),
                    ("compression.type", "producer"),
                    ("min.insync.replicas", str(config.share_coordinator_state_topic_min_isr)),
                    ("retention.ms", "-1"),
                    ("segment.bytes", str(config.share_coordinator_state_topic_segment_bytes)),
                )
            ],
        )

    @property
    def configured_partition_count(self) -> int:
        return self.ground.config.share_coordinator_state_topic_num_partitions

    @property
    def compression(self) -> Compression:
        return Compression(self.ground.config.share_coordinator_state_topic_compression_codec)

    # Requests

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Outcome:
        return self._run(key, lambda machine, call: machine.initialize(key, state_epoch, start_offset, call))

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Outcome:
        return self._run(key, lambda machine, call: machine.read(key, leader_epoch, call))

    def write(self, key: SharePartitionKey, write: ShareWrite) -> Outcome:
        return self._run(key, lambda machine, call: machine.write(key, write, call))

    def delete(self, key: SharePartitionKey) -> Outcome:
        return self._run(key, lambda machine, call: machine.delete(key))

    def summary(self, key: SharePartitionKey) -> Outcome:
        return self._run(key, lambda machine, call: machine.summary(key))

    def _run(self, key: SharePartitionKey, command: Command) -> Outcome:
        """Call the shard of a share partition; returns the outcome, or a future for it."""
        try:
            hosted = self.shard(self.partition_for(key.text))
        except KafkaError as error:
            return ShareOutcome(error.code, error.code.text)
        call = self.own_call(self.ground.now(), self.ground.clock())
        self._note_offset(hosted)
        found: Outcome = hosted.run(_decided, command, call, _refused)
        return found

    def _note_offset(self, hosted: HostedShard[ShareStateShard]) -> None:
        if hosted.machine is not None:
            hosted.machine.log_offset = hosted.partition.log.log_end_offset

    # The log

    def start(self) -> None:
        super().start()
        self.ground.every(self.ground.config.share_coordinator_state_topic_prune_interval_ms, self.prune)

    def prune(self) -> None:
        """Delete the records of `__share_group_state` that snapshots have replaced, and snapshot the share partitions
        that were not written for a while: their old snapshots prevent the deletion of all later records. A snapshot
        replaces nothing before it is committed: what is redundant now is deleted once the log's present end is
        committed.
        """
        planned, self._planned = self._planned, {}
        for hosted in self.active():
            machine, index = hosted.machine, hosted.partition.index
            assert machine is not None
            self._note_offset(hosted)
            log = hosted.partition.log
            plans = (planned.get(index), _Pruning(machine, machine.redundant_offset, log.log_end_offset))
            for plan in plans:
                if plan is None or plan.machine is not machine:
                    continue
                if log.high_watermark < plan.end_offset:
                    self._planned.setdefault(index, plan)
                elif plan.redundant_offset > log.log_start_offset:
                    log.delete_records(plan.redundant_offset)
                    hosted.partition.tell_of_start()
            call = self.own_call(self.ground.now(), self.ground.clock())
            decision = machine.snapshot_cold(call, SNAPSHOTS_PER_TURN)
            if decision.records:
                hosted.carry_out(decision, call)

    # Metadata

    def metadata_changed(self, changes: ImageChanges) -> None:
        super().metadata_changed(changes)
        if not changes.topics_deleted:
            return
        deleted = [topic.id for topic in changes.topics_deleted.values()]
        for hosted in self.active():
            machine = hosted.machine
            assert machine is not None
            decision = machine.forget_topics(deleted)
            if decision.records:
                hosted.carry_out(decision, self.own_call(self.ground.now(), self.ground.clock()))

    def counts(self) -> dict[str, Any]:
        """Figures of the shards that are here: share partitions, and writes since they were loaded."""
        machines = [hosted.machine for hosted in self.active() if hosted.machine is not None]
        return {
            "states": sum(len(machine.states) for machine in machines),
            "writes": sum(machine.write_count for machine in machines),
        }


def _decided(machine: ShareStateShard, command: Command, call: Call) -> CoordinatorDecision[ShareOutcome]:
    return command(machine, call)


def _refused(command: Command, error: KafkaError) -> ShareOutcome:
    return ShareOutcome(error.code, error.code.text)
