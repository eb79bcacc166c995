"""The servers that scenes are played on: Ottla, Apache Kafka, or a cluster of three Kafka nodes; a new one for each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.chaos.cluster import Cluster
from tests.cli.kafka.scenes import Scene
from tests.interop.servers import Kafka, Ottla, Server, kafka_anchor

SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
)

AUTHORIZED = (
    *SETTINGS,
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)


class KafkaCluster(Kafka):
    """Three combined nodes; `port` is that of the first."""

    name = "a cluster of Apache Kafka"

    @property
    def ports(self) -> list[int]:
        return [self.port, self.port + 100, self.port + 200]

    def kill_node(self, id: int) -> None:
        shell = int(Path(f"{self.data}.pid").read_text().split()[id - 1])
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        for pid in [*map(int, children), shell]:
            os.kill(pid, signal.SIGKILL)

    def start(self, timeout_seconds: float = 200) -> None:
        script = kafka_anchor()
        assert script is not None
        command = [str(script), "cluster", str(self.port), str(self.data)]
        small = {**os.environ, "KAFKA_HEAP_OPTS": "-Xmx384M -XX:TieredStopAtLevel=1"}
        subprocess.run(command, check=True, timeout=timeout_seconds, stdout=subprocess.DEVNULL, env=small)

    def stop(self, timeout_seconds: float = 60) -> None:
        script = kafka_anchor()
        assert script is not None
        subprocess.run([str(script), "stop", str(self.data)], check=True, timeout=timeout_seconds)


class OttlaCluster(Ottla):
    """Three nodes like those of Kafka's cluster; `port` is that of the first."""

    name = "a cluster of Ottla"

    def __init__(self, data: Path) -> None:
        self._cluster = Cluster(data)
        super().__init__(data, port=self._cluster.nodes[1].port)

    @property
    def ports(self) -> list[int]:
        return [node.port for node in self._cluster.nodes.values()]

    def start(self, timeout_seconds: float = 60) -> None:
        self.data.mkdir(parents=True)
        self._cluster.start()

    def kill_node(self, id: int) -> None:
        self._cluster.kill(id)

    def stop(self, timeout_seconds: float = 60) -> None:
        self._cluster.kill()


def cluster_port() -> int:
    """A port whose neighbours that the cluster's nodes need are free as well; below those that the system gives out to
    clients, which come and go while the nodes start."""
    for first in range(20_000 + os.getpid() % 1_000 * 10, 32_000, 10):
        try:
            with ExitStack() as held:
                for step in (0, 1, 100, 101, 200, 201):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", first + step))
        except OSError:
            continue
        return first
    raise RuntimeError("no six free ports")


@contextmanager
def scene_server(folder: Path, kind: str, scene: Scene) -> Iterator[Server]:
    data = folder / "data"
    server: Server
    if scene.needs_cluster:
        server = KafkaCluster(data, port=cluster_port()) if kind == "kafka" else OttlaCluster(data)
    else:
        settings = AUTHORIZED if scene.needs_authorizer else SETTINGS
        server = Kafka(data, settings) if kind == "kafka" else Ottla(data, settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def places(server: Server, folder: Path) -> dict[str, str]:
    """What stands for what in a scene."""
    found = {
        "server": server.bootstrap,
        "controller": f"127.0.0.1:{server.port + 1}",
        "data": str(server.data),
        "folder": str(folder),
    }
    if isinstance(server, KafkaCluster | OttlaCluster):
        for id, port in enumerate(server.ports[1:], start=2):
            found |= {f"server{id}": f"127.0.0.1:{port}", f"controller{id}": f"127.0.0.1:{port + 1}"}
    return found


def kill_of(server: Server) -> Callable[[int], None] | None:
    """What kills a node of a cluster."""
    return server.kill_node if isinstance(server, KafkaCluster | OttlaCluster) else None
