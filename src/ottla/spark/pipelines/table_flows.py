"""Delta and Iceberg tables of a pipeline: where they are, how flows write them and sources read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from ottla.spark.pipelines.definition import TABLE_KINDS, Flow, Pipeline, PipelineError, Source
from ottla.spark.pipelines.expectations import first_line
from ottla.spark.pipelines.failures import failure
from ottla.spark.tables.data_source import NAME, REPLACES, SETTINGS
from ottla.spark.tables.table import (
    DELTA,
    Compacted,
    NoTable,
    TableError,
    TableSettings,
    check_table,
    open_table,
    prepare_table,
)

ICEBERG_FOLDER = "iceberg"


def table_settings(pipeline: Pipeline, one: Flow | Source) -> TableSettings:
    """Where the table of a flow or a source is."""
    kind = one.kind
    place = pipeline.path(one.delta or "") if kind == DELTA else one.iceberg or ""
    catalog = {} if kind == DELTA else _catalog(pipeline, one)
    if isinstance(one, Source):
        return TableSettings(kind, place, catalog, one.options, starting=one.starting)
    return TableSettings(kind, place, catalog, one.options, one.partition_by, one.evolves)


def _catalog(pipeline: Pipeline, one: Flow | Source) -> dict[str, str]:
    """The catalog that is named; without one, a file in the pipeline's folder."""
    if "uri" in one.catalog or "type" in one.catalog:
        return dict(one.catalog)
    warehouse = one.catalog.get("warehouse", ICEBERG_FOLDER)
    is_remote = "://" in warehouse
    folder = Path(pipeline.path(ICEBERG_FOLDER if is_remote else warehouse))
    folder.mkdir(parents=True, exist_ok=True)
    place = warehouse if is_remote else f"file://{folder}"
    own = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": place}
    return {**one.catalog, **own}


def prepare(pipeline: Pipeline, flow: Flow, rows: DataFrame, *, may_change: bool) -> None:
    """Make the table of a flow ready for its rows; or only look whether it would be."""
    settings = table_settings(pipeline, flow)
    schema = table_schema(flow, rows)
    with explained(f"flows.{flow.name}"):
        if may_change:
            prepare_table(settings, schema)
        else:
            check_table(settings, schema)


def table_schema(flow: Flow, rows: DataFrame) -> pyarrow.Schema:
    """The columns of rows as a table would have them."""
    for field in rows.schema.fields:
        try:
            to_arrow_type(field.dataType, timezone="UTC")
        except PySparkException:
            raise PipelineError(
                f"flows.{flow.name}: the column {field.name} is of the type {field.dataType.simpleString()}, which a "
                f"table does not have: cast({field.name} as string) in the view"
            ) from None
    return to_arrow_schema(rows.schema, timezone="UTC")


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Turns an error of a table, its catalog or its store into one sentence, with its kind."""
    try:
        yield
    except PipelineError:
        raise
    except TableError as error:
        raise failure(where, str(error), cause=str(error), default=PipelineError) from None
    except Exception as error:
        text = f"{type(error).__name__}: {first_line(error)}"
        raise failure(where, f"{text}\n{error}", cause=text) from None


def append(settings: TableSettings, rows: DataFrame, *, replaces: bool = False) -> None:
    """Write rows as one commit of the table, beside those it has or in their place."""
    writer = rows.write.format(NAME).option(SETTINGS, settings.to_json())
    writer.option(REPLACES, str(replaces).lower()).mode("append").save()


def table_rows(spark: SparkSession, pipeline: Pipeline, source: Source) -> DataFrame:
    """The rows of a table, or the stream of appended rows."""
    settings = table_settings(pipeline, source)
    with explained(f"sources.{source.name}"):
        try:
            open_table(settings)
        except NoTable as error:
            own = [flow.name for flow in pipeline.flows if getattr(flow, source.kind) == getattr(source, source.kind)]
            made = f"; the flow {own[0]} makes it: run it in a pipeline of its own first" if own else ""
            raise PipelineError(f"sources.{source.name}: {error}{made}") from None
    reader = spark.readStream if source.is_stream else spark.read
    return reader.format(NAME).option(SETTINGS, settings.to_json()).load()


def compact(pipeline: Pipeline) -> dict[str, Compacted]:
    """Compact the tables that a pipeline writes; returns the result by flow."""
    done = {}
    for flow in pipeline.flows:
        if flow.kind in TABLE_KINDS:
            with explained(f"flows.{flow.name}"):
                done[flow.name] = open_table(table_settings(pipeline, flow)).compact()
    return done
