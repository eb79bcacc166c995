"""A pipeline run on given rows, without a broker, a database or a table: what its flows write, and its letters.

The DataFrames are those of a real run (`Frames`): the same parsing, rules, views and encoding. Only the sources are
files with the rows of a case. Flows without state, and aggregations of one batch whose mode writes every change, give
the same rows as a batch query, which takes a fraction of the time of a stream; everything else runs as a stream.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from ottla.client.dead_letters import EXCEPTION_MESSAGE
from ottla.spark.pipelines import cases, changes, converters, keys, sources, targets
from ottla.spark.pipelines.cases import Given
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import CONFLUENT, PLAIN, Flow, Pipeline, PipelineError, Source
from ottla.spark.pipelines.expectations import RULE_HEADER, SOURCE_HEADER
from ottla.spark.pipelines.failures import failure
from ottla.spark.pipelines.frames import Frames
from ottla.spark.pipelines.given_rows import as_bytes, rows_schema, tables_of
from ottla.spark.pipelines.plans import Plan, plan_of
from ottla.spark.pipelines.state import PipelineState

NO_BROKER = Connection("no-broker.invalid:9")
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
FIRST_FILE_AT = 1_000_000


@dataclass(slots=True)
class Outcome:
    """The result of a trial."""

    flows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    letters: list[dict[str, Any]] = field(default_factory=list)
    error: PipelineError | None = None
    """Why the pipeline ended, if a row ended it."""


class Trial:
    """One pipeline, tried on as many cases as one likes. Its DataFrames are made once: a further case only writes other
    files and has Spark look at them again."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, folder: Path) -> None:
        self._pipeline = standing_alone(pipeline, folder)
        self._spark = spark
        self._folder = folder
        self._numbers = itertools.count()
        self._frames: dict[tuple[object, ...], CaseFrames] = {}
        self._plans: dict[str, Plan] = {}
        self._modes: dict[str, str] = {}

    def run(self, batches: Sequence[Mapping[str, Given]], flows: Iterable[str], *, has_letters: bool = True) -> Outcome:
        """Run these flows, and those before them whose topics they read. PipelineError: it cannot be run at all."""
        outcome, wanted = Outcome(), set(flows)
        given = [dict(batch) for batch in batches] or [{}]
        try:
            for flow in self._pipeline.flows:
                readers = self._readers(flow, batches)
                if flow.name not in wanted and not readers:
                    continue
                rows = self._rows_of(flow, given)
                if flow.name in wanted:
                    outcome.flows[flow.name] = self._shown(flow, rows)
                for reader in readers:
                    before = given[0].get(reader.name, Given(()))
                    given[0][reader.name] = Given(before.rows + tuple(map(_as_given, rows)))
            if has_letters:
                outcome.letters = [
                    _letter(row)
                    for letters in self._made(given, is_stream=False).all_letters
                    for row in _collected(letters)
                ]
        except _Ended as ended:
            outcome.error = ended.cause
        return outcome

    def _readers(self, flow: Flow, batches: Sequence[Mapping[str, Given]]) -> list[Source]:
        """Sources without rows in the case that read what a flow writes to its topic."""
        given = {name for batch in batches for name in batch}
        if flow.topic is None:
            return []
        return [one for one in self._pipeline.sources if flow.topic in one.topics and one.name not in given]

    def _made(self, given: Sequence[Mapping[str, Given]], *, is_stream: bool, count: int | None = None) -> CaseFrames:
        """The DataFrames, over these rows; of all batches, or of the first `count`."""
        named = {name for batch in given for name in batch}
        static = tuple((one.name, one.name in named) for one in self._pipeline.sources if not one.is_stream)
        schemas = tuple(
            (one.name, str(rows_schema(one, [batch.get(one.name) for batch in given])))
            for one in self._pipeline.sources
            if one.name in named and not one.has_bytes
        )
        key = (is_stream, static, schemas)
        if key in self._frames:
            self._frames[key].give(given, count)
        else:
            folder = self._folder / f"rows-{next(self._numbers)}"
            self._frames[key] = CaseFrames(self._pipeline, self._spark, folder, given, count, is_stream=is_stream)
            self._frames[key].make(may_change=False)
        return self._frames[key]

    def _rows_of(self, flow: Flow, given: Sequence[Mapping[str, Given]]) -> list[dict[str, Any]]:
        if flow.name not in self._plans:
            frames = self._made(given, is_stream=True)
            self._plans.update({name: plan_of(rows) for name, rows in frames.flows.items()})
            self._modes = {one.name: targets.mode_of(one, frames.flows[one.name]) for one in self._pipeline.flows}
        plan = self._plans[flow.name]
        if plan.is_stateless or (len(given) == 1 and plan.may_run_at_once(self._modes[flow.name])):
            return _collected(self._made(given, is_stream=False).flows[flow.name])
        found: list[dict[str, Any]] = []
        checkpoint = self._folder / f"checkpoint-{flow.name}-{next(self._numbers)}"
        try:
            for count in range(1, len(given) + 1):
                self._stream(flow, self._made(given, is_stream=True, count=count).flows[flow.name], checkpoint, found)
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)
        return found

    def _stream(self, flow: Flow, rows: DataFrame, checkpoint: Path, found: list[dict[str, Any]]) -> None:
        """Run a stream to the end of its rows. Each batch of a case is a run of its own, as if no more rows had come
        for a while, so the watermark advances before the next batch."""

        def collect(batch: DataFrame, _: int) -> None:
            found.extend(_collected(batch))

        writer = rows.writeStream.outputMode(targets.mode_of(flow, rows)).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).foreachBatch(collect).start()
        try:
            query.awaitTermination()
        except Exception as error:
            raise _Ended(failure(f"flow {flow.name} failed", str(error))) from None
        finally:
            if query.isActive:
                query.stop()

    def _shown(self, flow: Flow, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows in columns: records of a topic are decoded, and changes are what they make of an empty table."""
        if flow.changes is not None and not flow.changes.is_replaced and flow.topic is None:
            return changes.final_rows(next(iter(self._frames.values())).flows[flow.name], rows)
        if flow.topic is None:
            return rows
        frames = next(iter(self._frames.values()))
        return decoded_records(self._pipeline, flow, frames.spark.table(flow.reads), rows)


class CaseFrames(Frames):
    """The DataFrames of a pipeline whose sources are files with the rows of a case."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        folder: Path,
        batches: Sequence[Mapping[str, Given]],
        count: int | None = None,
        *,
        is_stream: bool,
    ) -> None:
        super().__init__(pipeline, spark, PipelineState(folder / "state"), NO_BROKER)
        self._folder = folder
        self._batches, self._count = batches, count
        self._is_stream = is_stream
        self._read_files: dict[str, DataFrame] = {}
        for name, value in pipeline.spark.items():
            if name.startswith("spark.sql.") and self.spark.conf.isModifiable(name):
                self.spark.conf.set(name, value)
        self.spark.conf.set(SHUFFLE_PARTITIONS, "1")

    def give(self, batches: Sequence[Mapping[str, Given]], count: int | None = None) -> None:
        """Other rows for the same DataFrames; of all batches, or of the first `count`."""
        self._batches, self._count = batches, count
        for source in self._pipeline.sources:
            if source.name in self._read_files:
                self._write(source)
                rows = self._read_files[source.name]
                if not rows.isStreaming:  # a stream looks for files by itself
                    rows._jdf.queryExecution().analyzed().refresh()

    def rows(self, source: Source, *, has_raw: bool = True) -> DataFrame:
        given = [batch.get(source.name) for batch in self._batches]
        if not source.is_stream and all(one is None for one in given):
            return self._own_rows(source)
        rows = self._files(source, is_stream=self._is_stream and source.is_stream)
        if source.kind == "topic":
            parsed = sources.parsed(self._pipeline, source, sources.raw_records(self._pipeline, source, rows))
            return keys.with_key(self._pipeline, source, parsed, sources.session_zone(self.spark))
        if source.has_bytes:
            return sources.parsed(self._pipeline, source, sources.raw_of_lines(source, rows))
        return sources.with_origin(rows, source.place) if source.is_stream else rows

    def _own_rows(self, source: Source) -> DataFrame:
        """A source that is read once and that the case gives no rows: its file in the pipeline's folder."""
        if source.kind == "files":
            return super().rows(source)
        raise PipelineError(
            f"sources.{source.name}: it is read from {source.kind}, and a case has none: give its rows, e.g. "
            f"'given: {{{source.name}: [...]}}'"
        )

    def _files(self, source: Source, *, is_stream: bool) -> DataFrame:
        schema = from_arrow_schema(self._write(source))
        reader = self.spark.readStream if is_stream else self.spark.read
        self._read_files[source.name] = reader.schema(schema).parquet(str(self._folder / source.name))
        return self._read_files[source.name]

    def _write(self, source: Source) -> pyarrow.Schema:
        """Write the rows of a source, one file for a batch. A stream recognises read files by name and time."""
        given = [batch.get(source.name) for batch in self._batches]
        tables = tables_of(self._pipeline, source, given)
        folder = self._folder / source.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for number, table in enumerate(tables[: self._count]):
            path = folder / f"{number:06d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (FIRST_FILE_AT + number, FIRST_FILE_AT + number))
        return tables[0].schema


class _Ended(Exception):
    """A row ended the pipeline."""

    def __init__(self, cause: PipelineError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def standing_alone(pipeline: Pipeline, folder: Path) -> Pipeline:
    """The pipeline with targets that are not there and, where a schema is known, without its registry."""
    flows = tuple(_alone(flow, folder) for flow in pipeline.flows)
    own = tuple(
        replace(one, wire=PLAIN) if one.wire == CONFLUENT and one.schema is not None else one
        for one in pipeline.sources
    )
    return replace(pipeline, sources=own, flows=flows)


def _alone(flow: Flow, folder: Path) -> Flow:
    if flow.delta is not None:
        return replace(flow, delta=str(folder / "targets" / flow.name))
    if flow.iceberg is not None:
        return replace(flow, catalog={"warehouse": str(folder / "targets" / flow.name)})
    if flow.wire == CONFLUENT and flow.registers and (flow.format != "protobuf" or flow.schema is not None):
        return replace(flow, wire=PLAIN)
    return flow


def _collected(rows: DataFrame) -> list[dict[str, Any]]:
    """Rows as Python has them. A row that must not be ends the trial."""
    try:
        found = rows.select("*").toArrow()  # planned anew: a plan keeps the files that it was made with
    except Exception as error:
        raise _Ended(failure("", str(error))) from None
    return [{name: _plain(value) for name, value in row.items()} for row in found.to_pylist()]


def _as_given(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record that a flow writes, for a source that reads it."""
    return {cases.KEY: record.get("key"), cases.VALUE: record.get("value"), **_headers(record)}


def _plain(value: Any) -> Any:
    """Arrow's maps are lists of pairs."""
    if isinstance(value, list) and value and all(isinstance(one, tuple) and len(one) == 2 for one in value):
        return {name: _plain(one) for name, one in value}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return {name: _plain(one) for name, one in value.items()} if isinstance(value, dict) else value


# --- records


def decoded_records(
    pipeline: Pipeline, flow: Flow, view: DataFrame, records: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The columns of records that a flow writes, as a reader would decode them, and `_key`."""
    values = [as_bytes(one.get("value")) for one in records]
    if flow.format in ("string", "raw"):
        own: list[Any] = [{"value": value if flow.format == "raw" else _text(value)} for value in values]
    elif flow.format == "json" and flow.wire != CONFLUENT:
        own = [None if value is None else json.loads(value) for value in values]
    else:
        own = _decoded(pipeline, flow, view, values)
    return [
        {**(row if isinstance(row, dict) else {cases.VALUE: row}), cases.KEY: _text(as_bytes(one.get("key"))),
         **_headers(one), **_topic(one)}
        for row, one in zip(own, records, strict=True)
    ]  # fmt: skip


def _decoded(pipeline: Pipeline, flow: Flow, view: DataFrame, values: list[bytes | None]) -> list[Any]:
    columns = view.select(*targets.written_columns(view)).schema
    schema = flow.schema
    if schema is None and flow.format == "avro":
        from ottla.converters.avro_schema import avro_schema_of

        schema = json.dumps(avro_schema_of(pyarrow.struct(list(to_arrow_schema(columns, timezone="UTC")))))
    elif schema is None and flow.format in ("csv", "json"):
        schema = columns.toDDL()
    reader = Source(
        flow.name, topic=flow.topic, format=flow.format, schema=schema, message=flow.message, wire=flow.wire
    )
    decoder = converters.source_decoder(pipeline, reader, sources.session_zone(view.sparkSession))
    rows, errors = decoder.decode(pyarrow.array(values, pyarrow.binary()))
    failed = next((one for one in errors.to_pylist() if one is not None), None)
    if failed is not None:
        raise PipelineError(f"flows.{flow.name}: what it writes cannot be read back: {failed}")
    return [_plain(row) for row in rows.to_pylist()]


def _headers(record: Mapping[str, Any]) -> dict[str, Any]:
    if not record.get("headers"):
        return {}
    return {cases.HEADERS: {one["key"]: _text(one["value"]) for one in record["headers"]}}


def _topic(record: Mapping[str, Any]) -> dict[str, Any]:
    """The topic of a record, if each row of its flow names one."""
    return {cases.TOPIC: record["topic"]} if "topic" in record else {}


def _text(value: bytes | None) -> Any:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


def _letter(record: Mapping[str, Any]) -> dict[str, Any]:
    headers = {one["key"]: _text(one["value"]) for one in record["headers"]}
    return {
        "source": headers.get(SOURCE_HEADER),
        "rule": headers.get(RULE_HEADER),
        "error": headers.get(EXCEPTION_MESSAGE),
        "key": _text(record["key"]),
        "value": _text(record["value"]),
    }
