"""Which records of a table match a filter: decided on Arrow columns as far as possible, the rest record by record.

The only file of the console that knows pyarrow.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ottla.client.core.fetching import ConsumerRecord, LogAppendTimeRecord, RawRecord
from ottla.console.byte_search import occurs, rows_with
from ottla.console.contents import Contents, Registered
from ottla.console.expression import MISSING, follow, needles_of
from ottla.console.faults import not_available
from ottla.console.masking import MASK, Mask
from ottla.console.memory import use_system_allocator
from ottla.console.search_request import Filter

if TYPE_CHECKING:
    import pyarrow

COLUMNS = ["key", "value", "partition", "offset", "timestamp", "timestampType", "headers"]
AT_ONCE = 1_024
"""So many candidates become Python objects at a time."""


@lru_cache(maxsize=1)
def arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise not_available("searching needs pyarrow", "pip install 'ottla[console]'") from None
    use_system_allocator()
    return pyarrow


class ColumnFilter:
    """A filter for the records of one topic."""

    def __init__(self, wanted: Filter, mask: Mask | None, contents: Contents) -> None:
        self._wanted = wanted
        self._mask = mask
        self._contents = contents
        self._arrow = arrow()
        self._is_simple = mask is None and not wanted.needs_documents
        roots = frozenset() if wanted.expression is None else wanted.expression.roots
        self._is_of_documents = mask is None and wanted.needs_documents and roots <= {"value"}
        """Whether the value alone decides, so that only records that match become objects."""
        self._needles = _needles_of_documents(wanted)

    @property
    def parses_values(self) -> bool:
        """Whether every value has to be parsed, because nothing in its bytes rules it out."""
        return self._mask is not None or (self._wanted.needs_documents and not self._needles)

    def rules_out(self, table: pyarrow.Table) -> bool:
        """Whether the bytes of the columns alone tell that `matching` finds nothing. It costs little and makes no
        objects; most tables of a search for something rare are done with it."""
        wanted = self._wanted
        if wanted.key is not None and not self._occurs(table["key"].chunks, wanted.key):
            return True
        if self._mask is not None or wanted.ignores_case:
            return False
        headers = [chunk.values for chunk in table["headers"].chunks] if wanted.needs_headers else []
        if wanted.text is not None and not (
            self._occurs(table["value"].chunks, wanted.text)
            or self._occurs(table["key"].chunks, wanted.text)
            or self._occurs([one.field("value") for one in headers], wanted.text)
        ):
            return True
        if wanted.header_name is not None:
            for name, needle in (("key", wanted.header_name.encode()), ("value", wanted.header_value or b"")):
                if not self._occurs([one.field(name) for one in headers], needle):
                    return True
        return bool(self._needles) and not any(self._occurs(table["value"].chunks, one) for one in self._needles)

    def _occurs(self, chunks: list[Any], needle: bytes) -> bool:
        return any(occurs(chunk, needle) for chunk in chunks)

    def matching(self, topic: str, table: pyarrow.Table, max_count: int | None = None) -> list[tuple[int, RawRecord]]:
        """Rows and records that match, in order; at most the first `max_count`."""
        rows = self._candidates(table)
        if self._is_of_documents:
            rows = self._with_documents(table, rows, max_count)
            return list(zip(rows, records_of(topic, table, rows), strict=True))
        count = table.num_rows if rows is None else len(rows)
        found: list[tuple[int, RawRecord]] = []
        for start in range(0, count, AT_ONCE):
            here = list(range(start, min(start + AT_ONCE, count))) if rows is None else rows[start : start + AT_ONCE]
            records = records_of(topic, table, here)
            if self._is_simple:
                found += zip(here, records, strict=True)
            else:
                found += self._judged(here, records)
            if max_count is not None and len(found) >= max_count:
                return found[:max_count]
        return found

    # On columns

    def _candidates(self, table: pyarrow.Table) -> list[int] | None:
        """Rows that may match; all of them are in it. None: every row."""
        wanted = self._wanted
        rows: set[int] | None = None
        if wanted.key is not None:
            rows = self._equal_keys(table, wanted.key)
        if self._mask is not None:
            return None if rows is None else sorted(rows)
        if wanted.text is not None:
            rows = _both(rows, self._with_text(table, wanted.text))
        if wanted.header_name is not None:
            rows = _both(rows, self._with_header(table))
        if self._needles:
            hits: set[int] = set()
            for needle in self._needles:
                hits.update(self._rows_with(table, "value", needle))
            rows = _both(rows, hits)
        return None if rows is None else sorted(rows)

    def _equal_keys(self, table: pyarrow.Table, key: bytes) -> set[int]:
        import pyarrow.compute as compute

        mask = compute.equal(table["key"], self._arrow.scalar(key, self._arrow.binary()))
        return set(compute.indices_nonzero(compute.fill_null(mask, False)).to_pylist())

    def _rows_with(self, table: pyarrow.Table, name: str, needle: bytes) -> list[int]:
        rows: list[int] = []
        first = 0
        for chunk in table[name].chunks:
            rows += (first + row for row in self._in_array(chunk, needle))
            first += len(chunk)
        return rows

    def _in_array(self, array: Any, needle: bytes) -> list[int]:
        if not self._wanted.ignores_case:
            return rows_with(array, needle)
        import pyarrow.compute as compute

        mask = compute.match_substring(array, needle, ignore_case=True)
        found: list[int] = compute.indices_nonzero(compute.fill_null(mask, False)).to_pylist()
        return found

    def _with_text(self, table: pyarrow.Table, needle: bytes) -> set[int]:
        rows = {*self._rows_with(table, "value", needle), *self._rows_with(table, "key", needle)}
        return rows | self._in_headers(table, needle, None)

    def _with_header(self, table: pyarrow.Table) -> set[int]:
        return self._in_headers(table, self._wanted.header_value, self._wanted.header_name)

    def _in_headers(self, table: pyarrow.Table, value: bytes | None, name: str | None) -> set[int]:
        """Rows that have a header of this name (any, if None) whose value contains this (any, if None)."""
        import pyarrow.compute as compute

        rows: set[int] = set()
        first = 0
        for chunk in table["headers"].chunks:
            parents = compute.list_parent_indices(chunk)
            if len(parents):
                flat = chunk.flatten()
                hits = None if value is None else set(self._in_array(flat.field("value"), value))
                if name is not None:
                    names = compute.indices_nonzero(compute.equal(flat.field("key"), name)).to_pylist()
                    hits = set(names) if hits is None else hits & set(names)
                rows.update(first + parents[hit].as_py() for hit in hits or ())
            first += len(chunk)
        return rows

    # On values

    def _with_documents(self, table: pyarrow.Table, rows: list[int] | None, max_count: int | None) -> list[int]:
        """Rows whose value contains the text."""
        values = table["value"]
        count = table.num_rows if rows is None else len(rows)
        found: list[int] = []
        for start in range(0, count, AT_ONCE):
            if rows is None:
                here: Sequence[int] = range(start, min(start + AT_ONCE, count))
                data = values.slice(start, len(here)).to_pylist()
            else:
                here = rows[start : start + AT_ONCE]
                data = values.take(row_numbers(here)).to_pylist()
            registered = self._contents.registered(data)
            for place, one in enumerate(data):
                if self._has_document(self._contents.document(one, registered.get(place))):
                    found.append(here[place])
                    if len(found) == max_count:
                        return found
        return found

    def _has_document(self, document: Any) -> bool:
        wanted = self._wanted
        if wanted.path is not None:
            found = follow(document, wanted.path)
            if found is MISSING or type(found) is not type(wanted.equals) or found != wanted.equals:
                return False
        return wanted.expression is None or wanted.expression.matches({"value": document})

    # On records

    def _judged(self, rows: list[int], records: list[RawRecord]) -> list[tuple[int, RawRecord]]:
        keys = self._contents.registered([record.key for record in records])
        values = self._contents.registered([record.value for record in records])
        return [
            (row, record)
            for place, (row, record) in enumerate(zip(rows, records, strict=True))
            if self._is_match(record, keys.get(place), values.get(place))
        ]

    def _is_match(self, record: RawRecord, key: Registered | None, value: Registered | None) -> bool:
        wanted, mask = self._wanted, self._mask
        document = self._contents.document(record.value, value)
        key_document = self._contents.document(record.key, key)
        headers = {name: (one or b"").decode("utf-8", "replace") for name, one in record.headers}
        if mask is not None:
            if mask.touches_value and document is not None:
                document = mask.masked(document) if isinstance(document, dict | list) else MASK
            key_document = MASK if mask.is_key else key_document
            headers = {name: MASK if name in mask.headers else one for name, one in headers.items()}
            if not self._matches_masked(document, key_document, headers):
                return False
        if wanted.path is not None:
            found = follow(document, wanted.path)
            if found is MISSING or type(found) is not type(wanted.equals) or found != wanted.equals:
                return False
        if wanted.expression is None:
            return True
        size = len(record.key or b"") + len(record.value or b"")
        row = {
            "value": document,
            "key": key_document,
            "headers": headers,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "size": size,
        }
        return wanted.expression.matches(row)

    def _matches_masked(self, document: Any, key: Any, headers: dict[str, str]) -> bool:
        """With masks, text, header and key are searched in the masked form: a search must not reveal hidden values."""
        import json

        wanted = self._wanted
        if wanted.key is not None and key == MASK:
            return False
        if wanted.header_name is not None:
            found = headers.get(wanted.header_name)
            if found is None or (wanted.header_value or b"").decode("utf-8", "replace") not in found:
                return False
        if wanted.text is None:
            return True
        shown = json.dumps([document, key, list(headers.values())], ensure_ascii=False)
        needle = wanted.text.decode("utf-8", "replace")
        return needle.lower() in shown.lower() if wanted.ignores_case else needle in shown


def _needles_of_documents(wanted: Filter) -> tuple[bytes, ...]:
    """Byte strings of which every matching value contains at least one: values without any are skipped undecoded. Empty
    if the filter allows no such test."""
    needles: tuple[bytes, ...] = ()
    if wanted.expression is not None:
        needles = wanted.expression.needles
    if not needles and wanted.path is not None:
        needles = needles_of(wanted.equals)
    # escapes may hide the text, and what has a schema has no JSON text
    return (*needles, b"\\", b"\x00") if needles else ()


def _both(rows: set[int] | None, more: set[int]) -> set[int]:
    return more if rows is None else rows & more


def row_numbers(rows: Sequence[int]) -> Any:
    """Numbers as an array. `pyarrow.array` would import pandas, if it is installed, to check for a series: half a
    second and 40 MB."""
    pa = arrow()
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(array("q", rows))])


def records_of(topic: str, table: pyarrow.Table, rows: list[int]) -> list[RawRecord]:
    """Rows of a table as records."""
    pa = arrow()
    taken = table.take(row_numbers(rows))
    columns = {name: taken[name] for name in COLUMNS}
    columns["timestamp"] = columns["timestamp"].cast(pa.int64())
    lists = [columns[name].to_pylist() for name in COLUMNS]
    return [
        (LogAppendTimeRecord if kind == 1 else ConsumerRecord)(
            topic,
            partition,
            offset,
            timestamp,
            key,
            value,
            tuple((header["key"], header["value"]) for header in headers or ()),
        )
        for key, value, partition, offset, timestamp, kind, headers in zip(*lists, strict=True)
    ]


def offset_ranges(table: pyarrow.Table, *, is_single: bool = False) -> dict[int, tuple[int, int]]:
    """By partition the first offset in a table and the one behind the last. `is_single`: it is of one partition."""
    found: dict[int, tuple[int, int]] = {}
    if not table.num_rows:
        return found
    if is_single:
        return {table["partition"][0].as_py(): (table["offset"][0].as_py(), table["offset"][-1].as_py() + 1)}
    import pyarrow.compute as compute

    partitions, offsets = table["partition"], table["offset"]
    numbers = compute.unique(partitions).to_pylist()
    if len(numbers) == 1:
        # records of one partition are in order
        return {numbers[0]: (offsets[0].as_py(), offsets[-1].as_py() + 1)}
    grouped = (
        table.select(["partition", "offset"]).group_by("partition").aggregate([("offset", "min"), ("offset", "max")])
    )
    for row in grouped.to_pylist():
        found[row["partition"]] = (row["offset_min"], row["offset_max"] + 1)
    return found
