"""Schemas that another registry wrote: they are found again by serializers, and can evolve."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.registry.records import Record
from tests.unit.registry.requests import Registry, field, record

SUBJECT = "/subjects/s"
BAD_DEFAULT = record(field("a", "int", default="none"))
BAD_NAMES = {**record(field("a-b", "int"), name="the-order"), "namespace": "in.2026"}


def taken_over(registry: Registry, subject: str, text: str, id_: int = 1, **more: Any) -> None:
    key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
    value = {"subject": subject, "version": 1, "id": id_, **more, "schema": text, "deleted": False}
    assert registry.state.replay(json.dumps(key).encode(), json.dumps(value).encode())


def as_karapace_writes(schema: Any) -> str:
    return json.dumps(schema, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize(
    ("kind", "stored", "sent"),
    [
        ("AVRO", as_karapace_writes(record(field("a", "string"))), json.dumps(record(field("a", "string")))),
        (
            "JSON",
            '{"properties":{"a":{"type":"string"}},"type":"object"}',
            '{"type":"object","properties":{"a":{"type":"string"}}}',
        ),
        (
            "PROTOBUF",
            'syntax = "proto3";\n\nmessage M {\n    string s = 1;\n}\n',
            'syntax="proto3"; message M { string s = 1; }',
        ),
    ],
)
def test_a_text_in_another_form_is_the_same_schema(kind: str, stored: str, sent: str) -> None:
    registry = Registry()
    taken_over(registry, "s", stored, 7, schemaType=kind)
    body = {"schema": sent, "schemaType": kind}
    assert registry.ask("POST", SUBJECT, body)["id"] == 7
    assert registry.ask("POST", f"{SUBJECT}/versions", body)["id"] == 7
    assert registry.ask("GET", f"{SUBJECT}/versions/1")["schema"] == stored
    assert registry.log == []


def test_a_text_in_another_form_with_references_is_the_same_schema() -> None:
    registry = Registry()
    taken_over(registry, "item", as_karapace_writes(record(name="Item")))
    references = [{"name": "Item", "subject": "item", "version": 1}]
    order = record(field("a", "Item"))
    taken_over(registry, "s", as_karapace_writes(order), 2, references=references)
    body = {"schema": json.dumps(order), "references": references}
    assert registry.ask("POST", SUBJECT, body)["id"] == 2
    other = [{"name": "Item", "subject": "item", "version": 2}]
    assert registry.refused("POST", SUBJECT, {**body, "references": other}) == (422, 42201)


def test_a_schema_that_has_in_it_what_a_version_refers_to_is_found() -> None:
    registry = Registry()
    registry.register("item", record(name="Item"))
    references = [{"name": "Item", "subject": "item", "version": 1}]
    id_ = registry.register("s", record(field("a", "Item")), references=references)
    whole = record(field("a", record(name="Item")))
    assert registry.ask("POST", SUBJECT, {"schema": json.dumps(whole)})["id"] == id_
    assert json.loads(registry.ask("GET", f"{SUBJECT}/versions/1?format=resolved")["schema"]) == whole
    changed = record(field("a", record(field("b", "int"), name="Item")))
    assert registry.refused("POST", SUBJECT, {"schema": json.dumps(changed)}) == (404, 40403)


def test_json_schemas_of_another_key_order_differ_if_this_registry_wrote_them() -> None:
    registry = Registry()
    registry.register("s", '{"type":"object","properties":{"a":{}}}', schemaType="JSON")
    body = {"schema": '{"properties":{"a":{}},"type":"object"}', "schemaType": "JSON"}
    assert registry.refused("POST", SUBJECT, body) == (404, 40403)


@pytest.mark.parametrize("schema", [BAD_DEFAULT, BAD_NAMES])
def test_a_schema_that_is_not_as_avro_wants_it_is_refused_unless_it_is_registered(schema: dict[str, Any]) -> None:
    registry = Registry()
    body = {"schema": json.dumps(schema)}
    assert registry.refused("POST", "/subjects/new/versions", body) == (422, 42201)
    taken_over(registry, "s", json.dumps(schema), 3)
    assert registry.ask("POST", SUBJECT, body)["id"] == 3
    assert registry.ask("POST", f"{SUBJECT}/versions", body)["id"] == 3
    registry.ask("PUT", "/config", {"validateNewSchemas": False})
    assert registry.ask("POST", "/subjects/new/versions", body)["version"] == 1


def test_a_subject_with_a_bad_default_can_evolve() -> None:
    registry = Registry()
    taken_over(registry, "s", json.dumps(BAD_DEFAULT))
    better = record(field("a", "int", default=0), field("b", "int", default=0))
    assert registry.ask("POST", "/compatibility/subjects/s/versions", {"schema": json.dumps(better)})["is_compatible"]
    assert registry.register("s", better) == 2


def old_key(**fields: Any) -> bytes:
    """A key as early versions of Karapace wrote it: other order, and blanks."""
    return json.dumps({"subject": "s", **fields, "magic": 0}).encode()


def compacted(log: list[Record]) -> list[Record]:
    """The last record of each key, after the tombstones are gone."""
    latest = {one.key: place for place, one in enumerate(log)}
    return [one for place, one in enumerate(log) if latest[one.key] == place and one.value is not None]


def test_what_stands_under_a_key_in_another_order_is_read_and_does_not_come_back() -> None:
    value = {"subject": "s", "version": 1, "id": 3, "schema": '"int"', "deleted": False}
    written = [
        Record(old_key(version=1, keytype="SCHEMA"), json.dumps(value).encode()),
        Record(old_key(keytype="CONFIG"), b'{"compatibilityLevel":"NONE"}'),
    ]
    registry = Registry()
    for one in written:
        assert registry.state.replay(one.key, one.value)
    assert registry.ask("GET", f"{SUBJECT}/versions/1")["id"] == 3
    assert registry.ask("GET", "/config/s") == {"compatibilityLevel": "NONE"}
    registry.ask("PUT", "/config/s", {"compatibility": "FULL"})
    registry.ask("DELETE", SUBJECT)
    registry.ask("DELETE", f"{SUBJECT}?permanent=true")
    again = Registry()
    for one in compacted([*written, *registry.log]):
        assert again.state.replay(one.key, one.value)
    assert again.ask("GET", "/subjects?deleted=true") == []
    assert again.refused("GET", "/config/s") == (404, 40408)
    assert again.state.next_id(".") == 4
