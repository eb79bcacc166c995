"""What a flow wrote against what a case expects: rows that are missing, rows that were not expected, rows that differ
in some columns. Pure.

Values are compared by what they mean: a YAML number with a decimal, a text with the timestamp or the bytes that it
stands for. Only the columns that an expected row names are compared; a column that a row does not have is null.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from ottla.spark.pipelines.values import nearest

MAX_SHOWN = 20
MAX_PAIRED = 200
"""Rows of each side that are looked at to find out which is which with other values; beyond, rows are only listed."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Changed:
    """A row that is present with other values: expected and actual value by column."""

    row: Row
    columns: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Difference:
    """How rows differ from the expected ones; false if they do not."""

    missing: list[Row] = field(default_factory=list)
    unexpected: list[Row] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    """Columns that a case with `exact` does not name."""
    unknown: str | None = None
    """Which expected columns no row has, for people: they may be misspelled."""
    counts: tuple[int, int] | None = None
    """How many rows were expected and how many came, if only that was asked."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.changed or self.columns or self.counts)


def compare(
    expected: Sequence[Row],
    actual: Sequence[Row],
    *,
    count: int | None = None,
    is_ordered: bool = False,
    is_exact: bool = False,
) -> Difference:
    if count is not None:
        return Difference(counts=(count, len(actual)) if count != len(actual) else None)
    extra = []
    if is_exact and expected:
        names = {name for row in expected for name in row}
        extra = sorted({name for row in actual for name in row if not name.startswith("_")} - names)
    if is_ordered:
        pairs = list(zip(expected, actual, strict=False))
        changed = [_change(row, one) for row, one in pairs if not _is_equal_row(row, one)]
        return Difference(
            list(expected[len(pairs) :]), list(actual[len(pairs) :]), changed, extra, unknown_columns(expected, actual)
        )
    left, rest = [], list(actual)
    # a row that names more columns has fewer candidates, so it chooses first
    for row in sorted(expected, key=len, reverse=True):
        index = next((index for index, one in enumerate(rest) if _is_equal_row(row, one)), None)
        if index is None:
            left.append(row)
        else:
            del rest[index]
    changed, missing, unexpected = _paired(left, rest)
    return Difference(missing, unexpected, changed, extra, unknown_columns(expected, actual))


def unknown_columns(expected: Sequence[Row], actual: Sequence[Row]) -> str | None:
    """The columns with expected values that none of the rows has, each with the name that was probably meant."""
    known = dict.fromkeys(name for row in actual for name in row)
    wanted = dict.fromkeys(name for row in expected for name, value in row.items() if value is not None)
    unknown = [name for name in wanted if name not in known]
    if not unknown or not known:
        return None
    near = {name: nearest(name, known) for name in unknown}
    listed = [name if near[name] is None else f"{name} (did you mean '{near[name]}'?)" for name in unknown]
    return f"no row has the column {', '.join(listed)}; there are {', '.join(known)}"


def _paired(missing: list[Row], unexpected: list[Row]) -> tuple[list[Changed], list[Row], list[Row]]:
    """Rows of both sides that are most alike are one row that has changed; at least half of its columns are equal."""
    scores = sorted(
        (-score / len(row), left, right)
        for left, row in enumerate(missing[:MAX_PAIRED])
        for right, one in enumerate(unexpected[:MAX_PAIRED])
        if (score := sum(is_equal(value, one.get(name)) for name, value in row.items())) * 2 >= len(row) and score
    )
    taken: dict[int, int] = {}
    for _, left, right in scores:
        if left not in taken and right not in taken.values():
            taken[left] = right
    changed = [_change(missing[left], unexpected[right]) for left, right in sorted(taken.items())]
    return (
        changed,
        [row for index, row in enumerate(missing) if index not in taken],
        [row for index, row in enumerate(unexpected) if index not in taken.values()],
    )


def _change(row: Row, one: Row) -> Changed:
    different = {name: (value, one.get(name)) for name, value in row.items() if not is_equal(value, one.get(name))}
    return Changed({name: value for name, value in row.items() if name not in different}, different)


def _is_equal_row(expected: Row, actual: Row) -> bool:
    """Whether a row has the expected values. Columns that the case does not name may have any."""
    return all(is_equal(value, actual.get(name)) for name, value in expected.items())


def is_equal(expected: Any, actual: Any) -> bool:
    """Whether a value of a case means a value of a flow."""
    if expected is None or actual is None:
        return expected is actual
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(actual, str) and isinstance(expected, Mapping | list):
        actual = _from_json(actual)
    if isinstance(actual, Mapping):
        return _is_equal_struct(expected, actual)
    if isinstance(actual, list | tuple):
        return (
            isinstance(expected, list | tuple) and len(expected) == len(actual) and all(map(is_equal, expected, actual))
        )
    if isinstance(actual, bytes | bytearray):
        return bytes(actual) in _bytes_of(expected)
    if isinstance(actual, datetime) or isinstance(expected, datetime):
        return _moment(expected) is not None and _moment(expected) == _moment(actual)
    if isinstance(actual, date) or isinstance(expected, date):
        return str(expected) == str(actual)
    if isinstance(actual, Decimal) or (isinstance(expected, int | float) and isinstance(actual, int | float)):
        return _is_equal_number(expected, actual)
    if isinstance(actual, timedelta):
        return str(expected) == str(actual)
    return bool(expected == actual)


def _is_equal_struct(expected: Any, actual: Mapping[str, Any]) -> bool:
    if not isinstance(expected, Mapping):
        return False
    names = {*expected, *actual}
    return all(is_equal(expected.get(name), actual.get(name)) for name in names)


def _from_json(text: str) -> Any:
    """The value that a text of JSON is: the value of a letter may be expected as columns."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_equal_number(expected: Any, actual: Any) -> bool:
    if isinstance(actual, float) or (isinstance(expected, float) and not isinstance(actual, Decimal)):
        if math.isnan(float(actual)) or math.isnan(float(expected)):
            return math.isnan(float(actual)) and math.isnan(float(expected))
        return math.isclose(float(expected), float(actual), rel_tol=1e-9, abs_tol=1e-12)
    try:
        return Decimal(str(expected)) == Decimal(str(actual))
    except InvalidOperation:
        return False


def _bytes_of(expected: Any) -> list[bytes]:
    """The bytes that a value of a case may mean: a text, or base64."""
    if isinstance(expected, bytes):
        return [expected]
    if not isinstance(expected, str):
        return []
    found = [expected.encode()]
    with suppress(binascii.Error, ValueError):
        found.append(base64.b64decode(expected, validate=True))
    return found


def _moment(value: Any) -> datetime | None:
    """A timestamp; without an offset it is in UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else None


# --- for people


def difference_lines(difference: Difference) -> list[str]:
    """A difference as lines: `~` a row with other values, `-` a missing row, `+` a row that was not expected."""
    if difference.counts is not None:
        wanted, came = difference.counts
        return [f"expected {_rows(wanted)}, got {came}"]
    parts = [
        f"{len(difference.changed)} changed" if difference.changed else "",
        f"{len(difference.missing)} missing" if difference.missing else "",
        f"{len(difference.unexpected)} unexpected" if difference.unexpected else "",
        f"columns that were not expected: {', '.join(difference.columns)}" if difference.columns else "",
    ]
    lines = [", ".join(filter(None, parts))]
    if difference.unknown is not None:
        lines.append(f"  {difference.unknown}")
    for one in difference.changed[:MAX_SHOWN]:
        lines.append(f"  ~ {shown_row(one.row)}")
        lines += [f"      {name}: expected {shown(left)}, got {shown(right)}" for name, (left, right) in
                  one.columns.items()]  # fmt: skip
    lines += [f"  - {shown_row(row)}" for row in difference.missing[:MAX_SHOWN]]
    lines += [f"  + {shown_row(row)}" for row in difference.unexpected[:MAX_SHOWN]]
    listed = (difference.changed, difference.missing, difference.unexpected)
    left_out = sum(max(len(rows) - MAX_SHOWN, 0) for rows in listed)
    return [*lines, f"  and {_rows(left_out)} more"] if left_out else lines


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def shown_row(row: Row) -> str:
    return "{" + ", ".join(f"{name}: {shown(value)}" for name, value in row.items()) + "}"


def shown(value: Any) -> str:
    """A value as YAML, in one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, bytes | bytearray):
        text = printable_text(bytes(value))
        return f'"{text}"' if text is not None else f"base64 {base64.b64encode(value).decode()}"
    if isinstance(value, Mapping):
        return shown_row(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    return str(value)


def moment_text(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def printable_text(value: bytes) -> str | None:
    """The text of some bytes; None if they are not printable text."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\n\t" for char in text) else None
