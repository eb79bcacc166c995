"""Figures of the performance tools, and how they show them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

MAX_SAMPLES = 500_000
MEGABYTE = 1024 * 1024


def fixed(value: float, digits: int) -> str:
    """A number as Java's %.nf writes it, including NaN and infinity."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.{digits}f}"


def ratio(amount: float, by: float) -> float:
    """A quotient as Java's doubles have it: by zero it is infinite, or no number at all."""
    if by == 0:
        return math.nan if amount == 0 else math.copysign(math.inf, amount)
    return amount / by


class Latencies:
    """How long records took: of all of them, and of those since figures were shown last."""

    def __init__(self, record_count: int, reporting_interval_ms: int, *, is_steady_state: bool = False) -> None:
        self._started_at_ms = self._window_at_ms = time.time() * 1000
        self._interval_ms = reporting_interval_ms
        self._sampling = record_count // min(record_count, MAX_SAMPLES)
        self._samples: list[int] = []
        self._is_steady_state = is_steady_state
        self.is_silent = False
        self.count = self.byte_count = self.max_ms = self.total_ms = 0
        self._window_count = self._window_bytes = self._window_max_ms = self._window_total_ms = 0

    def record(self, latency_ms: int, size: int, now_ms: float) -> None:
        """A record was written."""
        if self.count % self._sampling == 0:
            self._samples.append(latency_ms)
        self.count += 1
        self.byte_count += size
        self.total_ms += latency_ms
        self._window_count += 1
        self._window_bytes += size
        self._window_total_ms += latency_ms
        if latency_ms > self._window_max_ms:
            self._window_max_ms = latency_ms
            self.max_ms = max(self.max_ms, latency_ms)
        if now_ms - self._window_at_ms >= self._interval_ms:
            if self._is_steady_state and self.count == self._window_count:
                print("In steady state.")
            if not self.is_silent:
                self._show_window(now_ms)
            self._window_at_ms = now_ms
            self._window_count = self._window_bytes = self._window_max_ms = self._window_total_ms = 0

    def _show_window(self, now_ms: float) -> None:
        elapsed_ms = int(now_ms - self._window_at_ms)
        print(
            f"{self._window_count} records sent, "
            f"{fixed(ratio(1000.0 * self._window_count, elapsed_ms), 1)} records/sec "
            f"({fixed(ratio(1000.0 * self._window_bytes, elapsed_ms) / MEGABYTE, 2)} MB/sec), "
            f"{fixed(ratio(self._window_total_ms, self._window_count), 1)} ms avg latency, "
            f"{self._window_max_ms:.1f} ms max latency.",
            flush=True,
        )

    def show_total(self) -> None:
        elapsed_ms = int(time.time() * 1000 - self._started_at_ms)
        samples = sorted(self._samples)
        shown = []
        for share, name in ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th")):
            shown.append(f"{samples[int(share * len(samples))] if samples else 0} ms {name}")
        print(
            f"{self.count}{' steady state' if self._is_steady_state else ''} records sent, "
            f"{fixed(ratio(1000.0 * self.count, elapsed_ms), 6)} records/sec "
            f"({fixed(ratio(1000.0 * self.byte_count, elapsed_ms) / MEGABYTE, 2)} MB/sec), "
            f"{fixed(ratio(self.total_ms, self.count), 2)} ms avg latency, {self.max_ms:.2f} ms max latency, "
            f"{', '.join(shown)}.",
            flush=True,
        )


def show_metrics(group: str, client_id: str, values: Mapping[str, float]) -> None:
    """A client's figures under Kafka's names, as far as they were measured here."""
    shown = {f"{group}:{name}:{{client-id={client_id}}}": values[name] for name in sorted(values)}
    width = max(map(len, shown))
    print(f"\n{'Metric Name':<{width}}   Value")
    for name, value in shown.items():
        print(f"{name:<{width}} : {fixed(value, 3)}")
