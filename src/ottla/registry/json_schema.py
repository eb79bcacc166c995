"""JSON Schema: parsed, in canonical form, and compared: whether all values of one schema are values of another.

A schema is compatible as the reader's if it accepts everything that the writer's accepts. The rules look at keywords,
as Confluent's registry does; what they cannot decide counts as a difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.registry.limits import MAX_DEPTH, MAX_NODE_COUNT, Budget, Difference, Unusable

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_DATA = ("const", "enum", "default", "examples")
_UPPER = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties")
_LOWER = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties")
_OF_TYPE = {
    "maxLength": "string", "minLength": "string", "pattern": "string", "maximum": "number", "minimum": "number",
    "exclusiveMaximum": "number", "exclusiveMinimum": "number", "multipleOf": "number", "maxItems": "array",
    "minItems": "array", "uniqueItems": "array", "items": "array", "maxProperties": "object", "minProperties": "object",
    "properties": "object", "required": "object", "additionalProperties": "object",
}  # fmt: skip
_MAX_REFERENCE_STEPS = 100


class JsonSchema:
    """A schema, and those that it refers to by name."""

    kind = "JSON"

    def __init__(self, text: str, references: Mapping[str, str] | None = None) -> None:
        self.document = _load(text)
        self._others = {name: _load(one) for name, one in (references or {}).items()}
        if not isinstance(self.document, dict | bool):
            raise Unusable("a JSON schema is an object or a boolean")
        self._homes: dict[int, Any] = {}
        count = 0
        for root in (self.document, *self._others.values()):
            for node, _ in _nodes(root, 0):
                count += 1
                if count > MAX_NODE_COUNT:
                    raise Unusable(f"the schema has more than {MAX_NODE_COUNT} parts")
                if isinstance(node, dict):
                    self._homes[id(node)] = root
                    _check(node)
        for node, _ in _nodes(self.document, 0):
            if isinstance(node, dict) and "$ref" in node:
                self.resolved(node)

    def canonical(self, *, is_normalized: bool = False) -> str:
        return json.dumps(self.document, separators=(",", ":"), ensure_ascii=False, sort_keys=is_normalized)

    def differences_from_writer(self, writer: JsonSchema) -> list[Difference]:
        """Why this schema refuses values that another accepts; empty: it accepts all of them."""
        return _Comparison(self, writer).compare(self.document, writer.document, "#")

    def resolved(self, schema: Any) -> Any:
        """A schema without `$ref`."""
        for _ in range(_MAX_REFERENCE_STEPS):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            schema = self._referred(schema["$ref"], self._homes.get(id(schema), self.document))
        raise Unusable("$ref goes in a circle")

    def _referred(self, reference: str, home: Any) -> Any:
        place, _, pointer = reference.partition("#")
        found = home
        if place:
            base = home.get("$id", "") if isinstance(home, dict) else ""
            known = {place: place, place.removeprefix("./"): place, f"{str(base).rpartition('/')[0]}/{place}": place}
            name = next((one for one in known if one in self._others), None)
            if name is None:
                if place != base:
                    raise Unusable(f"unresolvable reference {reference[:200]}")
            else:
                found = self._others[name]
        if pointer and not pointer.startswith("/"):
            return self._anchored(pointer, found)
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdecimal() and len(step) < 6 and int(step) < len(found):
                found = found[int(step)]
            else:
                raise Unusable(f"unresolvable reference {reference[:200]}")
        if not isinstance(found, dict | bool):
            raise Unusable(f"the reference {reference[:200]} is to no schema")
        return found

    def _anchored(self, name: str, root: Any) -> Any:
        for node, _ in _nodes(root, 0):
            if isinstance(node, dict) and (node.get("$anchor") == name or node.get("$id") == f"#{name}"):
                return node
        raise Unusable(f"unresolvable reference #{name[:200]}")


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Unusable(f"Invalid JSON: {error}"[:300]) from None
    except RecursionError:
        raise Unusable(f"the schema is nested more than {MAX_DEPTH} levels deep") from None


def _nodes(node: Any, depth: int) -> Iterator[tuple[Any, int]]:
    """Every part of a schema that may be a schema, without values such as those of enum."""
    if depth > MAX_DEPTH:
        raise Unusable(f"the schema is nested more than {MAX_DEPTH} levels deep")
    yield node, depth
    if isinstance(node, dict):
        for name, one in node.items():
            if isinstance(one, dict | list) and name not in _DATA:
                yield from _nodes(one, depth + 1)
    elif isinstance(node, list):
        for one in node:
            if isinstance(one, dict | list):
                yield from _nodes(one, depth + 1)


def _check(node: dict[str, Any]) -> None:
    """Refuse a keyword whose value cannot be meant: only where it is certain that it is a keyword."""
    kind = node.get("type")
    if isinstance(kind, str) and kind not in TYPES and ("properties" in node or "$schema" in node):
        raise Unusable(f"unknown type {kind[:100]!r}")
    if "$schema" in node and isinstance(kind, int | float):
        raise Unusable("type is no name of a type")


class _Comparison:
    def __init__(self, reader: JsonSchema, writer: JsonSchema) -> None:
        self._reader, self._writer = reader, writer
        self._budget = Budget()
        self._known: dict[tuple[int, int], list[Difference]] = {}
        self._kept: list[Any] = []
        """Schemas made here: an id in `_known` must not come to stand for another object."""

    def compare(self, reader: Any, writer: Any, path: str) -> list[Difference]:
        self._budget.spend()
        reader, writer = self._reader.resolved(reader), self._writer.resolved(writer)
        if reader is True or reader == {} or writer is False:
            return []
        if reader is False:
            return [_difference("TYPE_NARROWED", path, "no value is accepted any more")]
        if not isinstance(reader, dict) or not isinstance(writer, dict | bool):
            return [_difference("TYPE_CHANGED", path, "is no schema")]
        writer = {} if writer is True else writer
        pair = (id(reader), id(writer))
        if pair not in self._known:
            # a pair that is met again below itself holds if everything else does
            self._known[pair] = []
            self._kept.append((reader, writer))
            self._known[pair] = self._compare(reader, writer, path)
        return self._known[pair]

    def _compare(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        if reader == writer and self._reader is self._writer:
            return []
        for word in ("oneOf", "anyOf"):
            choices = writer.get(word)
            if isinstance(choices, list) and choices:
                rest = {name: one for name, one in writer.items() if name != word}
                found = []
                for index, one in enumerate(choices):
                    merged = self._merged(rest, one)
                    found += self._compare(reader, merged, f"{path}/{word}/{index}")
                return found
        return [*self._combined(reader, writer, path), *self._keywords(reader, writer, path)]

    def _merged(self, rest: dict[str, Any], choice: Any) -> dict[str, Any]:
        """A choice with the keywords that stand beside it."""
        choice = self._writer.resolved(choice)
        if not isinstance(choice, dict):
            return rest
        return {**{name: one for name, one in rest.items() if name in _OF_TYPE or name == "type"}, **choice}

    def _combined(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        found: list[Difference] = []
        for word in ("oneOf", "anyOf"):
            choices = reader.get(word)
            if isinstance(choices, list) and choices:
                fits = any(not self.compare(one, writer, f"{path}/{word}/{i}") for i, one in enumerate(choices))
                if not fits and not self._each_type_fits(choices, writer, f"{path}/{word}"):
                    found.append(_difference("SUM_TYPE_NARROWED", f"{path}/{word}", "has no choice for what was valid"))
        conjuncts = reader.get("allOf")
        if isinstance(conjuncts, list):
            given = [*(writer.get("allOf") or ()), writer]
            for index, one in enumerate(conjuncts):
                where = f"{path}/allOf/{index}"
                if not any(not self.compare(one, other, where) for other in given):
                    found.append(_difference("PRODUCT_TYPE_EXTENDED", where, "refuses what was valid"))
        if "not" in reader and reader["not"] != writer.get("not"):
            found.append(_difference("NOT_TYPE_EXTENDED", f"{path}/not", "refuses other values than before"))
        return found

    def _each_type_fits(self, choices: list[Any], writer: dict[str, Any], path: str) -> bool:
        """Whether each type of a schema that allows several has a choice of its own."""
        types = _types(writer)
        if "type" not in writer or len(types) < 2:
            return False
        return all(
            any(not self.compare(one, {**writer, "type": kind}, f"{path}/{index}") for index, one in enumerate(choices))
            for kind in types
        )

    def _keywords(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        types = _types(writer) if "type" in writer or "enum" not in writer else _types_of_values(writer["enum"])
        found = self._values(reader, writer, path)
        accepted = _types(reader)
        missing = [one for one in types if one not in accepted and not (one == "integer" and "number" in accepted)]
        if missing:
            rule = "TYPE_CHANGED" if len(missing) == len(types) else "TYPE_NARROWED"
            return [*found, _difference(rule, path, f"no longer accepts {', '.join(missing)}")]
        if "string" in types and "pattern" in reader and reader["pattern"] != writer.get("pattern"):
            rule = "PATTERN_CHANGED" if "pattern" in writer else "PATTERN_ADDED"
            found.append(_difference(rule, f"{path}/pattern", "refuses other texts than before"))
        is_number = "number" in types or "integer" in types
        if is_number and "multipleOf" in reader and not _divides(reader["multipleOf"], writer.get("multipleOf")):
            found.append(_difference("MULTIPLE_OF_CHANGED", f"{path}/multipleOf", "refuses other numbers than before"))
        for word in (*_UPPER, *_LOWER):
            kind = _OF_TYPE[word]
            if (is_number if kind == "number" else kind in types) and word in reader:
                found += _bound(reader, writer, word, path)
        if "array" in types:
            found += self._items(reader, writer, path)
        if "object" in types:
            found += self._object(reader, writer, path)
        return found

    def _values(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        allowed = [reader["const"]] if "const" in reader else reader.get("enum")
        if not isinstance(allowed, list):
            return []
        given = [writer["const"]] if "const" in writer else writer.get("enum")
        if not isinstance(given, list):
            return [_difference("ENUM_ARRAY_CHANGED", f"{path}/enum", "accepts a list of values only, now")]
        texts = {json.dumps(one, sort_keys=True) for one in allowed}
        missing = [one for one in given if json.dumps(one, sort_keys=True) not in texts]
        if not missing:
            return []
        return [_difference("ENUM_ARRAY_NARROWED", f"{path}/enum", f"no longer accepts {json.dumps(missing)[:200]}")]

    def _items(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        found: list[Difference] = []
        if reader.get("uniqueItems") is True and writer.get("uniqueItems") is not True:
            found.append(_difference("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "refuses repeated items"))
        mine, theirs = _tuple(reader), _tuple(writer)
        rest, their_rest = _rest(reader), _rest(writer)
        for index in range(max(len(mine), len(theirs))):
            one = mine[index] if index < len(mine) else rest
            other = theirs[index] if index < len(theirs) else their_rest
            found += self.compare(one, other, f"{path}/items/{index}")
        return [*found, *self.compare(rest, their_rest, f"{path}/items")]

    def _object(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        found: list[Difference] = []
        mine, theirs = _mapping(reader, "properties"), _mapping(writer, "properties")
        more, their_more = reader.get("additionalProperties", True), writer.get("additionalProperties", True)
        required, were_required = _names(reader), _names(writer)
        for name in required:
            schema = mine.get(name)
            has_default = isinstance(schema, dict) and "default" in schema
            if name not in were_required and not has_default:
                where = f"{path}/required/{name}"
                found.append(_difference("REQUIRED_ATTRIBUTE_ADDED", where, "is required and was not"))
        for name, schema in mine.items():
            where = f"{path}/properties/{name}"
            if name in theirs:
                found += self.compare(schema, theirs[name], where)
            elif _matches_pattern(writer, name):
                continue
            elif their_more is not False and self.compare(schema, their_more, where):
                is_open = their_more is True or their_more == {}
                kind = "OPEN" if is_open else "PARTIALLY_OPEN"
                found.append(_difference(f"PROPERTY_ADDED_TO_{kind}_CONTENT_MODEL", where, "may have had other values"))
        for name, schema in theirs.items():
            if name in mine or _matches_pattern(reader, name):
                continue
            where = f"{path}/properties/{name}"
            if more is False:
                found.append(_difference("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", where, "is refused now"))
            elif self.compare(more, schema, where):
                rule = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                found.append(_difference(rule, where, "is refused by additionalProperties"))
        if more is False and their_more is not False:
            where = f"{path}/additionalProperties"
            found.append(_difference("ADDITIONAL_PROPERTIES_REMOVED", where, "refuses other properties now"))
        elif their_more is not False and self.compare(more, their_more, f"{path}/additionalProperties"):
            where = f"{path}/additionalProperties"
            found.append(_difference("ADDITIONAL_PROPERTIES_NARROWED", where, "accepts fewer values"))
        return found


def _difference(rule: str, path: str, what: str) -> Difference:
    return Difference(rule, path, f"The reader's schema at path '{path}' {what}")


def _types(schema: dict[str, Any]) -> list[str]:
    kind = schema.get("type")
    found = [kind] if isinstance(kind, str) else [str(one) for one in kind] if isinstance(kind, list) else list(TYPES)
    return [one for one in found if one != "integer"] if "number" in found else found


def _types_of_values(values: Any) -> list[str]:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    found = {names.get(type(one), "null") for one in values} if isinstance(values, list) else set(TYPES)
    return sorted(found)


def _bound(reader: dict[str, Any], writer: dict[str, Any], word: str, path: str) -> list[Difference]:
    """A limit that is new, or tighter."""
    mine, theirs = reader[word], writer.get(word)
    shown = "".join(f"_{one}" if one.isupper() else one for one in word).upper()
    if not _is_number(mine):
        return [] if mine is False or mine == theirs else [_difference(f"{shown}_CHANGED", f"{path}/{word}", "differs")]
    if word in ("minLength", "minItems", "minProperties") and mine <= 0:
        return []
    if not _is_number(theirs):
        return [_difference(f"{shown}_ADDED", f"{path}/{word}", f"has a new limit of {mine}")]
    if word in _UPPER and mine < theirs:
        return [_difference(f"{shown}_DECREASED", f"{path}/{word}", f"has a limit of {mine}, which was {theirs}")]
    if word in _LOWER and mine > theirs:
        return [_difference(f"{shown}_INCREASED", f"{path}/{word}", f"has a limit of {mine}, which was {theirs}")]
    return []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _divides(mine: Any, theirs: Any) -> bool:
    if not _is_number(mine) or not _is_number(theirs) or mine == 0:
        return bool(mine == theirs)
    return bool(theirs % mine == 0)


def _tuple(schema: dict[str, Any]) -> list[Any]:
    found = schema.get("prefixItems", schema.get("items"))
    return found if isinstance(found, list) else []


def _rest(schema: dict[str, Any]) -> Any:
    """The schema of items behind the tuple."""
    items = schema.get("items", True)
    return schema.get("additionalItems", True) if isinstance(items, list) else items


def _mapping(schema: dict[str, Any], word: str) -> dict[str, Any]:
    found = schema.get(word)
    return found if isinstance(found, dict) else {}


def _names(schema: dict[str, Any]) -> list[str]:
    found = schema.get("required")
    return [str(one) for one in found] if isinstance(found, list) else []


def _matches_pattern(schema: dict[str, Any], name: str) -> bool:
    """Whether patternProperties names this property literally. A client's patterns are never run: they may not end."""
    return any(pattern.strip("^$") == name for pattern in _mapping(schema, "patternProperties"))
