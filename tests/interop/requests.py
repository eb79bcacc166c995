"""Requests of every API and version, written and read by kio: a codec that shares no line with Ottla's."""

from __future__ import annotations

import dataclasses
import datetime
import io
import struct
import types
import typing
import uuid
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

kio = pytest.importorskip("kio", reason="kio is not installed")
index = pytest.importorskip("kio.index", reason="kio is not installed")
schema = pytest.importorskip("kio.schema.index", reason="kio is not installed")
serial = pytest.importorskip("kio.serial", reason="kio is not installed")

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}

Hints = Mapping[str, Any]


def versions(api_key: int) -> range:
    """The versions of an API that kio knows."""
    known = schema.schema_name_map.get(schema.api_key_map.get(api_key, ""), {})
    return range(min(known), max(known) + 1) if known else range(0)


def all_apis() -> list[int]:
    return sorted(schema.api_key_map)


def request(api_key: int, version: int, hints: Hints, rng: Random | None = None) -> Any:
    """A request: fields take the value that `hints` has under their name; the others a default, or by chance (rng)."""
    return _filled(index.load_request_schema(api_key, version), hints, rng)


def frame(message: Any, correlation_id: int = 1, client_id: str | None = "kio") -> bytes:
    """The request's bytes as they follow the size on the wire."""
    header = message.__header_schema__
    fields = {"request_api_key": message.__api_key__, "request_api_version": message.__version__}
    if any(field.name == "client_id" for field in dataclasses.fields(header)):
        fields["client_id"] = client_id
    buffer = io.BytesIO()
    serial.entity_writer(header)(buffer, header(correlation_id=correlation_id, **fields))
    serial.entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def answer(api_key: int, version: int, received: bytes) -> Any:
    """The response in a frame; raises when kio cannot read it to its very end."""
    response = index.load_response_schema(api_key, version)
    header, position = serial.entity_reader(response.__header_schema__)(received, 0)
    assert header.correlation_id == 1
    message, size = serial.entity_reader(response)(received, position)
    assert position + size == len(received), f"{len(received) - position - size} bytes too many"
    return message


def _filled(entity: Any, hints: Hints, rng: Random | None) -> Any:
    kinds = typing.get_type_hints(entity)
    values = {}
    for field in dataclasses.fields(entity):
        if field.name in hints:
            values[field.name] = hints[field.name]
        elif rng is None and field.default is not dataclasses.MISSING:
            continue
        else:
            values[field.name] = _value(kinds[field.name], field.metadata.get("kafka_type"), hints, rng)
    return entity(**values)


def _value(kind: Any, kafka_type: str | None, hints: Hints, rng: Random | None) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if rng is not None and rng.random() < 0.2 and type(None) in arguments:
            return None
        return _value(next(part for part in arguments if part is not type(None)), kafka_type, hints, rng)
    if origin is tuple:
        count = 1 if rng is None else rng.choice((0, 1, 1, 2, 5))
        return tuple(_value(arguments[0], kafka_type, hints, rng) for _ in range(count))
    if dataclasses.is_dataclass(kind):
        return _filled(kind, hints, rng)
    return _plain(kafka_type, rng)


def _plain(kafka_type: str | None, rng: Random | None) -> Any:
    if kafka_type in INTEGER_BITS:
        bits = INTEGER_BITS[kafka_type]
        if rng is None:
            return 0
        return rng.choice((0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), rng.randrange(128)))
    if kafka_type == "uint16":
        return 0 if rng is None else rng.randrange(65536)
    if kafka_type in ("timedelta_i32", "timedelta_i64"):
        return datetime.timedelta(milliseconds=0 if rng is None else rng.choice((0, 1, 100)))
    if kafka_type == "bool":
        return rng is not None and rng.random() < 0.5
    if kafka_type == "string":
        return "x" if rng is None else rng.choice(("", "x", "a" * 300, "\u00e9\u4e2d", "../../etc", "topic"))
    if kafka_type == "uuid":
        return None if rng is None or rng.random() < 0.5 else uuid.UUID(int=rng.getrandbits(128))
    if kafka_type in ("bytes", "records"):
        return b"" if rng is None else rng.randbytes(rng.choice((0, 1, 61, 200)))
    if kafka_type == "float64":
        return 0.0 if rng is None else rng.choice((0.0, -1.0, 1e300, float("inf")))
    raise ValueError(f"{kafka_type}: none of Kafka's messages has a field of this type")


def advertised(received: bytes) -> dict[int, range]:
    """The APIs and versions of an ApiVersions v0 answer (correlation id, error code, array)."""
    _, _, count = struct.unpack_from(">ihi", received)
    triples = struct.iter_unpack(">hhh", received[10 : 10 + 6 * count])
    return {key: range(first, last + 1) for key, first, last in triples}
