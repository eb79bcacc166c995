"""The pytest plugin that comes with Ottla: brokers of the test's own.

    def test_orders(kafka):
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    @pytest.mark.kafka(config={"auto.create.topics.enable": False})
    def test_with_settings(kafka): ...

    @pytest.mark.kafka(secure=True)
    def test_with_logins(kafka):
        producer = Producer(kafka.librdkafka_settings())

    def test_schemas(kafka):
        client = SchemaRegistryClient({"url": kafka.registry_url})

    def test_a_killed_leader(kafka_cluster):
        kafka_cluster.leader("orders").kill()

    def test_a_pipeline(pipeline):
        outcome = pipeline("pipelines/orders").run({"web_orders": [{"order_id": 1}]})
        assert outcome.flows["accepted"] == []

`pipeline` runs pipelines on rows of the test in one Spark, without a broker; nothing of Spark is imported before a test
asks for it. `kafka_session` is one broker for the whole run, for tests that only need some broker and names of their
own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import Broker
    from ottla.testing.cluster import Cluster
    from ottla.testing.pipelines import Pipelines


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka(config={}, nodes=3, secure=False): Kafka's settings of what `kafka` and `kafka_cluster` start, how many "
        "nodes the latter has, and whether they have TLS, logins and ACLs",
    )


def _marked(request: pytest.FixtureRequest, *names: str) -> dict[str, Any]:
    """The arguments of the marker `kafka`."""
    marker = request.node.get_closest_marker("kafka")
    if marker is None:
        return {}
    if marker.args or not marker.kwargs.keys() <= {"config", "nodes", "secure"}:
        raise pytest.UsageError("the marker kafka takes config={...}, nodes=... and secure=True, by name")
    return {name: marker.kwargs[name] for name in names if name in marker.kwargs}


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker of this test's own, with an empty folder. `kafka.bootstrap_servers` is where it listens."""
    from ottla.testing.broker import Broker

    with Broker(**_marked(request, "config", "secure")) as broker:
        yield broker


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of this test's own, of three nodes; each can be killed, paused, cut off, or given a full disk."""
    from ottla.testing.cluster import Cluster

    with Cluster(**_marked(request, "config", "nodes", "secure")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_session() -> Iterator[Broker]:
    """One broker for all tests of the run that ask for it."""
    from ottla.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def _pipelines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipelines]:
    """One Spark for all tests of the run that ask for it."""
    from ottla.testing.pipelines import Pipelines

    with Pipelines(tmp_path_factory.mktemp("pipelines")) as pipelines:
        yield pipelines


@pytest.fixture
def pipeline(_pipelines: Pipelines) -> Pipelines:
    """Pipelines on rows of the test: `pipeline(FOLDER).run({SOURCE: [row, ...]})`, `pipeline(FOLDER).check(case)`."""
    return _pipelines
