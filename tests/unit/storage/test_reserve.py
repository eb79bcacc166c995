"""Room ahead of the active segment: given back at the end, never part of the file."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.config import TopicConfig
from ottla.records import Record, build
from ottla.storage import Log, OsDisk
from ottla.storage.segment import MAX_RESERVED_BYTES, UNRESERVED_BYTES

TIMESTAMP = 1_700_000_000_000
BATCH = build([Record(value=b"x" * 100_000, timestamp=TIMESTAMP)])


def new_log(path: Path, disk: OsDisk | None = None, segment_bytes: int = 1 << 30) -> Log:
    return Log.create(
        disk or OsDisk(),
        f"{path}/t-0",
        "t",
        0,
        TopicConfig(segment_bytes=segment_bytes),
        topic_id=None,
        timestamp=TIMESTAMP,
    )


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(bytearray(BATCH), leader_epoch=0, timestamp=TIMESTAMP)


def test_a_small_segment_reserves_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, UNRESERVED_BYTES // len(BATCH))
    assert log.active_segment.reserved == UNRESERVED_BYTES


def test_what_is_reserved_is_bounded_and_never_shows_in_the_file(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(60):
        append(log, 5)
        segment = log.active_segment
        assert segment.size <= segment.reserved or segment.size <= UNRESERVED_BYTES
        assert segment.reserved <= 2 * segment.size + len(BATCH) + UNRESERVED_BYTES
        assert segment.reserved <= segment.size + MAX_RESERVED_BYTES + len(BATCH)
        assert os.stat(segment.path).st_size == segment.size


def test_a_roll_and_a_stop_give_the_rest_back(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=3_000_000)
    append(log, 40)
    log.close()
    assert len(log.segments) == 2
    for segment in log.segments:
        status = os.stat(segment.path)
        assert status.st_size == segment.size
        assert status.st_blocks * 512 <= segment.size + 64 * 1024


def test_a_disk_without_much_room_is_left_alone(tmp_path: Path) -> None:
    class Tight(OsDisk):
        def free_bytes(self, path: str) -> int:
            return 1 << 20

    log = new_log(tmp_path, Tight())
    append(log, 20)
    log.active_segment.file.sync_now()
    assert os.stat(log.active_segment.path).st_blocks * 512 <= log.active_segment.size + 64 * 1024
