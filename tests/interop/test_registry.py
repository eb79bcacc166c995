"""`ottla registry` as a process: confluent-kafka's client and serializers, our own client, two instances, a restart."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka.schema_registry import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    MetadataTags,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ottla.client.blocking import Consumer, Producer
from ottla.converters.registry import AVRO, RegisteredSchema, Registry, RegistrySettings
from ottla.testing import Broker

pytestmark = pytest.mark.interop
ORDER = '{"type":"record","name":"Order","fields":[{"name":"item","type":"string"}]}'
WITH_PRICE = json.dumps(
    {"type": "record", "name": "Order", "fields": [
        {"name": "item", "type": "string"}, {"name": "price", "type": "int", "default": 0}]}
)  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as made:
        yield made


@contextmanager
def registry(broker: Broker, topic: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A registry with a topic of its own; its URL and process."""
    command = [sys.executable, "-m", "ottla", "registry", "--port", "0", "-b", broker.bootstrap_servers]
    process = subprocess.Popen([*command, "--topic", topic, "--group", topic], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        url = None
        for line in process.stderr:
            found = re.search(r"http://\S+", line)
            if found:
                url = found.group()
                break
        assert url is not None, "the registry did not start"
        yield url, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


@pytest.fixture(scope="module")
def url(broker: Broker) -> Iterator[str]:
    with registry(broker, "_schemas") as (found, _):
        yield found


@contextmanager
def client_of(url: str) -> Iterator[SchemaRegistryClient]:
    made = SchemaRegistryClient({"url": url})
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def client(url: str) -> Iterator[SchemaRegistryClient]:
    with client_of(url) as made:
        yield made


def test_confluents_client_registers_looks_up_checks_and_deletes(client: SchemaRegistryClient) -> None:
    subject = ":.eu:orders/value"
    schema_id = client.register_schema(subject, Schema(ORDER, "AVRO"))
    assert client.lookup_schema(subject, Schema(ORDER, "AVRO")).schema_id == schema_id
    assert json.loads(client.get_schema(schema_id, subject).schema_str or "") == json.loads(ORDER)
    assert client.test_compatibility(subject, Schema(WITH_PRICE, "AVRO"))
    assert not client.test_compatibility(subject, Schema('"int"', "AVRO"))
    client.set_compatibility(subject, level="NONE")
    assert client.get_compatibility(subject) == "NONE"
    assert client.register_schema(subject, Schema(WITH_PRICE, "AVRO")) == schema_id + 1
    assert client.get_versions(subject) == [1, 2]
    assert client.get_latest_version(subject).version == 2
    assert client.delete_version(subject, 1) == 1
    assert client.delete_subject(subject) == [2]
    assert client.delete_subject(subject, permanent=True) == [1, 2]
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_versions(subject)
    assert (caught.value.http_status_code, caught.value.error_code) == (404, 40401)


def test_confluents_client_reads_metadata_guids_references_modes_and_associations(client: SchemaRegistryClient) -> None:
    metadata = Metadata(MetadataTags({"a": ["PII"]}), MetadataProperties({"major": "1"}), ["secret"])
    schema_id = client.register_schema("meta-value", Schema(ORDER, "AVRO", [], metadata, None), normalize_schemas=True)
    found = client.get_latest_with_metadata("meta-value", {"major": "1"})
    assert found.schema_id == schema_id and found.guid is not None
    assert client.get_schema_by_guid(found.guid).metadata == metadata
    text = '{"type":"record","name":"Bill","fields":[{"name":"order","type":"Order"}]}'
    bill = client.register_schema("bill-value", Schema(text, "AVRO", [SchemaReference("Order", "meta-value", 1)]))
    assert client.get_referenced_by("meta-value", 1) == [bill]
    assert [one.subject for one in client.get_schema_versions(bill)] == ["bill-value"]
    assert client.test_compatibility_all_versions("meta-value", Schema(WITH_PRICE, "AVRO"), verbose=True)
    client.set_config(
        "meta-value", ServerConfig(compatibility=ConfigCompatibilityLevel.FULL, compatibility_group="major")
    )
    assert client.get_config("meta-value").compatibility_group == "major"
    client.delete_config("meta-value")
    assert client.update_mode("meta-value", "READONLY") == "READONLY"
    with pytest.raises(SchemaRegistryError) as caught:
        client.register_schema("meta-value", Schema(WITH_PRICE, "AVRO"))
    assert caught.value.error_code == 42205
    client.delete_mode("meta-value")
    wanted = AssociationCreateOrUpdateInfo(subject="meta-value", association_type="value", lifecycle="WEAK")
    client.create_association(AssociationCreateOrUpdateRequest("meta", "cluster", "id-1", "topic", [wanted]))
    associations = client.get_associations_by_resource_name("meta", "-", "topic", ["value"])
    assert [one.subject for one in associations] == ["meta-value"]
    client.delete_associations("id-1")
    assert client.get_associations_by_resource_name("meta", "cluster") == []


def test_confluents_serializers_for_avro_and_json_schema(client: SchemaRegistryClient) -> None:
    context = SerializationContext("orders", MessageField.VALUE)
    avro = AvroSerializer(client, ORDER)({"item": "pear"}, context)
    assert AvroDeserializer(client)(avro, context) == {"item": "pear"}
    schema = '{"type":"object","title":"Order","properties":{"item":{"type":"string"}},"additionalProperties":false}'
    context = SerializationContext("orders-json", MessageField.VALUE)
    value = JSONSerializer(schema, client)({"item": "pear"}, context)
    assert JSONDeserializer(None, schema_registry_client=client)(value, context) == {"item": "pear"}
    assert client.get_latest_version("orders-json-value").schema.schema_type == "JSON"


def test_confluents_serializers_for_protobuf(client: SchemaRegistryClient) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="item", number=1, type=9, label=1)
    order.field.add(name="at", number=2, type=11, type_name=".google.protobuf.Timestamp", label=1)
    file.dependency.append("google/protobuf/timestamp.proto")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    context = SerializationContext("orders-proto", MessageField.VALUE)
    value = ProtobufSerializer(kind, client, {"use.deprecated.format": False})(kind(item="pear"), context)
    found = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)(value, context)
    assert found.item == "pear"
    assert "  string item = 1;" in (client.get_latest_version("orders-proto-value").schema.schema_str or "")


def test_answers_come_in_the_type_that_is_wanted_and_forms_of_web_pages_are_refused(url: str) -> None:
    accepted = Request(f"{url}/subjects", headers={"Accept": "application/json"})
    with urlopen(accepted, timeout=60) as answer:
        assert answer.headers["Content-Type"] == "application/json"
    form = Request(f"{url}/subjects/page/versions", json.dumps({"schema": ORDER}).encode())
    with pytest.raises(HTTPError) as caught:
        urlopen(form, timeout=60)
    with caught.value as error:
        assert (error.code, json.load(error)["error_code"]) == (415, 415)


def test_our_own_client(url: str) -> None:
    settings = RegistrySettings.parse({"url": url})
    assert settings is not None
    own = Registry(settings)
    schema_id = own.register("own-value", RegisteredSchema(AVRO, ORDER))
    assert own.by_id(schema_id).text == ORDER
    assert own.lookup("own-value", RegisteredSchema(AVRO, ORDER)) == schema_id
    assert "own-value" in own.subjects()


def test_ids_are_unique_over_two_instances_and_a_killed_leader(broker: Broker) -> None:
    def register(place: str, index: int) -> int:
        text = json.dumps({"type": "fixed", "name": f"F{index}", "size": index + 1})
        with client_of(place) as client:
            return int(client.register_schema(f"s{index}", Schema(text, "AVRO")))

    with registry(broker, "shared") as (first, process), registry(broker, "shared") as (second, _):
        with ThreadPoolExecutor(4) as pool:
            same = list(pool.map(lambda place: register(place, 0), [first, second] * 4))
            ids = list(pool.map(register, [first, second] * 8, range(1, 17)))
        assert set(same) == {same[0]}
        assert len({same[0], *ids}) == 17
        process.kill()
        process.wait()
        later = register(second, 17)
        assert later not in {same[0], *ids}
        with client_of(second) as client:
            assert set(client.get_subjects()) == {f"s{index}" for index in range(18)}


def test_a_topic_that_another_registry_wrote_is_taken_over(broker: Broker) -> None:
    records = [
        ('{"keytype":"NOOP","magic":0}', None),
        ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FULL"}'),
        ('{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
         '{"subject":"a","version":1,"id":5,"schema":"\\"int\\"","deleted":false}'),
        ("damaged", "damaged"),
        ('{"keytype":"SCHEMA","subject":"b","version":1,"magic":1}',
         '{"subject":"b","version":1,"id":6,"schema":"\\"long\\"","deleted":false}'),
        ('{"keytype":"DELETE_SUBJECT","subject":"b","magic":0}', '{"subject":"b","version":1}'),
    ]  # fmt: skip
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key, value in records:
            producer.send("taken", None if value is None else value.encode(), key.encode(), partition=0)
        producer.flush()
    with registry(broker, "taken") as (url, _), client_of(url) as client:
        assert client.get_subjects() == ["a"]
        assert client.get_compatibility() == "FULL"
        assert client.get_schema(5).schema_str == '"int"'
        assert client.register_schema("c", Schema('"string"', "AVRO")) == 7
    with Consumer(bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign([("taken", 0)])
        consumer.seek_to_beginning()
        found: list[tuple[bytes | None, bytes | None]] = []
        while not found or found[-1][0] != b'{"keytype":"SCHEMA","subject":"c","version":1,"magic":1}':
            found += [(one.key, one.value) for one in consumer.poll(5_000)]
    assert found[-1][1] == (
        b'{"subject":"c","version":1,"id":7,"schemaType":"AVRO","schema":"\\"string\\"","deleted":false}'
    )


def test_the_commands(url: str, tmp_path: Path) -> None:
    def ottla(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ottla", "schemas", *arguments, "--registry", url]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    assert ottla("register", "shop-value", str(file)).returncode == 0
    file.write_text(WITH_PRICE)
    assert ottla("check", "shop-value", str(file)).returncode == 0
    assert ottla("register", "shop-value", str(file)).returncode == 0
    file.write_text('"int"')
    refused = ottla("check", "shop-value", str(file))
    assert refused.returncode == 1 and "TYPE_MISMATCH" in refused.stderr
    assert "shop-value" in ottla("list").stdout
    assert '+      "name": "price"' in ottla("diff", "shop-value", "1", "2").stdout
    assert json.loads(ottla("show", "shop-value", "--version", "1").stdout) == json.loads(ORDER)
    file.write_text('{"type":"record","name":"Sale","fields":[{"name":"order","type":"Order"}]}')
    assert ottla("register", "sale-value", str(file)).returncode == 1
    assert ottla("register", "sale-value", str(file), "--reference", "Order=shop-value").returncode == 0
    shown = json.loads(ottla("show", "sale-value", "-o", "json").stdout)[0]
    assert shown["references"] == [{"name": "Order", "subject": "shop-value", "version": 2}]
    assert ottla("delete", "sale-value", "--yes").returncode == 0
    assert ottla("delete", "shop-value", "--yes").returncode == 0
    assert "shop-value" not in ottla("list").stdout


def test_produce_takes_a_schema_and_consume_decodes_by_itself(broker: Broker, url: str, tmp_path: Path) -> None:
    def ottla(*arguments: str, registry: str | None = url, text: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "OTTLA_BROKER": broker.bootstrap_servers, "OTTLA_CLUSTERS": str(tmp_path / "none")}
        environment.pop("OTTLA_REGISTRY", None)
        if registry is not None:
            environment["OTTLA_REGISTRY"] = registry
        command = [sys.executable, "-m", "ottla", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, env=environment)

    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    done = ottla("produce", "cli-orders", "--schema", str(file), text='{"item": "pear"}\n')
    assert done.returncode == 0, done.stderr
    assert ottla("schemas", "show", "cli-orders-value").stdout.count("item") == 1
    assert ottla("produce", "cli-orders", "--schema", "cli-orders-value", "-m", '{"item": "fig"}').returncode == 0
    assert ottla("produce", "cli-orders", "-m", "plain").returncode == 0
    found = ottla("consume", "cli-orders", "-e")
    assert (found.stdout.splitlines(), found.stderr) == (['{"item": "pear"}', '{"item": "fig"}', "plain"], "")
    raw = ottla("consume", "cli-orders", "-e", "-n", "1", "--no-decode", "-f", "%v{hex}\n").stdout
    assert raw.startswith("00000000")
    nothing_listens = "http://127.0.0.1:9"
    away = ottla("consume", "cli-orders", "-e", registry=nothing_listens)
    assert away.returncode == 0 and "records are not decoded" in away.stderr and "plain" in away.stdout
    refused = ottla("produce", "cli-orders", "--schema", "cli-orders-value", "-m", '{"items": 1}')
    assert refused.returncode == 1 and "which the schema has not" in refused.stderr
    unknown = ottla("produce", "cli-orders", "--schema", str(file), "-m", "{}", registry=None)
    assert unknown.returncode == 1 and "where is the schema registry?" in unknown.stderr
