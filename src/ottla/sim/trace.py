"""The diary of a simulated run: one line per event, and a fingerprint of all of them.

Two runs of one seed must write the same diary, byte for byte, whatever PYTHONHASHSEED is; the fingerprint is what the
determinism check compares, the lines are what a failed seed prints.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

KEPT_LINES = 20_000


class Trace:
    """One line per event: virtual milliseconds, component, event. Old lines are dropped, the fingerprint covers them
    all."""

    def __init__(self, now: Callable[[], float], *, kept_lines: int = KEPT_LINES) -> None:
        self._now = now
        self._digest = hashlib.sha256()
        self.count = 0
        self.lines: deque[str] = deque(maxlen=kept_lines)

    def note(self, who: str, what: str) -> None:
        line = f"{self._now() * 1000:14.3f} {who:<10} {what}"
        self._digest.update(line.encode())
        self._digest.update(b"\n")
        self.lines.append(line)
        self.count += 1

    def aside(self, text: str) -> None:
        """A line for the reader that is no event: a log line of the program."""
        self.lines.append(f"{self._now() * 1000:14.3f} {'log':<10} {text}")

    @property
    def fingerprint(self) -> str:
        return self._digest.hexdigest()[:32]
