"""Which brokers may be gone although the metadata says that they lead."""

from __future__ import annotations

import pytest

from ottla.broker.peers.suspicions import (
    GONE_MS,
    HOLD_MS,
    LOOK_MS,
    REST_MS,
    SILENT_REST_MS,
    BrokersChanged,
    ConnectionBroke,
    Effect,
    Hold,
    Look,
    LookAt,
    LookedAt,
    Release,
    Suspicions,
)
from ottla.cluster import BrokerImage
from ottla.machine import Tick

THIS, OTHER, THIRD = 1, 2, 3
TWO_OTHERS_MS = 2 * LOOK_MS


class World:
    """Suspicions of broker 1, and the brokers that its metadata names."""

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerImage] = {}
        for id in (THIS, OTHER, THIRD):
            self.register(id, epoch=10 * id)
        self.suspicions = Suspicions(THIS)
        self.held: set[int] = set()
        """For which brokers answers wait, as the effects have it."""

    def handle(self, event: object, now: int) -> list[Effect]:
        effects = self.suspicions.handle(event, now)
        for effect in effects:
            match effect:
                case Hold(broker_id):
                    assert broker_id not in self.held
                    self.held.add(broker_id)
                case Release(broker_id):
                    self.held.remove(broker_id)
        assert sorted(self.held) == sorted(self.suspicions.open_ids)
        return effects

    def epoch(self, id: int) -> int | None:
        broker = self.brokers.get(id)
        return None if broker is None or broker.is_fenced else broker.epoch

    def register(self, id: int, epoch: int, is_fenced: bool = False) -> None:
        self.brokers[id] = BrokerImage(id, epoch, bytes(16), is_fenced=is_fenced)

    def breaks(self, id: int, now: int = 0) -> bool:
        return LookAt(id) in self.handle(ConnectionBroke(id, self.epoch(id)), now)

    def look(self, id: int, look: Look, now: int = 0) -> None:
        self.handle(LookedAt(id, self.epoch(id), look), now)

    def to_look_at(self, now: int) -> list[int]:
        return self.suspicions.to_look_at(self.brokers, now)

    def change(self) -> None:
        epochs = {broker.id: broker.epoch for broker in self.brokers.values() if not broker.is_fenced}
        self.handle(BrokersChanged(epochs), 0)

    def tick(self, now: int) -> None:
        self.handle(Tick(), now)


def test_a_broker_whose_connection_broke_is_suspected_until_it_is_fenced() -> None:
    world = World()
    assert world.breaks(OTHER)
    world.change()
    assert world.suspicions.open_ids == [OTHER]
    world.register(OTHER, epoch=20, is_fenced=True)
    world.change()
    assert world.suspicions.open_ids == []


@pytest.mark.parametrize("has_refused", [False, True])
def test_a_broker_that_came_back_or_is_no_more_is_not_suspected(has_refused: bool) -> None:
    world = World()
    for id in (OTHER, THIRD):
        world.breaks(id)
        if has_refused:
            world.look(id, Look.REFUSED)
    world.register(OTHER, epoch=21)
    del world.brokers[THIRD]
    world.change()
    assert world.suspicions.open_ids == []


def test_no_answer_waits_longer_than_a_moment() -> None:
    world = World()
    world.breaks(OTHER, now=5)
    assert world.suspicions.deadline() == 5 + HOLD_MS
    world.tick(4 + HOLD_MS)
    assert world.suspicions.open_ids == [OTHER]
    world.tick(5 + HOLD_MS)
    assert world.suspicions.open_ids == []
    assert world.suspicions.deadline() is None


def test_a_broker_that_refuses_connections_is_waited_for_longer_but_only_once() -> None:
    """There may have to be another controller first; without a majority of controllers there never is."""
    world = World()
    world.breaks(OTHER)
    world.look(OTHER, Look.REFUSED, now=20)
    world.look(OTHER, Look.REFUSED, now=900)
    world.tick(HOLD_MS)
    assert world.suspicions.deadline() == 20 + GONE_MS
    world.tick(20 + GONE_MS)
    assert world.suspicions.open_ids == []
    world.look(OTHER, Look.REFUSED, now=30 + GONE_MS)
    assert world.suspicions.open_ids == []


def test_a_broker_that_answers_is_not_gone() -> None:
    world = World()
    world.breaks(OTHER)
    world.look(OTHER, Look.ANSWERED, now=20)
    assert world.suspicions.open_ids == []
    assert world.breaks(OTHER, now=30), "that nothing came of the first suspicion does not excuse the second"


def test_a_broker_that_refuses_is_gone_though_no_connection_broke_here() -> None:
    """A client's connection may break before the one of this broker does."""
    world = World()
    world.look(OTHER, Look.REFUSED)
    assert world.suspicions.open_ids == [OTHER]


def test_a_request_for_leaders_makes_this_broker_look_at_the_others() -> None:
    world = World()
    assert world.to_look_at(0) == [OTHER, THIRD]
    world.look(OTHER, Look.ANSWERED, now=0)
    assert world.to_look_at(TWO_OTHERS_MS - 1) == [THIRD], "not again at once: many may ask"
    assert world.to_look_at(TWO_OTHERS_MS) == [OTHER, THIRD]
    world.register(THIRD, epoch=30, is_fenced=True)
    assert world.to_look_at(TWO_OTHERS_MS) == [OTHER], "fenced brokers are not looked at: no client is sent to them"


def test_a_silent_broker_is_not_waited_for_again_and_again() -> None:
    world = World()
    world.look(OTHER, Look.SILENT)
    assert world.suspicions.open_ids == []
    assert world.to_look_at(SILENT_REST_MS) == [THIRD]
    assert world.to_look_at(SILENT_REST_MS + TWO_OTHERS_MS) == [OTHER, THIRD]


def test_silence_does_not_end_a_suspicion() -> None:
    world = World()
    world.breaks(OTHER)
    world.look(OTHER, Look.SILENT, now=30)
    assert world.suspicions.open_ids == [OTHER]


def test_a_fenced_broker_is_not_suspected() -> None:
    world = World()
    world.register(OTHER, epoch=20, is_fenced=True)
    assert not world.breaks(OTHER)
    world.look(OTHER, Look.REFUSED)
    assert not world.breaks(7), "broker 7 is not registered"
    assert world.suspicions.open_ids == []


@pytest.mark.parametrize(
    ("id", "epoch", "time", "is_suspected"),
    [
        (OTHER, 20, HOLD_MS + REST_MS - 1, False),  # cut off, not gone: no second wait
        (OTHER, 20, HOLD_MS + REST_MS, True),
        (OTHER, 21, HOLD_MS, True),  # another process
        (THIRD, 30, HOLD_MS, True),
    ],
)
def test_a_broker_is_not_suspected_again_and_again(id: int, epoch: int, time: int, is_suspected: bool) -> None:
    world = World()
    world.breaks(OTHER)
    world.tick(HOLD_MS)
    world.register(id, epoch)
    assert world.breaks(id, now=time) == is_suspected
