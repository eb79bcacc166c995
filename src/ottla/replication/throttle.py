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
"""What was left of the limit in so many windows may be taken later."""


class ReplicationThrottle:
    """The limit may be exceeded by one step; then nothing is copied until the mean is at the limit again.

    What was taken too early is a debt, which shrinks by the limit with time. It is forgotten after as much time as
    Kafka's windows span, or traffic that counts and is not held back would stop all else for good. Replicas ask by
    their own clock, late more often than not: what they leave of the last two windows they may take later, so that the
    rate in the end is the limit and not what the waits happen to add up to. (Kafka divides by all windows from the
    first byte on, so that it begins with ten windows' worth at once.)"""

    __slots__ = ("_at", "_credit_ms", "_debt", "_limit", "_span_ms", "_throttled", "is_set")

    def __init__(self, window_count: int, window_ms: int) -> None:
        self._span_ms = window_count * window_ms
        self._credit_ms = CREDIT_WINDOWS * window_ms
        self._limit = UNLIMITED
        self._debt = 0
        """Bytes times 1000: a limit times milliseconds. Below zero it is what may be taken at once."""
        self._at = -1
        """When that was; -1 before anything was taken."""
        self._throttled: dict[str, frozenset[int] | None] = {}
        """By topic the partitions, None for all of them."""
        self.is_set = False
        """A plain attribute: without a throttle it costs one look."""

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
        """Let the debt shrink by what the time since then allows; with a limit of zero, only to be forgotten."""
        limit = max(self._limit, 1)
        if self._at >= 0:
            debt = min(self._debt, self._most())  # the limit may have been higher when it was made
            self._debt = max(debt - limit * max(0, now - self._at), -limit * self._credit_ms)
        self._at = now

    def _most(self) -> int:
        """No debt is larger: it would last longer than the windows."""
        return max(self._limit, 1) * self._span_ms
