"""What must hold of a registry: ids are given once, nothing registered is lost, hostile schemas end soon."""

from __future__ import annotations

import json
import time
from random import Random
from typing import Any

import pytest

from ottla.registry.faults import Fault
from ottla.registry.limits import MAX_SCHEMA_CHARS
from ottla.registry.records import Record, noop_record
from ottla.registry.rest import Request, Rest
from ottla.registry.state import State
from ottla.registry.subjects import parse
from tests.unit.registry.requests import Registry, field, record

CPU_S = 10.0
"""A schema that is refused takes at most so long; most take milliseconds."""


def schema(index: int) -> str:
    return json.dumps({"type": "fixed", "name": f"F{index}", "size": index + 1})


def compacted(log: list[Record], *, drops_tombstones: bool) -> list[Record]:
    """The last record of each key, in order."""
    latest = {one.key: place for place, one in enumerate(log)}
    kept = [one for place, one in enumerate(log) if latest[one.key] == place]
    return [one for one in kept if one.value is not None or not drops_tombstones]


def taken_over(log: list[Record]) -> Registry:
    """Another instance that has read the topic, and leads."""
    made = Registry()
    for one in log:
        assert made.state.replay(one.key, one.value)
    first = noop_record(made.state.max_ids())
    assert made.state.replay(first.key, first.value)
    made.log = [*log, first]
    return made


@pytest.mark.parametrize("seed", range(20))
def test_ids_are_given_once_over_deletions_compaction_and_new_leaders(seed: int) -> None:
    rng = Random(seed)
    registry = Registry()
    registry.ask("PUT", "/config", {"compatibility": "NONE"})
    given: dict[tuple[str, int], str] = {}
    live: dict[str, set[str]] = {}
    for step in range(150):
        action, subject = rng.random(), rng.choice(["a", "b", ":.eu:a", ":.eu:c"])
        context = ".eu" if subject.startswith(":.eu:") else "."
        if action < 0.55:
            text = schema(rng.randrange(60))
            id_ = registry.register(subject, text)
            assert given.setdefault((context, id_), text) == text, "an id stands for one schema, for ever"
            live.setdefault(subject, set()).add(text)
        elif action < 0.8 and live.get(subject):
            registry.ask("DELETE", f"/subjects/{subject}")
            registry.ask("DELETE", f"/subjects/{subject}?permanent=true")
            live[subject] = set()
        else:
            log = compacted(registry.log, drops_tombstones=rng.random() < 0.7) if step % 2 else registry.log
            registry = taken_over(log)
        for name, texts in live.items():
            found = {one.text for one in registry.state.versions(parse(name))}
            assert found == {json.dumps(json.loads(text), separators=(",", ":")) for text in texts}


@pytest.mark.parametrize("seed", range(10))
def test_reordered_and_repeated_records_lose_nothing_and_give_no_id_twice(seed: int) -> None:
    rng = Random(seed)
    registry = Registry()
    for index in range(30):
        registry.register(f"s{index % 7}-{index}", schema(index))
    records = [*registry.log, *rng.sample(registry.log, 10)]
    rng.shuffle(records)
    state = State()
    for one in records:
        assert state.replay(one.key, one.value)
    assert state.next_id(".") == 31
    assert sorted(one.id for subject in state.subjects() for one in state.versions(subject)) == list(range(1, 31))


@pytest.mark.parametrize("seed", range(10))
def test_damaged_records_cost_themselves_alone(seed: int) -> None:
    rng = Random(seed)
    registry = Registry()
    for index in range(20):
        registry.register(f"s{index}", schema(index))
    state = State()
    whole = set()
    for place, one in enumerate(registry.log):
        key, value = bytearray(one.key), bytearray(one.value or b"")
        damage = rng.randrange(4)
        if damage == 0:
            value = value[: rng.randrange(len(value))]
        elif damage == 1:
            value[rng.randrange(len(value))] ^= 0x80  # no UTF-8 any more
        elif damage == 2:
            key[rng.randrange(len(key))] ^= 0x80
        if state.replay(bytes(key), bytes(value)):
            assert damage == 3
            whole.add(place + 1)
    assert {one.id for subject in state.subjects() for one in state.versions(subject)} == whole
    assert Rest(state) is not None and state.next_id(".") > max(whole, default=0)


def test_the_id_of_a_damaged_record_is_not_given_again_where_it_can_be_seen() -> None:
    registry = Registry()
    for index in range(3):
        registry.register(f"s{index}", schema(index))
    last = registry.log[-1]
    assert last.value is not None
    for damaged in (last.value[:-5], last.value.replace(b"schemaType", b"\xff\xfe"), last.value + b"}"):
        state = State()
        for one in [*registry.log[:-1], Record(last.key, damaged)]:
            state.replay(one.key, one.value)
        assert state.skipped_count == 1 and state.next_id(".") == 4


def avro_bomb(levels: int) -> str:
    """Records that each have two fields of the next one: text that grows by two, a tree that doubles."""
    inner: Any = "int"
    for level in range(levels):
        name = f"R{level}"
        inner = {"type": "record", "name": name, "fields": [{"name": "a", "type": inner}, {"name": "b", "type": name}]}
    return json.dumps(inner)


def json_bomb(levels: int) -> str:
    """Definitions that each refer twice to the next one."""
    definitions: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/definitions/d{level + 1}"}, {"$ref": f"#/definitions/d{level + 1}"}]}
        for level in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "object", "properties": {"a": {"type": "string"}}}
    return json.dumps({"$ref": "#/definitions/d0", "definitions": definitions})


HOSTILE = {
    "10 MB of Avro": ("AVRO", '{"type":"record","name":"R","fields":[' + '{"name":"f","type":"int"},' * 400_000 + "]}"),
    "10 MB of JSON": ("JSON", '{"enum":[' + "1," * 5_000_000 + "1]}"),
    "10 MB of Protobuf": ("PROTOBUF", 'syntax = "proto3";' + "message M {}\n" * 800_000),
    "10,000 levels of Avro": ("AVRO", '{"type":"array","items":' * 10_000 + '"int"' + "}" * 10_000),
    "10,000 levels of JSON": ("JSON", '{"items":' * 10_000 + "{}" + "}" * 10_000),
    "10,000 levels of Protobuf": ("PROTOBUF", 'syntax = "proto3";' + "message M {" * 10_000 + "}" * 10_000),
    "braces without end": ("PROTOBUF", 'syntax = "proto3"; message M { option (x) = ' + "{a:" * 10_000),
    "a million quotes": ("PROTOBUF", '"' * 900_000),
    "a comment without end": ("PROTOBUF", "/*" * 400_000),
    "numbers without end": ("JSON", "9" * 900_000),
    "names without end": ("AVRO", json.dumps({"type": "enum", "name": "E", "symbols": ["A" * 900_000] * 1})),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_is_refused_soon(name: str) -> None:
    kind, text = HOSTILE[name]
    registry = Registry()
    began = time.process_time()
    try:
        registry.ask("POST", "/subjects/s/versions", {"schema": text, "schemaType": kind})
        assert len(text) <= MAX_SCHEMA_CHARS, "too large, and yet taken"
    except Fault as fault:
        assert fault.status in (422, 413)
        assert len(fault.message) < 10_000, "the answer is not larger than the question"
    assert time.process_time() - began < CPU_S


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AVRO", avro_bomb(90)),
        ("JSON", json_bomb(60)),
        ("JSON", '{"$ref":"#"}'),
        ("JSON", '{"properties":{"a":{"$ref":"#"}}}'),
    ],
)
def test_schemas_that_unfold_without_end_are_compared_in_bounded_time(kind: str, text: str) -> None:
    registry = Registry()
    registry.ask("PUT", "/config", {"compatibility": "FULL_TRANSITIVE"})
    began = time.process_time()
    for changed in (text, text.replace('"int"', '"long"').replace('"string"', '"number"')):
        try:
            registry.ask("POST", "/subjects/s/versions", {"schema": changed, "schemaType": kind})
        except Fault as fault:
            assert fault.status in (409, 422)
    assert time.process_time() - began < CPU_S


def choices_of_choices(depth: int) -> str:
    definitions: dict[str, Any] = {
        f"d{level}": {"oneOf": [{"$ref": f"#/definitions/d{level + 1}"}] * 10} for level in range(depth)
    }
    definitions[f"d{depth}"] = {"type": "string"}
    return json.dumps({"$ref": "#/definitions/d0", "definitions": definitions})


def enum(letter: str) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": [f"{letter}{index}" for index in range(60_000)]}


def names(keyword: str, letter: str) -> str:
    return json.dumps({keyword: [f"{letter}{index}" for index in range(60_000)]})


def below_a_long_name(type_: str) -> str:
    """A schema whose every path has 500,000 characters."""
    properties = {f"p{index}": {"type": type_} for index in range(8_000)}
    return json.dumps({"properties": {"n" * 500_000: {"properties": properties}}})


WIDE_RECORD = record(*(field(f"w{index}", "int", default=1) for index in range(9_000)), name="Wide")


def defaults_of_the_wide_record(count: int) -> list[dict[str, Any]]:
    return [field(f"f{index}", "Wide", default={}) for index in range(count)]


WIDE = {
    "choices of choices": ("JSON", choices_of_choices(40), '{"type":"string"}'),
    "anchors": (
        "JSON",
        json.dumps({
            "properties": {f"p{index}": {"$ref": f"#a{index}"} for index in range(6_000)},
            "definitions": {f"d{index}": {"$anchor": f"a{index}"} for index in range(6_000)},
        }),
        "true",
    ),
    "symbols": ("AVRO", json.dumps(enum("a")), json.dumps(enum("b"))),
    "required": ("JSON", names("required", "a"), names("required", "b")),
    "types": ("JSON", names("type", "a"), names("type", "b")),
    "an enum for each of many choices": (
        "JSON",
        json.dumps({"oneOf": [{"const": index} for index in range(6_000)]}),
        json.dumps({"enum": [f"{index:060d}" for index in range(12_000)]}),
    ),
    "keywords beside many choices": (
        "JSON",
        json.dumps(
            {"oneOf": [{"type": "string"}] * 5_000, **{f"k{index}": 1 for index in range(60_000)}},
        ),
        '{"type":"integer"}',
    ),
    "below a long name": ("JSON", below_a_long_name("string"), below_a_long_name("integer")),
    "defaults of a wide record": (
        "AVRO",
        json.dumps(record(field("first", WIDE_RECORD, default={}), *defaults_of_the_wide_record(8_000))),
        json.dumps(record()),
    ),
    "defaults of symbols": (
        "AVRO",
        json.dumps(record(field("a", {"type": "array", "items": enum("a")}, default=["a59999"] * 20_000))),
        json.dumps(record()),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDE)
def test_wide_schemas_are_parsed_and_compared_in_bounded_time(name: str) -> None:
    kind, old, new = WIDE[name]
    registry = Registry()
    began = time.process_time()
    for text in (old, new):
        try:
            registry.register("s", text, schemaType=kind)
        except Fault as fault:
            assert fault.status in (409, 422)
    assert time.process_time() - began < CPU_S


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("JSON", '{"const":NaN}'),
        ("JSON", '{"const":1e400}'),
        ("JSON", '{"title":"\\ud800"}'),
        ("AVRO", '{"type":"record","name":"R","aliases":5,"fields":[]}'),
        ("AVRO", '{"type":"record","name":"R","fields":[{"name":"a","type":"int","aliases":[7]}]}'),
    ],
)
def test_what_cannot_be_kept_as_it_is_is_refused(kind: str, text: str) -> None:
    registry = Registry()
    request = Request("POST", "/subjects/s/versions", body={"schema": text, "schemaType": kind})
    assert registry.rest.is_write(request)
    with pytest.raises(Fault) as caught:
        registry.rest.answer(request)
    assert caught.value.status == 422


def test_a_reference_to_a_version_that_cannot_be_is_refused() -> None:
    body = {"schema": '"int"', "references": [{"name": "a", "subject": "b", "version": 10**30}]}
    assert Registry().refused("POST", "/subjects/s/versions", body) == (422, 42202)


def test_import_cycles_of_protobuf_are_refused() -> None:
    registry = Registry()
    for name, other in (("a.proto", "b.proto"), ("b.proto", "a.proto")):
        text = f'syntax = "proto3"; import "{other}"; message {name[0].upper()} {{}}'
        value = {
            "subject": name, "version": 1, "id": 1, "schemaType": "PROTOBUF", "schema": text,
            "references": [{"name": other, "subject": other, "version": 1}],
        }  # fmt: skip
        key = {"keytype": "SCHEMA", "subject": name, "version": 1, "magic": 1}
        assert registry.state.replay(json.dumps(key).encode(), json.dumps(value).encode())
    references = [{"name": "a.proto", "subject": "a.proto", "version": 1}]
    text = 'syntax = "proto3"; import "a.proto"; message C {A a = 1;}'
    body = {"schema": text, "schemaType": "PROTOBUF", "references": references}
    assert registry.refused("POST", "/subjects/s/versions", body) == (422, 42201)


def test_a_tree_of_references_that_doubles_is_read_once() -> None:
    registry = Registry()
    registry.register("r0", {"type": "record", "name": "R0", "fields": []})
    for level in range(1, 40):
        fields = [{"name": name, "type": f"R{level - 1}"} for name in ("a", "b")]
        references = [{"name": f"R{level - 1}", "subject": f"r{level - 1}", "version": 1}]
        if level > 1:
            references.append({"name": f"R{level - 2}", "subject": f"r{level - 2}", "version": 1})
        began = time.process_time()
        try:
            registry.register(
                f"r{level}", {"type": "record", "name": f"R{level}", "fields": fields}, references=references
            )
        except Fault as fault:
            assert fault.code == 42201
            break
        assert time.process_time() - began < CPU_S


def test_a_referenced_type_may_have_defaults() -> None:
    registry = Registry()
    registry.register("item", record(field("count", "int", default=1), name="Item"))
    references = [{"name": "Item", "subject": "item", "version": 1}]
    assert registry.register("order", record(field("item", "Item")), references=references) == 2
