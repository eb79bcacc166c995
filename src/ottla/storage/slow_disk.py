"""Warns of syncs that take too long: acknowledgements, elections and rolls wait for them.

At most one line every REST_S: it names the slowest sync since the last line, and how many there were. Writes go to the
operating system's cache and are not timed; a disk that cannot keep up shows in its syncs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("ottla.storage.slow_disk")

SLOW_SYNC_MS = 1_000
REST_S = 30.0


class SlowSyncs:
    """The slow syncs of one process. Syncs end in threads, so there is a lock, which only slow ones take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._quiet_until = 0.0
        self._count = 0
        self._slowest: tuple[float, str] = (0.0, "")

    def timed(self, path: str, sync: Callable[[int], None], descriptor: int) -> None:
        """Sync a file, and count it if it was slow."""
        began = self._clock()
        try:
            sync(descriptor)
        finally:
            ended = self._clock()
            if (ended - began) * 1000 > SLOW_SYNC_MS:
                self._note(path, ended - began, ended)

    def _note(self, path: str, seconds: float, now: float) -> None:
        with self._lock:
            self._count += 1
            self._slowest = max(self._slowest, (seconds, path))
            if now < self._quiet_until:
                return
            count, (seconds, path) = self._count, self._slowest
            self._quiet_until = now + REST_S
            self._count, self._slowest = 0, (0.0, "")
        more = f"; {count - 1} other slow syncs since the last warning" if count > 1 else ""
        logger.warning("slow disk: a sync of %s took %.1f s (limit %.1f s)%s", path, seconds, SLOW_SYNC_MS / 1000, more)
