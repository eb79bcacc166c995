"""One JSON value read with care: slow, exact, and able to say which field is wrong.

`json_kernel` reads the many values that are right and gives up on all others; this reader decides what becomes of
those. So it is the one that defines what is accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]  # the parser of strings that json.loads uses
from typing import Any, NamedTuple

import pyarrow

from ottla.converters.errors import ConverterError
from ottla.converters.json_kinds import MAX_DEPTH
from ottla.converters.scalars import NUMBER, Scalar, Unfit, is_number, scalar_of, shown, sql_name

ANY = {b"ottla.json": b"any"}
"""The metadata of a string field that takes any value: the content of a string, else the JSON text itself."""
MISFIT = " (does not fit)"
"""Appended to the name of a field whose value was rescued, when fields are counted."""
_BLANK = re.compile(r"[ \t\n\r]*")
_KINDS = {'"': "a string", "{": "an object", "[": "an array", "t": "a boolean", "f": "a boolean", "n": "null"}
_LITERALS = ("true", "false", "null")


def with_any_text(one: Any) -> Any:
    """A field whose texts take any value."""
    kind, types = one.type, pyarrow.types
    if types.is_string(kind):
        return one.with_metadata(ANY)
    if types.is_struct(kind):
        return one.with_type(pyarrow.struct([with_any_text(child) for child in kind]))
    if types.is_list(kind):
        return one.with_type(pyarrow.list_(with_any_text(kind.value_field)))
    if types.is_map(kind):
        return one.with_type(pyarrow.map_(kind.key_type, with_any_text(kind.item_field)))
    return one


class Refused(Exception):
    """A value that is not of its schema: where, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = ""

    def within(self, step: str) -> Refused:
        """This refusal with the step to the value put before its path."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{step}{joint}{self.path}"
        return self

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


@dataclass(slots=True)
class Node:
    """A column, or a part of one."""

    type: Any
    is_nullable: bool = True
    is_any: bool = False
    children: Mapping[str, Node] = field(default_factory=dict)
    element: Node | None = None
    read: Scalar = str
    is_quoted: bool = False
    lower_names: Mapping[str, str] = field(default_factory=dict)


def node_of(one: Any, zone: str) -> Node:
    """The node of an Arrow field."""
    kind, types = one.type, pyarrow.types
    made = Node(kind, one.nullable, (one.metadata or {}).get(b"ottla.json") == b"any")
    if types.is_struct(kind):
        made.children = {child.name: node_of(child, zone) for child in kind}
        made.lower_names = {name.lower(): name for name in made.children}
        if len(made.children) != len(kind):
            raise ConverterError(f"the schema has a column twice: {', '.join(child.name for child in kind)}")
    elif types.is_list(kind):
        made.element = node_of(kind.value_field, zone)
    elif types.is_map(kind):
        if not types.is_string(kind.key_type):
            raise ConverterError(f"{sql_name(kind)}: the keys of JSON are strings")
        made.element = node_of(kind.item_field, zone)
    else:
        made.read = scalar_of(kind, zone)
        made.is_quoted = not is_number(kind) and not types.is_boolean(kind)
    return made


@dataclass(slots=True)
class Row:
    """A value that was read."""

    columns: dict[str, Any]
    unexpected: list[str]
    """The paths of fields that the schema does not have, and of fields whose values were rescued."""
    rescued: list[str]
    """Those fields as they were, each with its name."""


class Path(NamedTuple):
    """The way to an object: as it is, and without the numbers of elements and the keys of maps."""

    full: str = ""
    general: str = ""

    def field(self, name: str) -> Path:
        return Path(f"{self.full}{name}.", f"{self.general}{name}.")

    def element(self, index: int) -> Path:
        return Path(f"{self.full.removesuffix('.')}[{index}].", f"{self.general.removesuffix('.')}[].")

    def key(self, name: str) -> Path:
        return Path(f"{self.full}{name}.", f"{self.general}*.")


class JsonReader:
    """Reads values as rows of one struct. `is_open`: a value may have none of the struct's fields. `rescues_values`: a
    field whose value does not fit is null and kept among those that the schema does not have, unless it is NOT NULL."""

    def __init__(self, kind: Any, zone: str = "UTC", *, is_open: bool = False, rescues_values: bool = False) -> None:
        self._root = node_of(pyarrow.field("", kind), zone)
        self._is_open = is_open
        self._rescues_values = rescues_values
        self._text = ""
        self._row = Row({}, [], [])

    def read(self, value: bytes | None) -> Row | None:
        """The row of a value; None for a record without a value. Refused: the value is not of the schema."""
        if value is None:
            self._check_absent(self._root)
            return None
        try:
            text = self._text = value.decode()
        except UnicodeDecodeError as error:
            raise Refused(f"expected UTF-8, got the byte {value[error.start]:#04x} at {error.start}") from None
        self._row = Row({}, [], [])
        start = self._after_blank(0)
        if not text.startswith("{", start):
            raise Refused(f"expected a JSON object, got {self._found(start)}")
        self._row.columns, end = self._object(self._root, start, 1, Path())
        end = self._after_blank(end)
        if end != len(text):
            raise Refused(f"expected nothing after the JSON object, got {shown(text[end:])}")
        return self._row

    def _check_absent(self, node: Node) -> None:
        for name, child in node.children.items():
            if not child.is_nullable:
                raise Refused("expected a value, as the column is NOT NULL; the record has none").within(name)

    # Structure

    def _after_blank(self, position: int) -> int:
        found = _BLANK.match(self._text, position)
        assert found is not None
        return found.end()

    def _found(self, start: int) -> str:
        """Describes the value at a place, for an error."""
        text = self._text[start:]
        if not text:
            return "the end of the value"
        try:
            end = self._skipped(start, 0)
        except (Refused, RecursionError):
            return f"{shown(text)} (no JSON)"
        kind = _KINDS.get(text[0], "a number")
        return f"{shown(self._text[start:end])} ({kind})"

    def _fields(self, start: int) -> Generator[tuple[str, int, int], int, None]:
        """The names of an object's fields, where each begins and where its value does. The reader of a value sends
        its end; the last thing that comes is the object's end, without a name."""
        text = self._text
        position = self._after_blank(start + 1)
        if text.startswith("}", position):
            yield "", -1, position + 1
            return
        while True:
            if not text.startswith('"', position):
                raise Refused(f"expected the name of a field in quotes, got {shown(text[position:]) or 'the end'}")
            begin = position
            name, position = self._string(position)
            position = self._after_blank(position)
            if not text.startswith(":", position):
                raise Refused(f"expected ':' after the name, got {shown(text[position:]) or 'the end'}").within(name)
            position = yield name, begin, self._after_blank(position + 1)
            position = self._after_blank(position)
            if text.startswith("}", position):
                yield "", -1, position + 1
                return
            if not text.startswith(",", position):
                raise Refused(f"expected ',' or '}}', got {shown(text[position:]) or 'the end'}")
            position = self._after_blank(position + 1)

    def _elements(self, start: int) -> Generator[int, int, None]:
        """Where the elements of an array begin; the last thing that comes is the array's end, negative."""
        text = self._text
        position = self._after_blank(start + 1)
        if text.startswith("]", position):
            yield -(position + 1)
            return
        while True:
            position = yield position
            position = self._after_blank(position)
            if text.startswith("]", position):
                yield -(position + 1)
                return
            if not text.startswith(",", position):
                raise Refused(f"expected ',' or ']', got {shown(text[position:]) or 'the end'}")
            position = self._after_blank(position + 1)

    def _string(self, start: int) -> tuple[str, int]:
        try:
            content, end = scanstring(self._text, start + 1, True)
        except JSONDecodeError as error:
            raise Refused(f"expected a JSON string, got {shown(self._text[start:])} ({error.msg})") from None
        return content, end

    def _skipped(self, start: int, depth: int) -> int:
        """The end of a value that may be anything."""
        text = self._text
        mark = text[start : start + 1]
        if mark == '"':
            return self._string(start)[1]
        if mark == "{":
            return self._skipped_object(start, _deeper(depth))
        if mark == "[":
            return self._skipped_array(start, _deeper(depth))
        for literal in _LITERALS:
            if text.startswith(literal, start):
                return start + len(literal)
        number = NUMBER.match(text, start)
        if number is None:
            raise Refused(f"expected a JSON value, got {shown(text[start:]) or 'the end'}")
        return number.end()

    def _skipped_object(self, start: int, depth: int) -> int:
        fields = self._fields(start)
        _, begin, position = next(fields)
        while begin >= 0:
            _, begin, position = fields.send(self._skipped(position, depth))
        return position

    def _skipped_array(self, start: int, depth: int) -> int:
        elements = self._elements(start)
        position = next(elements)
        while position >= 0:
            position = elements.send(self._skipped(position, depth))
        return -position

    # Values of the schema

    def _value(self, node: Node, start: int, depth: int, path: Path) -> tuple[Any, int]:
        text = self._text
        if text.startswith("null", start):
            if not node.is_nullable:
                raise Refused("expected a value, as the column is NOT NULL; got null")
            return None, start + 4
        mark = text[start : start + 1]
        if node.is_any:
            if mark == '"':
                return self._content(start)
            end = self._skipped(start, depth)
            return text[start:end], end
        if node.children or pyarrow.types.is_struct(node.type):
            if mark != "{":
                raise Refused(f"expected an object, got {self._found(start)}")
            return self._object(node, start, _deeper(depth), path)
        if node.element is not None:
            if pyarrow.types.is_map(node.type):
                if mark != "{":
                    raise Refused(f"expected an object for {sql_name(node.type)}, got {self._found(start)}")
                return self._map(node.element, start, _deeper(depth), path)
            if mark != "[":
                raise Refused(f"expected an array for {sql_name(node.type)}, got {self._found(start)}")
            return self._array(node.element, start, _deeper(depth), path)
        return self._scalar(node, start, mark)

    def _scalar(self, node: Node, start: int, mark: str) -> tuple[Any, int]:
        if node.is_quoted:
            if mark != '"':
                name = sql_name(node.type)
                what = "a string" if name == "string" else f"a string for {name}"
                raise Refused(f"expected {what}, got {self._found(start)}")
            content, end = self._content(start)
        else:
            end = self._skipped(start, 0)
            content = self._text[start:end]
            wanted = is_number(node.type)
            if mark in _KINDS and (wanted or mark not in "tf"):
                what = f"a number for {sql_name(node.type)}" if wanted else "true or false"
                raise Refused(f"expected {what}, got {self._found(start)}")
        try:
            return node.read(content), end
        except Unfit as error:
            raise Refused(f"expected {error}, got {shown(self._text[start:end])}") from None

    def _content(self, start: int) -> tuple[str, int]:
        """The content of a string, which UTF-8 can write."""
        content, end = self._string(start)
        try:
            content.encode()
        except UnicodeEncodeError:
            raise Refused(f"expected whole characters, got {shown(self._text[start:end])} (half a pair)") from None
        return content, end

    def _object(self, node: Node, start: int, depth: int, path: Path) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        unexpected: set[str] = set()
        fields = self._fields(start)
        name, begin, position = next(fields)
        while begin >= 0:
            if name in found or name in unexpected:
                raise Refused("expected each field once, got it twice").within(name)
            child = node.children.get(name)
            noted = len(self._row.unexpected), len(self._row.rescued)
            try:
                if child is None:
                    unexpected.add(name)
                    end = self._unexpected(node, name, position, depth, path)
                    self._rescue(name, begin, position, end, path)
                else:
                    found[name], end = self._value(child, position, depth, path.field(name))
            except Refused as refused:
                if not self._rescues_values or (child is not None and not child.is_nullable):
                    raise refused.within(name) from None
                end = self._skipped(position, depth)
                del self._row.unexpected[noted[0] :], self._row.rescued[noted[1] :]
                self._row.unexpected.append(f"{path.general}{name}{MISFIT if child is not None else ''}")
                self._rescue(name, begin, position, end, path)
                if child is not None:
                    found[name] = None
            name, begin, position = fields.send(end)
        if unexpected and not found and node is self._root and not self._is_open:
            raise Refused(f"expected a field of the schema, got only {shown(', '.join(sorted(unexpected)))}")
        for name, child in node.children.items():
            if name not in found:
                if not child.is_nullable:
                    raise Refused("expected a value, as the column is NOT NULL; the field is missing").within(name)
                found[name] = None
        return found, position

    def _rescue(self, name: str, begin: int, position: int, end: int, path: Path) -> None:
        """Keep a field as it is; one of an object within the value by the way to it."""
        kept = f"{json.dumps(path.full + name, ensure_ascii=False)}:{self._text[position:end]}"
        self._row.rescued.append(kept if path.full else self._text[begin:end])

    def _unexpected(self, node: Node, name: str, position: int, depth: int, path: Path) -> int:
        meant = node.lower_names.get(name.lower())
        if meant is not None:
            raise Refused(f"expected the name {meant}, as in the schema: upper and lower case differ")
        self._row.unexpected.append(path.general + name)
        return self._skipped(position, depth)

    def _array(self, element: Node, start: int, depth: int, path: Path) -> tuple[list[Any], int]:
        found: list[Any] = []
        elements = self._elements(start)
        position = next(elements)
        while position >= 0:
            try:
                one, end = self._value(element, position, depth, path.element(len(found)))
            except Refused as refused:
                raise refused.within(f"[{len(found)}]") from None
            found.append(one)
            position = elements.send(end)
        return found, -position

    def _map(self, element: Node, start: int, depth: int, path: Path) -> tuple[list[tuple[str, Any]], int]:
        found: dict[str, Any] = {}
        fields = self._fields(start)
        name, begin, position = next(fields)
        while begin >= 0:
            if name in found:
                raise Refused("expected each field once, got it twice").within(name)
            try:
                self._content(begin)
                found[name], end = self._value(element, position, depth, path.key(name))
            except Refused as refused:
                raise refused.within(name) from None
            name, begin, position = fields.send(end)
        return list(found.items()), position


def _deeper(depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise Refused(f"expected at most {MAX_DEPTH} objects and arrays within each other")
    return depth + 1
