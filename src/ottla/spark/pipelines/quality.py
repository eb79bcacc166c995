"""The quality of a pipeline's data: what was counted and measured in this run, and in those before it.

Pure: reports of Spark and the time come in, numbers and broken expectations go out. `history` is what is kept from run
to run: the last MAX_RUNS runs, and the rows of each hour of the last MAX_HOURS, to compare a day with the
one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.spark.pipelines.measures import FAIL, FRESHNESS, NOT_NULL, ROW_COUNT, UNIQUE, YESTERDAY, Measure

MAX_RUNS = 60
MAX_HOURS = 8 * 24
ROWS, KEPT, LETTERS = "rows", "kept", "letters"
OBSERVED = "quality_"
_HOUR = "%Y-%m-%dT%H"


def rule_counter(index: int) -> str:
    return f"rule_{index}"


def measure_counter(index: int) -> str:
    return f"measure_{index}"


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of rules: the rows of a source, a view or a flow."""

    kind: str
    name: str
    rules: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = ()
    is_counted_apart: bool = False
    """Its rows are counted by the query of the letters (`note_counts`); only its measures are observed."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def observed(self) -> str:
        """The name of Spark's observation of a subject."""
        return f"{OBSERVED}{self.kind}_{self.name}"


@dataclass(frozen=True, slots=True)
class Broken:
    """An expectation that was not met."""

    subject: Subject
    measure: Measure
    value: float

    @property
    def text(self) -> str:
        return (
            f"{self.subject.title}: {self.measure.name}: {self.measure.shown(self.value)}, "
            f"expected {self.measure.expected}"
        )


@dataclass(slots=True)
class SubjectQuality:
    """The counts and measures of a subject in this run."""

    subject: Subject
    rows: int = 0
    kept: int = 0
    letters: int = 0
    failed: list[int] = field(default_factory=list)
    worst: dict[str, float] = field(default_factory=dict)
    """The value of each measure that is furthest from the expected one, over all batches."""
    last: dict[str, float] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)
    """How often each measure was not as expected."""
    newest_ms: dict[str, int] = field(default_factory=dict)
    owner: str | None = None
    """The flow whose reports count: several may read the same view."""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.subject.kind,
            "name": self.subject.name,
            ROWS: self.rows,
            KEPT: self.kept,
            LETTERS: self.letters,
            "failed": dict(zip(self.subject.rules, self.failed, strict=True)),
            "measures": [
                {
                    "name": one.name,
                    "kind": one.kind,
                    "action": one.action,
                    "expected": one.expected,
                    "value": self.worst.get(one.name),
                    "shown": None if one.name not in self.worst else one.shown(self.worst[one.name]),
                    "broken": self.broken.get(one.name, 0),
                }
                for one in self.subject.measures
            ],
        }


class Quality:
    """One run. Times are wall-clock milliseconds."""

    def __init__(self, pipeline: str, subjects: Iterable[Subject], history: Mapping[str, Any] | None, now: int) -> None:
        self._pipeline = pipeline
        self.subjects = [SubjectQuality(one, failed=[0] * len(one.rules)) for one in subjects]
        self._runs: list[dict[str, Any]] = list((history or {}).get("runs", ()))
        self._hours: dict[str, dict[str, int]] = dict((history or {}).get("hours", {}))
        self._started_at = now
        self._hour = _hour(now)
        for one in self.subjects:
            newest = (history or {}).get("newest", {}).get(one.subject.title, {})
            one.newest_ms = {name: int(value) for name, value in newest.items()}

    # What comes in

    def note(self, flow: str, report: Mapping[str, Any], now: int) -> list[Broken]:
        """Add Spark's report of a batch of a flow; returns the expectations that it broke."""
        broken = []
        observed = report.get("observedMetrics") or {}
        for one in self.subjects:
            seen = observed.get(one.subject.observed)
            if not seen or not int(seen[ROWS] or 0) or one.owner not in (None, flow):
                continue
            one.owner = flow
            if not one.subject.is_counted_apart:
                self._add(one, seen, now)
            broken += self._measure(one, seen)
        return broken

    def _add(self, one: SubjectQuality, seen: Mapping[str, Any], now: int) -> None:
        one.rows += int(seen[ROWS])
        one.kept += int(seen[KEPT] or 0)
        one.letters += int(seen[LETTERS] or 0)
        self._count_hour(one, int(seen[ROWS]), now)
        for index in range(len(one.failed)):
            one.failed[index] += int(seen[rule_counter(index)] or 0)

    def note_counts(self, subject: str, rows: int, kept: int, letters: int, failed: list[int], now: int) -> None:
        """The counts of a subject so far, which are taken elsewhere."""
        for one in self.subjects:
            if one.subject.title == subject:
                self._count_hour(one, rows - one.rows, now)
                one.rows, one.kept, one.letters, one.failed = rows, kept, letters, list(failed)

    def _count_hour(self, one: SubjectQuality, rows: int, now: int) -> None:
        hour = self._hours.setdefault(_hour(now), {})
        hour[one.subject.title] = hour.get(one.subject.title, 0) + rows
        for old in sorted(self._hours)[:-MAX_HOURS]:
            del self._hours[old]

    def _measure(self, one: SubjectQuality, seen: Mapping[str, Any]) -> list[Broken]:
        broken = []
        for index, measure in enumerate(one.subject.measures):
            counted = seen.get(measure_counter(index))
            if counted is None or measure.kind == ROW_COUNT:
                continue
            if measure.kind == FRESHNESS:
                one.newest_ms[measure.name] = max(int(counted), one.newest_ms.get(measure.name, 0))
                continue
            value = float(counted) if measure.kind == UNIQUE else 1 - int(counted) / int(seen[ROWS])
            broken += self._judge(one, measure, value)
        return broken

    def _judge(self, one: SubjectQuality, measure: Measure, value: float, before: float | None = None) -> list[Broken]:
        one.last[measure.name] = value
        worst = one.worst.get(measure.name, value)
        if measure.kind == ROW_COUNT:
            one.worst[measure.name] = value
        else:
            one.worst[measure.name] = min(worst, value) if measure.kind == NOT_NULL else max(worst, value)
        if measure.is_met(value, before):
            return []
        one.broken[measure.name] = one.broken.get(measure.name, 0) + 1
        return [Broken(one.subject, measure, value)]

    # What the clock brings

    def tick(self, now: int) -> list[Broken]:
        """Judge freshness, which fails while nothing comes, once a minute at most; and counts at the end of an hour."""
        broken = []
        for one in self.subjects:
            for measure in one.subject.measures:
                newest = one.newest_ms.get(measure.name)
                if measure.kind == FRESHNESS and newest is not None:
                    was_met = measure.is_met(one.last.get(measure.name, 0.0))
                    age = max(now - newest, 0) / 1000
                    if was_met or measure.is_met(age):
                        broken += self._judge(one, measure, age)
                    else:  # still stale: reported and counted once
                        one.last[measure.name] = one.worst[measure.name] = age
        if _hour(now) != self._hour:
            broken += self._judge_counts(self._hour)
            self._hour = _hour(now)
        return broken

    def end(self, now: int, *, is_once: bool) -> list[Broken]:
        """Judge the rules that depend on the end of a run."""
        broken = self.tick(now)
        return broken + (self._judge_counts(_hour(now)) if is_once else [])

    def _judge_counts(self, hour: str) -> list[Broken]:
        broken = []
        for one in self.subjects:
            for measure in one.subject.measures:
                if measure.kind == ROW_COUNT:
                    today = self._rows_until(one.subject.title, hour)
                    before = self._rows_until(one.subject.title, _a_day_before(hour))
                    broken += self._judge(
                        one, measure, float(today or 0), before if measure.against == YESTERDAY else None
                    )
        return broken

    def _rows_until(self, title: str, hour: str) -> float | None:
        """The rows of a day until the end of an hour; None: nothing is known of that day until then."""
        day = [
            hours[title] for at, hours in self._hours.items() if at[:10] == hour[:10] and at <= hour and title in hours
        ]
        return float(sum(day)) if day else None

    # What is kept and shown

    def report(self, now: int) -> dict[str, Any]:
        """This run, as it is shown and kept."""
        return {
            "pipeline": self._pipeline,
            "started_at": self._started_at,
            "ended_at": now,
            "subjects": [one.to_json() for one in self.subjects],
        }

    def history(self, now: int) -> dict[str, Any]:
        return {
            "runs": [*self._runs, self.report(now)][-MAX_RUNS:],
            "hours": self._hours,
            "newest": {one.subject.title: one.newest_ms for one in self.subjects if one.newest_ms},
        }


def fails(broken: Iterable[Broken]) -> list[Broken]:
    return [one for one in broken if one.measure.action == FAIL]


def _hour(now: int) -> str:
    return datetime.fromtimestamp(now / 1000, UTC).strftime(_HOUR)


def _a_day_before(hour: str) -> str:
    return (datetime.strptime(hour, _HOUR).replace(tzinfo=UTC) - timedelta(days=1)).strftime(_HOUR)
