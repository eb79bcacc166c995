"""What is done to one server in one round, and what it yields: figures by name.

Both servers get the same sessions in the same order. A session starts its server in an empty folder and leaves nothing
behind; only one server runs at a time.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.servers import REPOSITORY, Kafka, Ottla, Server

from bench.observation import Cost, Watch, peak_rss_bytes, rss_bytes
from bench.perf_tools import RECORD_BYTES, consume, produce
from bench.topics import Admin, RequestFailed, led_partitions

PARTITIONS = 6
SMALL_BATCHES = {"acks": "1", "enable.idempotence": "false", "batch.size": "16384", "linger.ms": "5"}
LARGE_BATCHES = {"acks": "1", "enable.idempotence": "false", "batch.size": "131072", "linger.ms": "10"}
EVERY_REPLICA = {"acks": "all", "linger.ms": "0"}
"""acks=all at its plainest: idempotent, as the Java producer is by default, each record sent as it comes."""

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything."""

    warm_records: int = 500_000
    records: int = 1_000_000
    latency_records: int = 20_000
    latency_warmup_records: int = 5_000
    idle_seconds: float = 10
    rest_seconds: float = 6
    """After a server's files were deleted: ext4 steps around inodes deleted in the last 5 s, one by one."""
    start_count: int = 5
    idle_connections: int = 1000
    busy_connections: int = 200
    crowd_seconds: float = 8
    crowd_requests_per_second: int = 5_000
    topics: int = 1000
    topic_repetitions: int = 3
    large_topics: int = 200
    large_partitions: int = 10
    metadata_repetitions: int = 50


QUICK = Scale(
    warm_records=5_000,
    records=20_000,
    latency_records=2_000,
    latency_warmup_records=500,
    idle_seconds=1,
    rest_seconds=0,
    start_count=2,
    idle_connections=100,
    busy_connections=20,
    crowd_seconds=1,
    crowd_requests_per_second=500,
    topics=50,
    topic_repetitions=1,
    large_topics=20,
    metadata_repetitions=10,
)


@dataclass(slots=True)
class Bench:
    """One server in one round."""

    server: str
    folder: Path
    scale: Scale
    rows: frozenset[int]
    progress: Callable[[str], None]
    figures: Figures = field(default_factory=dict)
    _sessions: int = 0

    def wants(self, *rows: int) -> bool:
        return not self.rows.isdisjoint(rows)

    def run(self) -> Figures:
        try:
            self._run()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        time.sleep(self.scale.rest_seconds)
        return self.figures

    def _run(self) -> None:
        if self.wants(5):
            self._starts()
        if self.wants(1, 2, 3, 4, 6, 7, 8):
            self._load()
        if self.wants(9):
            self._thousand_topics()
        if self.wants(10):
            self._many_partitions()

    def _note(self, name: str, value: float, unit: str = "") -> None:
        self.figures[name] = value
        self.progress(f"{name} {value:,.3f} {unit}".rstrip())

    def _note_cost(self, name: str, cost: Cost, gigabytes: float | None = None) -> None:
        self.figures[f"{name}.user_s"] = cost.user_seconds
        self.figures[f"{name}.system_s"] = cost.system_seconds
        self.figures[f"{name}.client_cpu_s"] = cost.client_seconds
        self.figures[f"{name}.foreign_cores"] = cost.foreign_cores
        self._note(f"{name}.cpu_s", cost.cpu_seconds, f"(+ {cost.foreign_cores:.2f} foreign cores)")
        if gigabytes is not None:
            self.figures[f"{name}.cpu_s_per_gb"] = cost.cpu_seconds / gigabytes

    def _make(self, overrides: Sequence[str] = ()) -> Server:
        self._sessions += 1
        folder = self.folder / str(self._sessions)
        folder.mkdir(parents=True)
        data = folder / "data"
        return Ottla(data, overrides) if self.server == "ottla" else Kafka(data, overrides)

    @contextmanager
    def _running(self, overrides: Sequence[str] = ()) -> Iterator[Server]:
        server = self._make(overrides)
        try:
            server.start()
            yield server
            server.stop()
        finally:
            server.kill()

    # Row 5

    def _starts(self) -> None:
        """A folder that has been formatted and used by a start and a clean stop, then start after start."""
        server = self._make()
        try:
            server.start()
            server.stop()
            seconds, cpu = [], []
            for _ in range(self.scale.start_count):
                settle()
                seconds.append(timed_start(server))
                cpu.append(server.cpu_seconds())
                time.sleep(0.5)
                server.stop()
        finally:
            server.kill()
        self.figures["start.max_s"] = max(seconds)
        self.figures["start.cpu_s"] = statistics.median(cpu)
        self._note("start.s", statistics.median(seconds))

    # Rows 1 to 4 and 6 to 8

    def _load(self) -> None:
        with self._running() as server, Admin(server) as admin:
            if self.wants(6):
                self._idle(server)
            self._topic(admin, "warm")
            self.progress("warming up")
            # A JVM compiles for a long time: Apache Kafka's cost per record still halves after the first 500 k records.
            for acks in ("1", "all"):
                _, cost = produce(server, "warm", self.scale.warm_records, {**SMALL_BATCHES, "acks": acks})
                self._note_cost(f"warm_acks_{acks}", cost)
            if self.wants(1, 2, 4, 6):
                self._produce(server, admin, "produce_16k", SMALL_BATCHES)
            if self.wants(3, 6):
                self._produce(server, admin, "produce_128k", LARGE_BATCHES)
            if self.wants(4, 6):
                self._consume(server, "produce_16k")
            if self.wants(6):
                self._note("rss_loaded.mb", rss_bytes(server.pid) / 1e6)
                self.figures["rss_peak.mb"] = peak_rss_bytes(server.pid) / 1e6
            if self.wants(7):
                self._latency(server, admin)
            if self.wants(8):
                self._crowd(server, admin)
            self.figures["rss_end.mb"] = rss_bytes(server.pid) / 1e6

    def _topic(self, admin: Admin, name: str) -> None:
        admin.create([name], PARTITIONS)
        admin.wait_for_leaders(PARTITIONS)

    def _idle(self, server: Server) -> None:
        watch = Watch(server.pid)
        time.sleep(self.scale.idle_seconds)
        cost = watch.cost()
        self.figures["idle.cpu_percent"] = 100 * cost.cpu_seconds / cost.seconds
        self._note("rss_idle.mb", cost.rss_bytes / 1e6)

    def _produce(self, server: Server, admin: Admin, name: str, settings: dict[str, str]) -> None:
        self._topic(admin, name)
        settle()
        (produced,), cost = produce(server, name, self.scale.records, settings)
        self._note(f"{name}.records_per_s", produced.records_per_second)
        self.figures[f"{name}.p99_ms"] = produced.p99_ms
        self._note_cost(name, cost, self.scale.records * RECORD_BYTES / 1e9)

    def _consume(self, server: Server, topic: str) -> None:
        # As for producing, the first client after a start warms the server up and does not count.
        consume(server, topic, PARTITIONS, self.scale.records)
        consumed, cost = consume(server, topic, PARTITIONS, self.scale.records)
        self._note("consume.records_per_s", consumed.records_per_second)
        self._note_cost("consume", cost, consumed.bytes / 1e9)

    def _latency(self, server: Server, admin: Admin) -> None:
        self._topic(admin, "latency")
        settle()
        (whole, steady), cost = produce(
            server,
            "latency",
            self.scale.latency_records,
            EVERY_REPLICA,
            throughput=1000,
            warmup_records=self.scale.latency_warmup_records,
        )
        self._note("latency.p99_ms", whole.p99_ms)
        self._note("latency.steady_p99_ms", steady.p99_ms)
        self.figures["latency.average_ms"] = whole.average_ms
        self.figures["latency.steady_average_ms"] = steady.average_ms
        self.figures["latency.steady_p999_ms"] = steady.p999_ms
        self._note_cost("latency", cost)

    def _crowd(self, server: Server, admin: Admin) -> None:
        self._topic(admin, "crowd")
        for name, rate in (("crowd", 0), ("crowd_paced", self.scale.crowd_requests_per_second)):
            settle()
            watch = Watch(server.pid)
            arguments = {
                "--port": server.port,
                "--topic": "crowd",
                "--partitions": PARTITIONS,
                "--idle": self.scale.idle_connections,
                "--busy": self.scale.busy_connections,
                "--seconds": self.scale.crowd_seconds,
                "--requests-per-second": rate,
            }
            result = run_program("bench.crowd", arguments)
            cost = watch.cost()
            for key, value in result.items():
                self._note(f"{name}.{key}", value)
            self._note_cost(name, cost)

    # Row 9

    def _thousand_topics(self) -> None:
        names = [f"topic-{number}" for number in range(self.scale.topics)]
        created, led, hosted, deleted, cpu = [], [], [], [], []
        with self._running() as server, Admin(server) as admin:
            for _ in range(self.scale.topic_repetitions):
                settle()
                watch = Watch(server.pid)
                created.append(admin.create(names, 1))
                led.append(created[-1] + admin.wait_for_leaders(len(names)))
                hosted.append(led[-1] + _wait_for_logs(server.data, len(names)))
                time.sleep(1)
                deleted.append(admin.delete(names))
                time.sleep(1)
                cpu.append(watch.cost().cpu_seconds)
            self.figures["topics.rss_mb"] = rss_bytes(server.pid) / 1e6
        self.figures["topics.first_create_s"] = created[0]
        self.figures["topics.first_delete_s"] = deleted[0]
        self.figures["topics.cpu_s"] = statistics.median(cpu)
        self._note("topics.create_s", statistics.median(created))
        self._note("topics.led_s", statistics.median(led))
        self._note("topics.hosted_s", statistics.median(hosted))
        self._note("topics.delete_s", statistics.median(deleted))

    # Row 10

    def _many_partitions(self) -> None:
        scale = self.scale
        partitions = scale.large_topics * scale.large_partitions
        with self._running() as server:
            with Admin(server) as admin:
                admin.create([f"topic-{number}" for number in range(scale.large_topics)], scale.large_partitions)
                admin.wait_for_leaders(partitions)
            _wait_for_logs(server.data, partitions)
            server.stop()
            settle()
            self._note("large.start_s", timed_start(server))
            self.figures["large.start_cpu_s"] = server.cpu_seconds()
            with Admin(server) as admin:
                admin.wait_for_leaders(partitions)
                time.sleep(min(5.0, scale.idle_seconds))
                self._note("large.rss_mb", rss_bytes(server.pid) / 1e6)
                answers = [admin.metadata() for _ in range(scale.metadata_repetitions)]
                assert led_partitions(answers[-1][0]) == partitions
            self._note("large.metadata_bytes", len(answers[-1][0]))
            self.figures["large.metadata_first_ms"] = answers[0][1] * 1000
            self._note("large.metadata_ms", statistics.median(seconds for _, seconds in answers) * 1000)


def run_program(module: str, options: Mapping[str, object], *words: str) -> Figures:
    """A client of this package in a process of its own, and the JSON object that it prints."""
    arguments = [*words, *(str(word) for option in options.items() for word in option)]
    printed = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True
    )
    figures: Figures = json.loads(printed.stdout)
    return figures


def timed_start(server: Server) -> float:
    """Seconds from the launch to the first Metadata answer that names a broker."""
    answered_at: list[float] = []
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            if server.has_broker():
                answered_at.append(time.perf_counter())
                return
            time.sleep(0.002)

    polling = threading.Thread(target=poll)
    started = time.perf_counter()
    polling.start()
    try:
        server.start()
    finally:
        is_over.set()
        polling.join()
    return (answered_at[0] if answered_at else time.perf_counter()) - started


def _wait_for_logs(data: Path, count: int, timeout_seconds: float = 60) -> float:
    """Seconds until the folder of every partition of topic-... is there: both servers answer before they made them."""
    started = time.perf_counter()
    while sum(name.startswith("topic-") and not name.endswith("-delete") for name in os.listdir(data)) < count:
        if time.perf_counter() - started > timeout_seconds:
            raise RequestFailed(f"fewer than {count} partitions have a folder after {timeout_seconds} s")
        time.sleep(0.01)
    return time.perf_counter() - started


def settle() -> None:
    """What the last stretch wrote must not be on its way to the disk during the next one."""
    os.sync()
    time.sleep(0.2)
