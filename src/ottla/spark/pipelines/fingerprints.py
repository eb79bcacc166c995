"""The fingerprints of a pipeline's flows: made of their plans, kept beside checkpoints, compared by `verdicts`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from ottla.spark.pipelines.definition import Flow, Pipeline, PipelineError, Source
from ottla.spark.pipelines.frames import Frames
from ottla.spark.pipelines.history import definition_id, definition_of
from ottla.spark.pipelines.plans import plan_of
from ottla.spark.pipelines.state import PipelineState
from ottla.spark.pipelines.verdicts import LETTERS, MERGE_FIELDS, VERSION, FlowChanges, compare, refusal


class Guard:
    """Stops a start if a checkpoint does not fit the pipeline, before anything is written."""

    def __init__(self, pipeline: Pipeline, state: PipelineState, redacted: Callable[[str], str]) -> None:
        self._pipeline = pipeline
        self._state = state
        self.definition = definition_of(pipeline, redacted)
        self.definition_id = definition_id(self.definition)

    def check_refreshes(self) -> None:
        """PipelineError: a refresh of a flow was begun: its checkpoint and its target do not belong together."""
        for flow in self._state.refreshes():
            raise PipelineError(
                f"the refresh of {flow} has not ended: 'ottla pipeline refresh {self._pipeline.name} {flow}', with the "
                "arguments it was begun with, goes on where it was"
            )

    @property
    def is_changed(self) -> bool:
        """Whether a flow with a checkpoint ran with another definition the last time."""
        names = [flow.name for flow in self._pipeline.flows] + [LETTERS]
        plans = [self._state.read_plan(name) for name in names if self._state.has_checkpoint(name)]
        return any(plan is not None and plan.get("definition") != self.definition_id for plan in plans)

    def changes(self, frames: Frames) -> list[FlowChanges]:
        return compared(self._state, fingerprints(self._pipeline, frames, self.definition_id))

    def check(self, frames: Frames) -> None:
        """PipelineError: a flow needs a refresh, or is refused."""
        said = refusal(self._pipeline.name, self.changes(frames))
        if said is not None:
            raise PipelineError(said)

    def note(self, frames: Frames) -> None:
        """Keep the fingerprints of the flows that are about to run."""
        names = [flow.name for flow in self._pipeline.flows if frames.flows[flow.name].isStreaming]
        names += [LETTERS] if frames.letters is not None else []
        if all((self._state.read_plan(name) or {}).get("definition") == self.definition_id for name in names):
            return
        for name, plan in fingerprints(self._pipeline, frames, self.definition_id).items():
            self._state.write_plan(name, plan)


def fingerprints(pipeline: Pipeline, frames: Frames, definition: str) -> dict[str, dict[str, Any]]:
    """By flow, including the dead letters. A flow that is no stream has no checkpoint and no fingerprint."""
    views = {path.stem: _digest(path) for path in pipeline.transformations}
    found = {}
    for flow in pipeline.flows:
        if frames.flows[flow.name].isStreaming:
            columns = frames.spark.table(flow.reads)
            found[flow.name] = _fingerprint(pipeline, frames.flows[flow.name], views) | _written(flow, columns)
    if frames.letters is not None:
        found[LETTERS] = _fingerprint(pipeline, frames.letters, {}) | {"target": f"topic {pipeline.dead_letters}"}
    return {name: {"version": VERSION, "definition": definition, **one} for name, one in found.items()}


def compared(state: PipelineState, new: Mapping[str, Mapping[str, Any]]) -> list[FlowChanges]:
    """The meaning of each flow's plan for its checkpoint. A checkpoint of a version without fingerprints is accepted as
    it is."""
    found = []
    for name, plan in new.items():
        old = state.read_plan(name)
        if not state.has_checkpoint(name):
            found.append(FlowChanges(name, is_new=True))
        elif old is None or old.get("version") != VERSION:
            found.append(FlowChanges(name))
        else:
            found.append(compare(name, old, plan))
    return found


def _fingerprint(pipeline: Pipeline, rows: DataFrame, views: Mapping[str, str]) -> dict[str, Any]:
    sources = {source.name: source for source in pipeline.sources}
    plan = plan_of(rows, frozenset(sources))
    return {
        "sources": [_source(sources[name]) if name in sources else _unknown(name) for name in plan.sources],
        "stateful": [asdict(one) | {"keys": list(one.keys), "values": list(one.values)} for one in plan.stateful],
        "views": {name: views[name] for name in plan.views if name in views},
    }


def _source(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "kind": source.kind,
        "place": source.place,
        "topics": list(source.topics),
        "starting": source.starting,
        "format": source.format,
        "schema": source.schema,
        "watermark": list(source.watermark) if source.watermark is not None else None,
        "rules": [list(map(str, (rule.name, rule.expression, rule.action))) for rule in source.rules],
    }


def _unknown(name: str) -> dict[str, Any]:
    """A stream that a view of Python makes by itself."""
    return {"name": name, "kind": "view", "place": name, "topics": []}


def _written(flow: Flow, rows: DataFrame) -> dict[str, Any]:
    merged = flow.changes
    return {
        "target": flow.target,
        "mode": flow.mode,
        "key": flow.key,
        "format": flow.format,
        "partition_by": list(flow.partition_by),
        "columns": [
            [one.name, one.dataType.simpleString()] for one in rows.schema.fields if not one.name.startswith("_")
        ],
        "merge": {name: str(value) for name in MERGE_FIELDS if (value := getattr(merged, name, None))},
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
