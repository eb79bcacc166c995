"""Produce as producers send it all day, from the frame to the answer's bytes without an object per field.

Cython compiles this file (types in produce_frame.pxd), and it runs as it stands. It only takes requests in which
nothing is out of the ordinary, and says so before it has done anything: broker/apis/produce.py is the whole of the API
and answers all others. Where both would do, both give the same bytes.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.broker.apis.produce import append_to, refused
from ottla.wire import encode_bytes
from ottla.wire.errors import KafkaError
from ottla.wire.messages.produce import ProduceResponse, TopicProduceResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node

FIRST_FLEXIBLE_VERSION = 9
FIRST_VERSION_WITH_TOPIC_IDS = 13
MAX_PARTITIONS = 64
"""Beyond so many partitions in a request what is saved here is not worth a second way through the code."""
HEADER_SIZE = 61
TRANSACTIONAL = 0x10
ACKS_ALL = 0xFFFF
TOPIC_ID_SIZE = 16
ATTRIBUTES_POSITION = 22

_HEAD = Struct(">iix")
_ROW = Struct(">ihqqqBBB")
"""index, error code, base offset, log append time, log start offset, no record errors, no message, no tagged fields"""
_END = bytes(6)
"""A topic without tagged fields, no throttling, no tagged fields."""


def produce_frame(frame: memoryview, position: int, version: int, correlation_id: int, node: Node) -> bytes | None:
    """Append the batches of a Produce request and return the response, size and header included; None if the request
    has to go the long way, and then nothing has happened.

    Ordinary is: a flexible version, acks 1 or all, one topic, no transaction, no quota, no `flush.messages`. Whether
    a batch is as it should be is seen when its turn comes; one that is not is answered as the long way would."""
    data = frame
    size = len(frame)
    quotas = node.quotas
    if (
        version < FIRST_FLEXIBLE_VERSION
        or position + 9 > size
        or data[position] != 0  # a transactional id
        or data[position + 7] != 2  # topics, counted from one
        or quotas.is_produce_quota_set
        or quotas.is_request_quota_set
    ):
        return None
    acks = data[position + 1] << 8 | data[position + 2]
    if acks != 1 and acks != ACKS_ALL:
        return None
    topic_start = position + 8
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        position = topic_start + TOPIC_ID_SIZE
        if position >= size:
            return None
        of_topic = node.partitions.by_id.get(bytes(frame[topic_start:position]))
    else:
        position = topic_start + data[topic_start]
        if data[topic_start] >= 0x80 or position >= size:
            return None
        # A topic's name is ASCII; other bytes make a name that no topic has.
        of_topic = node.partitions.by_name.get(str(frame[topic_start + 1 : position], "latin-1"))
    topic_end = position
    if of_topic is None:
        return None
    count = data[position]
    position += 1
    if count < 2 or count > MAX_PARTITIONS + 1:
        return None

    # Look at everything before anything is done.
    places: list[Any] = []
    while len(places) < count - 1:
        if position + 5 > size:
            return None
        index = data[position] << 24 | data[position + 1] << 16 | data[position + 2] << 8 | data[position + 3]
        position += 4
        length = 0
        shift = 0
        while True:
            if position >= size or shift > 21:
                return None
            byte = data[position]
            position += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        length -= 1
        if length < HEADER_SIZE or length >= size - position or data[position + ATTRIBUTES_POSITION] & TRANSACTIONAL:
            return None
        partition = of_topic.get(index)
        if partition is None or partition.is_internal:
            return None
        log = partition.log
        if log.is_offline or log.flushes_by_count:
            return None
        places.append((partition, frame[position : position + length]))
        position += length
        if data[position] != 0:  # tagged fields
            return None
        position += 1
    if position + 2 != size or data[position] != 0 or data[position + 1] != 0:
        return None

    timestamp = node.clock()
    parts: list[Any] = [b"", b"\2", frame[topic_start:topic_end], count.to_bytes(1, "big")]
    messages_in = bytes_in = 0
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
                row, messages = append_to(partition, batch, timestamp, node.now(), node)
            else:
                row, messages = refused(partition, refusal, node), 0
            topic_response = TopicProduceResponse(name=topic, topic_id=partition.topic_id, partition_responses=[row])
            encoded = encode_bytes(ProduceResponse(responses=[topic_response]), version)
            parts.append(encoded[topic_end - topic_start + 2 : -len(_END)])
            if not row.error_code:
                messages_in += messages
                bytes_in += len(batch)
            continue
        log.advance_high_watermark(log.log_end_offset)
        messages_in += log.log_end_offset - offset
        bytes_in += len(batch)
        parts.append(_ROW.pack(partition.index, 0, offset, -1, log.log_start_offset, 1, 0, 0))
        if partition.waiters:
            partition.notify(len(batch))
    if bytes_in:
        meter = node.metrics.topic(topic)
        meter.produces += 1
        meter.messages_in += messages_in
        meter.bytes_in += bytes_in
    parts.append(_END)
    body = b"".join(parts)
    return _HEAD.pack(len(body) + 5, correlation_id) + body
