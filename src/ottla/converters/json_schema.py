"""JSON Schema and Arrow types: which columns a registered schema of JSON values gives, and the schema of columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow

from ottla.converters.errors import ConverterError
from ottla.converters.json_reader import ANY

_DIALECT = "http://json-schema.org/draft-07/schema#"
_FORMATS = {"date-time": pyarrow.timestamp("us", "UTC"), "date": pyarrow.date32()}
_SCALARS = {
    "string": pyarrow.string(),
    "integer": pyarrow.int64(),
    "number": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
}
_CHOICES = ("oneOf", "anyOf", "allOf")
_ANYTHING = pyarrow.large_string()
"""Stands for what may be anything, until it is a field."""


class _Reader:
    def __init__(self, document: Any, others: Mapping[str, Any]) -> None:
        self._document = document
        self._others = others

    def type_of(self, schema: Any, open_: tuple[str, ...] = ()) -> Any:
        """The type of a schema. A schema that names no type, or several, is text: the JSON itself."""
        if not isinstance(schema, Mapping):
            return _ANYTHING
        if "$ref" in schema:
            name = str(schema["$ref"])
            if name in open_:
                raise ConverterError(f"the JSON schema's {name} contains itself, and Spark has no such columns")
            return self.type_of(self._referred(name), (*open_, name))
        choices = [one for key in _CHOICES for one in schema.get(key) or () if not _is_null(one)]
        if choices and "properties" not in schema:
            return self.type_of(choices[0], open_) if len(choices) == 1 else _ANYTHING
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [one for one in kind if one != "null"]
            if sorted(kinds) == ["integer", "number"]:
                kinds = ["number"]
            kind = kinds[0] if len(kinds) == 1 else None
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, open_)
        if kind == "array":
            return pyarrow.list_(_field("element", self.type_of(schema.get("items"), open_)))
        if kind == "string":
            return _FORMATS.get(str(schema.get("format")), pyarrow.string())
        return _SCALARS.get(str(kind), _ANYTHING)

    def _object(self, schema: Mapping[str, Any], open_: tuple[str, ...]) -> Any:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties:
            required = schema.get("required") or ()
            return pyarrow.struct(
                [
                    _field(str(name), self.type_of(one, open_), is_nullable=name not in required or _allows_null(one))
                    for name, one in properties.items()
                ]
            )
        more = schema.get("additionalProperties")
        kind = self.type_of(more if isinstance(more, Mapping) else {}, open_)
        return pyarrow.map_(pyarrow.string(), _field("value", kind))

    def _referred(self, name: str) -> Any:
        place, _, pointer = name.partition("#")
        found = self._others.get(place) if place else self._document
        for step in filter(None, pointer.split("/")):
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, Mapping) else None
        if found is None:
            raise ConverterError(f"the JSON schema refers to {name}, which is not there")
        return found


def _field(name: str, kind: Any, *, is_nullable: bool = True) -> Any:
    if kind == _ANYTHING:
        return pyarrow.field(name, pyarrow.string(), is_nullable, ANY)
    return pyarrow.field(name, kind, is_nullable)


def _allows_null(schema: Any) -> bool:
    """Whether null is a value of a schema, as far as its own words say."""
    if not isinstance(schema, Mapping) or "type" not in schema:
        return True
    return schema["type"] == "null" or (isinstance(schema["type"], list) and "null" in schema["type"])


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def json_columns(text: str, references: Iterable[tuple[str, str]] = ()) -> Any:
    """The struct of the columns that a JSON schema describes, as `json_values` reads it."""
    try:
        document = json.loads(text)
        others = {name: json.loads(one) for name, one in references}
    except ValueError:
        raise ConverterError(f"the JSON schema is not valid JSON: {text[:200]!r}") from None
    kind = _Reader(document, others).type_of(document)
    if not pyarrow.types.is_struct(kind):
        raise ConverterError("the JSON schema describes no object with properties: there would be no columns")
    return kind


def json_schema_of(kind: Any) -> dict[str, Any]:
    """A schema of the JSON that Spark writes for a struct: nulls are left out, so nothing is required."""
    return {"$schema": _DIALECT, **_schema_of(kind)}


def _schema_of(kind: Any) -> dict[str, Any]:
    types = pyarrow.types
    if types.is_struct(kind):
        return {"type": "object", "properties": {field.name: _schema_of(field.type) for field in kind}}
    if types.is_list(kind) or types.is_large_list(kind):
        return {"type": "array", "items": _schema_of(kind.value_type)}
    if types.is_map(kind):
        return {"type": "object", "additionalProperties": _schema_of(kind.item_type)}
    if types.is_boolean(kind):
        return {"type": "boolean"}
    if types.is_integer(kind):
        return {"type": "integer"}
    if types.is_floating(kind) or types.is_decimal(kind):
        return {"type": "number"}
    if types.is_timestamp(kind) or types.is_date(kind):
        return {"type": "string", "format": "date" if types.is_date(kind) else "date-time"}
    return {"type": "string"}
