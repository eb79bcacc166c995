"""How the flows of a pipeline do, from what Spark reports of each batch. Pure: reports in, numbers out."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from ottla.converters.json_values import OTHERS, UNEXPECTED
from ottla.spark.offsets import CheckpointError, SourceOffset
from ottla.spark.pipelines.definition import Source
from ottla.spark.pipelines.expectations import KEPT, LETTERS, ROWS, rule_counter, rule_names
from ottla.spark.pipelines.targets import OUT

MAX_BATCHES = 60
"""Batches of a flow that are kept for what is drawn and logged."""
MAX_ARRIVALS = 1000
MAX_FIELDS = 50
"""Unexpected fields of a source that are counted by name."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that is done."""

    batch_id: int
    started_at: float
    """Seconds since 1970."""
    duration_ms: int
    rows_in: int
    rows_out: int
    steps_ms: Mapping[str, int]
    """Spark's own steps: latestOffset, queryPlanning, addBatch, walCommit, commitOffsets."""

    @classmethod
    def of(cls, report: Mapping[str, Any], rows_in: int, rows_out: int, duration_ms: int) -> Batch:
        steps = {name: int(ms) for name, ms in (report.get("durationMs") or {}).items() if name != "triggerExecution"}
        return cls(int(report["batchId"]), _seconds(report["timestamp"]), duration_ms, rows_in, rows_out, steps)

    @property
    def place(self) -> tuple[int, float]:
        return self.batch_id, self.started_at


@dataclass(slots=True)
class Arrivals:
    """When records came, seen from the ends of topics: the age of the oldest record that has not been read."""

    ends: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=MAX_ARRIVALS))

    def age_s(self, positions: tuple[int, int] | None, at: float) -> float | None:
        if positions is None:
            return None
        read, end = positions
        if not self.ends or end > self.ends[-1][1]:
            self.ends.append((at, end))
        while self.ends and self.ends[0][1] <= read and len(self.ends) > 1:
            self.ends.popleft()
        return max(at - self.ends[0][0], 0.0) if read < end else 0.0


def _seconds(timestamp: object) -> float:
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except ValueError:
        return 0.0


@dataclass(slots=True)
class FlowProgress:
    """One flow since the pipeline was started."""

    flow: str
    target: str
    state: str = "starting"
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    in_per_second: float = 0.0
    out_per_second: float = 0.0
    lag: int | None = None
    """Records of its topics that it has not read yet; None if it reads no topic, or the number is not known yet."""
    batch_ms: int | None = None
    late: int = 0
    """Rows that came after the watermark and were left out."""
    cause: str | None = None
    """The cause of its present trouble, or of its last one."""
    failures: int = 0
    """Failures since the last batch that succeeded."""
    retry_in_s: int | None = None
    set_aside: int = 0
    """Poison records that it has left out, each a letter."""
    lag_s: float | None = None
    """The age of the oldest record that the flow has not read. Records that were there at the start count from then."""
    state_rows: int = 0
    state_bytes: int = 0
    """The memory that its aggregations, joins and deduplications use."""
    starts: int = 0
    """How often it was begun in this run."""
    busy_ms: int = 0
    """All its batches together."""
    succeeded_at: float | None = None
    """When its last batch ended, in seconds since 1970."""
    waits_for: str | None = None
    waited_s: int | None = None
    """What it waits for, and for how long; None if it does not wait."""
    reports: int = 0
    """Spark's reports, including those of batches without rows."""
    _last: tuple[int, str] = field(default=(-1, ""), repr=False)
    _arrivals: Arrivals = field(default_factory=Arrivals, repr=False)
    _batches: deque[Batch] = field(default_factory=lambda: deque(maxlen=MAX_BATCHES), repr=False)

    def note(self, report: Mapping[str, Any]) -> bool:
        """Add what Spark reports of a batch; False if it has been added before."""
        batch = (int(report["batchId"]), str(report["timestamp"]))
        if batch <= self._last:
            return False
        self._last = batch
        self.reports += 1
        self.wait(None, None)
        rows_in = int(report.get("numInputRows") or 0)
        rows_out = int(((report.get("observedMetrics") or {}).get(OUT) or {}).get(OUT) or 0)
        self.batch_ms = int((report.get("durationMs") or {}).get("triggerExecution") or 0)
        seconds = max(self.batch_ms / 1000, 0.001)
        self.in_per_second, self.out_per_second = rows_in / seconds, rows_out / seconds
        self.batches += 1 if rows_in or rows_out else 0
        self.rows_in += rows_in
        self.rows_out += rows_out
        self.lag = lag_of(report)
        operators = report.get("stateOperators") or ()
        self.late += sum(int(one.get("numRowsDroppedByWatermark") or 0) for one in operators)
        self.state_rows = sum(int(one.get("numRowsTotal") or 0) for one in operators)
        self.state_bytes = sum(int(one.get("memoryUsedBytes") or 0) for one in operators)
        done = Batch.of(report, rows_in, rows_out, self.batch_ms)
        self.busy_ms += self.batch_ms
        self.succeeded_at = done.started_at + done.duration_ms / 1000
        self.lag_s = self._arrivals.age_s(positions_of(report), done.started_at)
        if rows_in or rows_out:
            self._batches.append(done)
        return True

    def batches_after(self, last: tuple[int, float] | None) -> list[Batch]:
        """The newest batches with rows, at most MAX_BATCHES, that came after another one."""
        return [batch for batch in self._batches if last is None or batch.place > last]

    @property
    def has_reported(self) -> bool:
        return self._last[0] >= 0

    def wait(self, what: str | None, seconds: float | None) -> None:
        self.waits_for, self.waited_s = what, None if what is None or seconds is None else int(seconds)

    def to_json(self) -> dict[str, Any]:
        shown = (one.name for one in fields(self) if not one.name.startswith("_"))
        return {name: getattr(self, name) for name in shown}


@dataclass(slots=True)
class SourceCounts:
    """The results of the rules on a source's rows."""

    source: str
    rules: list[str]
    rows: int = 0
    kept: int = 0
    letters: int = 0
    failed: list[int] = field(default_factory=list)
    unexpected: Counter[str] = field(default_factory=Counter)
    """Fields that came though the schema does not have them: how often, the first MAX_FIELDS of them by name."""

    @classmethod
    def of(cls, source: Source) -> SourceCounts:
        names = rule_names(source)
        return cls(source.name, names, failed=[0] * len(names))

    def note(self, report: Mapping[str, Any]) -> None:
        seen = (report.get("observedMetrics") or {}).get(f"rules_{self.source}")
        if not seen:
            return
        self.rows += int(seen[ROWS] or 0)
        self.kept += int(seen[KEPT] or 0)
        self.letters += int(seen[LETTERS] or 0)
        for index in range(len(self.rules)):
            self.failed[index] += int(seen[rule_counter(index)] or 0)
        for text in seen.get(UNEXPECTED) or ():
            for name, count in json.loads(text).items():
                is_named = name in self.unexpected or len(self.unexpected) < MAX_FIELDS
                self.unexpected[name if is_named else OTHERS] += int(count)

    def to_json(self) -> dict[str, Any]:
        failed = {name: count for name, count in zip(self.rules, self.failed, strict=True) if count}
        return {
            "source": self.source,
            "rows": self.rows,
            "kept": self.kept,
            "dropped": self.rows - self.kept - self.letters,
            "letters": self.letters,
            "failed": failed,
            "unexpected": dict(self.unexpected.most_common()),
        }


def lag_of(report: Mapping[str, Any]) -> int | None:
    """How many records the topics of a query have that it has not read; None where there are no topics."""
    found = positions_of(report)
    return None if found is None else max(found[1] - found[0], 0)


def positions_of(report: Mapping[str, Any]) -> tuple[int, int] | None:
    """Offsets of all partitions of a query's topics together: how far it has read, and where they end."""
    total: tuple[int, int] | None = None
    for source in report.get("sources") or ():
        try:
            end, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
        except (ValueError, CheckpointError):
            continue
        if end is None or latest is None:
            continue
        ends = sum(latest.positions.values())
        behind = sum(max(offset - end.positions.get(place, 0), 0) for place, offset in latest.positions.items())
        read, known = total or (0, 0)
        total = (read + ends - behind, known + ends)
    return total


def _offset(given: object) -> SourceOffset | None:
    document = json.loads(given) if isinstance(given, str) else given
    if not isinstance(document, dict) or "logOffset" in document:
        return None
    return SourceOffset.from_json(document)
