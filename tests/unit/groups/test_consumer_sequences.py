"""Random lives of consumer groups: never two owners of a partition, and everything is assigned in the end."""

from __future__ import annotations

from random import Random

import pytest

from ottla.wire.errors import ErrorCode
from tests.unit.groups.consumer_driver import GROUP, ClassicConsumer, Consumer, Coordinator, settle

TOPICS = {"t": 5, "u": 3, "v": 1}


class Life:
    def __init__(self, seed: int, *, interval_ms: int, has_classic: bool) -> None:
        self.rng = Random(seed)
        self.coordinator = Coordinator(
            topics=TOPICS,
            seed=seed,
            group_consumer_assignment_interval_ms=interval_ms,
            group_consumer_migration_policy="upgrade",
        )
        self.has_classic = has_classic
        self.serial = 0
        self.modern: list[Consumer] = [self.new_consumer()]
        self.classic: list[ClassicConsumer] = []

    def new_consumer(self) -> Consumer:
        self.serial += 1
        rng = self.rng
        topics = rng.sample(sorted(TOPICS), rng.randrange(1, 4)) if rng.random() < 0.5 else sorted(TOPICS)
        regex = rng.choice(["[tu]", "v.*"]) if rng.random() < 0.2 else None
        assignor = rng.choice([None, "range", "uniform"])
        return Consumer(self.coordinator, f"m{self.serial}", topics, regex, assignor=assignor)

    def step(self) -> None:
        rng, coordinator = self.rng, self.coordinator
        chance = rng.random()
        if chance < 0.05 and len(self.modern) < 6:
            self.modern.append(self.new_consumer())
        elif chance < 0.08 and self.has_classic and len(self.classic) < 3 and coordinator.group.members:
            self.classic.append(ClassicConsumer(coordinator, ["t", "u"], is_eager=False))
        elif chance < 0.11 and len(self.modern) > 1:
            self.modern.pop(rng.randrange(len(self.modern))).leave()
        elif chance < 0.13 and len(self.modern) > 1:
            self.modern.pop(rng.randrange(len(self.modern)))  # it dies without a word
        elif chance < 0.15:
            topic = rng.choice(sorted(TOPICS))
            if topic in coordinator.image.topics_by_name:
                count = len(coordinator.image.topics_by_name[topic].partitions)
                if rng.random() < 0.5:
                    coordinator.delete_topic(topic)
                elif count < 9:
                    coordinator.add_partitions(topic, count + 1)
            else:
                coordinator.create_topic(topic, rng.randrange(1, 5))
        elif chance < 0.17:
            coordinator.restart()
        elif chance < 0.30:
            coordinator.advance(rng.randrange(3000))
        elif chance < 0.75 or not self.classic:
            member = rng.choice(self.modern)
            if rng.random() < 0.1:
                self.lose_answer(member)
            else:
                member.beat()
        else:
            rng.choice(self.classic).beat()
        self.check()

    def lose_answer(self, member: Consumer) -> None:
        """The coordinator took the heartbeat, the member never heard of it."""
        epoch, owned, assigned = member.epoch, member.owned, member.assigned
        member.beat()
        member.epoch, member.owned, member.assigned, member.must_say_all = epoch, owned, assigned, True

    def check(self) -> None:
        """I1, as the records tell it; what members believe is at most what the records say, while they are members."""
        group = self.coordinator.group
        owners: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            for ownership in (member.assigned, member.pending_revocation):
                for topic_id, partitions in ownership.items():
                    for partition in partitions:
                        assert owners.setdefault((topic_id, partition), member.id) == member.id, "two owners"
        assert {
            (topic_id, partition) for topic_id, partitions in group.partition_epochs.items() for partition in partitions
        } == set(owners)
        for client in self.modern:
            known = group.members.get(client.id)
            if known is not None and client.epoch == known.epoch:
                for claim in client.partitions:
                    assert owners.get(claim) == client.id, f"{client.id} believes that it owns {claim}"

    def settle(self) -> None:
        """All members send heartbeats until the group is stable; dead members have lost their sessions by then."""
        clients: list[Consumer | ClassicConsumer] = [*self.modern, *self.classic]
        for _ in range(30):
            self.coordinator.advance(2500)
            for client in clients:
                client.beat()
            self.check()
        group = self.coordinator.group
        assert group.state == "Stable"
        alive = {client.id for client in clients}
        assert set(group.members) == alive
        read: dict[tuple[bytes, int], str] = {}
        for modern in self.modern:
            for claim in modern.partitions:
                assert read.setdefault(claim, modern.id) == modern.id
        for classic in self.classic:
            for topic, partitions in classic.owned.items():
                for partition in partitions:
                    claim = (self.coordinator.topic_id(topic), partition)
                    assert read.setdefault(claim, classic.id) == classic.id
        wanted = {
            (found.id, partition)
            for name in group.subscriptions.topics()
            if (found := self.coordinator.image.topics_by_name.get(name)) is not None
            for partition in found.partitions
        }
        assert set(read) == wanted


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("interval_ms", [0, 1000])
def test_a_group_of_consumers_converges(seed: int, interval_ms: int) -> None:
    life = Life(seed, interval_ms=interval_ms, has_classic=False)
    life.modern[0].beat()
    for _ in range(150):
        life.step()
    life.settle()


@pytest.mark.parametrize("seed", range(100, 112))
def test_a_group_of_consumers_of_both_protocols_converges(seed: int) -> None:
    life = Life(seed, interval_ms=0, has_classic=True)
    life.modern[0].beat()
    for _ in range(150):
        life.step()
    life.settle()


def test_five_hundred_members_join_without_an_assignment_for_each() -> None:
    coordinator = Coordinator(topics={"t": 500}, group_consumer_assignment_interval_ms=1000)
    members = [Consumer(coordinator, f"m{number:03}", ["t"]) for number in range(500)]
    for member in members:
        assert member.beat() is ErrorCode.NONE
    assert coordinator.group.assignment_epoch == 2
    assert coordinator.group.epoch == 501
    coordinator.advance(1000)
    settle(members)
    assert {len(member.partitions) for member in members} == {1}
    assert coordinator.state.groups[GROUP].state == "Stable"
