"""Three replicas, a controller and chance: whatever is acknowledged is in every in-sync replica, at every moment.

Nodes learn of metadata late, answers get lost, brokers are killed, fenced and come back, leaders go on that
do not know yet that they are none. Only time passes in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from ottla.cluster import BrokerImage, PartitionImage
from ottla.replication import LeaderEpochs
from ottla.replication.follower import followed_high_watermark, truncation_offset
from ottla.replication.leader import Leader
from ottla.wire.errors import ErrorCode

NODES = (1, 2, 3)
MAX_LAG_MS = 50
STEPS = 600


@dataclass
class Node:
    id: int
    view: PartitionImage
    brokers: dict[int, BrokerImage]
    broker_epoch: int
    records: list[tuple[int, int]] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    high_watermark: int = 0
    leader: Leader | None = None
    is_alive: bool = True
    unacknowledged: dict[int, int] = field(default_factory=dict)

    def truncate(self, offset: int) -> None:
        del self.records[offset:]
        self.epochs.truncate_from_end(offset)
        self.high_watermark = min(self.high_watermark, offset)


class World:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 0
        self.image = PartitionImage(NODES, NODES, (), (), 1, 0, 0, (bytes(16),) * 3)
        self.brokers = {id: BrokerImage(id, id, bytes(16), is_fenced=False) for id in NODES}
        self.next_broker_epoch = 10
        self.next_value = 0
        self.acknowledged: dict[int, int] = {}
        self.proposals: list[tuple[Node, Leader, tuple[int, ...], int, dict[int, int]]] = []
        self.nodes = {id: Node(id, self.image._replace(leader=-1), {}, id) for id in NODES}
        for node in self.nodes.values():
            self.learn(node)

    # The controller

    def change(self, *, isr: tuple[int, ...]) -> None:
        """A new ISR, and the leader that follows from it. The last in-sync replica stays."""
        alive = [id for id in isr if not self.brokers[id].is_fenced]
        image = self.image
        leader = image.leader if image.leader in alive else (alive[0] if alive else -1)
        epoch = image.leader_epoch + (leader != image.leader)
        self.image = image._replace(
            isr=isr or image.isr, leader=leader, leader_epoch=epoch, partition_epoch=image.partition_epoch + 1
        )

    def fence(self, id: int) -> None:
        self.brokers[id] = BrokerImage(id, self.brokers[id].epoch, bytes(16), is_fenced=True)
        self.change(isr=tuple(one for one in self.image.isr if one != id))

    def unfence(self, id: int) -> None:
        self.brokers[id] = BrokerImage(id, self.brokers[id].epoch, bytes(16), is_fenced=False)
        if self.image.leader < 0:
            self.change(isr=self.image.isr)

    def register(self, node: Node) -> None:
        """A new process: the former one was in sync, this one has to show that it is."""
        self.next_broker_epoch += 1
        node.broker_epoch = self.next_broker_epoch
        self.brokers[node.id] = BrokerImage(node.id, node.broker_epoch, bytes(16), is_fenced=True)
        if node.id in self.image.isr:
            self.change(isr=tuple(one for one in self.image.isr if one != node.id))

    def alter(self, leader: Leader, isr: tuple[int, ...], partition_epoch: int, epochs: dict[int, int]) -> ErrorCode:
        if leader.leader_epoch != self.image.leader_epoch or leader.node_id != self.image.leader:
            return ErrorCode.FENCED_LEADER_EPOCH
        if partition_epoch != self.image.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for id in isr:
            if self.brokers[id].is_fenced or epochs[id] != self.brokers[id].epoch:
                return ErrorCode.INELIGIBLE_REPLICA
        self.change(isr=isr)
        return ErrorCode.NONE

    # The nodes

    def learn(self, node: Node) -> None:
        node.brokers.update(self.brokers)
        before, node.view = node.view, self.image
        if self.image.leader != node.id:
            node.leader = None
            node.unacknowledged.clear()
        elif node.leader is None or before.leader_epoch != self.image.leader_epoch:
            if self.image.leader_epoch > node.epochs.latest:
                node.epochs.assign(self.image.leader_epoch, len(node.records))
            node.leader = Leader(
                node.id,
                self.image,
                start_offset=len(node.records),
                brokers=node.brokers,
                max_lag_ms=MAX_LAG_MS,
                now=self.now,
            )
        else:
            node.leader.changed(self.image)
        self.advance(node)

    def advance(self, node: Node) -> None:
        if node.leader is None:
            return
        committed = node.leader.committed_offset(len(node.records), self.now, 1)
        if committed is not None and committed > node.high_watermark:
            node.high_watermark = committed
            for offset in [offset for offset in node.unacknowledged if offset < committed]:
                value = node.unacknowledged.pop(offset)
                assert self.acknowledged.setdefault(offset, value) == value

    def produce(self, node: Node) -> None:
        if node.leader is not None:
            node.unacknowledged[len(node.records)] = self.next_value
            node.records.append((node.leader.leader_epoch, self.next_value))
            self.next_value += 1
            self.advance(node)

    def propose(self, node: Node, isr: tuple[int, ...] | None) -> None:
        leader = node.leader
        if leader is not None and isr is not None:
            epochs = {id: leader.epoch_of(id) for id in isr}
            self.proposals.append((node, leader, isr, leader.partition_epoch, epochs))

    def fetch(self, follower: Node) -> None:
        source = self.nodes.get(follower.view.leader)
        if source is None or source is follower or not source.is_alive or source.leader is None:
            return
        leader = source.leader
        if leader.leader_epoch != follower.view.leader_epoch:
            return
        offset = len(follower.records)
        if follower.epochs.latest >= 0:
            epoch, end_offset = source.epochs.end_offset_for(follower.epochs.latest, len(source.records))
            if epoch < follower.epochs.latest or end_offset < offset:
                follower.truncate(
                    truncation_offset(follower.epochs, offset, follower.high_watermark, epoch, end_offset)
                )
                return
        end_offset = len(source.records)
        leader.fetched(follower.id, offset, end_offset, self.now, broker_epoch=follower.broker_epoch, start_offset=0)
        self.advance(source)
        if follower.id not in leader.isr:
            self.propose(source, leader.propose_join(follower.id, source.high_watermark, self.now))
        if self.rng.random() < 0.2:
            return  # the answer is lost
        for epoch, value in source.records[offset : offset + self.rng.randrange(1, 5)]:
            if epoch != follower.epochs.latest:
                follower.epochs.assign(epoch, len(follower.records))
            follower.records.append((epoch, value))
        follower.high_watermark = followed_high_watermark(
            follower.high_watermark, source.high_watermark, len(follower.records)
        )

    # What happens

    def step(self) -> None:
        rng = self.rng
        self.now += rng.randrange(5)
        node = self.nodes[rng.choice(NODES)]
        kind = rng.random()
        if not node.is_alive:
            if kind < 0.05:
                self.fence(node.id)
            elif kind < 0.1:
                node.is_alive = True
                node.leader = None
                self.register(node)
                self.learn(node)
            return
        if kind < 0.25:
            self.produce(node)
        elif kind < 0.7:
            self.fetch(node)
        elif kind < 0.8:
            self.learn(node)
        elif kind < 0.85 and node.leader is not None:
            self.propose(node, node.leader.propose_shrink(len(node.records), self.now))
        elif kind < 0.93 and self.proposals:
            self.decide()
        elif kind < 0.96 and self.brokers[node.id].is_fenced:
            self.unfence(node.id)
        elif kind < 0.97:
            self.fence(node.id)  # it is cut off, and does not know
        elif kind < 0.98:
            node.is_alive = False
            node.unacknowledged.clear()

    def decide(self) -> None:
        node, leader, isr, partition_epoch, epochs = self.proposals.pop(self.rng.randrange(len(self.proposals)))
        error = self.alter(leader, isr, partition_epoch, epochs)
        if node.leader is not leader or not node.is_alive:
            return
        if self.rng.random() < 0.2:
            self.proposals.append((node, leader, isr, partition_epoch, epochs))  # asked again: the answer was lost
            return
        leader.answered(
            isr,
            error,
            isr=self.image.isr,
            leader_epoch=self.image.leader_epoch,
            partition_epoch=self.image.partition_epoch,
            now=self.now,
        )
        self.advance(node)

    def check(self) -> None:
        for id in self.image.isr:
            records = self.nodes[id].records
            for offset, value in self.acknowledged.items():
                assert offset < len(records), f"broker {id} lacks offset {offset}, which was acknowledged"
                assert records[offset][1] == value, f"broker {id} has another record at offset {offset}"


@pytest.mark.parametrize("seed", range(40))
def test_what_is_acknowledged_is_in_every_in_sync_replica(seed: int) -> None:
    world = World(Random(seed))
    for _ in range(STEPS):
        world.step()
        world.check()
    assert world.next_value


def test_the_seeds_reach_what_they_are_for() -> None:
    """Leaders change, replicas leave and join, and something is acknowledged all the while."""
    leaders = acknowledged = isr_changes = 0
    for seed in range(10):
        world = World(Random(seed))
        for _ in range(STEPS):
            world.step()
        leaders += world.image.leader_epoch
        isr_changes += world.image.partition_epoch
        acknowledged += len(world.acknowledged)
    assert leaders > 20
    assert isr_changes > 100
    assert acknowledged > 100
