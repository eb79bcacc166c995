"""Something of everything that a data folder holds: written through one server, to be found by the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.servers import Server
from tests.interop.test_librdkafka import Clients, create, done, produce
from tests.interop.toolbox import Toolbox

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")


class Contents:
    """What was written to a folder so far. `add` writes more through a server, `check` finds all of it."""

    def __init__(self, tools: Toolbox) -> None:
        self._tools = tools
        self._topics: dict[str, tuple[str, int]] = {}
        self._values: dict[str, list[bytes]] = {}
        self._round = 0
        self._cluster_id = ""

    def add(self, server: Server) -> None:
        self._round += 1
        admin = _admin(server)
        self._cluster_id = self._cluster_id or str(admin.list_topics(timeout=120).cluster_id)
        kept, gone = f"kept.{self._round}", f"gone-{self._round}"
        create(admin, kept, partitions=3, retention_ms="123456789", cleanup_policy="delete")
        create(admin, gone)
        done(admin.create_partitions([confluent_admin.NewPartitions(kept, 5)]))
        self._topics[kept] = _described(admin, kept, partitions=5)
        self._values[kept] = []
        done(admin.delete_topics([gone]))
        clients = Clients(server.bootstrap)
        for topic, values in self._values.items():
            more = [b"round %d, number %d of %s" % (self._round, number, topic.encode()) for number in range(500)]
            offsets = produce(clients.producer(enable_idempotence=True, compression_type="zstd"), topic, more)
            assert offsets == list(range(len(values), len(values) + len(more)))
            values += more
        clients.close()
        self._configs(server, "--alter", "--topic", kept, "--add-config", "max.message.bytes=54321")
        self._configs(server, "--alter", "--broker-defaults", "--add-config", f"log.retention.ms={self._round}0000000")
        self._configs(server, "--alter", "--user", f"u{self._round}", "--add-config", "producer_byte_rate=1048576")
        self._configs(server, "--alter", "--client-defaults", "--add-config", "request_percentage=400")

    def check(self, server: Server) -> None:
        admin = _admin(server)
        assert admin.list_topics(timeout=120).cluster_id == self._cluster_id
        eventually(lambda: _names(admin) == set(self._topics))
        clients = Clients(server.bootstrap)
        for topic, described in self._topics.items():
            assert _described(admin, topic, partitions=5) == described
            found = [message.value() for message in clients.read(topic, len(self._values[topic]))]
            assert found == self._values[topic]
            shown = self._configs(server, "--describe", "--topic", topic)
            for setting in ("retention.ms=123456789", "cleanup.policy=delete", "max.message.bytes=54321"):
                assert setting in shown
        clients.close()
        assert f"log.retention.ms={self._round}0000000" in self._configs(server, "--describe", "--broker-defaults")
        for number in range(1, self._round + 1):
            assert "producer_byte_rate=1048576.0" in self._configs(server, "--describe", "--user", f"u{number}")
        assert "request_percentage=400.0" in self._configs(server, "--describe", "--client-defaults")

    def _configs(self, server: Server, *arguments: str) -> str:
        return self._tools("configs", "--bootstrap-server", server.bootstrap, *arguments).out


def _admin(server: Server) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": server.bootstrap})


def _names(admin: Any) -> set[str]:
    return {name for name in admin.list_topics(timeout=120).topics if not name.startswith("__")}


def _described(admin: Any, topic: str, partitions: int) -> tuple[str, int]:
    """The topic's id and its number of partitions, once the broker knows of them all."""
    found: list[tuple[str, int]] = []

    def is_known() -> bool:
        try:
            (description,) = done(admin.describe_topics(confluent_kafka.TopicCollection([topic]))).values()
        except confluent_kafka.KafkaException:
            return False
        found.append((str(description.topic_id), len(description.partitions)))
        return found[-1][1] == partitions

    eventually(is_known)
    return found[-1]


def eventually(holds: Callable[[], bool], timeout_seconds: float = 120) -> None:
    """Kafka's brokers follow their controller: what was acknowledged is seen a little later."""
    end = time.monotonic() + timeout_seconds
    while not holds():
        assert time.monotonic() < end, "never came true"
        time.sleep(0.05)
