"""A full disk, a failing disk, a rotting disk: what a log does when its disk does not do what it should."""

from __future__ import annotations

import errno

import pytest

from ottla.sim.checkers import Violation, check_batches, check_indexes
from ottla.sim.disk import PAGE_BYTES
from ottla.sim.machine import Machine
from ottla.wire.errors import ErrorCode, KafkaError
from tests.sim.partition import DIRECTORY, Partition


def filled(machine: Machine, batches: int = 12, **config: object) -> Partition:
    partition = Partition(machine, **config)

    async def set_up() -> None:
        await partition.open()
        await partition.fill(batches)
        await partition.flush()
        partition.logs.checkpoint()

    machine.run(set_up())
    return partition


@pytest.mark.parametrize("pages", range(12))
def test_a_full_disk_refuses_appends_serves_reads_and_recovers_when_there_is_room(pages: int) -> None:
    """With room for so many pages more: appends, rolls, index files and snapshots each meet the end of the disk."""
    machine = Machine(pages)
    partition = filled(machine)
    device = machine.device

    async def fill_up() -> None:
        device.capacity_bytes = device.used_bytes + pages * PAGE_BYTES
        refused = 0
        for _ in range(80):
            try:
                await partition.append(3, size=200)
            except KafkaError as error:
                assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
                refused += 1
            partition.history.check_log(
                partition.contents(), partition.log.log_start_offset, partition.log.log_end_offset
            )
        assert refused > 0
        assert not partition.log.is_offline, "a full disk is no failed disk"
        partition.logs.checkpoint()
        device.capacity_bytes = None
        await partition.fill(10)
        partition.check()

    machine.run(fill_up())
    machine.kill()
    machine.run(partition.recover("kill after a full disk", is_power_loss=False))
    machine.run(partition.reopen_cleanly())


def test_a_full_disk_and_a_kill_leave_only_whole_batches() -> None:
    machine = Machine(3)
    partition = filled(machine)
    device = machine.device

    async def fill_up() -> None:
        device.capacity_bytes = device.used_bytes + 3 * PAGE_BYTES
        with pytest.raises(KafkaError):
            for _ in range(80):
                await partition.append(3, size=200)

    machine.run(fill_up())
    machine.kill()
    device.capacity_bytes = None
    machine.run(partition.recover("kill on a full disk", is_power_loss=False))


@pytest.mark.parametrize("pages", range(12))
def test_a_start_on_a_full_disk_recovers_the_log_and_goes_on_when_there_is_room(pages: int) -> None:
    machine = Machine(pages)
    partition = filled(machine)
    device = machine.device
    machine.run(partition.fill(30))
    machine.kill()
    # Recovery empties index files and removes snapshots: something else takes that room before it needs it again.
    device.capacity_bytes = device.used_bytes - (12 - pages) * PAGE_BYTES
    machine.run(partition.open())
    assert partition.logs.online_dirs, "a full disk is no failed disk"
    partition.check()
    if pages % 2:
        machine.kill()
        machine.run(partition.open())
    device.capacity_bytes = None
    machine.run(partition.resume())
    machine.run(partition.flush())
    partition.check()
    machine.power_loss()
    machine.run(partition.recover("power loss after a start on a full disk", is_power_loss=True))
    machine.run(partition.reopen_cleanly())


@pytest.mark.parametrize("operation", ["write", "create", "sync"])
def test_a_failed_log_dir_goes_offline_and_is_whole_after_a_restart(operation: str) -> None:
    machine = Machine(5)
    partition = filled(machine)
    machine.device.fail(operation, DIRECTORY, errno.EIO)

    async def work() -> None:
        with pytest.raises(KafkaError) as refused:
            for _ in range(30):
                await partition.append(3, size=200)
                await partition.flush()
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert partition.log.is_offline
        assert not partition.logs.online_dirs
        with pytest.raises(KafkaError):
            await partition.append()

    machine.run(work())
    machine.power_loss()
    machine.run(partition.recover("power loss after an I/O error", is_power_loss=True))


def small_files() -> list[str]:
    machine = Machine(7)
    partition = filled(machine)
    machine.run(partition.close())
    return [path for path in machine.device.files("/data") if not path.endswith((".log", ".lock"))]


@pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean stop", "after a kill"])
def test_rot_in_any_index_or_checkpoint_never_gives_wrong_data(is_clean: bool) -> None:
    """One flipped bit in each file beside the segments; the log is right, or the start is refused with a reason."""
    for path in small_files():
        for luck in range(6):
            machine = Machine(7)
            partition = filled(machine)
            if is_clean:
                machine.run(partition.close())
            machine.kill()
            if path not in machine.device.files("/data") or not machine.device.content(path):
                continue
            machine.device.rng.seed(f"rot {luck}")
            machine.device.rot(path)
            try:
                machine.run(partition.open())
            except ValueError:
                assert path.endswith("meta.properties"), f"rot in {path} stops the start"
                continue
            log = partition.log
            found = partition.contents()
            for offset, value in found:
                assert partition.history.acknowledged[offset] == value, path
            if "log-start-offset" not in path and "recovery-point" not in path:
                assert log.log_end_offset == partition.history.end_offset, path
                assert [offset for offset, _ in found] == list(range(partition.history.end_offset)), path


def test_rot_in_a_closed_segment_hurts_only_what_it_hit() -> None:
    """Reads of other batches go on; the rotten one is served as it is (consumers check the CRC) or refused."""
    for luck in range(120):
        machine = Machine(9)
        partition = filled(machine, batches=14)
        log = partition.log
        victim = log.segments[1]
        machine.device.rng.seed(f"rot {luck}")
        position = machine.device.rot(victim.path)
        for segment in log.segments:
            if segment is victim:
                continue
            read = log.read(segment.base_offset, max_bytes=100_000, end_offset=log.log_end_offset, min_one_batch=True)
            assert read is not None and len(read.read()) > 0, f"position {position}"
        for offset in range(victim.base_offset, log.segments[2].base_offset):
            try:
                log.read(offset, max_bytes=1_000, end_offset=log.log_end_offset, min_one_batch=True)
            except KafkaError as error:
                assert error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR), f"position {position}"
        machine.run(partition.append())


def test_rot_in_the_unflushed_tail_cuts_the_log_there_and_nothing_rotten_is_kept() -> None:
    for luck in range(80):
        machine = Machine(11)
        partition = filled(machine, batches=4)

        async def more(partition: Partition = partition) -> None:
            await partition.fill(9)

        synced = partition.log.log_end_offset
        machine.run(more())
        machine.kill()
        segments = [path for path in machine.device.files(DIRECTORY) if path.endswith(".log")]
        tail = [path for path in segments if int(path[-24:-4]) >= synced]
        machine.device.rng.seed(f"rot {luck}")
        path = machine.device.rng.choice(tail)
        if not machine.device.content(path):
            continue
        machine.device.rot(path)
        machine.run(partition.open())
        found = partition.contents()
        assert len(found) >= synced
        for offset, value in found:
            assert partition.history.acknowledged[offset] == value
        assert [offset for offset, _ in found] == list(range(len(found)))
        try:
            check_batches(machine.device, DIRECTORY)
            check_indexes(machine.device, DIRECTORY)
        except Violation as violation:
            raise AssertionError(f"luck {luck}: {violation}") from violation
