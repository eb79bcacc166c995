"""The targets of a pipeline: a DataFrame written to a topic, to files or to a table.

Each is written exactly once: a topic by the connector's sink, files by a log of Spark's own beside them, a table
(Delta, Iceberg, a database) by the number of the batch, which is kept in the table or beside it and changes in the
same commit as the rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ottla.spark.pipelines import batch_sink, changes, converters, http_target, keys, table_flows
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import CONFLUENT, EXACTLY_ONCE, TABLE_KINDS, Flow, Pipeline, PipelineError
from ottla.spark.pipelines.expectations import first_line
from ottla.spark.pipelines.jdbc_changes import JdbcChanges
from ottla.spark.pipelines.jdbc_target import JdbcTarget
from ottla.spark.pipelines.text_forms import EXACT_CSV, MOMENTS
from ottla.spark.stream_writer import QUERY_ID
from ottla.spark.tables.table import open_table

OUT = "written"
MODE = "ottla.mode"
"""The mode of a query where it is not its flow's, as metadata of the column value."""
MODE_CHECK = "spark.sql.streaming.unsupportedOperationCheck"
_TEXT_OPTIONS = {"json": MOMENTS, "csv": EXACT_CSV}


def as_records(
    pipeline: Pipeline, flow: Flow, rows: DataFrame, *, may_change: bool, deleted: Column | None = None
) -> DataFrame:
    """Rows as records of a topic: key and value, and if the flow has them headers and topic. The value of a row that is
    deleted is null."""
    columns = written_columns(rows)
    where = f"flows.{flow.name}"
    if flow.format in ("string", "raw"):
        if "value" not in columns:
            raise PipelineError(
                f"{where}: format {flow.format} writes the column value; there are {', '.join(columns)}"
            )
        value = F.col("value").cast("string" if flow.format == "string" else "binary")
        if deleted is not None:
            value = F.when(~deleted, value)
    else:
        value = _converted(pipeline, flow, rows.select(*columns), may_change, deleted)
    key, headers = keys.key_column(pipeline, flow, rows, may_change=may_change), keys.headers_column(flow, rows)
    try:
        more = [] if headers is None else [headers.alias("headers")]
        more += [] if flow.to.expression is None else [_topic_of_row(flow).alias("topic")]
        return rows.select(key.alias("key"), value.alias("value"), *more)
    except Exception as error:
        raise PipelineError(f"{where}: {first_line(error)}") from None


def _topic_of_row(flow: Flow) -> Column:
    """The topic of each row. A row without one ends the flow: it would be lost."""
    topic = F.expr(flow.to.expression or "").cast("string")
    missing = F.lit(f"flow {flow.name}: topic.expression is null for a row")
    return F.coalesce(topic, F.raise_error(missing).cast("string"))


def _converted(
    pipeline: Pipeline, flow: Flow, rows: DataFrame, may_change: bool, deleted: Column | None = None
) -> Column:
    """The columns as one value."""
    row = F.struct(*(F.col(f"`{name}`") for name in rows.columns))
    if deleted is not None:
        row = F.when(~deleted, row)
    if flow.format in ("avro", "protobuf"):
        encoder = converters.flow_encoder(pipeline, flow, rows.schema, may_change=may_change)
        return converters.encoded(encoder, row)
    if flow.format == "csv":
        return F.to_csv(row, EXACT_CSV)
    if flow.wire != CONFLUENT:
        return F.to_json(row, MOMENTS)
    header = converters.json_header(pipeline, flow, rows.schema, may_change=may_change)
    return F.concat(F.lit(header), F.to_json(row, MOMENTS).cast("binary"))


def written_columns(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if not name.startswith("_")]


def prepare(pipeline: Pipeline, flow: Flow, rows: DataFrame, *, may_change: bool = True) -> DataFrame:
    """The rows to write, in the target's form, and counted. Schemas are registered and tables created, unless nothing
    may change."""
    _check_mode(flow, rows)
    if flow.kind == "topic":
        made = changed_records if flow.changes is not None else as_records
        records = made(pipeline, flow, rows, may_change=may_change)
        return records.observe(OUT, F.count(F.lit(1)).alias(OUT))
    if flow.kind == "http":
        bodies = http_target.calls(flow, rows, written_columns(rows))
        return bodies.observe(OUT, F.count(F.lit(1)).alias(OUT))
    if flow.changes is not None and not flow.changes.is_replaced:
        prepared = changes.prepare_changes(pipeline, flow, rows, may_change=may_change)
        return prepared.observe(OUT, F.count(F.lit(1)).alias(OUT))
    kept = rows.select(*written_columns(rows))
    for name in flow.partition_by:
        if name not in kept.columns:
            raise PipelineError(f"flows.{flow.name}.partition_by: there is no column {name}")
    if flow.kind in TABLE_KINDS:
        table_flows.prepare(pipeline, flow, kept, may_change=may_change)
    return kept.observe(OUT, F.count(F.lit(1)).alias(OUT))


def changed_records(pipeline: Pipeline, flow: Flow, rows: DataFrame, *, may_change: bool) -> DataFrame:
    """Changes as records of a topic: by their keys, null for a delete. With a sequence only the newest change of a
    key, which the query's state knows: then the query is one that updates."""
    made = changes.FlowChanges(flow, rows)
    keyed = replace(flow, key=flow.key or made.record_key())
    if not made.is_sequenced or flow.mode != "append":
        kept = made.plain_rows()
        return as_records(pipeline, keyed, kept, may_change=may_change, deleted=changes.deleted_keys())
    newest = made.newest_rows()
    _check_mode(replace(flow, mode="update"), newest)
    records = as_records(pipeline, keyed, newest, may_change=may_change, deleted=changes.deleted_keys())
    return records.withMetadata("value", {MODE: "update"})


def mode_of(flow: Flow, prepared: DataFrame) -> str:
    """The mode of the query that writes a flow."""
    known = prepared.schema["value"].metadata if flow.kind == "topic" else {}
    return str(known.get(MODE, flow.mode))


def _check_mode(flow: Flow, rows: DataFrame) -> None:
    """Spark refuses some queries in some modes at their start; this check asks Spark before anything runs."""
    if not rows.isStreaming or rows.sparkSession.conf.get(MODE_CHECK, "true") == "false":
        return
    jvm: Any = rows.sparkSession.sparkContext._jvm
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, flow.mode.capitalize())()
    try:
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
            rows._jdf.queryExecution().analyzed(), mode
        )
    except AnalysisException as error:
        raise PipelineError(f"flows.{flow.name}.mode: {first_line(error)}{_mode_advice(flow)}") from None


def _mode_advice(flow: Flow) -> str:
    if flow.mode == "complete":
        return ". 'complete' writes all groups again, and needs a GROUP BY"
    if flow.mode == "update":
        return ""
    other = "" if flow.kind == "files" else "; or say 'mode: update', which writes each change"
    return f". Groups are appended when they are final: group by a window of a source with a 'watermark'{other}"


def start(
    pipeline: Pipeline,
    flow: Flow,
    prepared: DataFrame,
    connection: Connection,
    checkpoint: str,
    *,
    is_once: bool,
    replaces: bool = False,
) -> StreamingQuery:
    """Begin to write a stream. With `replaces` the first batch of its query takes the place of all rows of a table."""
    writer = prepared.writeStream.queryName(f"{pipeline.name}.{flow.name}")
    writer = writer.outputMode(mode_of(flow, prepared))
    writer = writer.option("checkpointLocation", checkpoint)
    writer = writer.trigger(availableNow=True) if is_once else writer.trigger(processingTime=pipeline.trigger)
    if flow.kind == "topic":
        options = _topic_options(flow, connection)
        if mode_of(flow, prepared) == "append":
            return writer.format("ottla").options(**options).start()

        def send(batch: DataFrame, _: int) -> None:
            batch.write.format(batch_sink.NAME).mode("append").options(**options).save()

        return writer.foreachBatch(send).start()
    if flow.kind == "http":
        letters = {**connection.options, "topic": pipeline.dead_letters}

        def call(batch: DataFrame, batch_id: int) -> None:
            http_target.send(pipeline, flow, batch, batch_id, letters)

        return writer.foreachBatch(call).start()
    if flow.kind == "spark_format":
        if flow.partition_by:
            writer = writer.partitionBy(*flow.partition_by)
        return writer.format(flow.spark_format or "").options(**flow.options).start()
    if flow.kind == "files":
        assert flow.files is not None and flow.format is not None
        if flow.partition_by:
            writer = writer.partitionBy(*flow.partition_by)
        return writer.format(flow.format).options(**_file_options(flow)).start(pipeline.path(flow.files))

    if flow.kind in TABLE_KINDS:
        settings = table_flows.table_settings(pipeline, flow)

        def commit(batch: DataFrame, batch_id: int) -> None:
            is_first = replaces and open_table(settings).last_batch(_query_id(batch)) is None
            _write_table(pipeline, flow, batch, replaces=is_first)
            if flow.compact_every is not None and (batch_id + 1) % flow.compact_every == 0:
                open_table(settings).compact()

        return writer.foreachBatch(commit).start()

    target = database(flow, prepared)

    def append(batch: DataFrame, batch_id: int) -> None:
        target.write(batch, _query_id(batch), batch_id, replaces=replaces)

    return writer.foreachBatch(append).start()


def _query_id(batch: DataFrame) -> str:
    query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    assert query_id is not None, "Spark names the query of a batch in the thread that runs it"
    return query_id


def _file_options(flow: Flow) -> dict[str, str]:
    return {**_TEXT_OPTIONS.get(flow.format or "", {}), **flow.options}


def write_once(pipeline: Pipeline, flow: Flow, prepared: DataFrame, connection: Connection) -> None:
    """Write rows that are no stream."""
    if flow.kind == "topic":
        prepared.write.format("ottla").mode("append").options(**_topic_options(flow, connection)).save()
    elif flow.kind == "files":
        writer = prepared.write.format(flow.format or "parquet").mode("overwrite").options(**_file_options(flow))
        writer.partitionBy(*flow.partition_by).save(pipeline.path(flow.files or ""))
    elif flow.kind == "http":
        raise PipelineError(f"flows.{flow.name}.http: only rows of a stream are sent, and {flow.reads} is read once")
    elif flow.kind == "spark_format":
        plain = prepared.write.format(flow.spark_format or "").mode("append").options(**flow.options)
        plain.partitionBy(*flow.partition_by).save()
    elif flow.kind in TABLE_KINDS:
        _write_table(pipeline, flow, prepared)
    elif flow.changes is not None:
        database(flow, prepared).write(prepared, f"once-{flow.name}-{uuid4()}", 0)
    else:
        JdbcTarget(prepared.sparkSession, flow).append(prepared)


def try_rows(flow: Flow, prepared: DataFrame) -> None:
    """Do what writing rows that are no stream would do, and leave the target as it is."""
    if flow.kind == "jdbc" and flow.guarantee == EXACTLY_ONCE:
        target, query_id = database(flow, prepared), f"try-{uuid4()}"
        try:
            target.write(prepared, query_id, 0, is_kept=False)
        finally:
            target.forget(query_id)
    else:
        prepared.write.format("noop").mode("overwrite").save()


def _write_table(pipeline: Pipeline, flow: Flow, rows: DataFrame, *, replaces: bool = False) -> None:
    """Append rows to a Delta or Iceberg table, apply them as changes, or replace its rows with them."""
    if flow.changes is not None and not flow.changes.is_replaced:
        changes.merge_batch(pipeline, flow, rows, replaces=replaces)
        return
    settings = table_flows.table_settings(pipeline, flow)
    table_flows.append(settings, rows, replaces=replaces or flow.changes is not None)


def database(flow: Flow, prepared: DataFrame) -> JdbcTarget:
    """The table of a flow in a database."""
    if flow.changes is None or flow.changes.is_replaced:
        return JdbcTarget(prepared.sparkSession, flow)
    return JdbcChanges(prepared.sparkSession, flow, changes.rules_of(prepared))


def _topic_options(flow: Flow, connection: Connection) -> dict[str, str]:
    named = {} if flow.topic is None else {"topic": flow.topic}
    return {**connection.options, **flow.options, **named}
