"""The common Produce request, from the frame to the answer's bytes without an object per field.

Cython compiles this file (types in produce_frame.pxd), and it runs as it stands. It takes only requests without
anything unusual, and decides that before any effect: broker/apis/produce.py is the complete API and answers all others.
For a request that both can handle, both answer with the same bytes.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from ottla.broker.access import Access
from ottla.broker.apis.produce_append import append_to, refused
from ottla.broker.ground import Ground
from ottla.broker.replicas.purgatory import DelayedProduceFrame
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.quotas import Quotas
from ottla.records.batch import ATTRIBUTES_POSITION, COMPRESSION_MASK, HEADER_SIZE, TRANSACTIONAL_FLAG, Compression
from ottla.wire import encode_bytes
from ottla.wire.errors import KafkaError
from ottla.wire.messages.produce import ProduceResponse, TopicProduceResponse

FIRST_VERSION_WITH_LOG_START = 5
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_RECORD_ERRORS = 8
FIRST_FLEXIBLE_VERSION = 9
FIRST_VERSION_WITH_TOPIC_IDS = 13
MAX_PARTITIONS = 64
"""Requests with more partitions gain too little here to justify a second code path."""
MAX_NAME_SIZE = 126
"""Names that are longer have a size of two bytes in flexible versions."""
ZSTD = int(Compression.ZSTD)
ACKS_ALL = 0xFFFF
TOPIC_ID_SIZE = 16
MAX_TIMEOUT_MS = 0x7FFFFFFF

_HEAD = Struct(">iI")
_ROW = Struct(">ihqqq")
"""index, error code, base offset, log append time, log start offset"""
_ROW_WITHOUT_START = Struct(">ihqq")
_ROW_END = b"\0\0\0\0\xff\xff"
_FLEXIBLE_ROW_END = b"\1\0\0"
"""No record errors, no message; no tagged fields."""
_END = bytes(4)
"""No throttling."""
_FLEXIBLE_END = bytes(6)
"""A topic without tagged fields, no throttling, no tagged fields."""


def produce_frame(
    frame: memoryview,
    position: int,
    version: int,
    correlation_id: int,
    rooms: tuple[Ground, Replicas, Quotas],
    access: Access | None = None,
) -> bytes | DelayedProduceFrame | None:
    """Append the batches of a Produce request and return the response, size and header included, or an object that
    delivers it once the in-sync replicas have them; None, without any effect, if produce.py must handle it. Handled
    here: acks 1 or all, one topic that an earlier request was allowed to write and that this node leads, enough
    replicas in sync, no transaction, no quota, no `flush.messages`, and known schemas if the topic checks them. Each
    batch is checked when its turn comes; an invalid one gets the same answer as from produce.py.
    """
    ground, replicas, quotas = rooms
    data = frame
    size = len(frame)
    is_flexible = version >= FIRST_FLEXIBLE_VERSION
    if position + 18 > size or quotas.is_produce_quota_set or quotas.is_request_quota_set:
        return None
    if is_flexible:
        if data[position] != 0 or data[position + 7] != 2:  # a transactional id; topics, counted from one
            return None
        acks = data[position + 1] << 8 | data[position + 2]
        timeout_ms = integer(data, position + 3)
        topic_start = position + 8
        name_start = topic_start + 1
        position = topic_start + data[topic_start]
    else:
        if data[position] != 0xFF or data[position + 1] != 0xFF or integer(data, position + 8) != 1:
            return None
        acks = data[position + 2] << 8 | data[position + 3]
        timeout_ms = integer(data, position + 4)
        topic_start = position + 12
        name_start = topic_start + 2
        position = name_start + (data[topic_start] << 8 | data[topic_start + 1])
    if (acks != 1 and acks != ACKS_ALL) or timeout_ms < 0 or timeout_ms > MAX_TIMEOUT_MS:
        return None
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        position = topic_start + TOPIC_ID_SIZE
        if position >= size:
            return None
        key: Any = bytes(frame[topic_start:position])
        of_topic = replicas.partitions.by_id.get(key)
    else:
        if position < name_start or position - name_start > MAX_NAME_SIZE or position + 4 > size:
            return None
        # Topic names are ASCII; other bytes match no topic.
        key = str(frame[name_start:position], "latin-1")
        of_topic = replicas.partitions.by_name.get(key)
    if of_topic is None or (access is not None and key not in access.writable):
        return None
    if is_flexible:
        count = data[position] - 1
        position += 1
    else:
        count = integer(data, position)
        position += 4
    topic_end = position
    if count < 1 or count > MAX_PARTITIONS:
        return None

    # Check everything before the first effect.
    places: list[Any] = []
    while len(places) < count:
        if position + 8 > size:
            return None
        index = integer(data, position)
        position += 4
        if is_flexible:
            length = -1
            shift = 0
            while True:
                if position >= size or shift > 21:
                    return None
                byte = data[position]
                position += 1
                length += (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
        else:
            length = integer(data, position)
            position += 4
        if length < HEADER_SIZE or length > size - position:
            return None
        attributes = data[position + ATTRIBUTES_POSITION]
        if attributes & TRANSACTIONAL_FLAG or (
            version < FIRST_VERSION_WITH_ZSTD and attributes & COMPRESSION_MASK == ZSTD
        ):
            return None
        partition = of_topic.get(index)
        if partition is None or partition.is_internal:
            return None
        if not partition.is_alone and not (
            partition.is_leader and (acks != ACKS_ALL or partition.has_enough_in_sync())
        ):
            return None
        log = partition.log
        if log.is_offline or log.flushes_by_count:
            return None
        batch = frame[position : position + length]
        if log.validates_schemas and not replicas.schemas.accepts(partition, batch):
            return None
        places.append((partition, batch))
        position += length
        if is_flexible:
            if position >= size or data[position] != 0:  # tagged fields
                return None
            position += 1
    if is_flexible:
        if position + 2 != size or data[position] != 0 or data[position + 1] != 0:
            return None
    elif position != size:
        return None

    timestamp = ground.clock()
    end = _FLEXIBLE_END if is_flexible else _END
    row_end = b""
    if is_flexible:
        row_end = _FLEXIBLE_ROW_END
    elif version >= FIRST_VERSION_WITH_RECORD_ERRORS:
        row_end = _ROW_END
    parts: list[Any] = [b"", b"\0\2" if is_flexible else b"\0\0\0\1", frame[topic_start:topic_end]]
    head_size = _HEAD.size + len(parts[1]) + topic_end - topic_start
    messages_in = bytes_in = rows_size = 0
    uncommitted: list[Any] = []
    topic = ""
    for partition, batch in places:
        log = partition.log
        topic = partition.topic
        refusal = None
        try:
            offset = log.place(batch, partition.leader_epoch, timestamp)
        except KafkaError as error:
            offset = -1
            refusal = error
        if offset < 0:
            if refusal is None:
                row, messages = append_to(partition, batch, timestamp, ground.now(), ground)
            else:
                row, messages = refused(partition, refusal, ground), 0
            topic_response = TopicProduceResponse(name=topic, topic_id=partition.topic_id, partition_responses=[row])
            encoded = encode_bytes(ProduceResponse(responses=[topic_response]), version)
            part = encoded[topic_end - topic_start + len(parts[1]) - is_flexible : -len(end)]
            parts.append(part)
            if not row.error_code:
                messages_in += messages
                bytes_in += len(batch)
                end_offset = row.base_offset + messages
                if acks == ACKS_ALL and not partition.is_alone and log.high_watermark < end_offset:
                    uncommitted.append((partition, end_offset, head_size + rows_size + 4))
            rows_size += len(part)
            continue
        end_offset = log.log_end_offset
        messages_in += end_offset - offset
        bytes_in += len(batch)
        if partition.is_alone:
            log.advance_high_watermark(end_offset)
            if partition.delayed_fetches:
                partition.wake_fetches(len(batch))
        else:
            partition.grew(len(batch), ground.now())
            if acks == ACKS_ALL and log.high_watermark < end_offset:
                uncommitted.append((partition, end_offset, head_size + rows_size + 4))
        if version < FIRST_VERSION_WITH_LOG_START:
            part = _ROW_WITHOUT_START.pack(partition.index, 0, offset, -1)
        else:
            part = _ROW.pack(partition.index, 0, offset, -1, log.log_start_offset) + row_end
        parts.append(part)
        rows_size += len(part)
    if bytes_in:
        meter = ground.metrics.topic(topic)
        meter.produces += 1
        meter.messages_in += messages_in
        meter.bytes_in += bytes_in
    parts.append(end)
    parts[0] = _HEAD.pack(head_size + rows_size + len(end) - 4, correlation_id)
    if uncommitted:
        has_log_start = version >= FIRST_VERSION_WITH_LOG_START
        return DelayedProduceFrame(ground.deadlines, bytearray().join(parts), uncommitted, timeout_ms, has_log_start)
    return b"".join(parts)


def integer(data: memoryview, position: int) -> int:
    """A big-endian int32. A negative one comes out above (compiled: below) every bound it is checked against, so it is
    refused.
    """
    return data[position] << 24 | data[position + 1] << 16 | data[position + 2] << 8 | data[position + 3]
