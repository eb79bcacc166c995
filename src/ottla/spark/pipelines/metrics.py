"""A pipeline's status as metrics in Prometheus' text format, and the port that serves them. The text is pure: a status
in, lines out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = ("starting", "running", "backing off", "isolating", "paused", "failed", "stopped", "done", "not started")
REQUEST_TIMEOUT_S = 10.0

Labels = Mapping[str, str]
_FLOW: tuple[tuple[str, str, str, Callable[[Mapping[str, Any]], float | None]], ...] = (
    ("rows_in_total", "counter", "Rows read since the run began.", lambda flow: flow["rows_in"]),
    ("rows_out_total", "counter", "Rows written since the run began.", lambda flow: flow["rows_out"]),
    ("batches_total", "counter", "Batches with rows since the run began.", lambda flow: flow["batches"]),
    ("late_rows_total", "counter", "Rows that came after the watermark.", lambda flow: flow["late"]),
    ("batch_seconds_total", "counter", "Time of all batches together.", lambda flow: flow["busy_ms"] / 1000),
    ("restarts_total", "counter", "How often it was begun again.", lambda flow: max(flow["starts"] - 1, 0)),
    ("set_aside_total", "counter", "Poison records that became dead letters.", lambda flow: flow.get("set_aside", 0)),
    ("failures", "gauge", "Failures since its last batch that succeeded.", lambda flow: flow["failures"]),
    ("lag_records", "gauge", "Records of its topics that it has not read.", lambda flow: flow["lag"]),
    ("lag_seconds", "gauge", "Age of the oldest record that it has not read.", lambda flow: flow["lag_s"]),
    ("last_batch_seconds", "gauge", "How long its last batch took.",
     lambda flow: None if flow["batch_ms"] is None else flow["batch_ms"] / 1000),
    ("last_success_timestamp_seconds", "gauge", "When its last batch ended.", lambda flow: flow["succeeded_at"]),
    ("state_rows", "gauge", "Rows that its aggregations and joins keep.", lambda flow: flow["state_rows"]),
    ("state_bytes", "gauge", "Memory of what its aggregations and joins keep.", lambda flow: flow["state_bytes"]),
)  # fmt: skip
_SOURCE = (("rows", "Rows that the rules have judged."), ("kept", "Rows that went on."),
           ("dropped", "Rows that were dropped."), ("letters", "Rows that became dead letters."))  # fmt: skip


def metrics_text(status: Mapping[str, Any]) -> str:
    """The metrics for Prometheus. Counters begin at 0 with each run, as in any process."""
    pipeline = str(status["pipeline"])
    lines = [*_family("ottla_pipeline_up", "gauge", "1 while the pipeline starts or runs.")]
    is_up = status["state"] in ("starting", "running")
    lines.append(_sample("ottla_pipeline_up", {"pipeline": pipeline}, float(is_up)))
    flows = [({"pipeline": pipeline, "flow": str(one["flow"])}, one) for one in status["flows"]]
    lines += _states(flows)
    for name, kind, words, value in _FLOW:
        found = [(labels, value(one)) for labels, one in flows]
        lines += _samples(f"ottla_pipeline_flow_{name}", kind, words, found)
    sources = [({"pipeline": pipeline, "source": str(one["source"])}, one) for one in status["sources"]]
    for name, words in _SOURCE:
        given = [(labels, one[name]) for labels, one in sources]
        lines += _samples(f"ottla_pipeline_source_{name}_total", "counter", words, given)
    failed = [
        ({**labels, "rule": str(rule)}, count) for labels, one in sources for rule, count in one["failed"].items()
    ]
    lines += _samples("ottla_pipeline_rule_failures_total", "counter", "Rows that failed a rule.", failed)
    return "\n".join(lines) + "\n"


def _states(flows: list[tuple[dict[str, str], Any]]) -> Iterator[str]:
    """Each flow's state as one series of each state, of which one is 1."""
    if not flows:
        return
    yield from _family("ottla_pipeline_flow_state", "gauge", "1 for the state that the flow is in.")
    for labels, one in flows:
        for state in dict.fromkeys((*STATES, str(one["state"]))):
            yield _sample("ottla_pipeline_flow_state", {**labels, "state": state}, float(one["state"] == state))


def _samples(name: str, kind: str, words: str, found: list[tuple[dict[str, str], float | None]]) -> Iterator[str]:
    known = [(labels, value) for labels, value in found if value is not None]
    if known:
        yield from _family(name, kind, words)
        yield from (_sample(name, labels, value) for labels, value in known)


def _family(name: str, kind: str, words: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]


def _sample(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{shown}}} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class MetricsServer:
    """Serves `/metrics` from a thread, of a text that is set once a tick."""

    def __init__(self, host: str, port: int) -> None:
        self._text = b""
        self._server = _Server((host, port), _Handler)
        self._server.read = lambda: self._text
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"[{host!s}]:{port}" if ":" in str(host) else f"{host!s}:{port}"

    def show(self, status: Mapping[str, Any]) -> None:
        self._text = metrics_text(status).encode()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    read: Callable[[], bytes]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nothing to print a traceback for."""


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_TIMEOUT_S
    server: _Server

    def do_GET(self) -> None:
        is_found = self.path.split("?", 1)[0] in ("/metrics", "/")
        body = self.server.read() if is_found else b"metrics are at /metrics\n"
        self.send_response(200 if is_found else 404)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...
