"""Which partition a record goes to when its sender names none.

A key decides by Kafka's murmur2, so that every client puts the same key into the same partition. Without a key a
producer stays with one partition until it has given it a batch full, then goes to another (KIP-794): fuller batches,
fewer requests. Partitions whose queues are long are then chosen less often.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from random import Random

from ottla.records.kernel import murmur2, partition_for_key

__all__ = ["RoundRobin", "StickyPartition", "in_rack", "murmur2", "partition_for_key"]


def in_rack(candidates: Sequence[int], leaders: Sequence[int], racks: Mapping[int, str | None], rack: str) -> list[int]:
    """The candidates whose leader is in this rack (KIP-1123); all of them if none is. `leaders` names the leader of
    each candidate, `racks` the rack of each broker."""
    near = [partition for partition, leader in zip(candidates, leaders, strict=True) if racks.get(leader) == rack]
    return near or list(candidates)


class StickyPartition:
    """The partition that a topic's records without keys go to for now."""

    __slots__ = ("_bytes", "_rng", "partition", "switch_bytes")

    def __init__(self, switch_bytes: int, rng: Random) -> None:
        self.partition = -1
        self.switch_bytes = max(switch_bytes, 1)
        self._bytes = 0
        self._rng = rng

    def produced(self, size: int) -> bool:
        """Note bytes given to the partition; True when it is time to go to another."""
        self._bytes += size
        return self._bytes >= self.switch_bytes

    def choose(self, candidates: Sequence[int], queue_sizes: Sequence[int] | None = None) -> int:
        """Another partition, among those whose leader is known. With the lengths of their queues the shorter ones are
        likelier: each weighs the longest length plus one, less its own."""
        self._bytes = 0
        count = len(candidates)
        if count == 1:
            self.partition = candidates[0]
        elif queue_sizes is None or min(queue_sizes) == max(queue_sizes):
            self.partition = candidates[int(self._rng.random() * count)]
        else:
            longest = max(queue_sizes) + 1
            sums = list(accumulate(longest - size for size in queue_sizes))
            self.partition = candidates[bisect_right(sums, int(self._rng.random() * sums[-1]))]
        return self.partition


class RoundRobin:
    """One partition after the other, whatever the key; those without a leader are passed over if others have one."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def choose(self, partition_count: int, candidates: Sequence[int]) -> int:
        turn, self._next = self._next, self._next + 1
        if candidates:
            return candidates[turn % len(candidates)]
        return turn % partition_count
