"""Plans: every replica has a place, brokers hold and lead equally much, and no more is moved than that takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import pytest

from ottla.client.core.balance import BrokerPlace, Move, TooFewBrokers, plan_drain, plan_rebalance
from ottla.client.core.partitions import TopicPartition

Replicas = dict[TopicPartition, list[int]]


def brokers(*ids: int, racks: str = "") -> list[BrokerPlace]:
    return [BrokerPlace(id, racks[place] if racks else None) for place, id in enumerate(ids)]


def topic(*replicas: Sequence[int], name: str = "orders") -> Replicas:
    return {TopicPartition(name, number): list(of) for number, of in enumerate(replicas)}


def applied(replicas: Replicas, moves: list[Move]) -> Replicas:
    after = dict(replicas)
    for move in moves:
        assert tuple(after[move.partition]) == move.before != move.after
        assert len(set(move.after)) == len(move.after) == len(move.before)
        after[move.partition] = list(move.after)
    return after


def held(replicas: Replicas) -> Counter[int]:
    return Counter(id for of in replicas.values() for id in of)


def led(replicas: Replicas) -> Counter[int]:
    return Counter(of[0] for of in replicas.values())


def added_count(moves: list[Move]) -> int:
    return sum(len(move.added) for move in moves)


def test_a_drained_broker_keeps_nothing_and_the_others_share_it() -> None:
    before = topic([1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2])
    moves = plan_drain(before, brokers(1, 2, 3, 4), 3)
    after = applied(before, moves)
    assert held(after) == {1: 4, 2: 4, 4: 4}
    assert max(led(after).values()) - min(led(after).values()) <= 1
    assert added_count(moves) == 4 and all(move.removed == (3,) for move in moves)


def test_the_last_place_decides() -> None:
    before = topic([1, 2, 3])
    with pytest.raises(TooFewBrokers, match="orders-0 has 3 replicas, and no other broker") as failure:
        plan_drain(before, brokers(1, 2, 3), 2)
    assert (failure.value.partition, failure.value.replica_count) == (TopicPartition("orders", 0), 3)


def test_a_broker_that_is_gone_can_be_drained() -> None:
    before = topic([9, 1], [1, 9], [1, 2])
    after = applied(before, plan_drain(before, brokers(1, 2), 9))
    assert held(after) == {1: 3, 2: 3}
    assert led(after) == {2: 1, 1: 2}


def test_replicas_of_a_drained_broker_stay_in_as_many_racks_as_before() -> None:
    before = topic([1, 3], [2, 3], [1, 4], [2, 4])
    after = applied(before, plan_drain(before, brokers(1, 2, 3, 4, 5, racks="aabbc"), 3))
    assert after == topic([1, 5], [2, 5], [1, 4], [2, 4])
    without_c = applied(before, plan_drain(before, brokers(1, 2, 3, 4, racks="aabb"), 3))
    assert without_c == topic([1, 4], [2, 4], [1, 4], [2, 4])


def test_what_is_balanced_stays_where_it_is() -> None:
    before = topic([1, 2, 3], [2, 3, 1], [3, 1, 2])
    assert plan_rebalance(before, brokers(1, 2, 3)) == []


def test_a_new_broker_gets_its_share_and_no_more_is_moved() -> None:
    before = topic(*([1, 2, 3], [2, 3, 1], [3, 1, 2]) * 4)
    moves = plan_rebalance(before, brokers(1, 2, 3, 4))
    after = applied(before, moves)
    assert held(after) == {1: 9, 2: 9, 3: 9, 4: 9}
    assert led(after) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert added_count(moves) == 9


def test_small_partitions_are_moved_rather_than_large_ones() -> None:
    before = topic([1], [1], [1], [1])
    sizes = {TopicPartition("orders", number): size for number, size in enumerate((900, 5, 700, 6))}
    after = applied(before, plan_rebalance(before, brokers(1, 2), sizes))
    assert after == topic([1], [2], [1], [2])


def test_leaders_are_spread_without_moving_anything() -> None:
    before = topic([1, 2, 3], [1, 3, 2], [1, 2, 3])
    moves = plan_rebalance(before, brokers(1, 2, 3))
    assert led(applied(before, moves)) == {1: 1, 2: 1, 3: 1}
    assert added_count(moves) == 0


def test_leadership_is_passed_on_over_a_third_broker() -> None:
    before = topic([1, 2], [1, 2], [1, 2], [2, 3], [2, 3], [3, 1])
    brokers_with_equal_counts = brokers(1, 2, 3)
    moves = plan_rebalance(before, brokers_with_equal_counts)
    assert led(applied(before, moves)) == {1: 2, 2: 2, 3: 2}


def test_replicas_that_share_a_rack_are_parted() -> None:
    before = topic([1, 2], [3, 4], [1, 3])
    after = applied(before, plan_rebalance(before, brokers(1, 2, 3, 4, racks="aabb")))
    assert all(sorted((id - 1) // 2 for id in of) == [0, 1] for of in after.values())


def test_a_broker_without_a_rack_makes_racks_count_for_nothing() -> None:
    before = topic([1, 2], [2, 3], [3, 1])
    mixed = [BrokerPlace(1, "a"), BrokerPlace(2, "a"), BrokerPlace(3)]
    assert plan_rebalance(before, mixed) == []


def test_brokers_that_are_away_keep_what_they_have() -> None:
    before = topic([9, 1], [9, 1], [1, 9], [9, 2])
    after = applied(before, plan_rebalance(before, brokers(1, 2)))
    assert held(after) == {9: 4, 1: 2, 2: 2}


def test_each_topic_is_spread_too() -> None:
    before = {**topic(*[[1]] * 4, name="a"), **topic(*[[2]] * 4, name="b"), **topic(*[[1]] * 4, name="c")}
    after = applied(before, plan_rebalance(before, brokers(1, 2)))
    assert held(after) == {1: 6, 2: 6}
    assert all(moved.topic != "b" for moved, of in after.items() if of != list(before[moved]))


def _drawn(rng: Random) -> tuple[Replicas, list[BrokerPlace]]:
    count = rng.randint(1, 9)
    rack_count = rng.randint(1, 4)
    places = [BrokerPlace(id, f"rack-{rng.randrange(rack_count)}") for id in range(1, count + 1)]
    replicas: Replicas = {}
    for name in "abc"[: rng.randint(1, 3)]:
        factor = rng.randint(1, count)
        replicas |= topic(*(rng.sample(range(1, count + 1), factor) for _ in range(rng.randint(1, 40))), name=name)
    return replicas, places


def _crowds(replicas: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, str | None]) -> int:
    """How many replicas share a rack with another of their partition more than they must."""
    rack_count = len({*racks.values()})
    crowd = 0
    for of in replicas.values():
        most = -(-len(of) // rack_count)
        crowd += sum(max(count - most, 0) for count in Counter(racks[id] for id in of).values())
    return crowd


@pytest.mark.parametrize("seed", range(60))
def test_whatever_there_was_the_plan_holds(seed: int) -> None:
    replicas, places = _drawn(Random(seed))
    racks = {place.id: place.rack for place in places}
    moves = plan_rebalance(replicas, places)
    after = applied(replicas, moves)
    assert _crowds(after, racks) <= _crowds(replicas, racks)
    assert plan_rebalance(after, places) == []  # a second plan has nothing left to do
    if len(set(racks.values())) == 1:
        counts = [held(after)[place.id] for place in places]
        assert max(counts) - min(counts) <= 1
        fair = sum(counts) / len(counts)
        assert added_count(moves) <= sum(max(held(replicas)[place.id] - int(fair), 0) for place in places)


def test_ten_thousand_partitions_are_planned_at_once() -> None:
    rng = Random(1)
    replicas = topic(*(rng.sample((1, 2, 3), 3) for _ in range(10_000)))
    began = time.process_time()
    after = applied(replicas, plan_rebalance(replicas, brokers(1, 2, 3, 4)))
    assert held(after) == dict.fromkeys((1, 2, 3, 4), 7_500)
    assert led(after) == dict.fromkeys((1, 2, 3, 4), 2_500)
    assert time.process_time() - began < 30
