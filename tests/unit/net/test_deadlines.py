"""Deadlines on a loop whose clock a test sets."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.net import Deadlines


class Clock:
    """A loop that only has timers, which ring when the clock is moved."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: dict[int, tuple[float, Callable[[], None]]] = {}
        self.set_count = 0
        self.failures: list[dict[str, Any]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay_s: float, act: Callable[[], None]) -> Any:
        self.set_count += 1
        number = self.set_count
        self.timers[number] = (self.now + delay_s, act)
        return SimpleNamespace(cancel=lambda: self.timers.pop(number, None))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def move(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [(at, number) for number, (at, _) in self.timers.items() if at <= end]:
            at, number = min(due)
            self.now = max(self.now, at)
            self.timers.pop(number)[1]()
        self.now = end


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def deadlines(clock: Clock) -> Deadlines:
    loop: Any = clock
    return Deadlines(loop)


class Waiting:
    """As requests do: it holds its deadline, which would call it."""

    def __init__(self, deadlines: Deadlines) -> None:
        self.deadline = deadlines.call_later(1.0, self.time_out)

    def time_out(self) -> None:
        pass


@pytest.mark.parametrize("how", ["cancelled", "reached"])
def test_a_finished_deadline_does_not_keep_its_owner_alive(clock: Clock, deadlines: Deadlines, how: str) -> None:
    gc.disable()
    try:
        waiting = Waiting(deadlines)
        trace = weakref.ref(waiting)
        if how == "cancelled":
            waiting.deadline.cancel()
        else:
            clock.move(2.0)
        del waiting
        assert trace() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(("delay_s", "grain_s"), [(0.0, 0.005), (0.01, 0.005), (0.5, 0.005), (30.0, 0.1)])
def test_a_deadline_is_reached_in_time_or_a_little_later(
    clock: Clock, deadlines: Deadlines, delay_s: float, grain_s: float
) -> None:
    reached: list[tuple[float, str]] = []
    deadlines.call_later(delay_s, lambda name: reached.append((clock.now, name)), "it")
    clock.move(delay_s + 2 * grain_s)
    ((at, name),) = reached
    assert name == "it"
    assert 0 <= at - 100.0 - delay_s <= 2 * grain_s + 0.001
    assert not clock.timers


def test_they_are_reached_in_order_and_what_is_set_meanwhile_later(clock: Clock, deadlines: Deadlines) -> None:
    reached: list[int] = []

    def reach(number: int) -> None:
        reached.append(number)
        if number == 1:
            deadlines.call_later(0.02, reach, 4)

    for number, delay_s in ((2, 0.03), (1, 0.01), (3, 2.0)):
        deadlines.call_later(delay_s, reach, number)
    clock.move(3.0)
    assert reached == [1, 2, 4, 3]


def test_one_that_is_cancelled_is_not_reached(clock: Clock, deadlines: Deadlines) -> None:
    reached: list[int] = []
    second: Any = None

    def first() -> None:
        reached.append(1)
        second.cancel()

    deadlines.call_later(0.01, first)
    second = deadlines.call_later(0.01, reached.append, 2)
    third = deadlines.call_later(0.5, reached.append, 3)
    third.cancel()
    third.cancel()
    clock.move(1.0)
    assert reached == [1]
    assert not clock.timers


def test_a_timer_serves_all_that_come_later_than_it(clock: Clock, deadlines: Deadlines) -> None:
    for _ in range(1000):
        deadlines.call_later(30.0, lambda: None).cancel()
        clock.move(0.001)
    assert clock.set_count == 1
    clock.move(60.0)
    assert clock.set_count == 1 and not clock.timers


def test_a_deadline_whose_call_fails_does_not_stop_later_deadlines(clock: Clock, deadlines: Deadlines) -> None:
    reached: list[int] = []
    deadlines.call_later(0.01, reached.__delitem__, 0)
    deadlines.call_later(0.01, reached.append, 2)
    clock.move(1.0)
    assert reached == [2]
    assert isinstance(clock.failures[0]["exception"], IndexError)


def test_a_closed_one_reaches_nothing(clock: Clock, deadlines: Deadlines) -> None:
    reached: list[int] = []
    deadlines.call_later(0.01, reached.append, 1)
    deadlines.close()
    clock.move(1.0)
    assert not reached and not clock.timers
    deadlines.call_later(0.01, reached.append, 2)
    clock.move(1.0)
    assert reached == [2]
