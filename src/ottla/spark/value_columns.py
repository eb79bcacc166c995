"""Values of a topic as a struct of columns, decoded by the task that reads them (the option valueFormat).

Spark then sees neither the text nor a function that parses it: the columns go to the JVM as Arrow has them. Values are
read strictly, as pipelines read them (`ottla.converters`). A value that is not of the schema is handled by the option
mode, with the words of Spark's own JSON reader:

    PERMISSIVE      value is null, `_error` says why, and `_corrupt_record` has the bytes
    DROPMALFORMED   the row is left out
    FAILFAST        the query ends with an error that names topic, partition and offset

A record without a value has null in all three columns, unless a field of the schema is NOT NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from ottla.converters.csv_values import CsvDecoder
from ottla.converters.decoding import Decoder
from ottla.converters.errors import ConverterError
from ottla.converters.json_values import UNEXPECTED, JsonDecoder
from ottla.spark.options import OptionError
from ottla.spark.schema import COLUMNS, check_column

FORMATS = ("json", "csv")
PERMISSIVE, DROPMALFORMED, FAILFAST = MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
VALUE, ERROR, CORRUPT, RAW = "value", "_error", "_corrupt_record", "rawValue"
ADDED: dict[str, DataType] = {ERROR: StringType(), CORRUPT: BinaryType(), RAW: BinaryType()}
"""Columns beside those of a record. RAW is the value as it was, and there only if a schema names it."""


class MalformedValue(Exception):
    """A value that is not of its schema, in the mode FAILFAST."""


def value_format(options: Mapping[str, str]) -> str | None:
    """The format that values are decoded from; None: values stay bytes."""
    given = options.get("valueFormat")
    if given is None:
        for name in ("valueSchema", "rescuedDataColumn"):
            if options.get(name) is not None:
                raise OptionError(f"{name} needs the option valueFormat ({' or '.join(FORMATS)})")
        return None
    if given.strip().lower() not in FORMATS:
        raise OptionError(f"valueFormat is {' or '.join(FORMATS)}, not {given!r}; without it values are bytes")
    return given.strip().lower()


def decoded_schema(options: Mapping[str, str], includes_headers: bool) -> str:
    """All columns of a source that decodes values, for Spark's parser: it alone knows what a DDL text means."""
    fields = options.get("valueSchema")
    if fields is None or not fields.strip():
        raise OptionError(
            "valueFormat needs the option valueSchema, the columns of values such as 'id BIGINT, name STRING', or a "
            "schema with the column value: .schema('offset BIGINT, value STRUCT<id: BIGINT>')"
        )
    rescued = options.get("rescuedDataColumn")
    more = f", {_quoted(rescued)} STRING" if rescued else ""
    kinds = {name: kind.simpleString() for name, kind in COLUMNS.items() if name != "headers" or includes_headers}
    kinds[VALUE] = f"STRUCT<{fields.strip()}{more}>"
    kinds |= {name: kind.simpleString() for name, kind in ADDED.items() if name != RAW}
    return ", ".join(f"{_quoted(name)} {kind}" for name, kind in kinds.items())


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class ValueColumns:
    """How the tasks of a query decode values. `schema` is what Spark gets."""

    decoder: Decoder
    schema: pyarrow.Schema
    mode: str

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns of records that are needed for it."""
        own = [name for name in self.schema.names if name in COLUMNS and name != VALUE]
        if self.mode == FAILFAST and "offset" not in own:
            own.append("offset")
        return (*own, VALUE)

    def decoded(self, batch: pyarrow.RecordBatch, place: str) -> pyarrow.RecordBatch:
        """The rows of a batch of records. `place` is their topic and partition, for an error."""
        values = batch.column(VALUE)
        rows, errors = self.decoder.decode(values)
        is_clean = errors.null_count == len(errors)
        if self.mode == FAILFAST and not is_clean:
            index = errors.is_valid().to_pylist().index(True)
            raise MalformedValue(
                f"{place}, offset {batch.column('offset')[index]}: {errors[index]}. To read on, set the option mode to "
                f"{PERMISSIVE} (with the column {ERROR}) or {DROPMALFORMED}"
            )
        made = pyarrow.RecordBatch.from_arrays(
            [self._column(field, batch, rows, errors, is_clean) for field in self.schema], schema=self.schema
        )
        return made.filter(errors.is_null()) if self.mode == DROPMALFORMED and not is_clean else made

    def _column(self, field: Any, batch: pyarrow.RecordBatch, rows: Any, errors: Any, is_clean: bool) -> Any:
        if field.name == VALUE:
            return retyped(rows, field.type)
        if field.name == ERROR:
            return errors
        if field.name == CORRUPT:
            nothing = pyarrow.nulls(len(errors), field.type)
            return nothing if is_clean else pc.if_else(errors.is_valid(), batch.column(VALUE), nothing)
        return batch.column(VALUE if field.name == RAW else field.name)


def value_columns(options: Mapping[str, str], schema: StructType) -> ValueColumns | None:
    """How values are decoded for the columns that Spark wants; None if the options do not ask for it."""
    kind = value_format(options)
    if kind is None:
        return None
    mode = options.get("mode", PERMISSIVE).strip().upper()
    if mode not in MODES:
        raise OptionError(f"mode is {', '.join(MODES)}, not {options['mode']!r}")
    value = _checked_value(schema)
    rescued = options.get("rescuedDataColumn")
    own = {UNEXPECTED, rescued}
    names = [field.name for field in value.fields if field.name not in own]
    try:
        columns = to_arrow_type(
            StructType([value[name] for name in names]), error_on_duplicated_field_names_in_struct=True, timezone="UTC"
        )
        decoder = _decoder(kind, columns, rescued, options)
    except (ConverterError, PySparkException) as error:
        raise OptionError(f"valueSchema: {error}") from None
    return ValueColumns(decoder, to_arrow_schema(schema, timezone="UTC"), mode)


def _decoder(kind: str, columns: Any, rescued: str | None, options: Mapping[str, str]) -> Decoder:
    zone = options.get("timeZone", "UTC")
    if kind == "csv":
        if rescued is not None:
            raise OptionError("rescuedDataColumn is for valueFormat=json: CSV has no names of fields")
        has_header = options.get("header", "false").strip().lower() == "true"
        return CsvDecoder(columns, zone=zone, has_header=has_header)
    return JsonDecoder(columns, rescued, zone=zone)


def _checked_value(schema: StructType) -> StructType:
    """The struct of values among the wanted columns; OptionError for a column that there is not."""
    value = None
    for column in schema.fields:
        if column.name != VALUE:
            check_column(column, {**COLUMNS, **ADDED})
        elif isinstance(column.dataType, StructType):
            value = column.dataType
    if value is None or not value.fields:
        raise OptionError(
            "with valueFormat a schema has the column value, a struct of the fields that are needed: value STRUCT<id: "
            "BIGINT>"
        )
    return value


def retyped(array: Any, kind: Any) -> Any:
    """An array as a type that has the same values, and perhaps fewer fields of a struct or other words on nulls."""
    if array.type == kind:
        return array
    if pyarrow.types.is_struct(kind):
        parts = [retyped(array.field(array.type.get_field_index(field.name)), field.type) for field in kind]
        return pyarrow.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pyarrow.types.is_list(kind):
        values = retyped(array.values, kind.value_type)
        return pyarrow.ListArray.from_arrays(array.offsets, values, type=kind, mask=array.is_null())
    if pyarrow.types.is_map(kind):
        entries = pyarrow.StructArray.from_arrays(
            [retyped(array.keys, kind.key_type), retyped(array.items, kind.item_type)],
            fields=[kind.key_field, kind.item_field],
        )
        return pyarrow.Array.from_buffers(kind, len(array), array.buffers()[:2], children=[entries])
    return array.cast(kind)
