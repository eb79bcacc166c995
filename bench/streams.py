"""Time to a stable assignment of a Kafka Streams application with three instances (`group.protocol=streams`), on Ottla
and on Apache Kafka 4.3.1, by turns.

    python -m bench.streams [ROUNDS]

The JVMs are up and wait; the clock runs from the moment when they may start to the moment when each instance runs tasks
and together they run all eight. Both servers have their default settings of streams groups. Also the processor time
that the server took for it.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.interop.servers import Kafka, Ottla, Server
from tests.interop.streams_app import Instance, described, has_all_tasks, wait_until

from ottla.client.blocking import Admin

PARTITIONS = 4
INSTANCES = 3
SETTINGS = ("offsets.topic.num.partitions=4", "transaction.state.log.num.partitions=4")


def measure(server: Server, folder: Path) -> tuple[float, float]:
    """Seconds to the stable assignment, and processor seconds of the server."""
    server.start()
    instances: list[Instance] = []
    try:
        with Admin(bootstrap_servers=server.bootstrap) as admin:
            for name in ("lines", "counts"):
                admin.create_topic(name, PARTITIONS)
        go = folder / "go"
        instances += [Instance(server.bootstrap, folder, f"app-{number}", go_file=go) for number in range(INSTANCES)]
        wait_until(lambda: all(one.is_ready for one in instances), 300, lambda: described(*instances))
        processor = server.cpu_seconds()
        go.touch()
        begin = time.monotonic()
        wait_until(lambda: has_all_tasks(*instances), 300, lambda: described(*instances))
        return time.monotonic() - begin, server.cpu_seconds() - processor
    finally:
        for one in instances:
            one.kill()
        server.stop()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    figures: dict[str, list[tuple[float, float]]] = {"ottla": [], "kafka": []}
    for _ in range(rounds):
        for name, make in (("ottla", Ottla), ("kafka", Kafka)):
            with tempfile.TemporaryDirectory() as folder:
                server = make(Path(folder) / "data", SETTINGS)
                seconds, processor = measure(server, Path(folder))
                figures[name].append((seconds, processor))
                print(f"{name}: stable after {seconds:.1f} s, server took {processor:.2f} s of processor", flush=True)
    for name, of_server in figures.items():
        seconds = statistics.median(one for one, _ in of_server)
        processor = statistics.median(one for _, one in of_server)
        print(f"{name}: median {seconds:.1f} s, {processor:.2f} s of processor, {rounds} rounds")


if __name__ == "__main__":
    main()
