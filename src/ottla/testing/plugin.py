"""The pytest plugin that comes with Ottla: the fixture `kafka`, a broker of the test's own.

    def test_orders(kafka):
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    @pytest.mark.kafka(config={"auto.create.topics.enable": False})
    def test_with_settings(kafka): ...

`kafka_session` is one broker for the whole run, for tests that only need some broker and names of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import Broker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kafka(config): settings of the broker that the fixture `kafka` starts")


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker of this test's own, with an empty folder. `kafka.bootstrap_servers` is where it listens."""
    from ottla.testing.broker import Broker

    marker = request.node.get_closest_marker("kafka")
    with Broker(marker.kwargs.get("config") if marker is not None else None) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_session() -> Iterator[Broker]:
    """One broker for all tests of the run that ask for it."""
    from ottla.testing.broker import Broker

    with Broker() as broker:
        yield broker
