"""Avro schemas: parsed, in canonical form, and compared as reader and writer (Avro's resolution rules).

A parsed schema is a tree of `Type`, in which a name stands for the one `Type` of that name, so a recursive schema is
finite. Comparison visits each pair of named types once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ottla.registry.limits import (
    MAX_DEPTH,
    MAX_NODE_COUNT,
    MAX_SHOWN_CHARS,
    Budget,
    Difference,
    Unusable,
    parse_document,
)

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS = ("ascending", "descending", "ignore")
_STANDARD = {"type", "name", "namespace", "doc", "fields", "items", "values", "symbols", "size", "aliases", "default"}
_FIELD_STANDARD = {"type", "name", "doc", "default", "order", "aliases"}
_MISSING = object()


@dataclass(slots=True, eq=False)
class Field:
    name: str
    type: Type
    doc: Any = None
    default: Any = _MISSING
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        return self.default is not _MISSING


@dataclass(slots=True, eq=False)
class Type:
    kind: str
    name: str = ""
    doc: Any = None
    fields: list[Field] = field(default_factory=list)
    inner: list[Type] = field(default_factory=list)
    """The item of an array, the value of a map, the branches of a union."""
    symbols: dict[str, None] = field(default_factory=dict)
    default: Any = None
    size: int = 0
    aliases: tuple[str, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)


class AvroSchema:
    """A schema and the named types that its references bring.

    Names and defaults that Avro's specification forbids are a `complaint`, no error: other registries took them.
    """

    kind = "AVRO"

    def __init__(self, text: str, references: Iterable[str] = ()) -> None:
        self._budget = Budget(what="checking the defaults")
        self.complaint = ""
        self._names: dict[str, Type] = {}
        self._node_count = 0
        for one in references:
            self._parse(_document(one), "", 0)
        self._given = set(self._names)
        self.complaint = ""  # references are registered already
        self.type = self._parse(_document(text), "", 0)

    # Parsing

    def _parse(self, schema: Any, namespace: str, depth: int) -> Type:
        self._node_count += 1
        if depth > MAX_DEPTH:
            raise Unusable(f"the schema is nested more than {MAX_DEPTH} levels deep")
        if self._node_count > MAX_NODE_COUNT:
            raise Unusable(f"the schema has more than {MAX_NODE_COUNT} types")
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return Type(schema)
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace, depth)
        if not isinstance(schema, dict) or "type" not in schema:
            raise Unusable(f"No type: {json.dumps(schema)[:200]}")
        kind = schema["type"]
        properties = {name: value for name, value in schema.items() if name not in _STANDARD}
        if not isinstance(kind, str):
            return self._parse(kind, namespace, depth + 1)
        if kind in PRIMITIVES:
            return Type(kind, properties=properties)
        if kind == "array" or kind == "map":
            word = "items" if kind == "array" else "values"
            if word not in schema:
                raise Unusable(f"{kind} has no {word} type")
            return Type(kind, inner=[self._parse(schema[word], namespace, depth + 1)], properties=properties)
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(kind, schema, namespace, depth, properties)
        return self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> Type:
        for full in (name,) if "." in name else (f"{namespace}.{name}", name) if namespace else (name,):
            if full in self._names:
                return self._names[full]
        raise Unusable(f'"{name}" is not a defined name. The type of a field must be a defined name or a type.')

    def _union(self, branches: list[Any], namespace: str, depth: int) -> Type:
        made = Type("union", inner=[self._parse(one, namespace, depth + 1) for one in branches])
        seen = set()
        for one in made.inner:
            if one.kind == "union":
                raise Unusable("Nested union")
            key = one.name or one.kind
            if key in seen:
                raise Unusable(f"Duplicate in union: {key}")
            seen.add(key)
        return made

    def _definition(
        self, kind: str, schema: dict[str, Any], namespace: str, depth: int, properties: dict[str, Any]
    ) -> Type:
        name = _full_name(schema, namespace)
        self._check_name(*name.split("."))
        if name in self._names:
            raise Unusable(f"Can't redefine: {name}")
        own_namespace = name.rpartition(".")[0]
        made = Type(kind, name, schema.get("doc"), aliases=_aliases(schema, own_namespace), properties=properties)
        self._names[name] = made
        if kind == "enum":
            symbols = schema.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(one, str) for one in symbols):
                raise Unusable(f"Enum has no symbols: {name}")
            for one in symbols:
                self._check_name(one)
            if len(set(symbols)) != len(symbols):
                raise Unusable(f"Duplicate enum symbol in {name}")
            made.symbols, made.default = dict.fromkeys(symbols), schema.get("default")
            if made.default is not None and made.default not in symbols:
                self._complain(f"The Enum Default: {made.default} is not in the enum symbol set: {symbols}")
        elif kind == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise Unusable(f"Invalid or no size: {name}")
            made.size = size
        else:
            fields = schema.get("fields")
            if not isinstance(fields, list):
                raise Unusable(f"Record has no fields: {name}")
            seen: set[str] = set()
            for one in fields:
                made.fields.append(self._field(one, name, own_namespace, depth))
                if made.fields[-1].name in seen:
                    raise Unusable(f"Duplicate field {made.fields[-1].name} in record {name}")
                seen.add(made.fields[-1].name)
        return made

    def _field(self, given: Any, record: str, namespace: str, depth: int) -> Field:
        if not isinstance(given, dict) or not isinstance(given.get("name"), str) or "type" not in given:
            raise Unusable(f"a field of {record} has no name or no type")
        self._check_name(given["name"])
        made = Field(
            given["name"],
            self._parse(given["type"], namespace, depth + 1),
            given.get("doc"),
            given.get("default", _MISSING),
            str(given.get("order", "ascending")),
            _alias_names(given),
            {name: value for name, value in given.items() if name not in _FIELD_STANDARD},
        )
        if made.order not in _ORDERS:
            raise Unusable(f"Invalid order of the field {made.name}: {made.order}")
        if made.has_default and not _is_value(made.default, made.type, self._budget):
            shown = json.dumps(made.default)[:100]
            self._complain(f"Invalid default for field {made.name}: {shown} not a {made.type.kind}")
        return made

    def _check_name(self, *names: str) -> None:
        if not all(_NAME.fullmatch(one) for one in names):
            self._complain(f"Illegal character in: {'.'.join(names)[:100]}")

    def _complain(self, what: str) -> None:
        self.complaint = self.complaint or what

    # Canonical form

    def canonical(self, *, is_normalized: bool = False) -> str:
        """The schema's text as Avro writes it; normalised: with full names and properties in order."""
        written = _Writer(self._given, is_normalized).document(self.type, "")
        return json.dumps(written, separators=(",", ":"), ensure_ascii=False)

    def with_references(self) -> str:
        """The schema's text with the types of its references in it."""
        return json.dumps(_Writer(set(), False).document(self.type, ""), separators=(",", ":"), ensure_ascii=False)

    def differences_from_writer(self, writer: AvroSchema, budget: Budget) -> list[Difference]:
        """Why this schema, as the reader's, cannot read data written with another; empty if it can."""
        return _Comparison(budget).compare(self.type, writer.type, "")

    def names(self) -> list[str]:
        return sorted(self._names)

    def top_level_fields(self) -> set[str]:
        """Names of the fields of a record."""
        return {one.name for one in self.type.fields}


def _document(text: str) -> Any:
    try:
        return parse_document(text)
    except ValueError as error:
        if _NAME.fullmatch(text.strip()):
            return text.strip()
        raise Unusable(str(error)) from None
    except RecursionError:
        raise Unusable(f"the schema is nested more than {MAX_DEPTH} levels deep") from None


def _full_name(schema: dict[str, Any], namespace: str) -> str:
    name, own = schema.get("name"), schema.get("namespace")
    if not isinstance(name, str) or not name:
        raise Unusable("No name in schema")
    if "." not in name:
        space = own if isinstance(own, str) else namespace
        name = f"{space}.{name}" if space else name
    if name in PRIMITIVES:
        raise Unusable(f"Schemas may not be named after primitives: {name}")
    return name


def _aliases(schema: dict[str, Any], namespace: str) -> tuple[str, ...]:
    return tuple(one if "." in one or not namespace else f"{namespace}.{one}" for one in _alias_names(schema))


def _alias_names(schema: dict[str, Any]) -> tuple[str, ...]:
    found = schema.get("aliases") or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise Unusable(f"aliases is no list of names: {str(found)[:100]}")
    return tuple(found)


def _is_value(value: Any, type_: Type, budget: Budget) -> bool:
    """Whether a default fits its type. A union's default is of any of its branches (Avro 1.12)."""
    budget.spend()
    match type_.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if type_.kind == "int" else 63
            return isinstance(value, int) and not isinstance(value, bool) and -(2**bits) <= value < 2**bits
        case "float" | "double":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return is_number or value in ("NaN", "Infinity", "-Infinity")
        case "string" | "bytes" | "fixed":
            return isinstance(value, str)
        case "enum":
            return value in type_.symbols if isinstance(value, str) else False
        case "array":
            return isinstance(value, list) and all(_is_value(one, type_.inner[0], budget) for one in value)
        case "map":
            return isinstance(value, dict) and all(_is_value(one, type_.inner[0], budget) for one in value.values())
        case "union":
            return any(_is_value(value, one, budget) for one in type_.inner)
        case _:
            budget.spend_for(len(type_.fields))
            return isinstance(value, dict) and all(
                _is_value(value[one.name], one.type, budget) if one.name in value else one.has_default
                for one in type_.fields
            )


class _Writer:
    def __init__(self, given: set[str], is_normalized: bool) -> None:
        self._written = set(given)
        self._is_normalized = is_normalized

    def document(self, type_: Type, namespace: str) -> Any:
        properties = self._in_order(type_.properties)
        match type_.kind:
            case "union":
                return [self.document(one, namespace) for one in type_.inner]
            case "array":
                return {"type": "array", "items": self.document(type_.inner[0], namespace), **properties}
            case "map":
                return {"type": "map", "values": self.document(type_.inner[0], namespace), **properties}
            case kind if not type_.name:
                return {"type": kind, **properties} if properties else kind
        space, _, simple = type_.name.rpartition(".")
        if type_.name in self._written:
            return simple if space == namespace and not self._is_normalized else type_.name
        self._written.add(type_.name)
        written: dict[str, Any] = {"type": type_.kind, "name": simple}
        if self._is_normalized:
            written["name"] = type_.name
        elif space != namespace:
            written["namespace"] = space
        if type_.doc is not None:
            written["doc"] = type_.doc
        if type_.kind == "enum":
            written["symbols"] = list(type_.symbols)
            if type_.default is not None:
                written["default"] = type_.default
        elif type_.kind == "fixed":
            written["size"] = type_.size
        else:
            written["fields"] = [self._field(one, space) for one in type_.fields]
        written |= properties
        if type_.aliases:
            written["aliases"] = [self._alias(one, space) for one in type_.aliases]
        return written

    def _field(self, one: Field, namespace: str) -> dict[str, Any]:
        written: dict[str, Any] = {"name": one.name, "type": self.document(one.type, namespace)}
        if one.doc is not None:
            written["doc"] = one.doc
        if one.has_default:
            written["default"] = one.default
        if one.order != "ascending":
            written["order"] = one.order
        if one.aliases:
            written["aliases"] = list(one.aliases)
        return written | self._in_order(one.properties)

    def _alias(self, alias: str, namespace: str) -> str:
        space, _, simple = alias.rpartition(".")
        return simple if space == namespace and not self._is_normalized else alias

    def _in_order(self, properties: dict[str, Any]) -> dict[str, Any]:
        return dict(sorted(properties.items())) if self._is_normalized else properties


class _Comparison:
    """A reader's schema against a writer's."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._known: dict[tuple[int, int], list[Difference]] = {}

    def compare(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        self._budget.spend()
        if reader.name or writer.name:
            pair = (id(reader), id(writer))
            if pair not in self._known:
                # a pair that is met again below itself holds if everything else does
                self._known[pair] = []
                self._known[pair] = self._compare(reader, writer, path)
            return self._known[pair]
        return self._compare(reader, writer, path)

    def _compare(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        if writer.kind == "union":
            return [
                difference
                for index, one in enumerate(writer.inner)
                for difference in self._in_union(reader, one, path, index)
            ]
        if reader.kind == "union":
            if any(not self.compare(one, writer, f"{path}/{index}") for index, one in enumerate(reader.inner)):
                return []
            description = f"The reader's union at path '{path or '/'}' has no branch for the writer's {_shown(writer)}"
            return [
                Difference(
                    "MISSING_UNION_BRANCH",
                    path or "/",
                    description,
                    f"reader union lacking writer type: {_shown(writer).upper()}",
                )
            ]
        if reader.kind != writer.kind:
            if reader.kind in _PROMOTIONS.get(writer.kind, ()):
                return []
            return [self._type_mismatch(reader, writer, path)]
        match reader.kind:
            case "array":
                return self.compare(reader.inner[0], writer.inner[0], f"{path}/items")
            case "map":
                return self.compare(reader.inner[0], writer.inner[0], f"{path}/values")
            case "fixed":
                return [*self._names(reader, writer, path), *self._sizes(reader, writer, path)]
            case "enum":
                return [*self._names(reader, writer, path), *self._symbols(reader, writer, path)]
            case "record" | "error":
                return [*self._names(reader, writer, path), *self._fields(reader, writer, path)]
        return []

    def _in_union(self, reader: Type, branch: Type, path: str, index: int) -> list[Difference]:
        if reader.kind != "union":
            return self.compare(reader, branch, path)
        found = self._compare(reader, branch, f"{path}/{index}")
        return found

    def _type_mismatch(self, reader: Type, writer: Type, path: str) -> Difference:
        what = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
        description = f"The type of the reader's schema at path '{path or '/'}' does not read the writer's"
        return Difference("TYPE_MISMATCH", path or "/", description, what)

    def _names(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        simple = writer.name.rpartition(".")[2]
        if reader.name.rpartition(".")[2] == simple or writer.name in reader.aliases:
            return []
        description = f"The name of the schema at path '{path}/name' has changed"
        return [Difference("NAME_MISMATCH", f"{path}/name", description, f"expected: {_shown(writer)}")]

    def _sizes(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        if reader.size == writer.size:
            return []
        description = f"The size of the fixed type at path '{path}/size' differs"
        return [
            Difference(
                "FIXED_SIZE_MISMATCH", f"{path}/size", description, f"expected: {writer.size}, found: {reader.size}"
            )
        ]

    def _symbols(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        self._budget.spend_for(len(writer.symbols))
        missing = [one for one in writer.symbols if one not in reader.symbols]
        if not missing or reader.default is not None:
            return []
        description = f"The reader's enum at path '{path}/symbols' lacks symbols of the writer's and has no default"
        return [
            Difference(
                "MISSING_ENUM_SYMBOLS", f"{path}/symbols", description, f"[{', '.join(missing)[:MAX_SHOWN_CHARS]}]"
            )
        ]

    def _fields(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        found: list[Difference] = []
        self._budget.spend_for(len(reader.fields) + len(writer.fields))
        written = {one.name: one for one in writer.fields}
        for index, one in enumerate(reader.fields):
            where = f"{path}/fields/{index}"
            match_ = next((written[name] for name in (one.name, *one.aliases) if name in written), None)
            if match_ is not None:
                found += self.compare(one.type, match_.type, f"{where}/type")
            elif not one.has_default:
                description = (
                    f"The field '{one.name}' at path '{where}' of the reader's schema has no default value and is "
                    "missing in the writer's schema"
                )
                found.append(Difference("READER_FIELD_MISSING_DEFAULT_VALUE", where, description, one.name))
        return found


def _shown(type_: Type) -> str:
    return type_.name[:MAX_SHOWN_CHARS] or type_.kind
