"""The targets of a pipeline: a DataFrame written to a topic, to files or to a table of a database.

A topic is written exactly once (the connector's sink), files too (Spark's file sink keeps a log of its own beside
them). A database is appended to batch by batch: a batch that was written when the pipeline died is written again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ottla.spark.pipelines import batch_sink
from ottla.spark.pipelines.definition import Flow, Pipeline, PipelineError
from ottla.spark.pipelines.expectations import first_line
from ottla.spark.pipelines.jdbc import driver

OUT = "written"


def as_records(flow: Flow, rows: DataFrame) -> DataFrame:
    """Rows as records of a topic: key and value."""
    columns = written_columns(rows)
    where = f"flows.{flow.name}"
    if flow.format in ("string", "raw"):
        if "value" not in columns:
            raise PipelineError(
                f"{where}: format {flow.format} writes the column value; there are {', '.join(columns)}"
            )
        value = F.col("value").cast("string" if flow.format == "string" else "binary")
    else:
        row = F.struct(*columns)
        value = F.to_json(row) if flow.format == "json" else F.to_csv(row)
    try:
        key = F.expr(flow.key).cast("string") if flow.key is not None else F.lit(None).cast("string")
        return rows.select(key.alias("key"), value.alias("value"))
    except Exception as error:
        raise PipelineError(f"{where}.key: {first_line(error)}") from None


def written_columns(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if not name.startswith("_")]


def prepare(flow: Flow, rows: DataFrame) -> DataFrame:
    """What is written, and counted as it is."""
    if flow.kind == "topic":
        return as_records(flow, rows).observe(OUT, F.count(F.lit(1)).alias(OUT))
    kept = rows.select(*written_columns(rows))
    for name in flow.partition_by:
        if name not in kept.columns:
            raise PipelineError(f"flows.{flow.name}.partition_by: there is no column {name}")
    return kept.observe(OUT, F.count(F.lit(1)).alias(OUT))


def start(
    pipeline: Pipeline, flow: Flow, prepared: DataFrame, broker: str, checkpoint: str, *, is_once: bool
) -> StreamingQuery:
    """Begin to write a stream."""
    writer = prepared.writeStream.queryName(f"{pipeline.name}.{flow.name}").outputMode(flow.mode)
    writer = writer.option("checkpointLocation", checkpoint)
    writer = writer.trigger(availableNow=True) if is_once else writer.trigger(processingTime=pipeline.trigger)
    if flow.kind == "topic":
        options = _topic_options(flow, broker)
        if flow.mode == "append":
            return writer.format("ottla").options(**options).start()

        def send(batch: DataFrame, _: int) -> None:
            batch.write.format(batch_sink.NAME).mode("append").options(**options).save()

        return writer.foreachBatch(send).start()
    if flow.kind == "files":
        assert flow.files is not None and flow.format is not None
        if flow.partition_by:
            writer = writer.partitionBy(*flow.partition_by)
        return writer.format(flow.format).options(**flow.options).start(pipeline.path(flow.files))

    def append(batch: DataFrame, _: int) -> None:
        write_table(flow, batch)

    return writer.foreachBatch(append).start()


def write_once(pipeline: Pipeline, flow: Flow, prepared: DataFrame, broker: str) -> None:
    """Write what is no stream."""
    if flow.kind == "topic":
        prepared.write.format("ottla").mode("append").options(**_topic_options(flow, broker)).save()
    elif flow.kind == "files":
        writer = prepared.write.format(flow.format or "parquet").mode("overwrite").options(**flow.options)
        writer.partitionBy(*flow.partition_by).save(pipeline.path(flow.files or ""))
    else:
        write_table(flow, prepared)


def _topic_options(flow: Flow, broker: str) -> dict[str, str]:
    assert flow.topic is not None
    return {"kafka.bootstrap.servers": broker, **flow.options, "topic": flow.topic}


def write_table(flow: Flow, rows: DataFrame) -> None:
    assert flow.jdbc is not None and flow.table is not None
    options = {"url": flow.jdbc, "dbtable": flow.table, **driver(flow.jdbc), **flow.options}
    rows.write.format("jdbc").mode("append").options(**options).save()
