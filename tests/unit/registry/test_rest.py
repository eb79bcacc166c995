"""Confluent's REST interface: what requests answer and which records they write."""

from __future__ import annotations

import json

import pytest

from ottla.registry.records import Record, noop_record
from ottla.registry.state import State
from tests.unit.registry.requests import Registry, field, record

A = record(field("a", "int"))
AB = record(field("a", "int"), field("b", "string", default=""))


def test_a_schema_has_one_id_in_all_subjects_and_versions_count_per_subject() -> None:
    registry = Registry()
    assert registry.register("one", A) == 1
    assert registry.register("one", A) == 1
    assert registry.register("two", A) == 1
    assert registry.register("one", AB) == 2
    assert registry.ask("GET", "/subjects") == ["one", "two"]
    assert registry.ask("GET", "/subjects/one/versions") == [1, 2]
    assert registry.ask("GET", "/schemas/ids/1/versions") == [
        {"subject": "one", "version": 1},
        {"subject": "two", "version": 1},
    ]
    assert json.loads(registry.ask("GET", "/schemas/ids/2")["schema"]) == AB
    guid = registry.ask("GET", "/subjects/one/versions/latest")["guid"]
    assert registry.ask("GET", f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": 2}]


def test_records_are_those_of_confluents_registry() -> None:
    registry = Registry()
    registry.register("s", '"string"')
    registry.ask("PUT", "/config", {"compatibility": "full"})
    registry.ask("PUT", "/config/s", {"compatibility": "NONE"})
    registry.ask("PUT", "/mode/s", {"mode": "READWRITE"})
    registry.ask("DELETE", "/subjects/s")
    registry.ask("DELETE", "/subjects/s?permanent=true")
    assert registry.log == [
        Record(
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"subject":"s","version":1,"id":1,"schemaType":"AVRO","schema":"\\"string\\"","deleted":false}',
        ),
        Record(b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"FULL"}'),
        Record(b'{"keytype":"CONFIG","subject":"s","magic":0}', b'{"subject":"s","compatibilityLevel":"NONE"}'),
        Record(b'{"keytype":"MODE","subject":"s","magic":0}', b'{"subject":"s","mode":"READWRITE"}'),
        Record(b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"subject":"s","version":1}'),
        Record(b'{"keytype":"MODE","subject":"s","magic":0}', None),
        Record(b'{"keytype":"CONFIG","subject":"s","magic":0}', None),
        Record(b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', None),
        Record(b'{"keytype":"NOOP","magic":0}', b'{"maxIds":{".":1}}'),
    ]
    assert noop_record() == Record(b'{"keytype":"NOOP","magic":0}', None)


def test_a_topic_with_damaged_unknown_and_old_records_is_read() -> None:
    state = State()
    good = b'{"subject":"s","version":1,"id":7,"schema":"\\"int\\"","deleted":false}'
    assert state.replay(b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":0}', good)  # as Karapace writes it
    assert state.replay(b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}')
    damaged: list[tuple[bytes | None, bytes | None]] = [
        (None, None),
        (b"\xff", b"{}"),
        (b"[]", b"{}"),
        (b'{"keytype":"FUTURE","magic":9}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}', b'{"id":"x","schema":"1"}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":0,"magic":1}', good),
        (b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}', b"[" * 100_000),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"version":null}'),
        (b'{"keytype":"SCHEMA","subject":"a\\nb","version":1,"magic":1}', good),
    ]
    for key, value in damaged:
        assert not state.replay(key, value), key
    assert state.skipped_count == len(damaged)
    assert [one.id for subject in state.subjects() for one in state.versions(subject)] == [7]
    assert state.next_id(".") == 8


def test_an_id_is_not_given_again_after_the_last_schema_was_deleted_for_good() -> None:
    registry = Registry()
    registry.register("s", A)
    registry.ask("DELETE", "/subjects/s")
    registry.ask("DELETE", "/subjects/s?permanent=true")
    assert registry.register("s", AB) == 2
    again = State()
    for one in registry.log:
        again.replay(one.key, one.value)
    assert again.next_id(".") == 3


def test_deletion_is_soft_first() -> None:
    registry = Registry()
    registry.register("s", A)
    registry.register("s", AB)
    assert registry.refused("DELETE", "/subjects/s?permanent=true") == (404, 40405)
    assert registry.refused("DELETE", "/subjects/s/versions/1?permanent=true") == (404, 40407)
    assert registry.ask("DELETE", "/subjects/s/versions/1") == 1
    assert registry.refused("DELETE", "/subjects/s/versions/1") == (404, 40406)
    assert registry.ask("GET", "/subjects/s/versions") == [2]
    assert registry.ask("GET", "/subjects/s/versions?deleted=true") == [1, 2]
    assert registry.refused("GET", "/subjects/s/versions/1") == (404, 40402)
    assert registry.ask("DELETE", "/subjects/s") == [2]
    assert registry.refused("DELETE", "/subjects/s") == (404, 40404)
    assert registry.ask("GET", "/subjects") == []
    assert registry.ask("GET", "/subjects?deletedOnly=true") == ["s"]
    assert registry.ask("DELETE", "/subjects/s?permanent=true") == [1, 2]
    assert registry.refused("GET", "/schemas/ids/1") == (404, 40403)


def test_a_schema_that_others_refer_to_is_not_deleted() -> None:
    registry = Registry()
    registry.register("inner", record(field("x", "int"), name="Inner"))
    references = [{"name": "Inner", "subject": "inner", "version": 1}]
    registry.register("outer", record(field("i", "Inner")), references=references)
    assert registry.ask("GET", "/subjects/inner/versions/1/referencedby") == [2]
    assert registry.refused("DELETE", "/subjects/inner") == (422, 42206)
    registry.ask("DELETE", "/subjects/outer")
    assert registry.ask("DELETE", "/subjects/inner") == [1]
    assert registry.refused("DELETE", "/subjects/inner?permanent=true") == (422, 42206)


def test_contexts_have_ids_of_their_own() -> None:
    registry = Registry()
    assert registry.register("s", A) == 1
    assert registry.register("%3A.eu%3As", AB) == 1
    assert registry.ask("GET", "/contexts") == [".", ".eu"]
    assert registry.ask("GET", "/subjects") == [":.eu:s", "s"]
    assert registry.ask("GET", "/contexts/.eu/subjects") == [":.eu:s"]
    assert json.loads(registry.ask("GET", "/contexts/eu/schemas/ids/1")["schema"]) == AB
    assert json.loads(registry.ask("GET", "/schemas/ids/1?subject=%3A.eu%3As")["schema"]) == AB
    assert registry.refused("DELETE", "/contexts/.eu") == (422, 42211)
    registry.ask("PUT", "/config/%3A.eu%3A", {"compatibility": "NONE"})
    assert registry.ask("GET", "/config/%3A.eu%3As?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    assert registry.log[-1].key == b'{"keytype":"CONFIG","subject":":.eu:","magic":0}'


def test_settings_and_modes() -> None:
    registry = Registry()
    assert registry.ask("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert registry.refused("GET", "/config/s") == (404, 40408)
    assert registry.refused("GET", "/mode/s") == (404, 40409)
    assert registry.refused("PUT", "/config", {"compatibility": "SIDEWAYS"}) == (422, 42203)
    assert registry.refused("PUT", "/mode", {"mode": "SLEEPY"}) == (422, 42204)
    wanted = {"compatibility": "FORWARD", "normalize": True, "compatibilityGroup": "major"}
    assert registry.ask("PUT", "/config/s", wanted) == {
        "normalize": True, "compatibility": "FORWARD", "compatibilityGroup": "major",
    }  # fmt: skip
    assert registry.ask("GET", "/config/s")["compatibilityLevel"] == "FORWARD"
    registry.ask("PUT", "/mode/s", {"mode": "READONLY"})
    assert registry.refused("POST", "/subjects/s/versions", {"schema": '"int"'}) == (422, 42205)
    assert registry.ask("DELETE", "/mode/s") == {"mode": "READONLY"}
    assert registry.ask("GET", "/mode") == {"mode": "READWRITE"}


def test_an_alias_stands_for_its_subject() -> None:
    registry = Registry()
    registry.register("orders-value", A)
    registry.ask("PUT", "/config/old-name", {"alias": "orders-value"})
    assert registry.ask("GET", "/subjects/old-name/versions/1")["subject"] == "orders-value"
    assert registry.register("old-name", AB) == 2
    assert registry.ask("GET", "/subjects") == ["orders-value"]
    assert registry.ask("GET", "/schemas/ids/1?subject=old-name")["subject"] == "orders-value"
    assert registry.ask("GET", "/schemas?aliases=true&latestOnly=true")[0]["aliases"] == ["old-name"]
    assert registry.ask("GET", "/config/old-name") == {"alias": "orders-value"}


def test_reserved_fields_stay_reserved() -> None:
    registry = Registry()
    registry.ask("PUT", "/config", {"validateFields": True, "compatibility": "NONE"})
    reserved = {"properties": {"confluent:reserved": "b,c"}}
    registry.register("s", A, metadata=reserved)
    body = {"schema": json.dumps(AB), "metadata": reserved}
    assert registry.refused("POST", "/subjects/s/versions", body) == (409, 40901)
    body = {"schema": json.dumps(A), "metadata": {"properties": {"confluent:reserved": "b"}}}
    answer = registry.ask("POST", "/compatibility/subjects/s/versions?verbose=true", body)
    assert answer["is_compatible"] is False
    assert "reserved field c" in answer["messages"][0]


def test_listings_have_pages_and_filters() -> None:
    registry = Registry()
    rules = {"domainRules": [{"name": "r", "kind": "TRANSFORM", "mode": "WRITE", "type": "ENCRYPT"}]}
    registry.register("a", A, metadata={"properties": {"team": "x", "tier": "1"}})
    registry.register("a", AB, metadata={"properties": {"team": "x", "tier": "2"}}, ruleSet=rules)
    registry.register("b", A)
    registry.register(":.eu:c", A)
    assert registry.ask("GET", "/subjects?offset=1&limit=1") == ["a"]
    assert len(registry.ask("GET", "/schemas")) == 3
    assert [one["subject"] for one in registry.ask("GET", "/schemas?ruleType=ENCRYPT")] == ["a"]
    assert registry.ask("GET", "/subjects/a/metadata?key=team&value=x&key=tier&value=1")["version"] == 1
    assert registry.refused("GET", "/subjects/a/metadata?key=team") == (422, 422)
    registry.ask("DELETE", "/subjects/a/versions/1")
    assert registry.ask("GET", "/subjects/a/versions?deletedAsNegative=true") == [-1, 2]
    assert registry.ask("GET", "/subjects/a/versions?deletedOnly=true") == [1]
    assert registry.ask("GET", "/contexts?contextPrefix=.e") == [".eu"]
    assert registry.ask("GET", "/schemas/ids/1?includeSubjects=true&fetchMaxId=true")["maxId"] == 3


def test_a_check_against_a_version_that_is_not_there() -> None:
    registry = Registry()
    body = {"schema": '"int"'}
    assert registry.ask("POST", "/compatibility/subjects/s/versions/latest", body) == {"is_compatible": True}
    assert registry.refused("POST", "/compatibility/subjects/s/versions/7", body) == (404, 40402)


def test_modes_of_a_context_are_deleted_together() -> None:
    registry = Registry()
    for scope in (":.eu:", ":.eu:a", "b"):
        registry.ask("PUT", f"/mode/{scope}", {"mode": "READONLY"})
    registry.ask("DELETE", "/mode/:.eu:?recursive=true")
    assert registry.ask("GET", "/mode/:.eu:a?defaultToGlobal=true") == {"mode": "READWRITE"}
    assert registry.ask("GET", "/mode/b") == {"mode": "READONLY"}


def test_import_mode_takes_ids_and_versions() -> None:
    registry = Registry()
    assert registry.refused("POST", "/subjects/s/versions", {"schema": '"int"', "id": 40}) == (422, 42205)
    registry.ask("PUT", "/mode/s", {"mode": "IMPORT"})
    registry.ask("POST", "/subjects/s/versions", {"schema": '"int"', "id": 40, "version": 5})
    body = {"schema": '"long"', "id": 40, "version": 6}
    assert registry.refused("POST", "/subjects/s/versions", body) == (422, 42205)
    assert registry.ask("GET", "/subjects/s/versions") == [5]
    assert registry.register("t", '"string"') == 41


def test_metadata_and_rules_are_kept_and_taken_over_by_the_next_version() -> None:
    registry = Registry()
    metadata = {"properties": {"owner": "me"}, "tags": {"a": ["PII"]}, "sensitive": ["owner"]}
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}
    registry.register("s", A, metadata=metadata, ruleSet=rules)
    registry.register("s", AB)
    latest = registry.ask("GET", "/subjects/s/versions/latest")
    assert latest["version"] == 2
    assert latest["metadata"] == {"tags": {"a": ["PII"]}, "properties": {"owner": "me"}, "sensitive": ["owner"]}
    assert latest["ruleSet"]["domainRules"][0]["name"] == "r"
    assert registry.ask("GET", "/subjects/s/metadata?key=owner&value=me")["version"] == 2
    assert registry.ask("POST", "/subjects/s", {"schema": json.dumps(AB)})["version"] == 2
    bad = {"schema": json.dumps(A), "ruleSet": {"domainRules": [{}]}}
    assert registry.refused("POST", "/subjects/s/versions", bad) == (422, 42210)


def test_what_is_not_there_has_confluents_codes() -> None:
    registry = Registry()
    assert registry.refused("GET", "/subjects/s/versions") == (404, 40401)
    assert registry.refused("POST", "/subjects/s", {"schema": '"int"'}) == (404, 40401)
    registry.register("s", A)
    assert registry.refused("GET", "/subjects/s/versions/9") == (404, 40402)
    assert registry.refused("GET", "/subjects/s/versions/zero") == (422, 42202)
    assert registry.refused("POST", "/subjects/s", {"schema": '"int"'}) == (404, 40403)
    assert registry.refused("POST", "/subjects/s/versions", {"schema": "{"}) == (422, 42201)
    assert registry.refused("POST", "/subjects/s/versions", {"schema": '"string"'}) == (409, 40901)
    assert registry.refused("POST", "/subjects/s/versions", []) == (400, 400)
    assert registry.refused("GET", "/nowhere") == (404, 404)


def test_an_encoded_slash_is_part_of_the_subject() -> None:
    registry = Registry()
    registry.register("a%2Fb", A)
    assert registry.ask("GET", "/subjects") == ["a/b"]
    assert registry.ask("GET", "/subjects/a%2Fb/versions/1")["id"] == 1


def test_a_cycle_of_references_is_refused() -> None:
    registry = Registry()
    for name, other in (("a", "b"), ("b", "a")):
        value = {
            "subject": name, "version": 1, "id": 1, "schema": '"int"',
            "references": [{"name": other, "subject": other, "version": 1}],
        }  # fmt: skip
        key = {"keytype": "SCHEMA", "subject": name, "version": 1, "magic": 1}
        assert registry.state.replay(json.dumps(key).encode(), json.dumps(value).encode())
    body = {"schema": '"int"', "references": [{"name": "a", "subject": "a", "version": 1}]}
    assert registry.refused("POST", "/subjects/s/versions", body) == (422, 42201)


@pytest.mark.parametrize(
    "schema", ["[" * 10_000 + "]" * 10_000, '"' + "x" * 2_000_000 + '"', '{"type":"array","items":' * 500]
)
def test_hostile_schemas_are_refused(schema: str) -> None:
    registry = Registry()
    for kind in ("AVRO", "JSON", "PROTOBUF"):
        body = {"schema": schema, "schemaType": kind}
        assert registry.refused("POST", "/subjects/s/versions", body) == (422, 42201)
