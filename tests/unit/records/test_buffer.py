"""A batch that is filled record by record, in both forms: the same bytes as one that is built at once."""

from __future__ import annotations

from random import Random
from types import ModuleType

import pytest

import ottla.records.buffer
from ottla.records import HEADER_SIZE, Compression, Record, build, read
from tests.unit.records.column_twins import plain


@pytest.fixture(params=["imported", "plain"])
def buffer(request: pytest.FixtureRequest) -> ModuleType:
    return ottla.records.buffer if request.param == "imported" else plain("buffer")


def random_records(count: int, seed: int = 7) -> list[Record]:
    rng = Random(seed)

    def content() -> bytes | None:
        return None if rng.random() < 0.1 else rng.randbytes(rng.choice([0, 1, 5, 63, 64, 200, 9000]))

    names = ["", "a", "größe", "x" * 200]
    return [
        Record(
            index,
            1_700_000_000_000 + rng.randrange(-(10**9), 10**9),
            content(),
            content(),
            tuple((rng.choice(names), content()) for _ in range(rng.choice([0, 0, 1, 3]))),
        )
        for index in range(count)
    ]


@pytest.mark.parametrize("compression", list(Compression))
def test_what_was_appended_is_what_would_have_been_built(buffer: ModuleType, compression: Compression) -> None:
    records = random_records(300)
    filled = buffer.RecordBuffer(1 << 30)
    assert [filled.append(*record[1:]) for record in records] == list(range(300))
    numbers = {"producer_id": 5, "producer_epoch": 3, "base_sequence": 77, "is_transactional": True}
    built = build(records, compression=compression, **numbers)  # type: ignore[arg-type]
    assert bytes(filled.build(compression=compression, **numbers)) == bytes(built)
    assert filled.timestamps == [record.timestamp for record in records]
    assert len(filled) == 300


def test_a_batch_is_built_again_under_other_numbers(buffer: ModuleType) -> None:
    filled = buffer.RecordBuffer(1000)
    filled.append(1, None, b"x")
    filled.build(producer_id=1, producer_epoch=0, base_sequence=0)
    assert bytes(filled.build(producer_id=1, producer_epoch=1, base_sequence=9)) == bytes(
        build([Record(0, 1, None, b"x")], producer_id=1, producer_epoch=1, base_sequence=9)
    )


def test_a_batch_takes_what_fits_to_the_byte_but_always_one_record(buffer: ModuleType) -> None:
    one = len(build([Record(0, 1, b"k", b"value")])) - HEADER_SIZE
    filled = buffer.RecordBuffer(HEADER_SIZE + 2 * one)
    assert [filled.append(1, b"k", b"value") for _ in range(3)] == [0, 1, -1]
    assert filled.size == HEADER_SIZE + 2 * one == len(filled.build())
    large = buffer.RecordBuffer(100)
    assert [large.append(1, None, bytes(5000)) for _ in range(2)] == [0, -1]
    assert [record.value for record in read(large.build())] == [bytes(5000)]


def test_halves_have_all_records_in_their_order(buffer: ModuleType) -> None:
    records = random_records(7, seed=1)
    filled = buffer.RecordBuffer(1 << 20)
    for record in records:
        filled.append(*record[1:])
    first, second = filled.halves()
    assert (len(first), len(second)) == (3, 4)
    found = [*read(first.build()), *read(second.build())]
    assert [record[1:] for record in found] == [record[1:] for record in records]


def test_only_what_is_bytes_is_taken(buffer: ModuleType) -> None:
    filled = buffer.RecordBuffer(1000)
    assert filled.append(1, bytearray(b"k"), memoryview(b"v")) == 0
    assert read(filled.build())[0][2:4] == (b"k", b"v")
    with pytest.raises(TypeError):
        filled.append(1, None, "text")
    with pytest.raises(TypeError):
        filled.append("now", None, b"v")
    assert len(filled) == 1
