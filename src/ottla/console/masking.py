"""Fields that the console hides from every user: rules `[TOPIC-PATTERN:]WHAT`.

WHAT is `$.card.number` (a path in the value), `**.ssn` or `ssn` (this name at any depth), `key` (the whole key),
`value` (the whole value) or `headers.NAME`. A value that a rule may apply to and that is not valid
JSON is masked as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ottla.console.expression import ExpressionError, parse_path

MASK = "***"


@dataclass(frozen=True, slots=True)
class Mask:
    """The masked parts of the records of one topic."""

    is_key: bool = False
    is_value: bool = False
    headers: frozenset[str] = frozenset()
    paths: tuple[tuple[str | int, ...], ...] = ()
    names: frozenset[str] = frozenset()

    @property
    def touches_value(self) -> bool:
        return self.is_value or bool(self.paths or self.names)

    def masked(self, found: Any) -> Any:
        """A JSON value without its masked parts."""
        if self.is_value:
            return MASK
        for path in self.paths:
            found = _without_path(found, path)
        return _without_names(found, self.names) if self.names else found


@dataclass(frozen=True, slots=True)
class Rule:
    topics: str
    what: str


class Masking:
    """The rules in force."""

    def __init__(self, rules: Iterable[str] = ()) -> None:
        self.texts = tuple(rules)
        self._rules = [parse_rule(text) for text in self.texts]

    def of(self, topic: str) -> Mask | None:
        """The masks of this topic; None if it has none."""
        rules = [rule.what for rule in self._rules if fnmatchcase(topic, rule.topics)]
        if not rules:
            return None
        paths = [parse_path(one) for one in rules if one.startswith("$")]
        names = [
            one.removeprefix("**.") for one in rules if not one.startswith(("$", "headers.")) and one not in _WHOLE
        ]
        return Mask(
            "key" in rules,
            "value" in rules,
            frozenset(one.removeprefix("headers.") for one in rules if one.startswith("headers.")),
            tuple(paths),
            frozenset(names),
        )


_WHOLE = ("key", "value")


def parse_rule(text: str) -> Rule:
    """ValueError describes the syntax of a rule."""
    topics, colon, what = text.strip().rpartition(":")
    if not what or (colon and not topics):
        raise ValueError(f"{text!r} is no masking rule: [TOPIC-PATTERN:]$.path, NAME, key, value or headers.NAME")
    if what.startswith("$"):
        try:
            parse_path(what)
        except ExpressionError as error:
            raise ValueError(str(error)) from None
    return Rule(topics or "*", what)


def _without_path(found: Any, path: tuple[str | int, ...]) -> Any:
    if not path:
        return MASK
    step, rest = path[0], path[1:]
    if isinstance(found, list):
        if isinstance(step, int):
            return [_without_path(one, rest) if place == step else one for place, one in enumerate(found)]
        return [_without_path(one, path) for one in found]
    if isinstance(found, dict) and step in found:
        return {name: _without_path(one, rest) if name == step else one for name, one in found.items()}
    return found


def _without_names(found: Any, names: frozenset[str]) -> Any:
    if isinstance(found, dict):
        return {name: MASK if name in names else _without_names(one, names) for name, one in found.items()}
    return [_without_names(one, names) for one in found] if isinstance(found, list) else found
