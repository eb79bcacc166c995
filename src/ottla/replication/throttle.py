"""How fast throttled replicas are copied, on one side of the copying (Kafka's replication quotas, KIP-73).

A broker has one for what it sends as a leader, one for what it takes as a follower, one for what it copies between its
log dirs. Whatever a throttled partition moves counts, also for replicas that are in sync; only those that are not in
sync are held back by it, so that a throttle never takes a replica out of the ISR.
"""

from __future__ import annotations

from collections.abc import Iterable

ALL = "*"
UNLIMITED = 2**63 - 1


class ReplicationThrottle:
    """The rate is the mean over the last windows. It may be exceeded by one step; then nothing is copied until the
    mean is at the limit again."""

    __slots__ = ("_limit", "_samples", "_throttled", "_window_count", "_window_ms", "is_set")

    def __init__(self, window_count: int, window_ms: int) -> None:
        self._window_count = window_count
        self._window_ms = window_ms
        self._limit = UNLIMITED
        self._samples: list[list[int]] = []  # start, bytes
        self._throttled: dict[str, frozenset[int] | None] = {}
        """By topic the partitions, None for all of them."""
        self.is_set = False
        """A plain attribute: who has no throttle pays one look at it."""

    def limit(self, bytes_per_second: int) -> None:
        self._limit = bytes_per_second
        self._changed()

    def _changed(self) -> None:
        self.is_set = self._limit < UNLIMITED and bool(self._throttled)
        if not self.is_set:
            self._samples.clear()

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
        samples = self._samples
        if samples and now - samples[-1][0] < self._window_ms:
            samples[-1][1] += size
            return
        samples.append([now, size])
        self._forget(now)

    def _forget(self, now: int) -> None:
        expiry_ms = self._window_count * self._window_ms
        while self._samples and now - self._samples[0][0] >= expiry_ms:
            del self._samples[0]

    def wait_ms(self, now: int) -> int:
        """How long nothing may be copied; 0 if the limit is not exceeded."""
        if not self.is_set:
            return 0
        self._forget(now)
        if not self._samples:
            return 0
        started = self._samples[0][0]
        elapsed_ms = max(now - started, self._window_ms)
        total = sum(size for _, size in self._samples)
        if total * 1000 <= self._limit * elapsed_ms:
            return 0
        expiry_ms = self._window_count * self._window_ms
        if self._limit == 0:
            return max(started + expiry_ms - now, 1)
        due_at = started + -(-total * 1000 // self._limit)
        return max(min(due_at, started + expiry_ms) - now, 1)
