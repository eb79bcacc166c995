"""A node with logins and an authorizer records what happens: in its log, and in the topic `__ottla_audit`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.admin import Acl, AclOperation, AclResource
from ottla.client.blocking import Admin, Consumer, Producer
from ottla.client.errors import KafkaError
from ottla.client.metadata import TopicPartition
from ottla.testing import Cluster
from tests.interop.secured_ottla import SecuredOttla

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = {"admin": "admin-hush", "alice": "alice-hush"}
SECRETS = (*USERS.values(), "carol-hush", "guess-hush")
TOPIC = "__ottla_audit"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    server = SecuredOttla(
        tmp_path_factory.mktemp("audit") / "data",
        users=USERS,
        protocols=("SASL_PLAINTEXT", "SSL"),
        properties={
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:admin;User:ANONYMOUS",
            "ottla.audit.topic.enable": "true",
            "ssl.client.auth": "required",
            "log.level": "debug",
        },
    )
    server.start()
    yield server
    server.stop()


def login(node: SecuredOttla, user: str, password: str) -> dict[str, Any]:
    return node.client("SASL_PLAINTEXT", user, password, "SCRAM-SHA-512")


def events(node: SecuredOttla, until: int) -> list[dict[str, Any]]:
    """At least so many, as the topic has them."""
    found: list[dict[str, Any]] = []
    with Consumer(login(node, "admin", USERS["admin"]) | {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([(TOPIC, 0)])
        ends_at = time.monotonic() + 60
        while len(found) < until and time.monotonic() < ends_at:
            found += [json.loads(record.value or b"") for record in consumer.poll(200)]
    return found


def test_logins_denials_and_changes_are_recorded_and_no_secret_is(node: SecuredOttla) -> None:
    admin_settings = login(node, "admin", USERS["admin"])
    with Admin(admin_settings) as admin:
        admin.create_topic("orders", partition_count=2)
        admin.create_acls([Acl(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ)])
        admin.set_scram_password("carol", "carol-hush")
        admin.delete_topics(["orders"])
        with pytest.raises(KafkaError):
            admin.delete_topics(["nowhere"])
    with (
        pytest.raises(KafkaError),
        Producer(login(node, "alice", USERS["alice"])) as producer,
    ):
        producer.send("secret-plans", b"x").result()
    with pytest.raises(KafkaError), Admin(login(node, "alice", "guess-hush")) as wrong:
        wrong.list_topics()

    def of(found: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
        return [one for one in found if all(one.get(name) == value for name, value in wanted.items())]

    ends_at = time.monotonic() + 60
    while True:
        found = events(node, 8)
        failed = of(found, class_name="Authentication", status="Failure", auth_protocol="SCRAM-SHA-512")
        if failed or time.monotonic() > ends_at:
            break
    (first, *_) = of(found, class_name="Authentication", status="Success")
    assert (first["user"]["uid"], first["src_endpoint"]["ip"]) == ("User:admin", "127.0.0.1")
    assert failed[0]["unmapped"]["claimed_user"] == "alice"
    denied = of(found, action="Denied")
    assert {"type": "Topic", "name": "secret-plans"} in [one["resources"][0] for one in denied]
    assert {one["actor"]["user"]["uid"] for one in denied} == {"User:alice"}
    changes = [
        (
            one["api"]["operation"],
            one["status"],
            one["actor"]["user"]["uid"],
            (one.get("resources") or [{}])[0].get("name"),
        )
        for one in found
        if "api" in one and one.get("action") != "Denied" and one["actor"]["user"]["uid"] == "User:admin"
    ]
    assert changes == [
        ("CreateTopics", "Success", "User:admin", "orders"),
        ("CreateAcls", "Success", "User:admin", "orders"),
        ("AlterUserScramCredentials", "Success", "User:admin", None),
        ("DeleteTopics", "Success", "User:admin", "orders"),
        ("DeleteTopics", "Failure", "User:admin", "nowhere"),
    ]
    (account,) = of(found, class_name="Account Change", activity_name="Password Change", user={
        "name": "carol", "uid": "User:carol", "type": "User",
    })  # fmt: skip
    assert account["status"] == "Success"
    logged = node.log.read_text()
    assert '"class_name":"User Access Management"' in logged
    for secret in SECRETS:
        assert secret not in logged
        assert secret not in json.dumps(found)


def test_a_failed_tls_handshake_is_recorded_and_counted(node: SecuredOttla) -> None:
    with pytest.raises(KafkaError), Admin(node.client("SSL") | {"default.api.timeout.ms": 20_000}) as without:
        without.list_topics()
    ends_at = time.monotonic() + 60
    found: list[dict[str, Any]] = []
    while not found and time.monotonic() < ends_at:
        found = [one for one in events(node, 1) if one.get("auth_protocol") == "SSL"]
    refused = found[0]
    assert (refused["class_name"], refused["status"]) == ("Authentication", "Failure")
    assert (refused["user"]["uid"], refused["src_endpoint"]["ip"]) == ("User:ANONYMOUS", "127.0.0.1")
    assert refused["dst_endpoint"]["svc_name"] == "SSL"
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in refused["status_detail"]
    assert node.count("failed_authentication_total", "SSL") >= 1


def test_the_topic_is_internal_and_only_nodes_write_to_it(node: SecuredOttla) -> None:
    events(node, 1)  # the topic is created with the first one
    as_super_user = {"bootstrap.servers": node.bootstrap}
    with Admin(as_super_user) as admin:
        assert TOPIC not in admin.list_topics()
        assert admin.list_topics(include_internal=True)[TOPIC].is_internal
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            admin.delete_records({TopicPartition(TOPIC, 0): 1})
    with Producer(as_super_user) as producer, pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
        producer.send(TOPIC, b"forged").result()


def test_every_node_of_a_secured_cluster_writes_to_the_topic_through_its_leader() -> None:
    with Cluster(secure=True, config={"ottla.audit.topic.enable": True}) as cluster:
        for node in cluster:
            settings = cluster.client_settings() | {"bootstrap.servers": node.bootstrap_servers}
            with Admin(settings) as admin:
                admin.list_topics()
        found: dict[str, dict[str, Any]] = {}
        ends_at = time.monotonic() + 100
        with Consumer(cluster.client_settings() | {"auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([(TOPIC, 0)])
            while len({one["dst_endpoint"]["uid"] for one in found.values()}) < 3 and time.monotonic() < ends_at:
                for record in consumer.poll(200):
                    event = json.loads(record.value or b"")
                    if event["class_name"] == "Authentication" and event["user"]["uid"] == "User:admin":
                        found[event["metadata"]["uid"]] = event
        assert {one["dst_endpoint"]["uid"] for one in found.values()} == {"1", "2", "3"}
        assert {one["dst_endpoint"]["svc_name"] for one in found.values()} == {"SASL_SSL"}
