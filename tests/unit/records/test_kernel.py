"""The kernel as it was imported and its plain twin: both do the same, whatever the bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

import google_crc32c
import pytest

import ottla.records.kernel as imported
from ottla.records import (
    Compression,
    CorruptRecords,
    Record,
    RecordError,
    Validated,
    build,
    crc32c,
    crc_ok,
    read,
    read_header,
)
from ottla.records.batch import HEADER

NOW = 1_700_000_000_000
LIMIT = 1 << 20
SEED = bytes(range(16))
CORRUPT_MESSAGE, INVALID_TIMESTAMP, INVALID_RECORD = 2, 32, 87


def records_of(count: int, rng: Random) -> list[Record]:
    return [
        Record(
            index,
            NOW + rng.randrange(-1000, 1000),
            rng.choice([None, b"", b"k%d" % rng.randrange(5), rng.randbytes(rng.randrange(200))]),
            rng.choice([None, b"", rng.randbytes(rng.randrange(300))]),
            tuple((f"h{rng.randrange(9)}", rng.choice([None, b"v"])) for _ in range(rng.choice([0, 0, 1, 3]))),
        )
        for index in range(count)
    ]


def check(kernel: ModuleType, batch: Any, **changes: Any) -> Validated:
    arguments = {
        "verify_crc": True,
        "timestamp": NOW,
        "earliest": NOW - 10_000,
        "latest": NOW + 10_000,
        "log_append_time": False,
        "requires_key": False,
        "is_client": True,
        "max_decompressed": LIMIT,
        "max_record": LIMIT,
    } | changes
    result: Validated = kernel.check(batch, *arguments.values())
    return result


def with_header(batch: bytes | bytearray, **changes: int) -> bytearray:
    """The batch with other header fields and a CRC that fits them."""
    header = read_header(batch)._replace(**changes)
    changed = bytearray(batch)
    HEADER.pack_into(changed, 0, *header)
    changed[17:21] = crc32c(changed[21:]).to_bytes(4, "big")
    return changed


def framed(content: bytes, count: int = 1) -> bytearray:
    """A batch whose records are these bytes, right in everything else."""
    batch = build([Record(timestamp=NOW)])[:61] + content
    return with_header(batch, length=len(batch) - 12, count=count, last_offset_delta=count - 1)


def test_crc32c_is_googles_for_every_length_and_any_buffer() -> None:
    rng = Random(1)
    for size in [*range(64), 255, 256, 257, 767, 768, 769, 1536, 6143, 6144, 6145, 6912, 20_000, 100_001]:
        data = rng.randbytes(size)
        expected = google_crc32c.value(data)
        for buffer in (data, bytearray(data), memoryview(bytearray(b"xyz" + data))[3:]):
            assert crc32c(buffer) == expected
            assert imported.crc32c_by_table(buffer) == expected
    assert crc32c(b"123456789") == 0xE3069283


def test_the_crcs_of_two_pieces_give_that_of_both(kernel: ModuleType) -> None:
    data = Random(3).randbytes(300_000)
    for size in (0, 1, 9, 40, 61, 4_096, 65_537, len(data)):
        for cut in (0, min(1, size), size // 3, size):
            first, second = crc32c(data[:cut]), crc32c(data[cut:size])
            assert kernel.crc32c_joined(first, second, size - cut) == google_crc32c.value(data[:size])


def test_crc32c_of_a_range_outside_the_buffer_is_refused(kernel: ModuleType) -> None:
    assert kernel.crc32c_range(b"0123456789", 1, 10) == crc32c(b"123456789")
    assert kernel.crc32c_range(b"abc", 2, 2) == 0
    for start, end in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(IndexError):
            kernel.crc32c_range(b"abc", start, end)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_good_batch_is_accepted_with_its_largest_timestamp(kernel: ModuleType, codec: Compression) -> None:
    times = [5, 9, 2, 9]
    batch = build([Record(timestamp=NOW + t, key=b"k") for t in times], compression=codec)
    assert check(kernel, batch, requires_key=True) == Validated(0, None, [], NOW + 9, 1, True)
    assert check(kernel, memoryview(batch), log_append_time=True, timestamp=NOW + 77).max_timestamp == NOW + 77


def test_verdicts_are_those_of_kafkas_log_validator(kernel: ModuleType) -> None:
    """Mutated batches with what LogValidator of Kafka 4.3.1 said to them (10 s allowed either way)."""
    cases = json.loads(Path(__file__).with_name("validated.json").read_text())
    assert len(cases) > 100
    for case in cases:
        result = check(
            kernel,
            bytes.fromhex(case["batch"]),
            verify_crc=False,
            requires_key=case["requires_key"],
            log_append_time=case["log_append_time"],
        )
        assert result.error == case["error"], case
        assert [error.batch_index for error in result.record_errors] == case["batch_indexes"], case
        if not result.error:
            assert result.max_timestamp == case["max_timestamp"], case


def test_a_wrong_crc_is_a_corrupt_message(kernel: ModuleType) -> None:
    batch = build(records_of(3, Random(2)))
    for position in (17, 21, 40, 61, len(batch) - 1):
        wrong = bytearray(batch)
        wrong[position] ^= 1
        assert check(kernel, wrong).error == CORRUPT_MESSAGE
    assert check(kernel, batch[:-1]).error == CORRUPT_MESSAGE
    assert check(kernel, batch + b"x").error == CORRUPT_MESSAGE
    assert check(kernel, b"").error == CORRUPT_MESSAGE


def test_what_a_client_may_not_say_in_a_header_is_an_invalid_record(kernel: ModuleType) -> None:
    batch = build(records_of(3, Random(2)))
    for changes in (
        {"count": 0},
        {"count": -1},
        {"count": 2},
        {"last_offset_delta": 3},
        {"last_offset_delta": -1, "count": 0},
        {"count": 2, "last_offset_delta": 1},
        {"count": 4, "last_offset_delta": 3},
        {"count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"attributes": 0x20},
        {"attributes": 5},
        {"producer_id": 1},
    ):
        assert check(kernel, with_header(batch, **changes)).error == INVALID_RECORD, changes
    marker = with_header(batch, attributes=0x30)
    assert check(kernel, marker, is_client=False).error == 0


def test_records_without_a_key_are_named_on_a_compacted_topic(kernel: ModuleType) -> None:
    batch = build([Record(timestamp=NOW, key=key) for key in (b"a", None, b"", None)])
    result = check(kernel, batch, requires_key=True)
    assert result.error == INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == [1, 3]
    assert check(kernel, batch).error == 0


def test_timestamps_out_of_bounds_are_named_and_win_over_missing_keys(kernel: ModuleType) -> None:
    times = [NOW - 10_001, NOW, NOW + 10_001, -1, NOW - 10_000]
    batch = build([Record(timestamp=t, key=b"k") for t in times] + [Record(timestamp=NOW)])
    result = check(kernel, batch, requires_key=True)
    assert result.error == INVALID_TIMESTAMP
    assert [error.batch_index for error in result.record_errors] == [0, 2, 5]
    assert isinstance(result.record_errors[0], RecordError)
    assert check(kernel, batch, log_append_time=True).error == 0


def test_a_producer_may_not_claim_log_append_time(kernel: ModuleType) -> None:
    batch = build([Record(timestamp=NOW)], log_append_time=NOW)
    assert check(kernel, batch, log_append_time=True).error == INVALID_TIMESTAMP


def test_an_answer_names_a_bounded_number_of_records(kernel: ModuleType) -> None:
    batch = build([Record(timestamp=NOW)] * 3000)
    assert len(check(kernel, batch, requires_key=True).record_errors) == 1000


def test_offset_deltas_out_of_order_need_a_rebuild(kernel: ModuleType) -> None:
    batch = framed(b"\x0c\0\0\x02\1\1\0" + b"\x0c\0\0\0\1\1\0", count=2)
    assert [record.offset for record in kernel.read(batch, LIMIT)] == [1, 0]
    result = check(kernel, batch)
    assert result.error == 0 and not result.is_in_place


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x0c",
        b"\x0c\0\0\0\1\1",
        b"\x0e\0\0\0\1\1\0",  # a byte longer than the batch
        b"\x0a\0\0\0\1\1\0",  # a byte shorter than the fields
        b"\x0e\0\0\0\1\1\0\0",  # a byte longer than the fields
        b"\x0c\0\0\0\1\1\0\0",  # a byte behind the last record
        b"\0",  # an empty record
        b"\1\0\0\0\1\1\0",  # a negative size
        b"\xff\xff\xff\xff\x0f\0\0\0\1\1\0",
        b"\xff\xff\xff\xff\xff\x0f\0\0\0\1\1\0",  # six bytes of varint
        b"\x0c\0\0\0\x7e\1\0",  # a key of 63 bytes
        b"\x14\0\0\0\xfe\xff\xff\xff\x0f\1\0",  # a key of 2^31 - 1 bytes
        b"\x0c\0\0\0\1\x7e\0",
        b"\x0c\0\0\0\1\1\1",  # -1 headers
        b"\x14\0\0\0\1\1\xfe\xff\xff\xff\x0f",  # 2^31 - 1 headers
        b"\x0e\0\0\0\1\1\2\1",  # a header without a key
        b"\x0e\0\0\0\1\1\2\0",  # a header without a value
        b"\x10\0\0\0\1\1\2\2\0",
        b"\x1e\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0\1\1\0",  # eleven bytes of varlong
    ],
)
def test_bad_frames_are_corrupt_and_nothing_else(kernel: ModuleType, content: bytes) -> None:
    batch = framed(content)
    result = check(kernel, batch)
    assert result.error == INVALID_RECORD and result.record_errors == []
    offset_map = kernel.OffsetMap(8, SEED)
    with pytest.raises(CorruptRecords):
        kernel.read(batch, LIMIT)
    with pytest.raises(CorruptRecords):
        kernel.fill(offset_map, batch, 0, 7, LIMIT)
    with pytest.raises(CorruptRecords):
        kernel.retain(batch, offset_map, NOW, NOW, False, False, False, LIMIT)


def test_integers_wrap_as_in_java(kernel: ModuleType) -> None:
    """Ten bytes of varlong with more than 64 bits in them, and a timestamp past the largest one."""
    big = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    batch = framed(b"\x1e\0" + big + b"\0\1\1\0")
    (record,) = kernel.read(batch, LIMIT)
    assert record.timestamp == NOW + 2**63 - 1 - 2**64
    assert check(kernel, batch).error == INVALID_TIMESTAMP


def test_a_single_record_of_a_compressed_batch_is_limited(kernel: ModuleType) -> None:
    records = [Record(timestamp=NOW, value=bytes(500)), Record(1, timestamp=NOW, value=bytes(600))]
    for codec in Compression:
        batch = build(records, compression=codec)
        assert check(kernel, batch, max_record=1000).error == 0
        result = check(kernel, batch, max_record=600)
        if codec is Compression.NONE:
            assert result.error == 0
        else:
            assert result.error == INVALID_RECORD
            assert "max.decompressed.message.bytes is 600" in (result.message or "")


def test_decompressed_records_are_limited(kernel: ModuleType) -> None:
    for codec in list(Compression)[1:]:
        batch = build([Record(timestamp=NOW, value=bytes(LIMIT))], compression=codec)
        result = check(kernel, batch)
        assert result.error == INVALID_RECORD and "more than" in (result.message or "")
        with pytest.raises(CorruptRecords):
            kernel.read(batch, LIMIT)


def test_an_offset_map_keeps_the_latest_offset_of_each_key(kernel: ModuleType) -> None:
    rng = Random(3)
    offset_map = kernel.OffsetMap(1000, SEED)
    expected: dict[bytes, int] = {}
    for offset in range(3000):
        key = rng.choice([b"", rng.randbytes(rng.randrange(40)), b"%d" % rng.randrange(300)])
        if len(expected) < 900 or key in expected:
            offset_map.put(key, offset)
            expected[key] = offset
    for key, offset in expected.items():
        assert offset_map.latest(key) == offset
    assert offset_map.latest(b"never") == -1
    offset_map.advance(2999)
    offset_map.advance(5)
    assert offset_map.counts() == (len(expected), 1000, 2999)


def test_a_released_offset_map_holds_nothing(kernel: ModuleType) -> None:
    offset_map = kernel.OffsetMap(10, SEED)
    offset_map.put(b"k", 1)
    offset_map.release()
    offset_map.release()
    assert offset_map.latest(b"k") == -1
    with pytest.raises(ValueError, match="full"):
        offset_map.put(b"k", 1)


def test_a_full_offset_map_says_so(kernel: ModuleType) -> None:
    offset_map = kernel.OffsetMap(3, SEED)
    for index in range(3):
        offset_map.put(b"%d" % index, index)
    with pytest.raises(ValueError, match="full"):
        offset_map.put(b"more", 4)
    assert offset_map.latest(b"more") == -1
    batch = build([Record(key=b"%d" % index) for index in range(5)])
    small = kernel.OffsetMap(10, SEED)
    assert kernel.fill(small, batch, 0, 3, LIMIT) is False
    assert small.counts()[0] == 3
    for count, seed in ((0, SEED), (3, b"short")):
        with pytest.raises(ValueError):
            kernel.OffsetMap(count, seed)


def compacted(kernel: ModuleType, batches: list[bytearray], **changes: Any) -> list[Any]:
    """The batches as one pass of compaction leaves them."""
    offset_map = kernel.OffsetMap(1000, SEED)
    for batch in batches:
        assert kernel.fill(offset_map, batch, 0, 900, LIMIT)
        offset_map.advance(read_header(batch).last_offset)
    arguments = {
        "timestamp": NOW,
        "new_delete_horizon": NOW + 1000,
        "is_discarded": False,
        "marks_empty_transaction": False,
        "keeps_empty": False,
        "max_decompressed": LIMIT,
    } | changes
    return [kernel.retain(batch, offset_map, *arguments.values()) for batch in batches]


@pytest.mark.parametrize("codec", list(Compression))
def test_compaction_keeps_the_latest_record_of_a_key_at_its_offset(kernel: ModuleType, codec: Compression) -> None:
    one = build(
        [Record(0, NOW + 5, b"a", b"1"), Record(1, NOW + 9, b"b", b"1"), Record(2, NOW + 1, None, b"lost")],
        compression=codec,
        producer_id=7,
        producer_epoch=1,
        base_sequence=20,
        leader_epoch=3,
    )
    two = build([Record(3, NOW, b"b", b"2"), Record(4, NOW + 2, b"c", b"1")], base_offset=3, compression=codec)
    (first, read_count, kept), (second, *_) = compacted(kernel, [one, two])
    assert (read_count, kept) == (3, 1)
    assert kernel.read(first, LIMIT) == [Record(0, NOW + 5, b"a", b"1")]
    header = read_header(first)
    assert header == read_header(one)._replace(
        length=len(first) - 12, crc=header.crc, count=1, max_timestamp=NOW + 5
    ), "everything else is as it was, the last offset and sequence too"
    assert crc_ok(first, 0, len(first))
    assert second is two


def test_tombstones_get_a_delete_horizon_and_go_when_it_is_reached(kernel: ModuleType) -> None:
    batch = build([Record(0, NOW - 9, b"a", None), Record(1, NOW + 3, b"b", b"1", (("h", b"v"),))])
    ((marked, _, kept),) = compacted(kernel, [batch])
    header = read_header(marked)
    assert kept == 2 and header.delete_horizon == NOW + 1000 and header.max_timestamp == NOW + 3
    assert crc_ok(marked, 0, len(marked))
    assert kernel.read(marked, LIMIT) == kernel.read(batch, LIMIT), "timestamps are counted from the horizon now"
    ((same, *_),) = compacted(kernel, [marked], timestamp=NOW + 999, new_delete_horizon=NOW + 5000)
    assert same is marked
    ((left, _, kept),) = compacted(kernel, [marked], timestamp=NOW + 1000)
    assert kept == 1 and kernel.read(left, LIMIT) == kernel.read(batch, LIMIT)[1:]
    assert read_header(left).delete_horizon == NOW + 1000


def test_log_append_time_survives_a_delete_horizon(kernel: ModuleType) -> None:
    batch = build([Record(0, NOW, b"a", None)], log_append_time=NOW + 4)
    ((marked, *_),) = compacted(kernel, [batch])
    assert kernel.read(marked, LIMIT) == [Record(0, NOW + 4, b"a", None)]
    assert read_header(marked).max_timestamp == NOW + 4


def test_a_batch_kept_empty_is_the_java_clients_empty_batch(kernel: ModuleType, java_batches: dict[str, bytes]) -> None:
    records = [Record(timestamp=NOW + 500, key=b"k", value=b"v")] * 5
    batch = build(
        records,
        base_offset=100,
        leader_epoch=7,
        producer_id=42,
        producer_epoch=3,
        base_sequence=11,
        is_transactional=True,
        compression=Compression.ZSTD,
    )
    ((empty, read_count, kept),) = compacted(kernel, [batch], is_discarded=True, keeps_empty=True)
    assert (read_count, kept) == (5, 0)
    assert empty == java_batches["empty"]
    assert compacted(kernel, [batch], is_discarded=True)[0][0] is None
    assert compacted(kernel, [empty], keeps_empty=True)[0][0] == empty


def test_what_the_filter_leaves_reads_as_what_kafkas_leaves(kernel: ModuleType, java_batches: dict[str, bytes]) -> None:
    """Kafka's filter dropped the first record and the one without a key, and set a delete horizon."""
    theirs = java_batches["filtered"]
    source = build(
        kernel.read(java_batches["none"], LIMIT),
        base_offset=100,
        leader_epoch=7,
        producer_id=42,
        producer_epoch=3,
        base_sequence=11,
    )
    offset_map = kernel.OffsetMap(100, SEED)
    kernel.fill(offset_map, source, 0, 90, LIMIT)
    offset_map.put(b"key-0", 103)
    offset_map.advance(104)
    ours, *_ = kernel.retain(source, offset_map, 0, 1700000005000 + 86400000, False, False, False, LIMIT)
    assert ours == theirs


def test_records_past_the_map_are_kept(kernel: ModuleType) -> None:
    batch = build([Record(key=None, value=b"v"), Record(key=b"k", value=None)], base_offset=10)
    offset_map = kernel.OffsetMap(4, SEED)
    offset_map.put(b"k", 500)
    offset_map.advance(9)
    changed, _, kept = kernel.retain(batch, offset_map, NOW, NOW + 7, False, False, False, LIMIT)
    assert kept == 2 and read_header(changed).delete_horizon == NOW + 7


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except CorruptRecords as error:
        return str(error)


def test_both_forms_do_the_same_on_mutated_batches(plain: ModuleType) -> None:
    """Any bytes give a result or CorruptRecords, and the two forms never differ."""
    rng = Random(4)
    for turn in range(1500):
        codec = rng.choice([Compression.NONE, Compression.NONE, *Compression])
        batch = build(records_of(rng.randrange(1, 6), rng), compression=codec, base_offset=rng.randrange(100))
        for _ in range(rng.randrange(4)):
            position = rng.choice([rng.randrange(61), rng.randrange(61, len(batch))])
            batch[position] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        if rng.random() < 0.2:
            del batch[rng.randrange(len(batch)) :]
        elif rng.random() < 0.5 and len(batch) >= 61:
            batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
            batch[16] = 2
        assert outcomes(imported, batch, turn) == outcomes(plain, batch, turn), batch.hex()


def outcomes(kernel: ModuleType, batch: bytearray, turn: int) -> list[Any]:
    return [
        check(
            kernel,
            batch,
            verify_crc=False,
            requires_key=turn % 2 == 0,
            log_append_time=turn % 3 == 0,
            is_client=turn % 5 != 0,
        ),
        outcome(lambda: kernel.read(batch, LIMIT)),
        outcome(lambda: kernel.find_timestamp(batch, NOW, 3, LIMIT)),
        outcome(lambda: after_compaction(kernel, batch, turn)),
    ]


def after_compaction(kernel: ModuleType, batch: bytearray, turn: int) -> Any:
    offset_map = kernel.OffsetMap(16, SEED)
    offset_map.put(b"k1", 10**9)
    is_whole = kernel.fill(offset_map, batch, 0, 5, LIMIT)
    offset_map.advance(turn % 120)
    return (
        is_whole,
        offset_map.counts(),
        kernel.retain(batch, offset_map, NOW, NOW + 5, turn % 7 == 0, turn % 4 == 0, turn % 3 == 0, LIMIT),
    )


def test_both_forms_build_the_same_bytes(plain: ModuleType) -> None:
    rng = Random(5)
    for _ in range(50):
        records = records_of(rng.randrange(1, 20), rng)
        ours, theirs = bytearray(), bytearray()
        assert imported.encode(records, NOW, ours) == plain.encode(records, NOW, theirs)
        assert ours == theirs


def test_the_plain_twin_is_plain(plain: ModuleType) -> None:
    assert not plain.is_compiled()


def test_both_forms_hash_keys_alike(plain: ModuleType) -> None:
    rng = Random(3)
    for size in (*range(40), 1000):
        key = rng.randbytes(size)
        assert imported.murmur2(key) == plain.murmur2(key)
        assert imported.partition_for_key(key, 7) == plain.partition_for_key(key, 7) < 7


def test_both_forms_read_a_partition_alike(plain: ModuleType) -> None:
    class Kind(NamedTuple):
        topic: str
        partition: int
        offset: int
        timestamp: int
        key: bytes | None
        value: bytes | None
        headers: tuple[tuple[str, bytes | None], ...]

    records = records_of(50, Random(5))
    for log_append_time in (None, 77):
        batch = build(records, base_offset=1000, log_append_time=log_append_time)
        whole = [("t", 3, *record) for record in read(batch)]
        for start_offset in (0, 1000, 1020, 1049, 1050):
            expected = [one for one in whole if one[2] >= start_offset]
            for kernel in (imported, plain):
                found = kernel.read_partition(batch, Kind, "t", 3, start_offset, 1 << 20)
                assert found == expected
                assert all(type(one) is Kind for one in found)
        for size in range(61, len(batch), 7):
            damaged = bytearray(batch[:size])
            damaged[8:12] = (size - 12).to_bytes(4, "big")
            for kernel in (imported, plain):
                with pytest.raises(CorruptRecords):
                    kernel.read_partition(damaged, Kind, "t", 3, 0, 1 << 20)
