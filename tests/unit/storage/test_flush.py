"""One sync answers all waiters, and a new waiter never gets a sync that has finished."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.config import TopicConfig
from ottla.records import Record, build
from ottla.storage import Log, OsDisk

TIMESTAMP = 1_700_000_000_000


def new_log(path: Path) -> Log:
    return Log.create(OsDisk(), f"{path}/t-0", "t", 0, TopicConfig(), topic_id=None, timestamp=TIMESTAMP)


def append(log: Log) -> None:
    log.append(build([Record(value=b"x", timestamp=TIMESTAMP)]), leader_epoch=0, timestamp=TIMESTAMP)


def test_a_flush_asked_for_just_after_another_ended_does_its_own_sync(tmp_path: Path) -> None:
    """Between the end of a flush and its callbacks, a new request must not take the finished one for a running one."""

    async def scenario() -> None:
        log = new_log(tmp_path)
        append(log)
        first = asyncio.ensure_future(log.flush())
        for _ in range(100_000):
            if log._flushing is not None and log._flushing.done():
                break
            await asyncio.sleep(0)
        append(log)
        await log.flush()
        assert log.recovery_point == 2
        await first
        log.close()

    asyncio.run(scenario())


def test_waiters_that_come_while_a_flush_runs_share_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = new_log(tmp_path)
        syncs = 0
        sync = log.active_segment.file.sync

        async def counted() -> None:
            nonlocal syncs
            syncs += 1
            await sync()

        class Counted:
            def __getattr__(self, name: str) -> object:
                return counted if name == "sync" else getattr(log_file, name)

        log_file = log.active_segment.file
        log.active_segment._file = Counted()  # type: ignore[assignment]
        append(log)
        waiting = [asyncio.ensure_future(log.flush())]
        await asyncio.sleep(0)
        for _ in range(10):
            append(log)
            waiting.append(asyncio.ensure_future(log.flush()))
        await asyncio.gather(*waiting)
        assert log.recovery_point == 11
        assert syncs == 2
        log.active_segment._file = log_file
        log.close()

    asyncio.run(scenario())
