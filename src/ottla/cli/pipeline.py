"""`ottla pipeline ACTION NAME`: data pipelines on Spark; `ottla pipeline --help` has the actions."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli import pipeline_observers
from ottla.cli.output import FORMATS, JSON, TABLE, Column, duration_text, emit, notice, table_lines, write_document
from ottla.cli.pipeline_cases import add_test_options, test_pipelines
from ottla.cli.pipeline_changes import add_refresh_options, refresh_flow, show_history, show_plan
from ottla.cli.pipeline_graph import GRAPH_EXAMPLES, GRAPH_OUTPUTS, show_graph
from ottla.cli.pipeline_quality import show_quality, suggest_schema
from ottla.cli.pipeline_view import LiveView
from ottla.cli.session import (
    HELP,
    INTERRUPTED,
    MISUSED,
    CommandError,
    add_subcommand,
    choose_cluster,
    file_settings,
    group_parser,
    guarded,
    key_value,
    with_ports,
)
from ottla.cli.spark_errors import EXIT_CODES, command_error

if TYPE_CHECKING:
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import Outline, Pipeline
    from ottla.spark.pipelines.run import PipelineRun
    from ottla.spark.pipelines.state import PipelineState

COMMAND = "ottla pipeline"
WAITED_LINE_S = 10.0
STOP_TIMEOUT_S = 60.0
SHOWN_EVERY_S = 5.0
RESUMABLE = ("paused", "failed", "backing off")
EXAMPLES = """\
  ottla pipeline init clean                     make the folder pipelines/clean to begin with
  ottla pipeline test clean                     run the cases in its tests/*.yml, without a broker
  ottla pipeline dry-run clean                  check everything, run nothing
  ottla pipeline run clean                      until Ctrl-C or 'ottla pipeline stop clean'
  ottla pipeline run clean --once               what is there now, then end
  ottla pipeline run clean --master spark://host:7077
  ottla pipeline graph clean -o svg > clean.svg
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
    Column("unexpected", "NEW FIELDS", lambda fields: ", ".join(f"{name}: {count}" for name, count in fields.items())),
]


def parser() -> argparse.ArgumentParser:
    made, commands = group_parser(
        COMMAND, "Data pipelines on Spark: a folder with a pipeline.yml each.", f"{EXAMPLES}\n{EXIT_CODES}"
    )
    summaries = {
        "init": "make a pipeline to begin with",
        "test": "run the cases of pipelines (tests/*.yml): rows in, expected rows out; without a broker",
        "run": "run a pipeline and show how its flows do",
        "dry-run": "check a pipeline: its file, SQL, columns, topics, and what changes mean; nothing is run",
        "refresh": "read all again for one flow and replace what it has written",
        "history": "what ran when with which definition, and what came of it",
        "status": "how a pipeline does, or did when it last ran",
        "stop": "end a pipeline that runs, in this terminal or elsewhere",
        "quality": "what the rules found in the last run, with the trend of the runs before",
        "schema": "suggest a schema for a source, from its newest records",
        "resume": "begin a flow again that is paused or has failed, in a pipeline that runs",
        "letters": "the rows that were put aside, with the rule and the error",
        "webhook": "take HTTP requests as records of a source's topic, until Ctrl-C",
        "graph": "draw what reads what: sources, views, flows",
        "compact": "make large files of the small ones in the Delta and Iceberg tables of a pipeline",
        "redrive": "send rows that were put aside through the same pipeline again",
    }
    for name, summary in summaries.items():
        outputs = GRAPH_OUTPUTS if name == "graph" else FORMATS
        examples = GRAPH_EXAMPLES if name == "graph" else f"  ottla pipeline {name} orders\n\n{EXIT_CODES}"
        one = add_subcommand(commands, name, summary, examples, outputs)
        if name == "test":
            one.add_argument("name", metavar="NAME", nargs="?", help="a pipeline; without it all that have cases")
        else:
            one.add_argument("name", metavar="NAME", help="a folder in --folder, or the path of one")
        one.add_argument("--folder", default="pipelines", metavar="DIR", help="where pipelines are (./pipelines)")
        if name == "init":
            continue
        if name == "schema":
            one.add_argument("source", metavar="SOURCE", help="a source of the pipeline that is a topic")
        if name == "quality":
            one.add_argument("--html", metavar="FILE", help="write the report as one HTML file")
        if name == "resume":
            one.add_argument("flow", metavar="FLOW", help="a flow of the pipeline, or dead_letters")
        if name == "test":
            add_test_options(one)
            continue
        one.add_argument("--state", metavar="DIR", help="checkpoints and the like (.state in the pipeline's folder)")
        one.add_argument(
            "--set", dest="variables", metavar="NAME=VALUE", type=key_value, action="append", default=[],
            help="a value for ${NAME} in pipeline.yml; may be repeated",
        )  # fmt: skip
        if name == "refresh":
            add_refresh_options(one)
        if name in ("run", "dry-run", "refresh"):
            one.add_argument("--master", default="local[*]", help="where Spark runs (local[*]; e.g. spark://HOST:PORT)")
        if name == "run":
            one.add_argument("--once", action="store_true", help="end when everything that is there has been read")
            pipeline_observers.add_options(one)
        if name == "redrive":
            one.add_argument(
                "--file", metavar="FILE", help="repaired letters, as 'ottla pipeline letters -o json' prints them"
            )
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    return guarded(f"{COMMAND} {options.command}", lambda: _run(options), options)


def _run(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.session import SPARK_ADVICE, has_spark

    if options.command == "init":
        return _init(options)
    if not has_spark():
        raise CommandError(SPARK_ADVICE)
    if options.command == "test":
        return test_pipelines(options, _existing_folder, _opened)
    from ottla.spark.pipelines.definition import Pipeline
    from ottla.spark.pipelines.redaction import Redaction

    commands = {
        "run": _run_pipeline, "dry-run": _dry_run, "status": _status, "stop": _stop,
        "webhook": _webhook, "letters": _letters, "redrive": _redrive, "compact": _compact, "resume": _resume,
        "history": show_history, "refresh": _refresh,
        "quality": show_quality, "schema": suggest_schema,
    }  # fmt: skip
    redacted, broker = Redaction.of(None, None), options.broker or ""
    try:
        if options.command == "graph":
            return show_graph(options, _existing_folder(options))
        pipeline, state, connection = _opened(options)
        broker = connection.bootstrap_servers
        redacted = Redaction.of(pipeline if isinstance(pipeline, Pipeline) else None, connection)
        return commands[options.command](options, pipeline, state, connection)
    except BrokenPipeError:
        raise
    except Exception as error:
        raise command_error(error, options.name, broker, redacted) from None


def _opened(options: argparse.Namespace) -> tuple[Any, PipelineState, Connection]:
    """The pipeline that is named, or as much of it as the command uses; its state, and how its cluster is reached: as
    the command line or the environment says, else as the file does, else the current cluster or the default."""
    from ottla.converters.registry import RegistrySettings
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import load_outline, load_pipeline, load_tables
    from ottla.spark.pipelines.state import FOLDER, PipelineState

    folder, variables = _existing_folder(options), {**os.environ, **dict(options.variables)}
    target = choose_cluster(options)
    pipeline: Outline
    if options.command in ("run", "dry-run", "webhook", "refresh"):
        pipeline = load_pipeline(folder, variables, RegistrySettings.parse(target.settings))
    else:
        pipeline = (load_tables if options.command == "compact" else load_outline)(folder, variables)
    state = PipelineState(Path(options.state).resolve() if options.state else pipeline.folder / FOLDER)
    if pipeline.broker is not None and not target.is_chosen:
        return pipeline, state, Connection.of(with_ports(pipeline.broker), file_settings(options.command_config))
    return pipeline, state, Connection.of(target.broker, target.settings)


def _folder(options: argparse.Namespace) -> Path:
    is_path = os.sep in options.name or options.name in (os.curdir, os.pardir)
    return Path(options.name) if is_path else Path(options.folder) / options.name


def _existing_folder(options: argparse.Namespace) -> Path:
    """The pipeline that is named: of the folder of pipelines, else of the current one."""
    from ottla.spark.pipelines.definition import FILE_NAME

    folder, here = _folder(options), Path(options.name)
    return here if not folder.exists() and (here / FILE_NAME).is_file() else folder


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
    mode: update                    # topics only: files, tables and databases are appended to

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


class Waiting:
    """What a command waits for, and for how long: one line that counts on a terminal, a line now and then elsewhere.
    It keeps a stderr of its own, since Spark's is a file while it starts."""

    def __init__(self, line: Callable[[str], str] | None = None) -> None:
        self._out = os.fdopen(os.dup(2), "w")
        self._is_terminal = self._out.isatty() and line is None
        self._line = line
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._text = ""
        self._since = self._shown_at = 0.0
        self._thread = threading.Thread(target=self._count, daemon=True)

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._out.close()

    def end(self) -> None:
        """Nothing more is said."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            self._erase()

    def say(self, text: str) -> None:
        """Wait for something else from now on."""
        with self._lock:
            if self._ended.is_set():
                return
            self._erase()
            self._text, self._since = text, time.monotonic()
            self._show("")

    def _count(self) -> None:
        while not self._ended.wait(1.0):
            with self._lock:
                now = time.monotonic()
                if self._text and (self._is_terminal or now - self._shown_at >= WAITED_LINE_S):
                    self._show(f" {duration_text(int(now - self._since) * 1000)}")

    def _show(self, waited: str) -> None:
        start, end = ("\r\x1b[K", "") if self._is_terminal else ("", "\n")
        text = f"{self._text} ...{waited}"
        self._out.write(f"{start}{text if self._line is None else self._line(text)}{end}")
        self._out.flush()
        self._shown_at = time.monotonic()

    def _erase(self) -> None:
        if self._is_terminal and self._text:
            self._out.write("\r\x1b[K")
            self._out.flush()


def _session(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> Any:
    """Spark, once the broker has answered: that takes no seconds, and without it there is nothing to do."""
    from ottla.spark.pipelines.session import new_session

    with Waiting(pipeline_observers.wait_line(options, pipeline.name)) as waiting:
        if pipeline.uses_topics:
            waiting.say(f"waiting for the broker at {connection.bootstrap_servers}")
            with connection.admin() as admin:
                if options.command == "dry-run":
                    admin.connect()
                admin.list_topics()
        waiting.say(f"starting Spark on {options.master}")
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

    spark = _session(options, pipeline, state, connection)
    try:
        from ottla.spark.pipelines.run import PipelineRun

        run = PipelineRun(pipeline, spark, state, connection)
        with Waiting() as waiting:
            run.doing = waiting.say
            run.prepare(makes_topics=False)
        columns, changes = run.columns(), run.changes()
        poison = {flow.name: run.poison_after(flow) for flow in pipeline.flows}
    finally:
        end_session(spark)
    rows = [
        {
            "flow": flow.name,
            "from": flow.reads,
            "target": flow.target,
            "columns": columns[flow.name],
            "poison": poison[flow.name],
        }
        for flow in pipeline.flows
    ]
    return show_plan(options.output, pipeline.name, rows, changes)


def _refresh(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    return refresh_flow(options, pipeline, state, connection, lambda: _session(options, pipeline, state, connection))


class Signals:
    """Ctrl-C and SIGTERM: until the flows run they interrupt what is being waited for, then they end the flows."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.hurried = threading.Event()
        """A second signal: the batches that are under way are not waited for."""
        self.is_running = False
        self._number = signal.SIGTERM
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _: object) -> None:
        is_first = not self.stopped.is_set()
        self._number = signal.Signals(number)
        self.stopped.set()
        if not is_first:
            self.hurried.set()
        if is_first and not self.is_running:
            raise KeyboardInterrupt

    @property
    def exit_code(self) -> int:
        return INTERRUPTED if self.stopped.is_set() and self._number == signal.SIGINT else 0


def _run_pipeline(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    from ottla.spark.pipelines.session import end_session

    signals = Signals()
    state.acquire()
    spark, observers, ended = None, None, None
    try:
        observers = pipeline_observers.Observers(options, pipeline, connection)
        spark = _session(options, pipeline, state, connection)
        from ottla.spark.pipelines.run import PipelineRun, run_pipeline

        run = PipelineRun(pipeline, spark, state, connection)
        is_logged = options.log_format == pipeline_observers.JSON_LINES
        display = ProgressDisplay(is_silent=is_logged)
        try:
            with Waiting(pipeline_observers.wait_line(options, pipeline.name)) as waiting:
                run.doing = waiting.say

                def show(run: PipelineRun) -> None:
                    signals.is_running = True
                    waiting.end()
                    display.show(run)
                    observers.look(run)

                run_pipeline(
                    run, state, signals.stopped, show, is_once=options.once,
                    stop_timeout_s=pipeline.stop_timeout_ms / 1000, hurried=signals.hurried,
                )  # fmt: skip
        finally:
            ended = state.read_status()
            display.end(run, options.output)
    except KeyboardInterrupt:
        notice("stopped before the flows ran")
    finally:
        signals.is_running = True
        if observers is not None:
            observers.end(ended)
        if spark is not None:
            end_session(spark)
        state.release()
    return signals.exit_code


class ProgressDisplay:
    """How the flows do: the live view on a terminal, a table now and then elsewhere, nothing where logs are JSON."""

    def __init__(self, *, is_silent: bool = False) -> None:
        self._is_silent = is_silent
        self._view = LiveView(sys.stderr, time.monotonic()) if sys.stderr.isatty() and not is_silent else None
        self._next_at = 0.0

    def show(self, run: PipelineRun) -> None:
        now = time.monotonic()
        if self._view is not None:
            self._view.draw(run.status("running"), now)
        elif not self._is_silent and now >= self._next_at:
            self._next_at = now + SHOWN_EVERY_S
            print("\n".join(status_lines(run.status("running"))), file=sys.stderr, flush=True)

    def end(self, run: PipelineRun, output: str) -> None:
        """The last word, on stdout."""
        if self._view is not None:
            self._view.erase()
        show_status(run.status("ended"), output)


def status_lines(status: dict[str, Any]) -> list[str]:
    """Flows and, where there are rules, what came of them."""
    lines = _lines(FLOW_COLUMNS, status["flows"])
    lines += [
        f"{flow['flow']} has waited {duration_text(flow['waited_s'] * 1000)} for {flow['waits_for']}"
        for flow in status["flows"]
        if flow.get("waited_s")
    ]
    troubled = [(flow["flow"], flow) for flow in status["flows"]]
    troubled += [(f"source {one['source']}", one) for one in status.get("followed", ())]
    lines += [_trouble_line(name, one) for name, one in troubled if one.get("cause")]
    lines += [
        f"{flow['flow']} has set aside {flow['set_aside']} poison records as dead letters"
        for flow in status["flows"]
        if flow.get("set_aside")
    ]
    if status["sources"]:
        lines += ["", *_lines(SOURCE_COLUMNS, status["sources"])]
    return lines


def _trouble_line(name: str, one: dict[str, Any]) -> str:
    """Why a flow does not run, and what happens next."""
    then = ""
    if one.get("retry_in_s") is not None:
        then = f"; it is tried again in {duration_text(one['retry_in_s'] * 1000)}"
        if one.get("failures", 0) > 1:
            then += f" ({one['failures']} failures so far)"
    elif one["state"] == "paused":
        then = f"; 'ottla pipeline resume PIPELINE {name}' begins it again"
    return f"{name} is {one['state']}: {one['cause']}{then}"


def _lines(columns: list[Column], rows: list[dict[str, Any]]) -> list[str]:
    cells = [
        [
            row.get(column.key) if column.show is None or row.get(column.key) is None else column.show(row[column.key])
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


def _status(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
    status = state.read_status()
    pid = state.runner()
    if status is None:
        raise CommandError(f"{pipeline.name} has never run here ({state.folder} has no status)")
    if pid is None and status["state"] in ("starting", "running"):
        status["state"] = "died"
    elif pid is not None and status["state"] not in ("starting", "running"):
        status["state"] = "starting"
    status["pid"] = pid
    if options.output == TABLE:
        since = duration_text((time.time() - status["updated_at"]) * 1000)
        where = f" as process {pid}" if pid is not None else ""
        print(f"{pipeline.name}: {status['state']}{where}, {since} ago")
        if status["cause"]:
            print(f"  {status['cause']}")
        if pid is not None and status.get("waits_for"):
            print(f"  {status['waits_for']}")
        print()
    show_status(status, options.output)
    return 0


def _stop(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
    batch_s = float((state.read_status() or {}).get("stop_timeout_s") or 0)
    if not state.stop(STOP_TIMEOUT_S + batch_s):
        notice(f"{pipeline.name} does not run")
        return 0
    notice(f"{pipeline.name} has ended")
    return 0


def _resume(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
    if state.runner() is None:
        raise CommandError(f"{pipeline.name} does not run: 'ottla pipeline run {options.name}' begins all of its flows")
    flows = {flow["flow"]: flow["state"] for flow in (state.read_status() or {}).get("flows", ())}
    if options.flow not in flows:
        raise CommandError(f"{pipeline.name} has no flow {options.flow}; it has {', '.join(flows)}", MISUSED)
    if flows[options.flow] not in RESUMABLE:
        notice(f"{options.flow} is {flows[options.flow]}: there is nothing to resume")
        return 0
    state.request_resume(options.flow)
    notice(f"{options.flow} begins again; 'ottla pipeline status {options.name}' shows how it does")
    return 0


def _webhook(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    from ottla.cli.pipeline_webhook import serve_webhooks

    return serve_webhooks(options, pipeline, connection)


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


def _letters(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
    import json

    from ottla.spark.pipelines.redrive import read_letters

    for letter in read_letters(pipeline, connection):
        document = letter.to_json()
        if options.output == JSON:
            print(json.dumps(document, ensure_ascii=False))
        elif options.output == TABLE:
            print(f"{letter.place}  {letter.rule}\n  {letter.error}\n  {letter.shown_value}")
        else:
            write_document(options.output, document)
    return 0


def _redrive(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
    from ottla.spark.pipelines.redrive import redrive

    count = redrive(pipeline, state, connection, options.file)
    what = "letters were" if count != 1 else "letter was"
    notice(f"{count} {what} sent back to {pipeline.name}; they go through it when it runs")
    return 0
