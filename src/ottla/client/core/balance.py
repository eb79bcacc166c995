"""Which replicas go where so that brokers hold and lead equally much, with as little movement as that takes: a plan.

What counts are replicas, not bytes. Replicas of one partition stay in as many racks as there are for them; a broker
without a rack among others makes racks count for nothing, as with Kafka's placement. Brokers that are not there keep
what they have: only `plan_drain` takes something from them.

A leader costs nothing to move as long as it is one of the replicas: the first of them is the one that leads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.client.core.partitions import TopicPartition


class BrokerPlace(NamedTuple):
    """A broker that may hold replicas."""

    id: int
    rack: str | None = None


class Move(NamedTuple):
    """A partition that gets other replicas, or the same in another order."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removed(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.before if broker not in self.after)


class TooFewBrokers(Exception):
    """No broker is left that could take the replica."""

    def __init__(self, partition: TopicPartition, replica_count: int) -> None:
        super().__init__(f"{partition} has {replica_count} replicas, and no other broker could take one of them")
        self.partition = partition
        self.replica_count = replica_count


Replicas = Mapping[TopicPartition, Sequence[int]]


def plan_drain(replicas: Replicas, brokers: Iterable[BrokerPlace], drained: int) -> list[Move]:
    """Take every replica from one broker and give it to the others. TooFewBrokers if one has nowhere to go."""
    board = _Board(replicas, [broker for broker in brokers if broker.id != drained])
    for partition, holders in sorted(board.replicas.items()):
        if drained in holders:
            taker = board.best_taker(partition, drained)
            if taker is None:
                raise TooFewBrokers(partition, len(holders))
            board.hand_over(partition, drained, taker)
            if holders[0] == taker:
                # The replica takes the place of the drained one in the list; the broker that leads least becomes the
                # leader.
                board.lead(
                    partition,
                    min(board.alive_of(partition), key=lambda id: (board.led[id] - (id == taker), id == taker)),
                )
    return board.moves(replicas)


def plan_rebalance(
    replicas: Replicas, brokers: Iterable[BrokerPlace], sizes: Mapping[TopicPartition, int] | None = None
) -> list[Move]:
    """Spread replicas over brokers and racks, and leaders over brokers. Of partitions that would do as well the small
    ones are moved."""
    board = _Board(replicas, list(brokers))
    board.spread_over_racks()
    board.spread_replicas(sizes or {})
    board.spread_leaders()
    return board.moves(replicas)


class _Board:
    """Where everything is while a plan is made. Only brokers that are there count."""

    def __init__(self, replicas: Replicas, brokers: list[BrokerPlace]) -> None:
        self.replicas = {partition: list(holders) for partition, holders in replicas.items()}
        is_rack_aware = all(broker.rack is not None for broker in brokers)
        self._racks = {broker.id: broker.rack if is_rack_aware else None for broker in sorted(brokers)}
        self._rack_count = len({*self._racks.values()})
        self.led = dict.fromkeys(self._racks, 0)
        self._held: dict[int, dict[TopicPartition, None]] = {id: {} for id in self._racks}
        self._held_of_topic: dict[tuple[str, int], int] = {}
        for partition, holders in self.replicas.items():
            for id in holders:
                self._hold(partition, id)
            if holders[0] in self.led:
                self.led[holders[0]] += 1

    def _hold(self, partition: TopicPartition, id: int) -> None:
        if id in self._held:
            self._held[id][partition] = None
            self._held_of_topic[partition.topic, id] = self._held_of_topic.get((partition.topic, id), 0) + 1

    def alive_of(self, partition: TopicPartition) -> list[int]:
        return [id for id in self.replicas[partition] if id in self._racks]

    def moves(self, before: Replicas) -> list[Move]:
        return [
            Move(partition, tuple(before[partition]), tuple(after))
            for partition, after in sorted(self.replicas.items())
            if after != list(before[partition])
        ]

    # One step

    def hand_over(self, partition: TopicPartition, giver: int, taker: int) -> None:
        holders = self.replicas[partition]
        if holders[0] == giver:
            self.led[taker] += 1
            if giver in self.led:
                self.led[giver] -= 1
        holders[holders.index(giver)] = taker
        self._hold(partition, taker)
        if giver in self._held:
            del self._held[giver][partition]
            self._held_of_topic[partition.topic, giver] -= 1

    def lead(self, partition: TopicPartition, leader: int) -> None:
        """Let one of the replicas be the first."""
        holders = self.replicas[partition]
        if holders[0] in self.led:
            self.led[holders[0]] -= 1
        self.led[leader] += 1
        holders.remove(leader)
        holders.insert(0, leader)

    def _in_rack(self, partition: TopicPartition, rack: str | None, without: int) -> int:
        return sum(
            self._racks.get(id, "") == rack for id in self.replicas[partition] if id in self._racks and id != without
        )

    def _keeps_racks(self, partition: TopicPartition, giver: int, taker: int) -> bool:
        """Whether no rack has more of a partition than it must have."""
        rack = self._racks[taker]
        if self._racks.get(giver, "") == rack:
            return True
        most = -(-len(self.replicas[partition]) // self._rack_count)
        return self._in_rack(partition, rack, giver) < most

    def best_taker(self, partition: TopicPartition, giver: int) -> int | None:
        """The best broker for a replica: in the rack with the fewest replicas, and with the fewest itself."""
        holders = self.replicas[partition]
        return min(
            (id for id in self._racks if id not in holders),
            key=lambda id: (
                self._in_rack(partition, self._racks[id], giver),
                len(self._held[id]),
                self._held_of_topic.get((partition.topic, id), 0),
                id,
            ),
            default=None,
        )

    # The whole

    def spread_over_racks(self) -> None:
        for partition, holders in sorted(self.replicas.items()):
            most = -(-len(holders) // self._rack_count)
            for giver in self.alive_of(partition):
                if self._in_rack(partition, self._racks[giver], giver) < most:
                    continue
                taker = self.best_taker(partition, giver)
                if taker is not None and self._in_rack(partition, self._racks[taker], giver) < most:
                    self.hand_over(partition, giver, taker)

    def spread_replicas(self, sizes: Mapping[TopicPartition, int]) -> None:
        """Moves replicas from the brokers with most to those with least, until they differ by one or racks forbid
        it."""
        while self._spread_some(sizes):
            pass

    def _spread_some(self, sizes: Mapping[TopicPartition, int]) -> bool:
        by_count = sorted(self._held, key=lambda id: (len(self._held[id]), id))
        for giver in reversed(by_count):
            for taker in by_count:
                surplus = len(self._held[giver]) - len(self._held[taker])
                if surplus < 2:
                    break
                given = self._give(giver, taker, max(surplus // 4, 1), sizes)
                if given:
                    return True
        return False

    def _give(self, giver: int, taker: int, count: int, sizes: Mapping[TopicPartition, int]) -> int:
        """Hand over some replicas: of topics that the giver has more of, rather a follower's, rather small ones."""
        fit = [
            partition
            for partition in self._held[giver]
            if taker not in self.replicas[partition] and self._keeps_racks(partition, giver, taker)
        ]
        of_topic = self._held_of_topic
        fit.sort(
            key=lambda partition: (
                of_topic.get((partition.topic, taker), 0) - of_topic[partition.topic, giver],
                self.replicas[partition][0] == giver,
                sizes.get(partition, 0),
                partition,
            )
        )
        for partition in fit[:count]:
            self.hand_over(partition, giver, taker)
        return min(count, len(fit))

    def spread_leaders(self) -> None:
        """Moves leadership from brokers that lead most. If A cannot pass a partition to C, A passes one to B and B one
        to C."""
        could_lead = _Successors(self)
        while True:
            for most in sorted(self.led, key=lambda id: (-self.led[id], id)):
                path = could_lead.path(most, {id for id, count in self.led.items() if count <= self.led[most] - 2})
                if path:
                    break
            else:
                return
            for giver, taker in pairwise(path):
                could_lead.pass_on(giver, taker)


class _Successors:
    """For each two brokers the partitions that the one leads and the other could."""

    def __init__(self, board: _Board) -> None:
        self._board = board
        self._between: dict[int, dict[int, dict[TopicPartition, None]]] = {
            one: {other: {} for other in board.led if other != one} for one in board.led
        }
        for partition in sorted(board.replicas):
            self._enter(partition)

    def _enter(self, partition: TopicPartition) -> None:
        leader, *others = self._board.replicas[partition]
        for other in others:
            if leader in self._between and other in self._between:
                self._between[leader][other][partition] = None

    def _leave(self, partition: TopicPartition) -> None:
        leader, *others = self._board.replicas[partition]
        for other in others:
            if other in self._between:
                del self._between[leader][other][partition]

    def path(self, start: int, ends: set[int]) -> list[int]:
        """The shortest way from one broker to any of others, on which each can pass a partition on to the next."""
        came_from = {start: start}
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            if here in ends:
                path = [here]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            for other, partitions in self._between[here].items():
                if partitions and other not in came_from:
                    came_from[other] = here
                    waiting.append(other)
        return []

    def pass_on(self, giver: int, taker: int) -> None:
        partition = next(iter(self._between[giver][taker]))
        self._leave(partition)
        self._board.lead(partition, taker)
        self._enter(partition)
