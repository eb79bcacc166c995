"""Which schema may follow which, and why not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.registry import formats
from ottla.registry.limits import Unusable
from tests.unit.registry.requests import Registry, field, record

_STRING = {"type": "string"}


def rules(kind: str, reader: Any, writer: Any) -> list[str]:
    new, old = (formats.parse(kind, json.dumps(one)) for one in (reader, writer))
    return [one.rule for one in formats.differences("BACKWARD", new, old)]


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def open_(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


AVRO = [
    ("int", "int", []),
    ("long", "int", []),
    ("double", "long", []),
    ("int", "long", ["TYPE_MISMATCH"]),
    ("bytes", "string", []),
    (["null", "int"], "int", []),
    ("int", ["null", "int"], ["TYPE_MISMATCH"]),
    (["null", "long"], ["null", "int"], []),
    (["null"], ["null", "int"], ["MISSING_UNION_BRANCH"]),
    (record(field("a", "int")), record(), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
    (record(field("a", "int", default=1)), record(), []),
    (record(), record(field("a", "int")), []),
    (record(field("b", "int", aliases=["a"])), record(field("a", "int")), []),
    (record(name="New"), record(name="Old"), ["NAME_MISMATCH"]),
    ({**record(name="New"), "aliases": ["Old"]}, record(name="Old"), []),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, {"type": "enum", "name": "E", "symbols": ["A", "B"]},
     ["MISSING_ENUM_SYMBOLS"]),
    ({"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
     {"type": "enum", "name": "E", "symbols": ["A", "B"]}, []),
    ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, ["FIXED_SIZE_MISMATCH"]),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, []),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, ["TYPE_MISMATCH"]),
    (record(field("next", ["null", "Order"])), record(field("next", ["null", "Order"])), []),
]  # fmt: skip

JSON = [
    ({"type": "number"}, {"type": "integer"}, []),
    ({"type": "integer"}, {"type": "number"}, ["TYPE_CHANGED"]),
    ({"type": ["string", "null"]}, _STRING, []),
    (_STRING, {"type": ["string", "null"]}, ["TYPE_NARROWED"]),
    (open_(a=_STRING), open_(a=_STRING), []),
    (open_(a=_STRING, b=_STRING), open_(a=_STRING), ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (closed(a=_STRING, b=_STRING), closed(a=_STRING), []),
    (closed(a=_STRING), closed(a=_STRING, b=_STRING), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (open_(a=_STRING), open_(a=_STRING, b=_STRING), []),
    ({**closed(a=_STRING), "required": ["a"]}, closed(a=_STRING), ["REQUIRED_ATTRIBUTE_ADDED"]),
    (closed(a=_STRING), {**closed(a=_STRING), "required": ["a"]}, []),
    (closed(), open_(), ["ADDITIONAL_PROPERTIES_REMOVED"]),
    ({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 4}, ["MAX_LENGTH_DECREASED"]),
    ({"type": "string", "maxLength": 3}, _STRING, ["MAX_LENGTH_ADDED"]),
    ({"type": "number", "minimum": 3}, {"type": "number", "minimum": 2}, ["MINIMUM_INCREASED"]),
    ({"type": "string", "pattern": "a"}, _STRING, ["PATTERN_ADDED"]),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}, []),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_NARROWED"]),
    ({"oneOf": [_STRING, {"type": "null"}]}, _STRING, []),
    (_STRING, {"oneOf": [_STRING, {"type": "null"}]}, ["TYPE_CHANGED"]),
    ({"oneOf": [_STRING, {"type": "null"}]}, {"type": "boolean"}, ["SUM_TYPE_NARROWED"]),
    ({"type": "array", "items": _STRING}, {"type": "array", "items": {"type": "integer"}}, ["TYPE_CHANGED"]),
    ({"type": "array", "uniqueItems": True}, {"type": "array"}, ["UNIQUE_ITEMS_ADDED"]),
    ({"anyOf": [_STRING, {"type": "null"}]}, {"allOf": [_STRING, {"maxLength": 3}]}, []),
    ({"oneOf": [_STRING, {"type": "null"}]}, {"allOf": [_STRING, {"maxLength": 3}]}, []),
    ({"additionalItems": False}, {"additionalItems": True}, ["TYPE_NARROWED"]),
    ({"type": "number", "connect.type": "bytes"}, {"type": "string", "connect.type": "bytes"}, []),
    ({"not": {"type": "integer"}}, {"not": {"type": "number"}}, []),
    ({"not": {"type": "number"}}, {"not": {"type": "integer"}}, ["NOT_TYPE_EXTENDED"]),
    ({"if": _STRING, "then": {"maxLength": 3}}, {}, ["CONDITIONAL_CHANGED"]),
    ({"properties": {"a": _STRING, "b": _STRING}}, {"properties": {"a": _STRING}, "unevaluatedProperties": False}, []),
    ({"patternProperties": {"^I_": {"type": "number"}}, "additionalProperties": False},
     {"properties": {"I_1": {"type": "integer"}}, "additionalProperties": False}, []),
    ({"patternProperties": {"^I_": {"type": "number"}}, "additionalProperties": False},
     {"properties": {"I_1": _STRING}, "additionalProperties": False},
     ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"]),
    ({"properties": {"I_1": {"type": "integer"}}, "patternProperties": {"^I_": {}}},
     {"patternProperties": {"^I_": {"type": "number"}}},
     ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"]),
    ({"patternProperties": {"^a": _STRING}}, {}, ["PATTERN_PROPERTY_NARROWED"]),
    ({"additionalProperties": False}, {"patternProperties": {"^a": _STRING}, "additionalProperties": False},
     ["PATTERN_PROPERTY_REMOVED"]),
    ({"propertyNames": {"maxLength": 3}}, {"propertyNames": {"maxLength": 4}}, ["PROPERTY_NAMES_NARROWED"]),
    ({"dependencies": {"a": ["b"]}}, {"dependentRequired": {"a": ["b", "c"]}}, []),
    ({"dependencies": {"a": ["b", "c"]}}, {"dependencies": {"a": ["b"]}}, ["DEPENDENCY_ARRAY_EXTENDED"]),
    ({"dependentSchemas": {"a": _STRING}}, {}, ["DEPENDENCY_SCHEMA_ADDED"]),
    ({"type": "array", "contains": _STRING, "minContains": 2}, {"type": "array", "contains": _STRING},
     ["MIN_CONTAINS_INCREASED"]),
    ({"type": "array", "contains": _STRING, "maxContains": 2}, {"type": "array", "contains": _STRING},
     ["MAX_CONTAINS_DECREASED"]),
    (closed(), {**closed(a=False)}, []),
    ({"type": "array", "prefixItems": [_STRING], "unevaluatedItems": _STRING},
     {"type": "array", "prefixItems": [_STRING, {"type": "number"}], "unevaluatedItems": _STRING}, ["TYPE_CHANGED"]),
    (True, _STRING, []),
    (False, _STRING, ["TYPE_NARROWED"]),
    ({"$ref": "#/definitions/n", "definitions": {"n": open_(next={"$ref": "#/definitions/n"})}},
     {"$ref": "#/definitions/n", "definitions": {"n": open_(next={"$ref": "#/definitions/n"})}}, []),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer", "expected"), AVRO)
def test_avro_follows_the_rules_of_schema_resolution(reader: Any, writer: Any, expected: list[str]) -> None:
    assert rules("AVRO", reader, writer) == expected


@pytest.mark.parametrize(("reader", "writer", "expected"), JSON)
def test_json_schema_accepts_what_was_accepted(reader: Any, writer: Any, expected: list[str]) -> None:
    assert rules("JSON", reader, writer) == expected


def test_levels_reach_as_far_as_they_say() -> None:
    one, two, three = (
        record(field("a", "int")), record(field("a", "int"), field("b", "int", default=0)), record(field("b", "int")),
    )  # fmt: skip
    for level, is_allowed in (
        ("NONE", True), ("BACKWARD", True), ("BACKWARD_TRANSITIVE", False), ("FORWARD", False), ("FULL", False),
    ):  # fmt: skip
        registry = Registry()
        registry.register("s", one)
        registry.register("s", two)
        registry.ask("PUT", "/config/s", {"compatibility": level})
        path = "/compatibility/subjects/s/versions?verbose=true"
        found = registry.ask("POST", path, {"schema": json.dumps(three)})
        assert found["is_compatible"] is is_allowed, level
        assert bool(found["messages"]) is not is_allowed
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in found["messages"][0] and "/fields/" in found["messages"][0]


def test_a_compatibility_group_is_compared_within_itself() -> None:
    registry = Registry()
    registry.ask("PUT", "/config/s", {"compatibilityGroup": "major"})
    registry.register("s", '"int"', metadata={"properties": {"major": "1"}})
    assert registry.register("s", '"string"', metadata={"properties": {"major": "2"}}) == 2


def test_avro_is_written_as_avro_writes_it_and_normalised() -> None:
    text = '{"fields": [{"type": {"type": "string"}, "name": "a", "z": 1, "doc": "d"}], "name": "x.R", "type":"record"}'
    schema = formats.parse("AVRO", text)
    assert schema.canonical() == (
        '{"type":"record","name":"R","namespace":"x","fields":[{"name":"a","type":"string","doc":"d","z":1}]}'
    )
    assert schema.canonical(is_normalized=True).startswith('{"type":"record","name":"x.R"')


def test_exponential_comparisons_end() -> None:
    def nested(bound: str) -> str:
        parts: dict[str, Any] = {"n0": {"type": "string" if bound == "maxItems" else "integer"}}
        for depth in range(1, 40):
            item = {"$ref": f"#/definitions/n{depth - 1}"}
            array = {"type": "array", "items": item}
            parts[f"n{depth}"] = {"anyOf": [array, {**array, bound: depth}]}
        return json.dumps({"$ref": "#/definitions/n39", "definitions": parts})

    new, old = formats.parse("JSON", nested("maxItems")), formats.parse("JSON", nested("minItems"))
    try:
        assert formats.differences("BACKWARD", new, old)
    except Unusable as error:
        assert "steps" in str(error)
