"""Messages filled by chance, for every message class there is."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from random import Random
from typing import Any, TypeVar

import ottla.wire.messages
import ottla.wire.messages.records
from ottla.wire import Message, Struct, schema
from ottla.wire.message import Field

RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
}
TEXTS = ("", "a", "topic-1", "čeština", "日本", "x" * 126, "y" * 127, "z" * 300)
COUNTS = (0, 1, 1, 2, 3)


def all_messages() -> list[type[Message]]:
    found: list[type[Message]] = []
    for package in (ottla.wire.messages, ottla.wire.messages.records):
        for info in iter_modules(package.__path__):
            if info.ispkg:
                continue
            module = import_module(f"{package.__name__}.{info.name}")
            for value in vars(module).values():
                if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                    found.append(value)
    return found


def versions_of(cls: type[Message]) -> range:
    return range(schema(cls).first_version, schema(cls).last_version + 1)


S = TypeVar("S", bound=Struct)


def make(cls: type[S], version: int, rng: Random, *, is_flexible: bool, is_tame: bool = False) -> S:
    """A message that the version can carry.

    Tame ones hold only what any other implementation takes too: no odd times, known error codes, no unknown tags.
    """
    values: dict[str, Any] = {}
    for field in schema(cls).fields:
        if not field.is_in(version) or (field.tag is not None and rng.random() < 0.5):
            continue
        values[field.name] = make_field(field, version, rng, is_flexible, is_tame)
    if is_flexible and not is_tame and rng.random() < 0.1:
        values["unknown_tagged_fields"] = {
            tag: rng.randbytes(rng.choice((0, 1, 5))) for tag in rng.sample(range(50, 5000), 3)
        }
    return cls(**values)


def make_field(field: Field, version: int, rng: Random, is_flexible: bool, is_tame: bool) -> Any:
    may_be_null = field.is_nullable_in(version) and not (is_tame and field.tag is not None)
    if may_be_null and rng.random() < 0.3:
        return None
    if not field.is_array:
        return make_value(field, version, rng, is_flexible, is_tame)
    count = rng.choice(COUNTS)
    if field.type in RANGES and rng.random() < 0.05:
        count = rng.choice((126, 127, 128, 200, 3000))
    return [make_value(field, version, rng, is_flexible, is_tame) for _ in range(count)]


def make_value(field: Field, version: int, rng: Random, is_flexible: bool, is_tame: bool) -> Any:
    if field.struct is not None:
        return make(field.struct, version, rng, is_flexible=is_flexible, is_tame=is_tame)
    if field.type in RANGES:
        low, high = RANGES[field.type]
        if is_tame:
            return rng.randint(0, 100 if field.name.endswith("error_code") else min(high, 10**9))
        return rng.choice((low, high, 0, 1, rng.randint(low, high)))
    if field.type == "string":
        return rng.choice(TEXTS)
    if field.type == "bool":
        return rng.random() < 0.5
    if field.type == "uuid":
        return rng.randbytes(16)
    if field.type == "float64":
        return rng.uniform(-1e9, 1e9)
    return rng.randbytes(rng.choice((0, 1, 3, 127, 128, 20_000)))
