"""A driver on a loop whose clock a test sets."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.machine import Tick
from ottla.net import DeadlineTimer, Driver
from tests.unit.net.test_deadlines import Clock

log = logging.getLogger("ottla.test_driver")


@dataclass(frozen=True)
class Asked:
    text: str


@dataclass(frozen=True)
class Say:
    text: str


class Echo:
    """Says what it is asked, and once more when its deadline has come."""

    def __init__(self) -> None:
        self.events: list[tuple[object, int]] = []
        self.at: int | None = None

    def handle(self, event: object, now: int) -> list[Say]:
        self.events.append((event, now))
        if isinstance(event, Asked):
            return [Say(word) for word in event.text.split()]
        self.at = None
        return [Say("tick")]

    def deadline(self) -> int | None:
        return self.at


class Stage:
    def __init__(self, clock: Clock, **options: Any) -> None:
        self.clock = clock
        self.machine = Echo()
        self.said: list[str] = []
        self.on_effect: Callable[[Say], None] = lambda effect: None
        loop: Any = clock
        self.driver = Driver(self.machine, self.perform, loop=loop, log=log, label="echo node=1", **options)

    def perform(self, effect: Say) -> None:
        self.said.append(effect.text)
        self.on_effect(effect)

    def ticks(self) -> list[int]:
        return [now for event, now in self.machine.events if event == Tick()]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stage(clock: Clock) -> Stage:
    return Stage(clock)


def test_effects_are_performed_in_order(stage: Stage) -> None:
    stage.driver.handle(Asked("a b c"))
    assert stage.said == ["a", "b", "c"]
    assert stage.machine.events == [(Asked("a b c"), 100_000)]


def test_an_event_that_comes_of_an_effect_is_handled_after_the_other_effects(stage: Stage) -> None:
    stage.on_effect = lambda effect: stage.driver.handle(Asked("x y")) if effect.text == "a" else None
    stage.driver.handle(Asked("a b"))
    assert stage.said == ["a", "b", "x", "y"]


def test_the_machine_gets_a_tick_when_its_deadline_has_come(stage: Stage) -> None:
    stage.machine.at = 100_250
    stage.driver.handle(Asked("a"))
    stage.clock.move(0.249)
    assert stage.said == ["a"]
    stage.clock.move(0.002)
    assert stage.said == ["a", "tick"] and stage.ticks() == [100_250]
    stage.clock.move(60)
    assert not stage.clock.timers and stage.ticks() == [100_250]


def test_there_is_one_timer_however_often_the_deadline_moves(stage: Stage) -> None:
    for at in (100_300, 100_200, 100_400, 100_500):
        stage.machine.at = at
        stage.driver.handle(Asked("a"))
        assert len(stage.clock.timers) == 1
    stage.clock.move(0.499)
    assert stage.ticks() == []
    stage.clock.move(0.002)
    assert stage.ticks() == [100_500]


def test_a_deadline_that_moves_away_sets_no_new_timer(stage: Stage) -> None:
    stage.machine.at = 100_100
    stage.driver.handle(Asked("a"))
    for at in range(100_101, 100_200):
        stage.machine.at = at
        stage.driver.handle(Asked("a"))
    assert stage.clock.set_count == 1


def test_no_deadline_is_no_timer(stage: Stage) -> None:
    stage.machine.at = 100_100
    stage.driver.rearm()
    stage.machine.at = None
    stage.driver.rearm()
    assert not stage.clock.timers


def test_a_closed_driver_handles_nothing_and_has_no_timer(stage: Stage) -> None:
    stage.machine.at = 100_100
    stage.driver.handle(Asked("a"))
    stage.driver.close()
    stage.driver.handle(Asked("b"))
    stage.driver.rearm()
    assert stage.said == ["a"] and not stage.clock.timers


def test_an_effect_that_fails_drops_those_after_it_and_the_caller_gets_the_exception(stage: Stage) -> None:
    def fail(effect: Say) -> None:
        if effect.text == "b":
            stage.driver.handle(Asked("never"))
            raise OSError("no space left")

    stage.on_effect = fail
    stage.machine.at = 100_100
    with pytest.raises(OSError, match="no space left"):
        stage.driver.handle(Asked("a b c"))
    assert stage.said == ["a", "b"] and not stage.clock.timers
    stage.on_effect = lambda effect: None
    stage.driver.handle(Asked("d"))
    assert stage.said == ["a", "b", "d"]


def test_the_owner_may_handle_ticks_itself(clock: Clock) -> None:
    rung: list[float] = []
    stage = Stage(clock, tick=lambda: rung.append(clock.now))
    stage.machine.at = 100_100
    stage.driver.handle(Asked("a"))
    clock.move(1)
    assert rung == [pytest.approx(100.1)] and stage.ticks() == []


def test_a_late_timer_waits_for_what_came_meanwhile_before_it_rings(clock: Clock) -> None:
    stage = Stage(clock, late_ms=50)
    stage.machine.at = 100_100
    stage.driver.handle(Asked("a"))
    clock.now = 100.3  # the process stood still
    clock.move(0)
    assert stage.ticks() == []
    stage.machine.at = 101_000  # something was read that postpones the deadline
    stage.driver.handle(Asked("b"))
    clock.move(0.6)
    assert stage.ticks() == []
    clock.move(0.2)
    assert stage.ticks() == [101_000]


def test_a_late_timer_rings_after_its_grace_if_nothing_came(clock: Clock) -> None:
    stage = Stage(clock, late_ms=50)
    stage.machine.at = 100_100
    stage.driver.handle(Asked("a"))
    clock.now = 100.3
    clock.move(0.199)
    assert stage.ticks() == []
    clock.move(0.002)
    assert len(stage.ticks()) == 1


def test_each_event_is_a_line_at_debug(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "ottla.test_driver"):
        stage.driver.handle(Asked("a b"))
    assert caplog.messages == ["machine=echo node=1 event=Asked(text='a b') -> effects=[Say(text='a'), Say(text='b')]"]


def test_a_quiet_event_is_a_line_only_if_it_has_effects(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(clock, quiet=(Asked,))
    with caplog.at_level(logging.DEBUG, "ottla.test_driver"):
        stage.driver.handle(Asked(""))
        stage.driver.handle(Asked("a"))
    assert caplog.messages == ["machine=echo node=1 event=Asked(text='a') -> effects=[Say(text='a')]"]


def test_nothing_is_formatted_unless_debug_is_on(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def formatted(value: object) -> str:
        raise AssertionError("formatted")

    monkeypatch.setattr("ottla.net.driver.event_text", formatted)
    stage.driver.handle(Asked("a b"))
    assert stage.said == ["a", "b"]


def test_a_timer_of_ones_own_is_set_again_by_rearm(clock: Clock) -> None:
    at, rung, loop = [100_100], [0], clock
    timer_loop: Any = loop

    def act() -> None:
        rung[0] += 1
        at[0] += 100
        timer.rearm()

    timer = DeadlineTimer(timer_loop, lambda: at[0], act)
    timer.rearm()
    clock.move(0.35)
    assert rung == [3] and timer.is_set
    timer.cancel()
    clock.move(1)
    assert rung == [3] and not timer.is_set
