"""A pipeline at work: its queries in one SparkSession, their progress, and why they ended.

Every flow is one streaming query with a checkpoint of its own. One more query, `dead_letters`, reads all sources that
have rules, counts what the rules make of the rows and writes those that are put aside to the dead-letter topic. So a
letter is written exactly once, as everything else is, and whether a flow runs says nothing about the letters.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.client.admin import NewTopic
from ottla.client.errors import KafkaError
from ottla.converters.errors import ConverterError
from ottla.spark.pipelines import expectations, jdbc, sources, table_flows, targets
from ottla.spark.pipelines.batch_sink import BatchOfStream
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import TABLE_KINDS, Flow, Pipeline, PipelineError, Source
from ottla.spark.pipelines.failures import SLOW_START, failure, flow_failure
from ottla.spark.pipelines.progress import FlowProgress, SourceCounts
from ottla.spark.pipelines.redaction import Redaction
from ottla.spark.pipelines.state import PipelineState
from ottla.spark.pipelines.views import create_views
from ottla.spark.registration import register
from ottla.spark.tables.data_source import TableSource

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LETTERS_FLOW = "dead_letters"
TICK_S = 0.5
SETTLED = ("Waiting", "Processing")
MAX_RESTARTS = 3
RESTART_PAUSE_S = 2.0
"""Before a query that started too slowly is started again; twice as long before the next time."""
SILENCE_S = 30.0
"""A query reports every ten seconds at least, also without rows: after this long it is said what it does instead."""
ENDED = ("done", "failed", "stopped")
_UNITS_S = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}


class PipelineRun:
    """One run of a pipeline. `prepare` checks everything and starts nothing."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, state: PipelineState, connection: Connection) -> None:
        self._pipeline = pipeline
        self._spark = spark.newSession()
        register(self._spark, BatchOfStream)
        register(self._spark, TableSource)
        self._state = state
        self._connection = connection
        self._prepared: dict[str, DataFrame] = {}
        self._queries: dict[str, StreamingQuery] = {}
        self._followers: dict[str, jdbc.Follower] = {}
        self._letters: DataFrame | None = None
        self._waiting: list[Flow] = []
        self._is_once = False
        self._may_change = False
        self._letters_flow = Flow(LETTERS_FLOW, LETTERS_FLOW, topic=pipeline.dead_letters)
        self._restart_counts: dict[str, int] = {}
        self._restart_at = 0.0
        self._heard_at: dict[str, float] = {}
        self.doing: Callable[[str], None] = lambda text: None
        """Called with what is waited for, before it is."""
        self._waits_for: str | None = None
        self.redacted = Redaction.of(pipeline, connection)
        self.flows: dict[str, FlowProgress] = {}
        self.counts = [SourceCounts.of(source) for source in pipeline.counted_sources]

    def _begin(self, text: str) -> None:
        self._waits_for = text
        self.doing(text)

    # Before it starts

    def prepare(self, *, makes_topics: bool = True) -> None:
        """Make the DataFrames of all flows, which checks schemas, SQL, columns and topics."""
        self._begin(f"waiting for the broker at {self._connection.bootstrap_servers}")
        self._check_topics(makes_topics)
        self._begin("checking sources, SQL and targets")
        self._may_change = makes_topics
        try:
            self._prepare()
        except AnalysisException as error:
            raise PipelineError(expectations.first_line(error)) from None

    def _prepare(self) -> None:
        letters = []
        for source in self._pipeline.sources:
            rows = self._rows(source)
            if source.is_judged:
                judged = expectations.judge(source, rows)
                if source.is_counted:
                    counted = expectations.counted(source, judged)
                    letters.append(expectations.letters(self._pipeline, source, counted))
                rows = expectations.kept_rows(source, judged)
            elif source.can_fail_to_parse:
                rows = expectations.kept_rows(source, expectations.judge(source, rows))
            else:
                rows = rows.drop(expectations.ORIGIN, expectations.PARSE_ERROR)
            if source.watermark is not None:
                rows = rows.withWatermark(*source.watermark)
            rows.createOrReplaceTempView(source.name)
        create_views(self._spark, self._pipeline)
        for flow in self._pipeline.flows:
            if not self._spark.catalog.tableExists(flow.reads):
                raise PipelineError(
                    f"flows.{flow.name}: there is no source and no transformation with the name {flow.reads}"
                )
            self._prepared[flow.name] = targets.prepare(
                self._pipeline, flow, self._spark.table(flow.reads), may_change=self._may_change
            )
            self.flows[flow.name] = FlowProgress(flow.name, flow.target)
        if letters:
            self._letters = reduce(DataFrame.unionByName, letters).observe(
                targets.OUT, F.count(F.lit(1)).alias(targets.OUT)
            )
            self.flows[LETTERS_FLOW] = FlowProgress(LETTERS_FLOW, f"topic {self._pipeline.dead_letters}")

    def _rows(self, source: Source) -> DataFrame:
        if source.kind == "jdbc":
            if not source.is_stream:
                return jdbc.table(self._spark, source)
            follower = jdbc.Follower(self._spark, source, self._state.copies(source.name))
            self._followers[source.name] = follower
            return self._judged_rows(source, follower.stream())
        if source.kind == "topic":
            return sources.parsed(
                self._pipeline, source, sources.raw_topic(self._spark, self._pipeline, source, self._connection)
            )
        if source.has_bytes:
            redriven = self._state.redriven(source.name)
            return sources.parsed(
                self._pipeline, source, sources.raw_lines(self._spark, self._pipeline, source, redriven)
            )
        if source.kind in TABLE_KINDS:
            rows = table_flows.table_rows(self._spark, self._pipeline, source)
        else:
            rows = sources.parquet_files(self._spark, self._pipeline, source)
        return self._judged_rows(source, rows) if source.is_stream else rows

    def _judged_rows(self, source: Source, rows: DataFrame) -> DataFrame:
        """Rows of a stream that never were bytes, with those that come back where rows may be put aside."""
        if source.is_counted:
            return sources.with_redriven(rows, source.place, self._state.redriven(source.name))
        return sources.with_origin(rows, source.place)

    def columns(self) -> dict[str, str]:
        """The columns of what each flow reads, for people."""
        return {
            flow.name: ", ".join(
                f"{field.name} {field.dataType.simpleString()}"
                for field in self._spark.table(flow.reads).schema.fields
                if not field.name.startswith("_")
            )
            for flow in self._pipeline.flows
        }

    def _check_topics(self, makes_missing: bool) -> None:
        """Topics that are read have to be there; those that are written are made."""
        pipeline = self._pipeline
        written = [flow.topic for flow in pipeline.flows if flow.topic is not None]
        read = [source.topic for source in pipeline.sources if source.topic is not None]
        if pipeline.counted_sources:
            written += [pipeline.dead_letters, pipeline.redrive_topic]
        if not written and not read:
            return
        with self._connection.admin() as admin:
            known = admin.list_topics()
            missing = [topic for topic in dict.fromkeys(written) if topic not in known]
            for topic in read:
                if topic not in known and topic not in missing:
                    raise PipelineError(f"there is no topic {topic}: 'ottla topics create {topic}' makes it")
            if missing and makes_missing:
                admin.create_topics([NewTopic(topic) for topic in missing])

    # While it runs

    def start(self, *, is_once: bool = False) -> None:
        """Start all queries. With `is_once` they run one after the other, in the order of the file, so that what one
        writes is there for the next."""
        for follower in self._followers.values():
            self._begin(f"reading {follower.source.place}")
            try:
                follower.step()
            except PipelineError:
                raise
            except Exception as error:
                raise jdbc.failed(follower.source, error) from None
        self._is_once = is_once
        self._waiting = list(self._pipeline.flows)
        if self._letters is not None:
            self._waiting.append(self._letters_flow)
        self._start_next()
        if not is_once:
            for follower in self._followers.values():
                follower.start(_seconds(self._pipeline.trigger))

    @property
    def is_started(self) -> bool:
        """Whether every query has begun to run."""
        return not self._waiting and all(self._is_settled(query) for query in self._queries.values())

    def _start_next(self) -> None:
        """Start what waits. Each query has Python processes of its own, which Spark gives ten seconds to start: so one
        query after the other is begun."""
        if time.monotonic() < self._restart_at:
            return
        while self._waiting and all(self._is_settled(query) for query in self._queries.values()):
            flow = self._waiting.pop(0)
            self._begin(f"starting the flow {flow.name}")
            prepared = self._letters if flow.name == LETTERS_FLOW else self._prepared[flow.name]
            assert prepared is not None
            try:
                self._start(flow, prepared)
            except PipelineError:
                raise
            except Exception as error:
                self.flows[flow.name].state = "failed"
                raise failure(f"flow {flow.name} did not start", str(error)) from None

    def _is_settled(self, query: StreamingQuery) -> bool:
        """Whether a query lets the next one begin: when its sources are there; with `is_once` when it has ended."""
        if not query.isActive:
            return True
        is_begun = query.lastProgress is not None or str(query.status["message"]).startswith(SETTLED)
        return is_begun and not self._is_once

    def _start(self, flow: Flow, prepared: DataFrame) -> None:
        """Start a query; a flow that is no stream is written here, at once."""
        if not prepared.isStreaming:
            targets.write_once(self._pipeline, flow, prepared, self._connection)
            self.flows[flow.name].state = "done"
            return
        checkpoint = self._state.checkpoint(flow.name)
        self._heard_at[flow.name] = time.monotonic()
        self._queries[flow.name] = targets.start(
            self._pipeline, flow, prepared, self._connection, checkpoint, is_once=self._is_once
        )

    def poll(self) -> bool:
        """Take in what has been reported; True while anything runs. PipelineError: a flow failed."""
        is_any_active = bool(self._waiting)
        for name, query in list(self._queries.items()):
            is_active = query.isActive  # asked first: what is reported before the end is not missed
            progress = self.flows[name]
            if progress.state in ENDED:
                continue
            for report in query.recentProgress:
                document = json.loads(report.json)
                if not progress.note(document):
                    continue
                self._heard_at[name] = time.monotonic()
                if name == LETTERS_FLOW:
                    for counts in self.counts:
                        counts.note(document)
            is_any_active |= is_active
            if not is_active:
                progress.in_per_second = progress.out_per_second = 0.0
                ended = query.exception()
                if ended is not None and SLOW_START in str(ended) and self._restart(name):
                    is_any_active = True
                    continue
                progress.state = "failed" if ended is not None else "done"
                progress.wait(None, 0)
                if ended is not None:
                    raise flow_failure(name, str(ended), self._state.checkpoint(name))
        self._start_next()
        for follower in self._followers.values():
            if isinstance(follower.error, PipelineError):
                raise follower.error
            if follower.error is not None:
                raise jdbc.failed(follower.source, follower.error)
        self._note_waits()
        return is_any_active

    def _note_waits(self) -> None:
        """What each flow waits for that has not reported yet, or not for long."""
        now = time.monotonic()
        for flow in self._waiting:
            self.flows[flow.name].wait("the flows before it", None)
        for name, query in self._queries.items():
            progress, silent_s = self.flows[name], now - self._heard_at[name]
            if progress.state in ENDED or not query.isActive:
                continue
            said = self.redacted(str(query.status["message"]))
            if not progress.has_reported:
                progress.wait(f"its first batch ({said})", silent_s)
            elif silent_s > SILENCE_S:
                progress.wait(f"its next batch ({said})", silent_s)

    def _restart(self, name: str) -> bool:
        """Begin a query again where its checkpoint stands; False when that was done often enough."""
        self._restart_counts[name] = self._restart_counts.get(name, 0) + 1
        if self._restart_counts[name] > MAX_RESTARTS:
            return False
        del self._queries[name]
        flow = next((one for one in self._pipeline.flows if one.name == name), self._letters_flow)
        self._waiting.insert(0, flow)
        self._restart_at = time.monotonic() + RESTART_PAUSE_S * 2 ** (self._restart_counts[name] - 1)
        return True

    def stop(self) -> None:
        """End all queries. What a batch has begun is done again when the pipeline runs the next time."""
        for follower in self._followers.values():
            follower.stop()
        for flow in self._waiting:
            self.flows[flow.name].state = "not started"
        for name, query in self._queries.items():
            if query.isActive:
                query.stop()
                self.flows[name].state = "stopped"
        for progress in self.flows.values():
            progress.wait(None, None)

    def status(self, state: str, cause: str | None = None) -> dict[str, Any]:
        return {
            "pipeline": self._pipeline.name,
            "state": state,
            "cause": cause,
            "waits_for": self._waits_for if state == "starting" else None,
            "updated_at": time.time(),
            "flows": [flow.to_json() for flow in self.flows.values()],
            "sources": [counts.to_json() for counts in self.counts],
            "dead_letters": self._pipeline.dead_letters if self.counts else None,
        }


def run_pipeline(
    run: PipelineRun,
    state: PipelineState,
    stopped: threading.Event,
    show: Callable[[PipelineRun], None],
    *,
    is_once: bool = False,
) -> None:
    """Run to the end, or until it is stopped. PipelineError: why it could not go on."""
    ended, cause, said = "failed", None, run.doing

    def doing(text: str) -> None:
        said(text)
        state.write_status(run.status("starting"))

    run.doing = doing
    try:
        run.prepare()
        run.start(is_once=is_once)
        while run.poll():
            state.write_status(run.status("running"))
            show(run)
            if stopped.wait(TICK_S):
                break
        ended = "stopped" if stopped.is_set() else "done"
    except PipelineError as error:
        if not stopped.is_set():
            cause = run.redacted(str(error))
            raise type(error)(cause) from None
        ended = "stopped"
    except (KafkaError, ConverterError) as error:
        cause = run.redacted(str(error))
        raise
    except KeyboardInterrupt:
        ended = "stopped"
        raise
    finally:
        run.stop()
        state.write_status(run.status(ended, cause))
        show(run)


def _seconds(trigger: str) -> float:
    number, unit = trigger.split()
    return max(int(number) * _UNITS_S[unit.removesuffix("s")], 0.1)
