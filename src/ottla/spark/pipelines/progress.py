"""How the flows of a pipeline do, from what Spark reports of each batch. Pure: reports in, numbers out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ottla.converters.json_values import OTHERS, UNEXPECTED
from ottla.spark.offsets import CheckpointError, SourceOffset
from ottla.spark.pipelines.definition import Source
from ottla.spark.pipelines.expectations import KEPT, LETTERS, ROWS, rule_counter, rule_names
from ottla.spark.pipelines.targets import OUT

MAX_FIELDS = 50
"""Unexpected fields of a source that are counted by name."""


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
    """Records of its topics that it has not read yet; None: no topic, or not known yet."""
    batch_ms: int | None = None
    late: int = 0
    """Rows that came after the watermark and were left out."""
    cause: str | None = None
    """Why it does not run, or did not when it was last tried."""
    failures: int = 0
    """Failures since the last batch that succeeded."""
    retry_in_s: int | None = None
    waits_for: str | None = None
    waited_s: int | None = None
    """What it waits for, and for how long; None: it does not."""
    reports: int = 0
    """What Spark has reported, batches without rows included."""
    _last: tuple[int, str] = field(default=(-1, ""), repr=False)

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
        self.late += sum(int(one.get("numRowsDroppedByWatermark") or 0) for one in report.get("stateOperators") or ())
        return True

    @property
    def has_reported(self) -> bool:
        return self._last[0] >= 0

    def wait(self, what: str | None, seconds: float | None) -> None:
        self.waits_for, self.waited_s = what, None if what is None or seconds is None else int(seconds)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if not name.startswith("_")}


@dataclass(slots=True)
class SourceCounts:
    """What the rules have made of a source's rows."""

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
    total = None
    for source in report.get("sources") or ():
        try:
            end, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
        except (ValueError, CheckpointError):
            continue
        if end is None or latest is None:
            continue
        behind = sum(max(offset - end.positions.get(place, 0), 0) for place, offset in latest.positions.items())
        total = (total or 0) + behind
    return total


def _offset(given: object) -> SourceOffset | None:
    document = json.loads(given) if isinstance(given, str) else given
    if not isinstance(document, dict) or "logOffset" in document:
        return None
    return SourceOffset.from_json(document)
