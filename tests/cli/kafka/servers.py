"""The servers that scenes are played on: Ottla, Apache Kafka, or a cluster of three Kafka nodes; a new one for each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.kafka.scenes import Scene
from tests.interop.servers import Kafka, Ottla, Server, free_port, kafka_anchor

SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
)
CLUSTER_PORT_STEP = 100


class KafkaCluster(Kafka):
    """Three combined nodes; `port` is that of the first."""

    name = "a cluster of Apache Kafka"

    def start(self, timeout_seconds: float = 120) -> None:
        script = kafka_anchor()
        assert script is not None
        command = [str(script), "cluster", str(self.port), str(self.data)]
        subprocess.run(command, check=True, timeout=timeout_seconds, stdout=subprocess.DEVNULL)

    def stop(self, timeout_seconds: float = 60) -> None:
        script = kafka_anchor()
        assert script is not None
        subprocess.run([str(script), "stop", str(self.data)], check=True, timeout=timeout_seconds)


def cluster_port() -> int:
    """A port whose neighbours at the distance of the cluster's nodes are free as well, as far as one can say."""
    return min(free_port() for _ in range(5))


@contextmanager
def scene_server(folder: Path, kind: str, scene: Scene) -> Iterator[Server]:
    data = folder / "data"
    server: Server
    if scene.needs_cluster:
        server = KafkaCluster(data, port=cluster_port())
    elif kind == "kafka":
        server = Kafka(data, SETTINGS)
    else:
        server = Ottla(data, SETTINGS)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def places(server: Server, folder: Path) -> dict[str, str]:
    """What stands for what in a scene."""
    return {
        "server": server.bootstrap,
        "controller": f"127.0.0.1:{server.port + 1}",
        "data": str(server.data),
        "folder": str(folder),
    }
