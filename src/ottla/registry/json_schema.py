"""JSON Schema: parsed, in canonical form, and compared: whether all values of one schema are values of another.

A schema is compatible as the reader's if it accepts everything that the writer's accepts (`json_comparison`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.registry.json_comparison import TYPES, Comparison, mapping
from ottla.registry.limits import MAX_DEPTH, MAX_NODE_COUNT, Budget, Difference, Unusable, parse_document

_DATA = ("const", "enum", "default", "examples")
_MAX_REFERENCE_STEPS = 100


class JsonSchema:
    """A schema, and the schemas that it refers to, by name."""

    kind = "JSON"
    complaint = ""

    def __init__(self, text: str, references: Mapping[str, str] | None = None) -> None:
        self.document = _load(text)
        self._others = {name: _load(one) for name, one in (references or {}).items()}
        if not isinstance(self.document, dict | bool):
            raise Unusable("a JSON schema is an object or a boolean")
        self._homes: dict[int, Any] = {}
        self._anchors: dict[int, dict[str, Any]] = {}
        """Of each document, by its identity."""
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

    def differences_from_writer(self, writer: JsonSchema, budget: Budget) -> list[Difference]:
        """Why this schema refuses values that another accepts; empty: it accepts all of them."""
        return Comparison(self, writer, budget).compare(self.document, writer.document, "#")

    def top_level_fields(self) -> set[str]:
        """Names of the properties of an object."""
        root = self.resolved(self.document)
        return set(mapping(root, "properties")) if isinstance(root, dict) else set()

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
        if id(root) not in self._anchors:
            self._anchors[id(root)] = _anchors_of(root)
        found = self._anchors[id(root)].get(name)
        if found is None:
            raise Unusable(f"unresolvable reference #{name[:200]}")
        return found


def _load(text: str) -> Any:
    try:
        return parse_document(text)
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


def _anchors_of(root: Any) -> dict[str, Any]:
    """The first part of a document with each name."""
    found: dict[str, Any] = {}
    for node, _ in _nodes(root, 0):
        if isinstance(node, dict):
            anchor, id_ = node.get("$anchor"), node.get("$id")
            names = [anchor] if isinstance(anchor, str) else []
            if isinstance(id_, str) and id_.startswith("#"):
                names.append(id_.removeprefix("#"))
            for name in names:
                found.setdefault(name, node)
    return found


def _check(node: dict[str, Any]) -> None:
    """Refuse a keyword with an impossible value, but only if it is certainly a keyword."""
    kind = node.get("type")
    if isinstance(kind, str) and kind not in TYPES and ("properties" in node or "$schema" in node):
        raise Unusable(f"unknown type {kind[:100]!r}")
    if "$schema" in node and isinstance(kind, int | float):
        raise Unusable("type is no name of a type")
