"""When a broker is asked for records, and how long it may wait for some.

Only one fetch is under way at a broker. So a fetch that waits for partitions without news must not delay partitions
that have records already: those are in the same request, or, if their buffers here are full, the broker may not wait.
And a request for one partition costs about as much as one for all: as long as every partition has records here, and
there are enough of them, none is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.core.subscription import AssignedPartition

PAUSE_MS = 100
"""How often partitions without news are asked for while others have records here."""


class FetchTurns:
    """The turns of all brokers."""

    def __init__(self, max_wait_ms: int) -> None:
        self.takes_all = False
        """Whether the application takes all records at once: then the next fetch starts before it does."""
        self._max_wait_ms = max_wait_ms
        self._asked_at: dict[int, int] = {}

    def wait_ms(
        self,
        node_id: int,
        wanting: Sequence[AssignedPartition],
        holding: Sequence[AssignedPartition],
        has_few: bool,
        now: int,
    ) -> int | None:
        """How long the broker may wait if it is asked now for the partitions that want data; None: not now.

        `holding` are partitions of the broker whose buffers here are full; `has_few`: few records are buffered in all.
        """
        behind = [state for state in wanting if state.is_behind]
        short_wait_ms = min(self._max_wait_ms, PAUSE_MS) if holding else self._max_wait_ms
        if any(self.takes_all or has_few or not state.fetched for state in behind):
            return short_wait_ms
        if not behind and not any(state.is_behind and not state.is_paused for state in holding):
            return short_wait_ms
        if all(state.fetched for state in wanting):
            return None
        return 0 if now >= self.next_at(node_id) else None

    def next_at(self, node_id: int) -> int:
        """When partitions without news may be asked for again."""
        return self._asked_at.get(node_id, -PAUSE_MS) + PAUSE_MS

    def asked(self, node_id: int, now: int) -> None:
        self._asked_at[node_id] = now
