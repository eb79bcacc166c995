"""Batches of a run as OpenTelemetry spans. The only file that imports opentelemetry (`pip install 'ottla[otel]'`).

Traces are made if OpenTelemetry's variables of the environment name where they go: `OTEL_EXPORTER_OTLP_ENDPOINT` or
`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` (OTLP over HTTP), with `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`,
`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER` and the rest of its SDK's variables. `OTEL_SDK_DISABLED=true` and
`OTEL_TRACES_EXPORTER=none` turn them off.

A run is one trace: `pipeline NAME` with a span for each batch of each flow, and in it Spark's steps.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.events import ERROR, Event

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
ADVICE = "traces need OpenTelemetry: pip install 'ottla[otel]' (or OTEL_SDK_DISABLED=true)"
STEPS = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets", "commitBatch")
"""Spark's steps in the order in which a batch takes them."""
FLUSH_MS = 10_000


def are_wanted(environment: Mapping[str, str]) -> bool:
    is_off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    is_none = environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    return not is_off and not is_none and any(environment.get(name) for name in ENDPOINTS)


class Traces:
    """A listener of a run that exports spans."""

    def __init__(self, pipeline: str, version: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise PipelineError(ADVICE) from None
        resource = Resource.create({} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": f"ottla-{pipeline}"})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("ottla.spark.pipelines", version)
        self._pipeline = pipeline
        self._run: Any = None

    def handle(self, event: Event) -> None:
        if event.name == "run_started":
            attributes = {"ottla.pipeline": self._pipeline}
            self._run = self._tracer.start_span(
                f"pipeline {self._pipeline}", start_time=_nanoseconds(event.at), attributes=attributes
            )
        elif self._run is None:
            return
        elif event.name == "batch_done":
            self._batch(event)
        elif event.name == "run_ended":
            self._failed(self._run, event)
            self._run.end(_nanoseconds(event.at))
        else:
            given = {name: value for name, value in event.fields.items() if isinstance(value, str | int | float)}
            flow = {} if event.flow is None else {"ottla.flow": event.flow}
            self._run.add_event(event.name, {**given, **flow}, timestamp=_nanoseconds(event.at))
            self._failed(self._run, event)

    def _batch(self, event: Event) -> None:
        from opentelemetry.trace import set_span_in_context

        batch = event.batch
        assert batch is not None
        start = _nanoseconds(batch.started_at)
        attributes: dict[str, Any] = {
            "ottla.pipeline": self._pipeline, "ottla.flow": event.flow or "", "ottla.batch_id": batch.batch_id,
            "ottla.rows_in": batch.rows_in, "ottla.rows_out": batch.rows_out,
        }  # fmt: skip
        if event.fields.get("lag") is not None:
            attributes["ottla.lag"] = int(event.fields["lag"])
        parent = set_span_in_context(self._run)
        span = self._tracer.start_span(f"batch {event.flow}", parent, start_time=start, attributes=attributes)
        inside, at = set_span_in_context(span), start
        known = [name for name in STEPS if name in batch.steps_ms]
        for name in (*known, *sorted(set(batch.steps_ms) - set(known))):
            step = self._tracer.start_span(name, inside, start_time=at)
            at += batch.steps_ms[name] * 1_000_000
            step.end(at)
        span.end(max(at, start + batch.duration_ms * 1_000_000))

    def _failed(self, span: Any, event: Event) -> None:
        from opentelemetry.trace import Status, StatusCode

        if event.level == ERROR:
            span.set_status(Status(StatusCode.ERROR, str(event.fields.get("cause", ""))))

    def close(self) -> None:
        self._provider.force_flush(FLUSH_MS)
        self._provider.shutdown()


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
