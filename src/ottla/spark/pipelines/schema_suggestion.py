"""A schema for JSON records, from samples: each field's type, how often it is there and null, and the line for
pipeline.yml. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from ottla.converters.json_reader import MISFIT

MAX_FIELDS = 500
"""Fields that are counted apart; further names, which a sender may invent without end, are left out."""
_NUMBERS = {"bigint", "double"}


@dataclass(slots=True)
class _Field:
    types: Counter[str] = field(default_factory=Counter)
    seen: int = 0
    nulls: int = 0


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggestion with its reasons."""

    ddl: str
    rows: list[dict[str, Any]]
    sample_count: int

    def to_json(self) -> dict[str, Any]:
        return {"schema": self.ddl, "records": self.sample_count, "fields": self.rows}


def suggestion(samples: Iterable[bytes | None], unexpected: Mapping[str, int]) -> Suggestion | None:
    """The schema of JSON objects; None if there are none. `unexpected`: fields that a run has counted as new."""
    fields: dict[str, _Field] = {}
    count = 0
    for sample in samples:
        document = _object(sample)
        if document is None:
            continue
        count += 1
        for name, value in document.items():
            if name not in fields and len(fields) >= MAX_FIELDS:
                continue
            found = fields.setdefault(name, _Field())
            found.seen += 1
            if value is None:
                found.nulls += 1
            else:
                found.types[type_of(value)] += 1
    if not fields:
        return None
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "type": (kind := _merged(list(one.types))),
            "not_null": one.seen == count and not one.nulls,
            "seen": one.seen,
            "nulls": one.nulls,
            "types": ", ".join(f"{seen} {times}" for seen, times in one.types.most_common()),
            "drift": (unexpected.get(name, 0) + unexpected.get(name + MISFIT, 0)) or None,
            "ddl": f"{_quoted(name)} {kind}{' NOT NULL' if one.seen == count and not one.nulls else ''}",
        }
        for name, one in fields.items()
    ]
    return Suggestion(", ".join(str(row["ddl"]) for row in rows), rows, count)


def _object(sample: bytes | None) -> dict[str, Any] | None:
    try:
        document = json.loads(sample) if sample is not None else None
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def type_of(value: object) -> str:
    """The narrowest type of Spark that reads a JSON value exactly."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -(2**63) <= value < 2**63 else "decimal(38,0)"
    if isinstance(value, float):
        return "double"
    if isinstance(value, list):
        inner = [type_of(one) for one in value if one is not None]
        return f"array<{_merged(inner)}>"
    if isinstance(value, dict):
        inner_fields = [
            f"{_quoted(name)}: {_merged([type_of(one)] if one is not None else [])}" for name, one in value.items()
        ]
        return f"struct<{', '.join(inner_fields)}>" if inner_fields else "string"
    return _moment(str(value)) or "string"


def _moment(text: str) -> str | None:
    """Whether a text is a date or a timestamp as the strict reader takes them."""
    if len(text) < 10 or not text[:4].isdecimal() or text[4] != "-":
        return None
    try:
        if len(text) == 10:
            date.fromisoformat(text)
            return "date"
        return "timestamp" if datetime.fromisoformat(text).tzinfo is not None else "timestamp_ntz"
    except ValueError:
        return None


def _merged(types: Iterable[str]) -> str:
    """One type for all that were seen."""
    found = set(types)
    if len(found) == 1:
        return found.pop()
    return "double" if found and found <= _NUMBERS else "string"


def _quoted(name: str) -> str:
    plain = name.replace("_", "a").isalnum() and name.isascii() and not name[0].isdecimal()
    return name if plain else "`" + name.replace("`", "``") + "`"
