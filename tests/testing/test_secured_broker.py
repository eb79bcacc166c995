"""`Broker(secure=True)`: TLS, logins and ACLs in a test, with settings that are ready for any client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer as ConfluentProducer

from ottla.client.admin import Acl, AclOperation, AclResource
from ottla.client.blocking import Consumer, Producer
from ottla.client.errors import AuthenticationError, KafkaError, NoBrokerReached

if TYPE_CHECKING:
    from ottla.testing import Broker, Cluster


@pytest.mark.kafka(secure=True)
def test_clients_of_any_kind_log_in_with_the_settings_of_the_broker(kafka: Broker) -> None:
    with kafka.admin() as admin:
        admin.create_topic("orders")
    confluent = ConfluentProducer(kafka.librdkafka_settings())
    confluent.produce("orders", b"one")
    assert confluent.flush(60) == 0
    with Consumer(kafka.client_settings() | {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([("orders", 0)])
        assert next(iter(consumer)).value == b"one"


@pytest.mark.kafka(secure=True)
def test_another_user_may_do_what_acls_say_and_no_more(kafka: Broker) -> None:
    kafka.add_user("alice", "wonderland")
    with kafka.admin() as admin:
        admin.create_topic("orders")
        admin.create_topic("secrets")
        admin.create_acls([Acl(AclResource.TOPIC, "orders", "User:alice", AclOperation.WRITE)])
    with Producer(kafka.client_settings("alice", "wonderland")) as producer:
        producer.send("orders", b"one").result()
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            producer.send("secrets", b"one").result()


@pytest.mark.kafka(secure=True)
def test_nothing_is_served_without_a_login(kafka: Broker) -> None:
    with pytest.raises(AuthenticationError), kafka.admin(**{"sasl.jaas.config": jaas("admin", "guess")}) as admin:
        admin.list_topics()
    with (
        pytest.raises(NoBrokerReached),
        kafka.admin(**{"security.protocol": "PLAINTEXT", "default.api.timeout.ms": 3_000}) as admin,
    ):
        admin.list_topics()


def jaas(user: str, password: str) -> str:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f'{module} required username="{user}" password="{password}";'


@pytest.mark.kafka(secure=True)
def test_users_and_acls_outlive_a_kill(kafka: Broker) -> None:
    kafka.add_user("alice", "wonderland")
    kafka.kill()
    kafka.start()
    with kafka.admin() as admin:
        assert sorted(admin.describe_user_scram_credentials()) == ["admin", "alice"]


def test_an_open_broker_has_the_same_methods(kafka: Broker) -> None:
    assert kafka.client_settings() == kafka.librdkafka_settings() == {"bootstrap.servers": kafka.bootstrap_servers}
    assert kafka.security is None
    with kafka.admin() as admin:
        assert admin.list_topics() == {}


@pytest.mark.kafka(secure=True)
def test_a_secured_cluster_survives_a_killed_leader(kafka_cluster: Cluster) -> None:
    with kafka_cluster.admin() as admin:
        admin.create_topic("orders")
    with Producer(kafka_cluster.client_settings() | {"acks": "all"}) as producer:
        producer.send("orders", b"one").result()
        kafka_cluster.leader("orders").kill()
        producer.send("orders", b"two").result()
    with Consumer(kafka_cluster.client_settings() | {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([("orders", 0)])
        records = iter(consumer)
        assert [next(records).value, next(records).value] == [b"one", b"two"]
