"""Dataclasses and pydantic models as plain values (dicts, lists, numbers, texts), and back."""

from __future__ import annotations

import dataclasses
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from ottla.serializers.errors import SerializationError


def is_model(kind: Any) -> bool:
    """Whether a class is a pydantic model; pydantic itself is not needed to tell."""
    return isinstance(kind, type) and hasattr(kind, "model_validate") and hasattr(kind, "model_dump")


def plain(value: Any) -> Any:
    """A value without dataclasses, models and enums."""
    if isinstance(value, Enum):
        return value.name
    if is_model(type(value)):
        return {name: plain(one) for name, one in value.model_dump(by_alias=True).items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def json_value(value: Any) -> Any:
    """The text for values that JSON has no type for: `json.dumps(default=...)`."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError(f"a {type(value).__name__} is no value of JSON")


@lru_cache(maxsize=1_000)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def made(kind: Any, value: Any) -> Any:
    """A value of a class. SerializationError: it has other fields."""
    if value is None or kind is Any or kind is None:
        return value
    if is_model(kind):
        try:
            return kind.model_validate(value)
        except ValueError as error:
            raise SerializationError(f"the value is no {kind.__name__}: {error}") from None
    if dataclasses.is_dataclass(kind):
        return _made_dataclass(kind, value)
    if isinstance(kind, type):
        return _scalar(kind, value)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _one_of([one for one in arguments if one is not NoneType], value)
    if origin in (list, Sequence) and arguments:
        return [made(arguments[0], one) for one in value]
    if origin in (dict, Mapping) and len(arguments) == 2:
        return {name: made(arguments[1], one) for name, one in value.items()}
    return value


def _made_dataclass(kind: Any, value: Any) -> Any:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise SerializationError(f"the value is no {kind.__name__}: it is a {type(value).__name__}")
    hints = _hints(kind)
    names = {one.name for one in dataclasses.fields(kind) if one.init}
    try:
        return kind(**{name: made(hints.get(name), one) for name, one in value.items() if name in names})
    except TypeError as error:
        raise SerializationError(f"the value is no {kind.__name__}: {error}") from None


def _one_of(kinds: list[Any], value: Any) -> Any:
    if len(kinds) == 1:
        return made(kinds[0], value)
    for kind in kinds:
        if isinstance(kind, type) and isinstance(value, kind):
            return value
    fitting = [
        one
        for one in kinds
        if dataclasses.is_dataclass(one) and isinstance(value, Mapping) and set(value) <= set(_hints(one))  # type: ignore[arg-type]
    ]
    return made(fitting[0], value) if fitting else value


def _scalar(kind: type, value: Any) -> Any:
    """Values that JSON and Avro have as text."""
    if issubclass(kind, Enum):
        return value if isinstance(value, kind) else kind[value]
    if isinstance(value, str):
        if kind in (datetime, date, time):
            return kind.fromisoformat(value)
        if kind in (Decimal, UUID):
            return kind(value)
        if kind is bytes:
            return b64decode(value, validate=True)
    return value
