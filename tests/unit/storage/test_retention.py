"""Retention: by size, by age, below the log's start; offsets go on."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.config import TopicConfig
from ottla.storage import Log
from ottla.storage.retention import retain
from tests.unit.storage.logs_on_disk import NOW, append, batch, new_log, offsets, open_log

HOUR_MS = 3_600_000
SIZE = len(batch())


def hourly(folder: Path, count: int = 6, **config: object) -> Log:
    """A log of one segment per hour, the last of them active."""
    log = new_log(folder, None, **{"segment_bytes": SIZE, "retention_ms": -1, **config})
    for n in range(count):
        append(log, batch(timestamp=NOW + n * HOUR_MS), timestamp=NOW + n * HOUR_MS)
    assert len(log.segments) == count
    return log


def test_segments_go_when_their_newest_record_is_too_old(tmp_path: Path) -> None:
    log = hourly(tmp_path, retention_ms=2 * HOUR_MS)
    assert retain(log, NOW + 3 * HOUR_MS) == 1
    assert log.log_start_offset == 1
    assert retain(log, NOW + 3 * HOUR_MS) == 0
    assert retain(log, NOW + 4 * HOUR_MS + 1) == 2
    assert offsets(log) == [3, 4, 5]


def test_one_young_segment_keeps_the_older_ones_behind_it_but_not_before(tmp_path: Path) -> None:
    log = hourly(tmp_path, 2, retention_ms=HOUR_MS)
    append(log, batch(timestamp=NOW + 50 * HOUR_MS), timestamp=NOW + 50 * HOUR_MS)
    append(log, batch(timestamp=NOW), timestamp=NOW)
    assert retain(log, NOW + 20 * HOUR_MS) == 2
    assert offsets(log) == [2, 3]


def test_the_active_segment_is_rolled_when_it_alone_is_past_its_time(tmp_path: Path) -> None:
    log = hourly(tmp_path, retention_ms=HOUR_MS)
    assert retain(log, NOW + 100 * HOUR_MS) == 6
    assert (log.log_start_offset, log.log_end_offset, log.size, len(log.segments)) == (6, 6, 0, 1)
    assert retain(log, NOW + 200 * HOUR_MS) == 0
    assert append(log).base_offset == 6
    log.close()
    assert open_log(tmp_path).log_start_offset == 6


def test_segments_go_while_the_rest_is_still_large_enough(tmp_path: Path) -> None:
    log = hourly(tmp_path, retention_bytes=3 * SIZE - 1)
    assert retain(log, NOW) == 3
    assert log.size == 3 * SIZE
    log.config = TopicConfig(retention_bytes=0, retention_ms=-1)
    assert retain(log, NOW) == 3
    assert (log.size, log.log_start_offset) == (0, 6)


def test_nothing_above_the_high_watermark_goes(tmp_path: Path) -> None:
    log = hourly(tmp_path, retention_ms=1)
    log.high_watermark = 3
    assert retain(log, NOW + 100 * HOUR_MS) == 3
    assert log.log_start_offset == 3


def test_deleted_records_take_their_segments_along_whatever_the_policy(tmp_path: Path) -> None:
    log = hourly(tmp_path, cleanup_policy=("compact",), retention_ms=1)
    log.delete_records(3)
    assert retain(log, NOW + 100 * HOUR_MS) == 3
    assert log.segments[0].base_offset == 3


def test_records_without_timestamps_age_by_the_file(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=SIZE, retention_ms=HOUR_MS)
    for _ in range(3):
        append(log, batch(timestamp=-1))
    for segment in log.segments:
        os.utime(segment.path, (NOW // 1000, NOW // 1000))
    assert retain(log, NOW + HOUR_MS) == 0
    assert retain(log, NOW + HOUR_MS + 1) == 3


def test_files_are_renamed_at_once_and_removed_later(tmp_path: Path) -> None:
    log = hourly(tmp_path, retention_bytes=3 * SIZE, file_delete_delay_ms=77)
    removals: list[tuple[list[str], int]] = []
    log._remove_later = lambda paths, delay_ms: removals.append((paths, delay_ms))
    assert retain(log, NOW) == 3
    [(paths, delay_ms)] = removals
    assert delay_ms == 77
    names = set(os.listdir(tmp_path / "topic-0"))
    assert {f"{n:020d}.log.deleted" for n in range(3)} < names
    assert {f"{n:020d}.snapshot.deleted" for n in (1, 2)} < names
    assert not {f"{n:020d}.log" for n in range(3)} & names
    assert {path.rpartition("/")[2] for path in paths} >= {name for name in names if name.endswith(".deleted")}


def test_retention_survives_a_restart(tmp_path: Path) -> None:
    log = hourly(tmp_path, retention_ms=2 * HOUR_MS)
    log.close()
    log = open_log(tmp_path, is_clean=True, retention_ms=2 * HOUR_MS)
    assert retain(log, NOW + 4 * HOUR_MS) == 2
    assert offsets(log) == [2, 3, 4, 5]
