"""`ottla pipeline quality NAME` shows what the rules of a pipeline found in its last run, with the trend of the runs
before; `ottla pipeline schema NAME SOURCE` suggests a schema from records."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.output import TABLE, Column, emit, notice, write_document
from ottla.cli.session import MISUSED, CommandError

if TYPE_CHECKING:
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import Outline
    from ottla.spark.pipelines.state import PipelineState


def show_quality(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
    from ottla.spark.pipelines.quality_report import html_page, rows_of, spark_line

    history = state.read_quality()
    if history is None or not history["runs"]:
        raise CommandError(
            f"nothing was measured of {pipeline.name} yet: it has no 'expect', or has not run ({state.folder})"
        )
    if options.html is not None:
        Path(options.html).write_text(html_page(history), encoding="utf-8")
        notice(f"wrote {options.html}")
        return 0
    if options.output != TABLE:
        write_document(options.output, history["runs"][-1])
        return 0
    columns = [
        Column("subject", "OF"),
        Column("rule", "RULE"),
        Column("action", "ACTION"),
        Column("expected", "EXPECTED"),
        Column("measured", "MEASURED"),
        Column("result", "RESULT"),
        Column("trend", "LAST RUNS", spark_line),
    ]
    emit(options.output, rows_of(history), columns)
    return 0


def suggest_schema(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
    from ottla.spark.pipelines.schema_suggestion import suggestion
    from ottla.spark.pipelines.topic_views import samples

    topic = pipeline.source_topics.get(options.source)
    if topic is None:
        known = ", ".join(pipeline.source_topics) or "none"
        raise CommandError(
            f"{pipeline.name} has no source {options.source} that is one topic; such sources: {known}", MISUSED
        )
    status = state.read_status() or {}
    counted: dict[str, Any] = next((one for one in status.get("sources", ()) if one["source"] == options.source), {})
    found = suggestion(samples(connection, topic), counted.get("unexpected", {}))
    if found is None:
        raise CommandError(f"the newest records of {topic} are no JSON objects, or there are none")
    if options.output != TABLE:
        write_document(options.output, found.to_json())
        return 0
    heads = [
        Column("name", "FIELD"),
        Column("type", "TYPE"),
        Column("seen", "IN RECORDS"),
        Column("nulls", "NULLS"),
        Column("types", "TYPES SEEN"),
        Column("drift", "NEW, COUNTED"),
    ]
    emit(options.output, found.rows, heads)
    print(f"\nfrom {found.sample_count} records:\n\n    schema: {found.ddl}")
    return 0
