"""Committed offsets per second: OffsetCommit over several connections, each with a group of its own.

Run as a program (`python -m bench.commits`), so that its CPU time is its own; it prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from bench.committed import commit_error, commit_frame
from bench.pace import Busy, Refused, connect, flat_out, paced, summary

PATIENCE_SECONDS = 60


def busy(port: int, group_id: str, topic: str, partitions: int) -> Busy:
    """A connection whose group's coordinator has loaded."""
    frame = commit_frame(group_id, topic, range(partitions), 1)
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        connection = connect(port)
        try:
            return Busy(connection, frame, commit_error, is_constant=True)
        except Refused:
            connection.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.commits", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=1, help="of one commit")
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--offsets-per-second", type=int, default=0, help="0: as fast as answers come")
    options = parser.parse_args()

    connections = [
        busy(options.port, f"commits-{number}", options.topic, options.partitions)
        for number in range(options.connections)
    ]
    requests_per_second = options.offsets_per_second // options.partitions
    used = time.process_time()
    started = time.perf_counter()
    if requests_per_second:
        latencies = paced(connections, options.seconds, requests_per_second)
    else:
        latencies = flat_out(connections, options.seconds)
    took = time.perf_counter() - started
    result = summary(latencies, took)
    result["offsets_per_second"] = result["requests_per_second"] * options.partitions
    result["generator_cores"] = (time.process_time() - used) / took
    json.dump(result, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
