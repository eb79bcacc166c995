"""Messages as the JSON that Kafka's tools print: names in camel case, bytes in base64, ids as Kafka writes them.

A tagged field that has its default is left out, and so is a field that the version does not have.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from ottla.cli.kafka.java import java_double
from ottla.wire import schema
from ottla.wire.message import Field, Struct
from ottla.wire.primitives import uuid_text

_IRREGULAR = {"kraft_version": "kRaftVersion", "kraft_version_feature": "kRaftVersionFeature"}


def to_json(message: Struct, version: int) -> dict[str, Any]:
    """The fields of a message in this version, in the order they are declared in."""
    shown: dict[str, Any] = {}
    for field in schema(type(message)).fields:
        if not field.is_in(version):
            continue
        value = getattr(message, field.name)
        if field.is_tagged_in(version) and _is_default(field, value, version):
            continue
        if field.type == "Records":
            shown[f"{_name(field)}SizeInBytes"] = 0 if value is None else len(value)
        else:
            shown[_name(field)] = _value(field, value, version)
    return shown


def format_json(value: object) -> str:
    """Compact, as Jackson prints a tree; numbers with a fraction as Java shows them."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{format_json(key)}:{format_json(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(format_json, value)) + "]"
    if isinstance(value, float):
        return java_double(value)
    return json.dumps(value, ensure_ascii=False)


def _name(field: Field) -> str:
    if field.name in _IRREGULAR:
        return _IRREGULAR[field.name]
    first, *rest = field.name.rstrip("_").split("_")
    return first + "".join(part.capitalize() for part in rest)


def _is_default(field: Field, value: Any, version: int) -> bool:
    if field.struct is not None and not field.is_array:
        return not field.is_nullable_in(version) if value is None else bool(value == field.struct())
    return bool(value == field.default)


def _value(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_element(field, one, version) for one in value]
    return _element(field, value, version)


def _element(field: Field, value: Any, version: int) -> Any:
    if field.struct is not None:
        return to_json(value, version)
    if field.type == "uuid":
        return uuid_text(value)
    if field.type == "bytes":
        return b64encode(bytes(value)).decode()
    return value
