"""What storage tells an operator: one line per roll, retention and recovery, and a warning of slow syncs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.storage.retention import retain
from ottla.storage.slow_disk import REST_S, SlowSyncs
from tests.unit.storage.logs_on_disk import NOW, append, batch, new_log, open_log

SIZE = len(batch())


@pytest.fixture(autouse=True)
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.storage")


def test_a_roll_is_a_line_and_appends_are_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = new_log(tmp_path, None, segment_bytes=2 * SIZE)
    append(log, batch())
    append(log, batch())
    assert caplog.messages == []
    append(log, batch())
    assert caplog.messages == [f"{log.name}: rolled at offset 2, the closed segment has {2 * SIZE} bytes"]


def test_retention_tells_what_went_and_by_which_rule(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = new_log(tmp_path, None, segment_bytes=SIZE, retention_ms=-1, retention_bytes=2 * SIZE)
    for _ in range(5):
        append(log, batch())
    caplog.clear()
    assert retain(log, NOW) == 3
    assert caplog.messages == [
        f"{log.name}: retention removed 3 segments and {3 * SIZE} bytes (3 by retention.bytes={2 * SIZE}); "
        "the log starts at offset 3"
    ]
    caplog.clear()
    assert retain(log, NOW) == 0
    assert caplog.messages == []


def test_a_recovery_tells_what_was_read_again_and_a_clean_start_tells_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = new_log(tmp_path, None)
    for _ in range(3):
        append(log, batch())
    folder = log.directory
    log.close()
    caplog.clear()
    open_log(tmp_path, is_clean=True).close()
    assert caplog.messages == []
    open_log(tmp_path).close()
    assert caplog.messages == [
        f"{folder}: recovered, {3 * SIZE} bytes of 1 segments were read again; the log ends at offset 3"
    ]


def slow(clock: list[float], seconds: float) -> Callable[[int], None]:
    def sync(descriptor: int) -> None:
        clock[0] += seconds

    return sync


def test_a_slow_sync_is_a_warning_and_many_are_one(caplog: pytest.LogCaptureFixture) -> None:
    clock = [100.0]
    syncs = SlowSyncs(lambda: clock[0])
    syncs.timed("/data/a.log", slow(clock, 0.9), 3)
    assert caplog.messages == []
    syncs.timed("/data/a.log", slow(clock, 1.5), 3)
    assert caplog.messages == ["slow disk: a sync of /data/a.log took 1.5 s (limit 1.0 s)"]
    caplog.clear()
    for path, seconds in (("/data/b.log", 1.2), ("/data/c.log", 4.0), ("/data/d.log", 2.0)):
        syncs.timed(path, slow(clock, seconds), 3)
    assert caplog.messages == []
    clock[0] += REST_S
    syncs.timed("/data/a.log", slow(clock, 1.1), 3)
    assert caplog.messages == [
        "slow disk: a sync of /data/c.log took 4.0 s (limit 1.0 s); 3 other slow syncs since the last warning"
    ]
    assert caplog.records[-1].levelno == logging.WARNING


def test_a_sync_that_fails_slowly_is_told_as_well(caplog: pytest.LogCaptureFixture) -> None:
    clock = [100.0]

    def fail(descriptor: int) -> None:
        clock[0] += 3
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        SlowSyncs(lambda: clock[0]).timed("/data/a.log", fail, 3)
    assert len(caplog.messages) == 1
