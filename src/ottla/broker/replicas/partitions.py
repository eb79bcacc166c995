"""The partitions this node hosts: for each the log, its place in the cluster, and its purgatory.

A partition leads, alone or with followers, or follows another node. Three kinds of requests are parked with
it: fetches of consumers until the high watermark moves, fetches of followers until the log grows, and Produce with
acks=all until what was written is committed (`purgatory`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import INTERNAL_TOPICS
from ottla.wire.sentinels import NO_LEADER

if TYPE_CHECKING:
    from ottla.replication.fetch_sessions import FetchPartition
    from ottla.replication.leader import Leader
    from ottla.storage import Appended, Log


EVERYTHING = 1 << 62
"""More bytes than any fetch waits for."""
ANSWERED_AT_ONCE_MS = 2
"""A producer that waits for each answer sends its next request within this time."""


class DelayedFetch(Protocol):
    """A fetch that is parked until there is data."""

    def grew(self, partition: Partition, size: int) -> None: ...


class DelayedCommit(Protocol):
    """A request that is parked until what was appended is committed."""

    @property
    def is_over(self) -> bool: ...
    def committed(self, partition: Partition) -> None: ...
    def failed(self, partition: Partition, error: KafkaError) -> None: ...


class Partition:
    """One replica of a partition on this node. A new one leads, without followers, until `lead` or `follow` is
    called.
    """

    __slots__ = (
        "_committed_at",
        "_delayed_commits",
        "_end_offset",
        "_told_start_offset",
        "_unseen_bytes",
        "delayed_fetches",
        "delayed_follower_fetches",
        "fetches",
        "index",
        "is_alone",
        "is_internal",
        "is_leader",
        "is_streaming",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int, log: Log, leader_epoch: int) -> None:
        self.topic = topic
        self.is_internal = topic in INTERNAL_TOPICS
        """Whether only nodes write to it."""
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        self.leader_id = NO_LEADER
        self.is_leader = True
        self.is_alone = True
        """Whether this is the only replica, and leads: everything in its log is committed."""
        self.is_streaming = False
        """Whether the last append came before the earlier ones were committed, or not right after: then the producer
        does not wait for answers between requests.
        """
        self._committed_at = -1
        self.leader: Leader | None = None
        """The leader's view of its followers, if it has any."""
        self.delayed_fetches: dict[DelayedFetch, None] = {}
        self.delayed_follower_fetches: dict[DelayedFetch, None] = {}
        """Fetches of followers without a session."""
        self.fetches: dict[int, FetchPartition] = {}
        """Follower with a session -> what it fetches of this partition."""
        self._end_offset = log.log_end_offset
        """Where the log ended before it grew."""
        self._told_start_offset = log.log_start_offset
        self._delayed_commits: deque[tuple[int, DelayedCommit]] = deque()
        self._unseen_bytes = 0
        """Appended, but not committed yet."""

    # Its place in the cluster

    def lead(self, leader: Leader | None, leader_epoch: int, node_id: int) -> None:
        """Lead from now on, with these followers; alone if there are none."""
        is_new_epoch = leader_epoch != self.leader_epoch
        self.is_leader = True
        self.is_alone = leader is None
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.leader_id = node_id
        log = self.log
        self._end_offset = log.log_end_offset
        if leader is None and not log.is_flush_due and log.high_watermark < log.log_end_offset:
            log.advance_high_watermark(log.log_end_offset)
            self._complete_commits()
            self.wake_fetches(1)
        if is_new_epoch:
            self.wake_all()  # requests with the epoch before are refused

    def follow(self, leader_id: int, leader_epoch: int) -> None:
        """Another node leads (-1: none): parked requests get NOT_LEADER_OR_FOLLOWER."""
        self.is_leader = self.is_alone = False
        self.leader = None
        self.leader_epoch = leader_epoch
        self.leader_id = leader_id
        self._unseen_bytes = 0
        self.wake_all()

    def check_leader(self) -> None:
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def has_enough_in_sync(self) -> bool:
        """acks=all is refused while fewer replicas are in sync than `min.insync.replicas`."""
        leader = self.leader
        return leader is None or len(leader.isr) >= leader.required_isr(self.log.config.min_insync_replicas)

    def check_in_sync(self) -> None:
        leader = self.leader
        if leader is not None and not self.has_enough_in_sync():
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic}-{self.index} has {len(leader.isr)} replicas in sync, fewer than min.insync.replicas",
            )

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """KIP-320: an error if the client's leader epoch is older, or newer, than this replica's."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # Appending as leader

    def append(self, batches: memoryview, timestamp: int, now: int, is_verified: bool = True) -> Appended:
        """Append as leader. Without other replicas the records are committed at once and the high watermark rises,
        unless they must be on disk first (`flush.messages`).
        """
        self.check_leader()
        appended = self.log.append(
            batches, leader_epoch=self.leader_epoch, timestamp=timestamp, now=now, is_verified=is_verified
        )
        self.grew(len(batches), now)
        return appended

    def append_as_coordinator(
        self, batch: bytearray, timestamp: int, now: int, transaction_version: int = 0
    ) -> Appended:
        """Append a batch that a coordinator made: records of a transaction in an internal topic, or a marker;
        always as acks=all would."""
        self.check_leader()
        self.check_in_sync()
        appended = self.log.append_control(
            batch,
            leader_epoch=self.leader_epoch,
            timestamp=timestamp,
            now=now,
            transaction_version=transaction_version,
        )
        self.grew(len(batch), now)
        return appended

    def grew(self, size: int, now: int) -> None:
        """So many bytes were appended as leader."""
        log = self.log
        tail = self.log
        if self.is_alone:
            if not log.is_flush_due:
                log.advance_high_watermark(log.log_end_offset)
                if self.delayed_fetches:
                    self.wake_fetches(size)
            return
        self._unseen_bytes += size
        leader = self.leader
        assert leader is not None
        if len(leader.isr) == 1:
            self.advance(now)  # otherwise the followers' fetches raise the high watermark
        before = self._end_offset
        self._end_offset = tail.log_end_offset
        self.is_streaming = tail.high_watermark < before or now - self._committed_at > ANSWERED_AT_ONCE_MS
        for replica_id, fetch in self.fetches.items():
            leader.outgrew(replica_id, before, fetch.asked_at)
            fetch.grew()
        if self.delayed_follower_fetches:
            for delayed in list(self.delayed_follower_fetches):
                delayed.grew(self, size)

    def fetched(self, replica_id: int, broker_epoch: int, offset: int, start_offset: int, now: int) -> None:
        """A follower has everything before an offset: the high watermark may rise."""
        leader = self.leader
        assert leader is not None
        leader.fetched(replica_id, offset, self.log.log_end_offset, now, broker_epoch, start_offset)
        self.advance(now)

    def advance(self, now: int) -> None:
        """Raise the high watermark to what the in-sync replicas have, and complete the requests parked for it."""
        leader = self.leader
        if leader is None:
            return
        tail = self.log
        end_offset = tail.recovery_point if tail.is_flush_due else tail.log_end_offset
        committed = leader.committed_offset(end_offset, now, self.log.config.min_insync_replicas)
        before = tail.high_watermark
        if committed is None or committed <= before:
            return
        committed_offset = committed
        size = max(1, self._unseen_bytes * (committed_offset - before) // max(1, tail.log_end_offset - before))
        self._unseen_bytes -= min(size, self._unseen_bytes)
        tail.advance_high_watermark(committed_offset)
        self._committed_at = now
        self._complete_commits()
        if self.delayed_fetches:
            self.wake_fetches(size)
        self.tell_followers()

    def tell_followers(self) -> None:
        """Mark this partition in every follower's session: its high watermark, log start or ISR changed."""
        for fetch in self.fetches.values():
            fetch.moved()

    def tell_of_start(self) -> None:
        """Mark this partition for followers and consumers that do not know its log start."""
        log_start_offset = self.log.log_start_offset
        if log_start_offset != self._told_start_offset:
            self._told_start_offset = log_start_offset
            self.wake_fetches(0)
        for fetch in self.fetches.values():
            if fetch.log_start_offset != log_start_offset:
                fetch.moved()

    async def flush(self) -> None:
        """Sync what was appended so far; simultaneous calls share one fsync."""
        log = self.log
        end_offset = log.log_end_offset
        await log.flush(end_offset)
        if not self.is_alone:
            self.advance(int(asyncio.get_running_loop().time() * 1000))
        elif end_offset > log.high_watermark:
            log.advance_high_watermark(end_offset)
            if self.delayed_fetches:
                self.wake_fetches(1)

    async def commit(self) -> None:
        """Wait until what was appended so far is committed: in every in-sync replica, and on disk if the topic requires
        it. KafkaError NOT_LEADER_OR_FOLLOWER if the leader changes before that.
        """
        end_offset = self.log.log_end_offset
        if self.is_alone or self.log.is_flush_due:
            await self.flush()
        if self.log.high_watermark < end_offset:
            self.check_leader()
            committed = _Committed(asyncio.get_running_loop().create_future())
            self.park_commit(end_offset, committed)
            await committed.future

    # Purgatory

    def park_commit(self, end_offset: int, commit: DelayedCommit) -> None:
        """Park a request until everything below an offset is committed. Offsets come in order."""
        self._delayed_commits.append((end_offset, commit))

    def unpark_overdue(self) -> None:
        """Remove requests at the head of the queue whose timeout has passed."""
        while self._delayed_commits and self._delayed_commits[0][1].is_over:
            self._delayed_commits.popleft()

    def _complete_commits(self) -> None:
        commits, tail = self._delayed_commits, self.log
        high_watermark = tail.high_watermark
        while commits and commits[0][0] <= high_watermark:
            commits.popleft()[1].committed(self)

    def park(self, delayed: DelayedFetch) -> None:
        self.delayed_fetches[delayed] = None

    def unpark(self, delayed: DelayedFetch) -> None:
        self.delayed_fetches.pop(delayed, None)

    def wake_all(self) -> None:
        """Something other than data changed (deleted, moved, truncated): wake every parked fetch."""
        if not self.is_leader:
            commits, self._delayed_commits = self._delayed_commits, deque()
            for _, commit in commits:
                commit.failed(self, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        for delayed in [*self.delayed_fetches, *self.delayed_follower_fetches]:
            delayed.grew(self, EVERYTHING)
        for fetch in self.fetches.values():
            fetch.grew()

    def wake_fetches(self, size: int) -> None:
        """So many more bytes can be read: wake parked fetches for which that is enough."""
        for delayed in list(self.delayed_fetches):
            delayed.grew(self, size)


class _Committed:
    """Waits for a commit on behalf of a coroutine."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future

    @property
    def is_over(self) -> bool:
        return self.future.done()

    def committed(self, partition: Partition) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def failed(self, partition: Partition, error: KafkaError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Partitions:
    """All partitions of the node, by topic name and by topic id."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self.names: dict[bytes, str] = {}

    def add(self, partition: Partition) -> None:
        self.by_name.setdefault(partition.topic, {})[partition.index] = partition
        self.by_id.setdefault(partition.topic_id, {})[partition.index] = partition
        self.names[partition.topic_id] = partition.topic

    def remove(self, topic: str) -> list[Partition]:
        """Remove a deleted topic's partitions; woken requests find that the whole topic is gone."""
        of_topic = self.by_name.pop(topic, {})
        removed = list(of_topic.values())
        for partition in removed:
            self.by_id.pop(partition.topic_id, None)
            self.names.pop(partition.topic_id, None)
        for partition in removed:
            partition.follow(NO_LEADER, partition.leader_epoch)
        return removed

    def remove_one(self, partition: Partition) -> None:
        """Remove a partition whose replica on this node was deleted."""
        for by_index in (self.by_name.get(partition.topic), self.by_id.get(partition.topic_id)):
            if by_index is not None and by_index.get(partition.index) is partition:
                del by_index[partition.index]
        partition.follow(NO_LEADER, partition.leader_epoch)

    def get(self, topic: str, index: int) -> Partition | None:
        by_index = self.by_name.get(topic)
        return by_index.get(index) if by_index is not None else None

    def __iter__(self) -> Iterator[Partition]:
        for by_index in self.by_name.values():
            yield from by_index.values()
