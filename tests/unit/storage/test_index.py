"""Indexes: Kafka's bytes, searching in memory and on disk, truncation."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ottla.storage import AbortedTransaction, OsDisk
from ottla.storage.index import CorruptIndex, OffsetIndex, TimeIndex, TransactionIndex

BASE = 1000


def offset_index(folder: Path, stored: int = 0) -> OffsetIndex:
    return OffsetIndex(OsDisk(), f"{folder}/index", BASE, stored)


def time_index(folder: Path, stored: int = 0) -> TimeIndex:
    return TimeIndex(OsDisk(), f"{folder}/timeindex", BASE, stored)


def test_offset_entries_are_eight_bytes_of_last_offset_and_position(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.append(1003, 1005, 4100)
    index.append(1010, 1017, 70_000)
    index.write_out()
    assert (tmp_path / "index").read_bytes().hex() == "0000000500001004" + "0000001100011170"
    assert list(index.entries()) == [(1005, 4100), (1017, 70_000)]


def test_time_entries_are_twelve_bytes_and_only_rise(tmp_path: Path) -> None:
    index = time_index(tmp_path)
    assert index.last == (-1, BASE)
    index.append(50, 1004)
    index.append(50, 1009)
    index.append(40, 1010)
    index.append(60, 1012)
    index.write_out()
    assert (tmp_path / "timeindex").read_bytes().hex() == "000000000000003200000004" + "000000000000003c0000000c"
    assert time_index(tmp_path, 2).last == (60, 1012)


@pytest.mark.parametrize("count", [0, 1, 7, 255, 256, 511, 512, 513, 3000])
def test_lookup_finds_the_batch_or_the_nearest_before_it(tmp_path: Path, count: int) -> None:
    rng = Random(count)
    index = offset_index(tmp_path)
    entries = []
    offset, position = BASE, 0
    for _ in range(count):
        base = offset + rng.randrange(3)
        last = base + rng.randrange(4)
        position += rng.randrange(100, 5000)
        index.append(base, last, position)
        entries.append((base, last, position))
        offset = last + 1
    for is_on_disk in (False, True):
        assert len(index) == count
        for target in [*range(BASE - 1, min(offset, BASE + 50)), *range(max(BASE, offset - 700), offset + 3, 7)]:
            place = index.lookup(target)
            below = [entry for entry in entries if entry[1] <= target]
            holding = [entry for entry in entries if entry[0] <= target <= entry[1]]
            if holding:
                expected = {holding[0][2]} | ({below[-1][2]} if below else {0})
                assert place.position in expected
                if place.is_exact:
                    assert place.position == holding[0][2]
            else:
                assert place.position == (below[-1][2] if below else 0)
                assert not place.is_exact
        if is_on_disk:
            break
        index.write_out()
        assert index.lasts is None
        index = offset_index(tmp_path, count)


def test_long_indexes_keep_few_entries_in_memory(tmp_path: Path) -> None:
    index, times = offset_index(tmp_path), time_index(tmp_path)
    for n in range(10_000):
        index.append(BASE + n, BASE + n, n)
        times.append(n, BASE + n)
    assert index.lasts is not None and len(index.lasts) <= 512
    assert times.offsets is not None and len(times.offsets) <= 512
    assert (len(index), len(times)) == (10_000, 10_000)
    assert index.lookup(BASE + 5).position == 5
    assert times.lookup(5) == BASE + 5
    assert times.lookup(99_999) == BASE + 9_999
    assert index.last_entry() == (BASE + 9_999, 9_999)


@pytest.mark.parametrize("keep", [0, 1, 300, 999])
@pytest.mark.parametrize("is_on_disk", [True, False])
def test_truncation_drops_what_reaches_the_offset(tmp_path: Path, keep: int, is_on_disk: bool) -> None:
    index, times = offset_index(tmp_path), time_index(tmp_path)
    for n in range(1000):
        index.append(BASE + n, BASE + n, n + 1)
        times.append(n, BASE + n)
    if is_on_disk:
        index.write_out()
        times.write_out()
    index.truncate(BASE + keep)
    times.truncate(BASE + keep)
    assert [offset for offset, _ in index.entries()] == list(range(BASE, BASE + keep))
    assert [offset for _, offset in times.entries()] == list(range(BASE, BASE + keep))
    assert times.last == ((keep - 1, BASE + keep - 1) if keep else (-1, BASE))
    index.append(5000, 5000, 70_000)
    times.append(70_000, 5000)
    index.write_out()
    times.write_out()
    assert (tmp_path / "index").stat().st_size == 8 * (keep + 1)
    assert (tmp_path / "timeindex").stat().st_size == 12 * (keep + 1)


def test_time_lookup_gives_the_last_entry_not_above(tmp_path: Path) -> None:
    index = time_index(tmp_path)
    for n in range(20):
        index.append(10 * n, BASE + n)
    for is_on_disk in (False, True):
        assert index.lookup(-1) == BASE
        assert index.lookup(0) == BASE
        assert index.lookup(39) == BASE + 3
        assert index.lookup(40) == BASE + 4
        assert index.lookup(10_000) == BASE + 19
        if not is_on_disk:
            index.write_out()


def test_an_empty_index_file_is_made_when_written_out(tmp_path: Path) -> None:
    offset_index(tmp_path).write_out()
    time_index(tmp_path).write_out()
    assert (tmp_path / "index").read_bytes() == (tmp_path / "timeindex").read_bytes() == b""


def test_upper_bound_is_the_first_entry_at_or_behind_a_position(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    assert index.upper_bound(0) is None
    for n in range(600):
        index.append(BASE + n, BASE + n, 10 * n + 10)
    for position, expected in ((0, BASE), (10, BASE), (11, BASE + 1), (6000, BASE + 599), (6001, None)):
        assert index.upper_bound(position) == expected
    index.write_out()
    assert index.upper_bound(11) == BASE + 1
    assert index.upper_bound(6001) is None


def test_an_index_shorter_than_it_should_be_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(bytes(8))
    (tmp_path / "timeindex").write_bytes(bytes(12))
    with pytest.raises(CorruptIndex):
        offset_index(tmp_path, 2).last_entry()
    with pytest.raises(CorruptIndex):
        time_index(tmp_path, 2).lookup(3)


def test_reset_empties_memory_and_file(tmp_path: Path) -> None:
    index, times = offset_index(tmp_path), time_index(tmp_path)
    index.append(BASE, BASE, 1)
    times.append(1, BASE)
    index.write_out()
    times.write_out()
    offset_index(tmp_path, 1).reset()
    time_index(tmp_path, 1).reset()
    assert (tmp_path / "index").stat().st_size == (tmp_path / "timeindex").stat().st_size == 0


def test_aborted_transactions_are_34_bytes_each(tmp_path: Path) -> None:
    path = tmp_path / "txnindex"
    index = TransactionIndex(OsDisk(), str(path), BASE)
    first, second = AbortedTransaction(7, 1000, 1010, 1005), AbortedTransaction(8, 1005, 1020, 1021)
    index.append(first)
    index.append(second)
    assert path.read_bytes()[:34].hex() == "0000" + "".join(f"{n:016x}" for n in (7, 1000, 1010, 1005))
    index = TransactionIndex(OsDisk(), str(path), BASE, exists=True)
    assert index.transactions == [first, second]
    found: list[AbortedTransaction] = []
    assert index.collect(1000, 1005, found)
    assert found == [first]
    found = []
    assert not index.collect(1011, 1100, found)
    assert found == [second]
    index.truncate(1015)
    assert index.transactions == [first] and path.stat().st_size == 34
    index.reset()
    assert path.stat().st_size == 0
