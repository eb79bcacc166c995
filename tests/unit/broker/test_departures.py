"""Brokers that were fenced a moment ago, which clients are still told of."""

from __future__ import annotations

from ottla.broker.departures import LISTED_MS, Departures
from ottla.cluster import BrokerImage


class World:
    """Departures as seen by a node that started when broker 1 served and broker 2 did not."""

    def __init__(self) -> None:
        self.brokers = {id: BrokerImage(id, id, bytes(16), is_fenced=id == 2) for id in (1, 2)}
        self.departures = Departures()
        self.departures.metadata_changed(self.brokers, self.brokers, 0)

    def fence(self, id: int, is_fenced: bool, now: int) -> None:
        self.brokers[id] = BrokerImage(id, id, bytes(16), is_fenced=is_fenced)
        self.departures.metadata_changed([id], self.brokers, now)


def test_a_broker_is_listed_for_a_while_after_it_was_fenced() -> None:
    world = World()
    assert world.departures.listed(0) == []
    world.fence(1, True, 100)
    assert world.departures.listed(100) == [1]
    world.fence(1, True, 200)  # it registers anew, still fenced
    assert world.departures.listed(99 + LISTED_MS) == [1]
    assert world.departures.listed(100 + LISTED_MS) == []


def test_who_never_served_is_not_listed() -> None:
    world = World()
    world.fence(2, True, 100)
    assert world.departures.listed(100) == []


def test_who_serves_again_has_not_departed() -> None:
    world = World()
    world.fence(1, True, 100)
    world.fence(1, False, 200)
    assert world.departures.listed(200) == []
    world.fence(1, True, 300)
    assert world.departures.listed(99 + 200 + LISTED_MS) == [1]


def test_who_is_unregistered_is_forgotten() -> None:
    world = World()
    world.fence(1, True, 100)
    del world.brokers[1]
    world.departures.metadata_changed([1], world.brokers, 200)
    assert world.departures.listed(200) == []
