"""The rows: each measure beside Apache Kafka's and against its bar; results as JSON and as a markdown table."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.interop.servers import REPOSITORY

from bench.session import Figures
from ottla.records import RECORDS_COMPILED

Rounds = dict[str, list[Figures]]
"""Figures of each round, by server."""


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of a row. A bar is a ratio to Apache Kafka, or a limit of its own."""

    row: int
    title: str
    figure: str
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    limit: float | None = None

    @property
    def bar(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}x"
        if self.at_most is not None:
            return f"<= {self.at_most:g}x"
        if self.limit is not None:
            return f"<= {self.limit:g} {self.unit}"
        return "printed"

    def verdict(self, ottla: float | None, kafka: float | None) -> str:
        if ottla is None:
            return ""
        if self.limit is not None:
            return "met" if ottla <= self.limit else "MISSED"
        if kafka is None or (self.at_least is None and self.at_most is None):
            return ""
        if self.at_least is not None:
            return "met" if ottla >= self.at_least * kafka else "MISSED"
        assert self.at_most is not None
        return "met" if ottla <= self.at_most * kafka else "MISSED"


def _group_lines() -> Iterator[Line]:
    for protocol in ("classic", "consumer"):
        for client in ("Java", "librdkafka"):
            name = f"first.1.{client.lower()}.{protocol}"
            yield Line(11, f"{protocol}: subscribe to first record, alone, {client}", f"{name}.ms", "ms", at_most=1.0)
            yield Line(11, "the same, broker CPU", f"{name}.cpu_s", "s")
    for protocol in ("classic", "consumer"):
        name = f"first.many.brisk.{protocol}"
        yield Line(11, f"{protocol}: the same, 50 members, the last one; no delays", f"{name}.s", "s", at_most=TIMERS)
        yield Line(11, "the same, broker CPU", f"{name}.cpu_s", "s")
        name = f"first.many.default.{protocol}"
        yield Line(11, f"{protocol}: the same, Kafka's default delays", f"{name}.s", "s", at_most=TIMERS)
        yield Line(11, "the same, broker CPU", f"{name}.cpu_s", "s")
    for protocol in ("classic", "consumer"):
        name = f"move.leave.{protocol}"
        yield Line(12, f"{protocol}: a member leaves, until others read its partitions", f"{name}.s", "s", at_most=1.0)
        yield Line(12, "the same, broker CPU", f"{name}.cpu_s", "s")
        name = f"move.kill.{protocol}"
        yield Line(12, f"{protocol}: a member is killed, the same", f"{name}.s", "s", at_most=TIMERS)
        yield Line(12, "the same, beyond the session timeout of 6 s", f"{name}.beyond_s", "s")
        yield Line(12, "the same, broker CPU", f"{name}.cpu_s", "s")
    for protocol in ("classic", "consumer"):
        name = f"crowd.brisk.{protocol}"
        yield Line(13, f"{protocol}: 500 members join at once; no delays", f"{name}.s", "s", at_most=1.0)
        yield Line(13, "the same, broker CPU", f"{name}.cpu_s", "s", at_most=1.0)
        yield Line(13, "the same, requests until then", f"{name}.requests")
        yield Line(13, "all of them leave", f"{name}.leave_s", "s", at_most=1.0)
        name = f"crowd.default.{protocol}"
        yield Line(13, f"{protocol}: the same, Kafka's default delays", f"{name}.s", "s", at_most=TIMERS)
        yield Line(13, "the same, broker CPU", f"{name}.cpu_s", "s")
    for partitions in (1, 10):
        name = f"commit_{partitions}"
        title = f"10,000 offsets/s, {partitions} in a commit"
        yield Line(14, f"{title}: p99", f"{name}.p99_ms", "ms", at_most=1.0)
        yield Line(14, "the same, p50", f"{name}.p50_ms", "ms")
        yield Line(14, "the same, broker CPU per offset", f"{name}.cpu_us_per_offset", "us", at_most=1.0)
        name = f"commit_limit_{partitions}"
        yield Line(14, f"the limit, {partitions} in a commit", f"{name}.offsets_per_second", "/s")
        yield Line(14, "the same, p99", f"{name}.p99_ms", "ms")
        yield Line(14, "the same, broker CPU per offset", f"{name}.cpu_us_per_offset", "us")
    for name, title in (("replay", "1,000 groups x 100 partitions"), ("replay_again", "each committed 5 times")):
        yield Line(15, f"{title}: start until every group's offsets are answered", f"{name}.s", "s", limit=2.0)
        yield Line(15, "the same, beyond the first Metadata answer", f"{name}.beyond_start_s", "s", at_most=1.0)
        yield Line(15, "the same, broker CPU of the whole start", f"{name}.cpu_s", "s")
        yield Line(15, "the commits before, one after another", f"{name}.fill_s", "s")


def _transaction_lines() -> Iterator[Line]:
    for partitions in (1, 6, 30):
        for records in (1, 10, 100):
            name = f"transact.{records}.{partitions}"
            title = f"one producer, {records} records in a transaction, {partitions} partitions"
            yield Line(16, title, f"{name}.transactions_per_s", "/s", at_least=1.0)
            yield Line(16, "the same, p99 of commit", f"{name}.commit_p99_ms", "ms", at_most=1.0)
            yield Line(16, "the same, p50 of commit", f"{name}.commit_p50_ms", "ms")
            yield Line(16, "the same, broker CPU per transaction", f"{name}.cpu_ms", "ms")
    for records in (1, 10, 100):
        name = f"transact_many.{records}"
        title = f"ten producers, {records} records in a transaction, 6 partitions"
        yield Line(17, title, f"{name}.transactions_per_s", "/s", at_least=1.0)
        yield Line(17, "the same, p99 of commit", f"{name}.commit_p99_ms", "ms", at_most=1.0)
        yield Line(17, "the same, broker CPU per transaction", f"{name}.cpu_ms", "ms")
    for level in ("read_uncommitted", "read_committed"):
        yield Line(18, f"{level}, every tenth transaction aborted", f"{level}.records_per_s", "rec/s", at_least=1.0)
        yield Line(18, "the same, broker CPU", f"{level}.cpu_s_per_gb", "s/GB", at_most=1.0)
    yield Line(18, "read_committed to read_uncommitted, speed", "isolation.speed_ratio")
    yield Line(18, "the same, broker CPU", "isolation.cpu_s_ratio")


def _share_lines() -> Iterator[Line]:
    for members in (1, 4, 16):
        name = f"share_perf.{members}"
        yield Line(38, f"share-consumer-perf-test, {members} members", f"{name}.records_per_s", "rec/s", at_least=1.0)
        yield Line(38, "the same, broker CPU", f"{name}.cpu_s", "s", at_most=0.7)
    for members in (1, 4, 16):
        name = f"share_ack.{members}"
        yield Line(39, f"ShareAcknowledge of 100 records, {members} members: p99", f"{name}.p99_ms", "ms", at_most=1.0)
        yield Line(39, "the same, p50", f"{name}.p50_ms", "ms")
        yield Line(39, "the same, records", f"{name}.records_per_s", "rec/s")
        yield Line(39, "the same, broker CPU per acknowledgement", f"{name}.cpu_ms", "ms", at_most=0.7)
    name = "share_crowd"
    yield Line(40, "1,000 members of one share group: all are assigned", f"{name}.join_s", "s", at_most=1.0)
    yield Line(40, "the same, broker CPU", f"{name}.join_cpu_s", "s", at_most=0.7)
    yield Line(40, "they read 50,000 records, 10 at a time", f"{name}.records_per_s", "rec/s", at_least=1.0)
    yield Line(40, "the same, broker CPU", f"{name}.cpu_s", "s", at_most=0.7)
    yield Line(40, "the same, p99 of ShareAcknowledge", f"{name}.p99_ms", "ms", at_most=1.0)
    yield Line(40, "they wait for records for 10 s, broker CPU", f"{name}.idle_cpu_s", "s", at_most=0.7)


def _cluster_lines() -> Iterator[Line]:
    for row, size, faster, cheaper in ((26, "16", 3.0, 0.25), (27, "128", 2.5, None)):
        name = f"cluster_{size}k"
        title = f"three nodes, produce 1 KB, {size} KB batches, replication factor 3, acks=all"
        yield Line(row, title, f"{name}.records_per_s", "rec/s", at_least=faster)
        yield Line(row, "the same, CPU of the three brokers", f"{name}.cpu_s_per_gb", "s/GB", at_most=cheaper)
    yield Line(28, "resident memory of the three brokers after that", "cluster_rss.mb", "MB", limit=400)


def _fault_lines() -> Iterator[Line]:
    yield Line(29, "a leader is killed: longest gap in acknowledgements", "gap_leader.s", "s", limit=1.5)
    yield Line(30, "the same, of a node that leads the controllers, too", "gap_controller.s", "s", limit=3)
    yield Line(31, "three nodes from nothing until each answers", "cluster_start.s", "s", limit=1)
    yield Line(32, "rolling restart: longest gap in acknowledgements", "rolling.gap_s", "s", limit=1)
    yield Line(32, "the same, failed requests", "rolling.failed", "", limit=0)
    for figure, title in (
        ("create", "10,000 partitions on three nodes: created, on every node"),
        ("failover", "the same, the controllers' leader is killed: led by others"),
        ("restart", "the same, all nodes start: led and in sync"),
    ):
        yield Line(33, title, f"many.{figure}_s", "s", at_most=1.0)
        yield Line(33, "the same, CPU of the brokers", f"many.{figure}.cpu_s", "s")


def _security_lines() -> Iterator[Line]:
    for size in ("16", "128"):
        name = f"sasl_ssl.produce_{size}k"
        title = f"SASL_SSL: produce 1 KB, {size} KB batches, acks=1"
        yield Line(34, title, f"{name}.records_per_s", "rec/s", at_least=1.2)
        yield Line(34, "the same, broker CPU", f"{name}.cpu_s_per_gb", "s/GB", at_most=0.7)
    yield Line(35, "SASL_SSL: consume 1 KB", "sasl_ssl.consume.records_per_s", "rec/s", at_least=1.2)
    yield Line(35, "the same, broker CPU", "sasl_ssl.consume.cpu_s_per_gb", "s/GB", at_most=0.7)
    for figure, title in (("produce_16k", "produce"), ("consume", "consume")):
        name = f"acls.{figure}"
        yield Line(36, f"{title}, authorizer and 1,000 ACLs to neither: speed", f"{name}.records_per_s_ratio")
        yield Line(36, "the same, broker CPU per GB", f"{name}.cpu_s_per_gb_ratio", "", limit=1.02)
    for name, title in (("tls", "1,000 new TLS connections"), ("scram", "1,000 SCRAM logins")):
        yield Line(37, title, f"logins.{name}.per_s", "/s", at_least=1.0)
        yield Line(37, "the same, broker CPU", f"logins.{name}.cpu_s", "s")
        yield Line(37, "meanwhile, other clients at 500 requests/s: p99", f"logins.{name}.others_p99_ms", "ms")


TIMERS = 1.05
"""Where waiting by a timer is nearly all of a figure: its ratio is 1 give or take a heartbeat."""

LINES = (
    Line(1, "produce 1 KB, 16 KB batches, acks=1", "produce_16k.records_per_s", "rec/s", at_least=1.3),
    Line(2, "the same, broker CPU", "produce_16k.cpu_s_per_gb", "s/GB", at_most=0.45),
    Line(3, "produce 1 KB, 128 KB batches, acks=1", "produce_128k.records_per_s", "rec/s", at_least=1.2),
    Line(3, "the same, broker CPU", "produce_128k.cpu_s_per_gb", "s/GB", at_most=0.45),
    Line(4, "consume the GB of row 1, broker CPU", "consume.cpu_s_per_gb", "s/GB", at_most=0.8),
    Line(4, "the same, speed", "consume.records_per_s", "rec/s", at_least=1.0),
    Line(5, "start to first Metadata answer, formatted folder", "start.s", "s", limit=0.3),
    Line(6, "resident memory, idle", "rss_idle.mb", "MB", limit=60),
    Line(6, "resident memory, after the load", "rss_loaded.mb", "MB", limit=120),
    Line(7, "acks=all at 1000 records/s, p99", "latency.p99_ms", "ms", at_most=1.0),
    Line(7, "the same, first 5 s not counted", "latency.steady_p99_ms", "ms", at_most=1.0),
    Line(7, "the same, average", "latency.steady_average_ms", "ms"),
    Line(8, "1000 idle + 200 busy connections, 300 B, flat out: p99", "crowd.p99_ms", "ms"),
    Line(8, "the same, requests", "crowd.requests_per_second", "/s"),
    Line(8, "the same at 5000 requests/s: p99", "crowd_paced.p99_ms", "ms"),
    Line(8, "the same, broker CPU", "crowd_paced.cpu_s", "s"),
    Line(9, "create 1,000 topics in one call", "topics.create_s", "s", at_most=1.0),
    Line(9, "delete them in one call", "topics.delete_s", "s", at_most=1.0),
    Line(9, "created, until Metadata names every leader", "topics.led_s", "s"),
    Line(9, "created, until every partition has its folder", "topics.hosted_s", "s"),
    Line(10, "2,000 partitions: restart to first Metadata answer", "large.start_s", "s"),
    Line(10, "2,000 partitions: resident memory", "large.rss_mb", "MB"),
    Line(10, "2,000 partitions: one full Metadata answer", "large.metadata_ms", "ms"),
    Line(10, "its size (v12)", "large.metadata_bytes", "B"),
    *_group_lines(),
    *_transaction_lines(),
    *_cluster_lines(),
    *_fault_lines(),
    *_security_lines(),
    *_share_lines(),
)


def figures_of(rounds: Rounds, server: str, figure: str) -> list[float]:
    return [one[figure] for one in rounds.get(server, []) if figure in one]


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def text(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def spread(values: Sequence[float]) -> str:
    middle = text(_median(values))
    if len(values) < 2:
        return middle
    return f"{middle} ({text(min(values))} to {text(max(values))})"


def table(rounds: Rounds, rows: frozenset[int]) -> list[list[str]]:
    lines = [["row", "measure", "unit", "Ottla", "Apache Kafka", "ratio", "bar", "verdict"]]
    for line in LINES:
        if line.row not in rows:
            continue
        ottla, kafka = (figures_of(rounds, server, line.figure) for server in ("ottla", "kafka"))
        ours, theirs = _median(ottla), _median(kafka)
        ratio = f"{ours / theirs:.2f}x" if ours is not None and theirs else "-"
        cells = [str(line.row), line.title, line.unit, spread(ottla), spread(kafka), ratio, line.bar]
        lines.append([*cells, line.verdict(ours, theirs)])
    return lines


def plain(lines: list[list[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def markdown(lines: list[list[str]]) -> str:
    head, *body = lines
    rows = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def machine() -> dict[str, Any]:
    """What the figures were measured on; nothing that names the machine."""
    processor = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        uvloop = version("uvloop")
    except PackageNotFoundError:
        uvloop = "absent"
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "uvloop": uvloop,
        "record_kernel": "compiled" if RECORDS_COMPILED else "plain Python",
        "java": java[0] if java else "absent",
        "commit": _git("rev-parse", "--short", "HEAD"),
        "is_clean": not _git("status", "--porcelain", "--untracked-files=no", "--", "src"),
    }


def _git(*arguments: str) -> str:
    result = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return result.stdout.strip()


def foreign_cores(rounds: Rounds) -> list[float]:
    """Of all measured stretches: cores that neither broker nor client used."""
    return [
        value
        for figures in rounds.values()
        for one in figures
        for name, value in one.items()
        if name.endswith(".foreign_cores")
    ]


def describe(facts: dict[str, Any], rounds: Rounds, load: Sequence[float], date: str) -> str:
    foreign = foreign_cores(rounds)
    count = max((len(figures) for figures in rounds.values()), default=0)
    others = f"{statistics.median(foreign):.2f} (up to {max(foreign):.2f})" if foreign else "unknown"
    return (
        f"{date}, commit {facts['commit']}{'' if facts['is_clean'] else ' with changes'}. "
        f"{facts['cores']} cores of {facts['processor']}, {facts['memory_gb']} GB, Linux {facts['kernel']}; "
        f"Python {facts['python']}, uvloop {facts['uvloop']}, record kernel {facts['record_kernel']}; {facts['java']}. "
        f"Rounds: {count}, the servers in turn, median (lowest to highest). "
        f"Load average when a server's turn began: {min(load):.1f} to {max(load):.1f}. "
        f"Cores that neither broker nor client used during a stretch (other programs, steal): {others}."
    )


def write(folder: Path, name: str, result: dict[str, Any], text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    (folder / f"{name}.md").write_text(text)
