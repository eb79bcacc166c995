"""Topics that refuse records without a registered schema: confluent-kafka's serializers, a real registry, or none."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from struct import pack
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.client import KafkaError
from ottla.client.admin import ConfigResource, ResourceType
from ottla.client.blocking import Admin
from ottla.client.blocking import Producer as OwnProducer
from ottla.testing import Broker
from ottla.testing.reserved_port import ReservedPort
from ottla.wire.errors import ErrorCode

pytestmark = pytest.mark.interop
ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"item","type":"string"}]}'
ON = {"confluent.value.schema.validation": "true"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"confluent.missing.id.cache.ttl.sec": "1"}) as made:
        yield made


@contextmanager
def running_registry(broker: Broker, port: int) -> Iterator[str]:
    command = [sys.executable, "-m", "ottla", "registry", "--port", str(port), "-b", broker.bootstrap_servers]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = next((one.group() for line in process.stderr if (one := re.search(r"http://\S+", line))), None)
        assert found is not None, "the registry did not start"
        yield found
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[SchemaRegistryClient]:
    made = SchemaRegistryClient({"url": broker.registry_url})
    yield made
    made.close()


def create(broker: Broker, topic: str, **config: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(topic, 1, 1, {**ON, **{name.replace("_", "."): value for name, value in config.items()}})


def outcomes(broker: Broker, topic: str, values: list[Any], **settings: Any) -> list[int | None]:
    """The error of each value's delivery; each is a batch of its own, and may have headers."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, **settings})
    found: list[int | None] = []
    for value in values:
        value, headers = value if isinstance(value, tuple) else (value, None)
        producer.produce(
            topic, value, key=b"k", headers=headers,
            on_delivery=lambda error, _: found.append(None if error is None else error.code()),
        )  # fmt: skip
        producer.flush()
    return found


def noted(found: list[Any], error: Any, _: Any) -> None:
    found.append(error)


def test_good_records_pass_and_bad_ones_are_refused(broker: Broker, client: SchemaRegistryClient) -> None:
    create(broker, "orders")
    context = SerializationContext("orders", MessageField.VALUE)
    good = AvroSerializer(client, ORDER)({"item": "pear"}, context)
    other = client.register_schema("other-value", Schema('"string"', "AVRO"))
    bad = pack(">bI", 0, other) + b"\x02a"
    values = [good, bad, b"plain", None, good, pack(">bI", 0, 4_000), b""]
    refused = LibrdkafkaError.INVALID_RECORD
    for settings in ({}, {"acks": 1}, {"enable.idempotence": True}, {"compression.type": "zstd"}):
        found = outcomes(broker, "orders", values, **settings)
        assert found == [None, refused, refused, None, None, refused, refused], settings


def test_the_refusal_says_what_is_wrong(broker: Broker, client: SchemaRegistryClient) -> None:
    create(broker, "told")
    with OwnProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        delivery = producer.send("told", pack(">bI", 0, 4_000))
        with pytest.raises(KafkaError) as caught:
            producer.flush()
            delivery.result()
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert "schema id 4000, which is not registered under the subject told-value" in str(caught.value)


def test_guids_in_headers(broker: Broker, client: SchemaRegistryClient) -> None:
    create(broker, "headers")
    context = SerializationContext("headers", MessageField.VALUE, [])
    serializer = AvroSerializer(client, ORDER, conf={"schema.id.serializer": header_schema_id_serializer})
    value = serializer({"item": "pear"}, context)
    assert value == b"\x08pear"
    unknown = [("__value_schema_id", b"\1" + bytes(16))]
    found = outcomes(broker, "headers", [(value, context.headers), (value, None), (value, unknown)])
    assert found == [None, LibrdkafkaError.INVALID_RECORD, LibrdkafkaError.INVALID_RECORD]


def test_subjects_named_after_records(broker: Broker, client: SchemaRegistryClient) -> None:
    strategies = "io.confluent.kafka.serializers.subject."
    create(broker, "by-record", confluent_value_subject_name_strategy=strategies + "RecordNameStrategy")
    create(broker, "by-both", confluent_value_subject_name_strategy=strategies + "TopicRecordNameStrategy")
    value = pack(">bI", 0, client.register_schema("shop.Order", Schema(ORDER, "AVRO"))) + b"\x08pear"
    assert outcomes(broker, "by-record", [value]) == [None]
    assert outcomes(broker, "by-both", [value]) == [LibrdkafkaError.INVALID_RECORD]


def test_transactions_are_checked_too(broker: Broker, client: SchemaRegistryClient) -> None:
    create(broker, "transacted")
    value = pack(">bI", 0, client.register_schema("transacted-value", Schema(ORDER, "AVRO"))) + b"\x08pear"
    for one, is_good in ((value, True), (b"plain", False), (value, True)):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "validated"})
        producer.init_transactions()
        found: list[Any] = []
        producer.begin_transaction()
        producer.produce("transacted", one, on_delivery=partial(noted, found))
        producer.flush()
        assert (found[0] is None) is is_good
        producer.commit_transaction() if is_good else producer.abort_transaction()


def test_the_settings_are_shown_where_they_are_set(broker: Broker) -> None:
    create(broker, "shown")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("bare", 1, 1)
        wanted = [ConfigResource(ResourceType.TOPIC, name) for name in ("shown", "bare")]
        shown = admin.describe_configs(wanted)
    assert shown[wanted[0]]["confluent.value.schema.validation"].value == "true"
    assert not any(name.startswith(("confluent.", "ottla.")) for name in shown[wanted[1]])


def test_without_the_registry_known_schemas_pass_and_others_wait_for_it() -> None:
    reserved = ReservedPort()
    with Broker({"confluent.schema.registry.url": f"http://127.0.0.1:{reserved.number}"}) as broker:
        without_the_registry(broker, reserved.number)
    reserved.release()


def without_the_registry(broker: Broker, port: int) -> None:
    create(broker, "waits")
    with running_registry(broker, port) as url, SchemaRegistryClient({"url": url}) as client:
        known = pack(">bI", 0, client.register_schema("waits-value", Schema(ORDER, "AVRO"))) + b"\x08pear"
        later = pack(">bI", 0, client.register_schema("waits-value", Schema(ORDER[:-3] + ',"doc":""}]}', "AVRO")))
        assert outcomes(broker, "waits", [known]) == [None]
    found = outcomes(broker, "waits", [known, later, b"plain"], **{"message.timeout.ms": 3_000})
    assert found == [None, LibrdkafkaError._MSG_TIMED_OUT, LibrdkafkaError.INVALID_RECORD]
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    delivered: list[Any] = []
    producer.produce("waits", later, on_delivery=lambda error, _: delivered.append(error))
    producer.poll(0.5)
    with running_registry(broker, port):
        producer.flush()
    assert delivered == [None]


def test_a_broker_that_may_go_on_without_the_registry() -> None:
    dead = ReservedPort()
    config = {
        "confluent.schema.registry.url": f"http://127.0.0.1:{dead.number}",
        "ottla.schema.registry.unavailable": "accept",
    }
    with Broker(config) as broker:
        create(broker, "open")
        assert outcomes(broker, "open", [pack(">bI", 0, 7), b"plain"]) == [None, LibrdkafkaError.INVALID_RECORD]
    dead.release()


def test_full_validation_refuses_what_does_not_decode(broker: Broker, client: SchemaRegistryClient) -> None:
    create(broker, "full", ottla_value_schema_validation="full")
    context = SerializationContext("full", MessageField.VALUE)
    good = AvroSerializer(client, ORDER)({"item": "pear"}, context)
    guid = [("__value_schema_id", b"\1" + UUID(client.get_latest_version("full-value").guid or "").bytes)]
    values = [good, good[:-1], good + b"x", good[:5], None, (good[5:], guid), (good[5:-2], guid)]
    refused = LibrdkafkaError.INVALID_RECORD
    for codec in ("none", "lz4"):
        found = outcomes(broker, "full", values, **{"compression.type": codec})
        assert found == [None, refused, refused, refused, None, None, refused]
    with OwnProducer(bootstrap_servers=broker.bootstrap_servers) as producer, pytest.raises(KafkaError) as caught:
        producer.send("full", good[:-1]).result()
    assert "the value does not decode with schema id" in str(caught.value)
    assert "it ends too early" in str(caught.value)


def test_full_validation_of_json_and_protobuf(broker: Broker, client: SchemaRegistryClient) -> None:
    create(broker, "full-json", ottla_value_schema_validation="full")
    create(broker, "full-proto", ottla_value_schema_validation="full")
    refused = LibrdkafkaError.INVALID_RECORD
    text = '{"type":"object","title":"Order","properties":{"item":{"type":"string"},"n":{"type":"integer"}}}'
    head = pack(">bI", 0, client.register_schema("full-json-value", Schema(text, "JSON")))
    values = [head + b'{"item":"pear","n":1}', head + b'{"n":"many"}', head + b"{", head + b'{"other":1}']
    assert outcomes(broker, "full-json", values) == [None, refused, refused, None]
    text = 'syntax = "proto3"; package shop; message Gone {int32 a = 1;} message Order {string item = 1;}'
    head = pack(">bI", 0, client.register_schema("full-proto-value", Schema(text, "PROTOBUF")))
    pear = b"\x0a\x04pear"
    values = [head + b"\2\2" + pear, head + b"\0" + b"\x08\1", head + b"\2\2" + pear[:-1], head + b"\2\6" + pear, head]
    assert outcomes(broker, "full-proto", values) == [None, None, refused, refused, refused]


def test_full_validation_refuses_schemas_that_make_a_payload_endless(
    broker: Broker, client: SchemaRegistryClient
) -> None:
    create(broker, "bombs", ottla_value_schema_validation="full")
    client.set_compatibility("bombs-value", level="NONE")
    many = client.register_schema("bombs-value", Schema('{"type":"array","items":"null"}', "AVRO"))
    node = '{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]}]}'
    deep = client.register_schema("bombs-value", Schema(node, "AVRO"))
    values = [pack(">bI", 0, many) + b"\xfe\xff\xff\xff\x0f\0", pack(">bI", 0, deep) + b"\2" * 900_000 + b"\0"]
    assert outcomes(broker, "bombs", values) == [LibrdkafkaError.INVALID_RECORD] * 2
    assert broker.is_running
