"""`python -m bench.profile` (make profile): where a node spends its time while clients send it small produce requests.

The node runs under cProfile and as plain Python, since a profiler does not see into compiled modules: compare
functions, not seconds. `--compiled` profiles the compiled node: a compiled function is one line with all that it calls.
`--output FILE` keeps the profile for other viewers (snakeviz, pstats).
"""

from __future__ import annotations

import argparse
import json
import pstats
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.interop.servers import API_VERSIONS_V0, ask, free_port

from bench.pace import connect
from ottla.client import blocking

PARTITIONS = 6
START_SECONDS = 30
PROFILED = """
import cProfile, sys
if sys.argv.pop(1) == "plain":
    import tests.plain_python
made = sys.argv.pop(1)
from ottla.__main__ import main
profile = cProfile.Profile()
try:
    profile.runcall(main)
finally:
    profile.dump_stats(made)
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8, help="how long clients send (8)")
    parser.add_argument("--busy", type=int, default=50, help="connections with one request in flight each (50)")
    parser.add_argument("--lines", type=int, default=30, help="functions shown (30)")
    parser.add_argument("--compiled", action="store_true", help="profile the compiled modules")
    parser.add_argument("--output", type=Path, metavar="FILE", help="keep the profile there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-profile-") as folder:
        made = options.output or Path(folder, "profile")
        port = free_port()
        how = ["compiled" if options.compiled else "plain", str(made)]
        start = ["start", "--port", str(port), "--data", f"{folder}/data"]
        node = subprocess.Popen([sys.executable, "-c", PROFILED, *how, *start], stdout=subprocess.DEVNULL)
        try:
            wait_for(node, port)
            with blocking.Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
                admin.create_topic("crowd", partition_count=PARTITIONS)
            counts = ["--busy", str(options.busy), "--idle", "0", "--seconds", str(options.seconds)]
            target = ["--port", str(port), "--topic", "crowd", "--partitions", str(PARTITIONS)]
            crowd = subprocess.run(
                [sys.executable, "-m", "bench.crowd", *target, *counts], check=True, capture_output=True, text=True
            )
        finally:
            node.send_signal(signal.SIGINT)
            node.wait(60)
        print(json.dumps(json.loads(crowd.stdout), indent=2))
        pstats.Stats(str(made)).sort_stats("tottime").print_stats(options.lines)
    return 0


def wait_for(node: subprocess.Popen[bytes], port: int) -> None:
    """Return when the node answers."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and node.poll() is None:
        try:
            with connect(port) as connection:
                ask(connection, API_VERSIONS_V0)
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the node did not start: its messages are above")


if __name__ == "__main__":
    sys.exit(main())
