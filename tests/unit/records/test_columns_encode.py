"""Columns into batches: both forms of the file make the same bytes, and `records.read` finds every row in them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from struct import pack
from types import ModuleType
from typing import Any

import pytest

import ottla.records.columns_encode
from ottla import records
from ottla.client.core.partitioner import partition_for_key
from ottla.records import Compression, Record
from ottla.wire.spares import SpareBuffers
from tests.unit.records.column_twins import EVERY_ROW, plain
from tests.unit.records.test_columns import NOW, some_records


@pytest.fixture(params=["imported", "plain"])
def columns(request: pytest.FixtureRequest) -> ModuleType:
    return ottla.records.columns_encode if request.param == "imported" else plain("columns_encode")


def bits(values: Sequence[object], start: int) -> bytes | None:
    if None not in values:
        return None
    packed = bytearray((start + len(values) + 7) // 8)
    for index, value in enumerate(values):
        packed[(start + index) >> 3] |= (value is not None) << ((start + index) & 7)
    return bytes(packed)


def bytes_column(columns: ModuleType, values: Sequence[bytes | None], start: int = 0) -> Any:
    """The values as a slice of a larger column, whose first rows are not theirs."""
    data = bytearray(b"x" * start)
    places = list(range(start + 1))
    for value in values:
        data += value or b""
        places.append(len(data))
    return columns.BytesColumn(bits(values, start), pack(f"={len(places)}q", *places), bytes(data), start, len(values))


def number_column(columns: ModuleType, values: Sequence[int | None], start: int = 0) -> Any:
    content = pack(f"={start + len(values)}q", *[-7] * start, *[value or 0 for value in values])
    return columns.NumberColumn(bits(values, start), content, start, len(values))


def headers_column(columns: ModuleType, made: Sequence[Record], start: int = 0) -> Any:
    pairs = [pair for record in made for pair in record.headers]
    places = [0] * (start + 1)
    for record in made:
        places.append(places[-1] + len(record.headers))
    keys = bytes_column(columns, [name.encode() for name, _ in pairs])
    values = bytes_column(columns, [value for _, value in pairs])
    return columns.HeadersColumn(None, pack(f"={len(places)}q", *places), start, len(made), keys, values)


def rows(columns: ModuleType, made: Sequence[Record], *, start: int = 0, partitions: Any = None) -> Any:
    return columns.Rows(
        len(made),
        bytes_column(columns, [record.value for record in made], start),
        bytes_column(columns, [record.key for record in made], start),
        number_column(columns, [record.timestamp for record in made], start),
        None if partitions is None else number_column(columns, partitions, start),
        headers_column(columns, made, start),
    )


def encoded(columns: ModuleType, given: Any, count: int, size: int, **options: Any) -> list[Any]:
    encoder = columns.TableEncoder(count, size, **{"anywhere": range(count), **options})
    row, done = 0, []
    while row < given.count:
        row = encoder.encode(given, row, NOW, 500)
        done += encoder.take()
    encoder.close_all()
    done += encoder.take()
    return done


def by_partition(batches: list[Any]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for batch in batches:
        found.setdefault(batch.partition, []).extend(
            record._replace(offset=0) for record in records.read(batch.build())
        )
    return found


@pytest.mark.parametrize("start", [0, 3])
def test_every_row_is_found_again_in_its_partition_and_in_order(columns: ModuleType, start: int) -> None:
    for seed in range(10):
        rng = Random(seed)
        made = [record._replace(offset=0) for record in some_records(rng, 80)]
        partitions = [rng.choice([None, 0, 4]) for _ in made]
        batches = encoded(columns, rows(columns, made, start=start, partitions=partitions), 5, 1_000)
        expected: dict[int, list[Record]] = {}
        for record, partition in zip(made, partitions, strict=True):
            if partition is None and record.key is not None:
                partition = partition_for_key(record.key, 5)
            if partition is not None:
                expected.setdefault(partition, []).append(record)
        found = by_partition(batches)
        assert sorted(record for part in found.values() for record in part if record.key is None) == sorted(
            record for record in made if record.key is None
        )
        for partition, part in expected.items():
            keyed = [record for record in part if record.key is not None]
            assert [record for record in found[partition] if record.key is not None] == keyed


def test_both_forms_make_the_same_bytes() -> None:
    for seed in range(20):
        made = some_records(Random(seed), 60)
        ours, theirs = (
            [bytes(batch.build()) for batch in encoded(columns, rows(columns, made, start=seed % 4), 4, 2_000)]
            for columns in (ottla.records.columns_encode, plain("columns_encode"))
        )
        assert ours == theirs


@pytest.mark.parametrize("sums_up", [True, False])
def test_the_crc_is_that_of_the_whole_batch_however_its_records_came(columns: ModuleType, sums_up: bool) -> None:
    """Records are summed up in steps of 12 KiB: sizes around that, a record of many steps, and batches side by side."""
    sizes = [0, 1, 100, 12_200, 12_230, 12_288, 12_400, 30_000, 90, 400_000, 7, *[1_000] * 40]
    made = [Record(0, NOW + size, None, Random(size).randbytes(size)) for size in sizes]
    given = rows(columns, made, partitions=[index % 3 for index in range(len(made))])
    for size in (1, 20_000, 1 << 20):
        batches = encoded(columns, given, 3, size, sums_up=sums_up)
        for batch in batches:
            for sequence in (0, 70_000):
                built = batch.build(producer_id=1 << 40, producer_epoch=2, base_sequence=sequence)
                assert records.crc_ok(built, 0, len(built))
        assert by_partition(batches) == {partition: made[partition::3] for partition in range(3)}


def test_a_batch_is_as_large_as_it_may_be_and_a_larger_record_stands_alone(columns: ModuleType) -> None:
    made = [Record(0, NOW, None, bytes(size)) for size in [100] * 30 + [5_000] + [100] * 30]
    batches = encoded(columns, rows(columns, made), 1, 1_000)
    assert [len(batch) for batch in batches] == [8, 8, 8, 6, 1, 8, 8, 8, 6]
    assert [len(batch) for batch in batches if batch.size > 1_000] == [1]
    assert by_partition(batches) == {0: made}
    assert all(records.crc_ok(batch.build(), 0, batch.size) for batch in batches)


def test_rows_without_keys_fill_a_batch_of_each_partition_in_turn(columns: ModuleType) -> None:
    made = [Record(0, NOW, None, b"%03d" % number) for number in range(100)]
    batches = encoded(columns, rows(columns, made), 4, 200, anywhere=[2, 0, 3])
    assert [batch.partition for batch in batches][:5] == [2, 0, 3, 2, 0]
    assert [record.value for batch in batches for record in records.read(batch.build())] == [
        record.value for record in made
    ]


def test_round_robin_goes_on_with_every_row_whatever_its_key(columns: ModuleType) -> None:
    made = [Record(0, NOW, b"one key", b"%d" % number) for number in range(9)]
    batches = encoded(columns, rows(columns, made), 3, 10_000, anywhere=[0, 1, 2], is_round_robin=True)
    assert by_partition(batches) == {partition: made[partition::3] for partition in range(3)}


def test_keys_may_be_ignored(columns: ModuleType) -> None:
    made = [Record(0, NOW, b"%d" % number, b"v") for number in range(20)]
    assert by_partition(encoded(columns, rows(columns, made), 3, 10_000, anywhere=[1], uses_keys=False)) == {1: made}


def test_what_is_not_there_is_null_and_now(columns: ModuleType) -> None:
    given = columns.Rows(2, None, None, number_column(columns, [5, None]))
    assert records.read(encoded(columns, given, 1, 1_000)[0].build()) == [Record(0, 5), Record(1, NOW)]


def test_a_batch_is_stamped_for_its_producer_and_split_in_halves(columns: ModuleType) -> None:
    made = [record._replace(offset=index) for index, record in enumerate(some_records(Random(7), 31))]
    (batch,) = encoded(columns, rows(columns, made, partitions=[2] * 31), 3, 1 << 20)
    for compression in Compression:
        built = batch.build(
            compression=compression, producer_id=9, producer_epoch=3, base_sequence=77, is_transactional=True
        )
        header = records.read_header(built)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 77)
        assert header.is_transactional and header.compression is compression and records.crc_ok(built, 0, len(built))
        assert header.max_timestamp == max(record.timestamp for record in made) and records.read(built) == made
    assert not records.read_header(batch.build()).is_transactional
    one, other = batch.halves()
    assert (len(one), len(other), one.partition, other.partition) == (15, 16, 2, 2)
    assert by_partition([one, other]) == by_partition([batch])


def test_rows_that_cannot_be_sent_are_found_before(columns: ModuleType) -> None:
    made = [Record(0, NOW, b"key", bytes(size), (("h", bytes(40)),)) for size in (10, 2_000, 10)]
    given = rows(columns, made, partitions=[0, None, 3])
    assert given.row_elsewhere(4) == -1 and given.row_elsewhere(3) == 2
    assert given.row_too_large(2_100) == -1 and given.row_too_large(2_000) == 1 and given.size_of(1) > 2_000
    negative = columns.Rows(1, None, None, None, number_column(columns, [-1]))
    assert negative.row_elsewhere(4) == 0


def test_buffers_that_do_not_belong_together_are_refused(columns: ModuleType) -> None:
    places = pack("=3q", 0, 2, 5)
    for validity, offsets, start, count in (
        (None, places, 0, 3),
        (None, b"", 0, 1),
        (b"", places, 0, 2),
        (None, places, -1, 1),
    ):
        with pytest.raises(ValueError):
            columns.BytesColumn(validity, offsets, b"abcde", start, count)
    with pytest.raises(ValueError):
        columns.NumberColumn(None, bytes(8), 0, 2)
    with pytest.raises(ValueError):
        columns.Rows(3, columns.BytesColumn(None, places, b"abcde", 0, 2))
    for damaged in ((0, 9, 5), (5, 2, 5), (-1, 2, 5), (0, 2**40, 5)):
        given = columns.Rows(2, columns.BytesColumn(None, pack("=3q", *damaged), b"abcde", 0, 2))
        with pytest.raises(ValueError):
            encoded(columns, given, 1, 1_000)
    empty = columns.BytesColumn(None, bytes(8), b"", 0, 0)
    lists = columns.HeadersColumn(None, pack("=2q", 0, 1), 0, 1, empty, empty)
    with pytest.raises(ValueError):
        encoded(columns, columns.Rows(1, None, headers=lists), 1, 1_000)


def test_a_header_needs_a_key(columns: ModuleType) -> None:
    keys, values = bytes_column(columns, [None]), bytes_column(columns, [b"v"])
    given = columns.Rows(1, None, headers=columns.HeadersColumn(None, pack("=2q", 0, 1), 0, 1, keys, values))
    with pytest.raises(ValueError, match="without a key"):
        given.row_too_large(EVERY_ROW)
    with pytest.raises(ValueError, match="without a key"):
        encoded(columns, given, 1, 1_000)


def test_a_batch_is_written_into_a_spare_buffer_once_the_batch_before_is_gone(columns: ModuleType) -> None:
    made = [Record(0, NOW, None, b"%d" % index * 100, ()) for index in range(4)]
    spares = SpareBuffers()

    def encoded(record: Record) -> Any:
        encoder = columns.TableEncoder(1, 300, anywhere=[0], spares=spares)
        encoder.encode(rows(columns, [record]), 0, NOW, EVERY_ROW)
        encoder.close_all()
        (batch,) = encoder.take()
        return batch

    first = encoded(made[0])
    second = encoded(made[1])
    built = [first.build(), second.build()]
    assert built[0].obj is not built[1].obj
    assert [records.read(batch)[0].value for batch in built] == [made[0].value, made[1].value]
    reused = built[0].obj
    del first
    third = encoded(made[2])
    assert third.build().obj is not reused, "somebody still has a view of it"
    built.clear()
    fourth = encoded(made[3])
    assert fourth.build().obj is reused
    assert [records.read(one.build())[0].value for one in (second, third, fourth)] == [one.value for one in made[1:]]


def test_a_small_batch_does_not_hold_a_large_buffer(columns: ModuleType) -> None:
    encoder = columns.TableEncoder(1, 1 << 19, anywhere=[0])
    encoder.encode(rows(columns, [Record(0, NOW, None, b"small", ())]), 0, NOW, EVERY_ROW)
    encoder.close_all()
    (batch,) = encoder.take()
    assert len(batch.build().obj) == batch.size < 100
