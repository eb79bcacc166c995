"""Kafka's own command line tools, all run in one JVM (java/Toolbox.java): a JVM start each would take minutes."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.interop.servers import kafka_anchor

JAVA_SOURCES = Path(__file__).with_name("java")

TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "storage": "kafka.tools.StorageTool",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


@dataclass(frozen=True, slots=True)
class Printed:
    """What one tool left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.out.splitlines() if line.strip()]


class Toolbox:
    """One JVM that runs tool after tool."""

    def __init__(self) -> None:
        script = kafka_anchor()
        assert script is not None
        self._process = subprocess.Popen(
            [str(script), str(JAVA_SOURCES / "Toolbox.java")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Printed:
        """Run a tool whatever its exit code is."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        blocks = [argument.encode() for argument in arguments]
        request = [_block(TOOLS[tool].encode()), struct.pack(">i", len(blocks)), *map(_block, blocks)]
        self._process.stdin.write(b"".join([*request, _block(stdin.encode())]))
        self._process.stdin.flush()
        (code,) = struct.unpack(">i", self._read(4))
        out = self._read(*struct.unpack(">i", self._read(4))).decode(errors="replace")
        err = self._read(*struct.unpack(">i", self._read(4))).decode(errors="replace")
        return Printed(code, out, err)

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> Printed:
        """Run a tool that must succeed."""
        printed = self.run(tool, *arguments, stdin=stdin)
        assert printed.code == 0, f"{tool} {' '.join(arguments)}: exit {printed.code}\n{printed.out}\n{printed.err}"
        return printed

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise RuntimeError("the JVM of Kafka's tools ended")
        return data

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()


def _block(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
