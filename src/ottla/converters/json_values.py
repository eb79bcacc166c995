"""JSON values as Arrow rows, strictly: each value is one object of the schema, or it is refused with its reason.

`json_kernel` reads what is right, many values at once; what it gives up on goes through `json_reader`, which finds the
reason. Fields that the schema does not have are counted, and kept if a column is named for them.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow
import pyarrow.compute as pc

from ottla.converters import json_kernel, json_kinds
from ottla.converters.decoding import ERRORS, Decoded, Decoder, is_utf8, replaced
from ottla.converters.errors import UnusableSchema
from ottla.converters.framing import Frame
from ottla.converters.json_kernel import Column, JsonKernel
from ottla.converters.json_reader import JsonReader, Refused, Row
from ottla.converters.registry import JSON, RegistrySettings, registry_of

UNEXPECTED = "_unexpected"
"""The column of counts of fields that the schema does not have: JSON in one row of each batch, null in the others."""
MAX_NAMES = 20
"""Fields that are counted by name in a batch."""
MAX_NAME_SIZE = 100
OTHERS = "(others)"
_SCALARS = {
    pyarrow.bool_(): (json_kinds.BOOLEAN, 0.0, 0),
    pyarrow.string(): (json_kinds.STRING, 0.0, 0),
    pyarrow.date32(): (json_kinds.DATE, 0.0, 0),
    pyarrow.float32(): (json_kinds.FLOATING, (2 - 2**-23) * 2.0**127, 1 << 24),
    pyarrow.float64(): (json_kinds.FLOATING, (2 - 2**-52) * 2.0**1023, 1 << 53),
}
_UTC = ("UTC", "Z", "Etc/UTC")


class JsonDecoder(Decoder):
    """Values of a topic as rows of a schema.

    `columns` is the struct of the schema: fields that are not nullable have to be there, and those with the metadata
    `json_reader.ANY` take any value as text. `rescue` names one more column, for what the schema does not have. `zone`
    is what timestamps without an offset are in. `is_open`: a value may have none of the schema's fields.
    `rescues_values`: a value of a field that does not fit is null and kept in that column, too.
    """

    def __init__(
        self,
        columns: Any,
        rescue: str | None = None,
        registry: RegistrySettings | None = None,
        *,
        zone: str = "UTC",
        is_open: bool = False,
        is_fast: bool = json_kernel.COMPILED,
        rescues_values: bool = False,
    ) -> None:
        self._columns = columns
        self._rescue = rescue
        self._registry = registry
        self._zone = zone
        self._is_open = is_open or rescue is not None
        self._is_fast = is_fast
        self.is_framed = registry is not None
        self._kind = plain(columns)
        own = [pyarrow.field(rescue, pyarrow.string())] if rescue is not None else []
        self.type = pyarrow.struct([*self._kind, *own, pyarrow.field(UNEXPECTED, pyarrow.string())])
        self._rescues_values = rescues_values
        self._reader = JsonReader(columns, zone, is_open=self._is_open, rescues_values=rescues_values)
        self._checked_ids: set[int] = set()

    def __reduce__(self) -> Any:
        given = (self._columns, self._rescue, self._registry)
        more: dict[str, Any] = {"zone": self._zone, "is_open": self._is_open, "rescues_values": self._rescues_values}
        return partial(JsonDecoder, *given, **more), ()

    def decode(self, values: pyarrow.Array) -> Decoded:
        if self.is_framed:
            return super().decode(values)
        return self._decode(values.cast(pyarrow.binary()))

    def decode_frame(self, frame: Frame) -> Decoded:
        assert self._registry is not None
        if frame.schema_id not in self._checked_ids:
            found = registry_of(self._registry).by_id(frame.schema_id)
            if found.kind != JSON:
                raise UnusableSchema(f"the schema with the id {frame.schema_id} is {found.kind}, not {JSON}")
            self._checked_ids.add(frame.schema_id)
        return self._decode(pyarrow.array(frame.payloads, pyarrow.binary()))

    def _decode(self, values: pyarrow.Array) -> Decoded:
        unexpected: Counter[str] = Counter()
        given: Sequence[int] = range(len(values))
        kept = [pyarrow.nulls(len(values), self._kind), pyarrow.nulls(len(values), pyarrow.string())]
        if self._is_fast:
            kept, given = self._read_fast(values, unexpected)
            if not given:  # and no list becomes an array: that would import pandas
                return self._rows(kept[0], kept[1], unexpected), pyarrow.nulls(len(values), ERRORS)
        errors: list[str | None] = [None] * len(given)
        rows: list[dict[str, Any] | None] = [None] * len(given)
        rescued: list[str | None] = [None] * len(given)
        for index, row in enumerate(given):
            try:
                found = self._reader.read(values[row].as_py())
            except Refused as refused:
                errors[index] = str(refused)
            else:
                if found is not None:
                    rows[index] = found.columns
                    rescued[index] = rescued_text(found)
                    unexpected.update(found.unexpected)
        columns = replaced(kept[0], given, pyarrow.array(rows, self._kind))
        texts = replaced(kept[1], given, pyarrow.array(rescued, pyarrow.string()))
        why = replaced(pyarrow.nulls(len(values), ERRORS), given, pyarrow.array(errors, ERRORS))
        return self._rows(columns, texts, unexpected), why

    def _rows(self, rows: pyarrow.Array, rescued: pyarrow.Array, unexpected: Counter[str]) -> pyarrow.Array:
        """All columns, with the counts of unexpected fields in the first row that there is."""
        counts = pyarrow.nulls(len(rows), pyarrow.string())
        if unexpected:
            first = pc.index(rows.is_valid(), True).as_py()
            counts = replaced(counts, [first], pyarrow.array([counts_text(unexpected)]))
        own = [rescued] if self._rescue is not None else []
        return pyarrow.StructArray.from_arrays(
            [*rows.flatten(), *own, counts],
            fields=list(self.type),
            mask=rows.is_null(),
        )

    def _read_fast(self, values: pyarrow.Array, unexpected: Counter[str]) -> tuple[list[pyarrow.Array], list[int]]:
        """The columns of the values that the kernel reads, and the rows that it does not."""
        count = len(values)
        _, ends, content = values.buffers()
        ends = memoryview(ends)[4 * values.offset : 4 * (values.offset + count + 1)].cast("i")
        start = ends[0]
        source = bytes(memoryview(content)[start : ends[count]]) if content is not None else b""
        if start:
            ends = array("i", [end - start for end in ends])
        root = column_of(pyarrow.field("", self._columns))
        rescued = Column(json_kinds.STRING, b"", True) if self._rescue is not None else None
        kernel = JsonKernel(root, rescued, self._is_open, self._zone in _UTC)
        given = kernel.read(source, ends, _validity(values))
        for path, column in _structs(root, ""):
            for name, times in column.unexpected.items():
                unexpected[path + name.decode()] += times
        texts = pyarrow.nulls(count, pyarrow.string()) if rescued is None else array_of(rescued, pyarrow.string())
        return [array_of(root, self._kind), texts], given


def plain(kind: Any) -> Any:
    """The type with all parts nullable, as Spark's own from_json returns it."""
    types = pyarrow.types
    if types.is_struct(kind):
        return pyarrow.struct([pyarrow.field(one.name, plain(one.type)) for one in kind])
    if types.is_list(kind):
        return pyarrow.list_(plain(kind.value_type))
    if types.is_map(kind):
        return pyarrow.map_(kind.key_type, plain(kind.item_type))
    return kind


def rescued_text(row: Row) -> str | None:
    return "{" + ",".join(row.rescued) + "}" if row.rescued else None


def counts_text(unexpected: Counter[str]) -> str:
    """The counts of fields as JSON: the most frequent by name, the others together."""
    named = sorted(unexpected.items(), key=lambda one: (-one[1], one[0]))[:MAX_NAMES]
    found = Counter[str]()
    for name, count in named:
        found[name.encode(errors="replace").decode()[:MAX_NAME_SIZE]] += count
    others = unexpected.total() - sum(count for _, count in named)
    return json.dumps({**found, **({OTHERS: others} if others else {})})


def _validity(values: pyarrow.Array) -> Any:
    """A byte a row: 0 for null, 1 for UTF-8, 2 for other bytes."""
    try:
        values.cast(pyarrow.string())
    except pyarrow.ArrowInvalid:
        return bytes([0 if one is None else 1 if is_utf8(one) else 2 for one in values.to_pylist()])
    if values.null_count == 0:
        return b"\1" * len(values)
    return memoryview(values.is_valid().cast(pyarrow.uint8()).buffers()[1]).cast("B")


# --- the kernel's columns


def column_of(one: Any) -> Column:
    """An empty column of an Arrow field."""
    kind, types, name, nullable = one.type, pyarrow.types, one.name.encode(), one.nullable
    if (one.metadata or {}).get(b"ottla.json") == b"any":
        return Column(json_kinds.ANY, name, nullable)
    if types.is_integer(kind):
        limit = 1 << (kind.bit_width - 1)
        return Column(json_kinds.WHOLE, name, nullable, -limit, limit - 1)
    if types.is_decimal(kind):
        return Column(json_kinds.DECIMAL, name, nullable, 0, 10 ** min(kind.precision, 18), kind.scale)
    if types.is_timestamp(kind):
        return Column(json_kinds.MOMENT if kind.tz else json_kinds.LOCAL_MOMENT, name, nullable)
    if types.is_struct(kind):
        children = list(kind)
        made = Column(json_kinds.STRUCT, name, nullable)
    elif types.is_list(kind):
        children = [kind.value_field]
        made = Column(json_kinds.LIST, name, nullable)
    elif types.is_map(kind):
        children = [kind.key_field, kind.item_field]
        made = Column(json_kinds.MAP, name, nullable)
    else:
        number, limit, exact = _SCALARS.get(kind, (json_kinds.OTHER, 0.0, 0))
        return Column(number, name, nullable, 0, exact, 0, limit)
    for child in children:
        made.add(column_of(child))
    return made


def _structs(column: Column, path: str) -> list[tuple[str, Column]]:
    """The structs of a column, each with the way to its fields."""
    found = []
    if column.kind == json_kinds.STRUCT:
        found.append((path, column))
        for child in column.children:
            found += _structs(child, f"{path}{child.name.decode()}.")
    elif column.kind == json_kinds.LIST:
        found += _structs(column.children[0], f"{path.removesuffix('.')}[].")
    elif column.kind == json_kinds.MAP:
        found += _structs(column.children[1], f"{path}*.")
    return found


def array_of(column: Column, kind: Any) -> pyarrow.Array:
    """The content of a column, as an array of a type."""
    count = column.count
    is_valid, validity = None, None
    if column.has_nulls:
        is_valid = pyarrow.Array.from_buffers(pyarrow.uint8(), count, [None, pyarrow.py_buffer(column.validity)])
        is_valid = is_valid.cast(pyarrow.bool_())
        validity = is_valid.buffers()[1]
    if column.kind == json_kinds.STRUCT:
        parts = [array_of(child, one.type) for child, one in zip(column.children, kind, strict=True)]
        mask = None if is_valid is None else pc.invert(is_valid)
        if not parts:
            return pyarrow.array([{} if one else None for one in column.validity[:count]], kind)
        return pyarrow.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if column.kind in (json_kinds.STRING, json_kinds.ANY):
        buffers = [validity, pyarrow.py_buffer(column.ends), pyarrow.py_buffer(column.content)]
        return pyarrow.Array.from_buffers(kind, count, buffers)
    if column.kind == json_kinds.LIST:
        element = array_of(column.children[0], kind.value_type)
        return pyarrow.Array.from_buffers(kind, count, [validity, pyarrow.py_buffer(column.ends)], children=[element])
    if column.kind == json_kinds.MAP:
        pairs = [array_of(column.children[0], kind.key_type), array_of(column.children[1], kind.item_type)]
        entries = pyarrow.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field])
        return pyarrow.Array.from_buffers(kind, count, [validity, pyarrow.py_buffer(column.ends)], children=[entries])
    if column.kind == json_kinds.OTHER:
        return pyarrow.nulls(count, kind)
    if column.kind == json_kinds.FLOATING:
        doubles = pyarrow.py_buffer(column.doubles)
        return pyarrow.Array.from_buffers(pyarrow.float64(), count, [validity, doubles]).cast(kind)
    numbers = pyarrow.py_buffer(column.numbers)
    if column.kind in (json_kinds.DECIMAL, json_kinds.MOMENT, json_kinds.LOCAL_MOMENT):
        return pyarrow.Array.from_buffers(kind, count, [validity, numbers])
    whole = pyarrow.Array.from_buffers(pyarrow.int64(), count, [validity, numbers])
    return whole.cast(pyarrow.int32()).cast(kind) if column.kind == json_kinds.DATE else whole.cast(kind)
