"""Whether and how a flow can be refreshed: read from the beginning, without a row of its target doubled. Pure.

| target | what becomes of it |
|---|---|
| a Delta or Iceberg table, a database's table | the commit of the first batch takes the place of all rows |
| a compacted topic with keys | each key is written again: its last value is the new one |
| any other topic | refused: records cannot be taken back. `--into` writes to a new topic |
| files, HTTP, other formats | refused, with what to do |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ottla.spark.pipelines.definition import AT_LEAST_ONCE, TABLE_KINDS, Flow, Pipeline, PipelineError, Source

BEGINNING = "beginning"


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """What a refresh does."""

    flow: Flow
    replaces: bool
    """Whether the first batch takes the place of what is in the target."""
    goes: str
    comes: str
    starts_at: datetime | None = None
    """Records before this time are not read; None: from the beginning."""


def refresh_plan(
    pipeline: Pipeline, name: str, *, starting: str = BEGINNING, into: str | None = None, is_compacted: bool = False
) -> RefreshPlan:
    """PipelineError: the flow cannot be refreshed that way, and what would do. `is_compacted`: so is its topic."""
    flow = next((one for one in pipeline.flows if one.name == name), None)
    if flow is None:
        raise PipelineError(
            f"there is no flow {name}; {pipeline.name} has {', '.join(one.name for one in pipeline.flows)}"
        )
    starts_at = parse_start(starting)
    if into is not None and flow.kind != "topic":
        raise PipelineError(f"--into names a topic, and {name} writes to {flow.target}: it is replaced as it is")
    if into is not None and into == flow.topic:
        raise PipelineError(f"--into: {into} is the topic that {name} writes already; name a new one")
    comes = (
        f"what the sources have since {starting}"
        if starts_at is not None
        else "what the sources have, from the beginning"
    )
    if flow.kind == "topic":
        return _topic(flow, into, is_compacted, comes, starts_at)
    if flow.kind not in (*TABLE_KINDS, "jdbc"):
        raise PipelineError(_no_way(flow))
    if flow.changes is not None and not flow.changes.is_replaced:
        raise PipelineError(
            f"the rows of {flow.target} are changed by their keys, and what is remembered of deletes would stay: give "
            "the flow a new name and table"
        )
    if flow.guarantee == AT_LEAST_ONCE:
        raise PipelineError(
            f"flows.{name}.guarantee: at_least_once keeps no note of batches, and a refresh could not tell whether it "
            "has replaced the rows already: empty the table by hand, and give the flow a new name"
        )
    if starts_at is not None:
        raise PipelineError(
            f"{flow.target} is replaced as a whole, and its rows of before {starting} would be gone: refresh it from "
            "the beginning"
        )
    return RefreshPlan(flow, True, f"all rows of {flow.target}", comes)


def _topic(flow: Flow, into: str | None, is_compacted: bool, comes: str, starts_at: datetime | None) -> RefreshPlan:
    if into is not None:
        made = replace(flow, topic=into, to=replace(flow.to, names=(into,)))
        return RefreshPlan(made, False, f"nothing: topic {into} is written beside {flow.target}", comes, starts_at)
    if is_compacted and (flow.key is not None or flow.changes is not None):
        goes = f"the values of keys in {flow.target} that are written again; keys that no longer come stay"
        return RefreshPlan(flow, False, goes, comes, starts_at)
    raise PipelineError(
        f"{flow.target} cannot be emptied, and would have each row twice: '--into NEW_TOPIC' writes to another topic, "
        "which pipeline.yml then names; a compacted topic with keys can be written again as it is"
    )


def _no_way(flow: Flow) -> str:
    if flow.kind == "files":
        return (
            f"the files of {flow.target} cannot be replaced in one step, and readers would see rows twice or not at "
            "all: give the flow a new name and folder, or write a Delta table"
        )
    return f"what was sent to {flow.target} cannot be taken back: give the flow a new name, which sends all of it again"


def parse_start(text: str) -> datetime | None:
    """A time, in UTC without an offset; None: the beginning."""
    if text == BEGINNING:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"--from: {text!r} is neither '{BEGINNING}' nor a time such as 2026-11-17T09:30:00Z"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def read_from(source: Source, plan: RefreshPlan) -> Source:
    """A source as the refresh reads it."""
    if not source.is_stream:
        return source
    if plan.starts_at is None:
        return replace(source, starting="earliest")
    if source.kind != "topic":
        raise PipelineError(f"--from: {source.place} has no times to begin at; refresh from the beginning")
    options = {
        **source.options,
        "startingTimestamp": str(int(plan.starts_at.timestamp() * 1000)),
        "startingOffsetsByTimestampStrategy": "latest",
    }
    return replace(source, options=options)
