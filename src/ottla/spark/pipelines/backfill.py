"""A range of records applied once more to the table or database of a flow that changes rows by their keys.

The range is read in parts, each as a batch query with the flow's present definition, and merged by keys and sequences:
a change that is older than its row changes nothing, and none makes a second row. So a part that was interrupted is
applied again. Where the backfill is stands in the same file as that of a refresh; the checkpoint of the flow is left
alone, and so are dead letters, which the flow wrote when it read the range first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from ottla.client.core.partitions import TopicPartition
from ottla.spark.faults import fault_point
from ottla.spark.pipelines import changes, targets
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Pipeline, PipelineError, Source
from ottla.spark.pipelines.failures import failure
from ottla.spark.pipelines.fingerprints import compared, fingerprints
from ottla.spark.pipelines.frames import Frames
from ottla.spark.pipelines.history import History, definition_id, definition_of
from ottla.spark.pipelines.plans import plan_of
from ottla.spark.pipelines.poison import Span
from ottla.spark.pipelines.progress import FlowProgress
from ottla.spark.pipelines.redaction import Redaction
from ottla.spark.pipelines.refresh_plan import Place, RefreshPlan, check_forgotten
from ottla.spark.pipelines.state import PipelineState
from ottla.spark.registration import active

MAX_RECORDS = 1_000_000
"""Records in one part: their changes are in the memory of up to eight tasks."""


class Backfill:
    """The backfill of one flow."""

    def __init__(self, pipeline: Pipeline, plan: RefreshPlan, state: PipelineState, connection: Connection) -> None:
        assert plan.span is not None
        self._pipeline = replace(pipeline, flows=(plan.flow,))
        self._whole = pipeline
        self._flow = plan.flow
        self._start, self._end = plan.span
        self._state = state
        self._connection = connection
        self.progress = FlowProgress(plan.flow.name, plan.flow.target)

    def check_journal(self) -> bool:
        """Whether this backfill was begun before and goes on. PipelineError: something else was begun."""
        begun = self._state.read_refresh(self._flow.name)
        if begun is not None and begun["asked"] != self._asked:
            raise PipelineError(
                f"a refresh of {self._flow.name} is under way with {begun['asked']}: end it with those arguments"
            )
        return begun is not None

    @property
    def _asked(self) -> dict[str, Any]:
        return {"from": _shown(self._start), "to": _shown(self._end), "target": self._flow.target}

    def run(self, spark: SparkSession, show: Callable[[FlowProgress], None]) -> None:
        """Do it, or go on with it."""
        name, started_at, history = self._flow.name, time.time(), History(self._state.folder)
        definition = definition_of(self._whole, Redaction.of(self._whole, self._connection))
        frames = Frames(self._pipeline, spark, self._state, self._connection)
        frames.make(may_change=True)
        source = self._checked(frames, definition_id(definition))
        journal = self._state.read_refresh(name)
        if journal is None:
            spans = spans_of(source, self._start, self._end, self._connection)
            query_id = f"backfill-{uuid4()}"[:64]
            journal = {"asked": self._asked, "query": query_id, "done": 0, "spans": [asdict(one) for one in spans]}
            self._state.write_refresh(name, journal)
        history.begin({**definition, "backfill": name}, started_at)
        whole = [Span(**one) for one in journal["spans"]]
        for number, part in enumerate(parts_of(whole, MAX_RECORDS)):
            if number >= journal["done"]:
                self._apply(spark, source, part, journal["query"], number)
                fault_point("backfill-applied", number)
                journal["done"] = number + 1
                self._state.write_refresh(name, journal)
                self.progress.rows_out += sum(span.count for span in part)
                show(self.progress)
        if self._flow.kind == "jdbc":
            targets.database(self._flow, frames.flows[name]).forget(journal["query"])
        self._state.end_refresh(name)
        history.end(started_at, {"flows": [self.progress.to_json()], "sources": []}, "backfilled", None)

    def _checked(self, frames: Frames, definition: str) -> Source:
        """The source that is read. PipelineError: rows of a range would not be those that the flow made of it."""
        flow, rows = self._flow, frames.flows[self._flow.name]
        for change in compared(self._state, fingerprints(self._pipeline, frames, definition)):
            if change.flow == flow.name and change.is_stopped:
                raise PipelineError(
                    f"flow {flow.name} cannot be backfilled before all of it is refreshed: {'; '.join(change.reasons)}"
                )
        rules = changes.rules_of(rows)
        if rules.sequence is None:
            raise PipelineError(
                f"flows.{flow.name}: without 'sequence_by' what comes later is newer, and old values of a range would "
                "replace newer ones: say 'sequence_by', or refresh from the beginning"
            )
        plan = plan_of(rows, frozenset(one.name for one in self._pipeline.sources))
        if plan.stateful:
            raise PipelineError(
                f"flow {flow.name} keeps what it has counted, joined or seen ({plan.stateful[0].kind}), and a range "
                "has only a part of that: refresh it from the beginning"
            )
        read = [one for one in self._pipeline.sources if one.name in plan.sources]
        if len(read) != 1 or read[0].kind != "topic" or len(plan.sources) != 1:
            raise PipelineError(
                f"flow {flow.name} reads {', '.join(plan.sources) or 'no stream'}: only flows of one topic source have "
                "a range; refresh it from the beginning"
            )
        check_forgotten(flow, self._end, rules.has_deletes, datetime.now(UTC))
        return read[0]

    def _apply(self, spark: SparkSession, source: Source, part: Sequence[Span], query_id: str, number: int) -> None:
        try:
            frames = Frames(self._pipeline, spark, self._state, self._connection, spans={source.name: part})
            frames.make(may_change=False)
            with active(frames.spark):
                self._write(frames.flows[self._flow.name], query_id, number)
        except PipelineError:
            raise
        except Exception as error:
            raise failure(f"the backfill of {self._flow.name} failed", str(error)) from None

    def _write(self, rows: DataFrame, query_id: str, number: int) -> None:
        if self._flow.kind == "jdbc":
            targets.database(self._flow, rows).write(rows, query_id, number)
        else:
            changes.merge_batch(self._pipeline, self._flow, rows)


def _shown(place: Place) -> Any:
    if place.offsets is not None:
        return {f"{topic}-{partition}": offset for (topic, partition), offset in sorted(place.offsets.items())}
    return None if place.at is None else place.at.isoformat()


def spans_of(source: Source, start: Place, end: Place, connection: Connection) -> list[Span]:
    """The offsets of a range, by what the brokers have. PipelineError: offsets of a partition that there is not."""
    with connection.consumer({"isolation.level": "read_committed"}) as consumer, connection.admin() as admin:
        topics = source.topics
        if source.pattern is not None:
            topics = tuple(name for name in sorted(admin.list_topics()) if re.fullmatch(source.pattern, name))
        partitions = [
            TopicPartition(topic, one) for topic in topics for one in range(len(consumer.partitions_for(topic)))
        ]
        firsts, lasts = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)

        def by_time(at: datetime) -> dict[TopicPartition, int]:
            wanted = dict.fromkeys(partitions, int(at.timestamp() * 1000))
            found = consumer.offsets_for_times(wanted)
            return {one: lasts[one] if (there := found.get(one)) is None else there.offset for one in partitions}

        starts = firsts if start.at is None else by_time(start.at)
        ends = lasts if end.at is None else by_time(end.at)
    return limited(source.name, dict(firsts), dict(lasts), starts, ends, start, end)


def limited(
    source: str,
    firsts: Mapping[TopicPartition, int],
    lasts: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    start: Place,
    end: Place,
) -> list[Span]:
    """The existing part of a range. Start offsets leave out the partitions that they do not name."""
    for place, option in ((start, "--from"), (end, "--to")):
        for topic, partition in place.offsets or ():
            if TopicPartition(topic, partition) not in firsts:
                raise PipelineError(f"{option}: the source {source} has no partition {topic}-{partition}")
    found = []
    for one in sorted(firsts):
        if start.offsets is not None and one not in start.offsets:
            continue
        begins = starts[one] if start.offsets is None else start.offsets[one]
        stops = ends[one] if end.offsets is None else end.offsets.get(one, ends[one])
        begins, stops = max(begins, firsts[one]), min(stops, lasts[one])
        if begins < stops:
            found.append(Span(source, *one, begins, stops))
    return found


def parts_of(spans: Sequence[Span], size: int) -> Iterator[list[Span]]:
    """A range in parts of at most so many records. Each partition is read in order."""
    part: list[Span] = []
    room = size
    for span in spans:
        while span.count:
            taken = min(span.count, room)
            part.append(replace(span, end_offset=span.start_offset + taken))
            span = replace(span, start_offset=span.start_offset + taken)
            room -= taken
            if not room:
                yield part
                part, room = [], size
    if part:
        yield part
