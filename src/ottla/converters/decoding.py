"""What all decoders and encoders share: rows by the schema they were written with, put back into their order, and the
one row found that spoils a conversion of many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow
import pyarrow.compute as pc

from ottla.converters.errors import ConverterError, SchemaNotFound, UnusableSchema
from ottla.converters.framing import Frame, frames

ERRORS = pyarrow.string()
Decoded = tuple[pyarrow.Array, pyarrow.Array]
"""Rows, and for each the reason why it could not be decoded; null rows for null values and for those."""


class Decoder(ABC):
    """Decodes the values of a topic. `type` is the struct it makes of each; `is_framed`: they are in the Confluent
    wire format. A decoder goes to Spark's workers, so it has to be picklable."""

    type: pyarrow.DataType
    is_framed: bool
    has_indexes = False

    @abstractmethod
    def decode_frame(self, frame: Frame) -> Decoded:
        """Decode messages that were written with one schema; none of them is null. SchemaNotFound and UnusableSchema:
        no value of the schema can be decoded. Any other error is not due to the values."""

    def decode(self, values: pyarrow.Array) -> Decoded:
        given = values.to_pylist()
        if self.is_framed:
            whole = list(frames(given, has_indexes=self.has_indexes))
        else:
            rows = [row for row, value in enumerate(given) if value is not None]
            whole = [Frame(-1, (), rows, given if len(rows) == len(given) else [given[row] for row in rows])]
        return self._in_order([(frame, self._of_frame(frame)) for frame in whole], len(given))

    def _of_frame(self, frame: Frame) -> Decoded:
        if frame.error is not None:
            return self.none_of(len(frame.rows), frame.error)
        try:
            return self.decode_frame(frame)
        except (SchemaNotFound, UnusableSchema) as error:
            return self.none_of(len(frame.rows), str(error))

    def none_of(self, count: int, error: str) -> Decoded:
        """Rows of which none can be decoded, for one reason."""
        return pyarrow.nulls(count, self.type), pyarrow.array([error] * count, ERRORS)

    def _in_order(self, found: Sequence[tuple[Frame, Decoded]], count: int) -> Decoded:
        if len(found) == 1 and len(found[0][0].rows) == count:
            return found[0][1]
        rows, errors = pyarrow.nulls(0, self.type), pyarrow.nulls(0, ERRORS)
        places: list[int | None] = [None] * count
        if found:
            rows = pyarrow.concat_arrays([decoded[0] for _, decoded in found])
            errors = pyarrow.concat_arrays([decoded[1] for _, decoded in found])
            for place, row in enumerate(row for frame, _ in found for row in frame.rows):
                places[row] = place
        numbers = pyarrow.array(places, pyarrow.int64())
        return rows.take(numbers), errors.take(numbers)


def converted(
    rows: list[Any], errors: list[str | None], convert: Callable[[list[Any]], pyarrow.Array]
) -> pyarrow.Array:
    """Python rows as an Arrow array. A row that does not fit (a number too large for its type) becomes null, and its
    error is noted; it is found by halving, so that the others are converted many at a time."""
    try:
        return convert(rows)
    except (pyarrow.ArrowException, ValueError, TypeError, OverflowError) as error:
        if len(rows) == 1:
            errors[0] = f"the value does not fit its type: {error}"
            return convert([None])
        middle = len(rows) // 2
        first, second = errors[:middle], errors[middle:]
        arrays = [converted(rows[:middle], first, convert), converted(rows[middle:], second, convert)]
        errors[:] = first + second
        return pyarrow.concat_arrays(arrays)


def replaced(array: pyarrow.Array, rows: Sequence[int], others: pyarrow.Array) -> pyarrow.Array:
    """An array with other values in some rows."""
    if not rows:
        return array
    if len(rows) == len(array):
        return others
    places = list(range(len(array)))
    for index, row in enumerate(rows):
        places[row] = len(array) + index
    return pyarrow.concat_arrays([array, others]).take(pyarrow.array(places, pyarrow.int64()))


def is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


class Encoder(ABC):
    """Encodes rows as values of a topic; it goes to Spark's workers, too."""

    header: bytes
    """The bytes before each value: empty without a registry."""

    @abstractmethod
    def encode(self, rows: pyarrow.Array) -> pyarrow.Array:
        """A binary array; null for null rows. ConverterError: a row does not fit the schema."""

    def with_header(self, values: list[bytes | None]) -> pyarrow.Array:
        array = pyarrow.array(values, pyarrow.binary())
        if not self.header:
            return array
        return pc.binary_join_element_wise(pyarrow.scalar(self.header, pyarrow.binary()), array, b"")


def python_values(array: pyarrow.Array) -> list[Any]:
    """The values of an array, maps as dicts. Arrow can do that itself, ten times slower."""
    kind = array.type
    if not pyarrow.types.is_nested(kind) or "map<" not in str(kind):
        return list(array.to_pylist())
    is_there = array.is_valid().to_pylist()
    if pyarrow.types.is_struct(kind):
        names = [field.name for field in kind]
        columns = [python_values(array.field(index)) for index in range(len(names))]
        rows = zip(*columns, strict=True)
        return [
            dict(zip(names, row, strict=True)) if there else None for row, there in zip(rows, is_there, strict=True)
        ]
    ends = array.offsets.to_pylist()
    places = zip(is_there, ends[:-1], ends[1:], strict=True)
    if pyarrow.types.is_map(kind):
        keys, items = array.keys.to_pylist(), python_values(array.items)
        pairs = list(zip(keys, items, strict=True))
        return [dict(pairs[start:end]) if there else None for there, start, end in places]
    values = python_values(array.values)
    return [values[start:end] if there else None for there, start, end in places]


def shown(row: object) -> str:
    """A row in an error."""
    text = repr(row)
    return text if len(text) <= 200 else f"{text[:200]}..."


def refused_row(row: object, what: str, error: object) -> ConverterError:
    return ConverterError(f"a row cannot be written as {what}: {error}; it is {shown(row)}")


def fitted(
    columns: Any, wanted: Any, where: str, may_become: Callable[[Any, Any], bool] = lambda column, wanted: True
) -> Any:
    """The type that rows are cast to: the columns' own fields in their order, each of the type the schema has."""
    if pyarrow.types.is_struct(columns) and pyarrow.types.is_struct(wanted):
        known = {field.name: field.type for field in wanted}
        for field in columns:
            if field.name not in known:
                raise ConverterError(
                    f"the column {where}{field.name} is not in the schema, which has {', '.join(known)}: leave it out "
                    "of the view, or add it to the schema"
                )
        return pyarrow.struct(
            [
                pyarrow.field(one.name, fitted(one.type, known[one.name], f"{where}{one.name}.", may_become))
                for one in columns
            ]
        )
    is_list = pyarrow.types.is_list(columns) or pyarrow.types.is_large_list(columns)
    if is_list and pyarrow.types.is_list(wanted):
        return pyarrow.list_(fitted(columns.value_type, wanted.value_type, where, may_become))
    if pyarrow.types.is_map(columns) and pyarrow.types.is_map(wanted):
        return pyarrow.map_(columns.key_type, fitted(columns.item_type, wanted.item_type, where, may_become))
    if pyarrow.types.is_nested(columns) != pyarrow.types.is_nested(wanted):
        raise ConverterError(f"the column {where.removesuffix('.')} is {columns}, and the schema has {wanted} there")
    if not may_become(columns, wanted):
        raise ConverterError(
            f"the column {where.removesuffix('.')} is {columns}, and the schema has {wanted} there: cast the column in "
            "the view"
        )
    return wanted


def is_exact(column: Any, wanted: Any) -> bool:
    """Whether values of a type become those of another without a guess; a value that does not fit is found when it is
    cast."""
    types = pyarrow.types
    if types.is_null(column) or column == wanted:
        return True
    if types.is_floating(column):
        return bool(types.is_floating(wanted) and wanted.bit_width >= column.bit_width)
    if types.is_integer(column) or types.is_decimal(column):
        return bool(types.is_integer(wanted) or types.is_decimal(wanted) or types.is_floating(wanted))
    if types.is_timestamp(column):
        return bool(types.is_timestamp(wanted))
    if types.is_large_string(column):
        return bool(types.is_string(wanted))
    return bool(types.is_large_binary(column) and types.is_binary(wanted))
