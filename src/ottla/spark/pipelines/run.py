"""A pipeline at work: its queries in one SparkSession, their progress, and why they ended.

Every flow is one streaming query with a checkpoint of its own; so are the dead letters (see `frames`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from ottla.client.errors import KafkaError
from ottla.converters.errors import ConverterError
from ottla.spark.pipelines import jdbc, targets
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Flow, Pipeline, PipelineError
from ottla.spark.pipelines.failures import SLOW_START, failure, flow_failure
from ottla.spark.pipelines.frames import Frames
from ottla.spark.pipelines.progress import FlowProgress, SourceCounts
from ottla.spark.pipelines.redaction import Redaction
from ottla.spark.pipelines.state import PipelineState
from ottla.spark.pipelines.topics import check_topics

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
        self._frames = Frames(pipeline, spark, state, connection)
        self._state = state
        self._connection = connection
        self._queries: dict[str, StreamingQuery] = {}
        self._followers: dict[str, jdbc.Follower] = {}
        self._waiting: list[Flow] = []
        self._is_once = False
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
        check_topics(self._pipeline, self._connection, makes_missing=makes_topics)
        self._begin("checking sources, SQL and targets")
        self._frames.make(may_change=makes_topics)
        self._followers = self._frames.followers
        for flow in self._pipeline.flows:
            self.flows[flow.name] = FlowProgress(flow.name, flow.target)
        if self._frames.letters is not None:
            self.flows[LETTERS_FLOW] = FlowProgress(LETTERS_FLOW, f"topic {self._pipeline.dead_letters}")

    def columns(self) -> dict[str, str]:
        """The columns of what each flow reads, for people."""
        return self._frames.columns()

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
        if self._frames.letters is not None:
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
            prepared = self._frames.letters if flow.name == LETTERS_FLOW else self._frames.flows[flow.name]
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
