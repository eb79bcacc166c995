"""Deadlines that are hardly ever reached: every request that waits has one, and nearly all are answered long before.

An event loop's timer costs more than most requests take. Here deadlines of about the same time share one entry, and all
share one timer of the loop: setting or cancelling one is a change of a dict. They are rounded up, by at most 5 ms or,
beyond a second, 100 ms.

Cython compiles this file (types in deadlines.pxd), and it runs as it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

GRAIN_S = 0.005
LONG_DELAY_S = 1.0
LONG_GRAINS = 20
"""A long delay is rounded up to a multiple of so many grains."""
CLOCK_GRAINS = 0.2
"""The loop's clock counts whole milliseconds: it may be one behind its timer."""


def _nothing(*_: Any) -> None:
    """The action of a deadline that was cancelled or reached."""


class Deadline:
    """A deadline. Like a timer's handle, it can be cancelled at any time."""

    __slots__ = ("_act", "_given", "_together")

    def __init__(self, together: dict[Deadline, None], act: Callable[..., None], given: tuple[Any, ...]) -> None:
        self._together = together
        """All deadlines that are reached at the same time."""
        self._act = act
        self._given = given

    def cancel(self) -> None:
        self._together.pop(self, None)
        self._act = _nothing  # the waiter holds its deadline: without this cycle its memory is freed at once
        self._given = ()

    def reach(self) -> None:
        act, given = self._act, self._given
        self._act = _nothing
        self._given = ()
        act(*given)


class Deadlines:
    """All deadlines of a node, or of a connection. `call_later` works like the loop's, at a lower cost."""

    __slots__ = ("_by_grain", "_first_grain", "_loop", "_time", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._time = loop.time
        self._by_grain: dict[int, dict[Deadline, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._first_grain = 0
        """The grain for which the timer is set."""

    def call_later(self, delay_s: float, act: Callable[..., None], *given: Any) -> Deadline:
        """Call `act` when so many seconds have passed, or a little later."""
        grain = int((self._time() + delay_s) / GRAIN_S) + 1
        if delay_s > LONG_DELAY_S:
            grain = (grain // LONG_GRAINS + 1) * LONG_GRAINS
        together = self._by_grain.get(grain)
        if together is None:
            together = self._by_grain[grain] = {}
            if self._timer is None or grain < self._first_grain:
                self._set_timer(grain)
        deadline = Deadline(together, act, given)
        together[deadline] = None
        return deadline

    def close(self) -> None:
        """Forget all deadlines."""
        self._by_grain.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, grain: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._first_grain = grain
        delay_s = max(0.0, grain * GRAIN_S - self._time())
        self._timer = self._loop.call_later(delay_s, self._ring)

    def _ring(self) -> None:
        """Call what is due, and set the timer for the next."""
        self._timer = None
        now_grain = int(self._time() / GRAIN_S + CLOCK_GRAINS)
        due = sorted(grain for grain in self._by_grain if grain <= now_grain)
        for grain in due:
            together = self._by_grain.pop(grain, None)
            for deadline in list(together or ()):
                if together is not None and deadline in together:  # not cancelled by an earlier one
                    self._reach(deadline)
        for grain in [grain for grain, together in self._by_grain.items() if not together]:
            del self._by_grain[grain]
        if self._by_grain:
            self._set_timer(min(self._by_grain))

    def _reach(self, deadline: Deadline) -> None:
        try:
            deadline.reach()
        except Exception as error:
            self._loop.call_exception_handler({"message": "a deadline's call failed", "exception": error})
