"""How a pipeline does: `ottla pipeline status`, the table that `run` prints, `stop` and `resume`."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from ottla.cli.output import TABLE, Column, duration_text, notice, table_lines, write_document
from ottla.cli.pipeline_view import LiveView
from ottla.cli.session import MISUSED, CommandError

if TYPE_CHECKING:
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import Outline
    from ottla.spark.pipelines.run import PipelineRun
    from ottla.spark.pipelines.state import PipelineState

STOP_TIMEOUT_S = 60.0
SHOWN_EVERY_S = 5.0
RESUMABLE = ("paused", "failed", "backing off")
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
        elif not self._is_silent and now >= self._next_at and (status := run.status("running"))["flows"]:
            self._next_at = now + SHOWN_EVERY_S
            print("\n".join(status_lines(status)), file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """What a run that is stopped waits for."""
        if self._view is not None:
            self._view.erase()
        if not self._is_silent:
            notice(f"{text} ...")

    def end(self, run: PipelineRun, output: str) -> None:
        """The last word, on stdout."""
        if self._view is not None:
            self._view.erase()
        show_status(run.status("ended"), output)


def status_lines(status: dict[str, Any]) -> list[str]:
    """Flows and, where there are rules, what came of them."""
    from ottla.spark.pipelines.verdicts import LETTERS

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
        if any(flow["flow"] == LETTERS and flow["state"] == "starting" for flow in status["flows"]):
            lines.append(f"{LETTERS} counts the rows of sources, and has not begun")
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


def print_status(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
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


def stop(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
    batch_s = float((state.read_status() or {}).get("stop_timeout_s") or 0)
    if not state.stop(STOP_TIMEOUT_S + batch_s):
        notice(f"{pipeline.name} does not run")
        return 0
    notice(f"{pipeline.name} has ended")
    return 0


def resume(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
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
