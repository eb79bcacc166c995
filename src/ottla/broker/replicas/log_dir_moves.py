"""Replicas that move from one log dir of this node to another (AlterReplicaLogDirs, KIP-113).

A copy is made in a folder that ends in -future, while the log is still written and read. When the copy has everything,
the new log dir is reported to the controller, the rest is copied, and in the same turn the copy replaces the log. After
a restart the node continues with the copies that it finds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.replication.follower import truncation_offset
from ottla.storage import Log, LogDir
from ottla.storage.logs import MAX_NAME_SIZE
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.replicas.partitions import Partition, Partitions
    from ottla.broker.replicas.throttles import ReplicationThrottles
    from ottla.storage import Logs
    from ottla.storage.compaction import Cleaner

log = logging.getLogger("ottla.replicas")

COPY_BYTES = 256 * 1024
MAX_PAUSE_MS = 500
RETRY_MS = 500
FUTURE_NAME_OVERHEAD = len("-.") + 32 + len("-future")
"""The length of a copy's folder name beyond topic and partition."""


class LogDirMoves:
    def __init__(
        self,
        ground: Ground,
        logs: Logs,
        partitions: Partitions,
        throttles: ReplicationThrottles,
        cleaner: Cleaner,
        controller: ControllerPort,
    ) -> None:
        self._ground = ground
        self._logs = logs
        self._partitions = partitions
        self._throttles = throttles
        self._cleaner = cleaner
        self._controller = controller
        self._moving: dict[tuple[str, int], bool] = {}
        """Partitions with a copy -> whether the controller has their new log dir."""
        self._wanted: dict[tuple[str, int], LogDir] = {}
        """The log dirs requested for partitions that are not on this node yet."""
        self._copying: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Continue with the copies that were found on disk."""
        for log_dir in self._logs.log_dirs:
            for key in log_dir.futures:
                self._moving[key] = False
        self._go_on()

    def is_settling(self, partition: Partition) -> bool:
        """Whether the controller has a new log dir for the partition that it has not moved to yet."""
        return self._moving.get((partition.topic, partition.index), False)

    def wanted_dir(self, topic: str, index: int) -> LogDir | None:
        """The log dir for a partition, if one was requested before it existed here."""
        log_dir = self._wanted.pop((topic, index), None)
        return log_dir if log_dir is not None and log_dir.is_online else None

    def alter(self, topic: str, index: int, path: str, find: Callable[[str, int], Partition | None]) -> None:
        """Move a replica to this log dir: start a copy there, if it is in another one. KafkaError if that is not
        possible. `find` opens a partition that is not open yet.
        """
        logs = self._logs
        if len(topic) + len(str(index)) + FUTURE_NAME_OVERHEAD > MAX_NAME_SIZE:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        absolute = self._ground.disk.absolute
        log_dir = next((one for one in logs.log_dirs if absolute(one.path) == absolute(path)), None)
        if log_dir is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
        if not log_dir.is_online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        try:
            partition = self._partitions.get(topic, index) or find(topic, index)
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
            partition = None
        if partition is None:
            self._wanted[topic, index] = log_dir
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
        if partition.log.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {topic}-{index} is offline")
        future = logs.future(topic, index)
        if future is not None and logs.dir_of(future) is log_dir:
            return
        if future is not None:
            self._give_up((topic, index))
        if logs.dir_of(partition.log) is not log_dir:
            logs.create_future(partition.log, log_dir)
            self._moving[topic, index] = False
            self._go_on()

    def removed(self, partition: Partition) -> None:
        self._moving.pop((partition.topic, partition.index), None)

    def log_dir_failed(self) -> None:
        """A log dir failed: give up copies in it, and copies of its logs."""
        for key in list(self._moving):
            current, future = self._logs.get(*key), self._logs.future(*key)
            if current is None or current.is_offline or future is None or future.is_offline:
                self._give_up(key)

    def _give_up(self, key: tuple[str, int]) -> None:
        was_told = self._moving.pop(key, False)
        self._logs.drop_future(*key)
        if was_told:
            self.assign_dirs()

    # Telling the controller

    def assign_dirs(self) -> None:
        """Report to the controller the log dir of each partition for which it left the choice to this broker
        (KIP-858).
        """
        if len(self._logs.log_dirs) == 1 or self._ground.is_stopping:
            return
        node_id = self._ground.node_id
        misplaced = {}
        for partition in self._partitions:
            image = self._ground.image.partition(partition.topic, partition.index)
            log_dir = self._logs.dir_of(partition.log)
            if image is None or log_dir is None or log_dir.directory_id is None or node_id not in image.replicas:
                continue
            if self.is_settling(partition):
                continue
            if image.directory(node_id) != log_dir.directory_id:
                misplaced[partition.topic_id, partition.index] = log_dir.directory_id
        if misplaced:
            self._ground.spawn(self.tell_dirs(misplaced))

    async def tell_dirs(self, misplaced: dict[tuple[bytes, int], bytes]) -> None:
        """Report log dirs of replicas to the controller. KafkaError if it cannot be reached."""
        directories: dict[bytes, dict[bytes, list[AssignReplicasToDirsRequestPartitionData]]] = {}
        for (topic_id, index), directory_id in misplaced.items():
            partitions = directories.setdefault(directory_id, {}).setdefault(topic_id, [])
            partitions.append(AssignReplicasToDirsRequestPartitionData(partition_index=index))
        response = await self._controller.ask(
            AssignReplicasToDirsRequest(
                broker_id=self._ground.node_id,
                broker_epoch=self._controller.broker_epoch,
                directories=[
                    AssignReplicasToDirsRequestDirectoryData(
                        id=directory_id,
                        topics=[
                            AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=partitions)
                            for topic_id, partitions in topics.items()
                        ],
                    )
                    for directory_id, topics in directories.items()
                ],
            )
        )
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))

    # Copying

    def _go_on(self) -> None:
        if self._moving and (self._copying is None or self._copying.done()) and not self._ground.is_stopping:
            self._copying = self._ground.spawn(self._copy_all())

    async def _copy_all(self) -> None:
        """Copy one piece of each in turn, so that requests are answered in between."""
        throttle = self._throttles.log_dirs
        while self._moving and not self._ground.is_stopping:
            for key in list(self._moving):
                wait_ms = throttle.wait_ms(self._ground.now())
                if wait_ms:
                    await asyncio.sleep(min(wait_ms, MAX_PAUSE_MS) / 1000)
                if key not in self._moving or throttle.wait_ms(self._ground.now()):
                    continue
                try:
                    if self._copy_some(key):
                        await self._settle(key)
                except KafkaError as error:
                    log.error("%s-%d does not move to another log dir: %s", *key, error)
                    self._give_up(key)
                await asyncio.sleep(0)

    def _logs_of(self, key: tuple[str, int]) -> tuple[Log, Log]:
        current, future = self._logs.get(*key), self._logs.future(*key)
        if current is None or future is None or current.is_offline or future.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "one of the two log dirs is offline")
        return current, future

    def _copy_some(self, key: tuple[str, int]) -> bool:
        """Copy one piece; True if the copy has everything then."""
        current, future = self._logs_of(key)
        self._align(current, future)
        if future.log_end_offset < current.log_end_offset:
            found = current.read(future.log_end_offset, max_bytes=COPY_BYTES, end_offset=current.log_end_offset)
            if found is not None:
                records = bytearray(found.read())
                first = int.from_bytes(records[:8], "big")
                if future.log_start_offset == future.log_end_offset and first < future.log_start_offset:
                    # The log begins in the middle of a batch, and so does its copy.
                    future.truncate_fully(first, timestamp=self._ground.clock())
                future.append_as_follower(records)
                self._throttles.log_dirs.record(len(records), self._ground.now())
        future.advance_high_watermark(min(current.high_watermark, future.log_end_offset))
        if current.log_start_offset > future.log_start_offset:
            future.advance_log_start(min(current.log_start_offset, future.high_watermark))
        return future.log_end_offset >= current.log_end_offset

    def _align(self, current: Log, future: Log) -> None:
        """Truncate the copy as the log was truncated: by a new leader, or by deletion at its start."""
        timestamp = self._ground.clock()
        if future.log_end_offset < current.log_start_offset:
            future.truncate_fully(current.log_start_offset, timestamp=timestamp)
            return
        latest = future.epochs.latest
        epoch, end_offset = current.end_offset_for_epoch(latest) if latest >= 0 else (-1, -1)
        if latest >= 0 and (epoch != latest or end_offset < future.log_end_offset):
            offset = truncation_offset(future.epochs, future.log_end_offset, 0, epoch, end_offset)
            future.truncate(offset, timestamp=timestamp)
        elif future.log_end_offset > current.log_end_offset:
            future.truncate(current.log_end_offset, timestamp=timestamp)

    async def _settle(self, key: tuple[str, int]) -> None:
        """A copy has everything: it becomes the log, once the controller has its log dir."""
        current, future = self._logs_of(key)
        partition = self._partitions.get(*key)
        log_dir = self._logs.dir_of(future)
        if partition is None or log_dir is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it is not here any more")
        await future.flush()
        if log_dir.directory_id is not None and not self._moving.get(key, True):
            self._moving[key] = True
            try:
                await self.tell_dirs({(partition.topic_id, partition.index): log_dir.directory_id})
            except KafkaError as error:
                log.info("%s-%d: the controller does not know its new log dir yet: %s", *key, error)
                self._moving[key] = False
                await asyncio.sleep(RETRY_MS / 1000)
                return
        if key not in self._moving or not self._copy_some(key):
            return  # given up meanwhile, or many records were written meanwhile: the next turn continues
        current, future = self._logs_of(key)
        if future.recovery_point < current.recovery_point:
            future.flush_now()
        future.advance_high_watermark(current.high_watermark)
        future.producers.verifications = current.producers.verifications
        partition.log = self._logs.promote_future(*key)
        del self._moving[key]
        self._cleaner.moved(partition.log)
        log.info("%s-%d is in %s now", *key, log_dir.path)
