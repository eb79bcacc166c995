"""Comparisons against verdicts of others on pairs made by chance: Avro's own checker, jsonsubschema and `buf breaking`
(tools/registry_oracles.py recorded them)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.registry import formats
from ottla.registry.limits import Difference

VECTORS = Path(__file__).parents[2] / "vectors" / "registry"
_FIELD = re.compile(r"(repeated )?(\w+) f(\d+) = ")
_VARINTS = {"int32", "int64", "uint32", "uint64", "bool", "E"}


def rows(name: str) -> Any:
    return json.loads((VECTORS / f"{name}_verdicts.json").read_text())


def differences(kind: str, reader: str, writer: str) -> list[Difference]:
    return formats.differences("BACKWARD", formats.parse(kind, reader), formats.parse(kind, writer))


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_verdicts_are_those_of_the_oracle(kind: str) -> None:
    others = []
    for reader, writer, is_compatible in rows(kind.lower()):
        found = differences(kind, json.dumps(reader), json.dumps(writer))
        if bool(found) is is_compatible:
            others.append((reader, writer, is_compatible, found))
        for one in found:
            assert one.rule.isupper() and one.path.startswith(("/", "#")) and f"'{one.path}'" in one.text()
    assert not others


def fields(text: str) -> dict[str, tuple[bool, str]]:
    return {number: (bool(label), kind) for label, kind, number in _FIELD.findall(text)}


def is_confluents(reader: tuple[bool, str], writer: tuple[bool, str]) -> bool:
    """What Confluent's rules allow and buf's do not: an enum for a number, many for one where each stands by itself."""
    (is_many, kind), (was_many, was) = reader, writer
    is_same = kind == was or {kind, was} <= _VARINTS or {kind, was} <= {"string", "bytes"}
    return is_same and (is_many == was_many or kind in ("string", "bytes", "X", "Y"))


def test_protobuf_agrees_with_buf_but_for_what_confluent_allows() -> None:
    agreed = 0
    for reader, writer, rules in rows("protobuf"):
        found = differences("PROTOBUF", reader, writer)
        if bool(found) == bool(rules):
            agreed += 1
            continue
        mine, theirs = fields(reader), fields(writer)
        assert not found and all(is_confluents(mine[one], theirs[one]) for one in mine), (reader, writer, rules)
    assert agreed > 0.9 * len(rows("protobuf"))
