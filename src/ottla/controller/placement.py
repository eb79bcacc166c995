"""Where the replicas of new partitions go: over all racks, evenly, and leaders only where a broker is alive.

Kafka's striped placement. Racks are visited in turn, and within a rack its brokers in turn, so that replicas of one
partition are in different racks as long as there are enough of them, and partitions in a row have different leaders.
Both turns begin at a random place. After as many partitions as there are live brokers everything is shuffled, so that
combinations do not repeat. A fenced broker may hold a replica only when the live ones of its rack are used up, and
never leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from ottla.wire.errors import ErrorCode, KafkaError


class UsableBroker(NamedTuple):
    """A broker that may hold replicas."""

    id: int
    rack: str | None
    is_fenced: bool


class _Turn:
    """Brokers of one rack taken one after the other, each once per round; a round begins one broker further than the
    last.
    """

    __slots__ = ("_ids", "_round", "_start", "_taken")

    def __init__(self, ids: list[int], rng: Random) -> None:
        self._ids = sorted(ids)
        self._start = rng.randrange(len(ids)) if ids else 0
        self._round = 0
        self._taken = 0

    def next(self, round: int) -> int | None:
        ids = self._ids
        if not ids:
            return None
        if self._round != round:
            self._round = round
            self._taken = 0
            self._start = (self._start + 1) % len(ids)
        if self._taken == len(ids):
            return None
        broker = ids[(self._start + self._taken) % len(ids)]
        self._taken += 1
        return broker

    def shuffle(self, rng: Random) -> None:
        rng.shuffle(self._ids)


class _Rack:
    __slots__ = ("alive", "fenced")

    def __init__(self, brokers: list[UsableBroker], rng: Random) -> None:
        self.fenced = _Turn([broker.id for broker in brokers if broker.is_fenced], rng)
        self.alive = _Turn([broker.id for broker in brokers if not broker.is_fenced], rng)

    def next(self, round: int) -> int | None:
        broker = self.alive.next(round)
        return self.fenced.next(round) if broker is None else broker


class Placer:
    """Hands out replicas for one partition after the other."""

    def __init__(self, brokers: Iterable[UsableBroker], rng: Random) -> None:
        by_rack: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._rng = rng
        self._racks = [_Rack(by_rack[name], rng) for name in names]
        self._count = sum(map(len, by_rack.values()))
        self._alive_count = sum(not broker.is_fenced for rack in by_rack.values() for broker in rack)
        self._round = 0
        self._first = rng.randrange(len(names)) if names else 0

    def place(self, replication_factor: int) -> list[int]:
        """The replicas of one more partition, the preferred leader first. KafkaError if there are too few brokers."""
        if replication_factor > self._count:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
                f"{replication_factor} cannot be reached because only {self._count} broker(s) are registered or some "
                "brokers have all their log directories cordoned.",
            )
        if self._alive_count == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently fenced.",
            )
        racks = self._racks
        if self._round == self._alive_count > 1:
            self._rng.shuffle(racks)
            for rack in racks:
                rack.fenced.shuffle(self._rng)
                rack.alive.shuffle(self._rng)
            self._round = 0
        start = self._first % len(racks)
        leader_rack, leader = start, racks[start].alive.next(self._round)
        while leader is None:
            leader_rack = (leader_rack + 1) % len(racks)
            leader = racks[leader_rack].alive.next(self._round)
        replicas = [leader]
        at, is_leader_rack_passed = start, False
        while len(replicas) < replication_factor:
            if at == leader_rack and not is_leader_rack_passed:
                is_leader_rack_passed = True  # only once: the leader is its rack's turn in the first round
            else:
                broker = racks[at].next(self._round)
                if broker is not None:
                    replicas.append(broker)
            at = (at + 1) % len(racks)
        self._round += 1
        self._first = start + 1
        return replicas
