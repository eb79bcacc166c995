"""CPU seconds and peak memory of Spark's JVM and of its Python workers, which come and go."""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.servers import CLOCK_TICKS

JVM, WORKERS = "JVM", "workers"
PERIOD_SECONDS = 0.1


@dataclass
class Usage:
    """What the processes used in a stretch."""

    cpu_seconds: Counter[str] = field(default_factory=Counter)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    """Of all processes of a kind together, pages that they share counted once (PSS)."""


class Processes:
    """Looks at the processes below this one ten times a second. A worker may end at any time: what it was last seen to
    have used counts, so that up to a tenth of a second of each is missing."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], tuple[str, float]] = {}
        self._peak: dict[str, int] = {}
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()

    def start(self) -> Counter[str]:
        """Begin a stretch: peaks are forgotten."""
        self._look()
        with self._lock:
            self._peak = {}
            return self._totals()

    def usage(self, before: Counter[str]) -> Usage:
        """Since `start` gave `before`."""
        self._look()
        with self._lock:
            now = self._totals()
            return Usage(Counter({kind: now[kind] - before[kind] for kind in now}), dict(self._peak))

    def _totals(self) -> Counter[str]:
        totals: Counter[str] = Counter()
        for kind, seconds in self._seen.values():
            totals[kind] += seconds  # type: ignore[assignment]  # a Counter also adds fractions
        return totals

    def _watch(self) -> None:
        while not self._is_over.wait(PERIOD_SECONDS):
            self._look()

    def _look(self) -> None:
        parents: dict[int, int] = {}
        stats: dict[int, list[str]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit() and (text := _read(f"/proc/{name}/stat")):
                stats[int(name)] = text.rpartition(")")[2].split()
                parents[int(name)] = int(stats[int(name)][1])
        memory: Counter[str] = Counter()
        with self._lock:
            for pid in _below(os.getpid(), parents):
                fields = stats[pid]
                kind = _kind(_read(f"/proc/{pid}/cmdline").split("\0"))
                if kind is None:
                    continue
                self._seen[pid, fields[19]] = kind, (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
                memory[kind] += _pss_bytes(pid)
            for kind, size in memory.items():
                self._peak[kind] = max(size, self._peak.get(kind, 0))


def _below(root: int, parents: dict[int, int]) -> list[int]:
    found = [root]
    for one in found:
        found += [pid for pid, parent in parents.items() if parent == one]
    return found[1:]


def _kind(command: list[str]) -> str | None:
    if command[0].endswith("java"):
        return JVM
    return WORKERS if any(word.startswith(("pyspark.", "ottla.spark.daemon")) for word in command) else None


def _pss_bytes(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
