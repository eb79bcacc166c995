"""How long a client waits before it tries again: one rule for requests, connections, members and Spark's workers."""

from __future__ import annotations

from random import Random


class Backoff:
    """Pauses that double from the first to the longest, each by chance a fifth shorter or longer (KIP-580)."""

    __slots__ = ("_first_ms", "_max_ms", "_rng")

    def __init__(self, first_ms: int, max_ms: int, rng: Random) -> None:
        self._first_ms = first_ms
        self._max_ms = max(first_ms, max_ms)
        self._rng = rng

    def pause_ms(self, attempt: int) -> float:
        """The pause after so many failures in a row (1, 2, ...)."""
        longest = min(self._first_ms * 2.0 ** min(max(attempt - 1, 0), 30), self._max_ms)
        return longest * (0.8 + 0.4 * self._rng.random())
