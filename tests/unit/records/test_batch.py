"""Headers, stamping, building and reading of whole batches, against batches of other writers."""

from __future__ import annotations

import warnings

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder

from ottla.records import (
    HEADER_SIZE,
    BatchHeader,
    Compression,
    ControlType,
    CorruptRecords,
    Record,
    UnsupportedMagic,
    build,
    check,
    control_batch,
    control_type,
    crc_ok,
    end_txn_marker,
    find_max_timestamp,
    find_timestamp,
    read,
    read_end_txn_marker,
    read_header,
    recompress,
    set_max_timestamp,
    split,
    stamp,
    whole_size,
)

NOW = 1_700_000_000_000
HEADERS = (("h1", b"one"), ("h1", None), ("ümläut🚀", b"\0\1\2"))


def java_records(size: int) -> list[Record]:
    big = bytes((index * 31 + index // 251) & 255 for index in range(size))
    return [
        Record(100, 1700000000000, b"key-0", b"value-0"),
        Record(101, 1700000000500, None, b"no key"),
        Record(102, 1699999999000, b"tombstone", None),
        Record(103, 1700000000250, b"", b"", HEADERS),
        Record(104, 1700000000100, b"big", big),
    ]


def some_records(count: int = 5) -> list[Record]:
    return [Record(i, NOW + i, b"key %d" % i, b"value %d" % i, (("n", b"%d" % i),)) for i in range(count)]


@pytest.mark.parametrize("codec", list(Compression))
def test_batches_of_the_java_client_read_as_what_was_put_in(codec: Compression, java_batches: dict[str, bytes]) -> None:
    batch = java_batches[codec.name.lower()]
    header = read_header(batch)
    assert header.size == len(batch)
    assert crc_ok(batch, 0, header.size)
    assert (header.base_offset, header.last_offset, header.count, header.leader_epoch) == (100, 104, 5, 7)
    assert header.compression is codec
    assert read(batch) == java_records(300 if codec is Compression.NONE else 100_000)


def test_an_uncompressed_batch_is_byte_for_byte_the_java_clients(java_batches: dict[str, bytes]) -> None:
    assert build(java_records(300), base_offset=100, leader_epoch=7) == java_batches["none"]


def test_markers_are_byte_for_byte_the_java_clients(java_batches: dict[str, bytes]) -> None:
    for name, is_commit, offset in (("commit", True, 200), ("abort", False, 201)):
        marker = end_txn_marker(
            producer_id=42,
            producer_epoch=3,
            is_commit=is_commit,
            coordinator_epoch=5,
            timestamp=NOW,
            base_offset=offset,
            leader_epoch=7,
        )
        assert marker == java_batches[name]
        assert read_end_txn_marker(marker) == (ControlType.COMMIT if is_commit else ControlType.ABORT, 5)


def test_log_append_time_replaces_every_records_timestamp(java_batches: dict[str, bytes]) -> None:
    batch = java_batches["log_append_time_transactional"]
    header = read_header(batch)
    assert header.has_log_append_time and header.is_transactional and not header.is_control
    assert {record.timestamp for record in read(batch)} == {1700000000999}
    assert header.last_sequence == 2, "sequences wrap at 2^31 - 1"


def test_an_empty_batch_has_a_header_and_no_records(java_batches: dict[str, bytes]) -> None:
    batch = java_batches["empty"]
    assert len(batch) == HEADER_SIZE and read(batch) == [] and crc_ok(batch, 0, HEADER_SIZE)


@pytest.mark.parametrize("codec", list(Compression))
def test_librdkafkas_batches_read_as_what_was_produced(
    codec: Compression, librdkafka_batches: dict[str, bytes]
) -> None:
    segment = librdkafka_batches[codec.name.lower()]
    records = []
    for position, header in split(segment):
        assert crc_ok(segment, position, header.size)
        batch = memoryview(segment)[position : position + header.size]
        assert header.compression is codec
        assert check_client(batch) == 0
        records += read(batch)
    assert len(records) == 20
    for index, record in enumerate(records):
        assert record == Record(
            index,
            NOW + index,
            b"key-%d" % index if index % 3 else None,
            b"value %d " % index * 20,
            (("n", b"%d" % index),) if index % 2 else (),
        )


@pytest.mark.parametrize("codec", list(Compression))
def test_aiokafka_reads_what_is_built_and_the_reverse(codec: Compression) -> None:
    records = some_records()
    theirs = AiokafkaBatch(bytes(build(records, compression=codec)))
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == records
    builder = AiokafkaBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    assert read(batch) == records and check_client(batch) == 0


def test_kafka_python_reads_what_is_built_and_the_reverse() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own, of importlib.resources
        from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
        from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
    for codec in (Compression.NONE, Compression.GZIP):
        records = some_records()
        theirs = KafkaPythonBatch(bytes(build(records, compression=codec)))
        assert [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == records
        builder = KafkaPythonBuilder(2, codec, False, -1, -1, -1, 1 << 20)
        for record in records:
            builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
        batch = bytes(builder.build())
        assert read(batch) == records and check_client(batch) == 0


def check_client(batch: bytes | bytearray | memoryview) -> int:
    return check(
        batch,
        timestamp=NOW,
        log_append_time=False,
        before_max_ms=2**63 - 1,
        after_max_ms=3_600_000,
        requires_key=False,
    ).error


@pytest.mark.parametrize("codec", list(Compression))
def test_a_built_batch_reads_back(codec: Compression) -> None:
    records = some_records(1000)
    batch = build(
        records,
        base_offset=7,
        compression=codec,
        producer_id=9,
        producer_epoch=2,
        base_sequence=3,
        leader_epoch=4,
        is_transactional=True,
    )
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.leader_epoch) == (9, 2, 3, 4)
    assert header.last_sequence == 1002 and header.is_transactional and header.max_timestamp == NOW + 999
    assert read(batch) == [record._replace(offset=7 + record.offset) for record in records]
    assert crc_ok(batch, 0, len(batch))


def test_stamping_leaves_the_crc_alone() -> None:
    batch = build(some_records())
    stamp(batch, 1234, 56)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch, header.next_offset) == (1234, 56, 1239)
    assert crc_ok(batch, 0, len(batch))


def test_setting_the_max_timestamp_renews_the_crc() -> None:
    batch = build(some_records())
    before = bytes(batch)
    set_max_timestamp(batch, NOW + 4, False)
    assert batch == before, "nothing to change"
    set_max_timestamp(memoryview(batch), NOW + 99, True)
    header = read_header(batch)
    assert header.has_log_append_time and header.max_timestamp == NOW + 99 and crc_ok(batch, 0, len(batch))
    set_max_timestamp(batch, NOW + 4, False)
    assert batch == before


def test_split_finds_whole_batches_and_leaves_a_torn_one() -> None:
    one, two = build(some_records(2)), build(some_records(3))
    both = bytes(one + two)
    assert [(position, header.count) for position, header in split(both)] == [(0, 2), (len(one), 3)]
    for cut in range(len(one), len(both)):
        assert len(split(both[:cut])) == 1
        assert whole_size(both[:cut]) == len(one)
    assert split(b"") == []
    assert (whole_size(both), whole_size(bytes(100)), whole_size(b"")) == (len(both), 0, 0)


def test_a_header_that_cannot_be_is_refused() -> None:
    batch = build(some_records())
    with pytest.raises(CorruptRecords):
        read_header(batch[:60])
    for magic in (0, 1, 3, 255):
        wrong = bytearray(batch)
        wrong[16] = magic
        for call in (read_header, split):
            with pytest.raises(UnsupportedMagic):
                call(wrong)
        with pytest.raises(UnsupportedMagic):
            split(wrong[:30])
    for length in (-1, 0, 48):
        wrong = bytearray(batch)
        wrong[8:12] = length.to_bytes(4, "big", signed=True)
        for call in (read_header, split):
            with pytest.raises(CorruptRecords):
                call(wrong)
        with pytest.raises(CorruptRecords):
            split(wrong[:30])
    with pytest.raises(CorruptRecords):
        read_header(batch)._replace(attributes=5).compression  # noqa: B018


def test_recompressing_keeps_records_and_producer() -> None:
    batch = build(some_records(), producer_id=5, producer_epoch=1, base_sequence=10, is_transactional=True)
    for codec in Compression:
        other = recompress(batch, codec)
        header = read_header(other)
        assert header.compression is codec and header.base_sequence == 10 and header.is_transactional
        assert read(other) == read(batch) and crc_ok(other, 0, len(other))


def test_timestamp_search_finds_the_first_record_at_or_after() -> None:
    times = [5, 3, 9, 9, 1]
    for codec in (Compression.NONE, Compression.ZSTD):
        batch = build([Record(timestamp=t) for t in times], base_offset=10, compression=codec)
        assert find_timestamp(batch, 1) == (10, 5)
        assert find_timestamp(batch, 6) == (12, 9)
        assert find_timestamp(batch, 6, start_offset=13) == (13, 9)
        assert find_timestamp(batch, 10) is None
        assert find_max_timestamp(batch) == (12, 9)


def test_control_batches_name_their_type() -> None:
    for kind in (ControlType.LEADER_CHANGE, ControlType.SNAPSHOT_FOOTER, ControlType.KRAFT_VOTERS):
        batch = control_batch(kind, b"value", timestamp=NOW, leader_epoch=3)
        header: BatchHeader = read_header(batch)
        assert header.is_control and header.count == 1 and control_type(batch) is kind
        with pytest.raises(CorruptRecords):
            read_end_txn_marker(batch)
    unknown = build([Record(key=b"\0\0\0\x63", value=b"")], is_control=True)
    assert control_type(unknown) is ControlType.UNKNOWN
    for key in (None, b"\0\0\0", b"\xff\xff\0\0"):
        with pytest.raises(CorruptRecords):
            control_type(build([Record(key=key)], is_control=True))
    with pytest.raises(CorruptRecords):
        control_type(build(some_records()))
    with pytest.raises(CorruptRecords):
        read_end_txn_marker(build([Record(key=b"\0\0\0\1", value=b"\0\0")], is_control=True))


def test_header_keys_that_are_not_utf8_survive() -> None:
    batch = build([Record(headers=(("a\udcff", b"v"),))])
    assert b"a\xff" in batch
    assert read(batch)[0].headers == (("a\udcff", b"v"),)
