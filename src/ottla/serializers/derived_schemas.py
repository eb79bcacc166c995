"""Schemas of dataclasses and pydantic models, by their types: Avro's and JSON Schema's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from ottla.serializers.values import is_model

_MISSING = object()
_AVRO: dict[Any, Any] = {
    bool: "boolean", int: "long", float: "double", str: "string", bytes: "bytes", NoneType: "null",
    datetime: {"type": "long", "logicalType": "timestamp-micros"}, date: {"type": "int", "logicalType": "date"},
    time: {"type": "long", "logicalType": "time-micros"}, UUID: {"type": "string", "logicalType": "uuid"},
}  # fmt: skip
_JSON: dict[Any, Any] = {
    bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"}, str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"}, NoneType: {"type": "null"},
    datetime: {"type": "string", "format": "date-time"}, date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"}, UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string"},
}  # fmt: skip


def is_derivable(kind: Any) -> bool:
    return is_model(kind) or (isinstance(kind, type) and dataclasses.is_dataclass(kind))


def avro_schema(kind: Any) -> dict[str, Any]:
    """The Avro record for a class. TypeError names a field whose type has no Avro counterpart."""
    found = _Avro().record(kind)
    assert isinstance(found, dict)
    return found


def json_schema(kind: Any) -> dict[str, Any]:
    """The object of a class; of a pydantic model the schema that pydantic makes."""
    if is_model(kind):
        return {"title": kind.__name__, **kind.model_json_schema(by_alias=True)}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_json_object(kind, ())}


def _fields(kind: Any) -> list[tuple[str, Any, Any]]:
    """Names, types and defaults."""
    if is_model(kind):
        return [
            (
                info.alias or name,
                info.annotation,
                _MISSING if info.is_required() or info.default_factory is not None else info.default,
            )
            for name, info in kind.model_fields.items()
        ]
    hints = get_type_hints(kind)
    return [
        (one.name, hints[one.name], _MISSING if one.default is dataclasses.MISSING else one.default)
        for one in dataclasses.fields(kind)
    ]


class _Avro:
    """A class is defined where it is met first, and named after that."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def record(self, kind: Any) -> Any:
        name = kind.__name__
        if name in self._known:
            return name
        self._known.add(name)
        fields = []
        for field, type_, default in _fields(kind):
            made = self._type(type_, f"{name}.{field}")
            one: dict[str, Any] = {"name": field, "type": made}
            if default is not _MISSING and (default is None or isinstance(default, bool | int | float | str)):
                one["default"] = default
                if isinstance(made, list):  # a default is of the first type of its union
                    first = "null" if default is None else next(each for each in made if each != "null")
                    one["type"] = [first, *(each for each in made if each != first)]
            fields.append(one)
        return {"type": "record", "name": name, "fields": fields}

    def _type(self, type_: Any, where: str) -> Any:
        if is_derivable(type_):
            return self.record(type_)
        if isinstance(type_, type) and issubclass(type_, Enum):
            if type_.__name__ in self._known:
                return type_.__name__
            self._known.add(type_.__name__)
            return {"type": "enum", "name": type_.__name__, "symbols": [one.name for one in type_]}
        if type_ in _AVRO:
            return _AVRO[type_]
        origin, arguments = get_origin(type_), get_args(type_)
        if origin in (Union, UnionType):
            return [self._type(one, where) for one in sorted(arguments, key=lambda one: one is not NoneType)]
        if origin in (list, Sequence) and arguments:
            return {"type": "array", "items": self._type(arguments[0], where)}
        if origin in (dict, Mapping) and arguments[:1] == (str,):
            return {"type": "map", "values": self._type(arguments[1], where)}
        raise TypeError(f"{where} is {type_}, which has no type in Avro: give the schema's text")


def _json_object(kind: Any, outer: tuple[Any, ...]) -> dict[str, Any]:
    if kind in outer:
        raise TypeError(f"{kind.__name__} contains itself: give the schema's text")
    properties, required = {}, []
    for name, type_, default in _fields(kind):
        properties[name] = _json_type(type_, f"{kind.__name__}.{name}", (*outer, kind))
        if default is _MISSING:
            required.append(name)
        elif default is None or isinstance(default, bool | int | float | str):
            properties[name] = {**properties[name], "default": default}
    made = {"type": "object", "title": kind.__name__, "properties": properties, "additionalProperties": False}
    return made | ({"required": required} if required else {})


def _json_type(type_: Any, where: str, outer: tuple[Any, ...]) -> dict[str, Any]:
    if is_model(type_):
        return json_schema(type_)
    if is_derivable(type_):
        return _json_object(type_, outer)
    if isinstance(type_, type) and issubclass(type_, Enum):
        return {"enum": [one.name for one in type_]}
    if type_ in _JSON:
        return dict(_JSON[type_])
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return {"anyOf": [_json_type(one, where, outer) for one in arguments]}
    if origin in (list, Sequence) and arguments:
        return {"type": "array", "items": _json_type(arguments[0], where, outer)}
    if origin in (dict, Mapping) and arguments[:1] == (str,):
        return {"type": "object", "additionalProperties": _json_type(arguments[1], where, outer)}
    raise TypeError(f"{where} is {type_}, which has no type in JSON Schema: give the schema's text")
