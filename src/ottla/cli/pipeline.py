"""`ottla pipeline init|run|dry-run|status|stop|letters|redrive|compact NAME`: data pipelines on Spark."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.output import JSON, TABLE, Column, duration_text, emit, notice, table_lines, write_document
from ottla.cli.session import (
    DEFAULT_BROKER,
    HELP,
    MISUSED,
    CommandError,
    add_subcommand,
    file_settings,
    group_parser,
    guarded,
    key_value,
)

if TYPE_CHECKING:
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import Pipeline
    from ottla.spark.pipelines.run import PipelineRun
    from ottla.spark.pipelines.state import PipelineState

COMMAND = "ottla pipeline"
STOP_TIMEOUT_S = 60.0
SHOWN_EVERY_S = 5.0
EXAMPLES = """\
  ottla pipeline init clean                     make the folder pipelines/clean to begin with
  ottla pipeline dry-run clean                  check everything, run nothing
  ottla pipeline run clean                      until Ctrl-C or 'ottla pipeline stop clean'
  ottla pipeline run clean --once               what is there now, then end
  ottla pipeline run clean --master spark://host:7077
  ottla pipeline letters clean                  the rows that were put aside, and why
  ottla pipeline redrive clean                  send them through the pipeline again
"""
FLOW_COLUMNS = [
    Column("flow", "FLOW"),
    Column("target", "TARGET"),
    Column("state", "STATE"),
    Column("rows_in", "IN"),
    Column("in_per_second", "IN/S", lambda rate: f"{rate:,.0f}"),
    Column("rows_out", "OUT"),
    Column("out_per_second", "OUT/S", lambda rate: f"{rate:,.0f}"),
    Column("lag", "LAG"),
    Column("batch_ms", "BATCH", duration_text),
    Column("late", "LATE"),
]
SOURCE_COLUMNS = [
    Column("source", "SOURCE"),
    Column("rows", "ROWS"),
    Column("kept", "KEPT"),
    Column("dropped", "DROPPED"),
    Column("letters", "DEAD LETTERS"),
    Column("failed", "FAILED RULES", lambda rules: ", ".join(f"{name}: {count}" for name, count in rules.items())),
]


def parser() -> argparse.ArgumentParser:
    made, commands = group_parser(COMMAND, "Data pipelines on Spark: a folder with a pipeline.yml each.", EXAMPLES)
    summaries = {
        "init": "make a pipeline to begin with",
        "run": "run a pipeline and show how its flows do",
        "dry-run": "check a pipeline: its file, SQL, columns and topics; nothing is run",
        "status": "how a pipeline does, or did when it last ran",
        "stop": "end a pipeline that runs, in this terminal or elsewhere",
        "letters": "the rows that were put aside, with the rule and the error",
        "compact": "make large files of the small ones in the Delta and Iceberg tables of a pipeline",
        "redrive": "send rows that were put aside through the same pipeline again",
    }
    for name, summary in summaries.items():
        one = add_subcommand(commands, name, summary, f"  ottla pipeline {name} orders")
        one.add_argument("name", metavar="NAME", help="a folder in --folder, or the path of one")
        one.add_argument("--folder", default="pipelines", metavar="DIR", help="where pipelines are (./pipelines)")
        if name == "init":
            continue
        one.add_argument("--state", metavar="DIR", help="checkpoints and the like (.state in the pipeline's folder)")
        one.add_argument(
            "--set", dest="variables", metavar="NAME=VALUE", type=key_value, action="append", default=[],
            help="a value for ${NAME} in pipeline.yml; may be repeated",
        )  # fmt: skip
        if name in ("run", "dry-run"):
            one.add_argument("--master", default="local[*]", help="where Spark runs (local[*]; e.g. spark://HOST:PORT)")
        if name == "run":
            one.add_argument("--once", action="store_true", help="end when everything that is there has been read")
        if name == "redrive":
            one.add_argument(
                "--file", metavar="FILE", help="repaired letters, as 'ottla pipeline letters -o json' prints them"
            )
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    return guarded(f"{COMMAND} {options.command}", lambda: _run(options), options.broker)


def _run(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.session import SPARK_ADVICE, has_spark

    if options.command == "init":
        return _init(options)
    if not has_spark():
        raise CommandError(SPARK_ADVICE)
    from ottla.converters.errors import ConverterError
    from ottla.spark.pipelines.definition import PipelineError

    commands = {
        "run": _run_pipeline, "dry-run": _dry_run, "status": _status, "stop": _stop,
        "letters": _letters, "redrive": _redrive, "compact": _compact,
    }  # fmt: skip
    try:
        pipeline, state, connection = _opened(options)
        return commands[options.command](options, pipeline, state, connection)
    except (PipelineError, ConverterError) as error:
        raise CommandError(f"{options.name}: {error}") from None


def _opened(options: argparse.Namespace) -> tuple[Pipeline, PipelineState, Connection]:
    """The pipeline that is named, its state, and how its cluster is reached: --broker, the file's, the default."""
    from ottla.converters.registry import RegistrySettings
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import load_pipeline
    from ottla.spark.pipelines.state import FOLDER, PipelineState

    folder = _folder(options)
    properties = file_settings(options.command_config)
    registry = RegistrySettings.parse(properties)
    pipeline = load_pipeline(folder, {**os.environ, **dict(options.variables)}, registry)
    state = PipelineState(Path(options.state).resolve() if options.state else pipeline.folder / FOLDER)
    is_given = options.broker != DEFAULT_BROKER
    broker = options.broker if is_given or pipeline.broker is None else pipeline.broker
    return pipeline, state, Connection.of(broker, properties)


def _folder(options: argparse.Namespace) -> Path:
    given, folder = Path(options.name), Path(options.folder)
    if given.is_absolute() or len(given.parts) > 1:
        return given
    return folder / given


# --- init


PIPELINE_YML = """\
# {name}: what comes in, what is expected of it, where it goes. 'ottla pipeline dry-run {name}' checks it.

sources:
  events:
    topic: events                   # or files: FOLDER, jdbc: URL with table: NAME, delta: FOLDER, iceberg: SPACE.TABLE
    format: json                    # json, csv, string, raw; avro and protobuf with 'schema: FILE' or a registry
    schema: id bigint, name string, amount double
    expect:
      has an id: {{rule: id is not null, action: quarantine}}     # warn, drop, quarantine, fail
      amount is positive: {{rule: amount > 0, action: drop}}

flows:
  totals:                           # the view of transformations/totals.sql
    topic: totals                   # or files: FOLDER, jdbc: URL with table: NAME, delta: FOLDER, iceberg: SPACE.TABLE
    key: name
    mode: update

# A table of all events beside the topic, and records with a registered schema:
#
#   history:
#     from: events
#     delta: tables/events          # or iceberg: shop.events
#     partition_by: [name]
#     compact_every: 100            # batches; 'ottla pipeline compact {name}' does it at once
#     evolve: true                  # new columns are added to the table
#
#   registered:
#     from: events
#     topic: events.avro
#     format: avro                  # the schema of the columns is registered as events.avro-value
#
# registry:
#   url: http://127.0.0.1:8081
#   user: ${{REGISTRY_USER:-}}
#   password: ${{REGISTRY_PASSWORD:-}}
"""
TOTALS_SQL = "select name, count(*) as events, sum(amount) as amount\nfrom events\ngroup by name\n"


def _init(options: argparse.Namespace) -> int:
    folder = _folder(options)
    if (folder / "pipeline.yml").exists():
        raise CommandError(f"{folder / 'pipeline.yml'} is there already: it is left as it is", MISUSED)
    (folder / "transformations").mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yml").write_text(PIPELINE_YML.format(name=folder.name))
    (folder / "transformations" / "totals.sql").write_text(TOTALS_SQL)
    (folder / ".gitignore").write_text(".state/\n")
    print(f"made {folder}: edit pipeline.yml and transformations/, then 'ottla pipeline dry-run {options.name}'")
    return 0


# --- run and dry-run


def _session(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState) -> Any:
    from ottla.spark.pipelines.session import new_session

    notice(f"starting Spark on {options.master} ...")
    return new_session(
        f"ottla-{pipeline.name}",
        state.log,
        master=options.master,
        settings=pipeline.spark,
        packages=pipeline.packages,
        jars=[pipeline.path(jar) for jar in pipeline.jars],
        is_short=getattr(options, "once", True),
    )


def _dry_run(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    from ottla.spark.pipelines.session import end_session

    spark = _session(options, pipeline, state)
    try:
        from ottla.spark.pipelines.run import PipelineRun

        run = PipelineRun(pipeline, spark, state, connection)
        run.prepare(makes_topics=False)
        columns = run.columns()
    finally:
        end_session(spark)
    rows = [
        {"flow": flow.name, "from": flow.reads, "target": flow.target, "columns": columns[flow.name]}
        for flow in pipeline.flows
    ]
    heads = [Column("flow", "FLOW"), Column("from", "FROM"), Column("target", "TARGET"), Column("columns", "COLUMNS")]
    emit(options.output, rows, heads)
    return 0


def _run_pipeline(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    from ottla.spark.pipelines.session import end_session

    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    state.acquire()
    spark = None
    try:
        spark = _session(options, pipeline, state)
        from ottla.spark.pipelines.run import PipelineRun, run_pipeline

        run = PipelineRun(pipeline, spark, state, connection)
        display = ProgressDisplay()
        try:
            run_pipeline(run, state, stopped, display.show, is_once=options.once)
        finally:
            display.end(run, options.output)
    finally:
        if spark is not None:
            end_session(spark)
        state.release()
    return 0


class ProgressDisplay:
    """The table of flows: redrawn in place on a terminal, a line per flow now and then elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._line_count = 0
        self._next_at = 0.0

    def show(self, run: PipelineRun) -> None:
        now = time.monotonic()
        if not self._is_terminal and now < self._next_at:
            return
        self._next_at = now + SHOWN_EVERY_S
        lines = status_lines(run.status("running"))
        self._erase()
        print("\n".join(lines), file=sys.stderr, flush=True)
        self._line_count = len(lines)

    def _erase(self) -> None:
        if self._is_terminal and self._line_count:
            sys.stderr.write(f"\x1b[{self._line_count}A\x1b[J")

    def end(self, run: PipelineRun, output: str) -> None:
        """The last word, on stdout."""
        self._erase()
        self._line_count = 0
        show_status(run.status("ended"), output)


def status_lines(status: dict[str, Any]) -> list[str]:
    """Flows and, where there are rules, what came of them."""
    lines = _lines(FLOW_COLUMNS, status["flows"])
    if status["sources"]:
        lines += ["", *_lines(SOURCE_COLUMNS, status["sources"])]
    return lines


def _lines(columns: list[Column], rows: list[dict[str, Any]]) -> list[str]:
    cells = [
        [
            row[column.key] if column.show is None or row[column.key] is None else column.show(row[column.key])
            for column in columns
        ]
        for row in rows
    ]
    return list(table_lines([column.head for column in columns], cells))


def show_status(status: dict[str, Any], output: str) -> None:
    if output != TABLE:
        write_document(output, status)
    else:
        print("\n".join(status_lines(status)))


# --- status, stop


def _status(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    status = state.read_status()
    pid = state.runner()
    if status is None:
        raise CommandError(f"{pipeline.name} has never run here ({state.folder} has no status)")
    if pid is None and status["state"] == "running":
        status["state"] = "died"
    status["pid"] = pid
    if options.output == TABLE:
        since = duration_text((time.time() - status["updated_at"]) * 1000)
        where = f" as process {pid}" if pid is not None else ""
        print(f"{pipeline.name}: {status['state']}{where}, {since} ago")
        if status["cause"]:
            print(f"  {status['cause']}")
        print()
    show_status(status, options.output)
    return 0


def _stop(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    if not state.stop(STOP_TIMEOUT_S):
        notice(f"{pipeline.name} does not run")
        return 0
    notice(f"{pipeline.name} has ended")
    return 0


def _compact(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    from ottla.spark.pipelines.table_flows import compact

    done = compact(pipeline)
    if not done:
        raise CommandError(f"{pipeline.name} writes no Delta or Iceberg table")
    rows = [{"flow": name, "removed": one.removed_count, "added": one.added_count} for name, one in done.items()]
    heads = [Column("flow", "FLOW"), Column("removed", "SMALL FILES"), Column("added", "LARGE FILES")]
    emit(options.output, rows, heads)
    return 0


# --- dead letters


def _letters(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    import json

    from ottla.spark.pipelines.redrive import read_letters

    for letter in read_letters(pipeline, connection):
        document = letter.to_json()
        if options.output == JSON:
            print(json.dumps(document, ensure_ascii=False))
        elif options.output == TABLE:
            value = document["value"] if document["value"] is not None else document["value_base64"]
            print(f"{letter.place}  {letter.rule}\n  {letter.error}\n  {value}")
        else:
            write_document(options.output, document)
    return 0


def _redrive(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    from ottla.spark.pipelines.redrive import redrive

    count = redrive(pipeline, state, connection, options.file)
    what = "letters were" if count != 1 else "letter was"
    notice(f"{count} {what} sent back to {pipeline.name}; they go through it when it runs")
    return 0
