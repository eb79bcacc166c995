"""`python -m bench`: Ottla beside Apache Kafka 4.3.1, one after the other, in turns, driven by Kafka's own tools."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.interop.servers import kafka_anchor

from bench import client, report
from bench.client import QUICK_CLIENTS, ClientBench, ClientScale
from bench.cluster import ClusterBench
from bench.cluster_faults import QUICK_FAULTS, FaultBench, FaultScale
from bench.groups import QUICK_GROUPS, GroupBench, GroupScale
from bench.observation import load_average
from bench.security import QUICK_SECURITY, SecurityBench, SecurityScale
from bench.session import QUICK, Bench, Figures, Scale
from bench.shares import QUICK_SHARES, ShareBench, ShareScale
from bench.transactions import QUICK_TRANSACTIONS, TransactionBench, TransactionScale

SUITES = {
    "latest": frozenset(range(1, 11)),
    "groups": frozenset(range(11, 16)),
    "transactions": frozenset(range(16, 19)),
    "client": frozenset(range(19, 26)),
    "cluster": frozenset(range(26, 29)),
    "cluster_faults": frozenset(range(29, 34)),
    "security": frozenset(range(34, 38)),
    "shares": frozenset(range(38, 41)),
}
"""Rows that belong together, by the name of their results: a single broker's, those of consumer groups, and so on."""
ALL_ROWS = frozenset().union(*SUITES.values())
SERVERS = ("ottla", "kafka")


def parse_rows(text: str) -> frozenset[int]:
    """`1-4,9` is rows 1, 2, 3, 4 and 9; `groups` is all rows of that suite."""
    rows: set[int] = set()
    last_row = max(ALL_ROWS)
    for part in text.split(","):
        if part in SUITES:
            rows |= SUITES[part]
            continue
        first, dash, last = part.partition("-")
        try:
            rows.update(range(int(first), int(last if dash else first) + 1))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r} is no row: rows are 1 to {last_row}, as in 1-4,9") from None
    if not rows <= ALL_ROWS:
        raise argparse.ArgumentTypeError(f"rows are 1 to {last_row}, as in 1-4,9")
    return frozenset(rows)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog="The table is printed; --results DIR also writes it and every figure there.",
    )
    made.add_argument("--rows", type=parse_rows, default=ALL_ROWS, metavar="ROWS", help="as in 1-4,9 or groups (all)")
    made.add_argument("--rounds", type=int, default=3, metavar="COUNT", help="each round runs both servers (3)")
    made.add_argument("--only", choices=SERVERS, help="one server alone: no ratios")
    made.add_argument("--quick", action="store_true", help="20,000 records and small crowds: is everything in order?")
    made.add_argument("--data", type=Path, metavar="DIR", help="where the servers' data goes (a temporary folder)")
    made.add_argument("--results", type=Path, metavar="DIR", help="where results are written, such as bench/results")
    made.add_argument("--note", default="", metavar="TEXT", help="what a reader of the results should know")
    return made


def main() -> int:
    options = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # no server may outlive its benchmark
    if kafka_anchor() is None:
        print("bench: needs java and the Apache Kafka anchor script (KAFKA_ANCHOR_SCRIPT)", file=sys.stderr)
        return 2
    # The anchor script's own heaps: 1 GB for the server, 256 MB for each tool.
    os.environ.pop("KAFKA_HEAP_OPTS", None)
    # Python as it is installed, with its cache of compiled modules; without it a start compiles 130 files.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    servers = (options.only,) if options.only else SERVERS
    scale = QUICK if options.quick else Scale()
    group_scale = QUICK_GROUPS if options.quick else GroupScale()
    rounds: report.Rounds = {server: [] for server in servers}
    load: list[float] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-", dir=options.data) as folder:
        for number in range(options.rounds):
            for server in servers if number % 2 == 0 else tuple(reversed(servers)):
                load.append(load_average())

                def progress(text: str, prefix: str = f"round {number + 1} {server}") -> None:
                    print(f"{time.monotonic() - started:6.0f} s  {prefix}: {text}", file=sys.stderr, flush=True)

                progress(f"load average {load[-1]:.2f}")
                data = Path(folder) / server
                figures: Figures = {}
                if options.rows & SUITES["latest"]:
                    figures |= Bench(server, data, scale, options.rows, progress).run()
                if options.rows & SUITES["groups"]:
                    figures |= GroupBench(server, data, scale, options.rows, progress, sizes=group_scale).run()
                if options.rows & SUITES["transactions"]:
                    sizes = QUICK_TRANSACTIONS if options.quick else TransactionScale()
                    figures |= TransactionBench(server, data, scale, options.rows, progress, sizes=sizes).run()
                if options.rows & SUITES["cluster"]:
                    figures |= ClusterBench(server, data, scale, options.rows, progress).run()
                if options.rows & SUITES["cluster_faults"]:
                    faults = QUICK_FAULTS if options.quick else FaultScale()
                    figures |= FaultBench(server, data, scale, options.rows, progress, sizes=faults).run()
                if options.rows & SUITES["security"]:
                    logins = QUICK_SECURITY if options.quick else SecurityScale()
                    figures |= SecurityBench(server, data, scale, options.rows, progress, sizes=logins).run()
                if options.rows & SUITES["shares"]:
                    shares = QUICK_SHARES if options.quick else ShareScale()
                    figures |= ShareBench(server, data, scale, options.rows, progress, sizes=shares).run()
                if options.rows & SUITES["client"]:
                    figures |= ClientBench(
                        server,
                        data,
                        scale,
                        options.rows,
                        progress,
                        sizes=QUICK_CLIENTS if options.quick else ClientScale(),
                        round_number=number,
                    ).run()
                rounds[server].append(figures)
    facts = report.machine()
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    description = " ".join(filter(None, (report.describe(facts, rounds, load, date), options.note)))
    print(description)
    for title, table in tables(rounds, options.rows):
        print(f"\n{title}\n\n{report.plain(table)}")
    if options.quick:
        print("\n--quick shows that everything runs; its figures are those of cold servers and mean nothing.")
    if options.results is not None:
        command = " ".join(["python -m bench", *sys.argv[1:]])
        for name, suite in SUITES.items():
            rows = options.rows & suite
            if not rows:
                continue
            result: dict[str, Any] = {
                "date": date,
                "command": command,
                "machine": facts,
                "load_average": load,
                "rows": sorted(rows),
                "rounds": rounds,
            }
            text = "".join(f"\n## {title}\n\n{report.markdown(table)}\n" for title, table in tables(rounds, rows))
            report.write(options.results, name, result, f"`{command}`, {description}\n{text}")
    return 0


def tables(rounds: report.Rounds, rows: frozenset[int]) -> Iterator[tuple[str, list[list[str]]]]:
    """The servers side by side, then the clients on each of them."""
    if rows - SUITES["client"]:
        yield "Ottla beside Apache Kafka", report.table(rounds, rows)
    for title, table in client.tables(rounds, rows):
        yield f"Python clients on {title}", table


if __name__ == "__main__":
    sys.exit(main())
