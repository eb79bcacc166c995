"""Hosts the partitions that the image assigns to this node: opens their logs, and leads each or copies it from its
leader.

A partition waits from the moment the metadata names it until its log is open. A few are opened at once, many in pieces,
and a partition that a request needs immediately; if there is no room, or the log dir is offline, the partition keeps
waiting and is retried. So a partition of this node is always in one of two places: in `Partitions`, or waiting here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.pieces import in_pieces
from ottla.broker.replicas.fetchers import Fetchers
from ottla.broker.replicas.isr_changes import IsrChanges
from ottla.broker.replicas.partitions import Partition, Partitions
from ottla.cluster import PartitionImage
from ottla.replication.leader import Leader
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.replicas.log_dir_moves import LogDirMoves
    from ottla.storage import Logs

log = logging.getLogger("ottla.replicas")

Key = tuple[bytes, int]
"""A topic's id and a partition's index."""

PARTITIONS_AT_ONCE = 20
JOIN_CHECK_INTERVAL_MS = 500
RACK_AWARE = "RackAwareReplicaSelector"


class Hosting:
    def __init__(
        self,
        ground: Ground,
        logs: Logs,
        partitions: Partitions,
        fetchers: Fetchers,
        isr_changes: IsrChanges,
        log_dir_moves: LogDirMoves,
    ) -> None:
        self._ground = ground
        self._logs = logs
        self._partitions = partitions
        self._fetchers = fetchers
        self._isr_changes = isr_changes
        self._log_dir_moves = log_dir_moves
        self._unopened: dict[Key, bool] = {}
        """Partitions whose logs are still to be opened -> whether an error with them was logged."""
        self._missing: dict[Key, None] = {}
        """Partitions that existed before and are in no log dir that is online: they are never created again."""
        self._opening: asyncio.Task[None] | None = None
        self._unwritten: dict[Partition, None] = {}
        """Partitions that this node began to lead, and whose epoch file does not have that epoch yet."""
        self._writing: asyncio.Task[None] | None = None
        self._lag_timer: asyncio.TimerHandle | None = None
        self._join_timer: asyncio.TimerHandle | None = None
        self._checkpoint_timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """This node is a registered broker: start copying from leaders, and checking the lag of followers."""
        self._fetchers.start()
        self._log_dir_moves.start()
        self._watch_lag()
        self._look_again()
        self._checkpoint_later()

    def stop(self) -> None:
        self._fetchers.close()
        for timer in (self._lag_timer, self._join_timer, self._checkpoint_timer):
            if timer is not None:
                timer.cancel()

    def _checkpoint_later(self) -> None:
        """For replicated partitions only: a single replica's high watermark follows from its log."""
        interval_ms = self._ground.config.replica_high_watermark_checkpoint_interval_ms
        self._checkpoint_timer = self._ground.loop.call_later(interval_ms / 1000, self._checkpoint_later)
        if any(not partition.is_alone for partition in self._partitions):
            self._logs.checkpoint_high_watermarks()

    @property
    def unopened_count(self) -> int:
        """How many partitions of the image wait to be opened."""
        return len(self._unopened)

    def open_all(self) -> Iterator[None]:
        """At a start, after the logs on disk are loaded: host the image's partitions, one per step."""
        for topic in self._ground.image.topics_by_name.values():
            for index in topic.partitions:
                self._unopened[topic.id, index] = False
        if len(self._logs.online_dirs) < len(self._logs.log_dirs):
            # A partition that is in no online log dir is in the offline one: an empty log in its place would hide it.
            self._missing = dict.fromkeys(self._unopened)
        for key in list(self._unopened):
            self._open(key)
            yield
        self._log_dir_moves.assign_dirs()

    def update(self, partitions: Iterable[Key]) -> None:
        """Create the logs of new partitions: a few at once, many in pieces, so that requests go on being
        answered, except those that a request needs meanwhile (`find`)."""
        topics = self._ground.image.topics_by_id
        for topic_id, index in partitions:
            opened = self._partitions.by_id.get(topic_id, {}).get(index)
            if opened is None:
                self._unopened[topic_id, index] = False
            elif topic_id in topics:
                self._place(opened, topics[topic_id].partitions[index])
        self.open_unopened()

    def open_unopened(self) -> None:
        """Also called periodically: partitions that found no room at first are opened once there is some."""
        if self._opening is not None and not self._opening.done():
            return
        if len(self._unopened) > PARTITIONS_AT_ONCE:
            self._opening = self._ground.spawn(self._open_in_pieces())
            return
        for key in list(self._unopened):
            self._open(key)
        self._log_dir_moves.assign_dirs()

    async def _open_in_pieces(self) -> None:
        await in_pieces(self._opening_of_unopened(), self._ground.timer)
        self._log_dir_moves.assign_dirs()

    def _opening_of_unopened(self) -> Iterator[None]:
        tried: dict[Key, None] = {}
        while keys := [key for key in self._unopened if key not in tried]:
            for key in keys:
                tried[key] = None
                self._open(key)
                yield

    def _open(self, key: Key) -> Partition | None:
        """Open a waiting partition; without room it keeps waiting."""
        if key not in self._unopened:
            return None
        topic_id, index = key
        topic = self._ground.image.topics_by_id.get(topic_id)
        image = topic.partitions.get(index) if topic is not None else None
        if topic is None or image is None or self._ground.node_id not in image.replicas:
            del self._unopened[key]
            return None
        try:
            if self._logs.get(topic.name, index) is None and key in self._missing:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "its log dir is offline")
            found = self._logs.create(
                topic.name,
                index,
                topic_id,
                self._ground.topic_config(topic.name),
                log_dir=self._log_dir_moves.wanted_dir(topic.name, index),
            )
        except KafkaError as error:
            if not self._unopened[key]:
                log.error("partition %s-%d cannot be opened: %s", topic.name, index, error.message)
                self._unopened[key] = True
            return None
        del self._unopened[key]
        if len(image.replicas) == 1:
            found.advance_high_watermark(found.log_end_offset)
        partition = Partition(topic.name, topic_id, index, found, image.leader_epoch)
        self._partitions.add(partition)
        self._place(partition, image)
        return partition

    # Leading and following

    def _place(self, partition: Partition, image: PartitionImage) -> None:
        """Make a partition what the image says: leader or follower."""
        ground = self._ground
        node_id = ground.node_id
        if node_id not in image.replicas:
            self._partitions.remove_one(partition)
            self.removed(partition)
            self._logs.delete(partition.topic, partition.index)
            return
        if image.leader != node_id:
            if partition.is_leader or (partition.leader_id, partition.leader_epoch) != (
                image.leader,
                image.leader_epoch,
            ):
                partition.follow(image.leader, image.leader_epoch)
                # An epoch in which this node led without writing (or led only by outdated metadata) is removed: the
                # leader gets the epoch of the last record.
                partition.log.epochs.truncate_from_end(partition.log.log_end_offset)
            self._fetchers.follow(partition)
            return
        self._fetchers.forget(partition)
        if len(image.replicas) == 1:
            partition.lead(None, image.leader_epoch, node_id)
            return
        leader = partition.leader
        if leader is not None and leader.leader_epoch == image.leader_epoch:
            if leader.changed(image):
                partition.advance(ground.now())
                partition.tell_followers()
            return
        partition.log.begin_epoch(image.leader_epoch)
        self._write_epochs_soon(partition)
        leader = Leader(
            node_id,
            image,
            start_offset=partition.log.log_end_offset,
            brokers=ground.image.brokers,
            max_lag_ms=ground.config.replica_lag_time_max_ms,
            now=ground.now(),
        )
        partition.lead(leader, image.leader_epoch, node_id)
        partition.advance(ground.now())
        partition.wake_all()
        if partition.log.is_flush_due:
            # After a crash: with `flush.messages` the recovered records count as committed only when they are on disk.
            ground.spawn(partition.flush())

    def _write_epochs_soon(self, partition: Partition) -> None:
        """In pieces: on a file system that discards freed blocks, each replaced file waits for the disk."""
        self._unwritten[partition] = None
        if self._writing is None or self._writing.done():
            self._writing = self._ground.spawn(in_pieces(self._writing_of_epochs(), self._ground.timer))

    def _writing_of_epochs(self) -> Iterator[None]:
        while self._unwritten:
            partition = next(iter(self._unwritten))
            del self._unwritten[partition]
            is_here = self._partitions.get(partition.topic, partition.index) is partition
            if is_here and partition.log.epochs.is_dirty and not partition.log.is_offline:
                partition.log.note_epochs()
            yield

    def removed(self, partition: Partition) -> None:
        """A partition was removed from this node."""
        self._fetchers.forget(partition)
        self._log_dir_moves.removed(partition)

    def follower_fetched(
        self, partition: Partition, replica_id: int, broker_epoch: int, offset: int, start_offset: int
    ) -> None:
        """A follower has everything before an offset: the high watermark may rise, and the follower may rejoin the
        ISR.
        """
        leader = partition.leader
        assert leader is not None
        now = self._ground.now()
        partition.fetched(replica_id, broker_epoch, offset, start_offset, now)
        if replica_id not in leader.isr:
            proposed = leader.propose_join(replica_id, partition.log.high_watermark, now)
            if proposed is not None:
                self._isr_changes.propose(partition, leader, proposed)

    def _watch_lag(self) -> None:
        """Runs twice per `replica.lag.time.max.ms`: followers that have not kept up leave the ISR."""
        ground = self._ground
        self._lag_timer = ground.loop.call_later(ground.config.replica_lag_time_max_ms / 2000, self._watch_lag)
        now = ground.now()
        for partition in self._partitions:
            partition.tell_of_start()
            leader = partition.leader
            if leader is not None and not ground.is_stopping:
                proposed = leader.propose_shrink(partition.log.log_end_offset, now)
                if proposed is not None:
                    self._isr_changes.propose(partition, leader, proposed)

    def _look_again(self) -> None:
        """Check followers that have everything and are not in the ISR. The reason may have passed (they were fenced, or
        the controller was busy), and without new records no fetch of theirs would trigger the check.
        """
        ground = self._ground
        self._join_timer = ground.loop.call_later(JOIN_CHECK_INTERVAL_MS / 1000, self._look_again)
        for partition in self._partitions:
            leader = partition.leader
            if leader is not None and leader.proposed is None and len(leader.isr) <= len(leader.replicas):
                for replica_id, fetch in partition.fetches.items():
                    if replica_id not in leader.isr:
                        fetch.moved()

    def preferred_replica(self, partition: Partition, rack: str, offset: int) -> int:
        """KIP-392: the follower in the consumer's rack with the highest log end, if `replica.selector.class` is the
        rack-aware one; -1 for the leader.
        """
        ground, leader = self._ground, partition.leader
        if leader is None or not (ground.config.replica_selector_class or "").endswith(RACK_AWARE):
            return -1
        if ground.config.broker_rack == rack:
            return -1
        best, best_end = -1, -1
        for replica_id, replica in leader.replicas.items():
            broker = ground.image.brokers.get(replica_id)
            if (
                broker is not None
                and not broker.is_fenced
                and broker.rack == rack
                and max(replica.start_offset, 0) <= offset <= replica.end_offset
                and replica.end_offset > best_end
            ):
                best, best_end = replica_id, replica.end_offset
        return best

    # --- Lookup

    def find(self, topic: bytes | str, index: int) -> Partition | None:
        """Open a partition that is still waiting, by its topic's id or name. None if it does not exist;
        NOT_LEADER_OR_FOLLOWER if it is on other nodes."""
        image = self._ground.image
        found = image.topics_by_id.get(topic) if isinstance(topic, bytes) else image.topics_by_name.get(topic)
        if found is None or index not in found.partitions:
            return None
        if self._ground.node_id not in found.partitions[index].replicas:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition = self._open((found.id, index))
        if partition is None and (found.id, index) in self._unopened:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the partition's log dir is offline or has no room for it")
        return partition

    def directory_of(self, topic: str, index: int) -> bytes | None:
        """The log dir in which the metadata has a replica of this node."""
        partition = self._ground.image.partition(topic, index)
        node_id = self._ground.node_id
        return None if partition is None or node_id not in partition.replicas else partition.directory(node_id)

    def is_stray(self, topic: str, index: int, topic_id: bytes | None) -> bool:
        """Whether a log on disk belongs to no replica of this node: its topic was deleted, or created again."""
        found = self._ground.image.topics_by_name.get(topic)
        if found is None or (topic_id is not None and topic_id != found.id):
            return True
        partition = found.partitions.get(index)
        return partition is None or self._ground.node_id not in partition.replicas
