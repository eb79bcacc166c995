"""The disk that lies: what survives a kill, a power loss, a full device, a failed sync; crashes at a chosen write."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Iterator

import pytest

from ottla.sim.disk import PAGE_BYTES, Crashed, Device, Disk
from ottla.sim.loop import Loop
from ottla.storage import disk as storage


def device(seed: int = 1) -> Device:
    return Device(random.Random(seed))


def losses(count: int = 60) -> Iterator[tuple[Device, Disk]]:
    """The same disk with many fates."""
    for seed in range(count):
        medium = device(seed)
        disk = medium.mount()
        disk.make_directory("/data")
        disk.sync_directory("/")
        yield medium, disk


def test_the_simulated_disk_is_a_disk() -> None:
    disk: storage.Disk = device().mount()
    disk.make_directory("/data/topic-0")
    file: storage.File = disk.open("/data/topic-0/log", create=True)
    file.write(3, b"abc")
    assert file.read(0, 100) == b"\0\0\0abc"
    assert disk.names("/data") == ["topic-0"]
    assert disk.size("/data/topic-0/log") == file.size() == 6
    file.truncate(4)
    disk.rename("/data/topic-0", "/data/topic-0.gone")
    file.moved("/data/topic-0.gone/log")
    assert file.read(0, 100) == b"\0\0\0a"
    file.close()
    assert file.read(3, 1) == b"a", "a closed file opens again by its path"
    with pytest.raises(FileNotFoundError):
        disk.open("/data/topic-0/log")
    with pytest.raises(OSError, match="not empty"):
        disk.remove_directory("/data/topic-0.gone")
    disk.remove("/data/topic-0.gone/log")
    disk.remove_directory("/data/topic-0.gone")
    assert disk.names("/data") == []


def test_a_kill_loses_nothing_and_freezes_the_dead_process() -> None:
    medium = device()
    disk = medium.mount()
    file = disk.open("/log", create=True)
    file.write(0, b"written")
    medium.kill()
    file.write(0, b"DEAD")
    disk.remove("/log")
    assert medium.mount().open("/log").read(0, 100) == b"written"


def test_power_loss_keeps_what_was_synced_and_may_lose_the_rest() -> None:
    synced, unsynced = bytes([1]) * 10_000, bytes([2]) * 20_000
    outcomes = set()
    for medium, disk in losses():
        file = disk.open("/data/log", create=True)
        file.write(0, synced)
        file.sync_now()
        file.write(len(synced), unsynced)
        medium.power_loss()
        data = medium.mount().open("/data/log").read(0, 100_000)
        assert data.startswith(synced)
        tail = data[len(synced) :]
        assert set(tail) <= {0, 2}
        outcomes.add("nothing" if not tail else "all" if tail == unsynced else "hole" if 0 in tail else "part")
    assert outcomes == {"nothing", "all", "hole", "part"}


def test_an_unsynced_truncation_may_come_undone() -> None:
    sizes = set()
    for medium, disk in losses():
        file = disk.open("/data/log", create=True)
        file.write(0, bytes([1]) * 10_000)
        file.sync_now()
        file.truncate(100)
        medium.power_loss()
        sizes.add(medium.mount().size("/data/log"))
    assert sizes == {100, 10_000}


def test_a_new_name_is_durable_once_its_file_or_its_folder_is_synced() -> None:
    seen = set()
    for medium, disk in losses():
        disk.open("/data/synced", create=True).sync_now()
        disk.open("/data/unsynced", create=True)
        medium.power_loss()
        names = medium.mount().names("/data")
        assert "synced" in names
        seen.add("unsynced" in names)
    assert seen == {True, False}
    for medium, disk in losses():
        disk.open("/data/name", create=True)
        disk.sync_directory("/data")
        medium.power_loss()
        assert medium.mount().names("/data") == ["name"]


def test_renaming_an_unsynced_file_over_another_may_leave_an_empty_one() -> None:
    contents = set()
    for medium, disk in losses():
        old = disk.open("/data/checkpoint", create=True)
        old.write(0, b"old")
        old.sync_now()
        disk.open("/data/checkpoint.tmp", create=True).write(0, b"new")
        disk.rename("/data/checkpoint.tmp", "/data/checkpoint")
        medium.power_loss()
        contents.add(medium.mount().open("/data/checkpoint").read(0, 10))
    assert {b"old", b"new", b""} <= contents


def test_replacing_a_file_by_sync_rename_and_sync_of_the_folder_is_atomic_and_durable() -> None:
    for is_synced, expected in ((False, {b"old", b"new"}), (True, {b"new"})):
        contents = set()
        for medium, disk in losses():
            old = disk.open("/data/checkpoint", create=True)
            old.write(0, b"old")
            old.sync_now()
            new = disk.open("/data/checkpoint.tmp", create=True)
            new.write(0, b"new")
            new.sync_now()
            disk.rename("/data/checkpoint.tmp", "/data/checkpoint")
            if is_synced:
                disk.sync_directory("/data")
            medium.power_loss()
            contents.add(medium.mount().open("/data/checkpoint").read(0, 10))
        assert contents == expected


def test_changes_to_one_folder_survive_in_order() -> None:
    for medium, disk in losses():
        for name in "abcdef":
            disk.open(f"/data/{name}", create=True)
        disk.remove("/data/a")
        medium.power_loss()
        names = "".join(medium.mount().names("/data"))
        assert names == "bcdef" or "abcdef".startswith(names)


def test_a_full_device_takes_part_of_a_write_and_refuses_the_rest() -> None:
    medium = device()
    medium.capacity_bytes = 10 * PAGE_BYTES
    disk = medium.mount()
    file = disk.open("/log", create=True)
    file.write(0, bytes(8 * PAGE_BYTES))
    with pytest.raises(OSError) as refused:
        file.write(8 * PAGE_BYTES, b"x" * 4 * PAGE_BYTES)
    assert refused.value.errno == errno.ENOSPC
    assert file.size() == 10 * PAGE_BYTES
    assert disk.free_bytes("/") == 0
    file.truncate(5 * PAGE_BYTES)
    file.write(5 * PAGE_BYTES, b"y" * PAGE_BYTES)
    assert disk.free_bytes("/") == 4 * PAGE_BYTES


def test_pages_of_a_failed_sync_are_not_saved_by_the_next_one() -> None:
    for medium, disk in losses(20):
        file = disk.open("/data/log", create=True)
        file.sync_now()
        file.write(0, b"x" * PAGE_BYTES)
        medium.fail("sync", "log")
        with pytest.raises(OSError, match="Input/output"):
            file.sync_now()
        file.write(PAGE_BYTES, b"y" * PAGE_BYTES)
        file.sync_now()
        assert medium.durable_content("/data/log") == bytes(PAGE_BYTES) + b"y" * PAGE_BYTES


def test_the_machine_stops_at_exactly_the_chosen_operation() -> None:
    def work(disk: Disk) -> None:
        disk.make_directory("/data")
        file = disk.open("/data/new", create=True)
        file.write(0, b"0123456789")
        file.sync_now()
        disk.rename("/data/new", "/data/done")

    total = device()
    work(total.mount())
    assert total.operation_count == 5
    states = []
    for crash in range(5):
        medium = device()
        medium.crash_at(crash)
        with pytest.raises(Crashed):
            work(medium.mount())
        medium.kill()
        states.append({path: medium.content(path) for path in medium.files()})
    assert states[0] == states[1] == {}
    assert b"0123456789".startswith(states[2]["/data/new"]), "a torn write leaves its beginning"
    assert states[3] == states[4] == {"/data/new": b"0123456789"}


def test_rot_flips_one_bit_for_good() -> None:
    medium = device()
    file = medium.mount().open("/log", create=True)
    file.write(0, bytes(100))
    file.sync_now()
    position = medium.rot("/log")
    assert sum(medium.content("/log")) == medium.content("/log")[position] > 0
    assert medium.durable_content("/log") == medium.content("/log")


def test_a_lock_is_held_until_released_or_its_process_dies() -> None:
    medium = device()
    release = medium.mount().lock("/.lock")
    with pytest.raises(BlockingIOError):
        medium.mount().lock("/.lock")
    release()
    medium.mount().lock("/.lock")
    medium.kill()
    medium.mount().lock("/.lock")


def test_a_sync_takes_time_and_covers_what_was_written_before_it() -> None:
    loop = Loop(1)
    medium = device()

    async def main() -> None:
        file = medium.mount().open("/log", create=True)
        file.write(0, b"before")
        begun = loop.time()
        syncing = loop.create_task(file.sync())
        await asyncio.sleep(0)
        file.write(PAGE_BYTES, b"after")
        assert medium.durable_content("/log") == b""
        await syncing
        assert loop.time() > begun
        assert medium.durable_content("/log").startswith(b"before")
        assert not medium.durable_content("/log").endswith(b"after")

    loop.run(main())
    loop.finish()
