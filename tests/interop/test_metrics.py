"""What Prometheus reads: records and bytes by topic, request times by API, log sizes; and the health answer."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from tests.interop.conftest import ON_KAFKA
from tests.interop.servers import Ottla, free_port
from tests.interop.test_librdkafka import Clients, produce

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="the metrics port is Ottla's own")


def fetch(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=120) as answer:
        text: str = answer.read().decode()
        return text


def test_metrics_count_what_clients_did(tmp_path: Path) -> None:
    metrics_port = free_port()
    server = Ottla(tmp_path / "data", arguments=["--metrics-port", str(metrics_port)])
    server.start()
    clients = Clients(server.bootstrap)
    try:
        assert fetch(metrics_port, "/health").strip() == "ok"
        produce(clients.producer(), "measured", [b"x" * 1000] * 100)
        assert len(clients.read("measured", 100)) == 100
        lines = [line for line in fetch(metrics_port, "/metrics").splitlines() if not line.startswith("#")]
        values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
        of_topic = {name: value for name, value in values.items() if 'topic="measured"' in name}
        assert of_topic['kafka_server_brokertopicmetrics_messagesin_total{topic="measured"}'] == 100
        assert of_topic['kafka_server_brokertopicmetrics_bytesin_total{topic="measured"}'] > 100_000
        assert of_topic['kafka_server_brokertopicmetrics_bytesout_total{topic="measured"}'] > 100_000
        assert any(name.startswith("kafka_log_log_size") and value > 100_000 for name, value in of_topic.items())
        assert any("Produce" in name and "request" in name.lower() for name in values)
        assert values["ottla_internal_errors_total"] == 0
    finally:
        clients.close()
        server.stop()
