"""Kafka's own perf tools, a JVM each, and what they print."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.interop.servers import kafka_anchor

from bench.observation import Cost, Watch

RECORD_BYTES = 1000
CONSUME = Path(__file__).with_name("java") / "Consume.java"
SUBSCRIBE = Path(__file__).with_name("java") / "Subscribe.java"
TRANSACT = Path(__file__).with_name("java") / "Transact.java"
TOOL_TIMEOUT_SECONDS = 600

_NUMBER = r"([\d.,]+)"
_LINE = re.compile(
    rf"(\d+) (?:steady state )?records sent, {_NUMBER} records/sec.*?, {_NUMBER} ms avg latency"
    rf", {_NUMBER} ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th"
)


class Brokers(Protocol):
    """A server, or a cluster of them."""

    @property
    def bootstrap(self) -> str: ...
    @property
    def pids(self) -> tuple[int, ...]: ...


class ToolFailed(Exception):
    """A tool ended with an error, or printed something else than it used to."""


@dataclass(frozen=True, slots=True)
class Produced:
    """The last lines of producer-perf-test."""

    records: int
    records_per_second: float
    average_ms: float
    p50_ms: int
    p99_ms: int
    p999_ms: int


@dataclass(frozen=True, slots=True)
class Consumed:
    records: int
    bytes: int
    seconds: float

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


def run(arguments: Sequence[str]) -> str:
    script = kafka_anchor()
    if script is None:
        raise ToolFailed("Apache Kafka's tools are missing: java, and the anchor script (KAFKA_ANCHOR_SCRIPT)")
    result = subprocess.run(
        [str(script), *arguments], capture_output=True, text=True, timeout=TOOL_TIMEOUT_SECONDS, check=False
    )
    if result.returncode:
        raise ToolFailed(f"{' '.join(arguments)}: exit {result.returncode}\n{result.stdout[-2000:]}{result.stderr}")
    return result.stdout


def parse_produced(printed: str) -> list[Produced]:
    """The summaries: of the whole run, then, with --warmup-records, of its steady state."""
    return [
        Produced(
            records=int(match[1]),
            records_per_second=float(match[2].replace(",", "")),
            average_ms=float(match[3].replace(",", "")),
            p50_ms=int(match[5]),
            p99_ms=int(match[7]),
            p999_ms=int(match[8]),
        )
        for match in _LINE.finditer(printed)
    ]


def produce(
    server: Brokers,
    topic: str,
    records: int,
    settings: Mapping[str, str],
    *,
    throughput: int = -1,
    warmup_records: int = 0,
    client: Path | None = None,
) -> tuple[list[Produced], Cost]:
    """`client`: a file of settings, for a secured listener."""
    arguments = [
        "producer-perf-test",
        *("--bootstrap-server", server.bootstrap, "--topic", topic),
        *("--num-records", str(records), "--record-size", str(RECORD_BYTES), "--throughput", str(throughput)),
        *(("--warmup-records", str(warmup_records)) if warmup_records else ()),
        *(("--command-config", str(client)) if client is not None else ()),
        *(["--command-property", *(f"{key}={value}" for key, value in settings.items())] if settings else []),
    ]
    watch = Watch(*server.pids)
    printed = run(arguments)
    cost = watch.cost()
    summaries = parse_produced(printed)
    if len(summaries) != 1 + bool(warmup_records):
        raise ToolFailed(f"producer-perf-test printed no summary as it used to:\n{printed[-2000:]}")
    return summaries, cost


def consume(
    server: Brokers,
    topic: str,
    partitions: int,
    records: int,
    isolation_level: str = "read_uncommitted",
    *,
    client: Path | None = None,
) -> tuple[Consumed, Cost]:
    """`client`: a file of settings, for a secured listener."""
    settings = () if client is None else (str(client),)
    watch = Watch(*server.pids)
    printed = run([str(CONSUME), server.bootstrap, topic, str(partitions), str(records), isolation_level, *settings])
    cost = watch.cost()
    count, size, milliseconds = printed.split()
    return Consumed(int(count), int(size), float(milliseconds.replace(",", "")) / 1000), cost
