"""A small language for filters of records: `value.amount > 100 and key startswith 'A'`. Python never evaluates it.

A parsed expression is a tree of functions. It is bounded: the text, the depth of the tree, the text that a regular
expression looks at; regular expressions are RE2's, whose time is linear.

`needles` gives texts of which every matching record has at least one in its bytes, so that most records are ruled out
before they become Python objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.groups.regex import check_regex, is_found
from ottla.wire.errors import KafkaError

MAX_LENGTH = 2_000
MAX_DEPTH = 40
MAX_MATCHED = 100_000
MISSING = object()
"""The value of a path that a record does not have: equal only to itself."""

Row = Mapping[str, Any]
Get = Callable[[Row], Any]

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<name>[A-Za-z_$][\w$]*(?:-[A-Za-z_$][\w$]*)*)
    |(?P<sign>==|!=|<=|>=|&&|\|\||[<>()\[\].,!]))""",
    re.VERBOSE,
)
_ROOTS = ("value", "key", "headers", "partition", "offset", "timestamp", "size")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "contains", "startswith", "endswith", "matches")
_FUNCTIONS = ("exists", "len", "lower")
_CONSTANTS = {"true": True, "false": False, "null": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class ExpressionError(ValueError):
    """An error in an expression, with its place."""


class Expression(NamedTuple):
    text: str
    matches: Callable[[Row], bool]
    roots: frozenset[str]
    """The names of `_ROOTS` that the expression uses."""
    needles: tuple[bytes, ...]
    """One of these is in the value of every record that matches, if that value is JSON without escapes; () = not
    known."""


class _Node(NamedTuple):
    get: Get
    literal: Any = MISSING
    root: str | None = None
    """Where a path begins."""
    needles: tuple[bytes, ...] = ()


def parse_expression(text: str) -> Expression:
    """ExpressionError names the error and its place."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression has at most {MAX_LENGTH} characters")
    parser = _Parser(text)
    node = parser.any_of(0)
    parser.expect_end()
    return Expression(text, lambda row: node.get(row) is True, frozenset(parser.roots), node.needles)


def parse_path(text: str) -> tuple[str | int, ...]:
    """The steps of a JSON path such as `$.customer.items[0].id`."""
    given = text.strip()
    if len(given) > MAX_LENGTH:
        raise ExpressionError(f"a path has at most {MAX_LENGTH} characters")
    given = given[1:] if given.startswith("$") else f".{given}"
    steps: list[str | int] = []
    pattern = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\[(?:'([^']*)'|"([^"]*)")\]""")
    place = 0
    while place < len(given):
        found = pattern.match(given, place)
        if found is None:
            raise ExpressionError(f"{text!r} is no path such as $.customer.items[0].id: see character {place + 1}")
        name, index, *quoted = found.groups()
        steps.append(int(index) if index is not None else next(one for one in (name, *quoted) if one is not None))
        place = found.end()
    return tuple(steps)


def follow(found: Any, steps: tuple[str | int, ...]) -> Any:
    """The value at the end of these steps, or MISSING."""
    for step in steps:
        if isinstance(step, int):
            found = found[step] if isinstance(found, list) and step < len(found) else MISSING
        else:
            found = found.get(step, MISSING) if isinstance(found, dict) else MISSING
        if found is MISSING:
            break
    return found


def needles_of(literal: Any) -> tuple[bytes, ...]:
    """The bytes in every JSON text that has this text as a value; () if JSON may write it in several ways."""
    if isinstance(literal, str) and len(literal) > 1 and literal.isascii() and literal.isprintable():
        return () if '"' in literal or "\\" in literal or "/" in literal else (literal.encode(),)
    return ()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self.roots: set[str] = set()
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None:
                raise ExpressionError(f"character {place + 1}: {text[place : place + 10]!r} cannot stand there")
            kind = str(found.lastgroup)
            self._tokens.append((kind, found[kind], found.start(kind)))
            place = found.end()
        self._at = 0

    # Tokens

    def _peek(self) -> tuple[str, str, int]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "", len(self._text))

    def _take(self, *wanted: str) -> bool:
        kind, text, _ = self._peek()
        if kind in ("name", "sign") and text in wanted:
            self._at += 1
            return True
        return False

    def _expect(self, wanted: str) -> None:
        if not self._take(wanted):
            raise self._error(f"{wanted!r} is missing")

    def expect_end(self) -> None:
        if self._peek()[0] != "end":
            raise self._error("the expression should end here, or go on with 'and' or 'or'")

    def _error(self, what: str) -> ExpressionError:
        _, text, place = self._peek()
        return ExpressionError(f"character {place + 1}{f' ({text!r})' if text else ', the end'}: {what}")

    # Grammar

    def any_of(self, depth: int) -> _Node:
        nodes = [self._all_of(depth)]
        while self._take("or", "||"):
            nodes.append(self._all_of(depth))
        if len(nodes) == 1:
            return nodes[0]
        gets = [node.get for node in nodes]
        known = all(node.needles for node in nodes)
        needles = tuple(dict.fromkeys(one for node in nodes for one in node.needles)) if known else ()
        return _Node(lambda row: any(get(row) is True for get in gets), needles=needles)

    def _all_of(self, depth: int) -> _Node:
        nodes = [self._negated(depth)]
        while self._take("and", "&&"):
            nodes.append(self._negated(depth))
        if len(nodes) == 1:
            return nodes[0]
        gets = [node.get for node in nodes]
        needles = max((node.needles for node in nodes if node.needles), key=lambda one: min(map(len, one)), default=())
        return _Node(lambda row: all(get(row) is True for get in gets), needles=needles)

    def _negated(self, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} levels")
        if self._take("not", "!"):
            get = self._negated(depth + 1).get
            return _Node(lambda row: get(row) is not True)
        return self._comparison(depth)

    def _comparison(self, depth: int) -> _Node:
        left = self._operand(depth)
        kind, sign, _ = self._peek()
        if kind == "end" or sign not in _COMPARISONS or kind == "text":
            return left
        self._at += 1
        right = self._operand(depth)
        needles: tuple[bytes, ...] = ()
        if sign in ("==", "contains", "startswith", "endswith") and left.root == "value":
            needles = needles_of(right.literal)
        if sign == "matches":
            return _Node(self._matching(left.get, right.literal))
        return _Node(_compared(sign, left.get, right.get), needles=needles)

    def _matching(self, get: Get, literal: Any) -> Get:
        if not isinstance(literal, str):
            raise self._error("'matches' is followed by a regular expression in quotes")
        try:
            check_regex(literal)
        except KafkaError:
            raise self._error(f"{literal!r} is no regular expression (of RE2)") from None

        def matches(row: Row) -> bool:
            found = get(row)
            return isinstance(found, str) and is_found(literal, found[:MAX_MATCHED])

        return matches

    def _operand(self, depth: int) -> _Node:
        kind, text, _ = self._peek()
        if kind == "end":
            raise self._error("something is missing")
        self._at += 1
        if kind == "number":
            number = float(text) if any(mark in text for mark in ".eE") else int(text)
            return _Node(lambda row: number, number)
        if kind == "text":
            plain = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])
            return _Node(lambda row: plain, plain)
        if text == "(":
            inner = self.any_of(depth + 1)
            self._expect(")")
            return inner
        if text in _CONSTANTS:
            constant = _CONSTANTS[text]
            return _Node(lambda row: constant, constant)
        if text in _FUNCTIONS:
            return self._function(text, depth)
        if text in _ROOTS:
            return self._path(text)
        self._at -= 1
        raise self._error(f"expected {', '.join(_ROOTS)}, a number, a text in quotes or a function")

    def _function(self, name: str, depth: int) -> _Node:
        self._expect("(")
        get = self._operand(depth + 1).get
        self._expect(")")
        if name == "exists":
            return _Node(lambda row: get(row) is not MISSING)
        if name == "lower":
            return _Node(lambda row: found.lower() if isinstance(found := get(row), str) else MISSING)
        return _Node(lambda row: len(found) if isinstance(found := get(row), str | list | dict) else MISSING)

    def _path(self, root: str) -> _Node:
        self.roots.add(root)
        steps: list[str | int] = []
        while True:
            if self._take("."):
                kind, text, _ = self._peek()
                if kind != "name":
                    raise self._error("a name follows a dot")
                steps.append(text)
                self._at += 1
            elif self._take("["):
                kind, text, _ = self._peek()
                if kind == "text":
                    steps.append(text[1:-1])
                elif kind == "number" and text.isdecimal():
                    steps.append(int(text))
                else:
                    raise self._error("brackets hold a number or a name in quotes")
                self._at += 1
                self._expect("]")
            else:
                break
        found = tuple(steps)
        if not found:
            return _Node(lambda row: row[root], root=root)
        return _Node(lambda row: follow(row[root], found), root=root)


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _compared(sign: str, left: Get, right: Get) -> Get:
    """A comparison; of kinds that cannot be compared it is false."""

    def ordered(test: Callable[[Any, Any], bool]) -> Get:
        def compare(row: Row) -> bool:
            one, other = left(row), right(row)
            if (_is_number(one) and _is_number(other)) or (isinstance(one, str) and isinstance(other, str)):
                return test(one, other)
            return False

        return compare

    def texts(test: Callable[[str, str], bool]) -> Get:
        def compare(row: Row) -> bool:
            one, other = left(row), right(row)
            return isinstance(one, str) and isinstance(other, str) and test(one, other)

        return compare

    def contains(row: Row) -> bool:
        one, other = left(row), right(row)
        if isinstance(one, str):
            return isinstance(other, str) and other in one
        if isinstance(one, dict):
            return isinstance(other, str) and other in one
        return isinstance(one, list) and any(_same(item, other) for item in one)

    made: dict[str, Get] = {
        "==": lambda row: _same(left(row), right(row)),
        "!=": lambda row: not _same(left(row), right(row)),
        "<": ordered(lambda one, other: one < other),
        "<=": ordered(lambda one, other: one <= other),
        ">": ordered(lambda one, other: one > other),
        ">=": ordered(lambda one, other: one >= other),
        "startswith": texts(str.startswith),
        "endswith": texts(str.endswith),
        "contains": contains,
    }
    return made[sign]
