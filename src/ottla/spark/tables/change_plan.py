"""What changes make of the rows of a table: pure, on whole Arrow tables.

A change has the columns of the row and beside them SEQUENCE (which change is newer), DELETED and ORDER (the place in
its source, for changes with equal sequences). The result depends only on the set of changes, not on the batches in
which they come: so a change that comes late never overwrites a newer one, and a batch that comes again changes nothing.

- Type 1 keeps the newest row of each key. A key whose newest change is a delete has no row; its tombstone remembers the
  delete, so that an older change that comes later does not bring the row back.
- Type 2 keeps every version of a row with the sequence where it starts and where it ends (null: it is the present one).
  All versions and deletes of a key, old and new, are put in order; each ends where the next begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy
import pyarrow
import pyarrow.compute as pc

SEQUENCE, DELETED, ORDER = "__ottla_sequence", "__ottla_deleted", "__ottla_order"
OPERATION = "__ottla_operation"
PUT, REMOVE = "u", "d"
_RANK, _OLD_END = "__ottla_rank", "__ottla_old_end"
_DELETED_BEFORE, _STORED, _NEW = 0, 1, 2
"""Of equal sequences the higher rank counts: a row is newer than the end of the version before it, and what comes now
is newer than both."""


@dataclass(frozen=True, slots=True)
class ChangeRules:
    """How changes are applied."""

    keys: tuple[str, ...]
    sequence: str | None = None
    """The column of the target with the sequence of a row's last change; None: what comes later is newer."""
    is_history: bool = False
    """Type 2; `sequence` is then the column where a version starts."""
    end: str = "__END_AT"
    has_deletes: bool = False
    retention_s: float = 7 * 86400.0
    """How long tombstones are kept."""

    @property
    def match(self) -> tuple[str, ...]:
        """The columns that identify a row of the target."""
        return (*self.keys, self.sequence) if self.is_history and self.sequence is not None else self.keys

    @property
    def has_tombstones(self) -> bool:
        return self.has_deletes and self.sequence is not None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> ChangeRules:
        return cls(**{**given, "keys": tuple(given["keys"])})


@dataclass(frozen=True, slots=True)
class Plan:
    """`operations`: rows of the target with OPERATION, each identified by `ChangeRules.match`; `tombstones`: the keys
    and sequences of deletes."""

    operations: pyarrow.Table
    tombstones: pyarrow.Table


def plan_changes(
    rules: ChangeRules,
    changes: pyarrow.Table,
    stored: pyarrow.Table | None = None,
    tombstones: pyarrow.Table | None = None,
) -> Plan:
    """What has to be done to a table. `changes` has the columns of the target, DELETED and ORDER, and SEQUENCE unless
    what comes later is newer; `stored` has the target's rows of the same keys (type 1: at least keys and sequence;
    None: they are not known), `tombstones` the keys and sequences of deletes."""
    target = [name for name in changes.column_names if name not in (SEQUENCE, DELETED, ORDER)]
    events = [_ranked(changes, _NEW)]
    if stored is not None and stored.num_rows:
        events += _stored_events(rules, stored)
    if tombstones is not None and tombstones.num_rows and rules.sequence is not None:
        events.append(_deletes(tombstones, rules.keys, rules.sequence))
    kind = {field.name: field.type for field in changes.schema}
    rows = pyarrow.concat_tables([_cast(one, kind) for one in events], promote_options="default").combine_chunks()
    given = [*rules.keys, *([SEQUENCE] if SEQUENCE in changes.column_names else [])]
    rows = rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*given, _RANK, ORDER)]))
    made = _versions(rules, rows) if rules.is_history else _newest(rules, rows, is_known=stored is not None)
    return Plan(made.select([*target, OPERATION]), _tombstones_of(rules, rows))


def _stored_events(rules: ChangeRules, stored: pyarrow.Table) -> list[pyarrow.Table]:
    assert rules.sequence is not None, "without a sequence what is stored is older than any change"
    rows = stored.append_column(SEQUENCE, stored.column(rules.sequence))
    rows = rows.append_column(DELETED, pyarrow.repeat(False, rows.num_rows))
    if not rules.is_history:
        return [_ranked(rows.select([*rules.keys, SEQUENCE, DELETED]), _STORED)]
    rows = rows.append_column(_OLD_END, stored.column(rules.end))
    ended = stored.filter(stored.column(rules.end).is_valid())
    return [_ranked(rows, _STORED), _deletes(ended, rules.keys, rules.end)]


def _deletes(rows: pyarrow.Table, keys: Sequence[str], sequence: str) -> pyarrow.Table:
    columns = [*(rows.column(name) for name in keys), rows.column(sequence), pyarrow.repeat(True, rows.num_rows)]
    return _ranked(pyarrow.table(columns, names=[*keys, SEQUENCE, DELETED]), _DELETED_BEFORE)


def _ranked(rows: pyarrow.Table, rank: int) -> pyarrow.Table:
    return rows.append_column(_RANK, pyarrow.repeat(pyarrow.scalar(rank, pyarrow.int8()), rows.num_rows))


def _cast(rows: pyarrow.Table, kinds: dict[str, Any]) -> pyarrow.Table:
    fields = [field.with_type(kinds.get(field.name, field.type)).with_nullable(True) for field in rows.schema]
    return rows.cast(pyarrow.schema([pyarrow.field(one.name, one.type) for one in fields]))


def _newest(rules: ChangeRules, rows: pyarrow.Table, *, is_known: bool) -> pyarrow.Table:
    """Type 1: the last row of each key, unless it is stored already. Deletes of rows that are known not to be there
    are left out."""
    last, rank = _is_last(rows, rules.keys), rows.column(_RANK).to_numpy()
    is_there = _has_stored(last, rank) if is_known else True
    return _with_operation(rows.filter(pyarrow.array(last & (rank == _NEW) & (~_deleted(rows) | is_there))))


def _versions(rules: ChangeRules, rows: pyarrow.Table) -> pyarrow.Table:
    """Type 2: versions that are new or end elsewhere than before, and those that a delete has taken the place of."""
    assert rules.sequence is not None
    last = _is_last(rows, (*rules.keys, SEQUENCE))
    is_there = _has_stored(last, rows.column(_RANK).to_numpy())[last]
    chosen = rows.filter(pyarrow.array(last)).combine_chunks()
    count = chosen.num_rows
    sequences = chosen.column(SEQUENCE)
    following = sequences.take(pyarrow.array(numpy.minimum(numpy.arange(1, count + 1), max(count - 1, 0))))
    is_newest = pyarrow.array(_is_last(chosen, rules.keys))
    ends = pc.if_else(is_newest, pyarrow.scalar(None, sequences.type), following)
    rank = chosen.column(_RANK).to_numpy()
    is_new = rank == _NEW
    changed = is_new
    if _OLD_END in chosen.column_names:
        old = chosen.column(_OLD_END)
        is_same = pc.or_(pc.fill_null(pc.equal(old, ends), False), pc.and_(old.is_null(), ends.is_null()))
        changed = is_new | ((rank == _STORED) & ~is_same.to_numpy(zero_copy_only=False).astype(bool))
    made = _put(_put(chosen, rules.sequence, sequences), rules.end, ends)
    return _with_operation(made.filter(pyarrow.array(numpy.where(_deleted(chosen), is_new & is_there, changed))))


def _deleted(rows: pyarrow.Table) -> Any:
    return rows.column(DELETED).to_numpy(zero_copy_only=False).astype(bool)


def _has_stored(last: Any, rank: Any) -> Any:
    """Whether a row of the target is in the group of a row; `last` ends the groups."""
    if not len(last):
        return last
    group = numpy.cumsum(numpy.concatenate(([0], last[:-1].astype(numpy.int64))))
    found = numpy.zeros(int(group[-1]) + 1, dtype=bool)
    found[group[rank == _STORED]] = True
    return found[group]


def _put(rows: pyarrow.Table, name: str, column: Any) -> pyarrow.Table:
    return rows.set_column(rows.column_names.index(name), name, column)


def _with_operation(rows: pyarrow.Table) -> pyarrow.Table:
    return rows.append_column(OPERATION, pc.if_else(rows.column(DELETED), REMOVE, PUT))


def _tombstones_of(rules: ChangeRules, rows: pyarrow.Table) -> pyarrow.Table:
    """Deletes that have to be remembered: of type 1 the newest change of its key, of type 2 any."""
    if not rules.has_tombstones:
        return pyarrow.table({})
    assert rules.sequence is not None
    last = _is_last(rows, (*rules.keys, SEQUENCE) if rules.is_history else rules.keys)
    found = rows.filter(pyarrow.array(last & _deleted(rows) & (rows.column(_RANK).to_numpy() == _NEW)))
    return found.select([*rules.keys, SEQUENCE]).rename_columns([*rules.keys, rules.sequence])


def _is_last(rows: pyarrow.Table, names: Sequence[str]) -> Any:
    """For sorted rows: whether a row is the last one with its values."""
    count = rows.num_rows
    if count == 0:
        return numpy.zeros(0, dtype=bool)
    differs = numpy.zeros(count - 1, dtype=bool)
    for name in names:
        column = rows.column(name).combine_chunks()
        differs |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False).astype(bool)
    return numpy.concatenate((differs, [True]))
