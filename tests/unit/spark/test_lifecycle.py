"""One flow of a pipeline's run, without Spark: when it is begun, tried again, paused and given up."""

from __future__ import annotations

from random import Random

import pytest

from ottla.spark.pipelines.lifecycle import (
    BACKING_OFF,
    DONE,
    FAILED,
    ISOLATING,
    MAX_PAUSE_MS,
    PAUSED,
    RUNNING,
    STARTING,
    STOPPED,
    FailurePolicy,
    Lifecycle,
)


def flow(on_failure: str = "stop", **more: int | None) -> Lifecycle:
    made = Lifecycle(FailurePolicy(on_failure, **more), Random(7))
    made.begun()
    return made


def fail_again(one: Lifecycle, now: int, *, is_transient: bool = True) -> None:
    if one.state == BACKING_OFF:
        one.begun()
    one.failed("away", is_transient=is_transient, now=now)


def test_a_flow_begins_once_and_runs_when_a_batch_was_reported() -> None:
    one = Lifecycle(FailurePolicy(), Random(7))
    assert one.is_due(0)
    one.begun()
    assert (one.state, one.is_due(0)) == (STARTING, False)
    one.reported()
    assert one.state == RUNNING
    one.ended()
    assert (one.state, one.is_over) == (DONE, True)


@pytest.mark.parametrize("on_failure", ["stop", "pause", "retry"])
def test_what_is_away_is_tried_again_for_ever_with_pauses_that_are_bounded(on_failure: str) -> None:
    one, now, pauses = flow(on_failure), 0, []
    for _ in range(200):
        fail_again(one, now)
        assert one.state == BACKING_OFF
        assert one.retry_at is not None
        assert not one.is_due(one.retry_at - 1)
        assert one.is_due(one.retry_at)
        pauses.append(one.retry_at - now)
        now = one.retry_at
    assert pauses[0] < pauses[1] < pauses[2]
    assert max(pauses) <= MAX_PAUSE_MS * 1.2
    assert min(pauses[10:]) >= MAX_PAUSE_MS * 0.8
    assert len(set(pauses[10:])) > 100, "flows that fail together do not come back together"


def test_a_batch_that_succeeds_makes_the_next_pause_short_again() -> None:
    one = flow()
    for now in range(8):
        fail_again(one, now)
    one.begun()
    one.reported()
    assert (one.state, one.cause, one.failure_count) == (RUNNING, None, 0)
    fail_again(one, 0)
    assert one.retry_at is not None
    assert one.retry_at <= 2_400


def test_a_run_to_the_end_gives_up_after_its_time() -> None:
    one = flow(retry_for_ms=1_000)
    fail_again(one, 5_000)
    fail_again(one, 5_999)
    assert one.state == BACKING_OFF
    fail_again(one, 6_000)
    assert (one.state, one.cause) == (FAILED, "away")


@pytest.mark.parametrize(("on_failure", "state"), [("stop", FAILED), ("pause", PAUSED), ("retry", BACKING_OFF)])
def test_what_does_not_pass_by_itself_is_decided_by_on_failure(on_failure: str, state: str) -> None:
    one = flow(on_failure)
    fail_again(one, 0, is_transient=False)
    assert one.state == state
    assert one.is_in_trouble
    assert one.is_over == (state == FAILED)


@pytest.mark.parametrize("on_failure", ["stop", "pause"])
def test_a_flow_that_was_resumed_begins_at_once_and_with_a_short_pause(on_failure: str) -> None:
    one = flow(on_failure)
    fail_again(one, 0, is_transient=False)
    assert one.resumed()
    assert (one.state, one.is_due(0), one.cause) == (STARTING, True, None)
    one.begun()
    assert not one.resumed()


@pytest.mark.parametrize("on_failure", ["stop", "pause"])
def test_the_end_of_a_run_hides_no_failure(on_failure: str) -> None:
    one = flow(on_failure)
    fail_again(one, 0, is_transient=False)
    before = one.state
    one.stopped()
    assert one.state == before
    other = flow()
    other.stopped()
    assert other.state == STOPPED
    other.reported()
    assert other.state == STOPPED


def test_the_poison_of_a_batch_is_isolated_after_its_tries() -> None:
    one = flow("stop", poison_after=3)
    for now in (0, 10_000):
        fail_again(one, now, is_transient=False)
        assert one.state == BACKING_OFF
    fail_again(one, 20_000, is_transient=True)
    assert one.state == BACKING_OFF, "what is away says nothing about records"
    fail_again(one, 30_000, is_transient=False)
    assert (one.state, one.is_over, one.is_in_trouble) == (ISOLATING, False, True)
    assert not one.is_due(10**9)
    one.isolated()
    assert (one.state, one.is_due(30_000), one.failure_count, one.cause) == (STARTING, True, 0, None)


def test_a_batch_that_succeeds_begins_the_tries_anew() -> None:
    one = flow("stop", poison_after=2)
    fail_again(one, 0, is_transient=False)
    one.begun()
    one.reported()
    one.failed("bad", is_transient=False, now=1)
    assert one.state == BACKING_OFF


@pytest.mark.parametrize(("on_failure", "state"), [("stop", FAILED), ("pause", PAUSED), ("retry", BACKING_OFF)])
def test_without_a_record_to_set_aside_on_failure_decides(on_failure: str, state: str) -> None:
    one = flow(on_failure, poison_after=1)
    fail_again(one, 0, is_transient=False)
    one.not_isolated("they fail only together", is_transient=False, now=5)
    assert (one.state, one.cause) == (state, "they fail only together")


def test_a_search_that_could_not_be_made_is_made_after_the_next_failure() -> None:
    one = flow("stop", poison_after=2)
    for now in (0, 10_000):
        fail_again(one, now, is_transient=False)
    one.not_isolated("no broker", is_transient=True, now=11_000)
    assert one.state == BACKING_OFF
    fail_again(one, 20_000, is_transient=False)
    assert one.state == ISOLATING


def test_a_rule_that_ends_the_flow_ends_it_at_once() -> None:
    one = flow("stop", poison_after=3)
    one.failed("a row fails", is_transient=False, now=0, may_be_poison=False)
    assert one.state == FAILED


def test_a_flow_that_is_isolating_can_be_stopped() -> None:
    one = flow("stop", poison_after=1)
    fail_again(one, 0, is_transient=False)
    one.stopped()
    assert one.state == STOPPED
