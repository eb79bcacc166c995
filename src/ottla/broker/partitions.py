"""The partitions this node hosts: for each the log, its place in the cluster, and who waits for it to grow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from ottla.cluster.topic import INTERNAL_TOPICS
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.storage import Appended, Log


EVERYTHING = 1 << 62
"""More bytes than anyone waits for."""


class Waiter(Protocol):
    """A fetch that waits for data (Kafka's purgatory)."""

    def grew(self, partition: Partition, size: int) -> None: ...


class Partition:
    """One replica of a partition on this node, and for now always its leader."""

    __slots__ = ("index", "is_internal", "leader_epoch", "log", "topic", "topic_id", "waiters")

    def __init__(self, topic: str, topic_id: bytes, index: int, log: Log, leader_epoch: int) -> None:
        self.topic = topic
        self.is_internal = topic in INTERNAL_TOPICS
        """Whether only the node itself writes to it."""
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        self.waiters: dict[Waiter, None] = {}

    def append(self, batches: memoryview, timestamp: int, now: int, is_verified: bool = True) -> Appended:
        """Append as leader. The only replica is the whole ISR, so what it holds is committed: the high watermark
        follows at once, unless the topic wants records on disk before anyone may count on them (`flush.messages`)."""
        log = self.log
        appended = log.append(
            batches, leader_epoch=self.leader_epoch, timestamp=timestamp, now=now, is_verified=is_verified
        )
        if not log.is_flush_due:
            log.advance_high_watermark(log.log_end_offset)
            if self.waiters:
                self.notify(len(batches))
        return appended

    def append_as_coordinator(
        self, batch: bytearray, timestamp: int, now: int, transaction_version: int = 0
    ) -> Appended:
        """Append a batch that a coordinator made: records of a transaction in an internal topic, or a marker."""
        log = self.log
        appended = log.append_control(
            batch,
            leader_epoch=self.leader_epoch,
            timestamp=timestamp,
            now=now,
            transaction_version=transaction_version,
        )
        if not log.is_flush_due:
            log.advance_high_watermark(log.log_end_offset)
            if self.waiters:
                self.notify(len(batch))
        return appended

    async def flush(self) -> None:
        """Put on disk what was appended so far; calls that come together share one fsync."""
        log = self.log
        end_offset = log.log_end_offset
        await log.flush(end_offset)
        if end_offset > log.high_watermark:
            log.advance_high_watermark(end_offset)
            if self.waiters:
                self.notify(1)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """KIP-320: a client that knows another epoch than ours learns who is behind."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def add_waiter(self, waiter: Waiter) -> None:
        self.waiters[waiter] = None

    def remove_waiter(self, waiter: Waiter) -> None:
        self.waiters.pop(waiter, None)

    def wake_all(self) -> None:
        """Something other than data changed (deleted, moved, truncated): let everyone look again."""
        for waiter in list(self.waiters):
            waiter.grew(self, EVERYTHING)

    def notify(self, size: int) -> None:
        """So many bytes more can be read."""
        for waiter in list(self.waiters):
            waiter.grew(self, size)


class Partitions:
    """All of them, by topic name and by topic id."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self.names: dict[bytes, str] = {}

    def add(self, partition: Partition) -> None:
        self.by_name.setdefault(partition.topic, {})[partition.index] = partition
        self.by_id.setdefault(partition.topic_id, {})[partition.index] = partition
        self.names[partition.topic_id] = partition.topic

    def remove(self, topic: str) -> list[Partition]:
        """Take a deleted topic's partitions away; those who wait for them find the whole topic gone."""
        of_topic = self.by_name.pop(topic, {})
        removed = list(of_topic.values())
        for partition in removed:
            self.by_id.pop(partition.topic_id, None)
            self.names.pop(partition.topic_id, None)
        for partition in removed:
            partition.wake_all()
        return removed

    def get(self, topic: str, index: int) -> Partition | None:
        by_index = self.by_name.get(topic)
        return by_index.get(index) if by_index is not None else None

    def __iter__(self) -> Iterator[Partition]:
        for by_index in self.by_name.values():
            yield from by_index.values()
