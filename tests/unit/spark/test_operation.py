"""What is seen of a run from outside: metrics, events, logs, lineage, traces and the live view; without Spark."""

from __future__ import annotations

import io
import itertools
import json
import queue
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.pipeline_observers import JsonLog
from ottla.cli.pipeline_view import LiveView, Rates, sparkline, view_lines
from ottla.spark.pipelines.definition import Pipeline, PipelineError
from ottla.spark.pipelines.events import Event, Events
from ottla.spark.pipelines.lineage import Lineage, dataset_of, fields_of
from ottla.spark.pipelines.lineage_sender import LineageSender, LineageSettings
from ottla.spark.pipelines.metrics import MetricsServer, metrics_text
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.progress import Arrivals, Batch, FlowProgress
from ottla.spark.pipelines.traces import Traces, are_wanted
from tests.serving import served

SOURCE = {"source": "rows", "rows": 10, "kept": 7, "dropped": 1, "letters": 2, "failed": {'a "b"': 3}, "unexpected": {}}


def report(batch_id: int, *, rows: int = 5, end: int = 5, latest: int = 5, second: int = 0) -> dict[str, Any]:
    def offsets(offset: int) -> dict[str, Any]:
        return {"orders": {"0": offset}}

    return {
        "batchId": batch_id, "timestamp": f"2026-11-18T08:00:{second:02}.000Z", "numInputRows": rows,
        "durationMs": {"triggerExecution": 400, "addBatch": 300, "latestOffset": 20},
        "observedMetrics": {"written": {"written": rows}},
        "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 1000}, {"numRowsTotal": 4, "memoryUsedBytes": 24}],
        "sources": [{"endOffset": offsets(end), "latestOffset": offsets(latest)}],
    }  # fmt: skip


def flow(name: str = "copy", state: str = "running", **more: Any) -> dict[str, Any]:
    progress = FlowProgress(name, "topic out", state)
    return {**progress.to_json(), **more}


def status(*flows: dict[str, Any], state: str = "running", **more: Any) -> dict[str, Any]:
    return {"pipeline": "shop", "state": state, "cause": None, "flows": list(flows), "sources": [], **more}


def batch(batch_id: int, rows: int = 5) -> Batch:
    return Batch(batch_id, 1000.0 + batch_id, 400, rows, rows, {"addBatch": 300, "latestOffset": 20})


# --- progress


def test_a_flow_knows_its_state_its_last_success_and_its_batches() -> None:
    progress = FlowProgress("copy", "topic out")
    assert (
        progress.note(report(0)) and progress.note(report(1, rows=0, second=2)) and progress.note(report(2, second=4))
    )
    assert (progress.state_rows, progress.state_bytes, progress.busy_ms) == (7, 1024, 1200)
    assert progress.succeeded_at == datetime(2026, 11, 18, 8, 0, 4, 400_000, UTC).timestamp()
    assert [one.batch_id for one in progress.batches_after(None)] == [0, 2]
    assert [one.batch_id for one in progress.batches_after(progress.batches_after(None)[0].place)] == [2]
    assert "_batches" not in progress.to_json()
    json.dumps(progress.to_json())


def test_lag_in_seconds_is_the_age_of_the_oldest_record_that_was_not_read() -> None:
    arrivals = Arrivals()
    assert arrivals.age_s((0, 10), 100.0) == 0.0  # it came just now, as far as is known
    assert arrivals.age_s((5, 10), 103.0) == 3.0
    assert arrivals.age_s((10, 20), 105.0) == 0.0  # the first ten are read, the others are new
    assert arrivals.age_s((15, 30), 109.0) == 4.0
    assert arrivals.age_s((20, 30), 110.0) == 1.0
    assert arrivals.age_s((30, 30), 120.0) == 0.0
    assert arrivals.age_s(None, 130.0) is None


# --- metrics


def test_metrics_are_of_flows_sources_and_rules() -> None:
    progress = FlowProgress("copy", "topic out", "running", starts=3)
    progress.note(report(0, end=3, latest=5))
    text = metrics_text(status(progress.to_json(), sources=[SOURCE]))
    lines = text.splitlines()
    assert 'ottla_pipeline_up{pipeline="shop"} 1' in lines
    labels = 'pipeline="shop",flow="copy"'
    for line in (
        f"ottla_pipeline_flow_rows_in_total{{{labels}}} 5",
        f"ottla_pipeline_flow_rows_out_total{{{labels}}} 5",
        f"ottla_pipeline_flow_lag_records{{{labels}}} 2",
        f"ottla_pipeline_flow_lag_seconds{{{labels}}} 0",
        f"ottla_pipeline_flow_last_batch_seconds{{{labels}}} 0.4",
        f"ottla_pipeline_flow_restarts_total{{{labels}}} 2",
        f"ottla_pipeline_flow_state_rows{{{labels}}} 7",
        f"ottla_pipeline_flow_state_bytes{{{labels}}} 1024",
        f'ottla_pipeline_flow_state{{{labels},state="running"}} 1',
        f'ottla_pipeline_flow_state{{{labels},state="failed"}} 0',
        'ottla_pipeline_source_letters_total{pipeline="shop",source="rows"} 2',
        'ottla_pipeline_rule_failures_total{pipeline="shop",source="rows",rule="a \\"b\\""} 3',
    ):
        assert line in lines
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    for line in lines:
        assert line.startswith("# ") or float(line.rsplit(" ", 1)[1]) >= 0


def test_what_is_not_known_is_no_metric() -> None:
    text = metrics_text(status(flow()))
    assert "lag_records" not in text and "last_success" not in text


def test_the_port_serves_metrics_and_nothing_else() -> None:
    server = MetricsServer("127.0.0.1", 0)
    try:
        server.show(status(flow()))
        with urllib.request.urlopen(f"http://{server.address}/metrics", timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b"ottla_pipeline_up" in answer.read()
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(f"http://{server.address}/other", timeout=60)
        with raised.value as error:
            assert error.code == 404
    finally:
        server.close()


# --- events


def test_a_run_is_told_as_events() -> None:
    events = Events()
    looks = [
        (status(flow(state="starting"), state="starting"), {}),
        (status(flow()), {"copy": [batch(0)]}),
        (status(flow(), sources=[SOURCE]), {"copy": [batch(1), batch(2)]}),
        (status(flow(state="backing off", cause="no broker")), {}),
        (status(flow()), {}),
        (status(flow(state="failed", cause="bad row"), state="failed", cause="bad row"), {}),
    ]
    told = [[one.name for one in events.look(one, batches, 1.0)] for one, batches in looks]
    assert told == [
        ["run_started"],
        ["flow_started", "batch_done"],
        ["batch_done", "batch_done", "letters"],
        ["flow_waits"],
        [],
        ["flow_ended", "run_ended"],
    ]
    assert events.last_batch("copy") == (2, 1002.0)


def test_brokers_that_do_not_answer_are_an_event_and_so_is_their_return() -> None:
    events, outage = Events(), {"brokers": "b:9092", "since": 5.0, "cause": "refused"}
    looks = [None, outage, {**outage, "cause": "silent"}, None]
    told = [list(events.look({**status(), "outage": one}, {}, 1.0)) for one in looks]
    assert [[one.name for one in some] for some in told] == [["run_started"], ["broker_away"], [], ["broker_back"]]
    assert told[1][0].to_json("shop") == {
        "event": "broker_away", "level": "warning", "pipeline": "shop", **outage,
    }  # fmt: skip


def test_a_flow_that_ends_at_once_has_started_too() -> None:
    told = list(Events().look(status(flow(state="done"), state="done"), {"copy": [batch(0)]}, 1.0))
    assert [one.name for one in told] == ["run_started", "flow_started", "batch_done", "flow_ended", "run_ended"]


def test_logs_are_a_line_of_json_for_each_event() -> None:
    out = io.StringIO()
    log = JsonLog("shop", out)
    log.handle(Event("batch_done", 0.5, "copy", {"lag": 3}, batch(7)))
    log.handle(Event("flow_ended", 1.0, "copy", {"state": "failed", "cause": "a\nb"}))
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert (first["time"], first["event"], first["level"]) == ("1970-01-01T00:00:00.500+00:00", "batch_done", "info")
    assert (first["flow"], first["batch_id"], first["rows_in"], first["lag"]) == ("copy", 7, 5, 3)
    assert (second["level"], second["cause"]) == ("error", "a\nb")


# --- lineage


def pipeline_of(folder: Path) -> Pipeline:
    (folder / "transformations").mkdir()
    (folder / "transformations" / "joined.sql").write_text("select * from rows join people using (id)")
    database = "jdbc:postgresql://me:geheim@db/shop?password=geheim"
    document = {
        "name": "shop",
        "sources": {
            "rows": {"topic": "orders", "schema": "id bigint, tags array<struct<a: int, b: string>>"},
            "people": {"jdbc": database, "table": "people"},
        },
        "flows": {
            "joined": {"delta": "s3://bucket/joined"},
            "copy": {"from": "rows", "topic": "copy"},
            "calls": {"from": "rows", "http": "https://me:geheim@hooks.example/in?token=geheim"},
        },
    }
    return parse_pipeline(folder, document, {})


def lineage_of(folder: Path) -> Lineage:
    numbers = itertools.count(1)
    columns = {"copy": "id bigint, tags array<struct<a:int,b:string>>", "joined": "id bigint, name string"}
    return Lineage(
        pipeline_of(folder), "bank", "kafka1:9092,kafka2:9092", columns,
        lambda: f"00000000-0000-4000-8000-{next(numbers):012}", "4.3.0",
    )  # fmt: skip


def test_a_flow_is_a_job_with_its_datasets_columns_and_rows(tmp_path: Path) -> None:
    lineage = lineage_of(tmp_path)
    events = [
        Event("run_started", 0.0),
        Event("flow_started", 100.0, "joined"),
        Event("batch_done", 101.0, "joined", {}, batch(0)),
        Event("batch_done", 200.0, "joined", {}, batch(1)),
        Event("flow_ended", 201.0, "joined", {"state": "failed", "cause": "no such column"}),
        Event("flow_ended", 202.0, "copy", {"state": "stopped"}),  # it never started
        Event("run_ended", 203.0, fields={"state": "failed", "cause": "no such column"}),
    ]
    found = [document for event in events for document in lineage.documents(event)]
    assert [one["eventType"] for one in found] == ["START", "START", "RUNNING", "FAIL", "FAIL"]
    run, start, running, failed, _ = found
    assert {one["run"]["runId"] for one in (start, running, failed)} != {run["run"]["runId"]}
    assert start["run"]["facets"]["parent"]["run"]["runId"] == run["run"]["runId"]
    assert (start["job"]["namespace"], start["job"]["name"]) == ("bank", "shop.joined")
    assert start["job"]["facets"]["sql"]["query"] == "select * from rows join people using (id)"
    assert [(one["namespace"], one["name"]) for one in start["inputs"]] == [
        ("kafka://kafka1:9092", "orders"),
        ("postgres://db:5432", "shop.people"),
    ]
    output = failed["outputs"][0]
    assert (output["namespace"], output["name"]) == ("s3://bucket", "joined")
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 10
    assert failed["run"]["facets"]["errorMessage"]["message"] == "no such column"
    assert "geheim" not in json.dumps(found)


def test_a_flow_that_copies_a_source_has_the_lineage_of_its_columns(tmp_path: Path) -> None:
    lineage = lineage_of(tmp_path)
    (start,) = lineage.documents(Event("flow_started", 100.0, "copy"))
    facets = start["outputs"][0]["facets"]
    assert [one["name"] for one in facets["schema"]["fields"]] == ["id", "tags"]
    assert facets["columnLineage"]["fields"]["id"]["inputFields"][0]["name"] == "orders"
    assert dataset_of(lineage.pipeline.flows[2], lineage.pipeline, "x") == ("https://hooks.example", "in")


def test_columns_are_split_where_sql_splits_them() -> None:
    assert fields_of("a decimal(18,2) NOT NULL, b struct<x: int, y: string>") == [
        {"name": "a", "type": "decimal(18,2)"},
        {"name": "b", "type": "struct<x: int, y: string>"},
    ]
    assert fields_of("") == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"OPENLINEAGE_URL": "http://x", "OPENLINEAGE_DISABLED": "true"}, None),
        ({"OPENLINEAGE_URL": "http://x/"}, LineageSettings("http://x/api/v1/lineage")),
        (
            {"OPENLINEAGE_URL": "http://x", "OPENLINEAGE_ENDPOINT": "/in", "OPENLINEAGE_API_KEY": "k"},
            LineageSettings("http://x/in", "k"),
        ),
        ({"OPENLINEAGE_FILE": "f", "OPENLINEAGE_NAMESPACE": "n"}, LineageSettings(file="f", namespace="n")),
    ],
)
def test_lineage_goes_where_the_environment_says(environment: dict[str, str], expected: object) -> None:
    assert LineageSettings.of(environment) == expected
    with pytest.raises(PipelineError, match="an address such as"):
        LineageSettings.of({"OPENLINEAGE_URL": "x"})


class Collector(ThreadingHTTPServer):
    """Keeps what is posted to it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Keeper)
        self.taken: queue.Queue[tuple[str, str, bytes]] = queue.Queue()
        self.failures = 0


class Keeper(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.failures -= 1
        is_failed = self.server.failures >= 0
        if not is_failed:
            self.server.taken.put((self.path, self.headers.get("Authorization", ""), body))
        self.send_response(503 if is_failed else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def collector() -> Iterator[Collector]:
    with served(Collector()) as server:
        yield server


def test_lineage_is_sent_and_tried_again(tmp_path: Path, collector: Collector) -> None:
    collector.failures = 1
    url = f"http://127.0.0.1:{collector.server_port}/api/v1/lineage"
    sender = LineageSender(lineage_of(tmp_path), LineageSettings(url, "key", str(tmp_path / "events")))
    sender.handle(Event("run_started", 0.0))
    sender.handle(Event("flow_started", 0.0, "copy"))
    sender.close()
    path, authorization, body = collector.taken.get(timeout=60)
    assert (path, authorization, json.loads(body)["eventType"]) == ("/api/v1/lineage", "Bearer key", "START")
    assert len((tmp_path / "events").read_text().splitlines()) == 2


# --- traces


def test_traces_are_made_where_the_environment_names_a_collector() -> None:
    assert not are_wanted({})
    assert are_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"})
    assert not are_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"})
    assert not are_wanted({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"})


def test_a_batch_is_a_span_with_its_steps(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="traces need ottla[otel]")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    traces = Traces("shop", "1.0")
    for event in (
        Event("run_started", 1000.0),
        Event("batch_done", 1001.0, "copy", {"lag": 3}, batch(0)),
        Event("run_ended", 1002.0, fields={"state": "failed", "cause": "why"}),
    ):
        traces.handle(event)
    traces.close()
    path, _, body = collector.taken.get(timeout=60)
    assert path == "/v1/traces"
    resource = ExportTraceServiceRequest.FromString(body).resource_spans[0]
    spans = {span.name: span for span in resource.scope_spans[0].spans}
    assert set(spans) == {"pipeline shop", "batch copy", "latestOffset", "addBatch"}
    assert spans["batch copy"].parent_span_id == spans["pipeline shop"].span_id
    assert spans["addBatch"].parent_span_id == spans["batch copy"].span_id
    assert spans["batch copy"].end_time_unix_nano - spans["batch copy"].start_time_unix_nano == 400_000_000
    assert spans["pipeline shop"].status.message == "why"
    assert any(
        one.key == "service.name" and one.value.string_value == "ottla-shop" for one in resource.resource.attributes
    )


# --- the live view


def shown(*flows: dict[str, Any], width: int = 80, **more: Any) -> list[str]:
    rates, now = Rates(), 0.0
    for rows in (0, 100, 400):
        rates.note(status(*({**one, "rows_in": rows} for one in flows)), now)
        now += 2.0
    return view_lines(status(*flows, **more), rates, width, 65.0, colours=False)


def test_the_view_shows_flows_rates_lag_and_letters() -> None:
    lines = shown(flow(lag=1200, lag_s=4.2, batch_ms=800, rows_out=12345), sources=[SOURCE])
    assert lines[0].startswith("shop  running for 65 s") and lines[0].endswith("2 dead letters")
    assert lines[2].split() == ["●", "copy", "▁" * 12 + "▄█", "67", "1,200", "4", "s", "800", "ms", "12,345"]
    assert lines[3].strip() == "-> topic out"
    assert lines[-1] == 'rows: 10 judged, 7 kept, 1 dropped, 2 put aside (a "b": 3)'


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_view_fits_its_terminal(width: int) -> None:
    long = flow("a" * 90, "failed", cause="because " * 90, target="topic " + "t" * 200, rows_out=10**15, lag=10**14)
    waits = flow(waits_for="its first batch (Initializing sources of a very long kind)", waited_s=70)
    lines = shown(long, waits, width=width, sources=[{**SOURCE, "failed": {"r" * 200: 1}}])
    assert max(map(len, lines)) <= width
    assert sum("because" in line for line in lines) == 3


def test_the_view_is_drawn_over_the_one_before_in_one_write() -> None:
    class Out(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += 1
            return super().write(text)

    out = Out()
    view = LiveView(out, 0.0)
    view.draw(status(flow()), 0.0)
    view.draw(status(flow()), 0.5)
    assert out.writes == 2
    assert "\x1b[4F" in out.getvalue() and "\x1b[2J" not in out.getvalue()
    view.erase()
    assert out.getvalue().endswith("\x1b[4F\x1b[J")


def test_control_characters_of_names_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in "".join(
        shown(flow(cause="a\x1b[2Jb", target="x\x1by"), sources=[{**SOURCE, "source": "\x1b"}])
    )


def test_sparklines_have_eight_heights() -> None:
    assert sparkline([0, 1, 4, 8]) == "▁▂▅█"
    assert sparkline([0, 0]) == "▁▁"
