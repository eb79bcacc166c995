"""The common Fetch of followers, from the frame to the answer's bytes without an object per field.

Cython compiles this file (types in fetch_frame.pxd), and it runs as it stands. It only takes incremental fetches of
followers that are in sync, with nothing unusual in any partition that has news for them, and decides that before any
effect: broker/apis/fetch.py is the complete API and answers all others. A fetch that waits here and then meets
something unusual gets an empty answer: the follower's next fetch is then handled by fetch.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.broker.access import Access
from ottla.broker.ground import Ground
from ottla.broker.replicas.follower_frames import size_bytes
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.quotas import Quotas
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.net import Deadline
    from ottla.replication.fetch_sessions import FetchPartition, FetchSession

FIRST_VERSION_WITH_REPLICA_STATE = 15
FETCH_HEAD_SIZE = 21
"""The request up to its topics."""
TOPIC_ID_SIZE = 16
WANTED_SIZE = 32
"""A partition of the request, up to its tagged fields."""
KNOWN_SIZE = 11
"""The tagged field after it: the high watermark that the follower knows."""
UNKNOWN_HIGH_WATERMARK = 0x7FFFFFFFFFFFFFFF
REPLICA_STATE_SIZE = 13
MAX_COPIED_BYTES = 65536
"""Up to so many bytes of a partition are read and sent with the rest of the answer in one call. Larger pieces are sent
with sendfile, except the end of the log: it was written a moment ago, and copying it costs less than sendfile and the
calls around it.
"""
MAX_JOINED_BYTES = 16384
"""Larger pieces are not joined with their neighbours: that would copy them once more."""
PAUSE_S = 0.001
"""The pause between two answers with records to one follower: records appended meanwhile are sent with the second.
Without it, under load, each small batch would have a fetch of its own, at a higher cost than the batch. A follower
whose last answer is longer ago is answered at once.
"""
MAX_PAUSE_S = 0.006
PAUSED_BYTES_PER_S = 32e6
"""After a large answer the pause is longer, while producers send on without waiting for answers: with a fetch for each
of their batches, nodes would wake each other up thousands of times in a second, and that would be most of their work.
A producer that waits for each answer before it sends the next request is not delayed."""
GATHERED_BYTES = 256 * 1024
"""With so many bytes the answer is sent before the pause is over."""
MAX_ANSWER_BYTES = 512 * 1024
"""As many bytes as the follower's receive buffer holds; it asks again at once."""
MOVED_DELAY_MS = 10
"""How long an answer with nothing but a new high watermark waits for records to send with it. When the high watermark
has moved, more records usually follow at once; without the wait there would be twice as many fetches.
"""

_HEAD = Struct(">iiibii")
_WANTED = Struct(">iiqiqi")
_HIGH_WATERMARK = Struct(">q")
_REPLICA_STATE = Struct(">iq")
_ANSWER = Struct(">iibihi")
"""size, correlation id, no tagged fields; throttle time, error code, session id"""
_ROW = Struct(">ihqqqbi")
_ANSWER_HEAD_SIZE = 19


def fetch_frame(
    frame: memoryview,
    position: int,
    version: int,
    correlation_id: int,
    rooms: tuple[Ground, Replicas, Quotas],
    access: Access | None = None,
) -> list[Any] | FollowerFetch | None:
    """Take an incremental fetch of a follower: returns the answer's parts, size and header included; or an object that
    delivers them when there is news; or None, without any effect, if fetch.py must handle it.
    """
    ground, replicas, quotas = rooms
    data = frame
    end = len(frame)
    if version < FIRST_VERSION_WITH_REPLICA_STATE or position + FETCH_HEAD_SIZE + 2 > end:
        return None
    if access is not None and not access.is_follower_allowed:
        return None
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = _HEAD.unpack_from(frame, position)
    if session_id <= 0 or session_epoch <= 0 or min_bytes > 1 or isolation_level or quotas.is_request_quota_set:
        return None
    if replicas.throttles.leader.is_set:
        return None  # the byte count includes what followers in sync get
    position += FETCH_HEAD_SIZE
    topics = data[position] - 1
    position += 1
    if topics < 0 or topics > 126:
        return None
    named: list[Any] = []
    while topics:
        topics -= 1
        if position + TOPIC_ID_SIZE + 1 > end:
            return None
        topic_id = bytes(frame[position : position + TOPIC_ID_SIZE])
        position += TOPIC_ID_SIZE
        count = data[position] - 1
        position += 1
        if count < 0 or count > 126:
            return None
        while count:
            count -= 1
            if position + WANTED_SIZE + 1 > end:
                return None
            row = _WANTED.unpack_from(frame, position)
            position += WANTED_SIZE
            high_watermark = UNKNOWN_HIGH_WATERMARK
            if position + KNOWN_SIZE <= end and data[position] == 1 and data[position + 1] == 1:
                high_watermark = _HIGH_WATERMARK.unpack_from(frame, position + 3)[0]
            named.append((topic_id, row, high_watermark))
            position = skip_tags(data, position, end)
            if position < 0:
                return None
        if position >= end or data[position]:
            return None
        position += 1
    # nothing forgotten, no rack, one tagged field: the replica's state
    if position + 5 + REPLICA_STATE_SIZE != end or data[position] != 1 or data[position + 1] != 1:
        return None
    if data[position + 2] != 1 or data[position + 3] != 1 or data[position + 4] != REPLICA_STATE_SIZE or data[end - 1]:
        return None
    replica_id, broker_epoch = _REPLICA_STATE.unpack_from(frame, position + 5)
    session = replicas.fetch_sessions.of_follower(session_id, session_epoch, replica_id)
    if session is None:
        return None
    wanted: Any
    found: list[Any] = []
    for topic_id, row, high_watermark in named:
        wanted = session.partitions.get((topic_id, row[0]))
        if wanted is None or not is_ordinary(wanted, replica_id, row[1], row[2], row[3]):
            return None
        found.append((wanted, row, high_watermark))
    for wanted in session.ready:
        if not is_ordinary(
            wanted, replica_id, wanted.current_leader_epoch, wanted.fetch_offset, wanted.last_fetched_epoch
        ):
            return None

    now = ground.now()
    replicas.fetch_sessions.use(session, now)
    for wanted, row, high_watermark in found:
        _, wanted.current_leader_epoch, wanted.fetch_offset, wanted.last_fetched_epoch, start_offset, size = row
        wanted.follower_start_offset = start_offset
        wanted.max_bytes = size
        wanted.heard(high_watermark)
        session.ready[wanted] = None
        partition: Any = wanted.partition
        partition.fetched(replica_id, broker_epoch, wanted.fetch_offset, start_offset, now)
    most = min(max_bytes, ground.config.fetch_max_bytes, MAX_ANSWER_BYTES)
    fetch = FollowerFetch(session, ground, correlation_id, most)
    has_records = fetch.has_records()
    if max_wait_ms <= 0 or (has_records and not fetch.pause()):
        return fetch.answer()
    fetch.wait(max_wait_ms)
    if has_records:
        fetch.close()
    return fetch


def skip_tags(data: memoryview, position: int, end: int) -> int:
    """Past the tagged fields at a position; -1 if they are not well made, or large."""
    count = data[position]
    position += 1
    while count:
        count -= 1
        if position + 2 > end or data[position] > 126 or data[position + 1] > 126:
            return -1
        position += 2 + data[position + 1]
        if position > end:
            return -1
    return position


def is_ordinary(wanted: Any, replica_id: int, leader_epoch: int, fetch_offset: int, last_epoch: int) -> bool:
    """Whether this node leads the partition, in the epoch that its follower knows, the logs do not diverge, and the
    follower is in sync.
    """
    partition: Any = wanted.partition
    if partition is None:
        return False
    leader = partition.leader
    if leader is None or leader_epoch != partition.leader_epoch or replica_id not in leader.isr:
        return False
    log = partition.log
    return bool(
        replica_id in leader.replicas
        and not wanted.sent_error
        and not log.is_offline
        and log.log_start_offset <= fetch_offset <= log.log_end_offset
        and (last_epoch == log.epochs.latest or last_epoch < 0)
    )


class FollowerFetch:
    """A follower's fetch until it is answered."""

    __slots__ = (
        "_correlation_id",
        "_ground",
        "_is_finishing",
        "_is_pausing",
        "_max_bytes",
        "_session",
        "_timeout",
        "_timer",
        "is_over",
        "on_answer",
    )

    if TYPE_CHECKING:
        _timeout: Deadline | None
        _timer: Deadline | asyncio.TimerHandle | None
        on_answer: Callable[[list[Any]], None]

    def __init__(self, session: FetchSession, ground: Ground, correlation_id: int, max_bytes: int) -> None:
        self._session = session
        self._ground = ground
        self._correlation_id = correlation_id
        self._max_bytes = max_bytes
        self._timeout = None
        self._timer = None
        self._is_finishing = self._is_pausing = False
        self.is_over = False

    def has_records(self) -> bool:
        for wanted in self._session.ready:
            partition: Any = wanted.partition
            log = partition.log
            if wanted.fetch_offset < log.log_end_offset:
                return True
        return False

    def wait(self, max_wait_ms: int) -> None:
        """Wait until a partition grows, a while after a high watermark has moved, or until the fetch's timeout."""
        session = self._session
        if session.parked_follower_fetch is not None:
            session.parked_follower_fetch.close()
        session.parked_follower_fetch = self
        self._ground.metrics.fetches_waiting += 1
        self._timeout = self._ground.deadlines.call_later(max_wait_ms / 1000, self._finish)
        for wanted in session.ready:
            partition: Any = wanted.partition
            log = partition.log
            if wanted.high_watermark != log.high_watermark:
                self.moved()
                break

    def grew(self, wanted: FetchPartition) -> None:
        if not self._is_finishing or (self._is_pausing and not self.pause()):
            self.close()

    def close(self) -> None:
        if self._is_finishing and not self._is_pausing:
            return
        self._is_finishing = True
        pause_s = self.pause()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_pausing = pause_s > 0
        if self._is_pausing:
            self._timer = self._ground.loop.call_later(pause_s, self._finish)
        else:
            # Answer at the end of this turn of the loop, together with what other producers append in it.
            self._ground.loop.call_soon(self._finish)

    def pause(self) -> float:
        """How long until the follower is sent records again."""
        passed_s = self._ground.loop.time() - self._session.answered_at
        if not 0 <= passed_s < MAX_PAUSE_S:
            return 0.0
        longest_s = self._session.pause_s
        if longest_s > PAUSE_S and not self._is_gathering():
            longest_s = PAUSE_S
        return longest_s - passed_s if passed_s < longest_s else 0.0

    def _is_gathering(self) -> bool:
        """Whether more records are expected soon, and there are too few for an answer yet."""
        is_streaming = False
        size = 0
        for wanted in self._session.ready:
            partition: Any = wanted.partition
            if partition is None:
                continue
            log = partition.log
            if wanted.fetch_offset < log.log_end_offset:
                is_streaming = is_streaming or partition.is_streaming
                segment = log._active
                if (
                    wanted.tail_segment is not None
                    and wanted.tail_segment is segment
                    and wanted.tail_offset == wanted.fetch_offset
                ):
                    size += segment.size - wanted.tail_position
        return is_streaming and size < GATHERED_BYTES

    def moved(self) -> None:
        if self._timer is None and not self._is_finishing:
            self._timer = self._ground.deadlines.call_later(MOVED_DELAY_MS / 1000, self._finish)

    def cancel(self) -> None:
        """The connection is closed."""
        if self.is_over:
            return
        self.is_over = True
        if self._timeout is not None:
            self._timeout.cancel()
            self._ground.metrics.fetches_waiting -= 1
        if self._timer is not None:
            self._timer.cancel()
        if self._session.parked_follower_fetch is self:
            self._session.parked_follower_fetch = None

    def _finish(self) -> None:
        if not self.is_over:
            self.cancel()
            self.on_answer(self.answer())

    def answer(self) -> list[Any]:
        """The records and offsets for the follower, in the order in which its partitions changed."""
        session = self._session
        replica_id = session.replica_id
        left = self._max_bytes
        topics: dict[bytes, list[Any]] = {}
        counts: dict[bytes, int] = {}
        size = 0
        for wanted in list(session.ready):
            if not is_ordinary(
                wanted, replica_id, wanted.current_leader_epoch, wanted.fetch_offset, wanted.last_fetched_epoch
            ):
                continue
            partition: Any = wanted.partition
            log = partition.log
            high_watermark = log.high_watermark
            start_offset = log.log_start_offset
            records = None
            if wanted.fetch_offset < log.log_end_offset:
                if left > 0 or not size:
                    try:
                        records = read_tail(wanted, log, min(wanted.max_bytes, left), not size)
                    except KafkaError:
                        continue  # its log dir is offline now: the follower's next fetch gets the error
            elif wanted.high_watermark == high_watermark and wanted.log_start_offset == start_offset:
                del session.ready[wanted]
                continue
            length = 0
            if records is not None:
                length = len(records)
                size += length
                left -= length
                del session.ready[wanted]
                session.ready[wanted] = None  # at the end of the order
            elif wanted.high_watermark == high_watermark and wanted.log_start_offset == start_offset:
                continue
            wanted.high_watermark = high_watermark
            wanted.log_start_offset = start_offset
            parts = topics.get(wanted.topic_id)
            if parts is None:
                parts = topics[wanted.topic_id] = []
                counts[wanted.topic_id] = 0
            counts[wanted.topic_id] += 1
            parts.append(_ROW.pack(wanted.index, 0, high_watermark, -1, start_offset, 0, -1) + size_bytes(length + 1))
            if length:
                parts.append(records)
            parts.append(b"\0")
        if size:
            session.answered_at = self._ground.loop.time()
            session.pause_s = min(max(size / PAUSED_BYTES_PER_S, PAUSE_S), MAX_PAUSE_S)
        answer: list[Any] = [b"", size_bytes(len(topics) + 1)]
        for topic_id, parts in topics.items():
            answer += (topic_id, size_bytes(counts[topic_id] + 1))
            answer += parts
            answer.append(b"\0")
        answer.append(b"\0")
        return framed(answer, self._correlation_id, session.id)


def read_tail(wanted: FetchPartition, log: Any, max_bytes: int, is_first: bool) -> Any:
    """Read from the follower's log end: usually where the last bytes sent ended, at the end of the log."""
    segment = log._active
    if wanted.tail_segment is None or wanted.tail_segment is not segment or wanted.tail_offset != wanted.fetch_offset:
        found = log.read(
            wanted.fetch_offset, max_bytes=max_bytes, end_offset=log.log_end_offset, min_one_batch=is_first
        )
        if found is None:
            return None
        position = found.position
        size = len(found)
        segment = log.active_segment
        if found.segment_base_offset != segment.base_offset:
            return found
    else:
        position = wanted.tail_position
        size = segment.size - position
        if size > max_bytes:
            return log.read(
                wanted.fetch_offset, max_bytes=max_bytes, end_offset=log.log_end_offset, min_one_batch=is_first
            )
    is_tail = position + size == segment.size
    if is_tail:
        wanted.tail_segment = segment
        wanted.tail_offset = log.log_end_offset
        wanted.tail_position = segment.size
    if is_tail or size <= MAX_COPIED_BYTES:
        try:
            return segment.file.read(position, size)
        except OSError as trouble:
            log._failed(trouble)
    return segment.slice(position, size)


def framed(answer: list[Any], correlation_id: int, session_id: int) -> list[Any]:
    """The answer with its header; small neighbouring pieces are joined."""
    size = _ANSWER_HEAD_SIZE - 4
    for part in answer:
        size += len(part)
    answer[0] = _ANSWER.pack(size, correlation_id, 0, 0, 0, session_id)
    joined: list[Any] = []
    start = 0
    for place, part in enumerate(answer):
        if not isinstance(part, bytes) or len(part) > MAX_JOINED_BYTES:
            joined.append(b"".join(answer[start:place]))
            joined.append(part)
            start = place + 1
    joined.append(b"".join(answer[start:]))
    return joined
