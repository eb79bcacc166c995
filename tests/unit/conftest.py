"""Unit tests keep their files in memory: they call fsync thousands of times, and a disk takes milliseconds for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 1 << 30


def folder_in_memory() -> Path | None:
    """None where there is none, where it is as small as containers have it, or where programs in it cannot be run."""
    try:
        status = os.statvfs(MEMORY)
    except OSError:
        return None
    is_enough = status.f_bavail * status.f_frsize >= ENOUGH_BYTES
    can_run = not status.f_flag & getattr(os, "ST_NOEXEC", 0)
    return MEMORY if is_enough and can_run and os.access(MEMORY, os.W_OK) else None


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with TemporaryDirectory(prefix="ottla-unit-", dir=folder_in_memory(), ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()
