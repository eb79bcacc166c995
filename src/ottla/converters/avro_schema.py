"""Avro schemas and their Arrow types.

A schema has three of these. Values are read as they are stored (a timestamp is a long), which costs nothing per value;
the stored array is then seen as what it means (milliseconds), and cast to what Spark has (microseconds), both for all
rows at once. Refused are schemas that Spark has no columns for, and those that would let a few bytes claim endless
rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow

from ottla.converters.errors import ConverterError

VALUE = "value"
"""The column of a schema that is no record."""
RECORD_NAME = "topLevelRecord"
MAX_DECIMAL_DIGITS = 38
_PRIMITIVES: dict[str, tuple[Any, int]] = {
    "boolean": (pyarrow.bool_(), 1),
    "int": (pyarrow.int32(), 1),
    "long": (pyarrow.int64(), 1),
    "float": (pyarrow.float32(), 4),
    "double": (pyarrow.float64(), 8),
    "bytes": (pyarrow.binary(), 1),
    "string": (pyarrow.string(), 1),
}
_LOGICAL = {
    ("int", "date"): pyarrow.date32(),
    ("long", "timestamp-millis"): pyarrow.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pyarrow.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pyarrow.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pyarrow.timestamp("ms"),
    ("long", "local-timestamp-micros"): pyarrow.timestamp("us"),
    ("long", "local-timestamp-nanos"): pyarrow.timestamp("ns"),
}
_NAMED = ("record", "error", "enum", "fixed")
_NUMBERS = ("int", "long", "float", "double")
_KEPT = ("aliases", "default", "symbols", "size")


@dataclass(slots=True)
class _Type:
    """A part of a schema: as fastavro is to read it, its three Arrow types, and the fewest bytes it takes."""

    plain: Any
    types: tuple[Any, Any, Any]
    """As it is stored, what that means, and what Spark has for it."""
    size: int


class AvroSchema:
    """A schema that rows can be read and written with."""

    def __init__(self, text: str, references: Iterable[str] = ()) -> None:
        self.text = text
        self._types: dict[str, _Type] = {}
        self._elsewhere: dict[str, tuple[Any, str]] = {}
        self._open: set[str] = set()
        for reference in references:
            self._find_names(_parsed(reference), "")
        made = self._visit(_parsed(text), "")
        self.is_record = pyarrow.types.is_struct(made.types[0])
        self.plain = made.plain
        self.stored, self.meant, self.type = (
            one if self.is_record else pyarrow.struct([(VALUE, one)]) for one in made.types
        )

    def _find_names(self, schema: Any, namespace: str) -> None:
        """Remember the named types of a schema that others refer to."""
        if isinstance(schema, list):
            for one in schema:
                self._find_names(one, namespace)
        elif isinstance(schema, dict):
            if schema.get("type") in _NAMED:
                name, namespace = _full_name(schema, namespace)
                self._elsewhere[name] = (schema, namespace)
            for one in (*schema.get("fields", ()), schema.get("items"), schema.get("values")):
                self._find_names(one.get("type") if isinstance(one, dict) and "name" in one else one, namespace)

    def _visit(self, schema: Any, namespace: str) -> _Type:
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if not isinstance(schema, dict) or "type" not in schema:
            raise ConverterError(f"the Avro schema has {schema!r} where a type is expected")
        kind = schema["type"]
        if not isinstance(kind, str):
            return self._visit(kind, namespace)
        if kind in ("record", "error"):
            return self._record(schema, namespace)
        if kind in ("enum", "fixed"):
            return self._enum_or_fixed(schema, namespace)
        if kind in ("array", "map"):
            return self._array_or_map(schema, namespace)
        if kind in _PRIMITIVES or kind == "null":
            return self._primitive(schema, kind)
        return self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> _Type:
        if name in _PRIMITIVES or name == "null":
            return self._primitive({}, name)
        for full in (name, f"{namespace}.{name}") if "." in name or not namespace else (f"{namespace}.{name}", name):
            if full in self._open:
                raise ConverterError(f"the Avro type {full} contains itself, and Spark has no such columns")
            if full in self._types:
                known = self._types[full]
                return _Type(full, known.types, known.size)
            if full in self._elsewhere:
                schema, its_namespace = self._elsewhere[full]
                return self._visit(schema, its_namespace)
        raise ConverterError(f"the Avro schema names a type {name} that it does not have")

    def _primitive(self, schema: dict[str, Any], kind: str) -> _Type:
        if kind == "null":
            return _Type("null", (pyarrow.null(), pyarrow.null(), pyarrow.string()), 0)
        stored, size = _PRIMITIVES[kind]
        logical = schema.get("logicalType")
        if kind == "bytes" and logical == "decimal":
            return _decimal({"type": "bytes"}, schema, size)
        meant = _LOGICAL.get((kind, logical), stored) if isinstance(logical, str) else stored
        return _Type(kind, (stored, meant, _as_spark_has(meant)), size)

    def _record(self, schema: dict[str, Any], namespace: str) -> _Type:
        name, namespace = _full_name(schema, namespace)
        self._open.add(name)
        fields, types = [], []
        for field in schema.get("fields") or ():
            if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
                raise ConverterError(f"the Avro record {name} has {field!r} where a field is expected")
            try:
                one = self._visit(field["type"], namespace)
            except ConverterError as error:
                raise ConverterError(f"{field['name']}: {error}") from None
            fields.append({"name": field["name"], "type": one.plain, **_kept(field)})
            types.append((field["name"], one))
        self._open.discard(name)
        if not fields:
            raise ConverterError(f"the Avro record {name} has no fields")
        made = _Type(
            {"type": "record", "name": name, "fields": fields, **_kept(schema)},
            _each(lambda index: pyarrow.struct([pyarrow.field(key, one.types[index]) for key, one in types])),
            sum(one.size for _, one in types),
        )
        self._types[name] = made
        return made

    def _enum_or_fixed(self, schema: dict[str, Any], namespace: str) -> _Type:
        name, _ = _full_name(schema, namespace)
        plain = {"type": schema["type"], "name": name, **_kept(schema)}
        if schema["type"] == "enum":
            made = _Type(plain, (pyarrow.string(),) * 3, 1)
        elif schema.get("logicalType") == "decimal":
            made = _decimal(plain, schema, int(schema["size"]))
        else:
            made = _Type(plain, (pyarrow.binary(),) * 3, int(schema.get("size", 0)))
        self._types[name] = made
        return made

    def _array_or_map(self, schema: dict[str, Any], namespace: str) -> _Type:
        is_array = schema["type"] == "array"
        key = "items" if is_array else "values"
        one = self._visit(schema.get(key), namespace)
        if is_array and one.size == 0:
            raise ConverterError("the Avro schema has an array of what takes no bytes: its length could not be checked")
        make = pyarrow.list_ if is_array else _text_map
        return _Type(
            {"type": schema["type"], key: one.plain, **_kept(schema)}, _each(lambda index: make(one.types[index])), 1
        )

    def _union(self, schemas: list[Any], namespace: str) -> _Type:
        parts = [self._visit(one, namespace) for one in schemas]
        plain = [one.plain for one in parts]
        rest = [one for one in parts if one.plain != "null"]
        if len(rest) == 1:
            return _Type(plain, rest[0].types, 1)
        if rest and all(one.plain in _NUMBERS and one.types[0] == one.types[1] for one in rest):
            is_whole = all(one.plain in ("int", "long") for one in rest)
            kind = pyarrow.int64() if is_whole else pyarrow.float64()
            return _Type(plain, (kind, kind, kind), 1)
        names = ", ".join(one if isinstance(one, str) else str(one.get("name", one["type"])) for one in plain)
        raise ConverterError(
            f"the Avro schema has a union of {names}: a column can have one type and null, or several types of numbers"
        )


def _each(make: Callable[[int], Any]) -> tuple[Any, Any, Any]:
    """`make(index)` for each of the three types of a column."""
    return make(0), make(1), make(2)


def _text_map(kind: Any) -> Any:
    return pyarrow.map_(pyarrow.string(), kind)


def _decimal(plain: dict[str, Any], schema: dict[str, Any], size: int) -> _Type:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
        raise ConverterError(f"the Avro decimal {schema!r} has no valid precision and scale")
    if precision > MAX_DECIMAL_DIGITS:
        raise ConverterError(f"an Avro decimal has {precision} digits, and Spark's at most {MAX_DECIMAL_DIGITS}")
    kind = pyarrow.decimal128(precision, scale)
    return _Type({**plain, "logicalType": "decimal", "precision": precision, "scale": scale}, (kind, kind, kind), size)


def _as_spark_has(meant: Any) -> Any:
    return pyarrow.timestamp("us", meant.tz) if pyarrow.types.is_timestamp(meant) else meant


def _kept(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in _KEPT if key in schema}


def _full_name(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    """The name of a type with its namespace, and the namespace that holds inside of it."""
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise ConverterError(f"an Avro {schema['type']} has no name")
    if "." in name:
        return name, name.rpartition(".")[0]
    own = schema.get("namespace", namespace)
    return (f"{own}.{name}" if own else name), own


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.strip() in _PRIMITIVES:
            return text.strip()
        raise ConverterError(f"the Avro schema is not valid JSON: {text[:200]!r}") from None


# --- schemas of Arrow types


_OF_ARROW: list[tuple[Callable[[Any], bool], Any]] = [
    (pyarrow.types.is_boolean, "boolean"),
    (lambda kind: pyarrow.types.is_integer(kind) and kind.bit_width < 64, "int"),
    (pyarrow.types.is_integer, "long"),
    (pyarrow.types.is_float32, "float"),
    (pyarrow.types.is_floating, "double"),
    (lambda kind: pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind), "string"),
    (lambda kind: pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind), "bytes"),
    (pyarrow.types.is_date, {"type": "int", "logicalType": "date"}),
]


def avro_schema_of(kind: Any, name: str = RECORD_NAME) -> dict[str, Any]:
    """A schema for a struct of Arrow: every field may be null, so that fields can be added later."""
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": field.name, "type": ["null", _avro_of(field.type, f"{name}.{field.name}")], "default": None}
            for field in kind
        ],
    }


def _avro_of(kind: Any, name: str) -> Any:
    if pyarrow.types.is_struct(kind):
        return avro_schema_of(kind, name)
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        return {"type": "array", "items": ["null", _avro_of(kind.value_type, f"{name}.element")]}
    if pyarrow.types.is_map(kind):
        return {"type": "map", "values": ["null", _avro_of(kind.item_type, f"{name}.value")]}
    if pyarrow.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pyarrow.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    for is_kind, schema in _OF_ARROW:
        if is_kind(kind):
            return schema
    raise ConverterError(f"{name}: Avro has no type for {kind}: cast the column to another type")
