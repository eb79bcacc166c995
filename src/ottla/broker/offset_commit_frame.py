"""OffsetCommit as consumers send it all day, from the frame to the answer's bytes without an object per field.

It only takes requests in which nothing is out of the ordinary, and says so before it has done anything:
broker/apis/offset_commit.py is the whole of the API and answers all others. Where both would do, both write the same
records and answer with the same bytes.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators import partition_for
from ottla.groups import commit_key_prefix
from ottla.records import Record
from ottla.wire.errors import KafkaError
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue

if TYPE_CHECKING:
    from ottla.broker.node import Node

FIRST_FLEXIBLE_VERSION = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10
TOPIC_ID_SIZE = 16
MAX_PARTITIONS = 64
"""Beyond so many partitions in a request what is saved here is not worth a second way through the code."""
VALUE_VERSION = 4

_INT = Struct(">i")
_ROW = Struct(">iqiBB")
"""partition, offset, leader epoch, no metadata (0 or 1), no tagged fields"""
_VALUE = Struct(">hqiBqBBB16s")
"""version, offset, leader epoch, empty metadata, commit timestamp, one tagged field: 0, of 16 bytes, the topic's id"""
_HEAD = Struct(">iixiB")
"""size, correlation id, no tagged fields; no throttling, one topic counted from one"""
_ANSWER = Struct(">ihB")
"""partition, no error, no tagged fields"""


def offset_commit_frame(
    frame: memoryview, position: int, version: int, correlation_id: int, node: Node
) -> bytes | None:
    """Commit the offsets of a request and return the response, size and header included; None if the request has to go
    the long way, and then nothing has happened.

    Ordinary is: a flexible version, one topic that exists, no metadata, no static member, no quota; a group that is
    there and lets the member commit; and a shard with nothing on its way, whose records are committed when written."""
    size = len(frame)
    if version < FIRST_FLEXIBLE_VERSION or position + 8 > size or node.quotas.is_request_quota_set:
        return None
    length = frame[position]
    end = position + length
    if length < 2 or length >= 0x80 or end + 6 > size:
        return None
    group_bytes = bytes(frame[position + 1 : end])
    generation = _INT.unpack_from(frame, end)[0]
    position = end + 4
    length = frame[position]
    end = position + length
    if length == 0 or length >= 0x80 or end + 3 > size or frame[end] != 0 or frame[end + 1] != 2:
        return None  # the last two: a static member, and more or fewer topics than one
    # Members' ids are ASCII; other bytes make an id that no member has.
    member_id = str(frame[position + 1 : end], "latin-1")
    position = topic_start = end + 2
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        position += TOPIC_ID_SIZE
        if position >= size:
            return None
        topic = node.image.topics_by_id.get(bytes(frame[topic_start:position]))
    else:
        length = frame[position]
        position += length
        if length < 2 or length >= 0x80 or position >= size:
            return None
        topic = node.image.topics_by_name.get(str(frame[topic_start + 1 : position], "latin-1"))
    topic_end = position
    if topic is None:
        return None
    count = frame[position] - 1
    position += 1
    if count < 1 or count > MAX_PARTITIONS or position + count * _ROW.size + 2 != size:
        return None
    rows = list(_ROW.iter_unpack(frame[position : size - 2]))
    partitions = topic.partitions
    for row in rows:
        if row[3] > 1 or row[4] or row[0] not in partitions:
            return None
    if frame[size - 1] or frame[size - 2]:
        return None

    groups = node.groups
    try:
        group_id = group_bytes.decode()
    except UnicodeDecodeError:
        return None
    hosted = groups.shards.get(partition_for(group_id, groups.partition_count))
    if hosted is None or hosted.machine is None or not hosted.is_idle or node.config.offsets_topic_compression_codec:
        return None
    offsets = hosted.machine.offsets
    if not offsets.may_commit(group_id, member_id, generation, version):
        return None

    timestamp = node.clock()
    name, topic_id = topic.name, topic.id
    prefix = commit_key_prefix(group_bytes, name.encode())
    records = [
        Record(
            0,
            timestamp,
            prefix + _INT.pack(index),
            _VALUE.pack(VALUE_VERSION, offset, leader_epoch, 1, timestamp, 1, 0, TOPIC_ID_SIZE, topic_id),
        )
        for index, offset, leader_epoch, _, _ in rows
    ]
    try:
        hosted.write_now(records, timestamp)
    except KafkaError:
        return None
    answer: list[Any] = [b"", frame[topic_start:topic_end], (count + 1).to_bytes(1, "big")]
    for index, offset, leader_epoch, _, _ in rows:
        value = OffsetCommitValue(
            offset=offset, leader_epoch=leader_epoch, commit_timestamp=timestamp, topic_id=topic_id
        )
        offsets.put(group_id, name, index, value)
        answer.append(_ANSWER.pack(index, 0, 0))
    offsets.note_commit(group_id, member_id, count, node.now())
    hosted.rearm()
    answer.append(b"\0\0")
    answer[0] = _HEAD.pack(10 + sum(map(len, answer)), correlation_id, 0, 2)
    return b"".join(answer)
