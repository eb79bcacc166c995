"""Deadlines of a shard: operations on a group or member that run unless a request comes in time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

Result = TypeVar("Result")
Key = tuple[Hashable, ...]


class Timers(Generic[Result]):
    """Operations by key, each with its deadline in monotonic milliseconds.

    A heartbeat moves its member's deadline thousands of times before it ever comes, so a moved deadline leaves its old
    entry in the heap; entries that are no longer true are dropped when they come up.
    """

    def __init__(self) -> None:
        self._operations: dict[Key, tuple[int, Callable[[int, int], Result]]] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._serial = 0
        """Orders entries of the same millisecond: keys need not be comparable, and runs are reproducible."""

    def __contains__(self, key: Key) -> bool:
        return key in self._operations

    def __len__(self) -> int:
        return len(self._operations)

    def schedule(self, key: Key, at: int, operation: Callable[[int, int], Result]) -> None:
        """Call `operation(now, timestamp)` at `at`, in place of the key's former operation."""
        before = self._operations.get(key)
        self._operations[key] = at, operation
        if before is None or at < before[0]:
            self._push(at, key)  # otherwise the existing entry comes up first, and is then set back to `at`

    def schedule_if_absent(self, key: Key, at: int, operation: Callable[[int, int], Result]) -> None:
        if key not in self._operations:
            self.schedule(key, at, operation)

    def cancel(self, key: Key) -> None:
        self._operations.pop(key, None)

    def deadline(self) -> int | None:
        """When the next operation is due; None if there is none."""
        while self._heap:
            at, _, key = self._heap[0]
            found = self._operations.get(key)
            if found is not None and found[0] == at:
                return at
            heappop(self._heap)
            if found is not None and found[0] > at:
                self._push(found[0], key)
        return None

    def pop_due(self, now: int) -> Callable[[int, int], Result] | None:
        """The next operation that is due, taken out; None if none is."""
        at = self.deadline()
        if at is None or at > now:
            return None
        _, _, key = heappop(self._heap)
        return self._operations.pop(key)[1]

    def clear(self) -> None:
        self._operations.clear()
        self._heap.clear()

    def _push(self, at: int, key: Key) -> None:
        self._serial += 1
        heappush(self._heap, (at, self._serial, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._operations):
            self._heap = [
                (at, serial, key)
                for serial, (key, (at, _)) in enumerate(sorted(self._operations.items(), key=lambda item: item[1][0]))
            ]
            self._serial = len(self._heap)  # in order already, so it is a heap
