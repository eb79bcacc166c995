"""Measurements of the last 24 hours in memory: the last hour as it was sampled, the rest in steps of two minutes.

Pure: a bounded set of series, each two rings of 32-bit floats. The series that was silent longest makes room.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from math import isnan, nan

FINE_MS, FINE_COUNT = 15_000, 240
COARSE_MS, COARSE_COUNT = 120_000, 720
MAX_SERIES = 4_000


class Ring:
    """Values by time, one for each step."""

    __slots__ = ("_count", "_step_ms", "_values", "last")

    def __init__(self, step_ms: int, count: int) -> None:
        self._step_ms = step_ms
        self._count = count
        self._values = array("f", [nan]) * count
        self.last = -1
        """The last step that has a value."""

    def put(self, at: int, value: float) -> None:
        step = at // self._step_ms
        if self.last >= 0 and step <= self.last - self._count:
            return
        for passed in range(max(self.last + 1, step - self._count + 1), step):
            self._values[passed % self._count] = nan
        self._values[step % self._count] = value
        self.last = max(step, self.last)

    def at(self, moment: int) -> float | None:
        step = moment // self._step_ms
        if not self.last - self._count < step <= self.last or step < 0:
            return None
        found = self._values[step % self._count]
        return None if isnan(found) else found


class Series:
    __slots__ = ("coarse", "fine")

    def __init__(self) -> None:
        self.fine = Ring(FINE_MS, FINE_COUNT)
        self.coarse = Ring(COARSE_MS, COARSE_COUNT)

    def put(self, at: int, value: float) -> None:
        self.fine.put(at, value)
        self.coarse.put(at, value)


class History:
    def __init__(self, max_series: int = MAX_SERIES) -> None:
        self._series: dict[str, Series] = {}
        self._max_series = max_series

    def put(self, at: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            found = self._series.get(name)
            if found is None:
                if not value:
                    continue  # a series without a value needs no memory
                if len(self._series) >= self._max_series:
                    del self._series[min(self._series, key=lambda one: self._series[one].fine.last)]
                found = self._series[name] = Series()
            found.put(at, value)

    def names(self) -> list[str]:
        return sorted(self._series)

    def read(
        self, names: Iterable[str], first_at: int, last_at: int, points: int
    ) -> tuple[list[int], dict[str, list[float | None]]]:
        """Times and, for each name, values: of the fine ring if it reaches so far back, else of the coarse one."""
        is_fine = last_at - first_at <= FINE_MS * FINE_COUNT
        step_ms = FINE_MS if is_fine else COARSE_MS
        while (last_at - first_at) // step_ms > points:
            step_ms *= 2
        times = list(range(first_at // step_ms * step_ms, last_at + 1, step_ms))
        found: dict[str, list[float | None]] = {}
        for name in names:
            one = self._series.get(name)
            ring = None if one is None else one.fine if is_fine else one.coarse
            found[name] = [None if ring is None else ring.at(moment) for moment in times]
        return times, found
