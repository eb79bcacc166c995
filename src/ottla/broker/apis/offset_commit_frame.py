"""The common OffsetCommit of consumers, from the frame to the answer's bytes without an object per field.

Cython compiles this file (types in offset_commit_frame.pxd), and it runs as it stands. It takes only requests without
anything unusual, and decides that before any effect: broker/apis/offset_commit.py is the complete API and answers all
others. For a request that both can handle, both write the same records and answer with the same bytes.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Any

from ottla.broker.access import Access
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.coordinators.runtime import partition_for
from ottla.broker.ground import Ground
from ottla.broker.serving.quotas import Quotas
from ottla.groups import commit_key_prefix
from ottla.records.batch import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC
from ottla.records.kernel import crc32c_range
from ottla.wire.errors import KafkaError
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue

FIRST_FLEXIBLE_VERSION = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10
TOPIC_ID_SIZE = 16
MAX_PARTITIONS = 64
"""Requests with more partitions gain too little here to justify a second code path."""
VALUE_VERSION = 4

_INT = Struct(">i")
_ROW = Struct(">iqiBB")
"""partition, offset, leader epoch, no metadata (0 or 1), no tagged fields"""
_HEAD = Struct(">iIxiB")
"""size, correlation id, no tagged fields; no throttling, one topic counted from one"""
_ANSWER = Struct(">ihB")
"""partition, no error, no tagged fields"""
_CRC = Struct(">I")
_CRC_POSITION = 17
_VALUE_SIZE = 42
MAX_FORMS = 10_000
"""Groups and topics that are remembered, at most."""


def offset_commit_frame(
    frame: memoryview,
    position: int,
    version: int,
    correlation_id: int,
    rooms: tuple[Ground, GroupCoordinator, Quotas],
    access: Access | None = None,
) -> bytes | None:
    """Commit the offsets of a request and return the response, size and header included; None, without any effect, if
    offset_commit.py must handle it. Handled here: a flexible version, one topic that exists, no metadata, no static
    member, no quota; a loaded group in which the member may commit; a topic and group that an earlier request was
    allowed to use; and an idle shard, whose records are committed when written.
    """
    ground, groups, quotas = rooms
    data = frame
    size = len(frame)
    if version < FIRST_FLEXIBLE_VERSION or position + 8 > size or quotas.is_request_quota_set:
        return None
    length = data[position]
    end = position + length
    if length < 2 or length >= 0x80 or end + 6 > size:
        return None
    group_bytes = bytes(frame[position + 1 : end])
    generation = _INT.unpack_from(frame, end)[0]
    position = end + 4
    length = data[position]
    end = position + length
    if length == 0 or length >= 0x80 or end + 3 > size or data[end] != 0 or data[end + 1] != 2:
        return None  # the last two: a static member, and more or fewer topics than one
    # Member ids are ASCII; other bytes match no member.
    member_id = str(frame[position + 1 : end], "latin-1")
    position = topic_start = end + 2
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        position += TOPIC_ID_SIZE
        if position >= size:
            return None
        topic = ground.image.topics_by_id.get(bytes(frame[topic_start:position]))
    else:
        length = data[position]
        position += length
        if length < 2 or length >= 0x80 or position >= size:
            return None
        topic = ground.image.topics_by_name.get(str(frame[topic_start + 1 : position], "latin-1"))
    topic_end = position
    if topic is None or (access is not None and (topic.id not in access.readable or group_bytes not in access.groups)):
        return None
    count = data[position] - 1
    position += 1
    if count < 1 or count > MAX_PARTITIONS or position + count * _ROW.size + 2 != size:
        return None
    rows = list(_ROW.iter_unpack(frame[position : size - 2]))
    partitions = topic.partitions
    for row in rows:
        if row[3] > 1 or row[4] or row[0] not in partitions:
            return None
    if data[size - 1] or data[size - 2]:
        return None

    try:
        group_id = group_bytes.decode()
    except UnicodeDecodeError:
        return None
    hosted = groups.shards.get(partition_for(group_id, groups.partition_count))
    if hosted is None or hosted.machine is None or not hosted.is_idle or ground.config.offsets_topic_compression_codec:
        return None
    offsets = hosted.machine.offsets
    if not offsets.may_commit(group_id, member_id, generation, version):
        return None

    timestamp = ground.clock()
    name, topic_id = topic.name, topic.id
    try:
        hosted.write_now(commit_batch(record_form(group_bytes, name), rows, timestamp, topic_id), count, timestamp)
    except KafkaError:
        return None
    answer: list[Any] = [
        _HEAD.pack(_HEAD.size - 4 + topic_end - topic_start + 1 + count * _ANSWER.size + 2, correlation_id, 0, 2),
        frame[topic_start : topic_end + 1],  # the topic, and how many partitions
    ]
    values: list[tuple[int, OffsetCommitValue]] = []
    for index, offset, leader_epoch, _, _ in rows:
        value = OffsetCommitValue(
            offset=offset, leader_epoch=leader_epoch, commit_timestamp=timestamp, topic_id=topic_id
        )
        values.append((index, value))
        answer.append(_ANSWER.pack(index, 0, 0))
    offsets.replay_all(group_id, name, values)
    if member_id:
        offsets.note_commit(group_id, member_id, len(values), ground.now())
        hosted.rearm()
    else:
        offsets.note_commit(group_id, member_id, len(values), 0)
    answer.append(b"\0\0")
    return b"".join(answer)


@lru_cache(MAX_FORMS)
def record_form(group: bytes, topic: str) -> tuple[bytes, bytes, Struct]:
    """What all records of a group's commits for a topic have in common: their first bytes, up to the offset delta; the
    key's size and the key, up to the partition; and the layout of a whole record, in which these are followed by: the
    partition; the value's size, version, offset, leader epoch, empty metadata, commit timestamp, one tagged field: 0,
    of 16 bytes, the topic's id; no headers."""
    prefix = commit_key_prefix(group, topic.encode())
    key_start = _varint(len(prefix) + 4) + prefix
    record_start = _varint(5 + len(key_start) + 4 + _VALUE_SIZE) + b"\0\0"  # attributes, timestamp delta
    return record_start, key_start, Struct(f">{len(record_start)}sB{len(key_start)}siBhqiBqBBB16sx")


def commit_batch(form: tuple[bytes, bytes, Struct], rows: list[Any], timestamp: int, topic_id: bytes) -> bytearray:
    """The record batch of a commit. `rows` are (partition, offset, leader epoch, two unused values), at most 64: so
    every offset delta is a varint of one byte, and all records have one size."""
    record_start, key_start, layout = form
    count = len(rows)
    step = layout.size
    batch = bytearray(HEADER_SIZE + count * step)
    position = HEADER_SIZE
    delta = 0
    for index, offset, leader_epoch, _, _ in rows:
        layout.pack_into(
            batch,
            position,
            record_start,
            delta,
            key_start,
            index,
            2 * _VALUE_SIZE,
            VALUE_VERSION,
            offset,
            leader_epoch,
            1,
            timestamp,
            1,
            0,
            TOPIC_ID_SIZE,
            topic_id,
        )
        position += step
        delta += 2
    size = len(batch)
    HEADER.pack_into(
        batch, 0, 0, size - LOG_OVERHEAD, -1, MAGIC, 0, 0, count - 1, timestamp, timestamp, -1, -1, -1, count
    )
    _CRC.pack_into(batch, _CRC_POSITION, crc32c_range(batch, CRC_START, size))
    return batch


def _varint(number: int) -> bytes:
    """A size, as records have it: in zigzag."""
    number <<= 1
    return bytes((number,)) if number < 0x80 else bytes((number & 0x7F | 0x80, number >> 7))
