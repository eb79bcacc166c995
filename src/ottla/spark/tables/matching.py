"""Rows of a table that have given keys: which of them, and between which values to look for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow
import pyarrow.compute as pc

Bounds = Mapping[str, tuple[Any, Any]]
"""The least and the greatest value of columns: files whose statistics lie outside are not read."""
MAX_BOUND_TEXT = 100
_INDEX = "__ottla_index"


def bounds_of(rows: pyarrow.Table, names: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """Bounds of whole numbers, texts and dates. Writers of tables compare other types in too many ways."""
    found = {}
    for name in names:
        kind = rows.schema.field(name).type
        is_plain = pyarrow.types.is_integer(kind) or pyarrow.types.is_string(kind) or pyarrow.types.is_date32(kind)
        if not is_plain or not rows.num_rows:
            continue
        least, greatest = pc.min_max(rows.column(name)).as_py().values()
        if least is not None and len(str(least)) <= MAX_BOUND_TEXT and len(str(greatest)) <= MAX_BOUND_TEXT:
            found[name] = (least, greatest)
    return found


def joined_bounds(all_bounds: Iterable[Bounds]) -> dict[str, tuple[Any, Any]]:
    """The bounds of rows that are in several places."""
    given = list(all_bounds)
    names = set.intersection(*(set(one) for one in given)) if given else set()
    return {name: (min(one[name][0] for one in given), max(one[name][1] for one in given)) for name in sorted(names)}


def bounds_sql(bounds: Bounds, alias: str) -> list[str]:
    """Bounds as SQL conditions."""
    return [
        f"{alias}.`{name}` {sign} {_literal(value)}"
        for name, pair in bounds.items()
        for sign, value in zip((">=", "<="), pair, strict=True)
    ]


def _literal(value: Any) -> str:
    if isinstance(value, datetime | date):
        return f"date '{value}'"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def positions(rows: pyarrow.Table, keys: pyarrow.Table, names: Sequence[str], *, are_in: bool = True) -> pyarrow.Array:
    """The positions of rows whose values of some columns are (or are not) in another table."""
    wanted = keys.select(list(names))
    if len(names) == 1:
        kind = rows.schema.field(names[0]).type
        found = pc.is_in(rows.column(names[0]), wanted.column(0).cast(kind).combine_chunks())
        return pc.indices_nonzero(found if are_in else pc.invert(found))
    given = rows.select(list(names)).append_column(_INDEX, pyarrow.array(range(rows.num_rows), pyarrow.int64()))
    wanted = wanted.cast(given.select(list(names)).schema).group_by(list(names)).aggregate([])
    kind = "left semi" if are_in else "left anti"
    return given.join(wanted, list(names), join_type=kind).column(_INDEX).combine_chunks().sort()


def with_keys(rows: pyarrow.Table, keys: pyarrow.Table, names: Sequence[str], *, are_in: bool = True) -> pyarrow.Table:
    """The rows whose values of some columns are (or are not) in another table."""
    return rows.take(positions(rows, keys, names, are_in=are_in))
