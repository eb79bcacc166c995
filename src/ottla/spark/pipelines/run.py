"""A pipeline at work: its queries in one SparkSession, their progress, and why they ended.

Every flow is one streaming query with a checkpoint of its own; so are the dead letters (see `frames`). A flow that
fails is tried again, paused or given up by itself (see `lifecycle`); the others go on. The run ends when nothing more
can come of any flow, or when it is stopped, and then says what has failed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from ottla.spark.pipelines import jdbc, targets
from ottla.spark.pipelines.broker_watch import BrokerWatch
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Flow, Pipeline, PipelineError, Source
from ottla.spark.pipelines.errors import BadData
from ottla.spark.pipelines.fingerprints import Guard
from ottla.spark.pipelines.flow_run import FlowRun
from ottla.spark.pipelines.followed_tables import FollowedTables
from ottla.spark.pipelines.frames import LETTERS_FLOW, Frames
from ottla.spark.pipelines.graph import flows_of_topics
from ottla.spark.pipelines.isolation import Isolation, set_aside_of, write_letters
from ottla.spark.pipelines.lifecycle import ISOLATING, ONCE_RETRY_MS, PAUSED, FailurePolicy, Lifecycle
from ottla.spark.pipelines.plans import plan_of
from ottla.spark.pipelines.poison import SetAside
from ottla.spark.pipelines.progress import FlowProgress, SourceCounts
from ottla.spark.pipelines.quality import Broken, Quality, fails
from ottla.spark.pipelines.quality_report import write_report
from ottla.spark.pipelines.redaction import Redaction
from ottla.spark.pipelines.state import PipelineState
from ottla.spark.pipelines.topics import check_topics
from ottla.spark.pipelines.values import parse_interval_ms
from ottla.spark.pipelines.verdicts import FlowChanges

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

STOP_TICK_S = 0.1
QUALITY_EVERY_MS = 10_000

Report = dict[str, Any]


class PipelineRun:
    """One run of a pipeline. `prepare` checks everything and starts nothing."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, state: PipelineState, connection: Connection) -> None:
        self._pipeline = pipeline
        self._frames = Frames(pipeline, spark, state, connection)
        self._spark = spark
        self._state = state
        self._connection = connection
        self._sources_read: dict[str, tuple[str, ...]] = {}
        """The sources of each query in the order of its plan, if poison records are to be set aside."""
        self._isolations: dict[str, Isolation] = {}
        self._runs: dict[str, FlowRun] = {}
        self._is_once = False
        self._brokers = BrokerWatch(connection)
        self._of_topics: frozenset[str] = frozenset()
        self._letters_flow = Flow(LETTERS_FLOW, LETTERS_FLOW, topic=pipeline.dead_letters)
        self.doing: Callable[[str], None] = lambda text: None
        """Called with what the start waits for, before it waits."""
        self._waits_for: str | None = None
        self.listeners: list[Callable[[str, Report], None]] = [self._count]
        """Called with the name of a flow and Spark's report of a batch, once for each report."""
        self.redacted = Redaction.of(pipeline, connection)
        self._followed = self._followed_tables({})
        self.guard = Guard(pipeline, state, self.redacted)
        self.quality = Quality(pipeline.name, (), None, _wall_ms())
        self._broken: list[Broken] = []
        """Expectations across rows that were not met at the end, and whose action is `fail`."""
        self._kept_at = 0
        self.counts = [SourceCounts.of(source) for source in pipeline.counted_sources]

    @property
    def flows(self) -> dict[str, FlowProgress]:
        return {name: run.progress for name, run in self._runs.items()}

    def _begin(self, text: str) -> None:
        self._waits_for = text
        self.doing(text)

    # Before it starts

    def prepare(self, *, makes_topics: bool = True, is_once: bool = False) -> None:
        """Make the DataFrames of all flows, which checks schemas, SQL, columns and topics."""
        self._begin(f"waiting for the broker at {self._connection.bootstrap_servers}")
        if makes_topics:
            self.guard.check_refreshes()
        if makes_topics and self.guard.is_changed:
            check_topics(self._pipeline, self._connection, makes_missing=False)
            self._begin("comparing the changed pipeline with its checkpoints")
            self._frames.make(may_change=False)
            self.guard.check(self._frames)
        check_topics(self._pipeline, self._connection, makes_missing=makes_topics)
        self._begin("checking sources, SQL and targets")
        self._frames.make(may_change=makes_topics)
        for where in self._frames.judged_once:
            raise PipelineError(f"{where}: only rows of a stream are judged, and these are read once")
        if makes_topics:
            self.guard.note(self._frames)
        self._is_once = is_once
        self._note_readers()
        for flow in self._pipeline.flows:
            self._add(flow)
        if self._frames.letters is not None:
            self._add(self._letters_flow)
        for name in self._frames.more_letters:
            self._add(Flow(name, name, topic=self._pipeline.dead_letters))
        history = self._state.read_quality()
        self.quality = Quality(self._pipeline.name, self._frames.subjects, history, _wall_ms())
        self._followed = self._followed_tables(self._frames.followers)

    def _note_readers(self) -> None:
        """Which sources each query reads, if poison records are to be set aside."""
        if not self._pipeline.has_poison:
            return
        sources = {source.name: source for source in self._pipeline.sources}
        frames = {**self._frames.flows, **self._frames.more_letters}
        if self._frames.letters is not None:
            frames[LETTERS_FLOW] = self._frames.letters
        self._sources_read = {name: plan_of(rows, frozenset(sources)).sources for name, rows in frames.items()}
        for flow in self._pipeline.flows:
            others = [name for name in self._sources_read[flow.name] if not _is_topic(sources.get(name))]
            if flow.poison is not None and (others or not self._sources_read[flow.name]):
                raise PipelineError(
                    f"flows.{flow.name}.poison: only records of topics can be set aside, and it reads "
                    f"{', '.join(others) or 'no stream'}"
                )

    def poison_after(self, flow: Flow) -> int | None:
        """After how many failures of a batch the poison records of a query are set aside; None: never."""
        sources = {source.name: source for source in self._pipeline.sources}
        read = self._sources_read.get(flow.name, ())
        if not read or not all(_is_topic(sources.get(name)) for name in read):
            return None
        return flow.poison or self._pipeline.poison

    def _add(self, flow: Flow) -> None:
        policy = FailurePolicy(
            flow.on_failure or self._pipeline.on_failure,
            flow.retry_for_ms or self._pipeline.retry_for_ms or (ONCE_RETRY_MS if self._is_once else None),
            self.poison_after(flow),
        )
        life = self._lifecycle(policy)
        self._runs[flow.name] = FlowRun(flow, life, self._state.checkpoint(flow.name), self.redacted)

    def _followed_tables(self, followers: Mapping[str, jdbc.Follower]) -> FollowedTables:
        interval_s = max(parse_interval_ms(self._pipeline.trigger, "trigger") / 1000, 0.1) if followers else 0.0
        policy = FailurePolicy(self._pipeline.on_failure)
        return FollowedTables(followers, lambda: self._lifecycle(policy), interval_s, self.redacted)

    def _lifecycle(self, policy: FailurePolicy) -> Lifecycle:
        return Lifecycle(policy, Random())

    def changes(self) -> list[FlowChanges]:
        """The consequences of the prepared pipeline for the checkpoints of its flows."""
        return self.guard.changes(self._frames)

    def columns(self) -> dict[str, str]:
        """Flow -> the columns that it reads, as text for the terminal."""
        return self._frames.columns()

    def check_databases(self) -> None:
        """PipelineError: the database of a flow cannot be reached or used. A run waits for one that is away."""
        for flow in self._pipeline.flows:
            if flow.kind == "jdbc":
                prepared = self._frames.flows[flow.name]
                is_plain = flow.changes is None or flow.changes.is_replaced
                targets.database(flow, prepared).check(prepared.columns if is_plain else ())

    # While it runs

    def start(self) -> None:
        """Start the first query; `poll` starts the others. A run to the end (`is_once`) has one after the other, in the
        order of the file, so that what one writes is there for the next."""
        self._followed.start(self._begin, is_once=self._is_once)
        if self._pipeline.uses_topics:
            self._of_topics = frozenset(flows_of_topics(self._pipeline))
            self._brokers.start()
        self._start_due()

    @property
    def is_started(self) -> bool:
        """Whether every query has begun to run."""
        now = _now()
        return not any(run.life.is_due(now) for run in self._runs.values()) and self._has_room

    @property
    def _has_room(self) -> bool:
        return all(run.has_begun for run in self._runs.values())

    def _start_due(self) -> None:
        """Start the waiting flows, one after the other: each query has its own Python processes, which Spark gives ten
        seconds to start."""
        for run in self._runs.values():
            if run.life.is_due(now := _now()) and self._has_room:
                self._begin(f"starting the flow {run.flow.name}")
                run.begin(partial(self._query, run.flow), now)
            if self._is_once and not self._is_over(run):
                return

    def _query(self, flow: Flow) -> StreamingQuery | None:
        """A new query. None: the flow is no stream, and has been written here."""
        frame = self._frames.flow(flow.name)
        if not frame.isStreaming:
            targets.write_once(self._pipeline, flow, frame, self._connection)
            return None
        aside = set_aside_of(self._state, flow.name)
        if aside is not None:
            frame = self._frame_without(flow, aside)
        checkpoint = self._state.checkpoint(flow.name)
        return targets.start(self._pipeline, flow, frame, self._connection, checkpoint, is_once=self._is_once)

    def _frame_without(self, flow: Flow, aside: SetAside) -> DataFrame:
        """The query without the records that are set aside; their letters are written here."""
        readers = [one.name for one in self._pipeline.flows if set(self._sources_read.get(one.name, ()))
                   & {record.source for record in aside.records}]  # fmt: skip
        write_letters(
            self._pipeline,
            flow.name,
            aside,
            self._connection,
            self.redacted,
            is_only_reader=readers == [flow.name],
        )
        frames = Frames(self._pipeline, self._spark, self._state, self._connection, left_out=list(aside.records))
        frames.make(may_change=False)
        return frames.flow(flow.name)

    def _isolate(self) -> None:
        """Look for the poison records of flows whose batch has failed too often."""
        for name, run in self._runs.items():
            if run.life.state != ISOLATING:
                continue
            if name not in self._isolations:
                sources = self._sources_read[name]
                made = Isolation(self._pipeline, run.flow, self._spark, self._state, self._connection, sources)
                self._isolations[name] = made
                made.start()
            elif self._isolations[name].is_done:
                done = self._isolations.pop(name)
                if done.error is None:
                    run.isolated(done.count, _now())
                else:
                    run.not_isolated(done.error, _now())

    def poll(self) -> bool:
        """Take in the reports, and start flows that are due; True while a flow can still do something."""
        for run in self._runs.values():
            self._tell(run.flow.name, run.poll(_now()))
        self._keep_quality()
        self._resume()
        self._isolate()
        self._start_due()
        self._followed.poll(_now())
        now, outage = _now(), self._brokers.outage
        away_s = 0.0 if outage is None else time.time() - outage.since
        for name, run in self._runs.items():
            is_of_topics = name in self._of_topics or name not in self._frames.flows  # letters
            run.note_wait(now, outage if is_of_topics else None, away_s)
        return not all(self._is_over(run) for run in self._runs.values())

    def _is_over(self, run: FlowRun) -> bool:
        """A paused flow waits to be resumed, which nothing does in a run to the end."""
        return run.life.is_over or (self._is_once and run.life.state == PAUSED)

    def _tell(self, name: str, reports: list[Report]) -> None:
        for report in reports:
            for listener in self.listeners:
                listener(name, report)
            if name not in self._frames.flows:  # letters: their rows are those of flows
                continue
            broken = fails(self.quality.note(name, report, _wall_ms()))
            if broken:
                self._runs[name].fail_after_batch(BadData("; ".join(one.text for one in broken)), _now())

    def _count(self, name: str, report: Report) -> None:
        if name == LETTERS_FLOW:
            for counts in self.counts:
                counts.note(report)
                self.quality.note_counts(
                    f"source {counts.source}", counts.rows, counts.kept, counts.letters, counts.failed, _wall_ms()
                )

    def _keep_quality(self) -> None:
        """Now and then: judge rules that depend on the time, and store the measures."""
        now = _now()
        if not self.quality.subjects or now - self._kept_at < QUALITY_EVERY_MS:
            return
        self._kept_at = now
        owners = {one.subject.title: one.owner for one in self.quality.subjects}
        for broken in fails(self.quality.tick(_wall_ms())):
            owner = owners[broken.subject.title]
            if owner in self._runs:
                self._runs[owner].fail_after_batch(BadData(broken.text), now)
        self._state.write_quality(self.quality.history(_wall_ms()))

    def end_quality(self) -> None:
        """At the end of the run: judge the measures, store them, and write them to the topic of reports."""
        if not self.quality.subjects:
            return
        self._broken = fails(self.quality.end(_wall_ms(), is_once=self._is_once))
        self._state.write_quality(self.quality.history(_wall_ms()))
        if self._pipeline.quality_topic is not None:
            write_report(self._connection, self._pipeline.quality_topic, self.quality.report(_wall_ms()))

    def _resume(self) -> None:
        for name in self._state.take_resumed():
            if name in self._runs:
                self._runs[name].life.resumed()

    # Its end

    def stop(self, timeout_s: float = 0.0, hurried: threading.Event | None = None) -> None:
        """End all queries: each after its running batch, within a limit. The next run does an unfinished batch
        again."""
        self._followed.stop()
        for isolation in self._isolations.values():
            isolation.stop()
        end = time.monotonic() + timeout_s
        while time.monotonic() < end and not (hurried is not None and hurried.is_set()):
            for run in self._runs.values():
                self._tell(run.flow.name, run.end_batch(_now()))
            if not any(run.is_active for run in self._runs.values()):
                break
            time.sleep(STOP_TICK_S)
        for run in self._runs.values():
            run.stop(_now())
        self._brokers.stop()

    def failure(self) -> PipelineError | None:
        """The flows that have failed for good or are paused, as one error of the first one's kind."""
        failed = [run.failure for run in self._runs.values() if run.life.is_in_trouble and run.failure is not None]
        followed = self._followed.causes()
        known = "; ".join(map(str, failed))
        broken = [one.text for one in self._broken if one.text not in known]
        texts = [*map(str, failed), *followed, *broken]
        if not texts:
            return None
        kind = type(failed[0]) if failed else PipelineError if followed else BadData
        return kind("; ".join(dict.fromkeys(texts)))

    def status(self, state: str, cause: str | None = None) -> dict[str, Any]:
        return {
            "pipeline": self._pipeline.name,
            "state": state,
            "cause": cause,
            "waits_for": self._waits_for if state == "starting" else None,
            "outage": None if (outage := self._brokers.outage) is None else outage._asdict(),
            "updated_at": time.time(),
            "stop_timeout_s": self._pipeline.stop_timeout_ms / 1000,
            "flows": [run.progress.to_json() for run in self._runs.values()],
            "sources": [counts.to_json() for counts in self.counts],
            "followed": self._followed.to_json(_now()),
            "dead_letters": self._pipeline.dead_letters if self.counts else None,
        }


def _is_topic(source: Source | None) -> bool:
    return source is not None and source.kind == "topic"


def _wall_ms() -> int:
    return int(time.time() * 1000)


def _now() -> int:
    return int(time.monotonic() * 1000)
