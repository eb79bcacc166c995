"""Whatever becomes of the test, nothing of its brokers stays: no process, no folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.testing import Broker
from ottla.testing.temporary_folder import PREFIX, TemporaryFolder

SCRIPT = """
import asyncio, sys
from ottla.testing import Broker

async def main():  # as in a notebook: a loop is running
    broker = Broker(data=sys.argv[2] if len(sys.argv) > 2 else None).start()
    if sys.argv[1] == "paused":
        broker.pause()
    print(broker.pid, broker.data, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def killed_test(*arguments: str) -> tuple[int, Path]:
    """The pid and the folder of a broker whose test was ended by kill -9."""
    with subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments], stdout=subprocess.PIPE, text=True) as test:
        assert test.stdout is not None
        pid, _, folder = test.stdout.readline().strip().partition(" ")
        assert is_running(int(pid)) and Path(folder).is_dir()
        test.send_signal(signal.SIGKILL)
    return int(pid), Path(folder)


def wait_until_gone(pid: int, folder: Path | None = None) -> None:
    end = time.monotonic() + 120
    while is_running(pid) or (folder is not None and folder.exists()):
        assert time.monotonic() < end, f"node {pid} or its folder is still there"
        time.sleep(0.01)


@pytest.mark.parametrize("state", ["running", "paused"])
def test_a_test_that_is_killed_leaves_nothing_behind(state: str) -> None:
    wait_until_gone(*killed_test(state))


def test_a_folder_that_was_named_is_closed_cleanly_when_the_test_is_killed(tmp_path: Path) -> None:
    pid, folder = killed_test("running", str(tmp_path / "data"))
    wait_until_gone(pid)
    assert (folder / ".kafka_cleanshutdown").exists()


def test_what_a_killed_node_of_a_killed_test_left_is_swept_away_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("ottla.testing.temporary_folder.SWEEP_AFTER_S", 0.0)
    (tmp_path / f"{PREFIX}left").mkdir()
    (tmp_path / f"{PREFIX}left" / "meta.properties").write_text("version=1\n")
    (tmp_path / "of-others").mkdir()
    held = TemporaryFolder()
    another = TemporaryFolder()
    assert sorted(os.listdir(tmp_path)) == sorted(["of-others", *(Path(one.path).name for one in (held, another))])
    held.remove()
    another.remove()
    assert os.listdir(tmp_path) == ["of-others"]


def test_files_of_the_working_folder_are_not_the_nodes_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project may well have an `asyncio.py` or a `logging.py` of its own where its tests run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logging.py").write_text("raise RuntimeError('not the one you want')\n")
    with Broker() as broker:
        assert broker.is_running
