"""Every API in every version: each answer is read by kio to its last byte, and a right request gets no error code."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import time
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.interop import requests
from tests.interop.conftest import ON_KAFKA
from tests.interop.servers import API_VERSIONS_V0, Server, ask

confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")
confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
default_records = pytest.importorskip("kafka.record.default_records", reason="kafka-python is not installed")

COORDINATOR_LOAD_IN_PROGRESS = 14  # Kafka's answer to InitProducerId until it has its first block of ids
_names = itertools.count()


@dataclasses.dataclass(frozen=True)
class Target:
    """A topic that requests can name and its id."""

    server: Server
    topic: str
    topic_id: uuid.UUID


@pytest.fixture(scope="module")
def target(broker: Server) -> Iterator[Target]:
    admin = confluent_admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = "every-version"
    admin.create_topics([confluent_admin.NewTopic(topic, 1, 1)])[topic].result(120)
    for _ in range(1_200):
        with broker.connect() as connection:
            message = requests.request(3, 13, {"topics": None})
            listed = requests.answer(3, 13, ask(connection, requests.frame(message))).topics
        found = {str(each.name): each.topic_id for each in listed}
        if topic in found:
            break
        time.sleep(0.1)
    yield Target(broker, topic, found[topic])
    admin.delete_topics([topic])[topic].result(120)


def records() -> bytes:
    builder = default_records.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10_000)
    builder.append(0, 1_700_000_000_000, b"key", b"value", [])
    return bytes(builder.build())


def right_request(api_key: int, version: int, target: Target) -> Any:
    """A request that Kafka carries out."""
    topic = target.topic
    hints: dict[str, Any] = {
        "topic": topic,
        "topics": None,
        "name": topic,
        "topic_name": topic,
        "topic_id": target.topic_id,
        "resource_name": topic,
        "resource_type": 2,
        "records": records(),
        "acks": 1,
        "replica_id": -1,
        "session_epoch": -1,
        "partition_max_bytes": 1000,
        "forgotten_topics_data": (),
        "timestamp": -1,
        "timeout": datetime.timedelta(seconds=5),
        "client_software_name": "kio",
        "client_software_version": "1",
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": (),
        "configs": (),
        "transactional_id": None,
        "configuration_keys": None,
        "count": 100 + next(_names),
        "components": (),
        "allow_auto_topic_creation": False,
        "cursor": None,
        "response_partition_limit": 100,
        "resource_types": (),
        "endpoint_type": 1,
    }
    if api_key not in (3, 60):
        del hints["topics"]
    fresh = f"every-version-{next(_names)}"
    if api_key == 3:
        hints["topics"] = None if version else ()
    if api_key == 19:
        hints["name"] = fresh
    if api_key == 20:
        with target.server.connect() as connection:
            wish = requests.request(19, 7, {**hints, "name": fresh})
            ask(connection, requests.frame(wish))
        hints.update(name=fresh, topic_names=(fresh,), topic_id=None)
    if api_key in (33, 44):
        del hints["configs"]
        hints.update(name="retention.ms", value="604800000", config_operation=0)
    if api_key == 37:
        hints["assignments"] = None
    if api_key == 49:
        hints.update(entity_type="user", entity_name="kio", key="producer_byte_rate", value=1e9)
    if api_key == 55:
        hints["topic_name"] = "__cluster_metadata"
    if api_key == 57:
        hints.update(feature="transaction.version", max_version_level=2, upgrade_type=1, validate_only=version > 0)
    return requests.request(api_key, version, hints)


def error_codes(message: Any) -> Iterator[int]:
    """Every error code in a response, however deep."""
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name == "error_code":
            yield int(value)
        elif isinstance(value, tuple):
            for each in value:
                if dataclasses.is_dataclass(each):
                    yield from error_codes(each)
        elif dataclasses.is_dataclass(value):
            yield from error_codes(value)


OF_THIS_ISSUE = [0, 1, 2, 3, 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 44, 48, 49, 55, 57, 60, 61, 74, 75]


@pytest.mark.parametrize("api_key", OF_THIS_ISSUE)
def test_a_right_request_succeeds_in_every_version(target: Target, api_key: int) -> None:
    with target.server.connect() as connection:
        offered = requests.advertised(ask(connection, API_VERSIONS_V0))[api_key]
        first = max(offered.start, requests.versions(api_key).start)
        assert len(offered) >= len(requests.versions(api_key)) - (
            api_key == 22
        )  # the newest InitProducerId is unstable
        for version in range(first, min(offered.stop, requests.versions(api_key).stop)):  # kio knows those of 4.3
            for _ in range(1_200):
                received = ask(connection, requests.frame(right_request(api_key, version, target)))
                message = requests.answer(api_key, version, received)
                failed = [code for code in error_codes(message) if code]
                if failed != [COORDINATOR_LOAD_IN_PROGRESS]:
                    break
                time.sleep(0.1)
            assert not failed, f"version {version}: {message}"


def test_random_requests_of_every_offered_api_get_readable_answers(target: Target) -> None:
    """Whatever a well-formed request asks for, it is answered in that version or the connection closes."""
    server = target.server
    with server.connect() as connection:
        offered = requests.advertised(ask(connection, API_VERSIONS_V0))
    rng = Random(20_240_601)
    answered = 0
    unanswered: list[str] = []
    connection = server.connect(3)
    for api_key, known in sorted(offered.items()):
        if api_key not in OF_THIS_ISSUE:
            continue
        for version in known:
            if version not in requests.versions(api_key):
                continue
            for _ in range(3):
                hints = {
                    "acks": -1,
                    "topic": target.topic,
                    "max_wait": datetime.timedelta(0),
                    "topic_id": target.topic_id,
                }
                message = requests.request(api_key, version, hints if rng.random() < 0.5 else {"acks": 1}, rng)
                try:
                    received = ask(connection, requests.frame(message))
                except OSError as failure:
                    if isinstance(failure, TimeoutError):
                        unanswered.append(str(message)[:500])
                    connection.close()
                    connection = server.connect(3)
                    continue
                requests.answer(api_key, version, received)
                answered += 1
    connection.close()
    assert server.answers()
    assert answered > 100
    assert ON_KAFKA or not unanswered  # Apache Kafka forgets a few Produce requests whose records it cannot read
