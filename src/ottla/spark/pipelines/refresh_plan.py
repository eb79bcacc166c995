"""Whether and how a flow can be refreshed: read from the beginning, without a row of its target doubled. Pure.

| target | what becomes of it |
|---|---|
| a Delta or Iceberg table, a database's table | the commit of the first batch takes the place of all rows |
| the same, with keys, of a range | the changes of the range are applied once more by their keys (`backfill`) |
| a compacted topic with keys | each key is written again: its last value is the new one |
| any other topic, files | refused: what is written cannot be taken back. `--into` writes to a new topic or folder |
| HTTP, other formats | refused, with what to do |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ottla.spark.pipelines.definition import AT_LEAST_ONCE, TABLE_KINDS, Flow, Pipeline, PipelineError, Source

BEGINNING, END = "beginning", "end"
Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Place:
    """One end of a range: a time, offsets of partitions, or with neither the beginning or the end."""

    at: datetime | None = None
    offsets: Offsets | None = None

    @property
    def is_limit(self) -> bool:
        return self.at is not None or self.offsets is not None


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """The plan of a refresh."""

    flow: Flow
    replaces: bool
    """Whether the first batch replaces the rows of the target."""
    goes: str
    comes: str
    starts_at: datetime | None = None
    """Records before this time are not read; None: from the beginning."""
    span: tuple[Place, Place] | None = None
    """For a backfill: where it begins and ends. The checkpoint of the flow stays as it is."""


def refresh_plan(
    pipeline: Pipeline,
    name: str,
    *,
    starting: str = BEGINNING,
    ending: str = END,
    into: str | None = None,
    is_compacted: bool = False,
) -> RefreshPlan:
    """PipelineError: the flow cannot be refreshed that way, and what would do. `is_compacted`: so is its topic."""
    flow = next((one for one in pipeline.flows if one.name == name), None)
    if flow is None:
        raise PipelineError(
            f"there is no flow {name}; {pipeline.name} has {', '.join(one.name for one in pipeline.flows)}"
        )
    start, end = parse_place(starting, "--from", BEGINNING), parse_place(ending, "--to", END)
    is_keyed = flow.changes is not None and not flow.changes.is_replaced
    if into is None and is_keyed and flow.kind in (*TABLE_KINDS, "jdbc") and (start.is_limit or end.is_limit):
        return _backfill(flow, start, end, starting, ending)
    if end.is_limit or start.offsets is not None:
        raise PipelineError(
            f"--to and offsets are for flows that change rows of a table or a database by their 'keys': {flow.target} "
            "does not know which of its rows came of a range, and would have them twice. Refresh all of it, or give "
            "the flow 'keys' and 'sequence_by'"
        )
    starts_at = start.at
    if into is not None and flow.kind not in ("topic", "files"):
        raise PipelineError(
            f"--into names a topic or a folder, and {name} writes to {flow.target}: it is replaced as it is"
        )
    if into is not None and into in (flow.topic, flow.files):
        raise PipelineError(f"--into: {into} is what {name} writes already; name a new one")
    comes = (
        f"what the sources have since {starting}"
        if starts_at is not None
        else "what the sources have, from the beginning"
    )
    if flow.kind == "topic":
        return _topic(flow, into, is_compacted, comes, starts_at)
    if flow.kind == "files" and into is not None:
        made = replace(flow, files=into)
        return RefreshPlan(made, False, f"nothing: {into} is written beside {flow.target}", comes, starts_at)
    if flow.kind not in (*TABLE_KINDS, "jdbc"):
        raise PipelineError(_no_way(flow))
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
    goes = f"all rows of {flow.target}{', and what is remembered of deletes' if is_keyed else ''}"
    return RefreshPlan(flow, True, goes, comes)


def _backfill(flow: Flow, start: Place, end: Place, starting: str, ending: str) -> RefreshPlan:
    if flow.guarantee == AT_LEAST_ONCE:
        raise PipelineError(
            f"flows.{flow.name}.guarantee: at_least_once appends rows, and a backfill would double them"
        )
    goes = f"nothing: rows of {flow.target} with the same keys are changed"
    return RefreshPlan(flow, False, goes, f"what the source has from {starting} to {ending}", span=(start, end))


def check_forgotten(flow: Flow, end: Place, has_deletes: bool, now: datetime) -> None:
    """PipelineError: deletes after the end of a range are no longer remembered, and it would bring their rows back."""
    assert flow.changes is not None
    if not has_deletes or not end.is_limit:
        return
    if end.at is None or (now - end.at).total_seconds() > flow.changes.tombstones_s:
        raise PipelineError(
            f"--to: rows of {flow.target} that were deleted since then could come back, as deletes are remembered for "
            f"'tombstones: {flow.changes.tombstones_s / 86400:g} days': leave out --to, so that the deletes are read"
        )


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
            "all: '--into NEW_FOLDER' writes to another folder, which pipeline.yml then names"
        )
    return f"what was sent to {flow.target} cannot be taken back: give the flow a new name, which sends all of it again"


def parse_place(text: str, option: str, word: str) -> Place:
    """A time, in UTC without an offset; offsets as JSON; or the word, which limits nothing."""
    if text == word:
        return Place()
    if text.lstrip().startswith("{"):
        return Place(offsets=_offsets(text, option))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"{option}: {text!r} is neither '{word}' nor a time such as 2026-11-17T09:30:00Z, nor offsets such as "
            '{"orders": {"0": 100}}'
        ) from None
    return Place(found if found.tzinfo is not None else found.replace(tzinfo=UTC))


def _offsets(text: str, option: str) -> Offsets:
    try:
        found = {
            (str(topic), int(partition)): int(offset)
            for topic, partitions in json.loads(text).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, TypeError, AttributeError):
        found = {}
    if not found or any(number < 0 for (_, partition), offset in found.items() for number in (partition, offset)):
        raise PipelineError(f'{option}: offsets are JSON such as {{"orders": {{"0": 100, "1": 250}}}}, not {text!r}')
    return found


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
