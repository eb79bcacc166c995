"""Protobuf values and Arrow rows, by Google's own library (upb, in C). Messages are parsed one by one there; their
fields are then taken column by column."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pyarrow
import pyarrow.compute as pc

from ottla.converters.decoding import (
    ERRORS,
    Decoded,
    Decoder,
    Encoder,
    converted,
    fitted,
    is_exact,
    python_values,
    refused_row,
)
from ottla.converters.errors import ConverterError
from ottla.converters.framing import Frame, header
from ottla.converters.protobuf_schema import (
    DURATION,
    TIMESTAMP,
    UNSIGNED,
    WRAPPERS,
    ProtobufSchema,
    element_type,
    is_map,
    is_repeated,
    map_parts,
    shown_fields,
    written_message,
)
from ottla.converters.registry import RegistrySettings, registry_of

MICROSECONDS = 1_000_000


class ProtobufDecoder(Decoder):
    """Values of a topic as rows of one message. Fields are known by their numbers, so values of older and newer
    schemas are read with the reader's own; the writer's only tells which message a value is. `is_lenient`: nanoseconds
    are cut to microseconds."""

    has_indexes = True

    def __init__(
        self, files: bytes, message: str, registry: RegistrySettings | None = None, is_lenient: bool = False
    ) -> None:
        self._given = (files, message, registry, is_lenient)
        self._is_lenient = is_lenient
        self._registry = registry
        self.is_framed = registry is not None
        self._schema = ProtobufSchema(files, message)
        self.type = self._schema.type
        self._written: dict[tuple[int, tuple[int, ...]], str] = {}

    def __reduce__(self) -> Any:
        return ProtobufDecoder, self._given

    def decode_frame(self, frame: Frame) -> Decoded:
        if self._registry is not None:
            written = self._message_of(frame)
            if written != self._schema.descriptor.full_name:
                error = f"the value is a message {written}, not {self._schema.descriptor.full_name}"
                return self.none_of(len(frame.payloads), error)
        parse = self._schema.message_class.FromString
        values = frame.payloads
        errors: list[str | None] = [None] * len(values)
        try:
            messages: list[Any] = list(map(parse, values))
        except Exception:
            messages = [_parsed(parse, value, errors, row) for row, value in enumerate(values)]
        return converted(messages, errors, self._array), pyarrow.array(errors, ERRORS)

    def _array(self, messages: list[Any]) -> pyarrow.Array:
        return rows_of(self._schema.descriptor, messages, self._is_lenient)

    def _message_of(self, frame: Frame) -> str:
        """The name of the message that values with one beginning are."""
        place = (frame.schema_id, frame.indexes)
        name = self._written.get(place)
        if name is None:
            assert self._registry is not None
            name = written_message(registry_of(self._registry), frame.schema_id, frame.indexes)
            self._written[place] = name
        return name


def _parsed(parse: Callable[[bytes], Any], value: bytes, errors: list[str | None], row: int) -> Any:
    try:
        return parse(value)
    except Exception as error:
        errors[row] = f"the value is not a Protobuf message of its type: {error}"
        return None


def rows_of(descriptor: Any, messages: list[Any], is_lenient: bool) -> pyarrow.Array:
    """Messages as a struct array; null for a missing message."""
    is_null = pyarrow.array([message is None for message in messages], pyarrow.bool_())
    has_null = pc.any(is_null, min_count=0).as_py()
    fields = shown_fields(descriptor)
    arrays = [_column(field, messages, has_null, is_lenient) for field in fields]
    types = [pyarrow.field(field.name, array.type) for field, array in zip(fields, arrays, strict=True)]
    return pyarrow.StructArray.from_arrays(arrays, fields=types, mask=is_null)


def _column(field: Any, messages: list[Any], has_null: bool, is_lenient: bool) -> pyarrow.Array:
    name = field.name
    if is_repeated(field):
        return _collection(field, [None if one is None else getattr(one, name) for one in messages], is_lenient)
    if field.has_presence:
        values = [getattr(one, name) if one is not None and one.HasField(name) else None for one in messages]
    elif has_null:
        values = [None if one is None else getattr(one, name) for one in messages]
    else:
        values = list(map(attrgetter(name), messages))
    return _values(field, values, is_lenient)


def _collection(field: Any, values: list[Any], is_lenient: bool) -> pyarrow.Array:
    """A repeated field or a map: all their elements one after the other, and where each row's begin."""
    offsets: list[int | None] = []
    end = 0
    for one in values:
        offsets.append(None if one is None else end)
        end += 0 if one is None else len(one)
    offsets.append(end)
    starts = pyarrow.array(offsets, pyarrow.int32())
    if is_map(field):
        key, item = map_parts(field)
        keys = _values(key, [name for one in values if one is not None for name in one], is_lenient)
        items = _values(item, [one[name] for one in values if one is not None for name in one], is_lenient)
        return pyarrow.MapArray.from_arrays(starts, keys, items)
    return pyarrow.ListArray.from_arrays(
        starts, _values(field, [each for one in values if one is not None for each in one], is_lenient)
    )


def _values(field: Any, values: list[Any], is_lenient: bool) -> pyarrow.Array:
    """Single values of a field, without regard to whether it is repeated."""
    message = field.message_type
    if message is not None:
        if message.full_name in (TIMESTAMP, DURATION):
            for one in values:
                if one is not None and one.nanos % 1000 and not is_lenient:
                    raise ValueError(f"{field.name} has {one.nanos} nanoseconds, and Spark keeps microseconds")
            moments = [None if one is None else one.seconds * MICROSECONDS + one.nanos // 1000 for one in values]
            return pyarrow.array(moments, pyarrow.int64()).cast(element_type(field, ()))
        if message.full_name in WRAPPERS:
            inner = message.fields_by_name["value"]
            return _values(inner, [None if one is None else one.value for one in values], is_lenient)
        return rows_of(message, values, is_lenient)
    kind = element_type(field, ())
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return pyarrow.array([None if one is None else names.get(one, str(one)) for one in values], kind)
    if kind == UNSIGNED:
        return pyarrow.array(values, pyarrow.uint64()).cast(kind)
    return pyarrow.array(values, kind)


class ProtobufEncoder(Encoder):
    """Rows as messages of one type."""

    def __init__(self, files: bytes, message: str, columns: Any, schema_id: int | None = None) -> None:
        self._given = (files, message, columns, schema_id)
        self._schema = ProtobufSchema(files, message)
        self._type = fitted(columns, self._schema.type, "", is_exact)
        self.header = b"" if schema_id is None else header(schema_id, self._schema.indexes)

    def __reduce__(self) -> Any:
        return ProtobufEncoder, self._given

    def encode(self, rows: pyarrow.Array) -> pyarrow.Array:
        try:
            stored = _stored_rows(self._schema.descriptor, rows.cast(self._type))
        except pyarrow.ArrowException as error:
            raise ConverterError(f"rows of {rows.type} do not fit the Protobuf schema: {error}") from None
        make = self._schema.message_class  # None leaves a field unset
        values: list[bytes | None] = []
        for row in python_values(stored):
            try:
                values.append(None if row is None else make(**row).SerializeToString())
            except Exception as error:
                raise refused_row(row, f"Protobuf {self._schema.descriptor.full_name}", error) from None
        return self.with_header(values)


def _stored_rows(descriptor: Any, rows: pyarrow.Array) -> pyarrow.Array:
    """Rows whose columns are the fields of messages."""
    fields = {field.name: field for field in shown_fields(descriptor)}
    names = [field.name for field in rows.type]
    arrays = [_stored(fields[name], rows.field(name)) for name in names]
    return pyarrow.StructArray.from_arrays(arrays, names, mask=rows.is_null())


def _stored(field: Any, array: pyarrow.Array) -> pyarrow.Array:
    if pyarrow.types.is_map(array.type):
        key, item = map_parts(field)
        keys, items = _stored_values(key, array.keys), _stored_values(item, array.items)
        return pyarrow.MapArray.from_arrays(_starts(array), keys, items)
    if pyarrow.types.is_list(array.type):
        return pyarrow.ListArray.from_arrays(_starts(array), _stored_values(field, array.values))
    return _stored_values(field, array)


def _starts(array: pyarrow.Array) -> pyarrow.Array:
    """Offsets that are null where the list is."""
    is_null = pyarrow.concat_arrays([array.is_null(), pyarrow.array([False])])
    return pc.if_else(is_null, pyarrow.scalar(None, pyarrow.int32()), array.offsets)


def _stored_values(field: Any, array: pyarrow.Array) -> pyarrow.Array:
    message = field.message_type
    if message is None:
        return array.cast(pyarrow.uint64()) if array.type == UNSIGNED else array
    if message.full_name in (TIMESTAMP, DURATION):
        micros = array.cast(pyarrow.int64())
        seconds = pc.divide(micros, MICROSECONDS)
        rest = pc.subtract(micros, pc.multiply(seconds, MICROSECONDS))
        if message.full_name == TIMESTAMP:  # its nanoseconds count forward, also before 1970
            is_before = pc.less(rest, 0).cast(pyarrow.int64())
            seconds = pc.subtract(seconds, is_before)
            rest = pc.add(rest, pc.multiply(is_before, MICROSECONDS))
        rest = pc.multiply(rest, 1000).cast(pyarrow.int32())
        return pyarrow.StructArray.from_arrays([seconds, rest], ["seconds", "nanos"], mask=array.is_null())
    if message.full_name in WRAPPERS:
        inner = _stored_values(message.fields_by_name["value"], array)
        return pyarrow.StructArray.from_arrays([inner], ["value"], mask=array.is_null())
    return _stored_rows(message, array)
