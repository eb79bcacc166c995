from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.spark.stand_in_brokers import Brokers

StartBrokers = Callable[..., Brokers]


@pytest.fixture
def start_brokers(monkeypatch: pytest.MonkeyPatch) -> StartBrokers:
    """Brokers behind every blocking connection of the test: start_brokers({topic: partition count}, node_count)."""

    def start(topics: dict[str, int], node_count: int = 1) -> Brokers:
        brokers = Brokers(topics, node_count)
        monkeypatch.setattr("ottla.spark.blocking_connection.socket.create_connection", brokers.connect)
        return brokers

    return start
