"""Clients that crash, are copied and repeat themselves, a network that delays and doubles, a coordinator that crashes.

A model of the partitions takes markers as a partition does (an epoch never goes back) and remembers every outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from ottla.transactions import SendMarkers, TopicPartition
from ottla.transactions.transaction import LAST_CLIENT_EPOCH, Transaction, TransactionState
from ottla.wire.errors import ErrorCode

from .coordinator import Coordinator

PARTITIONS = [TopicPartition("t", index) for index in range(4)]
IDS = ["x", "y"]


@dataclass
class World:
    rng: Random
    coordinator: Coordinator
    version: int
    producers: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: {name: [] for name in IDS})
    """Every identity a client was ever given, the latest last."""
    markers: list[SendMarkers] = field(default_factory=list)
    outcomes: dict[tuple[int, int], tuple[bool, set[TopicPartition]]] = field(default_factory=dict)
    """By the id and epoch of the markers: the outcome, and the partitions that have it."""
    decided: dict[tuple[int, int], set[TopicPartition]] = field(default_factory=dict)

    def step(self) -> None:
        rng, coordinator = self.rng, self.coordinator
        name = rng.choice(IDS)
        before = coordinator.shard.transactions.get(name)
        kind = rng.randrange(10)
        if kind == 0:
            self.init(name, rng.random() < 0.5)
        elif kind <= 3:
            self.add(name, before)
        elif kind <= 5:
            self.end(name, before)
        elif kind <= 7:
            self.deliver_markers()
        elif kind == 8:
            coordinator.pass_time(rng.choice([1, 9_000, 40_000]))
        elif rng.random() < 0.3:
            coordinator.crash()
        self.collect_markers()
        self.check(name, before)

    def identity(self, name: str) -> tuple[int, int] | None:
        """Mostly that of the latest client, now and then of an old one whose request comes late."""
        known = self.producers[name]
        if not known:
            return None
        return known[-1] if self.rng.random() < 0.7 else self.rng.choice(known)

    def learn(self, name: str, response: Any) -> None:
        if response.error_code == ErrorCode.NONE and response.producer_id >= 0:
            identity = response.producer_id, response.producer_epoch
            known = self.producers[name]
            if identity in known:
                known.remove(identity)
            known.append(identity)

    def init(self, name: str, recovers: bool) -> None:
        expected = self.identity(name) if recovers else None
        self.learn(name, self.coordinator.init(name, expected=expected or (-1, -1), timeout_ms=20_000))

    def add(self, name: str, before: Transaction | None) -> None:
        identity = self.identity(name)
        if identity is None:
            return
        partitions = self.rng.sample(PARTITIONS, self.rng.randint(1, 3))
        version = 4 if self.version == 2 else 3
        code = self.coordinator.add(identity, *partitions, transactional_id=name, version=version)
        if code == ErrorCode.NONE:
            assert before is not None
            assert identity == (before.producer_id, before.producer_epoch), "an old client changed something"

    def end(self, name: str, before: Transaction | None) -> None:
        identity = self.identity(name)
        if identity is None:
            return
        version = 5 if self.version == 2 else 4
        written = len(self.coordinator.log)
        response = self.coordinator.end(
            identity, commit=self.rng.random() < 0.6, transactional_id=name, version=version
        )
        if len(self.coordinator.log) > written:
            assert before is not None
            assert identity == (before.producer_id, before.producer_epoch), "an old client changed something"
        self.learn(name, response)

    def collect_markers(self) -> None:
        for effect in self.coordinator.effects:
            self.markers.append(effect)
            identity = effect.producer_id, effect.producer_epoch
            is_commit, _ = self.outcomes.setdefault(identity, (effect.is_commit, set()))
            if self.version == 2:
                assert is_commit == effect.is_commit, "one transaction, two outcomes"
                assert self.decided.setdefault(identity, set(effect.partitions)) == set(effect.partitions), "T3"
        self.coordinator.effects = []

    def deliver_markers(self) -> None:
        """Some of the markers on their way, late, in any order, perhaps twice."""
        if not self.markers:
            return
        effect = self.rng.choice(self.markers)
        partitions = self.rng.sample(effect.partitions, self.rng.randint(1, len(effect.partitions)))
        self.outcomes[effect.producer_id, effect.producer_epoch][1].update(partitions)
        decision = self.coordinator.shard.markers_written(
            effect.transactional_id, effect.producer_id, effect.producer_epoch, partitions, self.coordinator.timestamp
        )
        self.coordinator.commit(decision)

    def check(self, name: str, before: Transaction | None) -> None:
        after = self.coordinator.shard.transactions.get(name)
        if before is None or after is None:
            return
        if after.producer_id == before.producer_id:
            assert after.producer_epoch >= before.producer_epoch, "T1"
        if before.state == TransactionState.PREPARE_COMMIT:
            assert after.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT), "T2"
        if before.state == TransactionState.PREPARE_ABORT:
            assert after.state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT), "T2"
        if before.is_prepared and not after.is_prepared and self.version == 2:
            _, told = self.outcomes[before.producer_id, before.producer_epoch]
            assert set(before.partitions) <= told, "complete before all partitions have a marker"

    def settle(self) -> None:
        """All markers arrive at last: nothing stays undecided."""
        self.coordinator.crash()
        self.collect_markers()
        for effect in self.markers:
            self.coordinator.commit(
                self.coordinator.shard.markers_written(
                    effect.transactional_id,
                    effect.producer_id,
                    effect.producer_epoch,
                    effect.partitions,
                    self.coordinator.timestamp,
                )
            )
        assert not any(transaction.is_prepared for transaction in self.coordinator.shard.transactions.values())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(60))
def test_a_random_sequence_keeps_every_promise(version: int, seed: int) -> None:
    rng = Random(seed)
    world = World(rng, Coordinator(version), version)
    for _ in range(200):
        world.step()
    world.settle()


@pytest.mark.parametrize("seed", range(20))
def test_a_random_sequence_at_the_last_epochs_never_uses_an_identity_twice(seed: int) -> None:
    world = World(Random(seed), Coordinator(2), 2)
    for name in IDS:
        world.producers[name].append(world.coordinator.producer(name))
        world.producers[name].append(world.coordinator.set_epoch(LAST_CLIENT_EPOCH - 5, name))
    for _ in range(150):
        world.step()
    world.settle()


@pytest.mark.parametrize("seed", range(20))
def test_what_a_fresh_shard_reads_is_what_the_old_one_knew(seed: int) -> None:
    world = World(Random(seed), Coordinator(2), 2)
    for _ in range(100):
        world.step()
    before = {name: _persisted(found) for name, found in world.coordinator.shard.transactions.items()}
    world.coordinator.crash()
    after = {name: _persisted(found) for name, found in world.coordinator.shard.transactions.items()}
    assert after == before


def _persisted(transaction: Transaction) -> tuple[Any, ...]:
    return (
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state,
        transaction.timeout_ms,
        sorted(transaction.partitions),
        transaction.start_timestamp,
        transaction.last_update_timestamp,
        transaction.client_version,
        transaction.previous_producer_id,
        transaction.next_producer_id,
    )
