"""OsDisk: files by position, few descriptors, locks."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.storage import FileSlice, OsDisk


def test_files_are_read_and_written_by_position(tmp_path: Path) -> None:
    disk = OsDisk()
    with pytest.raises(FileNotFoundError):
        disk.open(f"{tmp_path}/file")
    file = disk.open(f"{tmp_path}/file", create=True)
    file.write(3, b"abc")
    assert file.read(0, 10) == b"\0\0\0abc"
    assert file.read(6, 10) == b""
    file.truncate(4)
    assert (file.size(), disk.size(f"{tmp_path}/file")) == (4, 4)
    asyncio.run(file.sync())
    file.sync_now()
    assert len(FileSlice(file, 1, 3)) == 3
    assert FileSlice(file, 1, 3).read() == b"\0\0a"


def open_below(folder: Path) -> int:
    """How many files of a folder this process has open; whatever else runs in it opens and closes others."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the list itself
            found += os.readlink(f"/proc/self/fd/{number}").startswith(f"{folder}/")
    return found


def test_the_least_recently_used_descriptors_are_closed_and_opened_again(tmp_path: Path) -> None:
    disk = OsDisk(max_open=8)
    files = [disk.open(f"{tmp_path}/{n}", create=True) for n in range(100)]
    for n, file in enumerate(files):
        file.write(0, str(n).encode())
    assert open_below(tmp_path) <= 10
    for n, file in enumerate(files):
        assert file.read(0, 10) == str(n).encode()
    assert open_below(tmp_path) <= 10


def test_a_held_descriptor_is_not_closed(tmp_path: Path) -> None:
    disk = OsDisk(max_open=4)
    held = disk.open(f"{tmp_path}/held", create=True)
    held.hold()
    descriptor = held.fileno()
    for n in range(50):
        disk.open(f"{tmp_path}/{n}", create=True).write(0, b"x")
    assert held.fileno() == descriptor
    assert os.fstat(descriptor or -1).st_ino == os.stat(f"{tmp_path}/held").st_ino
    held.release()


def test_a_held_descriptor_is_closed_when_it_is_released(tmp_path: Path) -> None:
    file = OsDisk().open(f"{tmp_path}/held", create=True)
    file.hold()
    descriptor = file.fileno()
    file.close()
    assert os.fstat(descriptor or -1).st_ino == os.stat(f"{tmp_path}/held").st_ino
    file.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor or -1)
    assert file.read(0, 1) == b""


def test_a_renamed_file_is_found_again(tmp_path: Path) -> None:
    disk = OsDisk()
    file = disk.open(f"{tmp_path}/old", create=True)
    file.write(0, b"x")
    disk.rename(f"{tmp_path}/old", f"{tmp_path}/new")
    file.moved(f"{tmp_path}/new")
    file.close()
    assert file.read(0, 1) == b"x"


def test_folders(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.make_directory(f"{tmp_path}/a/b")
    disk.make_directory(f"{tmp_path}/a/b")
    for name in "ca":
        disk.open(f"{tmp_path}/a/b/{name}", create=True)
    assert disk.names(f"{tmp_path}/a/b") == ["a", "c"]
    assert disk.exists(f"{tmp_path}/a/b/c")
    disk.sync_directory(f"{tmp_path}/a/b")
    for name in "ca":
        disk.remove(f"{tmp_path}/a/b/{name}")
    disk.remove_directory(f"{tmp_path}/a/b")
    with pytest.raises(FileNotFoundError):
        disk.names(f"{tmp_path}/a/b")
    assert 0 < disk.free_bytes(str(tmp_path)) <= disk.total_bytes(str(tmp_path))


def test_a_folder_is_locked_against_other_processes(tmp_path: Path) -> None:
    disk = OsDisk()
    release = disk.lock(f"{tmp_path}/.lock")
    script = (
        "import sys\nfrom ottla.storage import OsDisk\n"
        "try:\n OsDisk().lock(sys.argv[1])\nexcept BlockingIOError:\n sys.exit(3)\n"
    )
    command = [sys.executable, "-c", script, f"{tmp_path}/.lock"]
    assert subprocess.run(command, check=False).returncode == 3
    release()
    assert subprocess.run(command, check=False).returncode == 0


def test_a_full_device_is_an_error_with_its_number() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with pytest.raises(OSError) as caught:
        OsDisk().open("/dev/full").write(0, b"x")
    assert caught.value.errno == errno.ENOSPC
