"""A script of group requests whose answers are written down: what Apache Kafka 4.3.1 answered is in a file, and
every server that plays the script must answer the same.

What differs from run to run (member ids, topic ids, ports) is named by the order in which it appears. Error messages
are compared, too, but for those that Ottla words more exactly (OWN_WORDS).
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import os
import re
import socket
import struct
import time
import typing
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.interop import requests
from tests.interop.servers import Server, ask, read_exactly

JAVA_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
KAFKA_UUID = re.compile(r"[\w-]{22}")

APIS = {
    "offset_commit": 8,
    "offset_fetch": 9,
    "find_coordinator": 10,
    "join_group": 11,
    "heartbeat": 12,
    "leave_group": 13,
    "sync_group": 14,
    "describe_groups": 15,
    "list_groups": 16,
    "describe_configs": 32,
    "delete_groups": 42,
    "incremental_alter_configs": 44,
    "offset_delete": 47,
    "consumer_group_heartbeat": 68,
    "consumer_group_describe": 69,
    "streams_group_heartbeat": 88,
    "streams_group_describe": 89,
}
OWN_WORDS = re.compile(
    "(?<=is not a valid regular expression: ).*"  # the words of the library
    "|This most likely occurs because of a request being malformed.*|Unknown coordinator type: .*"
    "|the request contradicts itself or the protocol"
    r"|(?<=\.ms) must be greater than or equal to .*|(?<=\.ms) \(\d+\) must not be less than .*"
)
NOT_YET = {"coordinator_load_in_progress", "coordinator_not_available", "not_coordinator"}
USUAL: dict[str, Any] = {
    "session_timeout": 30_000,
    "rebalance_timeout": 30_000,
    "protocol_type": "consumer",
    "committed_metadata": "",
    "configuration_keys": None,
}


class Script:
    """One conversation with a server. `lines` is what it answered, in the script's order."""

    def __init__(self, server: Server, name: str, topic_ids: Mapping[str, uuid.UUID]) -> None:
        self._server = server
        self._name = name
        self._topic_ids = dict(topic_ids)
        self._topic_names = {topic_id: f"<id of {topic}>" for topic, topic_id in topic_ids.items()}
        self._named: dict[str, str] = {}
        self._connection = server.connect()
        self._others: list[socket.socket] = []
        self.lines: list[str] = []

    def group(self, name: str = "g") -> str:
        """A group that no other script knows."""
        return f"{self._name}.{name}"

    def topic_id(self, topic: str) -> uuid.UUID:
        return self._topic_ids[topic]

    def ask(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Send a request, write its answer down, and return it (member ids as they are)."""
        answer = self.quietly(api, version, **fields)
        self._write(api, version, answer)
        return answer

    def quietly(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Send a request whose answer is not compared."""
        frame = requests.frame(request(APIS[api], version, fields))
        answer: dict[str, Any] = plain(requests.answer(APIS[api], version, ask(self._connection, frame)))
        return answer

    def send(self, api: str, version: int, **fields: Any) -> Callable[[], dict[str, Any]]:
        """Send a request on a connection of its own; calling what is returned waits for the answer."""
        connection = self._server.connect()
        self._others.append(connection)
        frame = requests.frame(request(APIS[api], version, fields))
        connection.sendall(struct.pack(">i", len(frame)) + frame)

        def answer() -> dict[str, Any]:
            (size,) = struct.unpack(">i", read_exactly(connection, 4))
            received: dict[str, Any] = plain(requests.answer(APIS[api], version, read_exactly(connection, size)))
            self._write(api, version, received)
            return received

        return answer

    def until(self, holds: Callable[[dict[str, Any]], bool], api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Repeat a request until its answer is the one waited for; only that one is written down."""
        end = time.monotonic() + 120
        while not holds(answer := self.quietly(api, version, **fields)):
            assert time.monotonic() < end, f"{api}: still {answer}"
            time.sleep(0.05)
        self._write(api, version, answer)
        return answer

    def note(self, text: str) -> None:
        self.lines.append(f"-- {text}")

    def close(self) -> None:
        for connection in (self._connection, *self._others):
            connection.close()

    def _write(self, api: str, version: int, answer: Mapping[str, Any]) -> None:
        shown = self._told({name: value for name, value in answer.items() if name != "throttle_time"})
        if api == "list_groups":  # of this script's own groups, in no special order
            own = [each for each in shown["groups"] if each["group_id"].startswith(self._name + ".")]
            shown["groups"] = sorted(own, key=lambda each: str(each["group_id"]))
        if api == "delete_groups":  # Kafka answers coordinator by coordinator
            shown["results"].sort(key=lambda each: str(each["group_id"]))
        if api != "leave_group":
            _sort_members(shown)
        self.lines.append(f"{api} v{version}: {json.dumps(shown, ensure_ascii=False)}")

    def _told(self, value: Any, field: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._told(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self._told(each, field) for each in value]
        if isinstance(value, uuid.UUID):
            return self._topic_names.get(value, f"<id {value}>")
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if field == "error_message" and value:
            for known, name in self._named.items():
                value = value.replace(known, name)
            value = OWN_WORDS.sub("<text>", value)
        if field == "port" and value == self._server.port:
            return "<port>"
        if isinstance(value, str):
            value = JAVA_UUID.sub(self._name_of, value)
            if field == "member_id" and KAFKA_UUID.fullmatch(value):
                value = KAFKA_UUID.sub(self._name_of, value)
        return value

    def _name_of(self, match: re.Match[str]) -> str:
        return self._named.setdefault(match.group(), f"<uuid {len(self._named) + 1}>")


def _sort_members(shown: Any) -> None:
    """Kafka tells members in no special order."""
    for name, value in shown.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            if name in ("members", "topic_partitions"):
                value.sort(key=lambda each: str(each.get("member_id", each.get("topic_id"))))
            for each in value:
                _sort_members(each)
        elif name == "subscribed_topic_names":
            value.sort()
        elif isinstance(value, dict):
            _sort_members(value)


def request(api_key: int, version: int, fields: Mapping[str, Any]) -> Any:
    """A request from nested dicts and lists. A field that this version lacks is an error of the test."""
    return _filled(requests.index.load_request_schema(api_key, version), fields)


def _filled(entity: Any, given: Mapping[str, Any]) -> Any:
    kinds = typing.get_type_hints(entity)
    unknown = set(given) - set(kinds)
    assert not unknown, f"{entity.__module__} has no {unknown}"
    values = {}
    for field in dataclasses.fields(entity):
        if field.name in given:
            value = given[field.name]
        elif field.name in USUAL:
            value = USUAL[field.name]
        elif field.default is not dataclasses.MISSING:
            continue
        else:
            value = _neutral(kinds[field.name])
        values[field.name] = _typed(kinds[field.name], value)
    return entity(**values)


def _neutral(kind: Any) -> Any:
    arguments = typing.get_args(kind)
    if type(None) in arguments:
        return None
    if typing.get_origin(kind) is tuple:
        return []
    if kind is bool:
        return False
    if kind is bytes:
        return b""
    name = getattr(kind, "__name__", "")
    return "" if kind is str or name in ("GroupId", "TopicName", "TransactionalId") else 0


def _typed(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    arguments = [part for part in typing.get_args(kind) if part is not type(None)]
    if typing.get_origin(kind) is tuple:
        return tuple(_typed(arguments[0], each) for each in value)
    if arguments:
        return _typed(arguments[0], value)
    if dataclasses.is_dataclass(kind):
        return _filled(kind, value)
    if "Timedelta" in getattr(kind, "__name__", ""):
        return datetime.timedelta(milliseconds=value)
    return value


def plain(message: Any) -> Any:
    """A message of kio as dicts, lists and plain values."""
    if dataclasses.is_dataclass(message):
        return {field.name: plain(getattr(message, field.name)) for field in dataclasses.fields(message)}
    if isinstance(message, tuple):
        return [plain(each) for each in message]
    if isinstance(message, datetime.timedelta):
        return round(message.total_seconds() * 1000)
    if hasattr(message, "name") and hasattr(message, "value"):
        return str(message.name)
    return message


def error_codes(answer: Any) -> Iterator[str]:
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name == "error_code":
                yield value
            else:
                yield from error_codes(value)
    elif isinstance(answer, list):
        for value in answer:
            yield from error_codes(value)


def wait_for_coordinators(server: Server, groups: Sequence[str]) -> None:
    """The offsets topic is made on the first question; wait until each of these groups has a loaded coordinator."""
    end = time.monotonic() + 120
    with server.connect() as connection:
        while True:
            codes: set[str] = set()
            for api, version, fields in (
                ("find_coordinator", 4, {"coordinator_keys": list(groups)}),
                ("offset_fetch", 8, {"groups": [{"group_id": group, "topics": None} for group in groups]}),
            ):
                frame = requests.frame(request(APIS[api], version, fields))
                codes |= set(error_codes(plain(requests.answer(APIS[api], version, ask(connection, frame)))))
            if codes <= {"none"}:
                return
            assert codes <= {"none"} | NOT_YET, codes
            assert time.monotonic() < end, codes
            time.sleep(0.1)


def topic_ids(server: Server, topics: Sequence[str]) -> dict[str, uuid.UUID]:
    """The ids of topics, once the server knows of all of them."""
    end = time.monotonic() + 120
    while True:
        with server.connect() as connection:
            message = requests.request(3, 13, {"topics": None})
            listed = requests.answer(3, 13, ask(connection, requests.frame(message))).topics
        found = {str(each.name): each.topic_id for each in listed if str(each.name) in topics}
        if len(found) == len(topics):
            return found
        if time.monotonic() > end:
            pytest.fail(f"of {topics} only {sorted(found)} are known")
        time.sleep(0.1)


RECORDED = Path(__file__).with_name("kafka_group_answers.json")
TOPICS = {"scripted-six": 6, "scripted-two": 2, "scripted-one": 1}
Scene = Callable[[Script], None]


def play(server: Server, scene: Scene) -> None:
    """Play a scene and compare what the server answers with what Apache Kafka answered.

    OTTLA_RECORD=1 together with OTTLA_TEST_KAFKA=1 writes Kafka's answers down anew.
    """
    name = scene.__name__
    script = Script(server, name, _prepared(server))
    try:
        scene(script)
    finally:
        script.close()
    if os.environ.get("OTTLA_RECORD") == "1" and os.environ.get("OTTLA_TEST_KAFKA") == "1":
        recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
        recorded[name] = script.lines
        RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    expected = json.loads(RECORDED.read_text())[name]
    wrong = [
        f"step {number}\n  Kafka: {theirs}\n  here:  {ours}"
        for number, (theirs, ours) in enumerate(itertools.zip_longest(expected, script.lines))
        if theirs != ours
    ]
    assert not wrong, "\n" + "\n".join(wrong)


_prepared_servers: dict[str, dict[str, uuid.UUID]] = {}


def _prepared(server: Server) -> dict[str, uuid.UUID]:
    """The topics that scenes use, made once on each server, and a coordinator for every group."""
    if server.bootstrap not in _prepared_servers:
        wish = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in TOPICS.items()]
        with server.connect() as connection:
            create = _filled(requests.index.load_request_schema(19, 7), {"topics": wish, "timeout": 60_000})
            created = plain(requests.answer(19, 7, ask(connection, requests.frame(create))))
        assert set(error_codes(created)) == {"none"}, created
        wait_for_coordinators(server, [f"warm-up-{number}" for number in range(20)])
        _prepared_servers[server.bootstrap] = topic_ids(server, list(TOPICS))
    return _prepared_servers[server.bootstrap]


def subscription(*topics: str, version: int = 0, owned: Mapping[str, Sequence[int]] | None = None) -> bytes:
    """ConsumerProtocolSubscription: what a classic consumer says when it joins."""
    parts = [struct.pack(">hi", version, len(topics)), *map(_string, topics), struct.pack(">i", -1)]
    if version >= 1:
        parts.append(struct.pack(">i", len(owned or {})))
        for topic, partitions in (owned or {}).items():
            parts += [_string(topic), struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)]
    return b"".join(parts)


def assignment(**partitions: Sequence[int]) -> bytes:
    """ConsumerProtocolAssignment v0. Topic names as keywords, `_` for `-`."""
    parts = [struct.pack(">hi", 0, len(partitions))]
    for name, indexes in partitions.items():
        parts += [_string(name.replace("_", "-")), struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)]
    return b"".join([*parts, struct.pack(">i", -1)])


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()
