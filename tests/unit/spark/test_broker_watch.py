"""Whether brokers answer: what is known of an outage, and what a flow and a health check say of it."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.cli.pipeline_webhook import Listener
from ottla.client.errors import AuthenticationError, ErrorCode, KafkaError, NoBrokerReached, RequestTimedOut
from ottla.spark.pipelines.broker_watch import BrokerWatch, Outage
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Flow
from ottla.spark.pipelines.flow_run import FlowRun, doing
from ottla.spark.pipelines.graph import flows_of_topics, graph_of
from ottla.spark.pipelines.lifecycle import FailurePolicy, Lifecycle
from ottla.spark.pipelines.pipeline_file import load_pipeline
from ottla.spark.pipelines.webhook import Head

OUTAGE = Outage("b:9092", 0.0, "refused")


class Watch(BrokerWatch):
    """Brokers whose answers a test chooses; a second passes with each question."""

    def __init__(self, *answers: Exception | None) -> None:
        times = iter(range(100, 200))
        super().__init__(Connection("b:9092"), lambda: float(next(times)))
        self._answers = list(answers)

    def ask(self) -> None:
        answer = self._answers.pop(0)
        if answer is not None:
            raise answer


def test_an_outage_begins_with_the_first_question_without_an_answer() -> None:
    watch = Watch(None, NoBrokerReached("refused"), RequestTimedOut("silent"), None, OSError("reset"))
    found = []
    for _ in range(5):
        watch.look()
        found.append(watch.outage and (watch.outage.since, watch.outage.cause.rpartition(": ")[2]))
    assert found == [None, (101, "refused"), (101, "silent"), None, (104, "reset")]
    assert str(OUTAGE) == "the broker at b:9092 has not answered since 1970-01-01T00:00:00Z: refused"


@pytest.mark.parametrize("answer", [AuthenticationError("wrong password"), KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)])
def test_a_refusal_is_an_answer(answer: Exception) -> None:
    watch = Watch(NoBrokerReached("refused"), answer)
    watch.look()
    watch.look()
    assert watch.outage is None


def test_it_asks_until_it_is_stopped() -> None:
    asked = threading.Event()
    watch = Watch()
    watch.ask = asked.set  # type: ignore[method-assign]
    watch.start()
    assert asked.wait(60)
    watch.stop()
    assert not [one for one in threading.enumerate() if one.name == "ottla-broker-watch"]


class Query:
    """A query that waits in a batch."""

    isActive = True
    lastProgress = None
    recentProgress = ()

    @property
    def status(self) -> dict[str, Any]:
        return {"message": "Processing new data"}


def test_a_flow_says_that_it_waits_for_the_broker_and_since_when() -> None:
    run = FlowRun(Flow("copy", "rows", topic="t"), Lifecycle(FailurePolicy(), Random(1)), "checkpoint", str)
    run.begin(lambda: cast("Any", Query()), 0)
    run.note_wait(1_000, OUTAGE, 7.5)
    shown = run.progress.to_json()
    assert shown["waits_for"] == "the broker at b:9092, which does not answer (refused)"
    assert (shown["waited_s"], shown["state"]) == (7, "starting")
    run.progress._last = (0, "reported")
    run.note_wait(2_000)
    assert (run.progress.waits_for, run.progress.waited_s) == (None, None)


def test_flows_of_topics_are_found_through_views(tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "seen.sql").write_text("select * from rows join files using (id)")
    document = {
        "sources": {"rows": {"topic": "t", "format": "string"}, "files": {"files": "in", "schema": "id int"}},
        "flows": {"a": {"from": "seen", "delta": "x"}, "b": {"from": "files", "delta": "y"}},
    }
    (tmp_path / "pipeline.yml").write_text(json.dumps(document))
    pipeline = load_pipeline(tmp_path, {})
    assert list(flows_of_topics(pipeline)) == ["a"]
    graph = graph_of(pipeline)
    assert graph.sources_of("a") == {"rows", "files"}
    assert graph.sources_of("b") == {"files"}


@pytest.mark.parametrize("outage", [None, OUTAGE])
def test_the_health_of_a_webhook_is_that_of_its_broker(outage: Outage | None) -> None:
    listener = Listener({}, cast("Any", None), cast("Any", SimpleNamespace(outage=outage)))
    head = Head("GET", "/health", {})
    status, text, keeps_open = asyncio.run(listener._handled(head, cast("Any", None), cast("Any", None)))
    said = json.loads(text)
    assert keeps_open
    if outage is None:
        assert (status, said) == (200, {"status": "ok"})
    else:
        assert (status, said) == (503, {"status": "unavailable", "error": str(OUTAGE)})


def test_what_a_query_waits_for_is_shown_without_java_objects() -> None:
    assert doing("Getting offsets from org.apache.spark.sql.execution.datasources.v2.X@2fc99e0") == "Getting offsets"
    assert doing("Processing new data") == "Processing new data"
