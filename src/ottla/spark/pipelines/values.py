"""The values of a pipeline.yml by their shape: a text, a list, a choice. What has another shape is an error that names
its place, and not its content: that may be a secret."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ottla.spark.pipelines.errors import PipelineError

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
UNQUOTED = "YAML reads yes, no, on and off without quotes as true or false: put the word in quotes, e.g. 'no'"
_INTERVAL = re.compile(r"(\d+) (millisecond|second|minute|hour|day)s?")
_UNITS_MS = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}


def without_empty(document: object) -> object:
    if isinstance(document, dict):
        return {key: without_empty(value) for key, value in document.items() if value is not None and value != ""}
    return document


def section(document: object, where: str, known: Collection[str]) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise PipelineError(f"{where}: names with values are expected ({', '.join(known)}), not {shape(document)}")
    for key in document:
        if key not in known:
            near = nearest(str(key), known)
            hint = f"did you mean '{near}'? It" if near is not None else "it"
            raise PipelineError(f"{where}: '{key}' is not known; {hint} may have {', '.join(known)}")
    return document


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The name that a misspelled word probably means."""
    return next((name for name in known if is_near(given, name)), None)


def is_near(given: str, name: str) -> bool:
    """Whether a word is a misspelled name: at most one letter in four is wrong, missing, added or swapped."""
    previous, row = list(range(len(name) + 1)), list(range(len(name) + 1))
    for index, letter in enumerate(given):
        before, previous = previous, row
        row = [index + 1]
        for column, other in enumerate(name):
            cost = min(previous[column + 1] + 1, row[column] + 1, previous[column] + (letter != other))
            if index and column and (letter, given[index - 1]) == (name[column - 1], other):
                cost = min(cost, before[column - 1] + 1)
            row.append(cost)
    return row[-1] <= max(1, len(given) // 4)


def shape(value: object) -> str:
    """A description of a wrong value without its content, which may be a secret."""
    if isinstance(value, dict):
        return "names with values"
    return "a list" if isinstance(value, list) else "nothing" if value is None else "a text or a number"


def named(given: Mapping[str, Any], key: str) -> dict[str, object]:
    found = given.get(key) or {}
    if not isinstance(found, dict):
        raise PipelineError(f"{key}: names with their definitions are expected, not {shape(found)}")
    for name in found:
        if isinstance(name, bool):
            raise PipelineError(f"{key}: {UNQUOTED}")
        if not NAME.fullmatch(str(name)):
            raise PipelineError(f"{key}: {name!r} may have letters, digits and '_' only: it is the name of a view")
    return found


def text(given: Mapping[str, Any], key: str, where: str) -> str | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, dict | list):
        raise PipelineError(f"{where}.{key}: a text is expected, not {shape(value)}")
    if isinstance(value, bool):
        raise PipelineError(f"{where}.{key}: a text is expected. {UNQUOTED}")
    return str(value).strip()


def texts(given: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    value = given.get(key, {})
    if not isinstance(value, dict):
        raise PipelineError(f"{where}.{key}: names with texts are expected, not {shape(value)}")
    for name, one in value.items():
        if isinstance(one, dict | list):
            raise PipelineError(f"{where}.{key}.{name}: a text is expected, not {shape(one)}")
    return {str(name): str(one).lower() if isinstance(one, bool) else str(one) for name, one in value.items()}


def listed(given: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = given.get(key, [])
    if not isinstance(value, list):
        raise PipelineError(f"{where}.{key}: a list is expected, such as [first, second], not {shape(value)}")
    if any(isinstance(one, bool) for one in value):
        raise PipelineError(f"{where}.{key}: {UNQUOTED}")
    return tuple(str(one) for one in value if one is not None and one != "")


def flag(given: Mapping[str, Any], key: str, where: str) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        raise PipelineError(f"{where}.{key}: true or false is expected, not {value!r}")
    return value


def choice(given: Mapping[str, Any], key: str, where: str, allowed: tuple[str, ...]) -> str | None:
    value = text(given, key, where)
    if value is not None and value not in allowed:
        raise PipelineError(f"{where}.{key}: {value!r} is none of {', '.join(allowed)}")
    return value


def interval_ms(given: Mapping[str, Any], key: str, where: str) -> int | None:
    """A time such as '5 seconds' in milliseconds."""
    value = text(given, key, where)
    return None if value is None else parse_interval_ms(value, f"{where}.{key}")


def parse_interval_ms(value: str, where: str) -> int:
    found = _INTERVAL.fullmatch(value)
    if found is None:
        raise PipelineError(f"{where}: {value!r} is no time such as '30 seconds', '5 minutes' or '1 hour'")
    return int(found.group(1)) * _UNITS_MS[found.group(2)]


def number(given: Mapping[str, Any], key: str, where: str, least: int = 1) -> int | None:
    """A whole number that is not smaller than `least`."""
    value = text(given, key, where)
    if value is not None and (not value.isdecimal() or int(value) < least):
        raise PipelineError(f"{where}.{key}: a whole number from {least} on is expected, not {value!r}")
    return None if value is None else int(value)
