"""One flow of a run: its query, its state (`lifecycle`) and its reports (`progress`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.spark.pipelines.broker_watch import Outage
from ottla.spark.pipelines.definition import Flow
from ottla.spark.pipelines.errors import PipelineError, RuleBroken, Unavailable
from ottla.spark.pipelines.failures import failure, flow_failure
from ottla.spark.pipelines.lifecycle import Lifecycle
from ottla.spark.pipelines.progress import FlowProgress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SETTLED = ("Waiting", "Processing")
SILENCE_MS = 30_000
"""A query reports at least every ten seconds, also without rows: after this long the terminal shows what the flow waits
for."""


class FlowRun:
    """A flow of a run. `now` is monotonic milliseconds."""

    def __init__(self, flow: Flow, life: Lifecycle, checkpoint: str, redacted: Callable[[str], str]) -> None:
        self.flow = flow
        self.life = life
        self.progress = FlowProgress(flow.name, flow.target)
        self.failure: PipelineError | None = None
        """The last failure; valid while `life.is_in_trouble`."""
        self._checkpoint = checkpoint
        self._redacted = redacted
        self._query: StreamingQuery | None = None
        self._heard_at = 0
        self._is_broker_away = False
        self._reports_at_stop: int | None = None

    @property
    def is_active(self) -> bool:
        return self._query is not None and self._query.isActive

    @property
    def has_begun(self) -> bool:
        """Whether its query has found its sources: then the next one may start its Python processes."""
        query = self._query
        if query is None or not query.isActive:
            return True
        return query.lastProgress is not None or str(query.status["message"]).startswith(SETTLED)

    def begin(self, start: Callable[[], StreamingQuery | None], now: int) -> None:
        """Start its query. None: the flow is no stream, and all of it is written."""
        self.life.begun()
        self.progress.starts += 1
        self._heard_at = now
        try:
            self._query = start()
        except PipelineError as error:
            self._fail(error, now)
        except Exception as error:
            self._fail(failure(f"flow {self.flow.name} did not start", str(error)), now)
        else:
            if self._query is None:
                self.life.ended()
        self._show(now)

    def poll(self, now: int) -> list[dict[str, Any]]:
        """Take in what its query has reported since the last time, and its end."""
        query = self._query
        if query is None:
            self._show(now)
            return []
        is_active = query.isActive  # read before the reports, so that the last report is not missed
        documents = [json.loads(report.json) for report in query.recentProgress]
        new = [document for document in documents if self.progress.note(document)]
        if new:
            self._heard_at = now
            self.life.reported()
        if not is_active:
            self._query = None
            self.progress.in_per_second = self.progress.out_per_second = 0.0
            self.progress.wait(None, 0)
            ended = query.exception()
            if ended is None:
                self.life.ended()
            else:
                self._fail(flow_failure(self.flow.name, str(ended), self._checkpoint), now)
        self._show(now)
        return new

    def fail_after_batch(self, error: PipelineError, now: int) -> None:
        """End its query because of what a batch that was written has shown."""
        if self._query is not None:
            self._query.stop()
            self._query = None
        if self.life.is_begun:  # also after the query ended with that batch
            self._fail(error, now, may_be_poison=False)
        self._show(now)

    def _fail(self, error: PipelineError, now: int, *, may_be_poison: bool = True) -> None:
        self.failure = type(error)(self._redacted(str(error)))
        self.life.failed(
            str(self.failure),
            is_transient=isinstance(error, Unavailable),
            now=now,
            may_be_poison=may_be_poison and not isinstance(error, RuleBroken),
        )

    def isolated(self, count: int, now: int) -> None:
        """Records that make its batch fail are set aside."""
        self.progress.set_aside += count
        self.life.isolated()
        self._show(now)

    def not_isolated(self, error: PipelineError, now: int) -> None:
        """No record can be set aside; `error` says why. The failure of the batch comes first in the message."""
        said = self._redacted(f"{self.failure}; {error}")
        self.failure = Unavailable(said) if isinstance(error, Unavailable) else type(self.failure or error)(said)
        self.life.not_isolated(said, is_transient=isinstance(error, Unavailable), now=now)
        self._show(now)

    def _show(self, now: int) -> None:
        self.progress.state = self.life.state
        self.progress.cause = self.life.cause
        self.progress.failures = self.life.failure_count
        self.progress.retry_in_s = self.life.retry_in_s(now)

    def note_wait(self, now: int, outage: Outage | None = None, away_s: float = 0.0) -> None:
        """What the flow waits for: brokers that do not answer, or if it has not reported yet, or its last report is
        old."""
        if self.life.is_due(now):
            self.progress.wait("the flows before it", None)
        query = self._query
        if query is None or not query.isActive:
            return
        if outage is not None:
            self.progress.wait(f"the broker at {outage.brokers}, which does not answer ({outage.cause})", away_s)
            self._is_broker_away = True
            return
        if self._is_broker_away:
            self.progress.wait(None, None)
            self._is_broker_away = False
        said, silent_ms = self._redacted(doing(query.status["message"])), now - self._heard_at
        if not self.progress.has_reported:
            self.progress.wait(f"its first batch ({said})", silent_ms / 1000)
        elif silent_ms > SILENCE_MS:
            self.progress.wait(f"its next batch ({said})", silent_ms / 1000)

    # The end of the run

    def end_batch(self, now: int) -> list[dict[str, Any]]:
        """End the query after the batch that is running, if any, and take in its last reports."""
        if self._reports_at_stop is None:
            self._reports_at_stop = self.progress.reports
        new = self.poll(now)
        query = self._query
        if query is not None and (self.progress.reports > self._reports_at_stop or not query.status["isTriggerActive"]):
            self.stop(now)
        return new

    def stop(self, now: int) -> None:
        """End the query at once. A batch that it has begun is done again by the next run."""
        query, self._query = self._query, None
        if query is not None and query.isActive:
            try:
                query.stop()
            except Exception as error:  # Spark waits for spark.sql.streaming.stopTimeout, then Java ends with the run
                self.life.cause = self._redacted(f"it did not end in time: {error}".split("\n", 1)[0])
        self.life.stopped()
        self._show(now)
        self.progress.wait(None, None)


def doing(message: object) -> str:
    """What a query does, in Spark's words without the Java object that they may name."""
    return str(message).partition(" from org.apache.")[0]
