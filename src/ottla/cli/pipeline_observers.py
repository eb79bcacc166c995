"""Observers of a pipeline's run beside the terminal: the metrics port, JSON logs, lineage, traces.

Each takes events of the run (`spark.pipelines.events`). An observer that fails is named once on stderr and left out
from then on: an unreachable collector is no reason to end a pipeline.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import ottla
from ottla.cli.output import notice
from ottla.cli.session import MISUSED, CommandError

if TYPE_CHECKING:
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import Pipeline
    from ottla.spark.pipelines.events import Event, Listener
    from ottla.spark.pipelines.run import PipelineRun

TEXT, JSON_LINES = LOG_FORMATS = ("text", "json")
LOOPBACK = "127.0.0.1"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metrics-port", metavar="[HOST:]PORT",
        help=f"serve Prometheus metrics at http://HOST:PORT/metrics ({LOOPBACK} without a host; 0 takes a free port)",
    )  # fmt: skip
    parser.add_argument(
        "--log-format", choices=LOG_FORMATS, default=TEXT, help="json: one line of JSON for each event, on stderr"
    )


class JsonLog:
    """A line of JSON for each event."""

    def __init__(self, pipeline: str, out: TextIO) -> None:
        self._pipeline = pipeline
        self._out = out

    def handle(self, event: Event) -> None:
        at = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds")
        document = {"time": at, **event.to_json(self._pipeline)}
        self._out.write(json.dumps(document, ensure_ascii=False) + "\n")
        self._out.flush()

    def close(self) -> None: ...


def wait_line(options: argparse.Namespace, pipeline: str) -> Callable[[str], str] | None:
    """How a wait is logged; None: as text."""
    if getattr(options, "log_format", TEXT) != JSON_LINES:
        return None

    def line(text: str) -> str:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": at, "event": "waits", "level": "info", "pipeline": pipeline, "what": text})

    return line


class Observers:
    """All observers of one run."""

    def __init__(self, options: argparse.Namespace, pipeline: Pipeline, connection: Connection) -> None:
        from ottla.spark.pipelines.events import Events
        from ottla.spark.pipelines.lineage_sender import LineageSettings
        from ottla.spark.pipelines.traces import Traces, are_wanted

        self._pipeline = pipeline
        self._connection = connection
        self._events = Events()
        self._lineage = LineageSettings.of(os.environ)
        self._is_begun = False
        self._listeners: list[Listener] = []
        if options.log_format == JSON_LINES:
            self._listeners.append(JsonLog(pipeline.name, sys.stderr))
        if are_wanted(os.environ):
            self._listeners.append(Traces(pipeline.name, ottla.__version__))
        self._metrics = None
        if options.metrics_port is not None:
            self._metrics = _metrics_server(options.metrics_port)
            self._metrics.show({"pipeline": pipeline.name, "state": "starting", "flows": [], "sources": []})
            notice(f"metrics are at http://{self._metrics.address}/metrics")

    def look(self, run: PipelineRun) -> None:
        """Take in what has happened since the last look."""
        if not self._is_begun:
            self._begin(run)
        status = run.status("running")
        batches = {name: progress.batches_after(self._events.last_batch(name)) for name, progress in run.flows.items()}
        self._tell(status, batches)

    def end(self, status: Mapping[str, Any] | None) -> None:
        """The run has ended with this last status."""
        if status is not None:
            self._tell(status, {})
        for listener in self._listeners:
            listener.close()
        if self._metrics is not None:
            self._metrics.close()

    def _begin(self, run: PipelineRun) -> None:
        from ottla.spark.pipelines.lineage import Lineage
        from ottla.spark.pipelines.lineage_sender import LineageSender

        self._is_begun = True
        if self._lineage is not None:
            lineage = Lineage(
                self._pipeline, self._lineage.namespace, self._connection.bootstrap_servers, run.columns(),
                lambda: str(uuid.uuid4()), _spark_version(),
            )  # fmt: skip
            self._listeners.append(LineageSender(lineage, self._lineage))

    def _tell(self, status: Mapping[str, Any], batches: Mapping[str, Any]) -> None:
        if self._metrics is not None:
            self._metrics.show(status)
        for event in self._events.look(status, batches, time.time()):
            for listener in list(self._listeners):
                try:
                    listener.handle(event)
                except OSError as error:
                    self._listeners.remove(listener)
                    notice(f"{type(listener).__name__} is left out from now on: {error}")


def _spark_version() -> str:
    import pyspark

    return str(pyspark.__version__)


def _metrics_server(text: str) -> Any:
    from ottla.spark.pipelines.metrics import MetricsServer

    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise CommandError(f"--metrics-port {text}: a port, or HOST:PORT, is expected", MISUSED)
    try:
        return MetricsServer(host.strip("[]") or LOOPBACK, int(port))
    except OSError as error:
        raise CommandError(f"--metrics-port {text}: {error.strerror or error}", MISUSED) from None
