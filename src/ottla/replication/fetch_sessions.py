"""Incremental fetch sessions (KIP-227): a client names its partitions once, and later only changes.

A request carries (session id, epoch):

    id 0, epoch -1 no session: the request names all partitions, the answer has them all
    id 0, epoch 0 the same, and a session is opened for the next fetches
    id n,  epoch -1   session n ends; answered like a full fetch
    id n,  epoch  0   session n ends and a new one is opened
    id n,  epoch  k   incremental: partitions named are added or changed, forgotten ones leave; k must be the next epoch

An incremental answer holds only partitions with data, an error, or a watermark the client has not seen. Partitions that
returned data go to the end of the order, so that the byte limit of a response starves none of them.

A session keeps the set of partitions that may have news for its client, and a fetch looks only at these: its cost grows
with what changed, not with the number of partitions followed or consumed. Code that changes a partition marks it for
its followers (`FetchPartition.grew`, `moved`); a consumer's partition without news is parked with the partition's
delayed fetches, and the event that completes those brings it back (`ParkedPartition`).

Invariant S1: there are never more sessions than slots. A new session may replace the least recently used one if that
was unused for `eviction_ms`; a follower's session may replace any consumer's. Otherwise the client gets no session.
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
        """The partition has more to send."""
        ...

    def moved(self) -> None:
        """Only the high watermark or the log start offset changed: the answer can wait."""
        ...

    def close(self) -> None:
        """The follower has sent its next fetch."""
        ...


class Watcher(Protocol):
    """Watches when a follower fetches."""

    def asked(self, session: FetchSession) -> None: ...


class ParkedConsumerFetch(Protocol):
    """A consumer's fetch that waits for more."""

    def partition_unparked(self, aside: ParkedPartition, size: int) -> None:
        """A parked partition has grown by so many bytes, or has an error to return."""
        ...

    def finish_soon(self) -> None:
        """The consumer has sent its next fetch, or the session is over."""
        ...


class WatchedSegment(Protocol):
    """The segment that is read; a session only compares it with others."""

    @property
    def size(self) -> int: ...


class WatchedLog(Protocol):
    @property
    def last_stable_offset(self) -> int: ...


class Watched(Protocol):
    """The part of a partition that a session uses."""

    @property
    def log(self) -> WatchedLog: ...

    def park(self, waiter: ParkedPartition) -> None:
        """Call the waiter's `grew` when there is more to read, or an error to return."""
        ...

    def unpark(self, waiter: ParkedPartition) -> None: ...


class FetchPartition:
    """What a client asks for of one partition, and the last offsets that it was sent."""

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
        """The partition that is read, once it was found."""
        self.parked: ParkedPartition | None = None
        """For a consumer: what waits for news of the partition, if there were none."""
        self.tail_segment: WatchedSegment | None = None
        self.tail_offset = self.tail_position = -1
        """For a follower: the end offset of the last bytes sent, and the position in this segment where it is."""
        self._session: FetchSession | None = None
        self._asked_at = -1

    def follow(self, session: FetchSession | None) -> None:
        """Join a follower's session; None leaves it."""
        self._asked_at = self.asked_at
        self._session = session
        if session is not None:
            session.ready[self] = None

    def grew(self) -> None:
        """The partition has more to send to the follower, or an error to return."""
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
        """For a follower: its session, if that still has this partition."""
        return self._session

    @property
    def asked_at(self) -> int:
        """When the follower last fetched: a fetch counts even if it does not name this partition because nothing
        changed.
        """
        return self._session.used_at if self._session is not None else self._asked_at

    def update(self, wanted: Any) -> None:
        self.fetch_offset: int = wanted.fetch_offset
        self.max_bytes: int = wanted.partition_max_bytes
        self.current_leader_epoch: int = wanted.current_leader_epoch
        self.last_fetched_epoch: int = wanted.last_fetched_epoch
        self.follower_start_offset: int = wanted.log_start_offset
        self.heard(wanted.high_watermark)

    def heard(self, high_watermark: int) -> None:
        """The follower's fetch has its high watermark. If it is below the one sent last, the follower dropped an answer
        (it truncated its log, or had another leader meanwhile), so it is sent again.
        """
        if high_watermark < self.high_watermark:
            self.high_watermark = high_watermark


class ParkedPartition:
    """A consumer's partition without news, parked with the partition (`Partition.delayed_fetches`). It is woken once,
    and then the session looks at the partition again; so an abandoned session costs nothing.
    """

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
            return  # an earlier callback of this round has removed it
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
        """For a follower: when it was last sent records, in seconds."""
        self.pause_s = 0.0
        """How long its next answer may then wait, so that more records are sent together."""
        self.replica_id = replica_id
        self.ready: dict[FetchPartition, None] = {}
        """Partitions that may have news. A partition that had some stays until a fetch finds none."""
        self.parked_follower_fetch: ParkedFollowerFetch | None = None
        """For a follower: its fetch that waits for news."""
        self.parked_consumer_fetch: ParkedConsumerFetch | None = None
        """For a consumer: its fetch that waits for more."""
        self.watchers: dict[Watcher, None] = {}
        self.is_over = False
        self.checked_for: object = None
        """The client and the ACL generation for which read permission on the partitions was last checked."""

    @property
    def is_followers(self) -> bool:
        return self.replica_id >= 0

    def park(self, wanted: FetchPartition) -> None:
        """A consumer has everything of a partition: park it."""
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
        """The client no longer asks for a partition."""
        self.ready.pop(wanted, None)
        if wanted.parked is not None:
            wanted.parked.leave()
        if self.is_followers:
            wanted.follow(None)

    def end(self) -> None:
        """End the session: a fetch that still waits would never be woken, so it is finished."""
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
        # For consumers, a closer replica (KIP-392) may change without any news of the partition.
        is_rack_known = not found.is_followers and bool(request.rack_id)
        return FetchContext(found, True, list(found.partitions.values() if is_rack_known else found.ready))

    def of_follower(self, session_id: int, epoch: int, replica_id: int) -> FetchSession | None:
        """The session of a follower's incremental fetch, if the fetch has the session's next epoch."""
        found = self._sessions.get(session_id)
        if found is None or found.epoch != epoch or found.replica_id != replica_id or not found.uses_topic_ids:
            return None
        return found

    def use(self, session: FetchSession, now: int) -> None:
        """Count an incremental fetch: the session's next epoch, and its place in the order of use."""
        session.epoch = 1 if session.epoch == MAX_SESSION_EPOCH else session.epoch + 1
        session.used_at = now
        # The dict is kept in order of use, so the first session is the least recently used.
        del self._sessions[session.id]
        self._sessions[session.id] = session
        if session.watchers:
            for watcher in list(session.watchers):
                watcher.asked(session)

    def close(self, session: FetchSession) -> None:
        """Forget a session whose id its client never got."""
        if self._sessions.pop(session.id, None) is not None:
            session.end()

    def answered(self, session: FetchSession, served: Iterable[FetchPartition]) -> None:
        """These partitions returned data: move them to the end of the order."""
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
