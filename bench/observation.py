"""What a measured stretch cost: CPU seconds of the broker, of the client, and of everything else on the machine."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from tests.interop.servers import CLOCK_TICKS, PAGE_SIZE

FIRST_IDLE_FIELD, IOWAIT_FIELD, STEAL_FIELD = 3, 4, 7


@dataclass(frozen=True, slots=True)
class Cost:
    seconds: float
    user_seconds: float
    system_seconds: float
    client_seconds: float
    own_seconds: float
    """Of this process, where it is the client itself."""
    foreign_cores: float
    """Cores that neither broker nor client used: other programs, and what the host took away (steal)."""
    rss_bytes: int

    @property
    def cpu_seconds(self) -> float:
        return self.user_seconds + self.system_seconds


def process_times(pid: int) -> tuple[float, float]:
    """User and system seconds of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / CLOCK_TICKS, int(fields[12]) / CLOCK_TICKS


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_SIZE


def peak_rss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


class Watch:
    """Started before a stretch, read after it. The client is whatever child of this process ended in between."""

    def __init__(self, *pids: int) -> None:
        """Of the broker, or of all brokers of a cluster."""
        self._pids = pids
        self._machine = _machine_seconds()
        self._client = _children_seconds()
        self._own = time.process_time()
        self._user, self._system = self._times()
        self._started = time.perf_counter()

    def cost(self) -> Cost:
        seconds = time.perf_counter() - self._started
        user, system = self._times()
        client = _children_seconds() - self._client
        own = time.process_time() - self._own
        known = user - self._user + system - self._system + client + own
        return Cost(
            seconds=seconds,
            user_seconds=user - self._user,
            system_seconds=system - self._system,
            client_seconds=client,
            own_seconds=own,
            foreign_cores=max(0.0, (_machine_seconds() - self._machine - known) / seconds),
            rss_bytes=sum(map(rss_bytes, self._pids)),
        )

    def _times(self) -> tuple[float, float]:
        times = [process_times(pid) for pid in self._pids]
        return sum(user for user, _ in times), sum(system for _, system in times)


def _machine_seconds() -> float:
    """Seconds that all cores were busy or taken away."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    busy = sum(fields) - fields[FIRST_IDLE_FIELD] - fields[IOWAIT_FIELD]
    return busy / CLOCK_TICKS


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def load_average() -> float:
    return os.getloadavg()[0]
