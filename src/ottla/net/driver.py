"""Runs a timed machine on an event loop, and logs its events and effects.

    driver = Driver(machine, perform, loop=loop, log=log, label="raft node=1")
    driver.handle(event)                  # effects are performed, the timer is set for the machine's deadline
    driver.close()

D1 effects are performed in the order in which the machine gives them, each event's before the next event is handled:
   an event that arrives while effects are performed is handled after all of them.
D2 there is at most one timer on the loop, and it rings no later than the machine's deadline.
D3 if the machine or an effect raises, the effects after it are dropped and the caller of `handle` gets the exception.

At DEBUG each event is one line, written before its effects are performed; `quiet` kinds of events only if they have
effects:

    machine=raft node=1 event=Flushed(end_offset=7) -> effects=[Commit(high_watermark=7)]
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ottla.machine import Machine, Tick
from ottla.net.event_text import event_text

MAX_GRACE_MS = 500


class DeadlineTimer:
    """One timer for a deadline that moves. If the deadline moves to a later time, the timer stays as it is and looks at
    the deadline again when it fires. So events that only postpone a deadline, as nearly all do, set no timer.

    With `late_ms`, a timer that fires later than that shows that this process stood still. The deadline is then delayed
    by as much as the timer was late, at most MAX_GRACE_MS, so that messages that arrived meanwhile are read before a
    timeout counts.
    """

    __slots__ = ("_act", "_at", "_deadline", "_late_ms", "_loop", "_timer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deadline: Callable[[], int | None],
        act: Callable[[], None],
        *,
        late_ms: int | None = None,
    ) -> None:
        self._loop = loop
        self._deadline = deadline
        self._act = act
        self._late_ms = late_ms
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def now(self) -> int:
        """Monotonic milliseconds."""
        return int(self._loop.time() * 1000)

    def rearm(self) -> None:
        """The deadline may have changed."""
        deadline = self._deadline()
        if deadline is None:
            self.cancel()
            return
        if self._timer is not None:
            if self._at <= deadline:
                return
            self._timer.cancel()
        self._at = deadline
        self._timer = self._loop.call_later(max(0, deadline - self.now()) / 1000, self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        late_ms = self.now() - self._at
        if self._late_ms is None or late_ms <= self._late_ms:
            self._ring_now()
        else:
            self._timer = self._loop.call_later(min(late_ms, MAX_GRACE_MS) / 1000, self._ring_now)

    def _ring_now(self) -> None:
        self._timer = None
        deadline = self._deadline()
        if deadline is not None and deadline <= self.now():
            self._act()
        else:
            self.rearm()


class Driver:
    """Runs one machine. `tick`, if given, is called at the deadline in place of `handle(Tick())`."""

    def __init__(
        self,
        machine: Machine,
        perform: Callable[[Any], None],
        *,
        loop: asyncio.AbstractEventLoop,
        log: logging.Logger,
        label: str,
        tick: Callable[[], None] | None = None,
        late_ms: int | None = None,
        quiet: tuple[type, ...] = (),
    ) -> None:
        self._machine = machine
        self._perform = perform
        self._log = log
        self._label = label
        self._quiet = quiet
        self._timer = DeadlineTimer(loop, machine.deadline, tick or self._tick, late_ms=late_ms)
        self._waiting: deque[object] = deque()
        self._is_handling = False
        self._is_closed = False

    def handle(self, event: object) -> None:
        """Hand the machine an event and perform its effects. Nothing happens once the driver is closed."""
        if self._is_closed:
            return
        if self._is_handling:
            self._waiting.append(event)  # D1
            return
        self._is_handling = True
        try:
            self._step(event)
            while self._waiting and not self._is_closed:
                self._step(self._waiting.popleft())
        except BaseException:
            self._waiting.clear()
            raise
        finally:
            self._is_handling = False
        if not self._is_closed:
            self._timer.rearm()

    def rearm(self) -> None:
        """The machine's deadline may have changed without an event."""
        if not self._is_closed:
            self._timer.rearm()

    def close(self) -> None:
        """Stop: later events are ignored and the timer is cancelled."""
        self._is_closed = True
        self._timer.cancel()

    def _step(self, event: object) -> None:
        effects = self._machine.handle(event, self._timer.now())
        if self._log.isEnabledFor(logging.DEBUG) and (effects or not isinstance(event, self._quiet)):
            log_step(self._log, self._label, event, effects)
        for effect in effects:
            self._perform(effect)

    def _tick(self) -> None:
        self.handle(Tick())


def log_step(log: logging.Logger, label: str, event: object, effects: Sequence[Any]) -> None:
    """The log line of one step. A caller writes it if the logger is enabled for DEBUG."""
    shown = ", ".join(event_text(effect) for effect in effects)
    log.debug("machine=%s event=%s -> effects=[%s]", label, event_text(event), shown)
