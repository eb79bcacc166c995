"""CSV values as Arrow rows, strictly: each value is one record of RFC 4180 with all columns of the schema, or it is
refused with its reason.

A field that is empty is null, one that is "" is empty text. Columns of whole and floating numbers and of text are
converted as a whole; a row of which any field does not look right is read again, field by field, to find the reason.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pyarrow
import pyarrow.compute as pc

from ottla.converters.decoding import ERRORS, Decoded, Decoder, replaced
from ottla.converters.errors import ConverterError
from ottla.converters.framing import Frame
from ottla.converters.json_reader import Refused
from ottla.converters.json_values import plain
from ottla.converters.scalars import Scalar, Unfit, scalar_of, shown

Fields = list[str | None]
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_WHOLE = r"^-?(?:0|[1-9][0-9]{0,17})$"
_NUMBER = r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,2})?$"
_DAY = "^[12][0-9]{3}-[01][0-9]-[0-3][0-9]"
_PATTERNS = {
    pyarrow.float64(): _NUMBER,
    pyarrow.date32(): f"{_DAY}$",
    pyarrow.timestamp("us", "UTC"): rf"{_DAY}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?Z$",
}
"""What surely is a value of a type, if the days are."""


class CsvDecoder(Decoder):
    """Values of a topic or lines of a file as rows of a schema. `zone` applies to timestamps without an offset;
    `has_header`: a line with the names of all columns is skipped."""

    is_framed = False

    def __init__(self, columns: Any, *, zone: str = "UTC", has_header: bool = False) -> None:
        for one in columns:
            if pyarrow.types.is_nested(one.type):
                raise ConverterError(f"{one.name}: CSV has no {one.type}")
        self._given = (columns, zone, has_header)
        self._columns = list(columns)
        self._reads = [scalar_of(one.type, zone) for one in columns]
        self._names = sorted(one.name.lower() for one in columns) if has_header else None
        self.type = plain(columns)

    def __reduce__(self) -> Any:
        return partial(CsvDecoder, *self._given[:1], zone=self._given[1], has_header=self._given[2]), ()

    def decode_frame(self, frame: Frame) -> Decoded:
        raise AssertionError("CSV has no frames")

    def decode(self, values: pyarrow.Array) -> Decoded:
        given = values.to_pylist()
        count = len(given)
        split = [self._split_or_none(value) for value in given]
        rows = [row for row, fields in enumerate(split) if fields is not None]
        texts = [fields for fields in split if fields is not None]
        is_right = pyarrow.array([True] * len(rows), pyarrow.bool_())
        arrays = []
        for index, one in enumerate(self._columns):
            column = pyarrow.array([fields[index] for fields in texts], pyarrow.string())
            array, is_fit = _converted(column, one.type, self._reads[index])
            arrays.append(array)
            is_right = pc.and_(is_right, is_fit if one.nullable else pc.and_(is_fit, column.is_valid()))
        made = pyarrow.StructArray.from_arrays(arrays, fields=list(self.type)) if rows else pyarrow.nulls(0, self.type)
        whole = replaced(pyarrow.nulls(count, self.type), rows, made)
        wrong = [row for row, right in zip(rows, is_right.to_pylist(), strict=True) if not right]
        careful = sorted([*wrong, *(row for row, fields in enumerate(split) if fields is None)])
        errors: list[str | None] = []
        read: list[dict[str, Any] | None] = []
        for row in careful:
            try:
                read.append(self._read(given[row]))
                errors.append(None)
            except Refused as refused:
                read.append(None)
                errors.append(str(refused))
        why = replaced(pyarrow.nulls(count, ERRORS), careful, pyarrow.array(errors, ERRORS))
        return replaced(whole, careful, pyarrow.array(read, self.type)), why

    def _split_or_none(self, value: bytes | None) -> Fields | None:
        try:
            fields = None if value is None else split(value)
        except Refused:
            return None
        if fields is None or len(fields) != len(self._columns) or self._is_header(fields):
            return None
        return fields

    def _is_header(self, fields: Fields) -> bool:
        return self._names is not None and sorted((one or "").strip().lower() for one in fields) == self._names

    def _read(self, value: bytes | None) -> dict[str, Any] | None:
        """The row of a value, field by field. Refused: the value is not of the schema."""
        if value is None:
            for one in self._columns:
                if not one.nullable:
                    raise Refused("expected a value, as the column is NOT NULL; the record has none").within(one.name)
            return None
        fields = split(value)
        if len(fields) != len(self._columns):
            raise Refused(f"expected {len(self._columns)} columns, got {len(fields)}")
        if self._is_header(fields):
            names = ",".join(one.name for one in self._columns)
            raise Refused(f"expected the columns in the order {names}, got a header in another order")
        found: dict[str, Any] = {}
        for text, one, read in zip(fields, self._columns, self._reads, strict=True):
            if text is None and not one.nullable:
                raise Refused("expected a value, as the column is NOT NULL; the field is empty").within(one.name)
            try:
                found[one.name] = None if text is None else read(text)
            except Unfit as error:
                raise Refused(f"expected {error}, got {shown(text or '')!r}").within(one.name) from None
        return found


def split(value: bytes) -> Fields:
    """The fields of one record; None for fields that are empty and not quoted."""
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"expected UTF-8, got the byte {value[error.start]:#04x} at {error.start}") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if '"' not in text:
        if "\n" in text or "\r" in text:
            raise Refused("expected one line, got a line break outside quotes")
        return [one or None for one in text.split(",")]
    found: Fields = []
    position = 0
    while True:
        quoted = _QUOTED.match(text, position)
        if quoted is not None:
            found.append(quoted.group(1).replace('""', '"'))
            position = quoted.end()
            if position < len(text) and text[position] != ",":
                raise Refused(f"expected ',' after the closing quote, got {shown(text[position:])}")
        else:
            end = text.find(",", position)
            end = len(text) if end < 0 else end
            plain_text = text[position:end]
            if '"' in plain_text or "\n" in plain_text or "\r" in plain_text:
                raise Refused(
                    f"expected a field without quotes and line breaks, or all in quotes, got {shown(plain_text)}"
                )
            found.append(plain_text or None)
            position = end
        if position == len(text):
            return found
        position += 1


def _converted(column: pyarrow.Array, kind: Any, read: Scalar) -> tuple[pyarrow.Array, pyarrow.Array]:
    """A column of texts as a type, and which rows are surely right; null is."""
    if pyarrow.types.is_string(kind):
        return column, pyarrow.array([True] * len(column), pyarrow.bool_())
    is_whole = pyarrow.types.is_integer(kind)
    pattern = _WHOLE if is_whole else _PATTERNS.get(kind)
    if pattern is None:
        return _converted_singly(column, kind, read)
    is_fit = pc.fill_null(pc.match_substring_regex(column, pattern), True)
    wide = pyarrow.int64() if is_whole else kind
    try:
        numbers = pc.if_else(is_fit, column, None).cast(wide)
    except pyarrow.ArrowInvalid:  # a day that there is not
        return _converted_singly(column, kind, read)
    if wide != kind:
        limit = 1 << (kind.bit_width - 1)
        in_range = pc.and_(pc.greater_equal(numbers, -limit), pc.less(numbers, limit))
        is_fit = pc.and_(is_fit, pc.fill_null(in_range, True))
        numbers = pc.if_else(is_fit, numbers, None).cast(kind)
    return numbers, is_fit


def _converted_singly(column: pyarrow.Array, kind: Any, read: Scalar) -> tuple[pyarrow.Array, pyarrow.Array]:
    found: list[Any] = []
    is_fit = []
    for text in column.to_pylist():
        try:
            found.append(None if text is None else read(text))
            is_fit.append(True)
        except Unfit:
            found.append(None)
            is_fit.append(False)
    return pyarrow.array(found, kind), pyarrow.array(is_fit, pyarrow.bool_())
