"""Rows 19 to 25: Ottla's own client beside the other Python clients, all on the same broker, in turns."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.interop.servers import REPOSITORY, Server, kafka_anchor

from bench.report import Rounds, figures_of, spread, text
from bench.session import Bench, Figures, run_program, settle
from bench.topics import Admin

PARTITIONS = 6
RECORD_API = "ottla"
"""What the others are compared with, where a row does not say otherwise."""

CLIENTS = {
    "ottla": "Ottla",
    "ottla-keys": "Ottla, each record with a new key",
    "ottla-async-for": "Ottla, async for",
    "ottla-blocking": "Ottla, blocking",
    "ottla-arrow": "Ottla, Arrow",
    "confluent": "confluent-kafka",
    "confluent-tuned": "confluent-kafka, tuned",
    "aiokafka": "aiokafka",
    "kafka-python": "kafka-python",
}
PRODUCERS = [name for name in CLIENTS if name != "ottla-async-for"]
CONSUMERS = [name for name in CLIENTS if name != "ottla-keys"]
WAITING = [name for name in CONSUMERS if name not in ("ottla-arrow", "ottla-async-for", "confluent-tuned")]


@dataclass(frozen=True, slots=True)
class ClientScale:
    """How much of everything."""

    seconds: float = 3
    warm_seconds: float = 1
    latency_seconds: float = 4
    filled_bytes: int = 400_000_000
    starts: int = 7


QUICK_CLIENTS = ClientScale(seconds=0.3, warm_seconds=0.2, latency_seconds=0.3, filled_bytes=70_000_000, starts=1)


@dataclass(frozen=True, slots=True)
class Row:
    """One workload of all clients. `bars` has, for a client of ours, how many times faster it must be than others."""

    number: int
    title: str
    workload: str
    record_bytes: int
    clients: Sequence[str]
    bars: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.workload}_{self.record_bytes}"

    def topic_of(self, client: str) -> str:
        """All read the same topic; each writes into its own."""
        return self.name if self.workload == "consume" else f"{self.name}-{client}"

    @property
    def is_latency(self) -> bool:
        return self.workload in ("write", "end-to-end")


PRODUCE_BARS = {
    ("ottla", "aiokafka"): 3.0,
    ("ottla", "kafka-python"): 3.0,
    ("ottla-blocking", "kafka-python"): 3.0,
    ("ottla-arrow", "confluent"): 2.0,
}
CONSUME_BARS = {
    ("ottla", "aiokafka"): 3.0,
    ("ottla", "kafka-python"): 3.0,
    ("ottla-blocking", "kafka-python"): 3.0,
    ("ottla-arrow", "confluent-tuned"): 3.0,
}
ROWS = (
    Row(19, "produce 100 B, acks=all", "produce", 100, PRODUCERS, PRODUCE_BARS),
    Row(20, "produce 1 KB, acks=all", "produce", 1000, PRODUCERS, PRODUCE_BARS),
    Row(21, "consume 100 B", "consume", 100, CONSUMERS, CONSUME_BARS),
    Row(22, "consume 1 KB", "consume", 1000, CONSUMERS, CONSUME_BARS),
    Row(23, "one record until it is written, acks=all", "write", 100, WAITING),
    Row(24, "one record until a consumer has it", "end-to-end", 100, WAITING),
)
CLI_ROW = 25
CLI_LIMIT_SECONDS = 0.25
CLI_TOOLS = {"ottla": "./ottla topics list", "java": "kafka-topics.sh --list"}


@dataclass(slots=True)
class ClientBench(Bench):
    """One server in one round; each round begins with another client."""

    sizes: ClientScale = field(default_factory=ClientScale)
    round_number: int = 0

    def _run(self) -> None:
        with self._running(["log.segment.delete.delay.ms=100"]) as server, Admin(server) as admin:
            rows = [row for row in ROWS if self.wants(row.number)]
            topics = sorted({row.topic_of(client) for row in rows for client in row.clients})
            if topics:
                admin.create(topics, PARTITIONS)
                admin.wait_for_leaders(len(topics) * PARTITIONS)
            for row in rows:
                filled = self._fill(server, row) if row.workload == "consume" else 0
                turn = self.round_number % len(row.clients)
                for client in (*row.clients[turn:], *row.clients[:turn]):
                    self._client(server, row, client, filled)
                    if row.workload != "consume":
                        admin.delete([row.topic_of(client)])
            if self.wants(CLI_ROW):
                self._command_line(server)

    def _fill(self, server: Server, row: Row) -> int:
        """A topic to read from, written in batches as large as the producers of rows 19 and 20 write them."""
        count = self.sizes.filled_bytes // (row.record_bytes + 10)
        options: dict[str, object] = {"--records": count, "--bytes": row.record_bytes}
        written = self._program(server, "fill", "ottla", row.name, options)
        return int(written["records"])

    def _client(self, server: Server, row: Row, client: str, filled: int) -> None:
        settle()
        seconds = self.sizes.latency_seconds if row.is_latency else self.sizes.seconds
        options: dict[str, object] = {"--bytes": row.record_bytes, "--records": filled, "--seconds": seconds}
        found = self._program(server, row.workload, client, row.topic_of(client), options)
        self.figures |= {f"{row.name}.{client}.{figure}": value for figure, value in found.items()}
        told = ("p50_ms", "p99_ms") if row.is_latency else ("records_per_s", "client_us")
        self.progress(f"{row.name}.{client} " + ", ".join(f"{name} {found[name]:,.2f}" for name in told))

    def _program(self, server: Server, workload: str, client: str, topic: str, options: dict[str, object]) -> Figures:
        where: dict[str, object] = {"--bootstrap": server.bootstrap, "--pid": server.pid, "--topic": topic}
        warm = {"--warm-seconds": self.sizes.warm_seconds}
        return run_program("bench.client_drivers", where | warm | options, workload, client)

    # Row 25

    def _command_line(self, server: Server) -> None:
        where = ["--bootstrap-server", server.bootstrap]
        commands = {
            "ottla": [str(REPOSITORY / "ottla"), "topics", "list", *where],
            "java": [str(kafka_anchor()), "topics", "--list", *where],
        }
        for name, command in commands.items():
            seconds = []
            for _ in range(self.sizes.starts + 1):
                started = time.perf_counter()
                subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
                seconds.append(time.perf_counter() - started)
            # The first one writes Python's cache of compiled modules, and reads the JVM's from the disk.
            self._note(f"start.{name}.s", statistics.median(seconds[1:]))


def tables(rounds: Rounds, rows: frozenset[int]) -> Iterator[tuple[str, list[list[str]]]]:
    """For each server that was measured, its name and the table of all clients on it."""
    for server in rounds:
        lines = [["row", "measure", "client", "", "CPU client", "CPU broker", "Ottla's to it", "bar", "verdict"]]
        for row in ROWS:
            if row.number in rows:
                lines += _latency_lines(rounds, server, row) if row.is_latency else _speed_lines(rounds, server, row)
        if CLI_ROW in rows:
            lines += _start_lines(rounds, server)
        if len(lines) > 1:
            yield {"ottla": "Ottla", "kafka": "Apache Kafka"}[server], lines


def _speed_lines(rounds: Rounds, server: str, row: Row) -> Iterator[list[str]]:
    for client in row.clients:
        prefix = f"{row.name}.{client}"
        speeds = figures_of(rounds, server, f"{prefix}.records_per_s")
        if not speeds:
            continue
        costs = (figures_of(rounds, server, f"{prefix}.{figure}") for figure in ("client_us", "broker_us"))
        ours = next((one for one, other in row.bars if other == client), RECORD_API)
        bar = row.bars.get((ours, client))
        theirs = statistics.median(speeds)
        ratio = statistics.median(figures_of(rounds, server, f"{row.name}.{ours}.records_per_s") or [0.0]) / theirs
        compared = "" if client.startswith("ottla") else f"{ratio:.2f}x ({CLIENTS[ours]})"
        yield [
            str(row.number),
            row.title,
            CLIENTS[client],
            f"{spread(speeds)} rec/s",
            *(f"{text(statistics.median(cost))} us/rec" for cost in costs),
            compared,
            "" if bar is None else f">= {bar:g}x",
            "" if bar is None else ("met" if ratio >= bar else "MISSED"),
        ]


def _latency_lines(rounds: Rounds, server: str, row: Row) -> Iterator[list[str]]:
    for client in row.clients:
        prefix = f"{row.name}.{client}"
        medians, slowest = (figures_of(rounds, server, f"{prefix}.{figure}") for figure in ("p50_ms", "p99_ms"))
        if not medians:
            continue
        costs = (figures_of(rounds, server, f"{prefix}.{figure}") for figure in ("client_us", "broker_us"))
        ours = figures_of(rounds, server, f"{row.name}.{RECORD_API}.p50_ms")
        ratio = statistics.median(ours) / statistics.median(medians) if ours else 0.0
        yield [
            str(row.number),
            row.title,
            CLIENTS[client],
            f"p50 {spread(medians)} ms, p99 {spread(slowest)} ms",
            *(f"{text(statistics.median(cost))} us" for cost in costs),
            "" if client == RECORD_API else f"{ratio:.2f}x (p50)",
            "",
            "",
        ]


def _start_lines(rounds: Rounds, server: str) -> Iterator[list[str]]:
    for name, command in CLI_TOOLS.items():
        seconds = figures_of(rounds, server, f"start.{name}.s")
        if seconds:
            is_ours = name == "ottla"
            verdict = "met" if statistics.median(seconds) <= CLI_LIMIT_SECONDS else "MISSED"
            bar = f"<= {CLI_LIMIT_SECONDS:g} s" if is_ours else ""
            cells = [str(CLI_ROW), "a command, from start to end", command, f"{spread(seconds)} s", "", "", ""]
            yield [*cells, bar, verdict if is_ours else ""]
