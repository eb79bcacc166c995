"""Where replicas go."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ottla.controller.placement import Placer, UsableBroker
from ottla.wire.errors import ErrorCode, KafkaError


def placed(brokers: list[UsableBroker], factor: int, count: int, seed: int = 1) -> list[list[int]]:
    placer = Placer(brokers, Random(seed))
    return [placer.place(factor) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_replicas_of_a_partition_are_on_different_brokers_and_racks(seed: int) -> None:
    racks = ["a", "b", "c"]
    brokers = [UsableBroker(id, racks[id % 3], False) for id in range(9)]
    for replicas in placed(brokers, 3, 100, seed):
        assert len(set(replicas)) == 3
        assert len({racks[id % 3] for id in replicas}) == 3


@pytest.mark.parametrize("seed", range(5))
def test_leaders_and_replicas_are_spread_evenly(seed: int) -> None:
    brokers = [UsableBroker(id, None, False) for id in range(4)]
    partitions = placed(brokers, 2, 80, seed)
    leaders = Counter(replicas[0] for replicas in partitions)
    assert sorted(leaders) == [0, 1, 2, 3] and max(leaders.values()) - min(leaders.values()) <= 1
    assert all(count == 40 for count in Counter(id for replicas in partitions for id in replicas).values())


def test_more_replicas_than_racks_use_every_rack_first() -> None:
    brokers = [UsableBroker(id, "ab"[id % 2], False) for id in range(4)]
    for replicas in placed(brokers, 3, 20):
        assert len(set(replicas)) == 3
        assert {id % 2 for id in replicas} == {0, 1}


@pytest.mark.parametrize("seed", range(5))
def test_a_fenced_broker_never_leads_and_comes_last(seed: int) -> None:
    brokers = [UsableBroker(id, None, id == 2) for id in range(3)]
    assert all(2 not in replicas for replicas in placed(brokers, 2, 30, seed))
    assert all(replicas[0] != 2 and 2 in replicas for replicas in placed(brokers, 3, 30, seed))


def test_a_rack_of_fenced_brokers_still_gets_its_share() -> None:
    brokers = [UsableBroker(0, "a", False), UsableBroker(1, "a", False), UsableBroker(2, "b", True)]
    for replicas in placed(brokers, 2, 20):
        assert replicas[0] in (0, 1) and replicas[1] == 2


def test_one_broker_holds_everything() -> None:
    assert placed([UsableBroker(1, None, False)], 1, 3) == [[1], [1], [1]]


@pytest.mark.parametrize(
    ("brokers", "factor"),
    [([], 1), ([UsableBroker(1, None, False)], 2), ([UsableBroker(1, None, True)], 1)],
)
def test_too_few_brokers_are_an_error(brokers: list[UsableBroker], factor: int) -> None:
    with pytest.raises(KafkaError) as raised:
        placed(brokers, factor, 1)
    assert raised.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_same_chance_gives_the_same_placement() -> None:
    brokers = [UsableBroker(id, None, False) for id in range(5)]
    assert placed(brokers, 3, 20, seed=3) == placed(brokers, 3, 20, seed=3) != placed(brokers, 3, 20, seed=4)
