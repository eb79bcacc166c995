"""Rules across rows: what is measured of the rows of a batch or a run, and what is expected of it. Pure, but for the
aggregates that Spark measures them by (`columns`, in `judged_rows`).

    unique: [account, id]                          no two rows of a batch have the same values
    not_null: {column: email, at_least: 99 %}      of the rows of a batch
    freshness: {column: at, within: 1 hour}        how old the newest value is, also while no rows come
    row_count: {at_least: 1, at_most: 1000000}     of a run that ends, or of the present day (UTC) so far
    row_count: {against: yesterday, within: 50 %}  the day so far against the day before until the same hour

They are known when a batch is written. So `fail` ends a flow after that batch, not before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.spark.pipelines import values
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.file_key import LIST, NUMBER, TEXT, TIME, FileKey, one_of

UNIQUE, NOT_NULL, FRESHNESS, ROW_COUNT = KINDS = ("unique", "not_null", "freshness", "row_count")
WARN, FAIL = ACTIONS = ("warn", "fail")
YESTERDAY = "yesterday"
MEASURE_KEYS: Final = {
    UNIQUE: FileKey(
        LIST,
        "columns whose values no two rows of a batch share. Spark holds 8 bytes or more for each row of the batch, so "
        "bound the batches of a large topic with `options: {maxOffsetsPerTrigger: 1000000}`",
    ),
    NOT_NULL: FileKey(
        "keys below", "the share of rows in a batch that have a value: `{column: email, at_least: 99 %}`"
    ),
    FRESHNESS: FileKey(
        "keys below",
        "the age of the newest value: `{column: at, within: 1 hour}`. Also measured while no rows arrive, and in a "
        "run without rows",
    ),
    ROW_COUNT: FileKey(
        "keys below",
        "how many rows came on the present day (UTC) so far: `{at_least: 1, against: yesterday, within: 50 %}`. "
        "Judged at the end of a run with `--once`, else at the end of each hour",
    ),
}
NOT_NULL_KEYS: Final = {
    "column": FileKey(TEXT, "the column"),
    "at_least": FileKey("share", "the least share of rows with a value", "100 %"),
}
FRESHNESS_KEYS: Final = {
    "column": FileKey(TEXT, "a column with a time"),
    "within": FileKey(TIME, "how old the newest value may be"),
}
ROW_COUNT_KEYS: Final = {
    "at_least": FileKey(NUMBER, "the least number of rows"),
    "at_most": FileKey(NUMBER, "the largest number of rows"),
    "against": FileKey(
        one_of(YESTERDAY), "compare with the day before until the same hour; a day without a yesterday passes"
    ),
    "within": FileKey("share", "with `against`: by how much the numbers may differ"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measured figure and its expected bounds."""

    name: str
    kind: str
    action: str = WARN
    columns: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    within: float | None = None
    """For freshness in seconds; for a row count the share by which it may differ."""
    against: str | None = None

    @property
    def expected(self) -> str:
        """The expectation as text for messages."""
        if self.kind == UNIQUE:
            return f"no duplicates of {', '.join(self.columns)}"
        if self.kind == NOT_NULL:
            return f"{self.columns[0]} not null in {_percent(self.at_least or 0)} of the rows"
        if self.kind == FRESHNESS:
            return f"newest {self.columns[0]} at most {_seconds(self.within or 0)} old"
        bounds = [f"at least {self.at_least:.0f} rows"] if self.at_least is not None else []
        bounds += [f"at most {self.at_most:.0f} rows"] if self.at_most is not None else []
        bounds += [f"within {_percent(self.within or 0)} of {self.against}"] if self.against is not None else []
        return ", ".join(bounds)

    def shown(self, value: float) -> str:
        if self.kind == UNIQUE:
            return f"{value:.0f} duplicates"
        if self.kind == NOT_NULL:
            return _percent(value)
        return _seconds(value) if self.kind == FRESHNESS else f"{value:.0f} rows"

    def is_met(self, value: float, before: float | None = None) -> bool:
        """Whether a value is as expected. `before`: the row count to compare with; None if there is none yet."""
        if self.kind == UNIQUE:
            return value == 0
        if self.kind == FRESHNESS:
            return value <= (self.within or 0)
        if self.at_least is not None and value < self.at_least:
            return False
        if self.at_most is not None and value > self.at_most:
            return False
        if self.against is None or before is None:
            return True
        return abs(value - before) <= before * (self.within or 0)


def _percent(share: float) -> str:
    return f"{share * 100:.4f}".rstrip("0").rstrip(".") + " %"


def _seconds(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} seconds"


def parse_measure(name: str, given: Mapping[str, Any], where: str) -> Measure:
    kinds = [kind for kind in KINDS if kind in given]
    if len(kinds) != 1:
        raise PipelineError(f"{where}: one of rule, {', '.join(KINDS)} is needed, and there is {', '.join(kinds)}")
    values.section(given, where, (kinds[0], "action"))
    kind, at = kinds[0], f"{where}.{kinds[0]}"
    action = values.choice(given, "action", where, ACTIONS) or WARN
    if kind == UNIQUE:
        columns = values.listed(given, kind, where)
        if not columns:
            raise PipelineError(f"{at}: a list of columns is expected, e.g. '[id]'")
        return Measure(name=name, kind=kind, action=action, columns=columns)
    if kind == ROW_COUNT:
        return _row_count(name, values.section(given[kind], at, ROW_COUNT_KEYS), at, action)
    keys = NOT_NULL_KEYS if kind == NOT_NULL else FRESHNESS_KEYS
    parts = values.section(given[kind], at, keys)
    column, limit = (values.text(parts, key, at) for key in keys)
    if column is None or (limit is None and kind == FRESHNESS):
        raise PipelineError(f"{at}: it needs {' and '.join(keys)}")
    if kind == FRESHNESS:
        within = values.parse_interval_ms(limit or "", f"{at}.within") / 1000
        return Measure(name=name, kind=kind, action=action, columns=(column,), within=within)
    share = 1.0 if limit is None else _share(limit, f"{at}.at_least")
    return Measure(name=name, kind=kind, action=action, columns=(column,), at_least=share)


def _row_count(name: str, parts: Mapping[str, Any], where: str, action: str) -> Measure:
    least, most = (values.number(parts, key, where, least=0) for key in ("at_least", "at_most"))
    against = values.choice(parts, "against", where, (YESTERDAY,))
    within = values.text(parts, "within", where)
    if (against is None) != (within is None):
        raise PipelineError(f"{where}: 'against: yesterday' and 'within: 50 %' belong together")
    if least is None and most is None and against is None:
        raise PipelineError(f"{where}: it needs at_least, at_most, or against and within")
    share = None if within is None else _share(within, f"{where}.within")
    return Measure(
        name=name, kind=ROW_COUNT, action=action, at_least=least, at_most=most, within=share, against=against
    )


def _share(text: str, where: str) -> float:
    number = text.removesuffix("%").strip()
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if not text.endswith("%") or not 0 <= share <= 100:
        raise PipelineError(f"{where}: a share such as '99 %' is expected, not {text!r}")
    return share
