"""Programs without an event loop in a simulated world: the port `net.Blocking` on the virtual clock.

Blocking code runs on a thread of its own, but never at the same time as the loop: when it would wait (for a socket, or
to sleep) it hands the turn to the loop, which comes back when the waiting is over. So a world stays deterministic, and
the code that waits in place is the code that ships.

A kill ends the code where it waits, as an exception that nothing catches; whatever its `finally` blocks then try to do
ends the same way.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.net import Socket, Sockets
from ottla.net.dial import readable, writable
from ottla.sim.loop import Process, current_process

if TYPE_CHECKING:
    from ottla.sim.programs import Program

T = TypeVar("T")
Wish = Callable[[], Awaitable[None]]
"""The wait of blocking code, as a coroutine function for the loop."""


class Killed(BaseException):
    """The process of this code is dead."""


class InPlace:
    """The port `net.Blocking` for one process of a program. One call runs at a time, as in a process with one
    thread."""

    def __init__(self, program: Program) -> None:
        process = current_process()
        assert process is not None, "blocking code belongs to a process"
        self._process: Process = process
        self._program = program
        self._sockets: Sockets = program.surroundings()["sockets"]
        self._rng: random.Random = program.surroundings()["rng"]
        self._strand: _Strand[Any] | None = None

    async def call(self, work: Callable[[], T]) -> T:
        """Run blocking code to its end; returns its result or raises its error."""
        assert self._strand is None, "one call at a time"
        strand = _Strand(work)
        self._strand = strand
        error: Exception | None = None
        try:
            while (wish := strand.go_on(error)) is not None:
                error = None
                try:
                    await wish()
                except OSError as failure:  # a TimeoutError among them
                    error = failure
        finally:
            strand.end()
            self._strand = None
        return strand.result()

    def _wait(self, wish: Wish) -> None:
        self._check()
        assert self._strand is not None, "blocking code runs in `call`"
        self._strand.wait(wish)

    def _check(self) -> None:
        if not self._process.is_alive:
            raise Killed

    # The port

    @property
    def sockets(self) -> Sockets:
        self._check()
        return self._sockets

    @property
    def rng(self) -> random.Random:
        return self._rng

    def now(self) -> float:
        self._check()
        return self._program.sim.loop.time()

    def clock(self) -> int:
        return self._program.sim.clock()

    def sleep(self, seconds: float) -> None:
        self._wait(lambda: asyncio.sleep(seconds))

    def addresses(self, host: str) -> list[str]:
        return [host]

    def wait_readable(self, sock: Socket, seconds: float) -> None:
        self._wait(lambda: _within(seconds, readable(sock)))

    def wait_writable(self, sock: Socket, seconds: float) -> None:
        self._wait(lambda: _within(seconds, writable(sock)))


async def _within(seconds: float, waiting: Awaitable[None]) -> None:
    async with asyncio.timeout(seconds):
        await waiting


class _Strand(Generic[T]):
    """One call of blocking code, and the turn: the code's or the loop's."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._code_turn = threading.Semaphore(0)
        self._loop_turn = threading.Semaphore(0)
        self._wish: Wish | None = None
        self._thrown: BaseException | None = None
        self._is_done = False
        self._result: list[T] = []
        self._failure: BaseException | None = None
        # Tasks that the code schedules belong to the process of its caller.
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    # On the loop's thread

    def go_on(self, error: BaseException | None = None) -> Wish | None:
        """Let the code run until it waits again, after its last wait has ended (with this error): what it waits for, or
        None if it has ended."""
        self._thrown = error
        self._code_turn.release()
        self._loop_turn.acquire()
        return None if self._is_done else self._wish

    def end(self) -> None:
        """The code has ended after this call."""
        if not self._is_done:
            self.go_on(Killed())
        self._thread.join()

    def result(self) -> T:
        if self._failure is not None:
            raise self._failure
        return self._result[0]

    # On the code's thread

    def _run(self) -> None:
        self._code_turn.acquire()
        try:
            if self._thrown is not None:
                raise self._thrown
            self._result.append(self._work())
        except BaseException as error:
            self._failure = error
        self._is_done = True
        self._loop_turn.release()

    def wait(self, wish: Wish) -> None:
        if isinstance(self._thrown, Killed):
            raise self._thrown  # the code was ended and its `finally` blocks would wait again
        self._wish = wish
        self._loop_turn.release()
        self._code_turn.acquire()
        if self._thrown is not None:
            raise self._thrown
