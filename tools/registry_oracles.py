"""Verdicts of others on pairs of schemas, recorded for tests/unit/registry/test_oracles.py.

    pip install avro==1.12.2 jsonsubschema==0.0.8 buf-bin==1.75.0
    python -m tools.registry_oracles tests/vectors/registry

Pairs are made by chance from a fixed seed: a schema, and the same after a few small changes. The verdicts are those of
Avro's own checker, of jsonsubschema (IBM's subset checker) and of `buf breaking`. The packages are no dependencies of
the tests: their verdicts are.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

AVRO_COUNT, JSON_COUNT, PROTOBUF_COUNT = 1_500, 700, 150
SEED = 20_261_118

# --- Avro

_PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]


class AvroPairs:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._count = 0

    def type(self, depth: int = 0) -> Any:
        chance = self._chance
        kind = chance.choice(
            ["primitive"] * 4 + (["record", "array", "map", "union", "enum", "fixed"] if depth < 3 else [])
        )
        if kind == "primitive":
            return chance.choice(_PRIMITIVES)
        if kind == "array":
            return {"type": "array", "items": self.type(depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.type(depth + 1)}
        if kind == "union":
            return chance.sample(_PRIMITIVES, chance.randint(1, 3))
        self._count += 1
        name = f"{kind.capitalize()}{self._count}"
        if kind == "enum":
            return {"type": "enum", "name": name, "symbols": chance.sample("ABCDE", chance.randint(1, 4))}
        if kind == "fixed":
            return {"type": "fixed", "name": name, "size": chance.randint(1, 3)}
        names = chance.sample("abcdef", chance.randint(0, 4))
        return {"type": "record", "name": name, "fields": [self._field(one, depth) for one in names]}

    def _field(self, name: str, depth: int) -> dict[str, Any]:
        field = {"name": name, "type": self.type(depth + 1)}
        if self._chance.random() < 0.4:
            field = {"name": name, "type": ["null", "string"], "default": None}
        return field

    def changed(self, schema: Any) -> Any:
        """The same with some parts replaced; names stay."""
        chance = self._chance
        if chance.random() < 0.12:
            return self.type(2)
        if isinstance(schema, str):
            wider = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}
            return wider.get(schema, schema) if chance.random() < 0.3 else schema
        if isinstance(schema, list):
            kept = [one for one in schema if chance.random() < 0.9] or schema
            more = [one for one in _PRIMITIVES if one not in kept]
            return [*kept, chance.choice(more)] if chance.random() < 0.3 else kept
        made = dict(schema)
        if made["type"] == "array":
            made["items"] = self.changed(made["items"])
        elif made["type"] == "map":
            made["values"] = self.changed(made["values"])
        elif made["type"] == "enum":
            made["symbols"] = sorted(
                {*made["symbols"], *chance.sample("ABCDE", 1)} - set(chance.sample("ABCDE", 1))
            ) or ["A"]
            if chance.random() < 0.3:
                made["default"] = made["symbols"][0]
        elif made["type"] == "fixed" and chance.random() < 0.3:
            made["size"] += 1
        elif made["type"] == "record":
            fields = [
                {**one, "type": one["type"] if "default" in one else self.changed(one["type"])}
                for one in made["fields"]
            ]
            fields = [one for one in fields if chance.random() < 0.85]
            free = [one for one in "abcdef" if one not in [field["name"] for field in fields]]
            if chance.random() < 0.4:
                fields.append(self._field(chance.choice(free), 2))
            if chance.random() < 0.1 and fields:
                fields[0] = {**fields[0], "name": "renamed", "aliases": [fields[0]["name"]]}
            made["fields"] = fields
        return made


def avro(chance: random.Random) -> list[Any]:
    import avro.schema
    from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

    rows: list[Any] = []
    while len(rows) < AVRO_COUNT:
        pairs = AvroPairs(chance)
        writer = pairs.type()
        reader = pairs.changed(writer)
        try:
            parsed = [avro.schema.parse(json.dumps(one)) for one in (reader, writer)]
        except Exception:  # a name twice, a default that does not fit: no pair
            continue
        found = ReaderWriterCompatibilityChecker().get_compatibility(*parsed)
        rows.append([reader, writer, found.compatibility is SchemaCompatibilityType.compatible])
    return rows


# --- JSON Schema


def json_type(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.choice(
        ["string", "integer", "number", "boolean", "null", "enum"] + ["object", "array", "anyOf"] * (depth < 2)
    )
    made: dict[str, Any] = {"type": kind}
    if kind == "enum":
        return {"enum": chance.sample(["a", "b", 1, 2], chance.randint(1, 3))}
    if kind == "anyOf":
        return {"anyOf": [json_type(chance, depth + 1) for _ in range(2)]}
    if kind == "string" and chance.random() < 0.5:
        made[chance.choice(["maxLength", "minLength"])] = chance.randint(1, 4)
    if kind in ("integer", "number") and chance.random() < 0.5:
        made[chance.choice(["maximum", "minimum"])] = chance.randint(0, 9)
    if kind == "array":
        made["items"] = json_type(chance, depth + 1)
        if chance.random() < 0.3:
            made[chance.choice(["maxItems", "minItems"])] = chance.randint(1, 3)
    if kind == "object":
        names = chance.sample("abcd", chance.randint(0, 3))
        made["properties"] = {one: json_type(chance, depth + 1) for one in names}
        if names and chance.random() < 0.5:
            made["required"] = chance.sample(names, 1)
        if chance.random() < 0.6:
            made["additionalProperties"] = False
    return made


def json_changed(chance: random.Random, schema: Any) -> Any:
    if chance.random() < 0.1:
        return json_type(chance, 1)
    made = json.loads(json.dumps(schema))
    for word in ("maxLength", "minLength", "maximum", "minimum", "maxItems", "minItems"):
        if word in made and chance.random() < 0.5:
            made[word] = max(0, made[word] + chance.choice([-1, 1]))
            if chance.random() < 0.3:
                del made[word]
    if made.get("type") == "integer" and chance.random() < 0.2:
        made["type"] = "number"
    if "enum" in made and chance.random() < 0.5:
        made["enum"] = [*made["enum"], "c"]
    if "items" in made:
        made["items"] = json_changed(chance, made["items"])
    if "anyOf" in made:
        made["anyOf"] = [json_changed(chance, one) for one in made["anyOf"]]
        if chance.random() < 0.3:
            made["anyOf"].append(json_type(chance, 2))
    if "properties" in made:
        made["properties"] = {name: json_changed(chance, one) for name, one in made["properties"].items()}
        if chance.random() < 0.4:
            made["properties"][chance.choice("abcd")] = json_type(chance, 2)
        if "required" in made and chance.random() < 0.4:
            del made["required"]
        if chance.random() < 0.2:
            made.pop("additionalProperties", None)
    return made


def json_schemas(chance: random.Random) -> list[Any]:
    from jsonsubschema import isSubschema

    rows: list[Any] = []
    while len(rows) < JSON_COUNT:
        writer = json_type(chance)
        reader = json_changed(chance, writer)
        try:
            rows.append([reader, writer, bool(isSubschema(writer, reader))])
        except Exception as error:  # it does not decide everything
            print(f"no verdict: {type(error).__name__}", file=sys.stderr)
    return rows


# --- Protobuf

_SCALARS = [
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "bool",
    "string",
    "bytes",
    "fixed32",
    "sfixed32",
    "double",
]
_RULES = ("FIELD_WIRE_COMPATIBLE_TYPE", "FIELD_WIRE_COMPATIBLE_CARDINALITY", "FIELD_SAME_ONEOF")


def proto_fields(chance: random.Random) -> list[list[Any]]:
    kinds = [*_SCALARS, "X", "Y", "E"]
    return [[number, chance.choice(["", "", "repeated "]), chance.choice(kinds)] for number in range(1, 5)]


def proto_changed(chance: random.Random, fields: list[list[Any]]) -> list[list[Any]]:
    made = []
    for number, label, kind in fields:
        if chance.random() < 0.25:
            kind = chance.choice([*_SCALARS, "X", "Y", "E"])
        if chance.random() < 0.1:
            label = "repeated " if not label else ""
        made.append([number, label, kind])
    return made


def proto_text(fields: list[list[Any]]) -> str:
    lines = [f"  {label}{kind} f{number} = {number};" for number, label, kind in fields]
    more = ["message X { int32 a = 1; }", "message Y { int32 a = 1; }", "enum E { ZERO = 0; }"]
    return "\n".join(['syntax = "proto3";', "package shop;", "message M {", *lines, "}", *more, ""])


def buf(folder: Path, reader: str, writer: str) -> list[str]:
    """The rules that `buf breaking` finds broken."""
    for name, text in (("new", reader), ("old", writer)):
        (folder / name).mkdir(parents=True)
        (folder / name / "m.proto").write_text(text)
        settings = {"version": "v2", "breaking": {"use": ["WIRE"]}}
        (folder / name / "buf.yaml").write_text(json.dumps(settings))
    command = [
        str(Path(sys.executable).parent / "buf"),
        "breaking",
        "new",
        "--against",
        "old",
        "--error-format",
        "json",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode not in (0, 100):
        raise SystemExit(done.stderr)
    return sorted({one["type"] for one in found})


def protobuf(chance: random.Random) -> list[Any]:
    pairs = []
    for _ in range(PROTOBUF_COUNT):
        writer = proto_fields(chance)
        pairs.append((proto_text(proto_changed(chance, writer)), proto_text(writer)))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda item: buf(Path(folder) / str(item[0]), *item[1]), enumerate(pairs))
        return [[*pair, rules] for pair, rules in zip(pairs, found, strict=True)]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("avro", avro), ("json", json_schemas), ("protobuf", protobuf)):
        rows = make(random.Random(SEED))
        text = "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in rows) + "\n]\n"
        (folder / f"{name}_verdicts.json").write_text(text)
        print(name, len(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
