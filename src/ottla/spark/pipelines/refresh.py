"""A flow begun anew: all of its rows are written again to its target, none twice.

The flow runs to the end of what there is with a checkpoint of its own, `FLOW.refresh`, which then takes the place of
the old one. The first batch of that checkpoint's query replaces the rows of a table in one commit; the table notes
which batch of which query it was, so that a refresh that was killed goes on where it was. A file beside the checkpoints
says that a refresh is under way: until the same command has ended it, the pipeline does not run.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.client.admin import ConfigResource, NewTopic, ResourceType
from ottla.spark.faults import fault_point
from ottla.spark.pipelines import targets
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Flow, Pipeline, PipelineError
from ottla.spark.pipelines.failures import SLOW_START, failure
from ottla.spark.pipelines.fingerprints import fingerprints
from ottla.spark.pipelines.frames import Frames
from ottla.spark.pipelines.history import History, definition_id, definition_of
from ottla.spark.pipelines.progress import FlowProgress
from ottla.spark.pipelines.redaction import Redaction
from ottla.spark.pipelines.refresh_plan import RefreshPlan, read_from
from ottla.spark.pipelines.state import PipelineState
from ottla.spark.pipelines.topics import check_topics

POLL_S = 1
MAX_STARTS = 4
RESTART_PAUSE_S = 2.0


def is_compacted(flow: Flow | None, connection: Connection) -> bool:
    """Whether the topic of a flow keeps the last value of each key."""
    if flow is None or flow.topic is None:
        return False
    with connection.admin() as admin:
        if flow.topic not in admin.list_topics():
            return False
        resource = ConfigResource(ResourceType.TOPIC, flow.topic)
        policy = admin.describe_configs([resource])[resource]["cleanup.policy"].value
    return "compact" in (policy or "")


class Refresh:
    """The refresh of one flow."""

    def __init__(self, pipeline: Pipeline, plan: RefreshPlan, state: PipelineState, connection: Connection) -> None:
        self._pipeline = replace(
            pipeline, sources=tuple(read_from(source, plan) for source in pipeline.sources), flows=(plan.flow,)
        )
        self._whole = pipeline
        self._plan = plan
        self._state = state
        self._connection = connection
        self.progress = FlowProgress(plan.flow.name, plan.flow.target)

    @property
    def _checkpoint(self) -> Path:
        return Path(self._state.checkpoint(f"{self._plan.flow.name}.refresh"))

    def check_journal(self) -> bool:
        """Whether this refresh was begun before and goes on. PipelineError: it was begun with other arguments."""
        begun = self._state.read_refresh(self._plan.flow.name)
        if begun is None:
            return False
        if begun["asked"] != self._asked:
            raise PipelineError(
                f"a refresh of {self._plan.flow.name} is under way with {begun['asked']}: end it with those arguments"
            )
        return True

    @property
    def _asked(self) -> dict[str, Any]:
        at = self._plan.starts_at
        return {"from": at.isoformat() if at is not None else "beginning", "target": self._plan.flow.target}

    def run(self, spark: SparkSession, show: Callable[[FlowProgress], None]) -> None:
        """Do it, or go on with it."""
        name = self._plan.flow.name
        started_at, history = time.time(), History(self._state.folder)
        definition = definition_of(self._whole, Redaction.of(self._whole, self._connection))
        begun = self._state.read_refresh(name) or {}
        if begun.get("phase") != "swapping":
            if self._plan.flow.topic is not None:
                self._make_topic(self._plan.flow.topic)
            check_topics(self._pipeline, self._connection, makes_missing=True)
            frames = Frames(self._pipeline, spark, self._state, self._connection)
            frames.make(may_change=True)
            plan = fingerprints(self._pipeline, frames, definition_id(definition))[name]
            if self._plan.flow.target != self._flow_of_file.target:
                plan |= {"refreshed_into": self._plan.flow.target, "definition": None}  # so the next run compares it
            self._state.write_refresh(name, {"phase": "reading", "asked": self._asked, "plan": plan})
            for follower in frames.followers.values():
                follower.step()
            history.begin({**definition, "refresh": name}, started_at)
            self._read(frames.flows[name], show)
            self._state.write_refresh(name, {"phase": "swapping", "asked": self._asked, "plan": plan})
        fault_point("refresh-read", 0)
        self._swap()
        status = {"flows": [self.progress.to_json()], "sources": []}
        history.end(started_at, status, "refreshed", None)

    @property
    def _flow_of_file(self) -> Flow:
        return next(one for one in self._whole.flows if one.name == self._plan.flow.name)

    def _make_topic(self, topic: str) -> None:
        with self._connection.admin() as admin:
            if topic not in admin.list_topics():
                admin.create_topics([NewTopic(topic)])

    def _read(self, rows: DataFrame, show: Callable[[FlowProgress], None]) -> None:
        """Run to the present end. A query whose Python processes started too slowly is started again."""
        name = self._plan.flow.name
        if not rows.isStreaming:
            raise PipelineError(f"flow {name} reads no stream: each run writes all of it anyway")
        for attempt in range(1, MAX_STARTS + 1):
            said = self._read_once(rows, show)
            if said is None:
                return
            if SLOW_START not in said or attempt == MAX_STARTS:
                raise failure(f"the refresh of {name} failed", said)
            time.sleep(RESTART_PAUSE_S * attempt)

    def _read_once(self, rows: DataFrame, show: Callable[[FlowProgress], None]) -> str | None:
        """Spark's message about a query that failed; None if it has read everything."""
        query = self._start(rows)
        try:
            while True:
                is_active = query.isActive
                for report in query.recentProgress:
                    self.progress.note(json.loads(report.json))
                show(self.progress)
                if not is_active:
                    break
                query.awaitTermination(POLL_S)
        except StreamingQueryException as error:
            return str(error)
        finally:
            if query.isActive:
                query.stop()
        ended = query.exception()
        return None if ended is None else str(ended)

    def _start(self, rows: DataFrame) -> StreamingQuery:
        return targets.start(
            self._pipeline,
            self._plan.flow,
            rows,
            self._connection,
            str(self._checkpoint),
            is_once=True,
            replaces=self._plan.replaces,
        )

    def _swap(self) -> None:
        """Put the new checkpoint in the place of the old one. Each step may have been done before."""
        name = self._plan.flow.name
        new, own = self._checkpoint, Path(self._state.checkpoint(name))
        old = own.with_name(f"{name}.old")
        if new.exists():
            if own.exists():
                shutil.rmtree(old, ignore_errors=True)
                own.rename(old)
            fault_point("refresh-swap", 0)
            new.rename(own)
        journal = self._state.read_refresh(name)
        assert journal is not None, "the journal goes last"
        self._state.write_plan(name, journal["plan"])
        self._state.end_refresh(name)
        shutil.rmtree(old, ignore_errors=True)
