"""kill -9 and power loss at every write of a compaction, while producers go on."""

from __future__ import annotations

import asyncio

from ottla.sim.checkers import Content
from ottla.sim.machine import Machine, at_every_write
from ottla.storage.compaction import Cleaner
from tests.sim.partition import Partition, verify

COMPACTED = {
    "cleanup_policy": ("compact",),
    "min_cleanable_dirty_ratio": 0.0,
    "delete_retention_ms": 0,
    "segment_bytes": 900,
}


def prepare(machine: Machine) -> Partition:
    partition = Partition(machine, **COMPACTED)

    async def set_up() -> None:
        await partition.open()
        await partition.fill(7, keys=4)
        await partition.append_contents([(b"k1", None), (b"k9", b"only once")])
        await partition.fill(3, keys=2)
        await partition.flush()
        partition.logs.checkpoint()

    machine.run(set_up())
    return partition


async def compact(partition: Partition) -> None:
    machine = partition.machine
    cleaner = Cleaner(partition.logs, machine.disk, rng=machine.rng)
    assert await cleaner.run(machine.clock()) > 0, "there was nothing to clean"


def test_a_compaction_survives_a_crash_at_every_write_and_so_does_the_next_one() -> None:
    for label, machine, partition in at_every_write(prepare, lambda machine, it: machine.run(compact(it))):
        verify(label, machine, partition)

        async def again(partition: Partition = partition) -> None:
            await partition.flush()
            cleaner = Cleaner(partition.logs, partition.machine.disk, rng=partition.machine.rng)
            await cleaner.run(partition.machine.clock())
            partition.check()

        machine.run(again())


def test_a_compaction_beside_a_producer_survives_a_crash_at_every_write() -> None:
    """What the producer appends meanwhile is not synced: it must not replace what is, or a power loss takes both."""

    async def work(partition: Partition) -> None:
        compacting = asyncio.ensure_future(compact(partition))
        for _ in range(3):
            await partition.fill(2, keys=4)
            await asyncio.sleep(0.002)
        await compacting
        partition.logs.remove_due(partition.machine.loop.now() + 1)
        partition.check()

    for label, machine, partition in at_every_write(prepare, lambda machine, it: machine.run(work(it)), kills=0):
        verify(label, machine, partition)


def test_compaction_drops_what_it_may_and_nothing_else() -> None:
    machine = Machine()
    partition = prepare(machine)
    before = dict(partition.contents())
    machine.run(compact(partition))
    after = dict(partition.contents())
    assert len(after) < len(before)
    closed = partition.log.segments[-1].base_offset
    latest: dict[bytes | None, int] = {}
    for offset, (key, _) in before.items():
        if offset < closed:
            latest[key] = offset
    kept: dict[int, Content] = {offset: content for offset, content in after.items() if offset < closed}
    assert set(kept) <= set(latest.values())
    partition.check()
