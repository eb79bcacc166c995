"""`python -m ottla.sim --seed 7` replays one world exactly; `--seeds 200` tries fresh ones.

A failed seed prints its verdict, the end of its trace (one line per event: virtual milliseconds, who, what) and the
command that replays it. With `--check-determinism N` every N-th seed is run again in another process with another
PYTHONHASHSEED; both must write the same trace.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import traceback
import warnings

from ottla.sim.replica_world import WORLDS
from ottla.sim.world import NODE, Verdict, run_seed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.sim", description="Simulate whole nodes, seed by seed.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, help="run this one world and show what happened")
    which.add_argument("--seeds", type=int, default=20, help="how many worlds to try (20)")
    parser.add_argument("--first", type=int, help="the first of these seeds; drawn from the time when not given")
    parser.add_argument("--seconds", type=float, default=30.0, help="virtual seconds of disturbance in each world (30)")
    parser.add_argument(
        "--only",
        metavar="NAME",
        help=f"one kind of world: {NODE}, {', '.join(WORLDS)}; or one workload of a node, such as ring or groups",
    )
    parser.add_argument("--trace", type=int, default=60, metavar="LINES", help="lines of a failed seed's trace (60)")
    parser.add_argument(
        "--check-determinism",
        type=int,
        default=50,
        metavar="N",
        help="run every N-th seed again elsewhere (50; 0: none)",
    )
    parser.add_argument("--fingerprint", action="store_true", help="print nothing but the verdict and the fingerprint")
    options = parser.parse_args(arguments)
    # A killed process leaves coroutines behind that it had not begun.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    if options.seed is not None:
        verdict = run_seed(options.seed, duration_s=options.seconds, only=options.only)
        if options.fingerprint:
            print("passed" if verdict.has_passed else "failed", verdict.fingerprint)
            return 0
        report(verdict, options.trace, options.seconds, options.only)
        return 0 if verdict.has_passed else 1
    first = options.first if options.first is not None else int(time.time()) % 1_000_000 * 1_000
    failed: list[int] = []
    started = time.monotonic()
    for index in range(options.seeds):
        verdict = run_seed(first + index, duration_s=options.seconds, only=options.only)
        if not verdict.has_passed:
            failed.append(verdict.seed)
            report(verdict, options.trace, options.seconds, options.only)
        elif options.check_determinism and index % options.check_determinism == 0:
            other = fingerprint_elsewhere(verdict.seed, options.seconds, options.only)
            if other != f"passed {verdict.fingerprint}":
                failed.append(verdict.seed)
                print(f"seed {verdict.seed}: not deterministic: passed {verdict.fingerprint} here, {other} elsewhere")
                print("(or the code was changed meanwhile: a fresh process runs what is on disk now)")
    took = time.monotonic() - started
    print(f"{options.seeds - len(failed)} of {options.seeds} seeds from {first} on passed in {took:.0f} s")
    if failed:
        print("failed:", *failed)
    return 1 if failed else 0


def report(verdict: Verdict, line_count: int, seconds: float, only: str | None) -> None:
    if not verdict.has_passed:
        for line in verdict.lines[-line_count:]:
            print(line)
        if verdict.error is not None:
            traceback.print_exception(verdict.error, file=sys.stdout)
    print(verdict.summary())
    if not verdict.has_passed:
        print(" ".join(["replay: python -m ottla.sim", *_arguments(verdict.seed, seconds, only)]), flush=True)


def _arguments(seed: int, seconds: float, only: str | None) -> list[str]:
    arguments = ["--seed", str(seed), "--seconds", f"{seconds:g}"]
    return arguments if only is None else [*arguments, "--only", only]


def fingerprint_elsewhere(seed: int, seconds: float, only: str | None) -> str:
    """The verdict and fingerprint of a seed in a fresh process in which strings hash differently."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed % 4_000_000_000 + 1)}
    command = [sys.executable, "-m", "ottla.sim", *_arguments(seed, seconds, only), "--fingerprint"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
