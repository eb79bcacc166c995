"""Keys and values with a registered schema (Avro, Protobuf, JSON in the Confluent wire format) as JSON text, for
`ottla consume --registry`, and values of JSON text, for `ottla produce --registry`. A record is decoded with the schema
it was written with, and written with the newest of its topic."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.session import MISUSED, REGISTRY_URL, CommandError, with_registry

if TYPE_CHECKING:
    from ottla.client.core.fetching import RawRecord
    from ottla.converters.framing import Frame
    from ottla.converters.registry import RegisteredSchema, Registry, RegistrySettings

SHOWN_FAILURES = 5
_TOO_FINE = re.compile(r"[.,]\d{6}0*[1-9]")
Decode = Callable[["Frame"], tuple[list[bytes | None], list[str | None]]]
"""Texts of the payloads of a frame; instead of a text, the reason why a payload has none."""


def registry_settings(url: str | None, settings: Mapping[str, str]) -> RegistrySettings:
    """The registry of --registry, with the credentials of the settings; or the settings' own."""
    from ottla.converters.errors import RegistryError
    from ottla.converters.registry import RegistrySettings

    given = with_registry(settings, url) if url is not None and REGISTRY_URL in settings else settings
    given = {**given, REGISTRY_URL: url} if url is not None else given
    try:
        found = RegistrySettings.parse(given)
    except RegistryError as error:
        raise CommandError(str(error)) from None
    if found is None:
        raise CommandError(
            "where is the schema registry? --registry URL, OTTLA_REGISTRY in the environment, schema.registry.url in "
            "--command-config, or 'ottla clusters add NAME --registry URL'"
        )
    return found


class RegisteredDecoder:
    """Decodes records. What cannot be decoded stays as it is, and is named to `tell`: the first few one by one. If
    decoding was not asked for, a record without a schema is as good as any, and a registry that does not answer is
    named once."""

    def __init__(self, settings: RegistrySettings, tell: Callable[[str], None], *, is_asked: bool = True) -> None:
        self._is_asked = is_asked
        self._settings = settings
        self._tell = tell
        self._decoders: dict[tuple[int, tuple[int, ...]], Decode] = {}
        self._failure_count = 0
        self._is_off = False

    def decode(self, records: Sequence[RawRecord]) -> list[RawRecord]:
        from ottla.converters.errors import ConverterError

        if self._is_off:
            return list(records)
        try:
            return self._decoded(records)
        except ConverterError as error:
            if self._is_asked:
                raise CommandError(str(error)) from None
            self._tell(f"records are not decoded: {error}")
            self._is_off = True
            return list(records)

    def _decoded(self, records: Sequence[RawRecord]) -> list[RawRecord]:
        values, errors = self.texts([record.value for record in records])
        for record, error in zip(records, errors, strict=True):
            if error is not None:
                self._failed(f"{record.topic}-{record.partition} offset {record.offset} is not decoded: {error}")
        # Many topics have registered values and plain keys: those stay as they are.
        keys, _ = self.texts([record.key for record in records])
        return [record._replace(key=key, value=value) for record, key, value in zip(records, keys, values, strict=True)]

    def _failed(self, what: str) -> None:
        self._failure_count += 1
        if self._failure_count <= SHOWN_FAILURES:
            self._tell(what)

    def tell_rest(self) -> None:
        """How many were not named."""
        more = self._failure_count - SHOWN_FAILURES
        if more > 0:
            self._tell(f"and {more:,} more are not decoded")

    def texts(self, data: list[bytes | None]) -> tuple[list[bytes | None], list[str | None]]:
        """Each as JSON text, or as it is with the reason."""
        from ottla.converters.errors import SchemaNotFound, UnusableSchema
        from ottla.converters.framing import frames

        texts, errors = list(data), [None] * len(data)  # type: tuple[list[bytes | None], list[str | None]]
        for frame in frames(data):
            try:
                for one in self._with_indexes(frame, data):
                    if one.error is None:
                        found, reasons = self._decoder(one)(one)
                    else:
                        reason = one.error if self._is_asked else None
                        found, reasons = list(one.payloads), [reason] * len(one.rows)
                    for row, text, reason in zip(one.rows, found, reasons, strict=True):
                        errors[row] = reason
                        if reason is None:
                            texts[row] = text
            except (SchemaNotFound, UnusableSchema) as error:
                for row in frame.rows:
                    errors[row] = str(error)
        return texts, errors

    def _with_indexes(self, frame: Frame, data: list[bytes | None]) -> list[Frame]:
        """The frame; of Protobuf one for each message of the file, with the indexes of the message before the
        payload."""
        from ottla.converters.framing import frames
        from ottla.converters.registry import PROTOBUF, registry_of

        if frame.error is not None or registry_of(self._settings).by_id(frame.schema_id).kind != PROTOBUF:
            return [frame]
        found = list(frames([data[row] for row in frame.rows], has_indexes=True))
        for one in found:
            one.rows = [frame.rows[row] for row in one.rows]
        return found

    def _decoder(self, frame: Frame) -> Decode:
        place = (frame.schema_id, frame.indexes)
        if place not in self._decoders:
            try:
                self._decoders[place] = self._new_decoder(frame)
            except ModuleNotFoundError as error:
                raise CommandError(f"{error}: pip install 'ottla[avro,protobuf]'") from None
        return self._decoders[place]

    def _new_decoder(self, frame: Frame) -> Decode:
        from ottla.converters.errors import ConverterError, RegistryError, UnusableSchema
        from ottla.converters.registry import AVRO, JSON, PROTOBUF, SERIALIZED, registry_of

        registry = registry_of(self._settings)
        schema = registry.by_id(frame.schema_id)
        if schema.kind == JSON:
            return lambda frame: (list(frame.payloads), [None] * len(frame.payloads))
        try:
            if schema.kind == AVRO:
                from ottla.converters.avro import registered_decoder
                from ottla.converters.avro_schema import VALUE, AvroSchema

                texts = [needed.text for _, needed in registry.references_of(schema)]
                is_record = AvroSchema(schema.text, texts).is_record
                decode_avro = registered_decoder(self._settings, schema).decode_frame
                return lambda frame: json_texts(decode_avro(frame), None if is_record else VALUE)
            if schema.kind == PROTOBUF:
                from ottla.converters.protobuf import ProtobufDecoder
                from ottla.converters.protobuf_schema import registered, written_message

                files = registered(registry, registry.by_id(frame.schema_id, SERIALIZED))
                message = written_message(registry, frame.schema_id, frame.indexes)
                decode_protobuf = ProtobufDecoder(files, message, self._settings).decode_frame
                return lambda frame: json_texts(decode_protobuf(frame), None)
        except RegistryError:
            raise
        except ConverterError as error:
            raise UnusableSchema(f"the schema with the id {frame.schema_id} cannot be used: {error}") from None
        raise UnusableSchema(f"the schema with the id {frame.schema_id} is {schema.kind}, which is not known here")


def json_texts(decoded: Any, field: str | None) -> tuple[list[bytes | None], list[str | None]]:
    """Rows as JSON text, or this field of each."""
    from ottla.converters.decoding import python_values

    rows, errors = decoded
    texts = [None if row is None else json_text(row if field is None else row[field]) for row in python_values(rows)]
    return texts, errors.to_pylist()


def json_text(row: Any) -> bytes:
    import json

    try:
        return json.dumps(row, ensure_ascii=False, default=plain, allow_nan=False).encode()
    except ValueError:
        return json.dumps(finite(row), ensure_ascii=False, default=plain).encode()


def finite(value: Any) -> Any:
    """With numbers that JSON does not have as text."""
    from math import isfinite

    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [finite(one) for one in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def plain(value: object) -> object:
    """The JSON form of types that JSON lacks: decimals as text, since a number would be rounded; bytes in base64; times
    in ISO 8601; durations in seconds."""
    from base64 import b64encode
    from datetime import date, datetime, time, timedelta

    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


# --- encoding


class RegisteredEncoder:
    """Makes values of JSON text, as `RegisteredDecoder` shows it. `schema` is a file, which becomes a version of the
    topic's subject, or a subject, whose newest version is taken; without one it is the topic's own."""

    def __init__(self, settings: RegistrySettings, topic: str, schema: str | None = None) -> None:
        from ottla.converters.errors import ConverterError

        try:
            self._encode = _encoder(settings, topic, schema)
        except ConverterError as error:
            raise CommandError(str(error)) from None
        except ModuleNotFoundError as error:
            raise CommandError(f"{error}: pip install 'ottla[avro,protobuf]'") from None

    def encode(self, text: bytes) -> bytes:
        """The value in the wire format; ValueError says why the text does not fit the schema."""
        from ottla.cli.record_format import parse_json
        from ottla.converters.errors import ConverterError

        try:
            return self._encode(text, parse_json(text))
        except ConverterError as error:
            raise ValueError(str(error)) from None


def _chosen(registry: Registry, topic: str, given: str | None) -> RegisteredSchema:
    """The schema that values are written with."""
    from ottla.converters.registry import AVRO, JSON, PROTOBUF, RegisteredSchema, subject_of

    if given is None:
        return registry.latest(subject_of(topic))
    kinds = {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}
    path = Path(given)
    if path.suffix not in kinds:
        return registry.latest(given)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--schema {given} cannot be read: {error}", MISUSED) from None
    return registry.by_id(registry.register(subject_of(topic), RegisteredSchema(kinds[path.suffix], text)))


def _encoder(settings: RegistrySettings, topic: str, given: str | None) -> Callable[[bytes, Any], bytes]:
    """A function that encodes a value, given as JSON text and as the parsed text."""
    from ottla.converters.errors import UnusableSchema
    from ottla.converters.framing import header
    from ottla.converters.registry import AVRO, JSON, PROTOBUF, SERIALIZED, registry_of, subject_of

    registry = registry_of(settings)
    schema = _chosen(registry, topic, given)
    assert schema.schema_id is not None
    if schema.kind == JSON:
        before = header(schema.schema_id)
        return lambda text, _: before + text
    if schema.kind == AVRO:
        from ottla.converters.avro import AvroEncoder
        from ottla.converters.avro_schema import VALUE, AvroSchema

        texts = tuple(needed.text for _, needed in registry.references_of(schema))
        known = AvroSchema(schema.text, texts)
        avro = AvroEncoder(schema.text, texts, known.meant, schema.schema_id)
        if known.is_record:
            return lambda _, value: _encoded(avro, known.meant, value)
        return lambda _, value: _encoded(avro, known.meant, {VALUE: value})
    if schema.kind == PROTOBUF:
        from ottla.converters.protobuf import ProtobufEncoder
        from ottla.converters.protobuf_schema import ProtobufSchema, message_of, registered

        files = registered(registry, registry.by_id(schema.schema_id, SERIALIZED))
        message = message_of(files, None)
        kind = ProtobufSchema(files, message).type
        protobuf = ProtobufEncoder(files, message, kind, schema.schema_id)
        return lambda _, value: _encoded(protobuf, kind, value)
    raise UnusableSchema(f"the schema of {subject_of(topic)} is {schema.kind}, which is not known here")


def _encoded(encoder: Any, kind: Any, value: Any) -> bytes:
    import pyarrow

    row = arrow_value(value, kind, "")
    if row is None:
        raise ValueError("is null: a tombstone has no schema")
    try:
        found: bytes = encoder.encode(pyarrow.array([row], kind))[0].as_py()
    except (pyarrow.ArrowException, OverflowError) as error:
        raise ValueError(f"does not fit the schema: {error}") from None
    return found


def arrow_value(value: Any, kind: Any, path: str) -> Any:
    """A JSON value as the value for a column of this type. ValueError: nothing is guessed, and no field is left out."""
    from pyarrow import types

    if value is None:
        return None
    where = f"has at '{path}'" if path else "has"
    if types.is_struct(kind):
        if not isinstance(value, dict):
            raise ValueError(f"{where} no object, but {_shown(value)}")
        names = [field.name for field in kind]
        for name in value:
            if name not in names:
                raise ValueError(f"{where} the field {name!r}, which the schema has not; it has {', '.join(names)}")
        return {field.name: arrow_value(value.get(field.name), field.type, _step(path, field.name)) for field in kind}
    if types.is_list(kind):
        if not isinstance(value, list):
            raise ValueError(f"{where} no list, but {_shown(value)}")
        return [arrow_value(one, kind.value_type, f"{path}[{index}]") for index, one in enumerate(value)]
    if types.is_map(kind):
        if not isinstance(value, dict):
            raise ValueError(f"{where} no object, but {_shown(value)}")
        is_text = types.is_string(kind.key_type)
        return [
            (name if is_text else arrow_value(_parsed_key(name), kind.key_type, path),
             arrow_value(one, kind.item_type, _step(path, name)))
            for name, one in value.items()
        ]  # fmt: skip
    try:
        return _scalar(value, kind)
    except (ValueError, ArithmeticError):
        raise ValueError(f"{where} no {kind}, but {_shown(value)}") from None


def _scalar(value: Any, kind: Any) -> Any:
    from base64 import b64decode
    from datetime import date, datetime, timedelta
    from decimal import Decimal

    from pyarrow import types

    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if types.is_boolean(kind) and isinstance(value, bool):
        return value
    if types.is_integer(kind) and is_number and isinstance(value, int):
        return value
    if types.is_floating(kind) and (is_number or value in ("nan", "inf", "-inf")):
        return float(value)
    if types.is_duration(kind) and is_number:
        return timedelta(seconds=value)
    if types.is_decimal(kind) and isinstance(value, str | int) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, str):
        if types.is_string(kind):
            return value
        if types.is_binary(kind):
            return b64decode(value, validate=True)
        if types.is_timestamp(kind):
            moment = datetime.fromisoformat(value)
            # Python silently drops what is finer than a microsecond.
            is_whole = _TOO_FINE.search(value) is None and (kind.unit != "ms" or moment.microsecond % 1000 == 0)
            if is_whole and (moment.tzinfo is None) is (kind.tz is None):
                return moment
        if types.is_date(kind):
            return date.fromisoformat(value)
    raise ValueError


def _parsed_key(text: str) -> Any:
    """A map's key that is not text, as JSON needs it."""
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text


def _step(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
