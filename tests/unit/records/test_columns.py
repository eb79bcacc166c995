"""Batches into columns: both forms of the file do what `records.read` does, whatever the bytes."""

from __future__ import annotations

import tracemalloc
from random import Random
from struct import pack_into
from types import ModuleType
from typing import Any

import pytest

import ottla.records.columns
from ottla import records
from ottla.records import Compression, CorruptRecords, Record
from tests.unit.records.column_twins import (
    ALL,
    EVERY_ROW,
    MAX_SIZE,
    NO_END,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    TOPIC,
    VALUE,
    as_records,
    binary,
    numbers,
    plain,
)

NOW = 1_700_000_000_000


@pytest.fixture(params=["imported", "plain"])
def columns(request: pytest.FixtureRequest) -> ModuleType:
    return ottla.records.columns if request.param == "imported" else plain("columns")


def some_records(rng: Random, count: int) -> list[Record]:
    made = []
    for index in range(count):
        headers = tuple(
            (f"h{rng.randrange(9)}", rng.choice([None, b"", rng.randbytes(5)])) for _ in range(rng.choice([0, 0, 1, 3]))
        )
        key = rng.choice([None, b"", b"key", rng.randbytes(200)])
        value = rng.choice([None, b"", b"value", rng.randbytes(rng.randrange(300))])
        made.append(Record(7 + index, NOW + rng.randrange(-5_000, 5_000), key, value, headers))
    return made


def read_all(columns: ModuleType, batch: Any, wanted: int = ALL, **options: Any) -> Any:
    found = columns.RecordColumns(wanted, **options)
    found.append(columns.BatchRecords(batch, MAX_SIZE), 0, 3, 0, NO_END, EVERY_ROW)
    return found


@pytest.mark.parametrize("compression", list(Compression))
def test_columns_hold_what_read_reads(columns: ModuleType, compression: Compression) -> None:
    for seed in range(20):
        rng = Random(seed)
        batch = records.build(some_records(rng, rng.randrange(1, 60)), base_offset=7, compression=compression)
        assert as_records(read_all(columns, batch)) == records.read(batch)


def test_several_batches_stand_behind_each_other(columns: ModuleType) -> None:
    rng = Random(1)
    found = columns.RecordColumns(ALL)
    expected = []
    for partition in range(5):
        made = some_records(rng, 30)
        batch = records.build(made, base_offset=7)
        assert found.append(columns.BatchRecords(batch, MAX_SIZE), 5 - partition, partition, 0, NO_END, EVERY_ROW) == 30
        expected += made
    assert numbers(found, PARTITION) == tuple(index // 30 for index in range(150))
    assert numbers(found, TOPIC) == tuple(5 - index // 30 for index in range(150))
    assert as_records(found) == expected


def test_a_batch_is_read_in_steps_and_between_offsets(columns: ModuleType) -> None:
    made = some_records(Random(2), 50)
    batch = columns.BatchRecords(records.build(made, base_offset=7, compression=Compression.ZSTD), MAX_SIZE)
    found = columns.RecordColumns(ALL)
    assert found.append(batch, 0, 0, 17, 40, 5) == 5 and batch.next_offset == 22
    assert found.append(batch, 0, 0, 17, 40, 5) == 5 and not batch.is_empty()
    assert found.append(batch, 0, 0, 17, 40, EVERY_ROW) == 13 and batch.next_offset == 40
    assert found.append(batch, 0, 0, 17, 40, EVERY_ROW) == 0, "the end stays the end"
    assert found.append(batch, 0, 0, 17, 41, EVERY_ROW) == 1, "and nothing behind it was lost"
    assert found.append(batch, 0, 0, 17, NO_END, EVERY_ROW) == 16 and batch.is_empty()
    assert as_records(found) == made[10:]


def test_only_what_is_wanted_is_kept(columns: ModuleType) -> None:
    made = some_records(Random(3), 40)
    batch = records.build(made, base_offset=7)
    found = read_all(columns, batch, VALUE | OFFSET)
    assert numbers(found, OFFSET) == tuple(record.offset for record in made)
    assert found.size() == sum(len(record.value or b"") for record in made)
    assert binary(found.binary(VALUE), 40) == [record.value for record in made]
    assert read_all(columns, batch, 0).count == 40


def test_offsets_with_gaps_stay_as_they_are(columns: ModuleType) -> None:
    """A compacted batch keeps the offsets of what is left."""
    whole = records.build([Record(0, NOW, b"%d" % number, b"v") for number in range(4)], base_offset=100)
    offset_map = records.OffsetMap(16, bytes(16))
    for key in (b"1", b"2"):
        offset_map.put(key, 500)
    offset_map.advance(600)
    batch = records.compact(whole, offset_map, timestamp=NOW, delete_horizon=NOW).batch
    assert numbers(read_all(columns, batch), OFFSET) == (100, 103)


def test_timestamps_in_other_units_and_of_the_broker(columns: ModuleType) -> None:
    made = [Record(0, NOW), Record(0, -1), Record(0, 2**63 - 1)]
    found = read_all(columns, records.build(made), timestamp_scale=1_000)
    assert numbers(found, TIMESTAMP) == (NOW * 1_000, -1_000, (2**63 - 1) // 1_000 * 1_000)
    assert numbers(found, TIMESTAMP_TYPE) == (0, 0, 0)
    found = read_all(columns, records.build(made, log_append_time=NOW))
    assert numbers(found, TIMESTAMP) == (NOW,) * 3 and numbers(found, TIMESTAMP_TYPE) == (1,) * 3


def test_a_damaged_batch_leaves_what_was_there_before(columns: ModuleType) -> None:
    rng = Random(4)
    made = some_records(rng, 20)
    found = read_all(columns, records.build(made, base_offset=7))
    damaged = records.build(some_records(rng, 20), base_offset=27)
    damaged[-1] ^= 0x55
    with pytest.raises(CorruptRecords):
        found.append(columns.BatchRecords(damaged[:-3] + b"\xff\xff\xff", MAX_SIZE), 0, 0, 0, NO_END, EVERY_ROW)
    assert found.count == 20
    more = some_records(rng, 20)
    found.append(columns.BatchRecords(records.build(more, base_offset=7), MAX_SIZE), 0, 0, 0, NO_END, EVERY_ROW)
    assert as_records(found) == made + more


def test_columns_take_no_more_bytes_than_they_may_but_always_one_batch(columns: ModuleType) -> None:
    batch = records.build([Record(0, NOW, None, bytes(1_000))])
    found = columns.RecordColumns(VALUE, 1, 1_500)
    assert found.fits(columns.BatchRecords(batch, MAX_SIZE))
    found.append(columns.BatchRecords(batch, MAX_SIZE), 0, 0, 0, NO_END, EVERY_ROW)
    assert not found.fits(columns.BatchRecords(batch, MAX_SIZE))
    assert columns.RecordColumns(VALUE, 1, 1).fits(columns.BatchRecords(batch, MAX_SIZE))


def test_a_count_that_no_bytes_stand_behind_takes_no_memory(columns: ModuleType) -> None:
    batch = records.build([Record(0, NOW, None, b"v")])
    pack_into(">i", batch, 57, 2**31 - 1)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecords):
            columns.BatchRecords(batch, MAX_SIZE)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def outcome(columns: ModuleType, batch: bytes, steps: int) -> Any:
    try:
        opened = columns.BatchRecords(batch, MAX_SIZE)
        found = columns.RecordColumns(ALL)
        while not opened.is_empty():
            found.append(opened, 0, 0, -(2**63), NO_END, steps)
        return as_records(found)
    except CorruptRecords as error:
        return str(error)


def test_both_forms_and_read_agree_on_mutated_batches() -> None:
    rng = Random(5)
    originals = [
        bytes(records.build(some_records(rng, 12), compression=compression, base_offset=7))
        for compression in (Compression.NONE, Compression.NONE, Compression.LZ4, Compression.ZSTD)
    ]
    agreed = 0
    for turn in range(3_000):
        batch = bytearray(originals[turn % len(originals)])
        for _ in range(rng.choice([1, 1, 2, 5])):
            batch[rng.randrange(len(batch))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        ours = outcome(ottla.records.columns, bytes(batch), 1 + turn % 13)
        assert ours == outcome(plain("columns"), bytes(batch), 1 + turn % 13), batch.hex()
        try:
            expected: Any = records.read(batch, max_decompressed=MAX_SIZE)
        except CorruptRecords:
            assert isinstance(ours, str), batch.hex()
        else:
            agreed += ours == expected
            if not isinstance(ours, str):
                assert ours == expected, batch.hex()
            else:
                assert " records in " in ours or not expected, batch.hex()
    assert agreed > 500


def test_columns_are_used_again_only_when_no_view_of_them_is_left(columns: ModuleType) -> None:
    rng = Random(3)
    made = [some_records(rng, count) for count in (50, 20, 90)]
    batches = [records.build(some, base_offset=7) for some in made]
    found = read_all(columns, batches[0])
    kept = found.binary(VALUE)
    assert not found.renew() and found.count == 50
    assert binary(kept, 50) == [record.value for record in made[0]]
    del kept
    for batch, some in zip(batches, made, strict=True):
        assert found.renew() and found.count == found.header_count == found.size() == 0
        found.append(columns.BatchRecords(batch, MAX_SIZE), 0, 3, 0, NO_END, EVERY_ROW)
        assert as_records(found) == some
    room = found.capacity()
    assert found.renew() and found.capacity() == room > 90 * 28


def test_columns_that_were_empty_serve_again_only_without_views(columns: ModuleType) -> None:
    found = columns.RecordColumns(VALUE)
    view = found.binary(VALUE).data
    assert len(view) == 0 and not found.renew()
    del view
    assert found.renew()
