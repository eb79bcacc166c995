"""How a client's settings are declared and read: one frozen dataclass for each kind of client.

A field is Kafka's name with underscores for dots. `parse` is the door for everything a program gives: names in either
spelling, values typed or as text, as they stand in properties files; whatever is unknown or out of bounds is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Self

from ottla.client.errors import ConfigError

_log = logging.getLogger("ottla.client")
_TRUE, _FALSE = "true", "false"
HIDDEN = "[hidden]"
"""Shown in place of a secret, as Kafka's clients do."""


def setting(
    default: Any = MISSING,
    doc: str = "",
    *,
    low: float | None = None,
    high: float | None = None,
    one_of: tuple[str, ...] | None = None,
    parse: Callable[[Any], Any] | None = None,
    is_secret: bool = False,
) -> Any:
    """A field of a settings class, with its bounds; `parse` reads values of an unusual form. A secret's value is shown
    nowhere."""
    metadata = {"doc": doc, "low": low, "high": high, "one_of": one_of, "parse": parse, "is_secret": is_secret}
    return field(default=default, metadata=metadata, repr=not is_secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Common to all classes of settings."""

    def __post_init__(self) -> None:
        for declared in fields(self):
            _check(declared, getattr(self, declared.name))

    @classmethod
    def unused_names(cls) -> frozenset[str]:
        """Settings of Kafka's own clients that have no meaning here: they are named in a warning."""
        return frozenset()

    @classmethod
    def refused_names(cls) -> Mapping[str, str]:
        """Settings of Kafka's own clients that do not exist here, and what replaces them."""
        return {}

    @classmethod
    def parse(cls, *sources: Mapping[str, Any]) -> Self:
        """The settings of several dicts; a later dict overrides an earlier one."""
        return cls._parse(cls._named(*sources))

    @classmethod
    def _named(cls, *sources: Mapping[str, Any]) -> dict[str, Any]:
        """Field name -> value as given."""
        declared = {one.name for one in fields(cls)}
        given: dict[str, Any] = {}
        for source in sources:
            for name, value in source.items():
                key = name.replace(".", "_")
                if key in declared:
                    given[key] = value
                elif (dotted := _dotted(name)) in cls.unused_names():
                    _log.warning("%s has no effect in this client", name)
                elif dotted in cls.refused_names():
                    raise ConfigError(f"This client does not have the setting {name}: {cls.refused_names()[dotted]}")
                else:
                    _refuse(name, declared)
        return given

    @classmethod
    def _parse(cls, given: Mapping[str, Any]) -> Self:
        values = {}
        for declared in fields(cls):
            if declared.name in given:
                values[declared.name] = _value(declared, given[declared.name])
            elif declared.default is MISSING:
                raise ConfigError(f"{_dotted(declared.name)} has to be set")
        return cls(**values)


def describe(cls: type[Settings]) -> list[tuple[str, object, str]]:
    """Kafka's name, default and meaning of every setting, by name."""
    return sorted(
        (_dotted(one.name), None if one.default is MISSING else one.default, str(one.metadata.get("doc", "")))
        for one in fields(cls)
    )


def _dotted(name: str) -> str:
    return name.replace("_", ".")


def _refuse(name: str, declared: set[str]) -> None:
    from difflib import get_close_matches

    is_dotted = "." in name
    names = sorted(_dotted(one) for one in declared)
    near = get_close_matches(name.replace("_", ".").lower(), names, n=1, cutoff=0.6)
    hint = ""
    if near:
        hint = f"; did you mean {near[0] if is_dotted else near[0].replace('.', '_')}?"
    raise ConfigError(f"Unknown setting {name}{hint}")


def _value(declared: Field[Any], value: Any) -> Any:
    parse = declared.metadata.get("parse")
    if parse is not None:
        try:
            return parse(value)
        except ValueError as error:
            raise _invalid(declared, value, str(error)) from None
    kind = str(declared.type)
    if value is None and kind.endswith("| None"):
        return None
    kind = kind.removesuffix(" | None")
    if kind == "bool":
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in (_TRUE, _FALSE):
            return value.strip().lower() == _TRUE
        raise _invalid(declared, value, "it is true or false")
    if kind == "int":
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        try:
            if isinstance(value, str):
                return int(value.strip())
        except ValueError:
            pass
        raise _invalid(declared, value, "it is a whole number")
    if kind == "str":
        if isinstance(value, str):
            return value.strip()
        raise _invalid(declared, value, "it is a text")
    if kind == "tuple[str, ...]":
        items = value.split(",") if isinstance(value, str) else value
        if isinstance(items, list | tuple) and all(isinstance(item, str) for item in items):
            return tuple(item.strip() for item in items if item.strip())
        raise _invalid(declared, value, "it is a list of texts, or one text with commas")
    return value


def _check(declared: Field[Any], value: Any) -> None:
    if value is None:
        return
    low, high, one_of = (declared.metadata.get(rule) for rule in ("low", "high", "one_of"))
    if low is not None and value < low:
        raise _invalid(declared, value, f"it is at least {low}")
    if high is not None and value > high:
        raise _invalid(declared, value, f"it is at most {high}")
    if one_of is not None and value not in one_of:
        raise _invalid(declared, value, f"it is one of {', '.join(one_of)}")


def _invalid(declared: Field[Any], value: object, reason: str) -> ConfigError:
    shown = HIDDEN if declared.metadata.get("is_secret") else repr(value)
    return ConfigError(f"Invalid value {shown} for {_dotted(declared.name)}: {reason}")
