"""The column files in both their forms, and columns as Python objects."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from itertools import pairwise
from pathlib import Path
from struct import unpack
from types import ModuleType
from typing import Any

import ottla.records
from ottla.records import Record
from tests.unit.records.conftest import plain_kernel

KEY, VALUE, TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, HEADERS = (1 << place for place in range(8))
ALL = 255
NO_END = 2**63 - 1
EVERY_ROW = 2**40
MAX_SIZE = 1 << 20


def plain(name: str) -> ModuleType:
    """The source run as plain Python, on others that are plain as well."""
    plain_name = f"ottla_plain_{name}"
    if plain_name not in sys.modules:
        path = Path(ottla.records.__file__).with_name(f"{name}.py")
        spec = importlib.util.spec_from_loader(plain_name, SourceFileLoader(plain_name, str(path)))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        twins = {"ottla.records.kernel": plain_kernel()}
        if name == "columns_encode":
            twins["ottla.records.columns"] = plain("columns")
        imported = {name: sys.modules[name] for name in twins}
        sys.modules.update(twins)
        try:
            spec.loader.exec_module(module)
        finally:
            sys.modules.update(imported)
        sys.modules[plain_name] = module
    return sys.modules[plain_name]


def binary(column: Any, count: int) -> list[bytes | None]:
    validity, offsets, data = column
    assert len(offsets) == 4 * count + 4
    places = unpack(f"={count + 1}i", offsets)
    assert places[0] == 0 and places[-1] == len(data)
    values = [bytes(data[first:last]) for first, last in pairwise(places)]
    if validity is None:
        return list(values)
    assert len(validity) == (count + 7) // 8
    return [value if validity[row >> 3] >> (row & 7) & 1 else None for row, value in enumerate(values)]


def numbers(columns: Any, column: int) -> tuple[int, ...]:
    width = "q" if column in (OFFSET, TIMESTAMP) else "i"
    return unpack(f"={columns.count}{width}", columns.numbers(column))


def as_records(columns: Any) -> list[Record]:
    """Columns that have everything, as what `records.read` gives."""
    count = columns.count
    list_offsets, header_keys, header_values, header_count = columns.headers()
    keys, values = binary(header_keys, header_count), binary(header_values, header_count)
    pairs = [
        (key.decode("utf-8", "surrogateescape"), value)
        for key, value in zip(keys, values, strict=True)
        if key is not None
    ]
    places = unpack(f"={count + 1}i", list_offsets)
    return [
        Record(offset, timestamp, key, value, tuple(pairs[first:last]))
        for offset, timestamp, key, value, first, last in zip(
            numbers(columns, OFFSET),
            numbers(columns, TIMESTAMP),
            binary(columns.binary(KEY), count),
            binary(columns.binary(VALUE), count),
            places,
            places[1:],
            strict=False,
        )
    ]
