"""ACLs in clusters of both makes: what a user may do is the same through every broker and with either controller.

A broker of one make names the user to the controller of the other one in an Envelope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.client.admin import Acl, AclFilter, AclOperation, AclResource
from ottla.client.blocking import Admin
from ottla.client.errors import KafkaError
from ottla.wire.errors import ErrorCode
from tests.interop.contents import eventually
from tests.interop.secured_kafka import jaas
from tests.interop.servers import Kafka, Server, free_port
from tests.interop.test_mixed_cluster import ClusterNode, MixedCluster, pytestmark

__all__ = ["pytestmark"]

LOGIN = jaas("plain.PlainLoginModule", user_alice="alice-secret")


class MixedClusterWithLogins(MixedCluster):
    """Each broker has a listener with SASL; nodes talk to each other through plain ones."""

    def __init__(self, folder: Any, makes: list[type[Server]]) -> None:
        super().__init__(folder, makes, 1)
        self.sasl_ports = {id: free_port() for id in self.nodes}
        for id, node in self.nodes.items():
            more = f",SASL_PLAINTEXT://127.0.0.1:{self.sasl_ports[id]}"
            listeners = next(one for one in node.overrides if one.startswith("listeners="))
            node.overrides = [
                *(one for one in node.overrides if not one.startswith(("listeners=", "listener.security"))),
                listeners + more,
                f"advertised.listeners=PLAINTEXT://{node.bootstrap}{more}",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms=PLAIN",
                f"listener.name.sasl_plaintext.plain.sasl.jaas.config={LOGIN}",
                "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users=User:ANONYMOUS",
            ]

    def alice(self, id: int) -> Admin:
        """Alice's admin client, which knows this node alone at first."""
        return Admin(
            {
                "bootstrap.servers": f"127.0.0.1:{self.sasl_ports[id]}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "alice-secret",
            }
        )


@pytest.fixture(params=["Ottla's controller", "Kafka's controller"])
def mixed(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[MixedClusterWithLogins]:
    makes: list[type[Server]] = [ClusterNode, Kafka]
    cluster = MixedClusterWithLogins(tmp_path, makes if request.param.startswith("Ottla") else makes[::-1])
    for node in cluster.nodes.values():
        node.start(300)
    yield cluster
    cluster.close()


def refusal(asked: Callable[[], object]) -> ErrorCode | None:
    try:
        asked()
    except KafkaError as error:
        return error.code
    return None


def test_what_a_user_may_do_is_the_same_through_brokers_of_both_makes(mixed: MixedClusterWithLogins) -> None:
    alter = Acl(AclResource.CLUSTER, "kafka-cluster", "User:alice", AclOperation.ALTER)
    made = [Acl(AclResource.TOPIC, f"made-by-{id}", "User:bob", AclOperation.READ) for id in mixed.nodes]
    admins = [Admin(bootstrap_servers=node.bootstrap) for node in mixed.nodes.values()]
    users = [mixed.alice(id) for id in mixed.nodes]
    try:
        for alice, acl in zip(users, made, strict=True):
            assert refusal(lambda: alice.create_acls([acl])) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # noqa: B023
            assert refusal(alice.describe_acls) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        admins[0].create_acls([alter])
        for alice, acl in zip(users, made, strict=True):
            eventually(lambda: refusal(lambda: alice.create_acls([acl])) is None)  # noqa: B023
        for admin in (*admins, *users):
            eventually(lambda: admin.describe_acls() == sorted([alter, *made]))  # noqa: B023
        admins[-1].delete_acls([AclFilter(principal="User:alice")])
        for alice in users:
            eventually(lambda: refusal(alice.describe_acls) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED)  # noqa: B023
        assert refusal(lambda: users[-1].create_acls([alter])) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    finally:
        for admin in (*admins, *users):
            admin.close()
