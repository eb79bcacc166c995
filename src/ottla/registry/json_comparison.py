"""Two JSON schemas compared: whether all values of the writer's are values of the reader's.

The rules look at keywords and have the names that Confluent's registry gives them; what they cannot decide counts as a
difference. Patterns are matched with RE2, whose time is bounded.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from ottla.registry.limits import MAX_SHOWN_CHARS, Budget, Difference

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_UPPER = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties")
_LOWER = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties")
_OF_TYPE = {
    "maxLength": "string", "minLength": "string", "pattern": "string", "maximum": "number", "minimum": "number",
    "exclusiveMaximum": "number", "exclusiveMinimum": "number", "multipleOf": "number", "maxItems": "array",
    "minItems": "array", "uniqueItems": "array", "items": "array", "maxProperties": "object", "minProperties": "object",
    "properties": "object", "required": "object", "additionalProperties": "object",
}  # fmt: skip


class Resolves(Protocol):
    """A schema whose references are resolved."""

    def resolved(self, schema: Any) -> Any: ...


class Comparison:
    """The schemas of a reader and of a writer. A comparison below another one spends its budget."""

    def __init__(self, reader: Resolves, writer: Resolves, budget: Budget) -> None:
        self._reader, self._writer = reader, writer
        self._budget = budget
        self._known: dict[tuple[int, int], list[Difference]] = {}
        self._kept: list[Any] = []
        """Schemas made here: an id in `_known` must not come to stand for another object."""
        self._texts: dict[int, dict[str, None]] = {}
        """By the identity of a list of values, or of a const."""

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
            path = path[:MAX_SHOWN_CHARS]
            # a pair that is met again below itself holds if everything else does
            self._known[pair] = []
            self._kept.append((reader, writer))
            self._known[pair] = self._compare(reader, writer, path)
        return self._known[pair]

    def _compare(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        if reader == writer and self._reader is self._writer:
            return []
        self._budget.spend_for(_breadth(reader) + _breadth(writer))
        for word in ("oneOf", "anyOf"):
            choices = writer.get(word)
            if isinstance(choices, list) and choices:
                rest = {name: one for name, one in writer.items() if name != word}
                beside = {name: one for name, one in rest.items() if name in _OF_TYPE or name == "type"}
                found = []
                for index, one in enumerate(choices):
                    self._budget.spend()
                    choice = self._writer.resolved(one)
                    merged = {**beside, **choice} if isinstance(choice, dict) else rest
                    found += self._compare(reader, merged, f"{path}/{word}/{index}")
                return found
        return [*self._combined(reader, writer, path), *self._keywords(reader, writer, path)]

    def _combined(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        found: list[Difference] = []
        for word in ("oneOf", "anyOf"):
            choices = reader.get(word)
            if isinstance(choices, list) and choices:
                # a value of allOf is one of each of its schemas
                given = [writer, *_list(writer, "allOf")]
                fits = any(
                    not self.compare(one, other, f"{path}/{word}/{index}")
                    for index, one in enumerate(choices)
                    for other in given
                )
                if not fits and not self._each_type_fits(choices, writer, f"{path}/{word}"):
                    found.append(_difference("SUM_TYPE_NARROWED", f"{path}/{word}", "has no choice for what was valid"))
        given = [*_list(writer, "allOf"), writer]
        for index, one in enumerate(_list(reader, "allOf")):
            where = f"{path}/allOf/{index}"
            if not any(not self.compare(one, other, where) for other in given):
                found.append(_difference("PRODUCT_TYPE_EXTENDED", where, "refuses what was valid"))
        if "not" in reader and not self._excludes_less(reader["not"], writer.get("not", False)):
            found.append(_difference("NOT_TYPE_EXTENDED", f"{path}/not", "refuses other values than before"))
        if "if" in reader and any(reader.get(word) != writer.get(word) for word in ("if", "then", "else")):
            found.append(_difference("CONDITIONAL_CHANGED", f"{path}/if", "has another condition"))
        return found

    def _excludes_less(self, reader: Any, writer: Any) -> bool:
        """Whether everything that `not` excludes now was excluded before: the comparison the other way round."""
        return not Comparison(self._writer, self._reader, self._budget).compare(writer, reader, "#")

    def _each_type_fits(self, choices: list[Any], writer: dict[str, Any], path: str) -> bool:
        """Whether each type of a schema with several types is an alternative of its own."""
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
        accepted = dict.fromkeys(_types(reader))
        missing = [one for one in types if one not in accepted and not (one == "integer" and "number" in accepted)]
        if missing:
            if reader.get("connect.type") == writer.get("connect.type") == "bytes":
                return found  # a decimal of Connect, as a text or as a number
            rule = "TYPE_CHANGED" if len(missing) == len(types) else "TYPE_NARROWED"
            return [*found, _difference(rule, path, f"no longer accepts {', '.join(missing)[:MAX_SHOWN_CHARS]}")]
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
        allowed, given = self._allowed(reader), self._allowed(writer)
        if allowed is None:
            return []
        if given is None:
            return [_difference("ENUM_ARRAY_CHANGED", f"{path}/enum", "accepts a list of values only, now")]
        missing = [text for text in given if text not in allowed]
        if not missing:
            return []
        shown = f"[{', '.join(text[:200] for text in missing[:100])}]"[:200]
        return [_difference("ENUM_ARRAY_NARROWED", f"{path}/enum", f"no longer accepts {shown}")]

    def _allowed(self, schema: dict[str, Any]) -> dict[str, None] | None:
        """The texts of the only values that a schema accepts; None if it has no list of them."""
        values = schema["const"] if "const" in schema else schema.get("enum")
        if "const" in schema:
            listed = [values]
        elif isinstance(values, list):
            listed = values
        else:
            return None
        found = self._texts.get(id(values))
        if found is None:
            found = self._texts[id(values)] = dict.fromkeys(json.dumps(one, sort_keys=True) for one in listed)
        return found

    def _items(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        found: list[Difference] = []
        if reader.get("uniqueItems") is True and writer.get("uniqueItems") is not True:
            found.append(_difference("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "refuses repeated items"))
        found += self._contains(reader, writer, path)
        mine, theirs = _tuple(reader), _tuple(writer)
        rest, their_rest = _rest(reader), _rest(writer)
        for index in range(max(len(mine), len(theirs))):
            one = mine[index] if index < len(mine) else rest
            other = theirs[index] if index < len(theirs) else their_rest
            found += self.compare(one, other, f"{path}/items/{index}")
        return [*found, *self.compare(rest, their_rest, f"{path}/items")]

    def _contains(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        if "contains" not in reader:
            return []
        where = f"{path}/contains"
        if "contains" not in writer:
            return [_difference("CONTAINS_ADDED", where, "wants items that were not wanted")]
        found = [
            _difference("CONTAINS_CHANGED", where, "wants other items")
            for _ in self.compare(reader["contains"], writer["contains"], where)[:1]
        ]
        least, was_least = reader.get("minContains", 1), writer.get("minContains", 1)
        if _is_number(least) and _is_number(was_least) and least > was_least:
            found.append(
                _difference("MIN_CONTAINS_INCREASED", f"{path}/minContains", f"wants {least}, not {was_least}")
            )
        most, was_most = reader.get("maxContains"), writer.get("maxContains")
        if _is_number(most) and (was_most is None or not _is_number(was_most) or was_most > reader["maxContains"]):
            found.append(_difference("MAX_CONTAINS_DECREASED", f"{path}/maxContains", f"allows {most}"))
        return found

    # Objects

    def _object(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        found: list[Difference] = []
        mine, theirs = mapping(reader, "properties"), mapping(writer, "properties")
        more, their_more = _more(reader), _more(writer)
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
            else:
                found += self._added(schema, writer, name, where)
        for name, schema in theirs.items():
            if name not in mine:
                found += self._removed(schema, reader, name, f"{path}/properties/{name}")
        found += self._patterns(reader, writer, path)
        where = f"{path}/additionalProperties"
        if more is False and their_more is not False:
            found.append(_difference("ADDITIONAL_PROPERTIES_REMOVED", where, "refuses other properties now"))
        elif their_more is not False and self.compare(more, their_more, where):
            found.append(_difference("ADDITIONAL_PROPERTIES_NARROWED", where, "accepts fewer values"))
        if "propertyNames" in reader:
            where = f"{path}/propertyNames"
            if self.compare(reader["propertyNames"], writer.get("propertyNames", True), where):
                found.append(_difference("PROPERTY_NAMES_NARROWED", where, "refuses other names than before"))
        return [*found, *self._dependencies(reader, writer, path)]

    def _added(self, schema: Any, writer: dict[str, Any], name: str, where: str) -> list[Difference]:
        """A property that the writer's schema does not name: what could stand there before?"""
        their_more = _more(writer)
        covering = self._patterns_of(writer, name)
        if covering:
            if any(not self.compare(schema, one, where) for one in covering):
                return []
            rule = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [_difference(rule, where, "refuses what a pattern accepted")]
        if their_more is False or not self.compare(schema, their_more, where):
            return []
        is_open = their_more is True or their_more == {}
        rule = "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL" if is_open else (
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        )  # fmt: skip
        return [_difference(rule, where, "may have had other values")]

    def _removed(self, schema: Any, reader: dict[str, Any], name: str, where: str) -> list[Difference]:
        """A property that the reader's schema does not name: is its value still accepted?"""
        more = _more(reader)
        covering = self._patterns_of(reader, name) or [more]
        if self._writer.resolved(schema) is False or all(not self.compare(one, schema, where) for one in covering):
            return []
        if covering == [False]:
            return [_difference("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", where, "is refused now")]
        rule = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return [_difference(rule, where, "is refused by additionalProperties or a pattern")]

    def _patterns_of(self, schema: dict[str, Any], name: str) -> list[Any]:
        """Schemas that patternProperties has for a name."""
        from ottla.groups.regex import is_found  # imported late: it loads the group coordinator

        found = []
        for pattern, one in mapping(schema, "patternProperties").items():
            self._budget.spend()
            if is_found(pattern, name):
                found.append(one)
        return found

    def _patterns(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        mine, theirs = mapping(reader, "patternProperties"), mapping(writer, "patternProperties")
        found: list[Difference] = []
        for pattern, schema in mine.items():
            where = f"{path}/patternProperties/{pattern}"
            if self.compare(schema, theirs.get(pattern, _more(writer)), where):
                found.append(_difference("PATTERN_PROPERTY_NARROWED", where, "accepts fewer values"))
        for pattern, schema in theirs.items():
            where = f"{path}/patternProperties/{pattern}"
            if pattern not in mine and self.compare(_more(reader), schema, where):
                found.append(_difference("PATTERN_PROPERTY_REMOVED", where, "is refused by additionalProperties"))
        return found

    def _dependencies(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[Difference]:
        """Differences in the properties that a property requires, by all three keywords."""
        found: list[Difference] = []
        theirs = _dependencies(writer)
        for name, wanted in _dependencies(reader).items():
            where, before = f"{path}/dependencies/{name}", theirs.get(name)
            if isinstance(wanted, list):
                if not isinstance(before, list):
                    found.append(_difference("DEPENDENCY_ARRAY_ADDED", where, "wants other properties beside it"))
                elif not set(map(str, wanted)) <= set(map(str, before)):
                    found.append(_difference("DEPENDENCY_ARRAY_EXTENDED", where, "wants more properties beside it"))
            elif before is None or isinstance(before, list):
                found.append(_difference("DEPENDENCY_SCHEMA_ADDED", where, "has conditions that were not there"))
            else:
                found += self.compare(wanted, before, where)
        return found


def _breadth(schema: dict[str, Any]) -> int:
    """How many keywords and elements of keywords a comparison of this schema goes through."""
    return len(schema) + sum(len(one) for one in schema.values() if isinstance(one, dict | list))


def _difference(rule: str, path: str, what: str) -> Difference:
    path = path[:MAX_SHOWN_CHARS]
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
    items = schema.get("items")
    is_tuple = isinstance(items, list) or ("items" not in schema and "prefixItems" not in schema)
    word = "additionalItems" if is_tuple else "items"
    return schema.get(word, schema.get("unevaluatedItems", True))


def _more(schema: dict[str, Any]) -> Any:
    """The schema of properties that have none of their own."""
    return schema.get("additionalProperties", schema.get("unevaluatedProperties", True))


def _list(schema: dict[str, Any], word: str) -> list[Any]:
    found = schema.get(word)
    return found if isinstance(found, list) else []


def _dependencies(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        name: one
        for word in ("dependencies", "dependentRequired", "dependentSchemas")
        for name, one in mapping(schema, word).items()
    }


def mapping(schema: dict[str, Any], word: str) -> dict[str, Any]:
    found = schema.get(word)
    return found if isinstance(found, dict) else {}


def _names(schema: dict[str, Any]) -> dict[str, None]:
    found = schema.get("required")
    return dict.fromkeys(str(one) for one in found) if isinstance(found, list) else {}
