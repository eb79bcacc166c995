"""The three languages of schemas behind one door: parse, canonical form, comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ottla.registry.avro import AvroSchema
from ottla.registry.json_schema import JsonSchema
from ottla.registry.limits import MAX_SCHEMA_CHARS, Budget, Difference, Unusable
from ottla.registry.records import AVRO, JSON, PROTOBUF

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
KINDS = (JSON, PROTOBUF, AVRO)
SERIALIZED = "serialized"


class Schema(Protocol):
    """A parsed schema."""

    @property
    def kind(self) -> str: ...

    @property
    def complaint(self) -> str:
        """Why a new schema is refused that is understood if it was registered before; empty: it is taken."""
        ...

    def canonical(self, *, is_normalized: bool = False) -> str: ...

    def differences_from_writer(self, writer: Any, budget: Budget) -> list[Difference]: ...

    def top_level_fields(self) -> set[str]: ...


def parse(kind: str, text: str, references: Sequence[tuple[str, str]] = ()) -> Schema:
    """A schema from its text and those it refers to, each with the name of the reference, needed ones first."""
    if len(text) > MAX_SCHEMA_CHARS or sum(len(one) for _, one in references) > 10 * MAX_SCHEMA_CHARS:
        raise Unusable(f"the schema has more than {MAX_SCHEMA_CHARS} characters")
    if kind == AVRO:
        return AvroSchema(text, [one for _, one in references])
    if kind == JSON:
        return JsonSchema(text, dict(references))
    if kind == PROTOBUF:
        from ottla.registry.protobuf import ProtobufSchema

        return ProtobufSchema(text, references)
    raise Unusable(f"Invalid schema type {kind[:100]}")


def differences(level: str, new: Schema, old: Schema, budget: Budget | None = None) -> list[Difference]:
    """The differences that make a new schema incompatible with an old one. OutOfSteps: the comparison takes more than
    this budget; None: each direction has its own."""
    if level == "NONE":
        return []
    if new.kind != old.kind:
        return [Difference("SCHEMA_TYPE_MISMATCH", "/", "Incompatible because of different schema type", new.kind)]
    found: list[Difference] = []
    if level.startswith(("BACKWARD", "FULL")):
        found += new.differences_from_writer(old, budget or Budget())
    if level.startswith(("FORWARD", "FULL")):
        found += old.differences_from_writer(new, budget or Budget())
    return found
