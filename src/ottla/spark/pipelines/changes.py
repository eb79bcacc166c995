"""Changes (CDC, upserts) of a flow: rows as changes of their keys, and how a batch of them reaches its target.

Beside the columns of the target a change has its sequence, whether it deletes, and its place in the source, which
decides between equal sequences. How changes are applied is settled here and goes along as metadata of a column.

A topic is a table too, by its keys: the newest value of a key, or a tombstone. Which change of a key is the newest is
kept in the query's state, so that a late one does not get there.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from ottla.spark.pipelines import table_flows
from ottla.spark.pipelines.definition import Flow, Pipeline, PipelineError
from ottla.spark.pipelines.expectations import first_line
from ottla.spark.pipelines.grouping import grouping_columns
from ottla.spark.tables.change_plan import DELETED, OPERATION, ORDER, PUT, SEQUENCE, ChangeRules, plan_changes
from ottla.spark.tables.merge import MERGE, NAME, MergeSettings, prepare_merge

RULES = "ottla.changes"
SOURCE_SEQUENCE, SOURCE_OPERATION = "_sequence", "_op"
"""Columns of sources of changes (Debezium) beside those of the row."""
IS_DELETE = f"{SOURCE_OPERATION} = 'd'"
PLACE = ("_topic", "_partition", "_offset")
MAX_TASKS = 8
"""Tasks of a batch: each looks for its keys in the target."""
_KEY_TYPES = (IntegralType, DecimalType, StringType, DateType, TimestampType, TimestampNTZType, BinaryType)
_SEQUENCE_TYPES = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)
_DELETED_KEYS = "_deleted"


class FlowChanges:
    """The definition of a flow's changes, completed by the columns of its rows."""

    def __init__(self, flow: Flow, rows: DataFrame) -> None:
        assert flow.changes is not None
        self._flow = flow
        self._where = f"flows.{flow.name}"
        self._said = flow.changes
        self._rows = rows
        self._columns = self._written_columns()
        self.keys = self._checked_keys()
        self._sequence_by = self._said.sequence_by or (SOURCE_SEQUENCE if SOURCE_SEQUENCE in rows.columns else None)
        self._deletes = self._said.deletes or (IS_DELETE if SOURCE_OPERATION in rows.columns else None)
        self._check_sequence()

    def _written_columns(self) -> list[str]:
        columns = [name for name in self._rows.columns if not name.startswith("_")]
        for name in self._said.excepts:
            if name not in columns:
                raise PipelineError(f"{self._where}.except: there is no column {name} in {', '.join(columns)}")
        return [name for name in columns if name not in self._said.excepts]

    def _checked_keys(self) -> tuple[str, ...]:
        keys = self._said.keys or grouping_columns(self._rows)
        if not keys:
            raise PipelineError(
                f"{self._where}: say 'keys: [...]', the columns that identify a row: what the view groups by is not "
                f"among its columns {', '.join(self._columns)}"
            )
        for name in keys:
            if name not in self._columns:
                raise PipelineError(f"{self._where}.keys: there is no column {name} in {', '.join(self._columns)}")
            kind = self._rows.schema[name].dataType
            if not isinstance(kind, _KEY_TYPES):
                raise PipelineError(
                    f"{self._where}.keys: {name} is {kind.simpleString()}, and keys are whole numbers, decimals, "
                    "texts, dates, timestamps or bytes: cast it in the view"
                )
        return tuple(keys)

    def _check_sequence(self) -> None:
        if self._sequence_by is None:
            if self._said.is_history:
                raise PipelineError(
                    f"{self._where}: 'scd: 2' needs 'sequence_by', e.g. a column with the time of the change"
                )
            return
        kind = self._type_of(self._sequence_by, "sequence_by")
        if not isinstance(kind, _SEQUENCE_TYPES):
            raise PipelineError(
                f"{self._where}.sequence_by: {self._sequence_by!r} is {kind.simpleString()}, and has to be a number, a "
                "text, a date or a timestamp"
            )

    def _type_of(self, expression: str, key: str) -> DataType:
        try:
            return self._rows.select(F.expr(expression).alias("made")).schema["made"].dataType
        except Exception as error:
            raise PipelineError(f"{self._where}.{key}: {first_line(error)}") from None

    @property
    def is_sequenced(self) -> bool:
        return self._sequence_by is not None

    @property
    def sequence_column(self) -> str | None:
        """The column of the target with the sequence of a row."""
        if self._sequence_by is None:
            return None
        if self._said.is_history:
            return self._said.start_column
        return self._sequence_by if self._sequence_by in self._columns else self._said.sequence_column

    def rules(self) -> ChangeRules:
        return ChangeRules(
            self.keys,
            self.sequence_column,
            self._said.is_history,
            self._said.end_column,
            self._deletes is not None,
            self._said.tombstones_s,
        )

    def target_columns(self) -> dict[str, Column]:
        """The columns of the target."""
        made = {name: F.col(f"`{name}`") for name in self._columns}
        if self._sequence_by is None:
            return made
        sequence, column = F.expr(self._sequence_by), self.sequence_column
        assert column is not None
        own = {column: sequence} if column not in made or self._said.is_history else {}
        if self._said.is_history:
            own[self._said.end_column] = F.lit(None).cast(self._type_of(self._sequence_by, "sequence_by"))
        for name in own:
            if name in made:
                raise PipelineError(
                    f"{self._where}: the rows have a column {name} already: name another one with 'start_column' and "
                    "'end_column'"
                )
        return {**made, **own}

    def target_rows(self) -> DataFrame:
        return self._rows.select(*(column.alias(name) for name, column in self.target_columns().items()))

    def deleted(self) -> Column:
        if self._deletes is None:
            return F.lit(False)
        kind = self._type_of(self._deletes, "deletes")
        if not isinstance(kind, BooleanType):
            raise PipelineError(
                f"{self._where}.deletes: {self._deletes!r} is {kind.simpleString()}, and has to be true or false"
            )
        return F.coalesce(F.expr(self._deletes), F.lit(False))

    def order(self) -> Column:
        """The place of a change in its source; for rows that do not have it any order that is always the same."""
        if all(name in self._rows.columns for name in PLACE):
            return F.format_string("%s/%010d/%020d", *PLACE)
        return F.xxhash64(F.to_json(F.struct(*(F.col(f"`{name}`") for name in self._columns)))).cast("string")

    def is_usable(self) -> Column:
        """True; an error that ends the query if a change has no key or no sequence."""
        needed = [F.col(f"`{name}`") for name in self.keys]
        sequence = [] if self._sequence_by is None else [F.expr(self._sequence_by)]
        lacking = F.lit(False)
        for column in (*needed, *sequence):
            lacking |= column.isNull()
        shown = F.to_json(F.struct(*(column.alias(name) for column, name in zip(needed, self.keys, strict=True))))
        what = f" or in {self._sequence_by}" if self._sequence_by is not None else ""
        reason = F.concat(
            F.lit(f"flow {self._flow.name}: a change has null in {', '.join(self.keys)}{what}; its keys are "),
            shown,
            F.lit(". Put such rows aside with a rule of the source ('expect')"),
        )
        return F.when(lacking, F.raise_error(reason).cast("boolean")).otherwise(F.lit(True))

    def change_rows(self) -> DataFrame:
        """Changes as `change_plan` takes them."""
        columns = [column.alias(name) for name, column in self.target_columns().items()]
        if self._sequence_by is not None:
            columns.append(F.expr(self._sequence_by).alias(SEQUENCE))
        columns.append(self.deleted().alias(DELETED, metadata={RULES: json.dumps(self.rules().to_json())}))
        columns.append(self.order().alias(ORDER))
        return self._rows.filter(self.is_usable()).select(*columns)

    # Topics

    def newest_rows(self) -> DataFrame:
        """The newest change of each key, kept in the query's state; for `mode: update`."""
        names = self._columns
        row = F.struct(*(F.col(f"`{name}`") for name in names), self.deleted().alias(_DELETED_KEYS))
        version = F.struct(F.expr(self._sequence_by or "null"), self.order())
        grouped = self._rows.filter(self.is_usable()).groupBy(*(F.col(f"`{name}`").alias(name) for name in self.keys))
        return grouped.agg(F.max_by(row, version).alias("_newest")).select("_newest.*")

    def plain_rows(self) -> DataFrame:
        """Every change, in the order of the source."""
        rows = self._rows.filter(self.is_usable()).withColumn(_DELETED_KEYS, self.deleted())
        return rows.drop(*self._said.excepts)

    def record_key(self) -> str:
        """The key of a record as SQL: of one column its text, of several a JSON object."""
        names = [f"`{name}`" for name in self.keys]
        return names[0] if len(names) == 1 else f"to_json(struct({', '.join(names)}))"


def deleted_keys() -> Column:
    """Whether a row for a topic is a tombstone."""
    return F.col(_DELETED_KEYS)


def rules_of(prepared: DataFrame) -> ChangeRules:
    """The rules whose results prepared rows have as columns."""
    return ChangeRules.from_json(json.loads(prepared.schema[DELETED].metadata[RULES]))


def final_rows(prepared: DataFrame, changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of an empty table after these changes, applied in their order."""
    rules = rules_of(prepared)
    if rules.sequence is None:
        changes = [{**row, ORDER: f"{index:012d}"} for index, row in enumerate(changes)]
    given = pyarrow.Table.from_pylist(changes, to_arrow_schema(prepared.schema, timezone="UTC"))
    operations = plan_changes(rules, given).operations
    return [row for row in operations.to_pylist() if row.pop(OPERATION) == PUT]


def prepare_changes(pipeline: Pipeline, flow: Flow, rows: DataFrame, *, may_change: bool) -> DataFrame:
    """The changes of a flow to a table or a database. Tables are made, unless nothing may change."""
    made = FlowChanges(flow, rows)
    target = made.target_rows()
    for name in flow.partition_by:
        if name not in target.columns:
            raise PipelineError(f"flows.{flow.name}.partition_by: there is no column {name}")
    if flow.kind != "jdbc":
        settings = MergeSettings(table_flows.table_settings(pipeline, flow), made.rules())
        with table_flows.explained(f"flows.{flow.name}"):
            prepare_merge(settings, table_flows.table_schema(flow, target), may_change=may_change)
    return made.change_rows()


def merge_batch(pipeline: Pipeline, flow: Flow, changes: DataFrame, *, replaces: bool = False) -> None:
    """Apply a batch of changes to a Delta or Iceberg table, or replace all rows of the table with the result."""
    rules = rules_of(changes)
    settings = MergeSettings(table_flows.table_settings(pipeline, flow), rules, replaces)
    rows = by_keys(changes, rules)
    rows.write.format(NAME).option(MERGE, settings.to_json()).mode("append").save()


def by_keys(changes: DataFrame, rules: ChangeRules) -> DataFrame:
    """All changes of a key in one task."""
    context: Any = changes.sparkSession.sparkContext
    count = max(1, min(MAX_TASKS, int(context.defaultParallelism)))
    return changes.repartition(count, *(F.col(f"`{name}`") for name in rules.keys))
