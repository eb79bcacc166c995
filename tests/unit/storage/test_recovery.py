"""Recovery: what a crash, a power loss, bit rot or another server may leave in a partition's folder."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.records import end_txn_marker
from ottla.storage import Log, OsDisk
from ottla.storage.disk import OsFile
from ottla.storage.retention import retain
from ottla.wire.errors import KafkaError
from tests.unit.storage.logs_on_disk import NOW, FailingDisk, append, batch, new_log, offsets, open_log

PRODUCER = (7, 0)
SMALL: dict[str, Any] = {"segment_bytes": 500, "index_interval_bytes": 100}


def filled(folder: Path, count: int = 20, **config: Any) -> Log:
    """A log whose folder is as a kill -9 leaves it."""
    log = new_log(folder, **{**SMALL, **config})
    for n in range(count):
        append(log, batch(producer=PRODUCER, sequence=n, timestamp=NOW + n), leader_epoch=n // 8)
    return log


class NamesDisk(OsDisk):
    """Counts how often the names in a folder are synced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []

    def sync_directory(self, path: str) -> None:
        self.synced.append(path)
        super().sync_directory(path)


def test_the_name_of_a_segment_that_a_start_made_is_synced_with_its_first_records(tmp_path: Path) -> None:
    """A crash may leave a folder without a segment. What is flushed there must not lose its file."""
    disk = NamesDisk()
    (tmp_path / "topic-0").mkdir()
    log = open_log(tmp_path, disk=disk)
    append(log)
    disk.synced.clear()
    log.flush_now()
    assert disk.synced == [log.directory]
    log.close()
    again = open_log(tmp_path, disk=disk)
    append(again)
    disk.synced.clear()
    again.flush_now()
    assert disk.synced == []


def reopened(folder: Path, **options: Any) -> Log:
    log = open_log(folder, **{**SMALL, **options})
    for segment in log.segments:
        check_indexes(segment.directory, segment.base_offset)
    return log


def check_indexes(directory: str, base_offset: int) -> None:
    """Index files on disk agree with the batches: rising, pointing at batches, with the right last offsets."""
    log = open_raw(directory, base_offset)
    entries = Path(f"{directory}/{base_offset:020d}.index")
    if not entries.exists():
        return
    data = entries.read_bytes()
    previous = -1
    for at in range(0, len(data), 8):
        relative, position = int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big")
        assert log[position] == base_offset + relative
        assert relative > previous
        previous = relative


def open_raw(directory: str, base_offset: int) -> dict[int, int]:
    data = Path(f"{directory}/{base_offset:020d}.log").read_bytes()
    found, position = {}, 0
    while position < len(data):
        base = int.from_bytes(data[position : position + 8], "big")
        found[position] = base + int.from_bytes(data[position + 23 : position + 27], "big")
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(path for path in (folder / "topic-0").iterdir() if path.name.endswith(suffix))


def test_a_killed_log_comes_back_whole(tmp_path: Path) -> None:
    filled(tmp_path)
    log = reopened(tmp_path)
    assert offsets(log) == list(range(20))
    assert log.epochs.entries == [(0, 0), (1, 8), (2, 16)]
    assert log.producers.producers[7].last_sequence == 19
    assert log.recovery_point == 0, "nothing was synced, so nothing counts as synced"
    assert append(log, batch(producer=PRODUCER, sequence=19)).is_duplicate
    assert append(log, batch(producer=PRODUCER, sequence=20)).base_offset == 20
    assert log.max_timestamp() == (NOW + 19, 19, 2)


def test_a_closed_log_is_opened_without_reading_its_batches(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()

    opened: list[str] = []

    class Counting(OsDisk):
        def open(self, path: str, *, create: bool = False) -> OsFile:
            opened.append(path.rpartition("/")[2])
            return super().open(path, create=create)

    log = open_log(tmp_path, is_clean=True, disk=Counting(), **SMALL)
    logs = [name for name in opened if name.endswith(".log")]
    assert logs == [f"{log.segments[-1].base_offset:020d}.log"]
    assert log.recovery_point == log.log_end_offset == 20
    assert offsets(log) == list(range(20))
    assert log.producers.producers[7].last_sequence == 19
    assert append(log, batch(producer=PRODUCER, sequence=20)).base_offset == 20


@pytest.mark.parametrize("seed", range(40))
def test_a_tail_cut_anywhere_leaves_a_prefix(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    log = filled(tmp_path, 12, segment_bytes=10_000)
    path = Path(log.segments[-1].path)
    data = path.read_bytes()
    size = len(data) // 12
    cut = rng.randrange(len(data))
    kind = rng.choice(["torn", "zeros", "noise", "hole", "flip"])
    expected = cut // size
    if kind == "torn":
        path.write_bytes(data[:cut])
    elif kind == "zeros":
        path.write_bytes(data[:cut] + bytes(rng.randrange(1, 5000)))
    elif kind == "noise":
        path.write_bytes(data[:cut] + rng.randbytes(rng.randrange(1, 5000)))
    elif kind == "hole":
        end = min(len(data), cut + rng.randrange(1, 200))
        path.write_bytes(data[:cut] + bytes(end - cut) + data[end:])
        if data[cut:end] == bytes(end - cut):
            expected = 12
    else:
        changed = bytearray(data)
        changed[cut] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
    log = reopened(tmp_path, segment_bytes=10_000)
    found = offsets(log)
    # Offset and leader epoch of a batch are outside its CRC: a flipped epoch is not seen, a flipped offset mostly is.
    assert found == list(range(expected)) or (kind in ("flip", "hole") and len(found) >= expected)
    assert log.size == os.path.getsize(path)
    assert log.producers.producers.get(7) is None or log.producers.producers[7].last_sequence == len(found) - 1
    follow = append(log, batch(producer=PRODUCER, sequence=len(found)))
    assert follow.base_offset == log.log_end_offset - 1


def test_corruption_in_an_unflushed_segment_drops_the_later_ones(tmp_path: Path) -> None:
    log = filled(tmp_path)
    second = log.segments[1]
    data = bytearray(Path(second.path).read_bytes())
    data[80] ^= 1
    Path(second.path).write_bytes(data)
    log = reopened(tmp_path)
    assert log.log_end_offset == second.base_offset + 1 or log.log_end_offset == second.base_offset
    assert offsets(log) == list(range(log.log_end_offset))
    assert [segment.base_offset for segment in log.segments] == [0, second.base_offset]
    assert len(files(tmp_path, ".log")) == 2


@pytest.mark.parametrize("content", [b"", b"what was there before"])
def test_a_removed_segment_that_came_back_within_another_is_removed_again(tmp_path: Path, content: bytes) -> None:
    """Found by a seed: a power loss brought an empty file back, records were written to it, and at their offsets stood
    those of the segment before it as well."""
    log = filled(tmp_path)
    last = log.segments[-1]
    end_offset = log.log_end_offset
    assert last.base_offset < end_offset - 1
    log.close()
    back = tmp_path / "topic-0" / f"{end_offset - 1:020d}.log"
    back.write_bytes(content)
    log = reopened(tmp_path)
    assert log.log_end_offset == end_offset and not back.exists()
    assert [segment.base_offset for segment in log.segments][-1] == last.base_offset
    append(log, batch(producer=PRODUCER, sequence=end_offset))
    assert offsets(log) == list(range(end_offset + 1))


def test_segments_before_the_recovery_point_are_not_read_again(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.flush_now()
    rotten = log.segments[0]
    data = bytearray(Path(rotten.path).read_bytes())
    data[80] ^= 1
    Path(rotten.path).write_bytes(data)
    log = reopened(tmp_path, recovery_point=log.segments[-1].base_offset)
    assert log.log_end_offset == 20, "what was synced stays; a consumer sees the bad CRC, as with Kafka"


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "zeros behind", "zeros", "noise", "odd"])
def test_indexes_are_made_anew(tmp_path: Path, is_clean: bool, suffix: str, damage: str) -> None:
    log = filled(tmp_path, index_interval_bytes=0)
    log.flush_now()
    log.close()
    for path in files(tmp_path, suffix):
        data = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "empty":
            path.write_bytes(b"")
        elif damage == "cut":
            path.write_bytes(data[: len(data) // 24 * 12 // 8 * 8])
        elif damage == "zeros behind":
            path.write_bytes(data + bytes(2400))
        elif damage == "zeros":
            path.write_bytes(bytes(len(data)))
        elif damage == "noise":
            path.write_bytes(Random(len(data)).randbytes(len(data)))
        else:
            path.write_bytes(data[:-3])
    log = open_log(tmp_path, is_clean=is_clean, recovery_point=20, **SMALL)
    assert offsets(log) == list(range(20))
    for n in range(20):
        part = log.read(n, max_bytes=1)
        assert part is not None and int.from_bytes(part.read()[:8], "big") == n
        if suffix == ".timeindex" and damage != "noise" and damage != "cut":
            assert log.offset_for_timestamp(NOW + n) == (NOW + n, n, n // 8)
    assert append(log, batch(producer=PRODUCER, sequence=20)).base_offset == 20


def test_an_index_that_points_astray_is_found_out_on_use(tmp_path: Path) -> None:
    log = filled(tmp_path, 40, segment_bytes=10_000, index_interval_bytes=0)
    append(log)
    log.roll(timestamp=NOW)
    log.flush_now()
    log.close()
    path = files(tmp_path, ".index")[0]
    data = bytearray(path.read_bytes())
    for at in range(0, len(data) - 8, 8):
        data[at + 4 : at + 8] = (int.from_bytes(data[at + 4 : at + 8], "big") + 13).to_bytes(4, "big")
    path.write_bytes(data)
    log = open_log(tmp_path, is_clean=True)
    for n in range(41):
        part = log.read(n, max_bytes=1)
        assert part is not None and int.from_bytes(part.read()[:8], "big") == n


def test_orphaned_index_files_go(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    for suffix in (".index", ".timeindex", ".txnindex"):
        (tmp_path / f"topic-0/00000000000000000777{suffix}").write_bytes(bytes(24))
    reopened(tmp_path)
    assert not [path for path in (tmp_path / "topic-0").iterdir() if "777" in path.name]


@pytest.mark.parametrize("damage", ["missing", "empty", "flipped", "cut", "future"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_bad_snapshot_is_replaced_by_an_earlier_one_and_the_log(tmp_path: Path, damage: str, is_clean: bool) -> None:
    log = filled(tmp_path)
    log.close()
    latest = files(tmp_path, ".snapshot")[-1]
    assert latest.name == f"{20:020d}.snapshot"
    data = bytearray(latest.read_bytes())
    if damage == "missing":
        latest.unlink()
    elif damage == "empty":
        latest.write_bytes(b"")
    elif damage == "flipped":
        data[-1] ^= 1
        latest.write_bytes(data)
    elif damage == "cut":
        latest.write_bytes(data[:-1])
    else:
        (tmp_path / f"topic-0/{99:020d}.snapshot").write_bytes(data)
    log = reopened(tmp_path, is_clean=is_clean)
    assert log.producers.producers[7].last_sequence == 19
    assert log.producers.end_offset == 20
    assert append(log, batch(producer=PRODUCER, sequence=20)).base_offset == 20


def test_all_snapshots_gone_after_a_crash_are_rebuilt_from_the_log(tmp_path: Path) -> None:
    filled(tmp_path)
    for path in files(tmp_path, ".snapshot"):
        path.unlink()
    log = reopened(tmp_path)
    assert log.producers.producers[7].last_sequence == 19


def test_expired_producers_are_not_loaded(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    log = open_log(tmp_path, is_clean=True, timestamp=NOW + 2 * 86_400_000)
    assert not log.producers.producers


def test_an_open_transaction_survives(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL)
    append(log, batch(2, producer=PRODUCER, sequence=0, is_transactional=True))
    append(log, batch(2, producer=(8, 0), sequence=0, is_transactional=True))
    abort = end_txn_marker(producer_id=8, producer_epoch=0, is_commit=False, coordinator_epoch=0, timestamp=NOW)
    log.append_control(abort, leader_epoch=0, timestamp=NOW)
    aborted = log.aborted_transactions(0, 10)
    assert len(aborted) == 1
    for is_clean in (False, True):
        log.advance_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == 0
        log.close()
        log = reopened(tmp_path, is_clean=is_clean)
        assert log.aborted_transactions(0, 10) == aborted
        assert log.producers.has_ongoing_transaction(7, 0)
        assert not log.producers.has_ongoing_transaction(8, 0)
    log.advance_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 0


def full_for(disk: FailingDisk, *suffixes: str) -> None:
    disk.fails = lambda action, path: (
        errno.ENOSPC if path.endswith(suffixes) and action in ("create", "write") else None
    )


def flush_now(log: Log) -> None:
    log.flush_now()


def flush(log: Log) -> None:
    asyncio.run(log.flush())


@pytest.mark.parametrize("flush", [flush_now, flush])
@pytest.mark.parametrize("what", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_recovery_without_room_keeps_in_memory_what_a_later_flush_writes(
    tmp_path: Path, what: str, flush: Callable[[Log], None]
) -> None:
    log = filled(tmp_path, index_interval_bytes=0)
    append(log, batch(2, producer=(8, 0), sequence=0, is_transactional=True, timestamp=NOW + 20), leader_epoch=2)
    abort = end_txn_marker(producer_id=8, producer_epoch=0, is_commit=False, coordinator_epoch=0, timestamp=NOW + 22)
    log.append_control(abort, leader_epoch=2, timestamp=NOW + 22)
    log.roll(timestamp=NOW + 22)
    aborted = log.aborted_transactions(0, 23)
    assert len(aborted) == 1
    indexes = {path.name: path.read_bytes() for path in files(tmp_path, "index")}
    disk = FailingDisk()
    full_for(disk, what)
    log = open_log(tmp_path, disk=disk, **{**SMALL, "index_interval_bytes": 0})
    assert log.recovery_point == 0
    assert offsets(log) == list(range(23))
    assert log.aborted_transactions(0, 23) == aborted
    assert log.producers.producers[7].last_sequence == 19
    assert [log.offset_for_timestamp(NOW + n) for n in range(20)] == [(NOW + n, n, n // 8) for n in range(20)]
    if what != ".snapshot":
        with pytest.raises(KafkaError):
            flush(log)
        assert log.recovery_point == 0 and not log.is_offline, "a full disk is no failed disk"
    disk.fails = lambda action, path: None
    flush(log)
    assert log.recovery_point == 23
    assert {path.name: path.read_bytes() for path in files(tmp_path, "index")} == indexes
    assert append(log, batch(producer=PRODUCER, sequence=20)).base_offset == 23


def test_recovery_without_room_is_done_again_after_a_kill(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.flush_now()
    log.close()
    for path in files(tmp_path, "index"):
        path.unlink()
    disk = FailingDisk()
    full_for(disk, "index")
    log = open_log(tmp_path, is_clean=True, disk=disk, **SMALL)
    assert offsets(log) == list(range(20))
    assert log.recovery_point == 0, "nothing vouches for what is in memory only"
    log = reopened(tmp_path, recovery_point=log.recovery_point)
    assert offsets(log) == list(range(20))
    assert log.offset_for_timestamp(NOW + 7) == (NOW + 7, 7, 0)


def test_recovery_on_a_failing_disk_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    disk = FailingDisk()
    disk.fails = lambda action, path: errno.EIO if path.endswith(".snapshot") and action == "write" else None
    with pytest.raises(OSError, match="EIO"):
        open_log(tmp_path, disk=disk, **SMALL)


def test_a_half_written_epoch_checkpoint_is_made_anew_from_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    (tmp_path / "topic-0/leader-epoch-checkpoint").write_text("0\n3\n0 0\n1")
    assert reopened(tmp_path).epochs.entries == [(0, 0), (1, 8), (2, 16)]


def test_what_the_log_says_of_its_epochs_counts_more_than_the_file(tmp_path: Path) -> None:
    """Records of epoch 3 were lost, and those of epoch 2 that had been cut off for them are back."""
    filled(tmp_path)
    (tmp_path / "topic-0/leader-epoch-checkpoint").write_text("0\n4\n0 0\n1 8\n2 16\n3 18\n")
    assert reopened(tmp_path).epochs.entries == [(0, 0), (1, 8), (2, 16)]


def test_epochs_that_a_power_loss_took_are_read_from_the_whole_log(tmp_path: Path) -> None:
    """Found by simulation: the file was replaced, not yet synced, and recovery read only what lay beyond its point."""
    filled(tmp_path).close()
    assert len(files(tmp_path, ".log")) > 2
    (tmp_path / "topic-0/leader-epoch-checkpoint").write_text("")
    assert reopened(tmp_path, recovery_point=20).epochs.entries == [(0, 0), (1, 8), (2, 16)]


def test_a_clean_stop_with_a_torn_tail_is_recovered_all_the_same(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    path = files(tmp_path, ".log")[-1]
    path.write_bytes(path.read_bytes() + b"torn")
    log = reopened(tmp_path, is_clean=True)
    assert offsets(log) == list(range(20))
    assert append(log, batch(producer=PRODUCER, sequence=20)).base_offset == 20
    assert offsets(log) == list(range(21))


def test_a_clean_stop_with_a_torn_tail_and_no_index_is_recovered_all_the_same(tmp_path: Path) -> None:
    filled(tmp_path).close()
    path = files(tmp_path, ".log")[-1]
    path.write_bytes(path.read_bytes() + bytes(100))
    for path in files(tmp_path, "index"):
        path.unlink()
    log = reopened(tmp_path, is_clean=True)
    append(log, batch(producer=PRODUCER, sequence=20))
    assert offsets(log) == list(range(21))


def test_a_log_that_ends_before_its_start_starts_anew_there(tmp_path: Path) -> None:
    filled(tmp_path)
    log = reopened(tmp_path, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert append(log).base_offset == 100


def test_the_log_start_offset_is_kept(tmp_path: Path) -> None:
    filled(tmp_path).close()
    log = reopened(tmp_path, log_start_offset=5, is_clean=True)
    assert offsets(log) == list(range(5, 20))
    assert log.epochs.entries[0] == (0, 5)


def test_an_empty_folder_becomes_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "topic-0").mkdir()
    log = reopened(tmp_path, log_start_offset=7)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    assert append(log).base_offset == 7


def test_left_over_files_of_deletions_and_cleanings_go(tmp_path: Path) -> None:
    filled(tmp_path).close()
    folder = tmp_path / "topic-0"
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000003.snapshot.deleted",
        "00000000000000000000.log.cleaned",
        "00000000000000000000.index.cleaned",
    ):
        (folder / name).write_bytes(b"rest")
    assert offsets(reopened(tmp_path)) == list(range(20))
    assert not files(tmp_path, ".deleted") and not files(tmp_path, ".cleaned")


class Stopped(Exception):
    pass


def test_a_replacement_interrupted_at_any_step_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """Kafka's swap protocol: .cleaned, then .swap, then the old away, then the suffix away."""
    outcomes = set()
    for steps in range(60):
        folder = tmp_path / str(steps)
        folder.mkdir()

        class Stopping(OsDisk):
            left = steps

            def rename(self, source: str, target: str) -> None:
                if self.left == 0 and self.is_armed:
                    raise Stopped
                self.left -= self.is_armed
                super().rename(source, target)

            is_armed = False

        disk = Stopping()
        log = new_log(folder, disk, **SMALL)
        for n in range(20):
            append(log, batch(producer=PRODUCER, sequence=n), leader_epoch=0)
        old = log.segments[:3]
        end = log.segments[3].base_offset
        middle = old[1].base_offset
        news = []
        for base, offset in ((0, middle - 1), (middle, end - 1)):
            cleaned = log.cleaned_segment(base, timestamp=NOW)
            cleaned.append(batch(1, base_offset=offset, leader_epoch=0), offset, offset, NOW, 0)
            cleaned.seal()
            news.append(cleaned)
        disk.is_armed = True
        is_done = True
        try:
            log.replace_segments(news, old)
        except Stopped:
            is_done = False
        log = reopened(folder, cleanup_policy=("compact",))
        found = offsets(log)
        before, after = list(range(20)), [middle - 1, *range(end - 1, 20)]
        assert found in (before, after)
        assert not files(folder, ".swap") and not files(folder, ".cleaned")
        outcomes.add(found == after)
        shutil.rmtree(folder)
        if is_done:
            assert found == after
            break
    else:
        pytest.fail("the replacement never ended")
    assert outcomes == {True, False}


def attempts_on(log: Log) -> list[Callable[[], object]]:
    return [
        lambda: append(log, batch(producer=(9, 0), sequence=0)),
        lambda: retain(log, NOW + 10**12),
        lambda: log.truncate(log.log_start_offset + 3, timestamp=NOW),
        log.max_timestamp,
        *(partial(log.offset_for_timestamp, NOW + n) for n in range(0, 30, 3)),
        *(partial(log.read, n, max_bytes=500) for n in range(min(log.log_end_offset, 50))),
        *(partial(log.aborted_transactions, n, n + 5) for n in range(0, 28, 4)),
    ]


@pytest.mark.parametrize("seed", range(60))
def test_flipped_bits_anywhere_give_errors_at_most(tmp_path: Path, seed: int) -> None:
    """Whatever rots in a folder, the log opens; what it then refuses, it refuses with a Kafka error."""
    rng = Random(seed)
    log = filled(tmp_path, 25, index_interval_bytes=0)
    append(log, batch(2, producer=(8, 0), sequence=0, is_transactional=True))
    abort = end_txn_marker(producer_id=8, producer_epoch=0, is_commit=False, coordinator_epoch=0, timestamp=NOW)
    log.append_control(abort, leader_epoch=3, timestamp=NOW)
    log.flush_now()
    log.close()
    paths = sorted((tmp_path / "topic-0").iterdir())
    for _ in range(rng.randrange(1, 6)):
        path = rng.choice(paths)
        data = bytearray(path.read_bytes())
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            path.write_bytes(data)
    for is_clean in (rng.random() < 0.5, True):
        log = open_log(tmp_path, is_clean=is_clean, recovery_point=rng.choice([0, 12, 28]), **SMALL)
        attempts = attempts_on(log)
        rng.shuffle(attempts)
        for attempt in attempts:
            with contextlib.suppress(KafkaError):
                attempt()
        log.close()
