"""How fast throttled replicas are copied, on one side of the copying (Kafka's replication quotas, KIP-73).

A broker has one for what it sends as a leader, one for what it takes as a follower, one for what it copies between its
log dirs. Whatever a throttled partition moves counts, also for replicas that are in sync; only those that are not in
sync are held back by it, so that a throttle never takes a replica out of the ISR.
"""

from __future__ import annotations

from collections.abc import Iterable

ALL = "*"
UNLIMITED = 2**63 - 1
CREDIT_WINDOWS = 2
"""So many windows' unused share of the limit may be taken later."""


class ReplicationThrottle:
    """The limit may be exceeded by one step; then nothing is copied until the mean is at the limit again.

    What was taken too early is a debt, which shrinks by the limit with time. The debt lasts at most as long as Kafka's
    windows: otherwise traffic that counts but is not held back would stop all other copying for good. Replicas ask in
    intervals of their own, usually late: they may use up what they left of the last two windows, so that the mean rate
    reaches the limit. (Kafka divides by all windows from the first byte on, so it starts with a burst of ten windows.)
    """

    __slots__ = ("_at", "_credit_ms", "_debt", "_limit", "_span_ms", "_throttled", "is_set")

    def __init__(self, window_count: int, window_ms: int) -> None:
        self._span_ms = window_count * window_ms
        self._credit_ms = CREDIT_WINDOWS * window_ms
        self._limit = UNLIMITED
        self._debt = 0
        """Bytes times 1000: a limit times milliseconds. A negative debt may be taken at once."""
        self._at = -1
        """When the debt was computed; -1 before anything was taken."""
        self._throttled: dict[str, frozenset[int] | None] = {}
        """By topic the partitions, None for all of them."""
        self.is_set = False
        """Whether a limit is set: without a throttle the check costs one attribute."""

    def limit(self, bytes_per_second: int) -> None:
        self._limit = bytes_per_second
        self._changed()

    def _changed(self) -> None:
        self.is_set = self._limit < UNLIMITED and bool(self._throttled)
        if not self.is_set:
            self._debt, self._at = 0, -1

    def mark(self, topic: str, replicas: Iterable[str], broker_id: int) -> None:
        """Take a topic's setting: `partition:broker` pairs, or `*`."""
        entries = [entry.strip() for entry in replicas]
        if ALL in entries:
            self._throttled[topic] = None
        else:
            pairs = [entry.partition(":") for entry in entries]
            partitions = frozenset(int(pair[0]) for pair in pairs if pair[2] == str(broker_id))
            if partitions:
                self._throttled[topic] = partitions
            else:
                self._throttled.pop(topic, None)
        self._changed()

    def mark_all(self, topic: str) -> None:
        self.mark(topic, (ALL,), -1)

    def unmark(self, topic: str) -> None:
        if self._throttled.pop(topic, self) is not self:
            self._changed()

    def is_throttled(self, topic: str, index: int) -> bool:
        if topic not in self._throttled:
            return False
        partitions = self._throttled[topic]
        return partitions is None or index in partitions

    def record(self, size: int, now: int) -> None:
        self._settle(now)
        self._debt = min(self._debt + 1000 * size, self._most()) if self._limit else self._most()

    def wait_ms(self, now: int) -> int:
        """How long nothing may be copied; 0 if the limit is not exceeded."""
        if not self.is_set or self._at < 0:
            return 0
        self._settle(now)
        return max(0, -(-self._debt // max(self._limit, 1)))

    def _settle(self, now: int) -> None:
        """Reduce the debt by what the limit allowed since; with a limit of zero it only expires."""
        limit = max(self._limit, 1)
        if self._at >= 0:
            debt = min(self._debt, self._most())  # the limit may have been higher when the debt was made
            self._debt = max(debt - limit * max(0, now - self._at), -limit * self._credit_ms)
        self._at = now

    def _most(self) -> int:
        """The largest debt: a larger one would last longer than the windows."""
        return max(self._limit, 1) * self._span_ms
