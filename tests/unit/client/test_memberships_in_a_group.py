"""Both kinds of membership against the real coordinator: random members join, leave, lose answers and are slow.

Requests and answers take a drawn time, some get lost, the application polls when it likes. While no session expires,
no partition ever has two owners; and when the random faults stop, every partition has exactly one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from ottla.client.core.membership import (
    Effect,
    Fail,
    LearnTopics,
    Left,
    Membership,
    MembershipConfig,
    Polled,
    Release,
    Released,
    Responded,
    Send,
    Subscribed,
    Take,
    Taken,
    TopicsKnown,
    Unanswered,
    Unsubscribed,
)
from ottla.client.core.membership_classic import ClassicMembership
from ottla.client.core.membership_consumer import ConsumerMembership
from ottla.client.core.partitions import TopicPartition
from ottla.machine import Tick
from ottla.sim.shard_world import ShardWorld
from ottla.wire import Message
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.sync_group import SyncGroupRequest

VERSIONS: dict[type[Message], int] = {
    JoinGroupRequest: 9,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    LeaveGroupRequest: 5,
    ConsumerGroupHeartbeatRequest: 1,
}
KINDS = {
    "range": ["range"],
    "roundrobin": ["roundrobin"],
    "sticky": ["sticky"],
    "cooperative-sticky": ["cooperative-sticky"],
    "all": ["range", "roundrobin", "sticky", "cooperative-sticky"],
    "consumer": [],
}


@dataclass(eq=False)
class Actor:
    """One consumer: its membership, and an application that polls now and then."""

    name: str
    membership: Membership
    asked: list[Release | Take] = field(default_factory=list)
    has_left: bool = False
    is_dead: bool = False


@dataclass(eq=False)
class Ticket:
    actor: Actor
    request: Message
    is_done: bool = False


class World(ShardWorld):
    def __init__(self, seed: int, kind: str, loss: float) -> None:
        super().__init__(seed)
        self.strategy = KINDS[kind]
        self.loss = loss
        self.is_lossy = loss > 0
        """Then a member may be out without knowing it yet, and own what another has by now."""
        self.actors: list[Actor] = []
        self.failures: list[Fail] = []
        self.count = 0
        self.add_topic("t", 5)
        self.add_topic("u", 2)

    def come(self, topics: Sequence[str] = ("t", "u")) -> Actor:
        self.count += 1
        config = MembershipConfig(
            group_id="group",
            session_timeout_ms=2_000,
            heartbeat_interval_ms=300,
            max_poll_interval_ms=3_000,
            request_timeout_ms=500,
            partition_assignment_strategy=self.strategy or ["range"],
        )
        rng = Random(f"{self.seed} {self.count}")
        membership: Membership
        if self.strategy:
            membership = ClassicMembership(config, rng)
        else:
            membership = ConsumerMembership(config, rng, f"member-{self.count}")
        actor = Actor(f"actor-{self.count}", membership)
        self.actors.append(actor)
        self.step(actor, Subscribed(tuple(topics)))
        self._live(actor)
        return actor

    def go(self, actor: Actor) -> None:
        self.step(actor, Unsubscribed())

    def _live(self, actor: Actor) -> None:
        """The application polls; timers are looked at every few milliseconds."""
        if actor.is_dead or actor.has_left:
            return
        deadline = actor.membership.deadline()
        if deadline is not None and deadline <= self.now:
            self.step(actor, Tick())
        if self.rng.random() < 0.3:
            self.poll(actor)
        self.at(self.rng.randint(5, 40), lambda: self._live(actor))

    def poll(self, actor: Actor) -> None:
        self.step(actor, Polled())
        while actor.asked:
            asked = actor.asked.pop(0)
            self.step(actor, Taken() if isinstance(asked, Take) else Released())

    def step(self, actor: Actor, event: object) -> None:
        if actor.is_dead:
            return
        self.note(f"{actor.name} {event}")
        for effect in actor.membership.handle(event, self.now):
            self.perform(actor, effect)
        self.check_owners()

    def perform(self, actor: Actor, effect: Effect) -> None:
        self.note(f"{actor.name} wants {effect}")
        match effect:
            case Send(request, timeout_ms):
                self.carry(Ticket(actor, request), timeout_ms)
            case Release() | Take():
                actor.asked.append(effect)
            case LearnTopics():
                self.at(self.rng.randint(1, 50), lambda: self.tell_topics(actor, is_answer=True))
            case Fail():
                self.failures.append(effect)
            case Left():
                actor.has_left = True
                self.actors.remove(actor)

    def tell_topics(self, actor: Actor, *, is_answer: bool = False) -> None:
        counts = {name: topic.partition_count for name, topic in self.topics.by_name.items()}
        names = {topic.id: name for name, topic in self.topics.by_name.items()}
        self.step(actor, TopicsKnown(counts, names, is_answer))

    def carry(self, ticket: Ticket, timeout_ms: int) -> None:
        if self.rng.random() >= self.loss:
            self.at(self.rng.randint(0, 20), lambda: self.arrive(ticket))
        self.at(min(timeout_ms, 400) if self.rng.random() < self.loss else timeout_ms, lambda: self.give_up(ticket))

    def arrive(self, ticket: Ticket) -> None:
        if ticket.actor.is_dead:
            return
        call = self.call(VERSIONS[type(ticket.request)], ticket, ticket.actor.name)
        self.carry_out(self.command(ticket.request, call), call)

    def answer(self, waiter: Any, response: Message) -> None:
        def deliver() -> None:
            if not waiter.is_done:
                waiter.is_done = True
                self.step(waiter.actor, Responded(waiter.request, response))

        if self.rng.random() >= self.loss:
            self.at(self.rng.randint(0, 20), deliver)

    def give_up(self, ticket: Ticket) -> None:
        if not ticket.is_done:
            ticket.is_done = True
            self.step(ticket.actor, Unanswered(ticket.request))

    def owners(self) -> dict[TopicPartition, list[str]]:
        owners: dict[TopicPartition, list[str]] = {}
        for actor in self.actors:
            for partition in actor.membership.owned:
                owners.setdefault(partition, []).append(actor.name)
        return owners

    def check_owners(self) -> None:
        if not self.is_lossy:
            twice = {partition: names for partition, names in self.owners().items() if len(names) > 1}
            assert not twice, "\n".join([*self.trace[-60:], f"{twice} of seed {self.seed}"])

    def has_one_owner_each(self) -> bool:
        counts = {name: topic.partition_count for name, topic in self.topics.by_name.items()}
        owners = self.owners()
        return (
            not any(actor.membership.is_rebalancing or actor.asked for actor in self.actors)
            and sorted(owners)
            == sorted(TopicPartition(name, n) for name, count in counts.items() for n in range(count))
            and all(len(names) == 1 for names in owners.values())
        )

    def settle(self) -> None:
        self.loss = 0.0
        assert self.run(60_000, self.has_one_owner_each), "\n".join(
            [*self.trace[-80:], f"seed {self.seed} does not settle"]
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_members_come_and_go_and_no_partition_ever_has_two_owners(kind: str, seed: int) -> None:
    world = World(seed, kind, loss=0.0)
    world.come()
    world.settle()
    for _ in range(12):
        world.run(world.rng.randint(10, 1_500))
        if len(world.actors) < 4 and world.rng.random() < 0.6:
            world.come()
        elif len(world.actors) > 1:
            leaving = world.rng.choice(world.actors)
            world.go(leaving)
    world.settle()
    assert not world.failures


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_lost_messages_and_members_that_die_or_do_not_poll_are_recovered_from(kind: str, seed: int) -> None:
    world = World(100 + seed, kind, loss=0.05)
    for _ in range(3):
        world.come()
    for _ in range(10):
        world.run(world.rng.randint(10, 2_000))
        match world.rng.randrange(3):
            case 0 if len(world.actors) > 1:
                victim = world.rng.choice(world.actors)
                victim.is_dead = True
                world.actors.remove(victim)
            case 1:
                world.come()
            case _:
                world.restart()
    world.settle()
    assert not world.failures


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_that_grows_is_shared_out_anew(kind: str) -> None:
    world = World(1, kind, loss=0.0)
    for _ in range(2):
        world.come()
    world.settle()
    world.add_partitions("t", 9)
    for actor in world.actors:
        world.tell_topics(actor)
    world.settle()
    assert len(world.owners()) == 11
