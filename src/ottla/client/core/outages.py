"""When a client logs that brokers do not answer: at the first failure, every 30 seconds, and when it is over.

A cluster of which no broker answers is one outage, and is logged at once. A single broker is logged when it has not
answered for a second and others do: a broker that restarts, or moves to another address, is not worth a line. While no
broker answers at all, single brokers are not named.

    nothing --cluster_failed--> out (said) --30 s and cluster_failed--> said again --cluster_answered--> over (said)
    nothing --broker_failed--> suspected --1 s--> said --30 s--> said again --broker_answered--> over (said if it was)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

REPEAT_MS = 30_000
GRACE_MS = 1_000


class Notice(NamedTuple):
    """A line for the log."""

    text: str
    is_over: bool = False


@dataclass(slots=True)
class _Outage:
    began_at: int
    said_at: int | None = None


class Outages:
    """The outages that one client sees. `now` and `began_at` are monotonic milliseconds."""

    def __init__(self) -> None:
        self._cluster: _Outage | None = None
        self._brokers: dict[str, _Outage] = {}

    @property
    def is_cluster_out(self) -> bool:
        """Whether the last that is known is that no broker answers."""
        return self._cluster is not None

    def cluster_failed(self, reason: str, now: int) -> Notice | None:
        """All brokers and bootstrap servers were asked, and none answered."""
        outage = self._cluster
        if outage is None:
            self._cluster = _Outage(now, now)
            return Notice(f"{reason}; the client keeps trying")
        if not _is_due(outage, now):
            return None
        outage.said_at = now
        return Notice(f"{reason}; no broker has answered for {_seconds(outage, now)}, the client keeps trying")

    def cluster_answered(self, now: int) -> Notice | None:
        """A broker answered a request for metadata."""
        outage, self._cluster = self._cluster, None
        return None if outage is None else Notice(f"a broker answers again after {_seconds(outage, now)}", is_over=True)

    def broker_failed(self, name: str, reason: str, began_at: int, now: int) -> Notice | None:
        """No connection to this broker could be made; the attempt began at `began_at`."""
        outage = self._brokers.setdefault(name, _Outage(began_at))
        if self._cluster is not None or now - outage.began_at < GRACE_MS or not _is_due(outage, now):
            return None
        is_first, outage.said_at = outage.said_at is None, now
        if is_first:
            return Notice(f"{name} does not answer: {reason}; the client keeps trying")
        return Notice(f"{name} has not answered for {_seconds(outage, now)}: {reason}; the client keeps trying")

    def broker_answered(self, name: str, now: int) -> Notice | None:
        """A connection to this broker is up."""
        outage = self._brokers.pop(name, None)
        if outage is None or outage.said_at is None:
            return None
        return Notice(f"{name} answers again after {_seconds(outage, now)}", is_over=True)

    def broker_left(self, name: str) -> None:
        """The metadata does not name this broker any more."""
        self._brokers.pop(name, None)


def _is_due(outage: _Outage, now: int) -> bool:
    return outage.said_at is None or now - outage.said_at >= REPEAT_MS


def _seconds(outage: _Outage, now: int) -> str:
    return f"{(now - outage.began_at) / 1000:.0f} s"
