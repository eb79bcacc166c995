"""Incremental fetch sessions (KIP-227): a client names its partitions once, and then only what changes.

A request carries (session id, epoch):

    id 0,  epoch -1   no session: everything is named, everything is answered
    id 0,  epoch  0   the same, and a session is opened for what comes next
    id n,  epoch -1   session n ends; answered like a full fetch
    id n,  epoch  0   session n ends and a new one is opened
    id n,  epoch  k   incremental: partitions named are added or changed, forgotten ones leave; k must be the next epoch

An incremental answer holds only partitions with data, an error, or a watermark the client has not seen. Partitions that
returned data go to the end of the line, so that the byte limit of a response starves none of them.

A session knows where there may be news for its client: only these partitions are looked at, so that a fetch costs what
moved, however many partitions are followed or consumed. Code that changes a partition marks it for its followers
(`FetchPartition.grew`, `moved`); a consumer's partition that had no news is set aside, and whatever wakes those who
wait for a partition brings it back (`ParkedPartition`).

Invariant S1: there are never more sessions than slots. A new one may take the place of the one unused for longest,
if that was longer than `eviction_ms`; a follower's that of any consumer. Otherwise its client simply gets no session.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.sentinels import (
    CONSUMER_REPLICA_ID,
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    MAX_SESSION_EPOCH,
    NO_SESSION,
)

PartitionKey = tuple[bytes | str, int]


class ParkedFollowerFetch(Protocol):
    """A follower's fetch that waits for news."""

    def grew(self, wanted: FetchPartition) -> None:
        """There is something to send."""
        ...

    def moved(self) -> None:
        """There is nothing to send but how far the log is committed, or where it starts: it need not be now."""
        ...

    def close(self) -> None:
        """The follower has sent another."""
        ...


class Watcher(Protocol):
    """An object that wants to know when a follower asks again."""

    def asked(self, session: FetchSession) -> None: ...


class ParkedConsumerFetch(Protocol):
    """A consumer's fetch that waits for more."""

    def partition_unparked(self, aside: ParkedPartition, size: int) -> None:
        """A partition that had been set aside has grown by so many bytes, or there is an error to tell."""
        ...

    def finish_soon(self) -> None:
        """The consumer has sent another, or the session is over."""
        ...


class WatchedSegment(Protocol):
    """A segment of the log that is read: a session only keeps which one."""

    @property
    def size(self) -> int: ...


class WatchedLog(Protocol):
    @property
    def last_stable_offset(self) -> int: ...


class Watched(Protocol):
    """The partition that is read, as far as a session needs to know it."""

    @property
    def log(self) -> WatchedLog: ...

    def park(self, waiter: ParkedPartition) -> None:
        """Call the waiter's `grew` when there is more to read, or an error to tell."""
        ...

    def unpark(self, waiter: ParkedPartition) -> None: ...


class FetchPartition:
    """What a client wants of one partition, and what it was last told of it."""

    __slots__ = (
        "_asked_at",
        "_session",
        "current_leader_epoch",
        "fetch_offset",
        "follower_start_offset",
        "high_watermark",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "parked",
        "partition",
        "sent_error",
        "tail_offset",
        "tail_position",
        "tail_segment",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.high_watermark = -1
        self.log_start_offset = -1
        self.sent_error = False
        self.partition: Watched | None = None
        """What is read, once it was found."""
        self.parked: ParkedPartition | None = None
        """Of a consumer: where there was no news, what waits for some."""
        self.tail_segment: WatchedSegment | None = None
        self.tail_offset = self.tail_position = -1
        """Of a follower: what was sent last ended at this offset, which is at this position of this segment."""
        self._session: FetchSession | None = None
        self._asked_at = -1

    def follow(self, session: FetchSession | None) -> None:
        """Belong to a follower's session, or to none any more."""
        self._asked_at = self.asked_at
        self._session = session
        if session is not None:
            session.ready[self] = None

    def grew(self) -> None:
        """There is more to send to the follower, or an error to tell."""
        session = self._session
        if session is not None:
            session.ready[self] = None
            if session.parked_follower_fetch is not None:
                session.parked_follower_fetch.grew(self)

    def moved(self) -> None:
        """The high watermark or the log's start changed."""
        session = self._session
        if session is not None:
            session.ready[self] = None
            if session.parked_follower_fetch is not None:
                session.parked_follower_fetch.moved()

    @property
    def session(self) -> FetchSession | None:
        """Of a follower: the session in which it asks for this partition, if it still does."""
        return self._session

    @property
    def asked_at(self) -> int:
        """When the follower asked last; naming this partition or, since nothing changed, not."""
        return self._session.used_at if self._session is not None else self._asked_at

    def update(self, wanted: Any) -> None:
        self.fetch_offset: int = wanted.fetch_offset
        self.max_bytes: int = wanted.partition_max_bytes
        self.current_leader_epoch: int = wanted.current_leader_epoch
        self.last_fetched_epoch: int = wanted.last_fetched_epoch
        self.follower_start_offset: int = wanted.log_start_offset
        self.heard(wanted.high_watermark)

    def heard(self, high_watermark: int) -> None:
        """A follower says how far it knows the log to be committed. It may have dropped an answer that told more (it
        cut its log, or had another leader meanwhile): it is told again."""
        if high_watermark < self.high_watermark:
            self.high_watermark = high_watermark


class ParkedPartition:
    """A consumer's partition without news, parked with the partition (`Partition.delayed_fetches`). It is woken once:
    then the session looks at the partition again, so a session that is not used any more costs nothing."""

    __slots__ = ("last_stable_offset", "partition", "session", "wanted")

    def __init__(self, session: FetchSession, wanted: FetchPartition) -> None:
        self.session = session
        self.wanted = wanted
        assert wanted.partition is not None, "it was read before it is set aside"
        self.partition = wanted.partition
        self.last_stable_offset = self.partition.log.last_stable_offset
        self.partition.park(self)

    def grew(self, partition: Watched, size: int) -> None:
        if self.wanted.parked is not self:
            return  # one of those called before has left it
        self.leave()
        self.session.ready[self.wanted] = None
        if self.session.parked_consumer_fetch is not None:
            self.session.parked_consumer_fetch.partition_unparked(self, size)

    def leave(self) -> None:
        self.partition.unpark(self)
        self.wanted.parked = None


class FetchSession:
    __slots__ = (
        "answered_at",
        "checked_for",
        "epoch",
        "id",
        "is_over",
        "parked_consumer_fetch",
        "parked_follower_fetch",
        "partitions",
        "pause_s",
        "ready",
        "replica_id",
        "used_at",
        "uses_topic_ids",
        "watchers",
    )

    def __init__(
        self,
        id: int,
        uses_topic_ids: bool,
        partitions: dict[PartitionKey, FetchPartition],
        now: int,
        replica_id: int,
    ) -> None:
        self.id = id
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self.epoch = 1
        self.used_at = now
        self.answered_at = 0.0
        """Of a follower: when it was last sent records, in seconds."""
        self.pause_s = 0.0
        """And how long it may then wait for more to be sent together."""
        self.replica_id = replica_id
        self.ready: dict[FetchPartition, None] = {}
        """Partitions that may have news. Those that had some stay until they have none."""
        self.parked_follower_fetch: ParkedFollowerFetch | None = None
        """Of a follower: its fetch that waits for news."""
        self.parked_consumer_fetch: ParkedConsumerFetch | None = None
        """Of a consumer: its fetch that waits for more."""
        self.watchers: dict[Watcher, None] = {}
        self.is_over = False
        self.checked_for: object = None
        """What the permission to read its partitions was last checked for: a client and a generation of ACLs."""

    @property
    def is_followers(self) -> bool:
        return self.replica_id >= 0

    def park(self, wanted: FetchPartition) -> None:
        """A consumer has been told everything of a partition."""
        if wanted.parked is None and not self.is_over:
            self.ready.pop(wanted, None)
            wanted.parked = ParkedPartition(self, wanted)

    def unpark(self, wanted: FetchPartition) -> None:
        """Look at a partition with the next fetch."""
        if self.is_followers:
            wanted.follow(self)
            return
        if wanted.parked is not None:
            wanted.parked.leave()
        self.ready[wanted] = None

    def drop(self, wanted: FetchPartition) -> None:
        """The client wants nothing of a partition any more."""
        self.ready.pop(wanted, None)
        if wanted.parked is not None:
            wanted.parked.leave()
        if self.is_followers:
            wanted.follow(None)

    def end(self) -> None:
        """It will not be used again; what still waits for more of it would never be woken."""
        self.is_over = True
        if self.parked_consumer_fetch is not None:
            self.parked_consumer_fetch.finish_soon()
        for wanted in self.partitions.values():
            if wanted.parked is not None:
                wanted.parked.leave()


@dataclass(slots=True)
class FetchContext:
    """How one fetch is to be answered."""

    session: FetchSession | None
    is_incremental: bool
    partitions: list[FetchPartition]

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is asked for."""
        return not self.partitions and (self.session is None or not self.session.partitions)

    @property
    def session_id(self) -> int:
        return self.session.id if self.session is not None else NO_SESSION


class FetchSessions:
    def __init__(self, *, max_slots: int, eviction_ms: int, rng: Random) -> None:
        self._max_slots = max_slots
        self._eviction_ms = eviction_ms
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, request: Any, *, uses_topic_ids: bool, now: int, replica_id: int = CONSUMER_REPLICA_ID
    ) -> FetchContext:
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH):
            if session_id in self._sessions:
                self.close(self._sessions[session_id])
            partitions = _wanted(request, uses_topic_ids)
            session = None
            if epoch == INITIAL_SESSION_EPOCH and partitions:
                session = self._new(partitions, uses_topic_ids, now, replica_id)
            return FetchContext(session, False, list(partitions.values()))
        found = self._sessions.get(session_id)
        if found is None or found.replica_id != replica_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if found.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if request.topics or request.forgotten_topics_data:
            self._change(found, request, uses_topic_ids)
        self.use(found, now)
        # Whether another replica is nearer to a consumer (KIP-392) may change without any news of the partition.
        is_rack_known = not found.is_followers and bool(request.rack_id)
        return FetchContext(found, True, list(found.partitions.values() if is_rack_known else found.ready))

    def of_follower(self, session_id: int, epoch: int, replica_id: int) -> FetchSession | None:
        """The session of a follower's incremental fetch, if it is that epoch's turn."""
        found = self._sessions.get(session_id)
        if found is None or found.epoch != epoch or found.replica_id != replica_id or not found.uses_topic_ids:
            return None
        return found

    def use(self, session: FetchSession, now: int) -> None:
        """An incremental fetch has come."""
        session.epoch = 1 if session.epoch == MAX_SESSION_EPOCH else session.epoch + 1
        session.used_at = now
        # The dict is kept in order of use, so the first is always the one unused for longest.
        del self._sessions[session.id]
        self._sessions[session.id] = session
        if session.watchers:
            for watcher in list(session.watchers):
                watcher.asked(session)

    def close(self, session: FetchSession) -> None:
        """Forget a session that its client will not learn of."""
        if self._sessions.pop(session.id, None) is not None:
            session.end()

    def answered(self, session: FetchSession, served: Iterable[FetchPartition]) -> None:
        """These partitions returned data: they go to the end of the line."""
        for partition in served:
            if partition in session.ready:
                del session.ready[partition]
                session.ready[partition] = None
            if session.is_followers:
                continue
            key = (partition.topic_id if session.uses_topic_ids else partition.topic, partition.index)
            if session.partitions.pop(key, None) is not None:
                session.partitions[key] = partition

    def _new(
        self, partitions: dict[PartitionKey, FetchPartition], uses_topic_ids: bool, now: int, replica_id: int
    ) -> FetchSession | None:
        if len(self._sessions) >= self._max_slots:
            evicted = self._evictable(now, replica_id)
            if evicted is None:
                return None
            self.close(evicted)
            self.evictions += 1
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._rng.randrange(1, 0x7FFFFFFF)
        session = FetchSession(session_id, uses_topic_ids, partitions, now, replica_id)
        for partition in partitions.values():
            session.unpark(partition)
        self._sessions[session_id] = session
        assert len(self._sessions) <= self._max_slots, "S1"
        return session

    def _evictable(self, now: int, replica_id: int) -> FetchSession | None:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now - oldest.used_at >= self._eviction_ms:
            return oldest
        if replica_id == CONSUMER_REPLICA_ID:
            return None
        return next((session for session in self._sessions.values() if not session.is_followers), None)

    def _change(self, session: FetchSession, request: Any, uses_topic_ids: bool) -> None:
        partitions = session.partitions
        for topic in request.forgotten_topics_data:
            name: bytes | str = topic.topic_id if uses_topic_ids else topic.topic
            for index in topic.partitions:
                forgotten = partitions.pop((name, index), None)
                if forgotten is not None:
                    session.drop(forgotten)
        for topic in request.topics:
            name = topic.topic_id if uses_topic_ids else topic.topic
            for wanted in topic.partitions:
                known = partitions.get((name, wanted.partition))
                if known is None:
                    known = FetchPartition(topic.topic, topic.topic_id, wanted.partition)
                    partitions[name, wanted.partition] = known
                known.update(wanted)
                session.unpark(known)


def _wanted(request: Any, uses_topic_ids: bool) -> dict[PartitionKey, FetchPartition]:
    partitions: dict[PartitionKey, FetchPartition] = {}
    for topic in request.topics:
        name: bytes | str = topic.topic_id if uses_topic_ids else topic.topic
        for wanted in topic.partitions:
            partition = FetchPartition(topic.topic, topic.topic_id, wanted.partition)
            partition.update(wanted)
            partitions[name, wanted.partition] = partition
    return partitions
