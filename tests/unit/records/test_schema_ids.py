"""The schemas that a batch names, by the kernel as it was imported and as plain Python."""

from __future__ import annotations

from struct import pack
from types import ModuleType
from uuid import UUID

import pytest

from ottla.records import Compression, CorruptRecords, Record, build
from ottla.records.batch import MAX_SCHEMA_COUNT

LIMIT = 1 << 20
KEY, VALUE = b"__key_schema_id", b"__value_schema_id"
GUID = UUID("d9f3a1de-77f2-4b1c-9c55-000000000001").bytes
OTHER_GUID = UUID("d9f3a1de-77f2-4b1c-9c55-000000000002").bytes


def framed(schema_id: int, payload: bytes = b"x") -> bytes:
    return pack(">bI", 0, schema_id) + payload


def record(value: bytes | None, key: bytes | None = None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Record:
    return Record(0, 1_000, key, value, headers)


def batch(records: list[Record], codec: Compression = Compression.NONE) -> bytes:
    return bytes(build(records, compression=codec))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4, Compression.ZSTD])
def test_each_schema_comes_with_the_first_record_that_names_it(kernel: ModuleType, codec: Compression) -> None:
    values = [framed(7), framed(7), None, framed(8), framed(7), b"plain", b"", framed(2**32 - 1)]
    made = batch([record(one, key=framed(1)) for one in values], codec)
    assert kernel.schema_ids(made, VALUE, False, LIMIT) == {7: 0, 8: 3, None: 5, 2**32 - 1: 7}
    assert kernel.schema_ids(made, KEY, True, LIMIT) == {1: 0}


def test_null_keys_and_values_name_nothing_and_need_nothing(kernel: ModuleType) -> None:
    made = batch([record(None), record(None, headers=(("__value_schema_id", b"junk"),))])
    assert kernel.schema_ids(made, VALUE, False, LIMIT) == {}
    assert kernel.schema_ids(made, KEY, True, LIMIT) == {}


def test_a_header_counts_more_than_the_first_bytes(kernel: ModuleType) -> None:
    made = batch(
        [
            record(b"payload", headers=(("a", None), ("__value_schema_id", b"\1" + GUID), ("z", b"1"))),
            record(b"payload", headers=(("__value_schema_id", b"\1" + GUID),)),
            record(framed(3), headers=(("__value_schema_id", b"\1" + OTHER_GUID),)),
            record(framed(3), headers=(("__value_schema_iD", b"\1" + GUID), ("__key_schema_id", framed(9)))),
            record(framed(3), headers=(("__value_schema_id", None),)),
            record(b"\1" + GUID + b"payload"),
            record(b"\1" + GUID[:15]),
            record(b"payload", headers=(("__value_schema_id", pack(">bI", 0, 5)),)),
        ]
    )
    assert kernel.schema_ids(made, VALUE, False, LIMIT) == {GUID: 0, OTHER_GUID: 2, 3: 3, None: 4, 5: 7}
    found = kernel.records_of_schemas(made, VALUE, False, {GUID, None}, LIMIT)
    assert found == [(0, GUID), (1, GUID), (4, None), (5, GUID), (6, None)]


def test_a_batch_with_very_many_schemas_shows_one_more_than_the_limit(kernel: ModuleType) -> None:
    made = batch([record(framed(index)) for index in range(1_000)])
    assert len(kernel.schema_ids(made, VALUE, False, LIMIT)) == MAX_SCHEMA_COUNT + 1


def test_a_refusal_names_a_bounded_number_of_records(kernel: ModuleType) -> None:
    made = batch([record(framed(4)) for _ in range(3_000)])
    assert len(kernel.records_of_schemas(made, VALUE, False, {4}, LIMIT)) == 1_000


def test_what_is_no_batch_and_what_is_too_large_is_refused(kernel: ModuleType) -> None:
    made = bytearray(batch([record(framed(7), headers=(("__value_schema_id", b"\1" + GUID),))]))
    with pytest.raises(CorruptRecords):
        kernel.schema_ids(made[:-1], VALUE, False, LIMIT)
    made[61] = 0x7E  # the record says that it is longer than its batch
    with pytest.raises(CorruptRecords):
        kernel.schema_ids(made, VALUE, False, LIMIT)
    large = batch([record(framed(7, bytes(100_000)))], Compression.ZSTD)
    with pytest.raises(CorruptRecords):
        kernel.schema_ids(large, VALUE, False, 1_000)


def test_any_bytes_give_the_same_in_both_forms(kernel: ModuleType, plain: ModuleType) -> None:
    made = batch([record(framed(7), headers=(("__value_schema_id", b"\1" + GUID),)), record(b"x", framed(2))])
    for place in range(61, len(made)):
        for change in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            damaged = bytearray(made)
            damaged[place] = change
            assert outcome(kernel, damaged) == outcome(plain, damaged), (place, change)


def outcome(kernel: ModuleType, damaged: bytearray) -> object:
    try:
        return kernel.schema_ids(damaged, VALUE, False, LIMIT)
    except CorruptRecords as error:
        return str(error)
