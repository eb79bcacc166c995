"""Produced batches that are damaged in one way each: every answer is the one that Apache Kafka 4.3.1 gave.

Its answers are in kafka_produce_answers.json: error code, message, the errors of single records. Ottla takes a request
for one topic through compiled code (broker/apis/produce_frame.py) and a request for two topics the long way; both are
asked.
OTTLA_RECORD=1 together with OTTLA_TEST_KAFKA=1 writes Kafka's answers down anew.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import struct
import time
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop import requests
from tests.interop.conftest import ON_KAFKA
from tests.interop.group_script import error_codes, plain, request
from tests.interop.servers import Server, ask

checksums = pytest.importorskip("kafka.record.util", reason="kafka-python is not installed")

RECORDED = Path(__file__).with_name("kafka_produce_answers.json")
IS_RECORDING = os.environ.get("OTTLA_RECORD") == "1" and os.environ.get("OTTLA_TEST_KAFKA") == "1"
VERSIONS = (3, 6, 8, 13)
"""One of each shape: without the log's start, without zstd, with messages, flexible and with topic ids."""
PRODUCE, CREATE_TOPICS, LIST_OFFSETS = 0, 19, 2
UNTOLD = ("index", "log_append_time", "current_leader")
NOW = int(time.time() * 1000)
HOUR_MS = 3_600_000
HEADER = struct.Struct(">qiibIhiqqqhii")
CONTROL, TRANSACTIONAL, LOG_APPEND_TIME, DELETE_HORIZON = 0x20, 0x10, 0x08, 0x40
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out) + bytes([rest])


def record(
    delta: int,
    *,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    timestamp_delta: int = 0,
    size: int | None = None,
    key_size: int | None = None,
    value_size: int | None = None,
    header_count: int = 0,
    rest: bytes = b"",
) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(delta)
    for part, said in ((key, key_size), (value, value_size)):
        body += varint(said if said is not None else -1 if part is None else len(part)) + (part or b"")
    body += varint(header_count) + rest
    return varint(len(body) if size is None else size) + body


def batch(
    records: bytes | None = None,
    *,
    count: int | None = None,
    base_offset: int = 0,
    length: int | None = None,
    leader_epoch: int = -1,
    magic: int = 2,
    crc_xor: int = 0,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = NOW,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """One batch of three records; what is named is wrong, what is not named fits."""
    if records is None:
        records = b"".join(record(index) for index in range(3))
    count = 3 if count is None else count
    header = HEADER.pack(
        base_offset,
        49 + len(records) if length is None else length,
        leader_epoch,
        magic,
        0,
        attributes,
        count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        base_timestamp if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    data = bytearray(header + records)
    struct.pack_into(">I", data, 17, checksums.calc_crc32c(bytes(data[21:])) ^ crc_xor)
    return bytes(data)


def old_message(magic: int, crc_xor: int = 0) -> bytes:
    """A message of Kafka before 0.11."""
    content = (
        struct.pack(">bb", magic, 0) + (struct.pack(">q", NOW) if magic else b"") + struct.pack(">ii1s", -1, 1, b"v")
    )
    message = struct.pack(">I", zlib.crc32(content) ^ crc_xor) + content
    return struct.pack(">qi", 0, len(message)) + message


GOOD = batch()
SIZE = len(GOOD)


def raised(data: bytes, position: int, value: int) -> bytes:
    """One byte changed after the CRC was made."""
    changed = bytearray(data)
    changed[position] = value
    return bytes(changed)


DAMAGED: dict[str, bytes] = {
    "sound": GOOD,
    "empty": b"",
    # Cut off
    **{f"cut to {size} bytes": GOOD[:size] for size in (1, 11, 12, 16, 17, 21, 60, 61, 62)},
    "cut to 16 bytes with length 4": batch(length=4)[:16],
    "cut to 17 bytes with magic 9": raised(GOOD, 16, 9)[:17],
    "cut by 1 byte": GOOD[:-1],
    "cut by 5 bytes": GOOD[:-5],
    "5 bytes too many": GOOD + b"\0" * 5,
    "20 bytes too many": GOOD + b"\0" * 20,
    "61 bytes too many": GOOD + b"\0" * 61,
    # Magic
    **{f"magic byte {magic}": raised(GOOD, 16, magic % 256) for magic in (0, 1, 3, 9, 127, -1)},
    "a message of magic 0": old_message(0),
    "a message of magic 1": old_message(1),
    "a message of magic 1 with a bad CRC": old_message(1, 1),
    # Length
    **{
        f"length {length}": batch(length=length)
        for length in (-1, -12, -(2**31), 0, 1, 4, 5, 13, 14, 48, 49, 2**31 - 1)
    },
    "length one too small": batch(length=SIZE - 12 - 1),
    "length one too large": batch(length=SIZE - 12 + 1),
    "length a byte past the request": batch(length=SIZE + 1),
    # CRC
    "bad CRC": batch(crc_xor=1),
    "bad CRC and magic 9": raised(batch(crc_xor=1), 16, 9),
    "a byte of a record changed": raised(GOOD, SIZE - 3, 0x77),
    # Counts
    **{f"count {count}": batch(count=count, last_offset_delta=2) for count in (-1, 0, 2, 4, 2**31 - 1, -(2**31))},
    **{f"last offset delta {delta}": batch(last_offset_delta=delta) for delta in (-1, 0, 1, 3, 2**31 - 1, -(2**31))},
    **{f"{count} records of 3": batch(count=count) for count in (-1, 0, 1, 2, 4, 100)},
    "no records": batch(b"", count=0),
    "no records and delta 0": batch(b"", count=0, last_offset_delta=0),
    "offset deltas 0 0 0": batch(record(0) * 3),
    "offset deltas 0 5 9": batch(record(0) + record(5) + record(9)),
    "offset deltas 0 5 9 with last 9": batch(record(0) + record(5) + record(9), last_offset_delta=9),
    "offset deltas 2 1 0": batch(record(2) + record(1) + record(0)),
    "offset delta -1": batch(record(-1) + record(1) + record(2)),
    "base offset 7": batch(base_offset=7),
    "base offset -1": batch(base_offset=-1),
    # Records
    "a record longer than the batch": batch(record(0) + record(1) + record(2, size=100)),
    "a record of size -1": batch(record(0) + record(1) + record(2, size=-1)),
    "a record of size 0": batch(record(0) + record(1) + record(2, size=0)),
    "a record a byte too short": batch(record(0) + record(1) + record(2, size=6)),
    "a record a byte too long": batch(record(0) + record(1) + record(2, size=8)),
    "a key longer than its record": batch(record(0) + record(1) + record(2, key_size=50)),
    "a value longer than its record": batch(record(0) + record(1) + record(2, value_size=50)),
    "a key of size -2": batch(record(0) + record(1) + record(2, key=None, key_size=-2)),
    "a value of size -2": batch(record(0) + record(1) + record(2, value=None, value_size=-2)),
    "header count -1": batch(record(0) + record(1) + record(2, header_count=-1)),
    "header count 1 without headers": batch(record(0) + record(1) + record(2, header_count=1)),
    "a header without a key": batch(record(0) + record(1) + record(2, header_count=1, rest=varint(-1) + varint(0))),
    "a header without a value": batch(
        record(0) + record(1) + record(2, header_count=1, rest=varint(1) + b"h" + varint(-1))
    ),
    "a header of value size -2": batch(
        record(0) + record(1) + record(2, header_count=1, rest=varint(1) + b"h" + varint(-2))
    ),
    "a header key that is not UTF-8": batch(
        record(0) + record(1) + record(2, header_count=1, rest=varint(1) + b"\xff" + varint(-1))
    ),
    "record attributes 0xff": batch(record(0) + record(1) + record(2).replace(b"\0", b"\xff", 1)),
    "a varint of six bytes": batch(b"\x80\x80\x80\x80\x80\x01" + record(1) + record(2)),
    "garbage for records": batch(bytes(range(200, 256))),
    "null value and null key": batch(b"".join(record(index, key=None, value=None) for index in range(3))),
    # Attributes
    "log append time": batch(attributes=LOG_APPEND_TIME),
    "log append time without a timestamp": batch(attributes=LOG_APPEND_TIME, base_timestamp=-1),
    "log append time two hours ahead": batch(attributes=LOG_APPEND_TIME, base_timestamp=NOW + 2 * HOUR_MS),
    "control": batch(attributes=CONTROL),
    "control, transactional, with a producer": batch(
        record(0, key=struct.pack(">hh", 0, 1), value=struct.pack(">hi", 0, 0)),
        count=1,
        attributes=CONTROL | TRANSACTIONAL,
        producer_id=7,
        producer_epoch=0,
    ),
    "transactional without a producer": batch(attributes=TRANSACTIONAL),
    "transactional with a producer": batch(attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0),
    "delete horizon": batch(attributes=DELETE_HORIZON),
    "unused attributes": batch(attributes=0x7F00),
    "attributes 0x80": batch(attributes=0x80),
    # Compression
    **{f"codec {codec}": batch(attributes=codec) for codec in (5, 6, 7)},
    **{f"codec {codec} with garbage": batch(b"\x13\x37" * 20, attributes=codec) for codec in (GZIP, SNAPPY, LZ4, ZSTD)},
    **{f"codec {codec} with nothing": batch(b"", attributes=codec) for codec in (GZIP, SNAPPY, LZ4, ZSTD)},
    "gzip": batch(gzip.compress(record(0) + record(1) + record(2), mtime=0), attributes=GZIP),
    "gzip cut off": batch(gzip.compress(record(0) + record(1) + record(2), mtime=0)[:-12], attributes=GZIP),
    "gzip with a bad CRC": batch(
        gzip.compress(record(0) + record(1) + record(2), mtime=0)[:-8] + bytes(8), attributes=GZIP
    ),
    "gzip with offset deltas 0 0 0": batch(gzip.compress(record(0) * 3, mtime=0), attributes=GZIP),
    "gzip with a record too many": batch(
        gzip.compress(record(0) + record(1) + record(2), mtime=0), count=2, attributes=GZIP
    ),
    "gzip with a record missing": batch(gzip.compress(record(0) + record(1), mtime=0), attributes=GZIP),
    "gzip of nothing": batch(gzip.compress(b"", mtime=0), attributes=GZIP),
    "gzip of garbage": batch(gzip.compress(bytes(range(200, 256)), mtime=0), attributes=GZIP),
    "gzip without records": batch(gzip.compress(b"", mtime=0), count=0, attributes=GZIP),
    # Timestamps
    "max timestamp too small": batch(max_timestamp=NOW - 10),
    "max timestamp too large": batch(max_timestamp=NOW + 10),
    "max timestamp -1": batch(max_timestamp=-1),
    "no timestamps": batch(base_timestamp=-1),
    "base timestamp -2": batch(base_timestamp=-2),
    "base timestamp least": batch(base_timestamp=-(2**63)),
    "base timestamp greatest": batch(base_timestamp=2**63 - 1),
    "two hours ahead": batch(base_timestamp=NOW + 2 * HOUR_MS),
    "one record two hours ahead": batch(
        record(0) + record(1, timestamp_delta=2 * HOUR_MS) + record(2), max_timestamp=NOW + 2 * HOUR_MS
    ),
    "two records two hours ahead": batch(
        record(0) + record(1, timestamp_delta=2 * HOUR_MS) + record(2, timestamp_delta=3 * HOUR_MS),
        max_timestamp=NOW + 3 * HOUR_MS,
    ),
    "a long time ago": batch(base_timestamp=1),
    # Producers
    "producer id without epoch": batch(producer_id=7, producer_epoch=-1, base_sequence=0),
    "producer id without sequence": batch(producer_id=7, producer_epoch=0, base_sequence=-1),
    "producer id without either": batch(producer_id=7),
    "producer id and sequence -2": batch(producer_id=7, producer_epoch=0, base_sequence=-2),
    "producer id -2": batch(producer_id=-2, producer_epoch=0, base_sequence=0),
    "an epoch without a producer id": batch(producer_epoch=3),
    "a sequence without a producer id": batch(base_sequence=3),
    "a new producer at sequence 5": batch(producer_id=8, producer_epoch=0, base_sequence=5),
    # Several
    "two batches": GOOD + GOOD,
    "a batch and one cut off": GOOD + GOOD[:-5],
    "a batch and one of magic 9": GOOD + raised(GOOD, 16, 9),
    "a batch and one of magic 1": GOOD + raised(GOOD, 16, 1),
    "a batch and one of length 4": GOOD + batch(length=4),
    "a batch and one of bad CRC": GOOD + batch(crc_xor=1),
    "a batch of bad CRC and a second": batch(crc_xor=1) + GOOD,
    "more than max.message.bytes": batch(record(0, value=bytes(3000)), count=1),
    "more than max.message.bytes and a bad CRC": batch(record(0, value=bytes(3000)), count=1, crc_xor=1),
}
COMPACTED: dict[str, bytes] = {
    "compacted: a key is missing": batch(record(0) + record(1, key=None) + record(2)),
    "compacted: all keys are missing": batch(b"".join(record(index, key=None) for index in range(3))),
    "compacted: no key and two hours ahead": batch(
        record(0) + record(1, key=None, timestamp_delta=2 * HOUR_MS) + record(2), max_timestamp=NOW + 2 * HOUR_MS
    ),
    "compacted: no key, another two hours ahead": batch(
        record(0) + record(1, key=None) + record(2, timestamp_delta=2 * HOUR_MS), max_timestamp=NOW + 2 * HOUR_MS
    ),
    "compacted: twelve without a key": batch(b"".join(record(index, key=None) for index in range(12)), count=12),
}


STAMPED: dict[str, bytes] = {
    "stamped: sound": GOOD,
    "stamped: two hours ahead": batch(base_timestamp=NOW + 2 * HOUR_MS),
    "stamped: no timestamps": batch(base_timestamp=-1),
    "stamped: log append time": batch(attributes=LOG_APPEND_TIME),
    "stamped: log append time two hours ahead": batch(attributes=LOG_APPEND_TIME, base_timestamp=NOW + 2 * HOUR_MS),
    "stamped: gzip": batch(gzip.compress(record(0) + record(1) + record(2), mtime=0), attributes=GZIP),
    "stamped: bad CRC": batch(crc_xor=1),
}
TABLES: dict[str, tuple[dict[str, bytes], dict[str, str]]] = {
    "plain": (DAMAGED, {}),
    "compacted": (COMPACTED, {"cleanup_policy": "compact"}),
    "stamped": (STAMPED, {"message_timestamp_type": "LogAppendTime"}),
}
ACCEPTED_HERE = "gzip with offset deltas 0 0 0"
"""Kafka meets a bug of its own (UnsupportedOperationException) when it rebuilds this batch; uncompressed it works."""


def expected_here(what: str, kafka: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """What Ottla answers. UNKNOWN_SERVER_ERROR is Kafka's word for an exception that it did not expect; the fault is
    the batch's, and Ottla says so. Where Kafka explains nothing, Ottla may."""
    if kafka["error_code"] == "unknown_server_error":
        changed = (
            {"error_code": "invalid_record"} if what != ACCEPTED_HERE else {"error_code": "none", "base_offset": 0}
        )
        kafka = {**answer, "base_offset": kafka["base_offset"], **changed}
    if kafka.get("error_message", "") is None:
        return {**kafka, "error_message": answer["error_message"]}
    return kafka


class Conversation:
    """Produce requests to topics of their own: each batch to a partition that is new."""

    def __init__(self, server: Server) -> None:
        self._connection = server.connect()
        self._ids: dict[str, uuid.UUID] = {}
        self._name = f"damaged-{time.time_ns()}"

    def close(self) -> None:
        self._connection.close()

    def ask(self, api: int, version: int, **fields: Any) -> dict[str, Any]:
        answer: dict[str, Any] = plain(
            requests.answer(api, version, ask(self._connection, requests.frame(request(api, version, fields))))
        )
        return answer

    def topic(self, name: str, partitions: int, **config: str) -> None:
        topic = f"{self._name}-{name}"
        configs = [{"name": key.replace("_", "."), "value": value} for key, value in config.items()]
        wish = [{"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": configs}]
        created = self.ask(CREATE_TOPICS, 7, topics=wish, timeout=60_000)
        assert set(error_codes(created)) == {"none"}, created
        self._ids[name] = created["topics"][0]["topic_id"]
        asked = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        end = time.monotonic() + 120
        while set(
            error_codes(self.ask(LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": topic, "partitions": asked}]))
        ) != {"none"}:
            assert time.monotonic() < end
            time.sleep(0.02)

    def produce(self, version: int, name: str, index: int, records: bytes | None, *, is_long: bool) -> dict[str, Any]:
        """The answer of one partition; beside a second topic if the request is to go the long way."""
        data = [self._data(version, name, index, records)]
        if is_long:
            data.append(self._data(version, "beside", 0, GOOD))
        answer = self.ask(PRODUCE, version, transactional_id=None, acks=-1, timeout=60_000, topic_data=data)
        assert len(answer["responses"]) == len(data)
        (row,) = next(
            one["partition_responses"]
            for one in answer["responses"]
            if one.get("name") == f"{self._name}-{name}" or one.get("topic_id") == self._ids[name]
        )
        return {field: self._told(value) for field, value in row.items() if field not in UNTOLD}

    def _data(self, version: int, name: str, index: int, records: bytes | None) -> dict[str, Any]:
        named = {"topic_id": self._ids[name]} if version >= 13 else {"name": f"{self._name}-{name}"}
        return {**named, "partition_data": [{"index": index, "records": records}]}

    def _told(self, value: Any) -> Any:
        """Without what differs from run to run: the topic's name, and times."""
        if isinstance(value, list):
            return [self._told(each) for each in value]
        if isinstance(value, dict):
            return {field: self._told(each) for field, each in value.items()}
        if isinstance(value, str):
            return re.sub(r"\b1[6-9]\d{11}\b|-922337\d{13}(?=,)", "<time>", value.replace(self._name, "t"))
        return value


@pytest.fixture(scope="module")
def conversation(broker: Server) -> Iterator[Conversation]:
    conversation = Conversation(broker)
    conversation.topic("beside", 1)
    yield conversation
    conversation.close()


@pytest.mark.parametrize("is_long", [False, True], ids=["compiled", "long"])
@pytest.mark.parametrize("version", VERSIONS)
def test_answers_are_kafkas(conversation: Conversation, version: int, is_long: bool) -> None:
    answers = {}
    for topic, (table, settings) in TABLES.items():
        name = f"{topic}-{version}-{'long' if is_long else 'compiled'}"
        conversation.topic(name, len(table), max_message_bytes="2000", **settings)
        for index, (what, records) in enumerate(table.items()):
            told = conversation.produce(version, name, index, records, is_long=is_long)
            answers[what] = json.loads(json.dumps(told).replace(name, topic))
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if IS_RECORDING:
        recorded[f"v{version}"] = answers
        RECORDED.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")
    kafkas = recorded[f"v{version}"]
    assert kafkas.keys() == answers.keys()
    wrong = []
    for what, answer in answers.items():
        expected = kafkas[what] if ON_KAFKA else expected_here(what, kafkas[what], answer)
        if answer != expected:
            wrong.append(f"{what}\n  Kafka: {expected}\n  here:  {answer}")
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka 4.3.1 never answers: a NullPointerException ends the request")
@pytest.mark.parametrize("version", VERSIONS)
def test_null_records_are_refused(conversation: Conversation, version: int) -> None:
    conversation.topic(f"null-{version}", 1)
    answer = conversation.produce(version, f"null-{version}", 0, None, is_long=False)
    assert answer["error_code"] == "invalid_record"
