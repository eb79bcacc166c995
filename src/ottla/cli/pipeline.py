"""`ottla pipeline ACTION NAME`: data pipelines on Spark; `ottla pipeline --help` has the actions."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli import pipeline_observers
from ottla.cli.output import FORMATS, Column, emit
from ottla.cli.pipeline_cases import add_test_options, test_pipelines
from ottla.cli.pipeline_changes import add_refresh_options, refresh_flow, show_history
from ottla.cli.pipeline_graph import GRAPH_EXAMPLES, GRAPH_OUTPUTS, show_graph
from ottla.cli.pipeline_init import init
from ottla.cli.pipeline_letters import redrive_letters, show_letters
from ottla.cli.pipeline_quality import show_quality, suggest_schema
from ottla.cli.pipeline_run import dry_run, run, spark_session
from ottla.cli.pipeline_status import print_status, resume, stop
from ottla.cli.session import (
    HELP,
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
    from ottla.spark.pipelines.state import PipelineState

COMMAND = "ottla pipeline"
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

ARGUMENTS = {"refresh": "orders accepted", "resume": "orders accepted", "schema": "orders web_orders"}
"""In the examples: commands that take the name of a flow or a source, too."""


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
        arguments = ARGUMENTS.get(name, "orders")
        examples = GRAPH_EXAMPLES if name == "graph" else f"  ottla pipeline {name} {arguments}\n\n{EXIT_CODES}"
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
        return init(options, _folder(options))
    if not has_spark():
        raise CommandError(SPARK_ADVICE)
    if options.command == "test":
        return test_pipelines(options, _existing_folder, _opened)
    from ottla.spark.pipelines.definition import Pipeline
    from ottla.spark.pipelines.redaction import Redaction

    commands = {
        "run": run, "dry-run": dry_run, "status": print_status, "stop": stop,
        "webhook": _webhook, "letters": show_letters, "redrive": redrive_letters, "compact": _compact,
        "resume": resume, "history": show_history, "refresh": _refresh,
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
    from ottla.spark.pipelines.pipeline_file import load_outline, load_pipeline, load_tables
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


def _refresh(options: argparse.Namespace, pipeline: Pipeline, state: PipelineState, connection: Connection) -> int:
    return refresh_flow(
        options, pipeline, state, connection, lambda: spark_session(options, pipeline, state, connection)
    )


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
