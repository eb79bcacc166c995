"""The converters of a pipeline that Spark has no functions for: Avro, Protobuf, and JSON and CSV read strictly.

Which schema is meant is settled when a pipeline is prepared; the decoder or encoder then goes to the workers, where it
gets whole Arrow arrays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from ottla.converters import framing, json_schema, registry
from ottla.converters.csv_values import CsvDecoder
from ottla.converters.decoding import Decoder, Encoder
from ottla.converters.errors import ConverterError, SchemaNotFound
from ottla.converters.json_values import JsonDecoder, plain
from ottla.converters.registry import RegisteredSchema, RegistrySettings, registry_of
from ottla.spark.pipelines.definition import CONFLUENT, Flow, Pipeline, PipelineError, Source
from ottla.spark.pipelines.expectations import first_line

ROW, ERROR = "row", "error"
_KINDS = {"avro": registry.AVRO, "protobuf": registry.PROTOBUF, "json": registry.JSON}


# --- reading


def source_decoder(pipeline: Pipeline, source: Source, zone: str) -> Decoder:
    """The decoder of a source. `zone` is the session's: what timestamps without an offset are in."""
    settings = pipeline.registry if source.wire == CONFLUENT else None
    try:
        if source.format in ("json", "csv"):
            return _strict_decoder(source, _columns(settings, source), settings, zone)
        if source.schema is None:
            assert settings is not None and source.topic is not None and source.format is not None
            schema = _latest(settings, source.subject, source.format)
            return registered_decoder(settings, schema, source.message, source.lenient)
        if source.format == "avro":
            from ottla.converters.avro import AvroDecoder

            return AvroDecoder(_avro_text(pipeline, source.schema), (), settings, source.lenient)
        from ottla.converters.protobuf import ProtobufDecoder

        return ProtobufDecoder(*_protobuf(pipeline, source.schema, source.message), settings, source.lenient)
    except ConverterError as error:
        raise PipelineError(f"sources.{source.name}.schema: {error}") from None


def _strict_decoder(source: Source, columns: Any, settings: RegistrySettings | None, zone: str) -> Decoder:
    if source.format == "csv":
        return CsvDecoder(columns, zone=zone, has_header=source.header)
    if source.rescue is not None and source.rescue.lower() in (one.name.lower() for one in columns):
        raise ConverterError(f"it has the column {source.rescue} already, which 'rescue' would make")
    return JsonDecoder(columns, source.rescue, settings, zone=zone, rescues_values=source.rescues_values)


def _columns(settings: RegistrySettings | None, source: Source) -> Any:
    """The columns of a source of JSON or CSV: its own `schema`, or the registered one."""
    if source.schema is not None:
        return arrow_columns(schema_of(source.name, source.schema))
    assert settings is not None and source.topic is not None
    return json_struct(settings, _latest(settings, source.subject, "json"))


def arrow_columns(columns: StructType) -> Any:
    """Columns as the strict decoders take them."""
    try:
        return to_arrow_type(columns, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
    except PySparkException as error:
        raise ConverterError(f"{columns.simpleString()} cannot be read strictly: {error}") from None


def schema_of(source: str, text: str) -> StructType:
    """The columns that a source names."""
    try:
        schema = StructType.fromDDL(text)
        assert isinstance(schema, StructType)
        return schema
    except Exception as error:
        raise PipelineError(
            f"sources.{source}.schema: {text!r} is no schema such as 'id bigint, name string': {first_line(error)}"
        ) from None


def _latest(settings: RegistrySettings, subject: str, format_: str) -> RegisteredSchema:
    """The newest schema of a subject."""
    found = registry_of(settings).latest(subject, registry.SERIALIZED if format_ == "protobuf" else None)
    if found.kind != _KINDS[format_]:
        raise ConverterError(f"the registry's schema of {subject} is {found.kind}, not {_KINDS[format_]}")
    return found


def registered_decoder(
    settings: RegistrySettings, schema: RegisteredSchema, message: str | None, is_lenient: bool
) -> Decoder:
    """The decoder of a registered schema of Avro or Protobuf."""
    if schema.kind == registry.AVRO:
        from ottla.converters import avro

        return avro.registered_decoder(settings, schema, is_lenient)
    from ottla.converters import protobuf, protobuf_schema

    files = protobuf_schema.registered(registry_of(settings), schema)
    return protobuf.ProtobufDecoder(files, protobuf_schema.message_of(files, message), settings, is_lenient)


def registered_avro(pipeline: Pipeline, source: Source) -> Decoder:
    """The decoder of the newest Avro schema of a topic."""
    assert pipeline.registry is not None and source.topic is not None
    try:
        schema = _latest(pipeline.registry, source.subject, "avro")
        return registered_decoder(pipeline.registry, schema, None, source.lenient)
    except ConverterError as error:
        raise PipelineError(f"sources.{source.name}.schema: {error}") from None


def message_of_newest(settings: RegistrySettings, values: Sequence[bytes | None]) -> str | None:
    """The message of the last Protobuf value, as an index in its file; None if no value has one."""
    from ottla.converters.protobuf_schema import written_message

    for frame in framing.frames(list(values[-1:]), has_indexes=True):
        if frame.error is None:
            return written_message(registry_of(settings), frame.schema_id, frame.indexes)
    return None


def json_schema_of(pipeline: Pipeline, source: Source) -> str:
    """The columns of registered JSON, as SQL has them."""
    assert pipeline.registry is not None and source.topic is not None
    try:
        return json_columns(pipeline.registry, _latest(pipeline.registry, source.subject, "json"))
    except ConverterError as error:
        raise PipelineError(f"sources.{source.name}.schema: {error}") from None


def json_struct(settings: RegistrySettings, schema: RegisteredSchema) -> Any:
    """The struct that a registered schema of JSON describes."""
    needed = registry_of(settings).references_of(schema)
    return json_schema.json_columns(schema.text, [(reference.name, one.text) for reference, one in needed])


def json_columns(settings: RegistrySettings, schema: RegisteredSchema) -> str:
    struct = from_arrow_type(plain(json_struct(settings, schema)))
    assert isinstance(struct, StructType)
    return struct.toDDL()


def without_header(value: Column) -> Column:
    """The JSON after its schema's id."""
    return F.substring(value, F.lit(framing.HEADER.size + 1), F.length(value))


def decoded(decoder: Decoder, value: Column) -> Column:
    """A struct of `row`, null where the value is or cannot be decoded, and `error`, why it cannot be."""
    kind = StructType([StructField(ROW, columns_of(decoder)), StructField(ERROR, StringType())])

    def decode(values: pyarrow.Array) -> pyarrow.Array:
        return pyarrow.StructArray.from_arrays(list(decoder.decode(values)), [ROW, ERROR])

    return on_arrays(decode, kind, value)


def on_arrays(function: Callable[[pyarrow.Array], pyarrow.Array], kind: DataType, column: Column) -> Column:
    """A function of whole arrays on a column. It counts as not deterministic so that Spark evaluates it once, and not
    again for each filter on its result."""

    def call(values: pyarrow.Array) -> pyarrow.Array:
        return function(values)

    # Spark reads the types at run time.
    call.__annotations__ = {"values": pyarrow.Array, "return": pyarrow.Array}
    make: Any = arrow_udf  # its overloads do not know of functions that have hints
    result: Column = make(call, kind).asNondeterministic()(column)
    return result


def columns_of(decoder: Decoder) -> StructType:
    struct = from_arrow_type(decoder.type)
    assert isinstance(struct, StructType)
    return struct


def _avro_text(pipeline: Pipeline, schema: str) -> str:
    """The schema in pipeline.yml, or in the file that it names."""
    if schema.lstrip().startswith(("{", "[", '"')):
        return schema
    try:
        return Path(pipeline.path(schema)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConverterError(f"{schema} is no Avro schema (JSON) and no file with one: {error}") from None


def _protobuf(pipeline: Pipeline, schema: str, message: str | None) -> tuple[bytes, str]:
    from ottla.converters.protobuf_schema import compiled, message_of

    files, _ = compiled(pipeline.path(schema))
    return files, message_of(files, message)


# --- writing


def flow_encoder(pipeline: Pipeline, flow: Flow, columns: StructType, *, may_change: bool) -> Encoder:
    """The encoder of a flow to a topic. Its schema is registered only where the pipeline is about to run."""
    kind = to_arrow_type(columns, timezone="UTC")
    try:
        if flow.format == "avro":
            return _avro_encoder(pipeline, flow, kind, may_change)
        return _protobuf_encoder(pipeline, flow, kind, may_change)
    except ConverterError as error:
        raise PipelineError(f"flows.{flow.name}: {error}") from None


def _avro_encoder(pipeline: Pipeline, flow: Flow, columns: Any, may_change: bool) -> Encoder:
    from ottla.converters.avro import AvroEncoder
    from ottla.converters.avro_schema import avro_schema_of

    settings = _settings(pipeline, flow)
    if settings is not None and not flow.registers and flow.schema is None:
        found = _latest(settings, flow.subject, "avro")
        texts = tuple(one.text for _, one in registry_of(settings).references_of(found))
        return AvroEncoder(found.text, texts, columns, found.schema_id)
    text = _avro_text(pipeline, flow.schema) if flow.schema is not None else json.dumps(avro_schema_of(columns))
    AvroEncoder(text, (), columns)  # checked before it is registered
    return AvroEncoder(text, (), columns, _schema_id(settings, flow, RegisteredSchema(registry.AVRO, text), may_change))


def _protobuf_encoder(pipeline: Pipeline, flow: Flow, columns: Any, may_change: bool) -> Encoder:
    from ottla.converters.protobuf import ProtobufEncoder
    from ottla.converters.protobuf_schema import WELL_KNOWN, imports_of, message_of, registered

    settings = _settings(pipeline, flow)
    if flow.schema is None:
        assert settings is not None
        found = _latest(settings, flow.subject, "protobuf")
        files = registered(registry_of(settings), found)
        return ProtobufEncoder(files, message_of(files, flow.message), columns, found.schema_id)
    files, message = _protobuf(pipeline, flow.schema, flow.message)
    ProtobufEncoder(files, message, columns)
    if settings is None:
        return ProtobufEncoder(files, message, columns)
    others = [name for name in imports_of(files) if not name.startswith(WELL_KNOWN)]
    if others or not flow.schema.endswith(".proto"):
        raise ConverterError(
            f"{flow.schema} cannot be registered from here ({', '.join(others) or 'it is compiled already'}): register "
            "it and what it imports, and say 'register: false' without a schema"
        )
    text = Path(pipeline.path(flow.schema)).read_text(encoding="utf-8")
    schema_id = _schema_id(settings, flow, RegisteredSchema(registry.PROTOBUF, text), may_change)
    return ProtobufEncoder(files, message, columns, schema_id)


def own_encoder(pipeline: Pipeline, source: Source, columns: Any) -> Encoder:
    """The encoder for rows of an Avro or Protobuf source with its own schema, so that the source decodes them to the
    same rows."""
    assert source.schema is not None
    if source.format == "avro":
        from ottla.converters.avro import AvroEncoder

        return AvroEncoder(_avro_text(pipeline, source.schema), (), columns)
    from ottla.converters.protobuf import ProtobufEncoder

    return ProtobufEncoder(*_protobuf(pipeline, source.schema, source.message), columns)


def json_header(pipeline: Pipeline, flow: Flow, columns: StructType, *, may_change: bool) -> bytes:
    """The bytes before JSON that has a registered schema."""
    settings = _settings(pipeline, flow)
    assert settings is not None
    text = json.dumps(json_schema.json_schema_of(to_arrow_type(columns, timezone="UTC")))
    try:
        schema_id = _schema_id(settings, flow, RegisteredSchema(registry.JSON, text), may_change)
    except ConverterError as error:
        raise PipelineError(f"flows.{flow.name}: {error}") from None
    return framing.header(schema_id or 0)


def _settings(pipeline: Pipeline, flow: Flow) -> RegistrySettings | None:
    return pipeline.registry if flow.wire == CONFLUENT else None


def _schema_id(settings: RegistrySettings | None, flow: Flow, schema: RegisteredSchema, may_change: bool) -> int | None:
    """The id that values are written with; None without a registry."""
    if settings is None:
        return None
    assert flow.topic is not None
    if not flow.registers:
        return registry_of(settings).lookup(flow.subject, schema)
    if may_change:
        return registry_of(settings).register(flow.subject, schema)
    try:
        return registry_of(settings).lookup(flow.subject, schema)
    except SchemaNotFound:
        return 0  # a dry run: nothing is written with it


def encoded(encoder: Encoder, row: Column) -> Column:
    """Rows as values of a topic."""
    return on_arrays(encoder.encode, BinaryType(), row)
