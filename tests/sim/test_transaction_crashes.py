"""A node crashes at any write of a transaction: it is there as a whole or not at all, and blocks no reader.

The writes are those of the coordinator and of the partitions in turn, so this covers a crash between the decision and
its markers, between the markers of two partitions, and between the last marker and the record that completes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest

from ottla.sim.client import NoAnswer
from ottla.sim.disk import Crashed
from ottla.sim.transaction_client import VERSION_1, VERSION_2, Fenced, GaveUp, TransactionalProducer, Versions
from ottla.sim.transaction_history import READER, Attempt
from ottla.wire.errors import KafkaError
from tests.sim.transactions import GROUP, INPUT, A, B, Scene

TIMEOUT_MS = 2_000
TRANSACTION_S = 0.5
"""Until the markers are written and the transaction is complete."""


class Work:
    """A transaction in two partitions and a group, after one that is over."""

    def __init__(self, versions: Versions, is_commit: bool) -> None:
        self.scene = Scene()
        self.versions = versions
        self.is_commit = is_commit
        self.producer: TransactionalProducer = self.scene.producer(versions, timeout_ms=TIMEOUT_MS)
        self.scene.transaction(self.producer, A, B)
        self.scene.sim.sleep(TRANSACTION_S)
        self.attempt: Attempt = self.scene.begin()

    async def run(self) -> None:
        scene, attempt = self.scene, self.attempt
        await scene.write(self.producer, attempt, A, B)
        await self.producer.commit_offset(GROUP, INPUT, 5, attempt.name)
        await scene.end(self.producer, attempt, is_commit=self.is_commit)
        await asyncio.sleep(TRANSACTION_S)

    async def until_crash(self, operation: int) -> None:
        crash = self.scene.host.crash_at(operation)
        working = self.scene.sim.loop.create_task(self.run())
        await asyncio.wait([working, crash], return_when=asyncio.FIRST_COMPLETED)
        assert crash.done(), f"no crash at write {operation}"
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError, Crashed, NoAnswer, KafkaError, GaveUp):
            await working
        self.scene.history.abandon(self.attempt)

    def check(self, *, has_successor: bool) -> None:
        """Either another instance takes over, or the transaction's timeout aborts what is left."""
        scene = self.scene
        successor = scene.new_producer(self.versions, name="successor")
        if has_successor:
            scene.run(successor.init())
        scene.check()
        offset, note = scene.committed_offset()
        if self.attempt.is_committed is None:
            scene.history.conclude(self.attempt, note == self.attempt.name, READER, f"the group stands at {offset}")
        assert (offset, note) == ((5, self.attempt.name) if self.attempt.is_committed else (-1, ""))
        with pytest.raises(Fenced):
            if not has_successor:
                scene.run(successor.init())
            stale = scene.begin()
            try:
                scene.run(scene.write(self.producer, stale, A))
            finally:
                scene.history.abandon(stale)
        scene.transaction(successor, A, B)
        scene.check()


def crash_everywhere(versions: Versions, *, is_commit: bool) -> None:
    work = Work(versions, is_commit)
    device = work.scene.host.device
    before = device.operation_count
    work.scene.run(work.run())
    count = device.operation_count - before
    work.scene.finish()
    fates: dict[bool | None, int] = {}
    for operation in range(count):
        for is_power_loss in (False, True) if "OTTLA_SIM_LUCK" in os.environ else (operation % 2 == 0,):
            work = Work(versions, is_commit)
            scene = work.scene
            try:
                scene.run(work.until_crash(operation))
                scene.host.device.rng.seed(f"luck {operation}")
                scene.host.power_loss() if is_power_loss else scene.host.kill()
                scene.sim.restart()
                work.check(has_successor=operation % 3 > 0)
                scene.finish()
            except Exception as error:
                error.add_note(f"{'power loss' if is_power_loss else 'kill'} at write {operation} of {count}")
                for line in list(scene.sim.loop.trace.lines)[-60:]:
                    error.add_note(line)
                raise
            fates[work.attempt.is_committed] = fates.get(work.attempt.is_committed, 0) + 1
    assert set(fates) == ({False, True} if is_commit else {False}), fates


@pytest.mark.parametrize("versions", [VERSION_2, VERSION_1], ids=["version 2", "version 1"])
def test_a_commit_survives_a_crash_at_every_write(versions: Versions) -> None:
    crash_everywhere(versions, is_commit=True)


@pytest.mark.parametrize("versions", [VERSION_2, VERSION_1], ids=["version 2", "version 1"])
def test_an_abort_survives_a_crash_at_every_write(versions: Versions) -> None:
    crash_everywhere(versions, is_commit=False)
