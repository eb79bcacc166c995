"""Avro values and Arrow rows, by fastavro.

Values are read and written by one call of fastavro each: all of them in one call was measured to be no faster (the time
goes into the values), and would have to guess where a damaged value ends. What follows, types and units, is done for
whole arrays.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pyarrow

from ottla.converters.avro_schema import VALUE, AvroSchema
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
from ottla.converters.errors import ConverterError, UnusableSchema
from ottla.converters.framing import Frame, header
from ottla.converters.registry import AVRO, RegisteredSchema, Registry, RegistrySettings, registry_of

try:
    import fastavro
except ModuleNotFoundError as error:
    raise ConverterError("Avro needs fastavro: pip install 'ottla[avro]'") from error


class AvroDecoder(Decoder):
    """Values of a topic as rows of the reader's schema, whatever schema they were written with. `is_lenient`:
    nanoseconds are cut to microseconds."""

    def __init__(
        self,
        schema: str,
        references: tuple[str, ...] = (),
        registry: RegistrySettings | None = None,
        is_lenient: bool = False,
    ) -> None:
        self._given = (schema, references, registry, is_lenient)
        self._registry = registry
        self._is_lenient = is_lenient
        self.is_framed = registry is not None
        self._schema = AvroSchema(schema, references)
        self.type = self._schema.type
        self._reader = _usable(self._schema)
        self._writers: dict[int, Any] = {}

    def __reduce__(self) -> Any:
        return AvroDecoder, self._given

    def decode_frame(self, frame: Frame) -> Decoded:
        writer = self._reader if self._registry is None else self._writer(frame.schema_id)
        reader = None if writer is self._reader else self._reader
        errors: list[str | None] = [None] * len(frame.payloads)
        rows: list[Any] = []
        read = fastavro.schemaless_reader
        for value in frame.payloads:
            stream = BytesIO(value)
            try:
                row: Any = read(stream, writer, reader)
                if stream.tell() != len(value):
                    raise ValueError(f"{len(value) - stream.tell()} bytes are left over")
            except Exception as error:
                errors[len(rows)] = f"the value does not fit its Avro schema: {_reason(error)}"
                row = None
            else:
                row = row if self._schema.is_record else {VALUE: row}
            rows.append(row)
        return converted(rows, errors, self._array), pyarrow.array(errors, ERRORS)

    def _array(self, rows: list[Any]) -> pyarrow.Array:
        schema = self._schema
        return pyarrow.array(rows, schema.stored).cast(schema.meant).cast(schema.type, safe=not self._is_lenient)

    def _writer(self, schema_id: int) -> Any:
        """The schema that values were written with; the reader's own object where it is the same."""
        kept = self._writers.get(schema_id)
        if kept is None:
            assert self._registry is not None
            registry = registry_of(self._registry)
            found = registry.by_id(schema_id)
            if found.kind != AVRO:
                raise UnusableSchema(f"the schema with the id {schema_id} is {found.kind}, not Avro")
            try:
                kept = _usable(AvroSchema(found.text, _texts(registry, found)))
            except ConverterError as error:
                raise UnusableSchema(f"the schema with the id {schema_id} cannot be used: {error}") from None
            if kept == self._reader:
                kept = self._reader
            self._writers[schema_id] = kept
        return kept


def _reason(error: Exception) -> str:
    return "it ends too early" if isinstance(error, EOFError) else f"{type(error).__name__}: {error}"


def _usable(schema: AvroSchema) -> Any:
    try:
        return fastavro.parse_schema(schema.plain)
    except Exception as error:
        raise ConverterError(f"the Avro schema is invalid: {error}") from None


def _texts(registry: Registry, schema: RegisteredSchema) -> tuple[str, ...]:
    return tuple(needed.text for _, needed in registry.references_of(schema))


def registered_decoder(settings: RegistrySettings, schema: RegisteredSchema, is_lenient: bool = False) -> AvroDecoder:
    """A decoder whose rows are of a registered schema."""
    return AvroDecoder(schema.text, _texts(registry_of(settings), schema), settings, is_lenient)


class AvroEncoder(Encoder):
    """Rows as Avro of one schema."""

    def __init__(self, schema: str, references: tuple[str, ...], columns: Any, schema_id: int | None = None) -> None:
        self._given = (schema, references, columns, schema_id)
        self._schema = AvroSchema(schema, references)
        self._writer = _usable(self._schema)
        if not self._schema.is_record and [field.name for field in columns] != [VALUE]:
            raise ConverterError(f"the Avro schema is no record: rows need the one column {VALUE}")
        self._meant = fitted(columns, self._schema.meant, "", is_exact)
        self._stored = fitted(columns, self._schema.stored, "")
        self.header = b"" if schema_id is None else header(schema_id)

    def __reduce__(self) -> Any:
        return AvroEncoder, self._given

    def encode(self, rows: pyarrow.Array) -> pyarrow.Array:
        try:
            stored = rows.cast(self._meant).cast(self._stored)
        except pyarrow.ArrowException as error:
            raise ConverterError(f"rows of {rows.type} do not fit the Avro schema: {error}") from None
        values: list[bytes | None] = []
        write = fastavro.schemaless_writer
        for row in python_values(stored):
            if row is None:
                values.append(None)
                continue
            stream = BytesIO()
            try:
                write(stream, self._writer, row if self._schema.is_record else row[VALUE])
            except Exception as error:
                raise refused_row(row, "Avro", f"{type(error).__name__}: {error}") from None
            values.append(stream.getvalue())
        return self.with_header(values)
