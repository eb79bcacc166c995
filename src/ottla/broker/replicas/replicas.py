"""The room of replicas: logs, partitions, leading and following, and the ISR. The metadata decides which partitions are
on this node and which broker leads each; this room applies that (`image_changed`). Handlers find partitions with
`partition` and `find`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.broker.pieces import in_pieces
from ottla.broker.replicas.fetchers import Fetchers
from ottla.broker.replicas.hosting import Hosting
from ottla.broker.replicas.isr_changes import IsrChanges
from ottla.broker.replicas.leadership import Leadership
from ottla.broker.replicas.log_dir_moves import LogDirMoves
from ottla.broker.replicas.partitions import Partition, Partitions
from ottla.broker.replicas.schema_validation import SchemaValidation
from ottla.broker.replicas.throttles import ReplicationThrottles
from ottla.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.replication.fetch_sessions import FetchSessions
from ottla.storage.compaction import Cleaner
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.peers.peers import Peers
    from ottla.broker.peers.presence import Presence
    from ottla.cluster import ImageChanges, PartitionImage
    from ottla.storage import Logs

FETCH_SESSION_EVICTION_MS = 120_000
REMOVAL_CHECK_INTERVAL_MS = 5_000
UNOPENED_CHECK_INTERVAL_MS = 1_000
FLUSH_CHECK_INTERVAL_MS = 1_000


class Replicas:
    def __init__(
        self, ground: Ground, peers: Peers, presence: Presence, logs: Logs, controller: ControllerPort
    ) -> None:
        config = ground.config
        self.ground = ground
        self.logs = logs
        self.partitions = Partitions()
        self.throttles = ReplicationThrottles(config)
        self.leadership = Leadership(ground)
        self.fetch_sessions = FetchSessions(
            max_slots=config.max_incremental_fetch_session_cache_slots,
            eviction_ms=FETCH_SESSION_EVICTION_MS,
            rng=ground.rng,
        )
        self.cleaner = Cleaner(logs, ground.disk, rng=ground.rng)
        self.log_dir_moves = LogDirMoves(ground, logs, self.partitions, self.throttles, self.cleaner, controller)
        self.fetchers = Fetchers(ground, peers, presence, logs, self.throttles, controller)
        isr_changes = IsrChanges(ground, controller)
        self.hosting = Hosting(ground, logs, self.partitions, self.fetchers, isr_changes, self.log_dir_moves)
        self.schemas = SchemaValidation(ground)
        """Called before a batch is appended to a topic that validates schemas."""
        self._cleaning: asyncio.Task[int] | None = None

    # What handlers use

    def partition(self, topic: str, index: int) -> Partition:
        """The partition, if this node leads it; otherwise Kafka's error."""
        partition = self.partitions.get(topic, index) or self.hosting.find(topic, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.check_leader()
        if partition.log.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return partition

    @property
    def is_everything_online(self) -> bool:
        """Whether no replica can be offline: every broker is unfenced, and every log dir of this one is online."""
        return all(log_dir.is_online for log_dir in self.logs.log_dirs) and not any(
            broker.is_fenced for broker in self.ground.image.brokers.values()
        )

    def offline_replicas(self, topic: str, index: int, partition: PartitionImage) -> list[int]:
        brokers = self.ground.image.brokers
        offline = [replica for replica in partition.replicas if replica not in brokers or brokers[replica].is_fenced]
        here = self.partitions.get(topic, index)
        if here is not None and here.log.is_offline and self.ground.node_id not in offline:
            offline.append(self.ground.node_id)
        return offline

    # Life

    def load(self) -> Iterator[None]:
        """Load the logs on disk, in steps, against the image that the metadata log gave."""
        return self.logs.load(
            self.ground.topic_config, is_stray=self.hosting.is_stray, directory_of=self.hosting.directory_of
        )

    async def open_all(self) -> None:
        """Open the partitions of the image."""
        self.throttles.use_rates(self.ground.config)
        await in_pieces(self.hosting.open_all(), self.ground.timer)

    def start(self) -> None:
        """This node is a registered broker from here on."""
        self.hosting.start()

    def schedule(self) -> None:
        """Start the periodic work: retention, checkpoints, flushes, compaction."""
        ground, logs, config = self.ground, self.logs, self.ground.config
        ground.every(config.log_retention_check_interval_ms, lambda: logs.run_retention(ground.clock()))
        ground.every(config.log_flush_offset_checkpoint_interval_ms, logs.checkpoint)
        ground.every(FLUSH_CHECK_INTERVAL_MS, lambda: logs.flush_due(ground.now()))
        ground.every(REMOVAL_CHECK_INTERVAL_MS, lambda: logs.remove_due(ground.now()))
        ground.every(UNOPENED_CHECK_INTERVAL_MS, self.hosting.open_unopened)
        ground.every(config.producer_id_expiration_check_interval_ms, lambda: logs.expire_producers(ground.clock()))
        if config.log_cleaner_enable:
            ground.every(config.log_cleaner_backoff_ms, self._clean)

    def _clean(self) -> None:
        """Compact what is due, unless the last round still goes on."""
        if self._cleaning is None or self._cleaning.done():
            self._cleaning = self.ground.spawn(self.cleaner.run(self.ground.clock()))

    def stop(self) -> None:
        self.hosting.stop()

    # What changes

    def image_changed(self, changes: ImageChanges) -> None:
        """Apply changes of the image: create and remove logs, change leaders, apply settings of topics."""
        image = self.ground.image
        for topic in changes.topics_deleted.values():
            for partition in self.partitions.remove(topic.name):
                self.hosting.removed(partition)
                self.logs.delete(partition.topic, partition.index)
            self.ground.metrics.forget_topic(topic.name)
            self.schemas.forget_topic(topic.name)
            self.throttles.use_topics(image, [topic.name])
        self.hosting.update(changes.partitions_changed)
        if not changes.configs_changed:
            return
        topics = [name for kind, name in changes.configs_changed if kind == TOPIC_RESOURCE]
        self.throttles.use_topics(image, topics)
        if any(kind == BROKER_RESOURCE for kind, _ in changes.configs_changed):
            self.throttles.use_rates(self.ground.config)
            topics = list(self.partitions.by_name)
        for name in topics:
            of_topic = self.partitions.by_name.get(name)
            if of_topic:
                config = self.ground.topic_config(name)
                for partition in of_topic.values():
                    partition.log.config = config
                    if partition.is_leader and partition.log.is_flush_due:
                        self.ground.spawn(self._flush(partition))

    async def _flush(self, partition: Partition) -> None:
        """With `flush.messages` records are committed once they are on disk; this includes records from before it was
        set.
        """
        with suppress(OSError):  # the log dir is offline then, and the partition with it
            await partition.flush()

    def log_dir_failed(self) -> None:
        for partition in self.partitions:
            if partition.log.is_offline:
                partition.wake_all()
        self.log_dir_moves.log_dir_failed()
