"""Changes applied to a table of a database by their keys, each batch exactly once.

A batch is planned by Spark (`change_plan`) and staged as operations in a table of its own. One transaction then brings
them to the target, remembers deletes in a table of tombstones beside it and notes the batch. Type 1 compares sequences
there, in SQL; type 2 first reads the versions of the keys of the batch, which no other driver changes meanwhile: the
transaction of one that does finds the batch noted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pyarrow
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from ottla.spark.pipelines.definition import Flow
from ottla.spark.pipelines.jdbc_target import A_BIGINT, KEYS, ROW, JdbcTarget, product, quoted, quoted_list
from ottla.spark.tables.change_plan import DELETED, OPERATION, ORDER, PUT, REMOVE, SEQUENCE, ChangeRules, plan_changes
from ottla.spark.tables.data_files import in_columns

STAGED = "ottla_operation"
REMEMBER = "t"
"""The operation that adds a tombstone."""
TOMBSTONES, NOTED_AT = "ottla_tombstones_", "noted_at"
WITHOUT_MERGE = ("mysql", "mariadb", "sqlite")
MERGE_SINCE = 15
"""PostgreSQL has MERGE since this version."""
_KIND = "__ottla_kind"
_CHANGE, _STORED, _TOMBSTONE = "change", "stored", "tombstone"


class JdbcChanges(JdbcTarget):
    """The table of a flow whose rows are changed by their keys."""

    def __init__(self, spark: SparkSession, flow: Flow, rules: ChangeRules) -> None:
        super().__init__(spark, flow)
        self._rules = rules
        self._tombstones = TOMBSTONES + re.sub(r"\W", "_", self._table)

    # Tables

    def _make_target(self, connection: Any, rows: DataFrame) -> None:
        super()._make_target(connection, _target(rows))
        if product(connection)[0] == "postgresql":
            columns = quoted_list(connection, self._rules.match)
            self._run(connection, f"alter table {self._table} add primary key ({columns})")
            connection.commit()

    def _make_tables(self, connection: Any, batch: DataFrame, query_id: str) -> None:
        super()._make_tables(connection, batch, query_id)
        if self._rules.has_tombstones:
            columns = quoted_list(connection, self._remembered)
            made = f"select {columns}, {A_BIGINT} as {NOTED_AT} from {self._table} where 1 = 0"
            tombstones = f"create table {self._tombstones} as {made}"
            self._make(connection, self._tombstones, lambda: self._run(connection, tombstones))

    @property
    def _remembered(self) -> list[str]:
        assert self._rules.sequence is not None
        return [*self._rules.keys, self._rules.sequence]

    def _make_staging(self, connection: Any, staging: str, batch: DataFrame) -> None:
        columns = quoted_list(connection, _target(batch).columns)
        made = f"select {columns}, cast('' as char(1)) as {STAGED}, {A_BIGINT} as {ROW} from {self._table} where 1 = 0"
        self._run(connection, f"create table {staging} as {made}")
        if self._rules.is_history:
            keys = quoted_list(connection, self._rules.keys)
            self._run(connection, f"create table {staging}{KEYS} as select {keys} from {self._table} where 1 = 0")

    # Planning

    def _stage(self, batch: DataFrame, staging: str, *, onto_nothing: bool) -> None:
        if not self._rules.is_history or onto_nothing:
            self._append_numbered(self._planned(batch.withColumn(_KIND, F.lit(_CHANGE))), staging)
            return
        batch = batch.persist()
        try:
            self.append(batch.select(*self._rules.keys).distinct(), staging + KEYS)
            events = batch.withColumn(_KIND, F.lit(_CHANGE))
            for table, kind in self._known_tables().items():
                events = events.unionByName(self._known(batch, table, staging, kind), allowMissingColumns=True)
            self._append_numbered(self._planned(events), staging)
        finally:
            batch.unpersist()

    def _empty(self, connection: Any) -> None:
        super()._empty(connection)
        if self._rules.has_tombstones:
            self._run(connection, f"delete from {self._tombstones}")

    def _known_tables(self) -> dict[str, str]:
        tombstones = {self._tombstones: _TOMBSTONE} if self._rules.has_tombstones else {}
        return {self._table: _STORED, **tombstones}

    def _known(self, batch: DataFrame, table: str, staging: str, kind: str) -> DataFrame:
        """The database's rows for the keys of a batch, in the types of the batch."""
        with self._connection() as connection:
            same = self._same(connection, "known", "given", self._rules.keys)
        query = f"select known.* from {table} known where exists (select 1 from {staging}{KEYS} given where {same})"
        rows = batch.sparkSession.read.format("jdbc").options(**self._options, query=query).load()
        named = {field.name: field.dataType for field in _target(batch).schema.fields}
        kept = [F.col(f"`{name}`").cast(named[name]).alias(name) for name in rows.columns if name in named]
        return rows.select(*kept, F.lit(kind).alias(_KIND))

    def _planned(self, events: DataFrame) -> DataFrame:
        from ottla.spark.pipelines.changes import by_keys

        rules, target = self._rules, _target(events).schema
        columns = to_arrow_schema(target, timezone="UTC")

        def plan(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
            given = [one for one in batches if one.num_rows]
            if given:
                yield from _operations(rules, columns, pyarrow.Table.from_batches(given)).to_batches()

        made = StructType([*target.fields, StructField(STAGED, StringType())])
        return by_keys(events, rules).mapInArrow(plan, made)

    # The transaction

    def _move(self, connection: Any, staging: str, batch: DataFrame) -> None:
        names = _target(batch).columns
        if self._rules.has_tombstones:
            self._forget(connection, staging)
        name, version = product(connection)
        if name in WITHOUT_MERGE or (name == "postgresql" and version < MERGE_SINCE):
            statements = self._statements(connection, staging, names)
        else:
            statements = [self._merge(connection, staging, names)]
        for statement in statements:
            self._run(connection, statement)
        if self._rules.has_tombstones:
            self._remember(connection, staging)

    def _forget(self, connection: Any, staging: str) -> None:
        """Remove staged changes that are older than a delete; of type 2 they are part of the history."""
        if self._rules.is_history:
            return
        sequence = quoted(connection, self._rules.sequence or "")
        same = self._same(connection, "dead", staging, self._rules.keys)
        is_dead = f"select 1 from {self._tombstones} dead where {same} and dead.{sequence} > {staging}.{sequence}"
        self._run(connection, f"delete from {staging} where {STAGED} <> '{REMEMBER}' and exists ({is_dead})")

    def _remember(self, connection: Any, staging: str) -> None:
        columns = quoted_list(connection, self._remembered)
        now = int(time.time())
        self._run(
            connection,
            f"insert into {self._tombstones} ({columns}, {NOTED_AT}) "
            f"select {columns}, {now} from {staging} where {STAGED} = '{REMEMBER}'",
        )
        oldest = now - int(self._rules.retention_s)
        self._run(connection, f"delete from {self._tombstones} where {NOTED_AT} < {oldest}")

    def _merge(self, connection: Any, staging: str, names: list[str]) -> str:
        columns, values = quoted_list(connection, names), quoted_list(connection, names, "new.")
        guard = self._guard(connection, "old", "new")
        clauses = [
            f"merge into {self._table} old using {staging} new",
            f"on {self._same(connection, 'old', 'new', self._rules.match)} and new.{STAGED} <> '{REMEMBER}'",
            f"when matched and new.{STAGED} = '{REMOVE}'{guard} then delete",
        ]
        others = [quoted(connection, name) for name in names if name not in self._rules.match]
        if others:
            changed = ", ".join(f"{name} = new.{name}" for name in others)
            clauses.append(f"when matched and new.{STAGED} = '{PUT}'{guard} then update set {changed}")
        clauses.append(f"when not matched and new.{STAGED} = '{PUT}' then insert ({columns}) values ({values})")
        return " ".join(clauses)

    def _statements(self, connection: Any, staging: str, names: list[str]) -> list[str]:
        """The merge for a database without MERGE: statements that delete, update and insert."""
        table, columns = self._table, quoted_list(connection, names)
        same = self._same(connection, "new", table, self._rules.match)
        guard = self._guard(connection, table, "new")

        def staged(what: str, operation: str, more: str = "") -> str:
            return f"(select {what} from {staging} new where {same} and new.{STAGED} = '{operation}'{more})"

        others = [quoted(connection, name) for name in names if name not in self._rules.match]
        changed = ", ".join(f"{name} = {staged(f'new.{name}', PUT)}" for name in others)
        there = f"select 1 from {table} old where {self._same(connection, 'old', 'new', self._rules.match)}"
        return [
            f"delete from {table} where exists {staged('1', REMOVE, guard)}",
            *([f"update {table} set {changed} where exists {staged('1', PUT, guard)}"] if others else []),
            f"insert into {table} ({columns}) select {columns} from {staging} new "
            f"where new.{STAGED} = '{PUT}' and not exists ({there})",
        ]

    def _guard(self, connection: Any, old: str, new: str) -> str:
        """The condition that a change is not older than the row; for type 2 the plan has it."""
        if self._rules.sequence is None or self._rules.is_history:
            return ""
        name = quoted(connection, self._rules.sequence)
        return f" and ({old}.{name} is null or {new}.{name} >= {old}.{name})"

    def _same(self, connection: Any, one: str, other: str, names: tuple[str, ...]) -> str:
        return " and ".join(f"{one}.{quoted(connection, name)} = {other}.{quoted(connection, name)}" for name in names)


def _target(changes: DataFrame) -> DataFrame:
    """The columns of the target."""
    return changes.drop(SEQUENCE, DELETED, ORDER, _KIND)


def _operations(rules: ChangeRules, columns: pyarrow.Schema, events: pyarrow.Table) -> pyarrow.Table:
    """The rows that a task stages: operations, and tombstones as operations of their own."""
    of = {
        kind: events.filter(pc.equal(events.column(_KIND), kind)).drop_columns([_KIND])
        for kind in (_CHANGE, _STORED, _TOMBSTONE)
    }
    stored = of[_STORED].select(columns.names) if rules.is_history else None
    known = of[_TOMBSTONE].select([*rules.keys, rules.sequence]) if rules.has_tombstones and rules.sequence else None
    plan = plan_changes(rules, of[_CHANGE], stored, known)
    made = in_columns(plan.operations, columns).append_column(STAGED, plan.operations.column(OPERATION))
    if not plan.tombstones.num_rows:
        return made
    dead = in_columns(plan.tombstones, columns)
    return pyarrow.concat_tables([made, dead.append_column(STAGED, pyarrow.repeat(REMEMBER, dead.num_rows))])
