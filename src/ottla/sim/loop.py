"""A deterministic asyncio event loop: a virtual clock, seeded chance, simulated processes.

Waiting moves the clock to the next timer, so an hour of timeouts costs milliseconds. Ready callbacks run first in first
out, as asyncio promises and code relies on; chance enters only through the seeded delays of network, disk and executor.
Nothing runnable and no timer is a deadlock, and a deadlock is a failure.

A `Process` is one incarnation of a simulated program. Everything a program schedules (tasks, timers, readers, executor
jobs) inherits its process through the context, so that `Loop.end` can stop exactly this program, as kill -9 does,
without its help.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import gc
import heapq
import random
from asyncio import base_events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack

from ottla.sim.trace import Trace

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START_S = 1_000.0
STEP_S = 0.000_002
"""The cost of one turn of the loop, so that work that watches the clock sees it advance."""
MAX_LAST_TURNS = 100
"""Turns of an ending world in which its tasks may end; tasks that are left then are closed."""
MAX_TURNS_WITHOUT_WAITING = 2_000_000


class Deadlock(Exception):
    """Nothing is runnable and no timer is set: the program would sleep for ever."""


class Livelock(Exception):
    """The program turns without ever waiting for anything."""


class Overdue(Exception):
    """The awaited event did not happen within the given virtual time."""


class Failed(Exception):
    """An unhandled exception ended a callback or a task of a living process."""


class Process:
    """One incarnation of a simulated program: it runs until it is ended and never comes back."""

    __slots__ = ("is_alive", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True

    def __repr__(self) -> str:
        return f"Process({self.name!r}, {'alive' if self.is_alive else 'dead'})"


_PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("ottla_sim_process", default=None)


def current_process() -> Process | None:
    """The simulated program that is running this very line, if one is."""
    return _PROCESS.get()


class Task(asyncio.Task[T]):
    """A task that hashes by serial number: sets of tasks (TaskGroup keeps one) then iterate the same in every run."""

    def __init__(
        self,
        coroutine: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        loop: Loop,
        name: str,
        serial: int,
        process: Process | None,
        context: contextvars.Context | None,
    ) -> None:
        self._serial = serial
        self.process = process
        super().__init__(coroutine, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._serial


class Future(asyncio.Future[T]):
    """A future that hashes by serial number, for the same reason."""

    def __init__(self, *, loop: Loop, serial: int, process: Process | None) -> None:
        self._serial = serial
        self.process = process
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._serial


def _do_nothing() -> None:
    pass


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class _Clockwork:
    """Takes the place of a selector: instead of sleeping it moves the clock."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[asyncio.Handle]:
        return self._loop.wait(timeout)

    def close(self) -> None:
        pass


class Loop(base_events.BaseEventLoop):
    """asyncio's loop with the selector and the clock replaced; the rest is the code that also runs in production."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float

    def __init__(self, seed: int, *, executor_delay_s: tuple[float, float] = (0.000_05, 0.002)) -> None:
        super().__init__()
        self._now_s = START_S
        self._clock_resolution = 1e-9
        self._selector = _Clockwork(self)
        self._serials = 0
        self._turns_without_waiting = 0
        self._readers: dict[int, asyncio.Handle] = {}
        self._writers: dict[int, asyncio.Handle] = {}
        self._readable: dict[int, None] = {}
        self._writable: dict[int, None] = {}
        self._tasks: dict[int, Task[Any]] = {}
        self.seed = seed
        self.rng = random.Random(f"loop {seed}")
        self.executor_delay_s = executor_delay_s
        self.neutral = contextvars.Context()
        """The context of no process: what the world itself (network, disk) schedules survives any kill."""
        self.trace = Trace(self.time)
        self.errors: list[str] = []
        self.first_error: BaseException | None = None
        self._paused: dict[Process, list[asyncio.Handle]] = {}
        """The next steps of paused programs, including timers."""

    def __del__(self, *_: object) -> None:
        """Holds no descriptors: nothing to warn of when a failed test leaves it behind."""

    # Time

    def time(self) -> float:
        return self._now_s

    def now(self) -> int:
        """Monotonic milliseconds."""
        return int(self._now_s * 1000)

    def wait(self, timeout: float | None) -> list[asyncio.Handle]:
        """One turn: sockets that are ready for I/O now, else the clock jumps to the next timer."""
        ready = [self._readers[fd] for fd in self._readable if fd in self._readers]
        ready += [handle for fd, handle in self._writers.items() if fd in self._writable]
        if self._paused:
            ready = [handle for handle in ready if self._process_of(handle) not in self._paused]
        self._now_s += STEP_S
        if ready or timeout == 0:
            self._turns_without_waiting += 1
            if self._turns_without_waiting > MAX_TURNS_WITHOUT_WAITING:
                raise Livelock(f"{MAX_TURNS_WITHOUT_WAITING} turns of the loop without waiting for anything")
            return ready
        if timeout is None:
            raise Deadlock("nothing is runnable and no timer is set")
        self._turns_without_waiting = 0
        self._now_s = max(self._now_s, self._scheduled[0].when())
        return ready

    def _process_events(self, event_list: list[asyncio.Handle]) -> None:
        for handle in event_list:
            if not handle.cancelled():
                self._ready.append(handle)

    def _write_to_self(self) -> None:
        pass

    # Readiness of simulated sockets, level triggered as epoll's

    def add_reader(self, fd: int | HasFileno, callback: Callable[[Unpack[Ts]], Any], *args: *Ts) -> None:
        self._register(self._readers, fd, callback, args)

    def add_writer(self, fd: int | HasFileno, callback: Callable[[Unpack[Ts]], Any], *args: *Ts) -> None:
        self._register(self._writers, fd, callback, args)

    def remove_reader(self, fd: int | HasFileno) -> bool:
        return self._unregister(self._readers, fd)

    def remove_writer(self, fd: int | HasFileno) -> bool:
        return self._unregister(self._writers, fd)

    def is_registered(self, fd: int) -> bool:
        return fd in self._readers or fd in self._writers

    def set_readable(self, fd: int, is_readable: bool) -> None:
        """The network reports what epoll would."""
        if is_readable:
            self._readable.setdefault(fd)
        else:
            self._readable.pop(fd, None)

    def set_writable(self, fd: int, is_writable: bool) -> None:
        if is_writable:
            self._writable.setdefault(fd)
        else:
            self._writable.pop(fd, None)

    def _register(
        self,
        handles: dict[int, asyncio.Handle],
        fd: int | HasFileno,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        if number < 0:
            raise ValueError(f"invalid file descriptor: {number}")
        if (process := current_process()) is not None and not process.is_alive:
            return
        if (old := handles.get(number)) is not None:
            old.cancel()
        handles[number] = asyncio.Handle(callback, args, self, None)

    def _unregister(self, handles: dict[int, asyncio.Handle], fd: int | HasFileno) -> bool:
        number = fd if isinstance(fd, int) else fd.fileno()
        handle = handles.pop(number, None)
        if handle is None:
            return False
        handle.cancel()
        return True

    # Scheduling

    def _call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.Handle:
        handle: asyncio.Handle = super()._call_soon(callback, args, context)  # type: ignore[misc]
        if self._paused:
            process = self._process_of(handle)
            if process in self._paused:
                self._ready.pop()
                self._paused[process].append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        if process is not None and not process.is_alive:
            handle.cancel()
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        self._serials += 1
        return Future(loop=self, serial=self._serials, process=_PROCESS.get())

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        self._serials += 1
        serial = self._serials
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        name = f"task-{serial}" if name is None else str(name)
        task: Task[T] = Task(coro, loop=self, name=name, serial=serial, process=process, context=context)
        self._tasks[serial] = task
        task.add_done_callback(lambda _: self._tasks.pop(serial, None), context=self.neutral)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """The job runs inline after a seeded delay: a thread's work, without a thread. A kill before then loses it."""
        future: asyncio.Future[T] = self.create_future()
        process = current_process()
        if process is not None and not process.is_alive:
            future.set_exception(OSError(errno.EIO, "the process is dead"))
            return future

        def work() -> None:
            if future.cancelled():
                return  # a job that has not begun
            try:
                result = func(*args)
            except BaseException as error:
                if not future.cancelled():
                    future.set_exception(error)
            else:
                if not future.cancelled():
                    future.set_result(result)

        self.call_later(self.rng.uniform(*self.executor_delay_s), work)
        return future

    # Processes

    def context_of(self, process: Process) -> contextvars.Context:
        context = contextvars.Context()
        context.run(_PROCESS.set, process)
        return context

    def spawn(self, process: Process, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a coroutine as (part of) this program."""
        return self.create_task(coroutine, name=process.name, context=self.context_of(process))

    def end(self, process: Process) -> None:
        """kill -9: nothing this program scheduled happens any more.

        Its disk and its sockets must be dead before, since cancelling a task runs its `finally` blocks. What those
        start goes nowhere: timers of a dead process never fire, its executor refuses.
        """
        process.is_alive = False
        self.resume(process)
        for timer in self._scheduled:
            if self._process_of(timer) is process:
                timer.cancel()
        for handles in (self._readers, self._writers):
            for fd in [fd for fd, handle in handles.items() if self._process_of(handle) is process]:
                handles.pop(fd).cancel()
        for task in [task for task in self._tasks.values() if task.process is process]:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.cancel()

    def pause(self, process: Process) -> None:
        """SIGSTOP: the program does nothing until `resume`; its kernel goes on taking bytes for it."""
        held = self._paused.setdefault(process, [])
        for queue in (self._ready, self._scheduled):
            held += [handle for handle in queue if self._process_of(handle) is process]
        # The loop counts what is ready before it runs it: a handle that is taken out leaves a cancelled one behind.
        nothing = asyncio.Handle(_do_nothing, (), self, self.neutral)
        nothing.cancel()
        self._ready = deque(nothing if self._process_of(handle) is process else handle for handle in self._ready)
        self._scheduled = [timer for timer in self._scheduled if self._process_of(timer) is not process]
        heapq.heapify(self._scheduled)

    def is_paused(self, process: Process) -> bool:
        return process in self._paused

    def resume(self, process: Process) -> None:
        for handle in self._paused.pop(process, ()):
            if isinstance(handle, asyncio.TimerHandle):
                heapq.heappush(self._scheduled, handle)
            else:
                self._ready.append(handle)

    def tasks_of(self, process: Process) -> list[Task[Any]]:
        return [task for task in self._tasks.values() if task.process is process]

    @staticmethod
    def _process_of(handle: asyncio.Handle) -> Process | None:
        context: contextvars.Context | None = handle._context  # type: ignore[attr-defined]
        return None if context is None else context.get(_PROCESS)

    # Verdicts

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An unhandled exception: a bug, unless the program was already dead."""
        owner, handle = context.get("task") or context.get("future"), context.get("handle")
        process = None if handle is None else self._process_of(handle)
        if isinstance(owner, Task | Future):
            process = owner.process
        if process is not None and not process.is_alive:
            return
        error = context.get("exception")
        if self.first_error is None and isinstance(error, BaseException):
            self.first_error = error
        who = "world" if process is None else process.name
        self.errors.append(f"{who}: {context.get('message')}: {error!r}")
        self.trace.note(who, f"error {context.get('message')}: {error!r}")

    def run(self, coroutine: Coroutine[Any, Any, T], *, within_s: float = 3_600.0) -> T:
        """Run to the end of the coroutine, at most so much virtual time; unhandled exceptions anywhere fail the run."""
        task = self.create_task(coroutine, name="main")
        timer = super().call_at(self._now_s + within_s, task.cancel, "overdue", context=self.neutral)
        try:
            result = self.run_until_complete(task)
        except asyncio.CancelledError as error:
            if error.args == ("overdue",) or self.time() >= timer.when():
                raise Overdue(f"not done after {within_s} s of virtual time") from None
            raise
        finally:
            timer.cancel()
        self.check()
        return result

    def check(self) -> None:
        if self.errors:
            raise Failed("; ".join(self.errors)) from self.first_error

    def _cancel_all(self) -> None:
        for task in list(self._tasks.values()):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if task.process is not None:
                task.process.is_alive = False
            task.cancel()
        for timer in self._scheduled:
            timer.cancel()

    def abandon(self) -> None:
        """End every task, and the loop: otherwise they would be collected in the middle of another world."""
        if self.is_closed():
            return
        for _ in range(MAX_LAST_TURNS):
            # `finally` blocks of cancelled tasks may start more tasks.
            self._cancel_all()
            self.run_until_complete(asyncio.sleep(0))
            if not self._tasks:
                break
        for task in self._tasks.values():
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            if coroutine is not None:
                with suppress(RuntimeError):  # it refuses to end
                    coroutine.close()
        self.close()

    def finish(self) -> None:
        """End the world: whatever still runs is cancelled, and exceptions that were never retrieved come to light."""
        self.run_until_complete(asyncio.sleep(0))
        gc.collect()
        errors, first_error = list(self.errors), self.first_error
        self.abandon()
        self.errors, self.first_error = errors, first_error
        self.check()
