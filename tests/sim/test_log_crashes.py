"""kill -9 and power loss at every write of a log: append, roll, flush, checkpoint, truncate, retain, recover."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.sim.machine import Machine, at_every_write
from tests.sim.partition import TOPIC, Partition, verify

Work = Callable[[Partition], Coroutine[Any, Any, None]]


def crash_everywhere(
    work: Work, *, batches: int = 6, is_flushed: bool = True, power_losses: int = 1, **config: object
) -> None:
    def prepare(machine: Machine) -> Partition:
        partition = Partition(machine, **config)

        async def set_up() -> None:
            await partition.open()
            await partition.fill(batches)
            if is_flushed:
                await partition.flush()

        machine.run(set_up())
        return partition

    for label, machine, partition in at_every_write(
        prepare, lambda machine, partition: machine.run(work(partition)), power_losses=power_losses
    ):
        verify(label, machine, partition)


def test_a_new_log_survives_a_crash_at_every_write() -> None:
    def prepare(machine: Machine) -> Partition:
        return Partition(machine)

    async def work(partition: Partition) -> None:
        await partition.open()
        await partition.fill(2)
        await partition.flush()

    for label, machine, partition in at_every_write(prepare, lambda machine, it: machine.run(work(it))):
        verify(label, machine, partition)


def test_appends_and_rolls_survive_a_crash_at_every_write() -> None:
    async def work(partition: Partition) -> None:
        await partition.fill(9)

    crash_everywhere(work, power_losses=2)


def test_flushes_between_rolls_survive_a_crash_at_every_write() -> None:
    async def work(partition: Partition) -> None:
        for _ in range(3):
            await partition.fill(4)
            await partition.flush()

    crash_everywhere(work)


def test_the_background_flush_of_closed_segments_survives_a_crash_at_every_write() -> None:
    async def work(partition: Partition) -> None:
        for _ in range(3):
            await partition.fill(5)
            await partition.log.flush_closed_segments()
            partition.logs.checkpoint()

    crash_everywhere(work)


def test_checkpoints_survive_a_crash_at_every_write() -> None:
    async def work(partition: Partition) -> None:
        await partition.fill(6)
        partition.logs.checkpoint()
        await partition.flush()
        partition.logs.checkpoint()
        await partition.fill(3)
        partition.logs.checkpoint()

    crash_everywhere(work)


def test_a_truncation_survives_a_crash_at_every_write() -> None:
    """Whatever a crash leaves, it is a prefix; the bytes that were cut may come back, as POSIX allows."""

    async def work(partition: Partition) -> None:
        log = partition.log
        offset = log.log_end_offset - 9
        history = partition.history
        for at in [at for at in history.acknowledged if at >= offset]:
            del history.acknowledged[at]
        history.synced_end = min(history.synced_end, offset)
        partition.sent = [row for row in partition.sent if row[0] < offset]
        log.truncate(offset, timestamp=partition.machine.clock())
        await partition.log.flush()

    crash_everywhere(work, batches=14)


def test_deleting_records_and_retention_survive_a_crash_at_every_write() -> None:
    async def work(partition: Partition) -> None:
        log, logs = partition.log, partition.logs
        log.delete_records(9)
        logs.checkpoint()
        partition.start_offset = 9
        logs.run_retention(partition.machine.clock())
        logs.remove_due(partition.machine.loop.now() + 1)
        await partition.fill(2)

    crash_everywhere(work, batches=14)
    crash_everywhere(work, batches=14, is_flushed=False, power_losses=2)


def test_retention_by_size_survives_a_crash_at_every_write() -> None:
    async def work(partition: Partition) -> None:
        partition.logs.run_retention(partition.machine.clock())
        partition.logs.remove_due(partition.machine.loop.now() + 1)
        partition.logs.checkpoint()

    crash_everywhere(work, batches=20, retention_bytes=1_000)


def test_segments_that_retention_removed_before_they_were_synced_do_not_come_back_broken() -> None:
    """Their names may come back when the power fails; their bytes were never synced, so they must be checked."""

    async def work(partition: Partition) -> None:
        partition.logs.run_retention(partition.machine.clock())
        partition.logs.checkpoint()
        await partition.fill(2)

    crash_everywhere(work, batches=20, is_flushed=False, power_losses=3, retention_bytes=1_000)


def test_a_clean_stop_survives_a_crash_at_every_write() -> None:
    async def work(partition: Partition) -> None:
        await partition.fill(3)
        await partition.close()
        partition.history.synced_end = partition.history.end_offset

    crash_everywhere(work)


def test_recovery_survives_a_crash_at_every_write() -> None:
    """A crash while the last crash is being repaired."""

    def prepare(machine: Machine) -> Partition:
        partition = Partition(machine)

        async def set_up() -> None:
            await partition.open()
            await partition.fill(6)
            await partition.flush()
            await partition.fill(10)

        machine.run(set_up())
        machine.device.rng.seed("the first crash")
        machine.power_loss()
        partition.history.power_lost()
        return partition

    async def work(partition: Partition) -> None:
        await partition.open()
        await partition.log.flush()

    for label, machine, partition in at_every_write(prepare, lambda machine, it: machine.run(work(it))):
        verify(label, machine, partition)


def test_a_deleted_topic_never_comes_back_as_a_log_and_a_new_one_of_its_name_is_empty() -> None:
    def prepare(machine: Machine) -> Partition:
        partition = Partition(machine)

        async def set_up() -> None:
            await partition.open()
            await partition.fill(8)
            await partition.flush()

        machine.run(set_up())
        return partition

    async def work(partition: Partition) -> None:
        partition.logs.delete(TOPIC, 0)
        partition.logs.remove_due(partition.machine.loop.now() + 1)

    for label, machine, partition in at_every_write(prepare, lambda machine, it: machine.run(work(it))):

        async def check(partition: Partition = partition, label: str = label) -> None:
            await partition.open()
            # The metadata decides what exists; storage gives either the old log whole or a new one.
            assert partition.log.log_end_offset in (0, partition.history.end_offset), label
            partition.logs.remove_due(partition.machine.loop.now() + 100_000)
            if partition.log.log_end_offset:
                partition.check()
            await partition.close()

        machine.run(check())


@pytest.mark.parametrize("seed", range(8))
def test_power_loss_under_load_leaves_a_prefix_that_holds_what_was_synced(seed: int) -> None:
    machine = Machine(seed)
    partition = Partition(machine, segment_bytes=machine.rng.choice((1_500, 12_000)))

    async def load() -> None:
        for _ in range(6):
            await partition.fill(machine.rng.randrange(1, 30))
            if machine.rng.random() < 0.5:
                await partition.flush()
            if machine.rng.random() < 0.3:
                partition.logs.checkpoint()

    machine.run(partition.open())
    for round_ in range(8):
        machine.run(load())
        if machine.rng.random() < 0.3:
            machine.kill()
            is_power_loss = False
        else:
            machine.power_loss()
            is_power_loss = True
        machine.run(partition.recover(f"round {round_}", is_power_loss=is_power_loss))
