"""The folder of a pipeline's state, and a run whose state another run takes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.spark.pipelines.errors import TakenOver
from ottla.spark.pipelines.run import PipelineRun
from ottla.spark.pipelines.run_loop import run_pipeline
from ottla.spark.pipelines.state import PipelineState


class Machines:
    """Runs with one state, each of another machine, which is given the lock of the one before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.states: list[PipelineState] = []

    def begin(self) -> PipelineState:
        if self.states:
            (self._folder / "lock").unlink()
        self.states.append(PipelineState(self._folder))
        self.states[-1].acquire()
        return self.states[-1]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    yield made
    for state in made.states:
        state.release()


def test_a_run_finds_that_a_later_one_has_begun(machines: Machines) -> None:
    first = machines.begin()
    first.check_owner()
    second = machines.begin()
    second.check_owner()
    with pytest.raises(TakenOver, match="another run of the pipeline has begun"):
        first.check_owner()
    assert TakenOver.exit_code == 3
    second.release()
    assert first.is_taken_over, "also when the later one has ended"


def test_a_state_that_is_only_read_is_not_taken_over(machines: Machines, tmp_path: Path) -> None:
    machines.begin()
    assert not PipelineState(tmp_path).is_taken_over


class StandIn:
    """A run whose queries are done after so many looks at them."""

    guard = SimpleNamespace(definition={})
    redacted = staticmethod(str)

    def __init__(self, poll: Any) -> None:
        self.poll = poll
        self.is_stopped = False

    def doing(self, text: str) -> None: ...

    def prepare(self, *, is_once: bool) -> None: ...

    def start(self) -> None: ...

    def end_quality(self) -> None: ...

    def failure(self) -> None: ...

    def stop(self, *_: object) -> None:
        self.is_stopped = True

    def status(self, state: str, cause: str | None = None) -> dict[str, Any]:
        return {"state": state, "cause": cause, "flows": [], "sources": []}


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_run_that_was_taken_over_ends_and_leaves_the_status_alone(
    machines: Machines, tmp_path: Path, goes_on: bool
) -> None:
    first, later = machines.begin(), {"state": "running", "flows": [], "sources": []}

    def poll() -> bool:
        machines.begin().write_status(later)
        return goes_on

    run = StandIn(poll)
    with pytest.raises(TakenOver):
        run_pipeline(cast("PipelineRun", run), first, threading.Event(), lambda run: None)
    assert run.is_stopped
    assert json.loads((tmp_path / "status.json").read_text()) == later


def test_a_run_to_the_end_leaves_its_status(machines: Machines) -> None:
    looks = iter([True, False])
    state = machines.begin()
    run_pipeline(cast("PipelineRun", StandIn(lambda: next(looks))), state, threading.Event(), lambda run: None)
    assert (state.read_status() or {})["state"] == "done"
