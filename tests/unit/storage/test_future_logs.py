"""Copies of logs in other log dirs: made, finished, given up, and found again after a restart."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from ottla.config import TopicConfig
from ottla.storage import Log, Logs, MetaProperties, OsDisk, write_meta_properties
from ottla.wire.errors import KafkaError
from tests.unit.storage.logs_on_disk import FailingDisk, offsets
from tests.unit.storage.test_logs import CONFIG, Clock, filled

IDS = [bytes([number]) * 16 for number in (1, 2)]
KEY = ("topic", 0)


def opened(folder: Path, *, told: int | None = None, disk: OsDisk | None = None) -> Logs:
    """Two log dirs with ids; `told` is the one where the metadata has every partition."""
    disk = disk or OsDisk()
    paths = [f"{folder}/{number}" for number in range(2)]
    for path, id in zip(paths, IDS, strict=True):
        disk.make_directory(path)
        write_meta_properties(disk, path, MetaProperties("abc", 1, id))
    logs = Logs(disk, paths, CONFIG, Clock())
    logs.open_dirs()
    logs.identify()
    list(logs.load(lambda topic: TopicConfig(), directory_of=lambda *_: None if told is None else IDS[told]))
    return logs


def copied(logs: Logs) -> tuple[Log, Log]:
    """A log in the first log dir with a whole copy in the second."""
    log = filled(logs)
    future = logs.create_future(log, logs.log_dirs[1])
    found = log.read(0, max_bytes=1 << 20, end_offset=log.log_end_offset)
    assert found is not None
    future.append_as_follower(bytearray(found.read()))
    return log, future


def folders(folder: Path) -> list[list[str]]:
    """The kinds of folders in each log dir."""
    return [
        sorted(one.name.rpartition(".")[2].partition("-")[2] for one in (folder / name).iterdir() if one.is_dir())
        for name in ("0", "1")
    ]


def test_a_copy_takes_the_place_of_its_log(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    log, future = copied(logs)
    assert folders(tmp_path) == [["0"], ["future"]]
    assert logs.future(*KEY) is future and logs.get(*KEY) is log
    assert logs.promote_future(*KEY) is future
    assert folders(tmp_path) == [["delete"], ["0"]]
    assert logs.get(*KEY) is future and logs.future(*KEY) is None
    assert log.is_offline and offsets(future) == [0, 1, 2]
    assert [list(log_dir.logs) for log_dir in logs.log_dirs] == [[], [KEY]]
    assert logs.remove_due(logs._now() + 120_000) == 1
    assert folders(tmp_path) == [[], ["0"]]


def test_a_copy_that_is_given_up_goes(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    log, _ = copied(logs)
    logs.drop_future(*KEY)
    assert logs.future(*KEY) is None and logs.get(*KEY) is log and not log.is_offline
    assert folders(tmp_path) == [["0"], ["delete"]]


def test_a_copy_goes_with_its_log(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    copied(logs)
    logs.delete(*KEY)
    assert folders(tmp_path) == [["delete"], ["delete"]]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_copy_is_found_again_after_a_restart(tmp_path: Path, is_clean: bool) -> None:
    logs = opened(tmp_path)
    copied(logs)
    if is_clean:
        asyncio.run(logs.close())
    else:
        for log_dir in logs.log_dirs:
            assert log_dir.release is not None
            log_dir.release()
    again = opened(tmp_path)
    future = again.future(*KEY)
    assert future is not None and again.dir_of(future) is again.log_dirs[1]
    assert offsets(future) == [0, 1, 2]
    again.promote_future(*KEY)
    asyncio.run(again.close())
    assert folders(tmp_path) == [["delete"], ["0"]]


def test_a_log_in_two_log_dirs_is_the_one_that_the_metadata_knows(tmp_path: Path) -> None:
    """The node ended between the two renames that let a copy take its log's place."""
    logs = opened(tmp_path)
    _, future = copied(logs)
    future.flush_now()
    asyncio.run(logs.close())
    Path(future.directory).rename(tmp_path / "1" / "topic-0")
    again = opened(tmp_path, told=1)
    found = again.get(*KEY)
    assert found is not None and again.dir_of(found) is again.log_dirs[1]
    assert offsets(found) == [0, 1, 2]
    assert folders(tmp_path) == [[], ["0"]]


def test_a_log_in_two_log_dirs_without_a_known_move_is_an_error(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    _, future = copied(logs)
    asyncio.run(logs.close())
    Path(future.directory).rename(tmp_path / "1" / "topic-0")
    again = opened(tmp_path)
    assert [log_dir.is_online for log_dir in again.log_dirs] == [True, False]


@pytest.mark.parametrize(("told", "is_taken"), [(1, True), (0, False)])
def test_a_copy_whose_log_is_gone_counts_if_the_metadata_counts_on_it(
    tmp_path: Path, told: int, is_taken: bool
) -> None:
    logs = opened(tmp_path)
    log, _ = copied(logs)
    asyncio.run(logs.close())
    Path(log.directory).rename(tmp_path / "elsewhere")
    again = opened(tmp_path, told=told)
    found = again.get(*KEY)
    assert (found is not None and offsets(found) == [0, 1, 2]) is is_taken
    assert folders(tmp_path) == [[], ["0"] if is_taken else []]


def test_a_copy_that_cannot_be_begun_leaves_nothing(tmp_path: Path) -> None:
    disk = FailingDisk()
    logs = opened(tmp_path, disk=disk)
    log = filled(logs)
    disk.fails = lambda action, path: errno.ENOSPC if "-future" in path else None
    with pytest.raises(KafkaError):
        logs.create_future(log, logs.log_dirs[1])
    assert logs.future(*KEY) is None
    assert folders(tmp_path)[1] == []
