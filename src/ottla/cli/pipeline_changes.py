"""`ottla pipeline dry-run` (its report on changes), `ottla pipeline refresh` and `ottla pipeline history`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.output import TABLE, Column, duration_text, emit, notice, printable, wrapped, write_document
from ottla.cli.session import MISUSED, CommandError, add_yes_option, confirm

if TYPE_CHECKING:
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import Outline, Pipeline
    from ottla.spark.pipelines.state import PipelineState
    from ottla.spark.pipelines.verdicts import FlowChanges

PLAN_COLUMNS = [
    Column("flow", "FLOW"),
    Column("change", "CHANGE"),
    Column("from", "FROM"),
    Column("target", "TARGET"),
    Column("columns", "COLUMNS"),
]
SHOWN_RUNS = 20


def show_plan(output: str, pipeline: str, rows: list[dict[str, Any]], changes: Sequence[FlowChanges]) -> int:
    """What flows would write, and what has changed since their last run; the exit code shows whether they can run."""
    from ottla.spark.pipelines.verdicts import advised, refusal

    by_flow = {one.flow: one for one in changes}
    own = [name for name in by_flow if name not in [row["flow"] for row in rows]]
    rows += [{"flow": name, "from": None, "target": None, "columns": None} for name in own if by_flow[name].changes]
    for row in rows:
        change = by_flow.get(row["flow"])
        row["change"] = None if change is None else change.verdict
        row["reasons"] = [] if change is None else change.reasons
    emit(output, rows, PLAN_COLUMNS)
    if output == TABLE:
        for one in changes:
            if one.is_stopped:
                print(wrapped(printable(advised(pipeline, one)), "  "))
            elif one.changes:
                print(wrapped(printable(f"flow {one.flow}: kept: {'; '.join(one.reasons)}"), "  "))
        for row in rows:
            if row.get("poison") is not None:
                tries = "once" if row["poison"] == 1 else f"{row['poison']} times"
                text = f"flow {row['flow']}: records that make a batch fail {tries} are set aside as dead letters"
                print(wrapped(printable(text), "  "))
    return MISUSED if refusal(pipeline, changes) is not None else 0


def add_refresh_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("flow", metavar="FLOW", help="a flow of the pipeline")
    parser.add_argument("--from", dest="starting", metavar="WHEN", default="beginning",
                        help="beginning (the default), or for topics a time such as 2026-11-17T09:30:00Z")  # fmt: skip
    parser.add_argument("--to", dest="ending", metavar="WHEN", default="end",
                        help="end (the default); of flows with keys to a table or a database a time, or offsets as "
                        'JSON such as {"orders": {"0": 100}}, which --from takes, too: the changes of that range '
                        "are applied once more")  # fmt: skip
    parser.add_argument(
        "--into", metavar="TOPIC|FOLDER", help="write to a new topic or folder instead of the flow's own"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would go and come, and do nothing")
    add_yes_option(parser)


def refresh_flow(
    options: argparse.Namespace,
    pipeline: Pipeline,
    state: PipelineState,
    connection: Connection,
    new_session: Callable[[], Any],
) -> int:
    from ottla.spark.pipelines.refresh_plan import refresh_plan
    from ottla.spark.pipelines.session import end_session

    flow = next((one for one in pipeline.flows if one.name == options.flow), None)
    state.acquire()
    spark = None
    try:
        from ottla.spark.pipelines.backfill import Backfill
        from ottla.spark.pipelines.refresh import Refresh, is_compacted

        compacted = options.into is None and is_compacted(flow, connection)
        plan = refresh_plan(
            pipeline, options.flow, starting=options.starting, ending=options.ending, into=options.into,
            is_compacted=compacted,
        )  # fmt: skip
        refresh = (Refresh if plan.span is None else Backfill)(pipeline, plan, state, connection)
        begun = refresh.check_journal()
        print(f"goes:  {plan.goes}\ncomes: {plan.comes}, by the present definition of {options.flow}")
        if options.dry_run:
            return 0
        if not begun:
            confirm(f"refresh {options.flow} of {pipeline.name}", options)
        else:
            notice("the refresh was begun before and goes on where it was")
        spark = new_session()
        refresh.run(spark, lambda progress: None)
    finally:
        if spark is not None:
            end_session(spark)
        state.release()
    if plan.span is not None:
        notice(f"{options.flow} is backfilled: {refresh.progress.rows_out} records applied to {plan.flow.target}")
        return 0
    notice(f"{options.flow} is refreshed: {refresh.progress.rows_out} rows written to {plan.flow.target}")
    if options.into is not None:
        notice(
            f"now say '{plan.flow.kind}: {options.into}' for {options.flow} in pipeline.yml: until then the pipeline "
            "does not run"
        )
    return 0


def show_history(options: argparse.Namespace, pipeline: Outline, state: PipelineState, connection: Connection) -> int:
    """The runs, the newest last, each with what had changed since the one before."""
    from ottla.spark.pipelines.history import History, differences

    history = History(state.folder)
    runs = history.runs()
    if not runs:
        raise CommandError(f"{pipeline.name} has never run here ({state.folder} has no history)")
    before: str | None = None
    running = state.runner() is not None
    for number, run in enumerate(runs, 1):
        if run["state"] == "died" and running and number == len(runs):
            run["state"] = "running"
        run["changes"] = []
        if before is not None and run["definition"] != before:
            old, new = history.definition(before), history.definition(run["definition"])
            run["changes"] = differences(old or {}, new or {})
        before = run["definition"]
    if options.output != TABLE:
        write_document(options.output, runs)
        return 0
    for run in runs[-SHOWN_RUNS:]:
        print("\n".join(map(printable, _lines(run))))
    return 0


def _lines(run: dict[str, Any]) -> list[str]:
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run["started_at"]))
    took = f" after {duration_text((run['ended_at'] - run['started_at']) * 1000)}" if "ended_at" in run else ""
    flows = ", ".join(f"{name} {one['out']}" for name, one in (run.get("flows") or {}).items())
    lines = [f"{began}  {run['definition']}  {run['state']}{took}{f'  rows: {flows}' if flows else ''}"]
    if run.get("letters"):
        lines.append(f"    {run['letters']} dead letters")
    if run.get("cause"):
        lines.append(f"    {run['cause']}")
    return lines + [f"    {text}" for text in run["changes"]]
