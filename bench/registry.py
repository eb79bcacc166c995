"""`python -m bench.registry`: Ottla's schema registry beside Apicurio's, in turns, and what checking schemas costs.

Apicurio Registry 3.3.3 (`APICURIO_HOME`: the unpacked `-all.tar.gz` of io.apicurio:apicurio-registry-app from Maven;
`APICURIO_JAVA`: a Java of version 21) runs as it comes, with its storage in memory and without its access log. Ottla's
registry writes to a topic of a node, whose CPU time counts as the registry's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from tests.interop.servers import Ottla, free_port

from bench.observation import Watch, load_average, process_times, rss_bytes
from bench.perf_tools import RECORD_BYTES, parse_produced, run
from bench.session import PARTITIONS, SMALL_BATCHES
from ottla.cli.companion import companion_command
from ottla.client.blocking import Admin

RESULTS = Path(__file__).parent / "results"
OTTLA, APICURIO = "Ottla", "Apicurio 3.3.3"
READY_TIMEOUT_S = 180
SUBJECTS = 10_000
FIRST_ID = 1
Figures = dict[str, float]


class Registry:
    """A registry that runs: where it is, and the processes that work for it."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], others: tuple[int, ...] = ()) -> None:
        self.url = url
        self.process = process
        self.pids = (process.pid, *others)

    def ask(self, work: str, **options: object) -> tuple[dict[str, Any], float]:
        """What the clients of `registry_client` found, and CPU seconds of the server."""
        arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        watch = Watch(*self.pids)
        printed = subprocess.run(
            [sys.executable, "-m", "bench.registry_client", self.url, work, *arguments],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        found: dict[str, Any] = json.loads(printed)
        if found["failed"]:
            raise RuntimeError(f"{work}: {found['failed']} requests failed: {found['first_failure']}")
        return found, watch.cost().cpu_seconds


@contextmanager
def ottla() -> Iterator[Callable[[], Registry]]:
    """Starts registries on one node."""
    with tempfile.TemporaryDirectory() as folder:
        node = Ottla(Path(folder), ["group.initial.rebalance.delay.ms=0"])
        node.start()
        try:
            yield lambda: launched_ottla(node)
        finally:
            node.stop()


def launched_ottla(node: Ottla) -> Registry:
    port = free_port()
    process = subprocess.Popen(
        companion_command("registry", port, node.bootstrap),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert node.pid is not None
    return Registry(f"http://127.0.0.1:{port}", process, (node.pid,))


@contextmanager
def apicurio() -> Iterator[Callable[[], Registry]]:
    home, java = os.environ["APICURIO_HOME"], os.environ.get("APICURIO_JAVA", "java")

    def launch() -> Registry:
        port = free_port()
        options = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.log.level=WARN"]
        process = subprocess.Popen(
            [java, *options, "-Dquarkus.http.access-log.enabled=false", "-jar", f"{home}/quarkus-run.jar"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return Registry(f"http://127.0.0.1:{port}/apis/ccompat/v7", process)

    yield launch


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/subjects", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def started(launch: Callable[[], Registry], figures: Figures | None = None) -> Iterator[Registry]:
    """A registry from its launch to its first answer, and to its end."""
    began = time.perf_counter()
    registry = launch()
    while not answers(registry.url):
        if time.perf_counter() - began > READY_TIMEOUT_S or registry.process.poll() is not None:
            raise RuntimeError(f"{registry.url} does not answer")
        time.sleep(0.02)
    if figures is not None:
        figures["start.s"] = time.perf_counter() - began
        figures["start.cpu_s"] = sum(process_times(registry.process.pid))
    try:
        yield registry
    finally:
        assert registry.process.stdin is not None
        registry.process.stdin.close()
        registry.process.terminate()
        registry.process.wait(60)


def measure(launch: Callable[[], Registry], scale: float) -> Figures:
    figures: Figures = {}
    seconds = max(1.0, 5 * scale)
    subjects = int(SUBJECTS * scale)
    with started(launch, figures) as registry:
        figures["rss_started.mb"] = rss_bytes(registry.process.pid) / 1e6
        registry.ask("register", count=500, clients=10)  # warms it up
        for _ in range(2):
            registry.ask("ids", count=100, seconds=seconds, clients=10)
        for name, work, options in (
            ("register_1", "register", {"first": 100_000, "count": int(200 * scale)}),
            ("register_50", "register", {"first": 200_000, "count": int(1_000 * scale), "clients": 50}),
            ("ids_1", "ids", {"count": 100, "seconds": seconds}),
            ("ids_50", "ids", {"count": 100, "seconds": seconds, "clients": 50}),
            ("again_50", "again", {"count": 100, "seconds": seconds, "clients": 50}),
        ):
            found, cpu_seconds = registry.ask(work, **options)
            figures[f"{name}.rate"] = found["rate"]
            figures[f"{name}.p99_ms"] = found["p99_ms"]
            figures[f"{name}.cpu_us"] = 1e6 * cpu_seconds / found["requests"]
            figures[f"{name}.client_us"] = 1e6 * found["client_cpu_seconds"] / found["requests"]
        registry.ask("register", first=300_000, count=subjects, clients=50)
        found, cpu_seconds = registry.ask("ids", first=FIRST_ID, count=subjects, seconds=seconds, clients=50)
        figures["ids_50_filled.rate"] = found["rate"]
        figures["ids_50_filled.cpu_us"] = 1e6 * cpu_seconds / found["requests"]
        figures["rss_filled.mb"] = rss_bytes(registry.process.pid) / 1e6
    return figures


ROWS = (
    ("start, to the first answer", "start.s", "s", False, "< 1 s"),
    ("CPU seconds of the start", "start.cpu_s", "s", False, ""),
    ("memory after the start", "rss_started.mb", "MB", False, ""),
    ("memory with 10,000 subjects more, looked up", "rss_filled.mb", "MB", False, "< 120 MB"),
    ("register, 1 client", "register_1.rate", "/s", True, ">= 3x"),
    ("register, 50 clients", "register_50.rate", "/s", True, ">= 3x"),
    ("look up by id, 1 client", "ids_1.rate", "/s", True, ">= 3x"),
    ("look up by id, 50 clients", "ids_50.rate", "/s", True, ">= 3x"),
    ("look up by id with 10,000 subjects, 50 clients", "ids_50_filled.rate", "/s", True, ">= 3x"),
    ("register what is registered, 50 clients", "again_50.rate", "/s", True, ""),
    ("CPU of a registration, 50 clients", "register_50.cpu_us", "us", False, ""),
    ("CPU of a lookup by id, 50 clients", "ids_50.cpu_us", "us", False, ""),
    ("CPU of the bench's clients for it", "ids_50.client_us", "us", False, ""),
    ("p99 of a lookup by id, 50 clients", "ids_50.p99_ms", "ms", False, ""),
)


def table(rounds: dict[str, list[Figures]]) -> Iterator[str]:
    yield f"| measure | {OTTLA} | {APICURIO} | Ottla's to it | bar |"
    yield "| --- | --- | --- | --- | --- |"
    for title, figure, unit, is_rate, bar in ROWS:
        cells = []
        for server in (OTTLA, APICURIO):
            values = [figures[figure] for figures in rounds.get(server, [])]
            cells.append(f"{median(values):,.3g} ({min(values):,.3g} to {max(values):,.3g}) {unit}" if values else "")
        ratio = ""
        if rounds.get(OTTLA) and rounds.get(APICURIO):
            ours, theirs = (median(figures[figure] for figures in rounds[one]) for one in (OTTLA, APICURIO))
            ratio = f"{ours / theirs:.2f}x" if is_rate or theirs else ""
        yield f"| {title} | {cells[0]} | {cells[1]} | {ratio} | {bar} |"


# Produce


def produced(node: Ottla, topic: str, records: int, payloads: Path) -> tuple[float, float]:
    """Records/s, and CPU microseconds of the node for a record."""
    assert node.pid is not None
    watch = Watch(node.pid)
    printed = run(
        [
            "producer-perf-test",
            *("--bootstrap-server", node.bootstrap, "--topic", topic, "--num-records", str(records)),
            *("--payload-file", str(payloads), "--throughput", "-1"),
            *("--command-property", *(f"{key}={value}" for key, value in SMALL_BATCHES.items())),
        ]
    )
    return parse_produced(printed)[0].records_per_second, 1e6 * watch.cost().cpu_seconds / records


def produce_pairs(pairs: int, records: int) -> Iterator[str]:
    """Topics with and without validation on one node, in turns."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        url = f"http://127.0.0.1:{port}"
        node = Ottla(Path(folder) / "data", [f"confluent.schema.registry.url={url}"])
        node.start()
        process = subprocess.Popen(
            companion_command("registry", port, node.bootstrap),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not answers(url):
                time.sleep(0.1)
            payloads = Path(folder) / "payloads"
            payloads.write_bytes(b"\0\0\0\0\1" + b"x" * (RECORD_BYTES - 5) + b"\n")
            found: dict[str, list[tuple[float, float]]] = {"off": [], "on": []}
            with Admin(bootstrap_servers=node.bootstrap) as admin:
                body = json.dumps({"schema": '"string"'}).encode()
                headers = {"Content-Type": "application/json"}
                for turn in range(-1, pairs):
                    for kind in ("off", "on") if turn % 2 else ("on", "off"):
                        topic = f"{kind}-{turn + 1}"
                        settings = {"confluent.value.schema.validation": "true"} if kind == "on" else {}
                        admin.create_topic(topic, PARTITIONS, 1, settings)
                        path = f"{url}/subjects/{topic}-value/versions"
                        urllib.request.urlopen(urllib.request.Request(path, body, headers), timeout=60).close()
                        figures = produced(node, topic, records, payloads)
                        if turn >= 0:  # the first pair warms it up
                            found[kind].append(figures)
                        admin.delete_topics([topic])
        finally:
            process.terminate()
            process.wait(30)
            node.stop()
    rates = [on[0] / off[0] for on, off in zip(found["on"], found["off"], strict=True)]
    costs = [on[1] / off[1] for on, off in zip(found["on"], found["off"], strict=True)]
    yield "| measure | validation off | on | on to off, by pair | bar |"
    yield "| --- | --- | --- | --- | --- |"
    for index, title, ratios, bar in (
        (0, "records/s", rates, ">= 0.9x"),
        (1, "node's CPU of a record, us", costs, ""),
    ):
        off, on = (median(one[index] for one in found[kind]) for kind in ("off", "on"))
        spread = f"{median(ratios):.3f}x ({min(ratios):.3f} to {max(ratios):.3f})"
        yield f"| produce 1 KB in 16 KB batches, {title} | {off:,.3g} | {on:,.3g} | {spread} | {bar} |"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.registry", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="COUNT", help="each runs both registries (3)")
    parser.add_argument("--pairs", type=int, default=5, metavar="COUNT", help="of produce runs (5)")
    parser.add_argument("--records", type=int, default=1_000_000, help="of each produce run (1,000,000)")
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the full number of requests")
    parser.add_argument("--only", default="ottla,apicurio,produce", help="some of ottla, apicurio, produce")
    parser.add_argument("--output", type=Path, help="write the tables there, and the figures beside it as .json")
    options = parser.parse_args(arguments)
    wanted = options.only.split(",")
    lines = [f"Load average when it began: {load_average():.1f}.", ""]
    rounds: dict[str, list[Figures]] = {}
    for _ in range(options.rounds if {"ottla", "apicurio"} & {*wanted} else 0):
        for name, title, server in (("apicurio", APICURIO, apicurio), ("ottla", OTTLA, ottla)):
            if name in wanted:
                with server() as launch:
                    rounds.setdefault(title, []).append(measure(launch, options.scale))
                    print(title, json.dumps(rounds[title][-1]), file=sys.stderr)
    if rounds:
        lines += [*table(rounds), ""]
    if "produce" in wanted:
        lines += produce_pairs(options.pairs, options.records)
    text = "\n".join([*lines, "", f"Load average when it ended: {load_average():.1f}.", ""])
    print(text)
    if options.output is not None:
        options.output.write_text(text)
        options.output.with_suffix(".json").write_text(json.dumps(rounds, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
