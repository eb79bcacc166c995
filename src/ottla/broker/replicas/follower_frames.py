"""A follower's Fetch and the answer to it as bytes, at both ends, without an object per field.

Cython compiles this file (types in follower_frames.pxd), and it runs as it stands. Unusual content (errors, diverging
logs, topics by name) is left to the message classes of `wire`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.replication.follower import NOT_ASKED, Follower, Key
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.replicas.partitions import Partition

VERSION = 18
"""The version of Fetch with which nodes copy from each other."""
ROW_HEAD_SIZE = 35
"""A partition's answer up to the size of its records."""
TOPIC_ID_SIZE = 16
ANSWER_HEAD_SIZE = 15
"""From the correlation id to the session's: what every answer has."""

_REQUEST = Struct(">iiibii")
"""max wait, min bytes, max bytes, isolation level, session id and epoch"""
_WANTED = Struct(">iiqiqibbbq")
"""index, leader epoch, fetch offset, last fetched epoch, log start offset, max bytes; high watermark as tag 1"""
_REPLICA_STATE = Struct(">bbbbiqb")
_ROW = Struct(">ihqqqbi")
"""index, error code, high watermark, last stable and log start offset, no aborted transactions, preferred replica"""


class Followed(Follower):
    """The follower of a partition of this node, in the partition's present epoch."""

    __slots__ = ("partition",)

    def __init__(self, partition: Partition, max_delay_ms: int) -> None:
        super().__init__(
            (partition.topic_id, partition.index),
            partition.topic,
            partition.leader_epoch,
            is_cut=partition.log.is_cut,
            max_delay_ms=max_delay_ms,
        )
        self.partition = partition


def wanted_rows(
    changed: dict[Key, None], followed: dict[Key, Any], partition_max_bytes: int
) -> dict[bytes, list[bytes]]:
    """The partition rows of a request, by topic: copy from the end of their logs on."""
    topics: dict[bytes, list[bytes]] = {}
    for key in changed:
        one = followed[key]
        log = one.partition.log
        one.asked_offset = log.log_end_offset
        row = _WANTED.pack(
            key[1],
            one.epoch,
            log.log_end_offset,
            log.epochs.latest,
            log.log_start_offset,
            partition_max_bytes,
            1,
            1,
            8,
            log.high_watermark,
        )
        rows = topics.get(key[0])
        if rows is None:
            topics[key[0]] = [row]
        else:
            rows.append(row)
    return topics


def fetch_body(
    wanted: dict[bytes, list[bytes]],
    forgotten: dict[bytes, list[int]],
    settings: tuple[int, int, int],
    session: tuple[int, int],
    replica: tuple[int, int],
) -> bytes:
    """A follower's Fetch request. `settings` are max wait, min bytes and max bytes."""
    parts: list[Any] = [_REQUEST.pack(*settings, 0, *session), size_bytes(len(wanted) + 1)]
    for topic_id, rows in wanted.items():
        parts += (topic_id, size_bytes(len(rows) + 1))
        parts += rows
        parts.append(b"\0")
    parts.append(size_bytes(len(forgotten) + 1))
    for topic_id, indexes in forgotten.items():
        parts += (topic_id, size_bytes(len(indexes) + 1), *(index.to_bytes(4, "big") for index in indexes), b"\0")
    # no rack; one tagged field: the replica's id and its broker epoch
    parts.append(_REPLICA_STATE.pack(1, 1, 1, 13, *replica, 0))
    return b"".join(parts)


def answered_rows(frame: memoryview) -> tuple[int, list[tuple[Key, int, int, memoryview]]] | None:
    """The session's id and (partition, high watermark, log start offset, records) of a leader's whole answer; None if
    it contains anything else, or is malformed.
    """
    data = frame
    end = len(frame)
    if end < ANSWER_HEAD_SIZE + 2 or data[4] or data[9] or data[10]:  # tagged fields; an error
        return None
    session_id = data[11] << 24 | data[12] << 16 | data[13] << 8 | data[14]
    rows: list[tuple[Key, int, int, memoryview]] = []
    position = ANSWER_HEAD_SIZE
    topics = data[position] - 1
    position += 1
    if topics < 0 or topics > 126:
        return None
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
            if position + ROW_HEAD_SIZE + 2 > end:
                return None
            index, error, high_watermark, _, log_start_offset, aborted, _ = _ROW.unpack_from(frame, position)
            if error or aborted:
                return None
            position += ROW_HEAD_SIZE
            size = -1
            shift = 0
            while True:
                if position >= end or shift > 28:
                    return None
                byte = data[position]
                position += 1
                size += (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            if size < 0 or size >= end - position or data[position + size]:  # cut short, or tagged fields
                return None
            rows.append(((topic_id, index), high_watermark, log_start_offset, frame[position : position + size]))
            position += size + 1
        if position >= end or data[position]:
            return None
        position += 1
    return (session_id, rows) if position + 1 == end and not data[position] else None


def take_rows(
    rows: list[tuple[Key, int, int, memoryview]],
    followed: dict[Key, Any],
    changed: dict[Key, None],
    is_throttled: bool,
) -> list[tuple[Followed, int, int, memoryview]]:
    """Append a leader's records to the logs, and raise the high watermarks. A partition whose log has grown is
    put into `changed`. Returns the rows that need more than that."""
    left: list[tuple[Followed, int, int, memoryview]] = []
    for key, high_watermark, log_start_offset, records in rows:
        one = followed.get(key)
        if one is None or key in changed or one.asked_offset == NOT_ASKED:
            continue  # another leader, fetched again, or not fetched now (F3)
        partition = one.partition
        log = partition.log
        if log.log_end_offset != one.asked_offset:
            changed[key] = None
            continue
        size = len(records)
        if is_throttled or log.flushes_by_count or log_start_offset > log.log_start_offset:
            left.append((one, high_watermark, log_start_offset, records))
            continue
        if size:
            try:
                copied = log.copy(records)
            except KafkaError:
                copied = -1  # the caller retries, and reports the error
            if copied < 0:
                left.append((one, high_watermark, log_start_offset, records))
                continue
            changed[key] = None
        if high_watermark > log.log_end_offset:
            high_watermark = log.log_end_offset
        if high_watermark > log.high_watermark:
            log.advance_high_watermark(high_watermark)
            if partition.delayed_fetches:
                partition.wake_fetches(max(size, 1))
        one.delay_ms = 0
    return left


def size_bytes(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x80:
        return value.to_bytes(1, "big")
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
