"""Apache Kafka and Ottla in one cluster whose nodes reach each other over secured listeners, controllers included."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.secured_kafka import jaas
from tests.interop.servers import Kafka, Server, free_port, kafka_anchor
from tests.interop.test_mixed_cluster import COUNT, ClusterNode, MixedCluster
from tests.interop.tls_nodes import BROKER, NODE_PASSWORD, NODE_USER, TRUST

pytestmark = [
    pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java"),
    pytest.mark.skipif(not os.environ.get("OTTLA_INTEROP_ALL"), reason="a JVM each: OTTLA_INTEROP_ALL=1 runs it"),
]


class SecuredMixedCluster(MixedCluster):
    """Clients come in the open; nodes do not."""

    def __init__(self, folder: Path, makes: list[type[Server]], protocol: str) -> None:
        super().__init__(folder, makes, voter_count=1)
        module = jaas(
            "plain.PlainLoginModule",
            username=NODE_USER,
            password=NODE_PASSWORD,
            **{f"user_{NODE_USER}": NODE_PASSWORD},
        )
        for id, node in self.nodes.items():
            secure = f"SECURE://127.0.0.1:{free_port()}"
            controller = f",CONTROLLER://127.0.0.1:{node.port + 1}" if id == 1 else ""
            node.overrides += [
                f"listeners=PLAINTEXT://{node.bootstrap},{secure}{controller}",
                f"advertised.listeners=PLAINTEXT://{node.bootstrap},{secure}",
                f"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:{protocol},CONTROLLER:{protocol}",
                "inter.broker.listener.name=SECURE",
                *BROKER,
                *TRUST,
                "listener.name.secure.ssl.client.auth=required",
                "listener.name.controller.ssl.client.auth=required",
            ]
            if protocol == "SASL_SSL":
                node.overrides += [
                    "sasl.enabled.mechanisms=PLAIN",
                    "sasl.mechanism.inter.broker.protocol=PLAIN",
                    "sasl.mechanism.controller.protocol=PLAIN",
                    f"listener.name.secure.plain.sasl.jaas.config={module}",
                    f"listener.name.controller.plain.sasl.jaas.config={module}",
                ]


@pytest.fixture(params=["SSL", "SASL_SSL"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[[ClusterNode, Kafka], [Kafka, ClusterNode]], ids=["kafka-joins", "ottla-joins"])
def cluster(request: pytest.FixtureRequest, protocol: str, tmp_path: Path) -> Iterator[SecuredMixedCluster]:
    made = SecuredMixedCluster(tmp_path, request.param, protocol)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_what_one_make_leads_the_other_copies_over_secured_listeners(cluster: SecuredMixedCluster) -> None:
    cluster.create("copied")
    both = [(1, [1, 2]), (2, [1, 2])]
    cluster.until_in_sync("copied", both)
    cluster.produce("copied", 0)
    cluster.produce("copied", COUNT, **{"transactional.id": "spanning"})
    assert cluster.consume("copied", 2 * COUNT, "readers") == list(range(2 * COUNT))
    cluster.until_in_sync("copied", both)
