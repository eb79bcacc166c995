"""A machine without a network: one disk, one program on it, and crashes at every single write of an operation.

`at_every_write` is how storage is tested: it learns how many write-like operations something takes, then does it again
from the same state once per operation, stops the machine exactly there, by kill -9 and by power loss, and lets the test
look at what a restart makes of it.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from ottla.sim.disk import Crashed, Device, Disk
from ottla.sim.loop import Loop, Process

T = TypeVar("T")

START_TIMESTAMP = 1_700_000_000_000
OPERATION_LIMIT = 2_000


class Machine:
    """One disk and at most one program."""

    def __init__(self, seed: int = 0, *, sync_delay_s: tuple[float, float] = (0.000_2, 0.005)) -> None:
        self.loop = Loop(seed)
        self.wall_clock_skew_ms = 0
        self.device = Device(
            random.Random(f"device {seed}"),
            clock=self.clock,
            note=lambda what: self.loop.trace.note("disk", what),
            sync_delay_s=sync_delay_s,
        )
        self.device.on_crash = self._crashed
        self.rng = random.Random(f"program {seed}")
        self.process = Process("program")
        self.disk: Disk = self.device.mount()
        self._crash: asyncio.Future[None] | None = None

    def clock(self) -> int:
        return START_TIMESTAMP + self.loop.now() + self.wall_clock_skew_ms

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a part of the program to its end; `Crashed` if the machine stops before."""

        async def main() -> T | None:
            crash = self._crash = self.loop.create_future()
            task = self.loop.spawn(self.process, work)
            await asyncio.wait([task, crash], return_when=asyncio.FIRST_COMPLETED)
            return None if crash.done() else await task

        result = self.loop.run(main(), within_s=100_000)
        if self._crash is not None and self._crash.done():
            self.loop.end(self.process)
            raise Crashed
        return result  # type: ignore[return-value]

    def _crashed(self) -> None:
        self.process.is_alive = False
        if self._crash is not None and not self._crash.done():
            self._crash.set_result(None)

    def kill(self) -> None:
        self._restart(self.device.kill)

    def power_loss(self) -> None:
        self._restart(self.device.power_loss)

    def _restart(self, end: Callable[[], None]) -> None:
        self.process.is_alive = False
        end()
        self.loop.end(self.process)
        self.loop.run(asyncio.sleep(0.001))
        self.process = Process("program")
        self.disk = self.device.mount()


def at_every_write(
    prepare: Callable[[Machine], T],
    operate: Callable[[Machine, T], object],
    *,
    seed: int = 0,
    power_losses: int = 1,
    kills: int = 1,
) -> Iterator[tuple[str, Machine, T]]:
    """Crash `operate` at each of its writes, and once behind the last; yields the machine as it would start again.

    `prepare` makes the state before it and must be deterministic. Each write is tried with `kills` kills and
    `power_losses` power losses, which differ in what chance leaves of the unsynced bytes; OTTLA_SIM_LUCK in the
    environment multiplies the latter.
    """
    power_losses *= int(os.environ.get("OTTLA_SIM_LUCK", "1"))
    machine = Machine(seed)
    state = prepare(machine)
    before = machine.device.operation_count
    operate(machine, state)
    count = machine.device.operation_count - before
    assert 0 < count < OPERATION_LIMIT, f"{count} writes"
    for operation in range(count + 1):
        for attempt in range(kills + power_losses):
            machine = Machine(seed)
            state = prepare(machine)
            machine.device.crash_at(operation)
            try:
                operate(machine, state)
            except Crashed:
                pass
            else:
                assert operation == count, f"no crash at write {operation} of {count}"
            is_power_loss = attempt >= kills
            if is_power_loss:
                machine.device.rng.seed(f"luck {seed} {operation} {attempt}")
                machine.power_loss()
            else:
                machine.kill()
            kind = "power loss" if is_power_loss else "kill"
            label = f"{kind} {attempt} at write {operation} of {count}"
            try:
                yield label, machine, state
            except GeneratorExit:
                return
            finally:
                machine.loop.close()
