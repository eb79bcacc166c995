"""Memory that large requests needed goes back to the operating system while a node is idle.

glibc keeps freed memory: after requests with 50,000 names each a node of 66 MB stayed at 112 MB, of which it used 76.
To give it back takes milliseconds, in which no other thread allocates, and a busy node would soon need it again.
"""

from __future__ import annotations

import asyncio
import ctypes
import time
from collections.abc import Callable
from typing import Any, Final

LOOK_S: Final = 20.0
IDLE_SHARE: Final = 0.1
"""A process that used less than this share of a core since the last look is idle."""
WORTH_BYTES: Final = 16 * 1024 * 1024


def _libc() -> Any:
    """None on systems without glibc."""
    try:
        found = ctypes.CDLL(None)
        return found if hasattr(found, "mallopt") and hasattr(found, "malloc_trim") else None
    except OSError:
        return None


LIBC: Final = _libc()


def give_back() -> None:
    """After work that needed much."""
    if LIBC is not None:
        LIBC.malloc_trim(0)


class IdleMemory:
    """Gives memory back if the process is idle and has grown since it last did."""

    def __init__(
        self,
        resident: Callable[[], int],
        give_back: Callable[[], None] = give_back,
        cpu_s: Callable[[], float] = time.process_time,
    ) -> None:
        """`resident` gives the bytes of memory that the process has."""
        self._resident = resident
        self._give_back = give_back
        self._cpu_s = cpu_s
        self._kept = resident()
        """The least that the process had at any look."""
        self._used_s = cpu_s()

    def look(self) -> None:
        """To be called every LOOK_S."""
        used_s = self._cpu_s()
        is_idle = used_s - self._used_s < IDLE_SHARE * LOOK_S
        self._used_s = used_s
        self._kept = min(self._kept, resident := self._resident())
        if is_idle and resident - self._kept >= WORTH_BYTES:
            self._give_back()
            self._kept = self._resident()


def give_back_while_idle(loop: asyncio.AbstractEventLoop, resident: Callable[[], int]) -> None:
    """For as long as the loop runs."""
    memory = IdleMemory(resident)

    def look() -> None:
        memory.look()
        loop.call_later(LOOK_S, look)

    loop.call_later(LOOK_S, look)
