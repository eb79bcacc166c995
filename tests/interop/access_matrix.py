"""The matrix of permissions: each request of access_requests.py by each user, and what the server answered.

Of an answer remain its error codes, its AuthorizedOperations, the names of the things in it and whether ids, leaders
and states are present. They show whether a denial gives away more than Kafka does. What Apache Kafka 4.3.1 answered is
in kafka_access_answers.json; to write it down anew:

    OTTLA_TEST_KAFKA=1 OTTLA_RECORD=1 python -m pytest tests/interop/test_access_like_kafka.py
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ottla.wire import Message, decoder, frames
from ottla.wire.apis import response_class
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.interop.access_requests import DOOMED, SUPER_USER, TOPICS, Case, cases, creations, topology, users
from tests.interop.secured_kafka import jaas
from tests.interop.servers import Kafka, Ottla, Server, ask, free_port

RECORDED = Path(__file__).with_name("kafka_access_answers.json")
PASSWORD = "password-of-all"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NAMES = (
    *("name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "resource_type", "key", "user"),
    *("partition_index", "index"),
)
TELLING = ("leader_id", "group_state", "group_type", "topic_id", "transaction_state", "member_id", "protocol_type")
"""Fields that say something of a thing that exists. Only whether they do is kept."""
MEMBER = "CAgICAgICAgICAgICAgICA"
SILENT: tuple[Any, ...] = (None, "", -1, 0, b"\0" * 16, "Dead", "Unknown")

Answer = Any


class Listeners:
    """Ports of the SASL listeners for clients and for nodes, and the settings that make them."""

    def __init__(self) -> None:
        self.ports = {"broker": free_port(), "controller": free_port()}

    def settings(self, port: int, controller_port: int) -> dict[str, str]:
        """`port` is that of PLAINTEXT, the node's own listener, whose anonymous clients may do everything."""
        known = {f"user_{name}": PASSWORD for name in users()}
        login = jaas("plain.PlainLoginModule", **known)
        own = f"PLAINTEXT://127.0.0.1:{port},USERS://127.0.0.1:{self.ports['broker']}"
        return {
            "listeners": f"{own},CONTROLLER://127.0.0.1:{controller_port},NODES://127.0.0.1:{self.ports['controller']}",
            "advertised.listeners": own,
            "controller.listener.names": "CONTROLLER,NODES",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "NODES:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": login,
            "listener.name.nodes.plain.sasl.jaas.config": login,
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
            "auto.create.topics.enable": "true",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.consumer.max.session.timeout.ms": "3600000",
            "group.consumer.session.timeout.ms": "3600000",
            "group.share.max.session.timeout.ms": "3600000",
            "group.share.session.timeout.ms": "3600000",
            "group.streams.max.session.timeout.ms": "3600000",
            "group.streams.session.timeout.ms": "3600000",
            "log.retention.ms": "-1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
        }


class Asker:
    """One connection, logged in as a user if one is named."""

    def __init__(self, port: int, user: str | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        if user is not None:
            self.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
            token = b"\0" + user.encode() + b"\0" + PASSWORD.encode()
            answer = self.ask(36, 2, SaslAuthenticateRequest(auth_bytes=token))
            assert answer.error_code == 0, answer

    def ask(self, key: int, version: int, request: Message) -> Any:
        frame = b"".join(map(bytes, frames.encode_request(key, version, 1, "matrix", request)))[4:]
        answer = memoryview(ask(self._socket, frame))
        _, position = frames.decode_response_header(answer, key, version)
        return decoder(response_class(key), version)(answer, position)[0]

    def close(self) -> None:
        self._socket.close()


def prepare(server: Server) -> dict[str, bytes]:
    """Make topics, groups, transactions and the users' ACLs; the topics' ids."""
    asker = Asker(server.port)

    def send(api: str, version: int, **fields: Any) -> Any:
        case = Case(api, version, fields)
        return asker.ask(case.key, version, case.request(ids))

    def until(is_done: Any, api: str, version: int, **fields: Any) -> Any:
        end = time.monotonic() + 60
        while not is_done(answer := send(api, version, **fields)):
            assert time.monotonic() < end, f"{api}: still {answer}"
            time.sleep(0.1)
        return answer

    ids: dict[str, bytes] = {}
    new = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in TOPICS.items()]
    send("CreateTopics", 7, topics=new, timeout_ms=10_000)
    listed = until(lambda answer: len(answer.topics) == len(TOPICS), "Metadata", 12, topics=None)
    ids.update({topic.name: topic.topic_id for topic in listed.topics})
    for kind in (0, 1):
        until(
            lambda answer: answer.coordinators[0].error_code == 0,
            "FindCoordinator",
            6,
            key_type=kind,
            coordinator_keys=["seen"],
        )
    row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    both = [{"name": name, "partitions": [row]} for name in ("seen", "hidden")]
    for name in ("seen", "hidden"):
        until(
            lambda answer: answer.topics[0].partitions[0].error_code == 0,
            "OffsetCommit",
            9,
            group_id=name,
            topics=both,
        )
        until(lambda answer: answer.error_code == 0, "InitProducerId", 4, transactional_id=name, producer_id=-1,
              producer_epoch=-1, transaction_timeout_ms=60_000)  # fmt: skip
    for group, topics in (
        ("seen-consumers", ["seen"]),
        ("seen-of-hidden", ["seen", "hidden"]),
        ("hidden-consumers", ["seen"]),
    ):
        answer = send(
            "ConsumerGroupHeartbeat",
            1,
            group_id=group,
            member_id=f"member-of-{group}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=topics,
            topic_partitions=[],
        )
        assert answer.error_code == 0, answer
    for suffix, topics in (("", ["seen"]), ("-of-hidden", ["seen", "hidden"])):
        _join_others(send, f"seen-sharers{suffix}", f"seen-streams{suffix}", topics)
    _join_others(send, "hidden-sharers", "hidden-streams", ["seen"])
    created = send("CreateAcls", 3, creations=creations())
    assert all(result.error_code == 0 for result in created.results), created
    asker.close()
    return ids


def _join_others(send: Any, share_group: str, streams_group: str, topics: list[str]) -> None:
    """A member of a share group, with partitions of its topics, and one of a streams group."""
    fields: dict[str, Any] = {"group_id": share_group, "member_id": MEMBER, "subscribed_topic_names": topics}
    epoch, assigned, end = 0, 0, time.monotonic() + 60
    while assigned < len(topics):
        answer = send("ShareGroupHeartbeat", 1, member_epoch=epoch, **fields)
        assert answer.error_code == 0, answer
        assert time.monotonic() < end, f"still {answer}"
        epoch = answer.member_epoch
        if answer.assignment is not None:
            assigned = len(answer.assignment.topic_partitions)
        time.sleep(0.1)
    answer = send(
        "StreamsGroupHeartbeat",
        0,
        group_id=streams_group,
        member_id=MEMBER,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topology=topology(topics),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process",
        client_tags=[],
    )
    assert answer.error_code == 0, answer


def play(server: Server, listeners: Listeners) -> dict[str, dict[str, Answer]]:
    """Every case by every user: by case, what each user got."""
    ids = prepare(server)
    _wait_for_acls(listeners)
    played: dict[str, dict[str, Answer]] = {case.name: {} for case in cases()}
    for user in users():
        if user == SUPER_USER:
            _wait_for_deletion(server)
        askers = {role: Asker(port, user) for role, port in listeners.ports.items()}
        for case in cases():
            try:
                answer = told(askers[case.role].ask(case.key, case.version, case.request(ids)))
            except ConnectionError:
                answer = "closed"
                askers[case.role].close()
                askers[case.role] = Asker(listeners.ports[case.role], user)
            played[case.name][user] = answer
        for asker in askers.values():
            asker.close()
    return played


def _wait_for_deletion(server: Server) -> None:
    asker = Asker(server.port)
    end = time.monotonic() + 60
    case = Case("Metadata", 12, {"topics": None})
    while any(topic.name == DOOMED for topic in asker.ask(case.key, case.version, case.request({})).topics):
        assert time.monotonic() < end, f"{DOOMED} is not deleted"
        time.sleep(0.05)
    asker.close()


def _wait_for_acls(listeners: Listeners) -> None:
    """The last of the users' ACLs is in force on both kinds of listeners."""
    last = list(users())[-1]
    end = time.monotonic() + 60
    fields = {"group_ids": ["seen-absent"]}
    case = Case("ConsumerGroupDescribe", 1, fields)
    while True:
        asker = Asker(listeners.ports["broker"], last)
        code = asker.ask(case.key, case.version, case.request({})).groups[0].error_code
        asker.close()
        if code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return
        assert time.monotonic() < end, "the ACLs are not in force"
        time.sleep(0.1)


def told(value: Any, field: str = "") -> Answer:
    """What is compared of an answer."""
    fields = getattr(type(value), "__schema__", None)
    if fields is not None:
        kept: dict[str, Any] = {}
        for one in fields.fields:
            name = one.name
            answer = told(getattr(value, name), name)
            if answer not in (None, [], {}):
                kept[name] = answer
        return kept
    if field.endswith("error_code"):
        return ErrorCode(value).name
    if field.endswith("authorized_operations"):
        return None if value == -(2**31) else value
    if field in TELLING:
        return None if value in SILENT or (field == "member_id" and value == "stranger") else "told"
    if field in NAMES:
        return bytes(value).hex() if isinstance(value, bytes | memoryview) else value
    if isinstance(value, list):
        if field in ("brokers", "api_keys", "configs", "supported_features", "finalized_features", "nodes"):
            return []
        rows = [row for each in value if (row := told(each, field))]
        # The order of most lists is that of a hash table in Kafka, or shuffled.
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
    return None


def secured_server(data: Path, listeners: Listeners, *, is_kafka: bool) -> Server:
    """A node with an authorizer, and a SASL listener for clients and for nodes beside its own ones."""
    server: Server = Kafka(data) if is_kafka else _Ottla(data)
    settings = listeners.settings(server.port, server.port + 1)
    if not is_kafka:
        settings |= {"node.id": "1", "process.roles": "broker,controller"}
    server.overrides = [f"{name}={value}" for name, value in settings.items()]
    return server


class _Ottla(Ottla):
    """Its listeners are in its settings."""

    def _listening(self) -> list[str]:
        return []


def packed(played: Mapping[str, Mapping[str, Answer]]) -> dict[str, list[Any]]:
    """By case: [answer, users that got it], most frequent first."""
    found: dict[str, list[Any]] = {}
    for case, answers in played.items():
        by_answer: dict[str, list[str]] = {}
        for user, answer in answers.items():
            by_answer.setdefault(json.dumps(answer, sort_keys=True), []).append(user)
        rows = sorted(by_answer.items(), key=lambda row: -len(row[1]))
        found[case] = [[json.loads(answer), names] for answer, names in rows]
    return found


def unpacked(recorded: Mapping[str, list[Any]]) -> Iterator[tuple[str, str, Answer]]:
    for case, rows in recorded.items():
        for answer, names in rows:
            for name in names:
                yield case, name, answer
