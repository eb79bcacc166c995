"""The simulated loop: virtual time, first in first out, deadlock found, processes that end without their help."""

from __future__ import annotations

import asyncio
import errno

import pytest

from ottla.sim.loop import Deadlock, Failed, Loop, Overdue, Process, current_process


def test_an_hour_of_sleep_moves_only_the_virtual_clock() -> None:
    loop = Loop(1)
    begun = loop.time()
    loop.run(asyncio.sleep(3_599.0))
    assert 3_599.0 <= loop.time() - begun < 3_599.1
    loop.finish()


def test_timers_run_in_order_of_their_time_and_callbacks_in_order_of_their_call() -> None:
    loop = Loop(1)
    seen: list[str] = []

    async def main() -> None:
        loop.call_later(0.2, seen.append, "later")
        loop.call_later(0.1, seen.append, "sooner")
        for name in "abc":
            loop.call_soon(seen.append, name)
        await asyncio.sleep(0.3)

    loop.run(main())
    assert seen == ["a", "b", "c", "sooner", "later"]
    loop.finish()


def test_waiting_for_nothing_is_a_deadlock() -> None:
    loop = Loop(1)
    task = loop.create_task(asyncio.Event().wait())
    with pytest.raises(Deadlock):
        loop.run_until_complete(task)
    loop.finish()


def test_a_run_that_takes_too_long_is_overdue() -> None:
    loop = Loop(1)
    with pytest.raises(Overdue):
        loop.run(asyncio.sleep(100), within_s=10)
    loop.finish()


def test_an_exception_in_a_callback_fails_the_run() -> None:
    loop = Loop(1)

    async def main() -> None:
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(Failed, match="ZeroDivisionError"):
        loop.run(main())


def test_an_exception_of_a_forgotten_task_fails_the_run() -> None:
    loop = Loop(1)

    async def main() -> None:
        loop.create_task(fail())
        await asyncio.sleep(1)

    async def fail() -> None:
        raise ValueError("forgotten")

    with pytest.raises(Failed, match="forgotten"):
        loop.run(main())


def test_executor_jobs_run_later_and_deliver_their_result_or_exception() -> None:
    loop = Loop(1)

    def fail() -> None:
        raise OSError(errno.EIO, "broken")

    async def main() -> int:
        begun = loop.time()
        result = await loop.run_in_executor(None, lambda: 42)
        assert loop.time() > begun
        with pytest.raises(OSError, match="broken"):
            await loop.run_in_executor(None, fail)
        return result

    assert loop.run(main()) == 42
    loop.finish()


def test_task_groups_cancel_their_tasks_in_the_order_of_creation() -> None:
    loop = Loop(1)
    cancelled: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError

    async def main() -> None:
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(wait(number))
                group.create_task(fail())

    loop.run(main())
    assert cancelled == list(range(20))
    loop.finish()


def test_ending_a_process_stops_only_its_own_tasks_timers_and_jobs() -> None:
    loop = Loop(1)
    seen: list[str] = []

    async def program(name: str) -> None:
        process = current_process()
        assert process is not None and process.name == name
        loop.call_later(5, seen.append, f"{name} timer")
        child = loop.create_task(asyncio.sleep(5))
        child.add_done_callback(lambda task: None if task.cancelled() else seen.append(f"{name} child"))
        loop.run_in_executor(None, seen.append, f"{name} early job")
        await asyncio.sleep(1)
        loop.run_in_executor(None, seen.append, f"{name} job")
        await asyncio.sleep(10)
        seen.append(f"{name} end")

    async def main() -> None:
        victim, survivor = Process("victim"), Process("survivor")
        loop.spawn(victim, program("victim"))
        loop.spawn(survivor, program("survivor"))
        await asyncio.sleep(1)
        loop.end(victim)
        await asyncio.sleep(20)
        assert loop.tasks_of(victim) == []

    loop.run(main())
    assert [what for what in seen if what.startswith("victim")] == ["victim early job"]
    assert sorted(what for what in seen if what.startswith("survivor")) == sorted(
        ["survivor early job", "survivor timer", "survivor child", "survivor job", "survivor end"]
    )
    loop.finish()


def test_what_a_dead_process_starts_in_its_finally_blocks_goes_nowhere() -> None:
    loop = Loop(1)
    seen: list[str] = []

    async def program() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            loop.call_later(0.1, seen.append, "timer of the dead")
            with pytest.raises(OSError, match="dead"):
                await loop.run_in_executor(None, seen.append, "job of the dead")
            raise RuntimeError("dying words are not a failure of the run")

    async def main() -> None:
        process = Process("node")
        loop.spawn(process, program())
        await asyncio.sleep(1)
        loop.end(process)
        await asyncio.sleep(5)

    loop.run(main())
    assert seen == []
    loop.finish()


def test_a_process_that_is_paused_when_it_is_ready_goes_on_after_its_pause() -> None:
    loop = Loop(1)
    seen: list[tuple[str, float]] = []
    process = Process("program")
    begun = loop.time()

    def note(what: str) -> None:
        seen.append((what, round(loop.time() - begun)))

    async def main() -> None:
        loop.call_soon(loop.pause, process)
        for name in ("first", "second"):  # ready in the very turn that pauses the process
            loop.call_soon(note, name, context=loop.context_of(process))
        await asyncio.sleep(5)
        loop.resume(process)
        await asyncio.sleep(1)

    loop.run(main())
    assert seen == [("first", 5), ("second", 5)]
    loop.finish()
