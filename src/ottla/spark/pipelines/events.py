"""What happens in a run, as events: for logs, lineage and traces. Pure: statuses and batches in, events out.

run_started   once
flow_started  a flow reports its first batch, or ends before it
batch_done    a batch with rows
flow_waits    a flow is in another state than these, e.g. before it is tried again
letters       a source has put rows aside since the last look
flow_ended    with the state `done`, `stopped`, `failed` or `paused`, and the cause; it may start again
broker_away   the brokers do not answer, since when and why; broker_back: they do again
run_ended     once, with the state and the cause
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from ottla.spark.pipelines.progress import Batch

ENDED = ("done", "stopped", "failed", "paused", "not started")
INFO, WARNING, ERROR = "info", "warning", "error"


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    at: float
    """Seconds since 1970."""
    flow: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    batch: Batch | None = None

    @property
    def level(self) -> str:
        if self.fields.get("state") == "failed":
            return ERROR
        return (
            WARNING
            if self.name in ("letters", "broker_away")
            or self.fields.get("state") in ("paused", "backing off", "isolating")
            else INFO
        )

    def to_json(self, pipeline: str) -> dict[str, Any]:
        flow = {} if self.flow is None else {"flow": self.flow}
        batch = {} if self.batch is None else {**asdict(self.batch), "steps_ms": dict(self.batch.steps_ms)}
        return {"event": self.name, "level": self.level, "pipeline": pipeline, **flow, **self.fields, **batch}


class Listener(Protocol):
    """Takes events. It must neither delay nor end the run."""

    def handle(self, event: Event) -> None: ...

    def close(self) -> None: ...


class Events:
    """The events between one look at a run and the next."""

    def __init__(self) -> None:
        self._is_begun = False
        self._is_broker_away = False
        self._states: dict[str, str] = {}
        self._letters: dict[str, int] = {}
        self._places: dict[str, tuple[int, float]] = {}

    def last_batch(self, flow: str) -> tuple[int, float] | None:
        """The newest batch of a flow that has been an event."""
        return self._places.get(flow)

    def look(self, status: Mapping[str, Any], batches: Mapping[str, list[Batch]], at: float) -> Iterator[Event]:
        if not self._is_begun:
            self._is_begun = True
            yield Event("run_started", at)
        outage = status.get("outage")
        if (outage is not None) != self._is_broker_away:
            self._is_broker_away = outage is not None
            yield Event("broker_back", at) if outage is None else Event("broker_away", at, fields=outage)
        for flow in status["flows"]:
            yield from self._of_flow(flow, batches.get(flow["flow"], []), at)
        for source in status["sources"]:
            new = source["letters"] - self._letters.get(source["source"], 0)
            if new:
                self._letters[source["source"]] = source["letters"]
                fields = {"source": source["source"], "count": new, "failed": dict(source["failed"])}
                yield Event("letters", at, fields=fields)
        if status["state"] not in ("starting", "running"):
            yield Event("run_ended", at, fields=_why(status))

    def _of_flow(self, flow: Mapping[str, Any], batches: list[Batch], at: float) -> Iterator[Event]:
        name, state, before = flow["flow"], flow["state"], self._states.get(flow["flow"])
        was_running = before is not None and before not in (*ENDED, "starting")
        if not was_running and (state == "running" or (batches and state in ENDED)):
            yield Event("flow_started", at, name, {"target": flow["target"]})
        for batch in batches:
            self._places[name] = batch.place
            yield Event("batch_done", at, name, {"lag": flow["lag"], "lag_s": flow["lag_s"]}, batch)
        if state in ENDED and state != before:
            yield Event(
                "flow_ended", at, name, {**_why(flow), "rows_in": flow["rows_in"], "rows_out": flow["rows_out"]}
            )
        elif state != before and state not in ("starting", "running"):
            yield Event("flow_waits", at, name, _why(flow))
        self._states[name] = state


def _why(one: Mapping[str, Any]) -> dict[str, Any]:
    return {"state": one["state"], **({"cause": one["cause"]} if one.get("cause") else {})}
