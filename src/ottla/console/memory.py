"""Keeps the process small between searches: large buffers go back to the operating system when they are free.

glibc keeps freed memory by default, in one heap per thread, and a search frees tens of megabytes. Systems without
glibc's mallopt are left as they are.
"""

from __future__ import annotations

import sys

from ottla.cli.memory import LIBC

MMAP_THRESHOLD, TRIM_THRESHOLD, ARENA_MAX = -3, -1, -8
MAPPED_BYTES = 256 * 1024


def bound_memory() -> None:
    """At the start of the process, before there are threads."""
    if LIBC is not None:
        LIBC.mallopt(ARENA_MAX, 2)
        LIBC.mallopt(MMAP_THRESHOLD, MAPPED_BYTES)
        LIBC.mallopt(TRIM_THRESHOLD, MAPPED_BYTES)


def use_system_allocator() -> None:
    """Let pyarrow allocate by malloc, too: its own pools give nothing back."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
        pyarrow.set_cpu_count(2)
        pyarrow.set_io_thread_count(1)
