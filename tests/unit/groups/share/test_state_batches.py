"""Batches of a share partition's state, combined as Kafka's share coordinator combines them."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from ottla.groups.share.state_batches import StoredBatch, combine

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def batch(first: int, last: int, state: int = AVAILABLE, count: int = 1) -> StoredBatch:
    return StoredBatch(first, last, state, count)


def test_neighbours_of_the_same_state_become_one_batch() -> None:
    assert combine([batch(0, 9)], [batch(10, 19)], -1) == [batch(0, 19)]
    assert combine([batch(0, 9)], [batch(11, 19)], -1) == [batch(0, 9), batch(11, 19)]
    assert combine([batch(0, 9)], [batch(10, 19, count=2)], -1) == [batch(0, 9), batch(10, 19, count=2)]


def test_the_greater_delivery_count_counts_and_then_the_greater_state() -> None:
    assert combine([batch(0, 9, count=2)], [batch(3, 5, ACKNOWLEDGED, 1)], -1) == [batch(0, 9, count=2)]
    assert combine([batch(0, 9)], [batch(3, 5, ACKNOWLEDGED, 1)], -1) == [
        batch(0, 2),
        batch(3, 5, ACKNOWLEDGED),
        batch(6, 9),
    ]
    assert combine([batch(0, 9, ARCHIVED)], [batch(0, 20, count=2)], -1) == [batch(0, 20, count=2)]


def test_what_is_before_the_start_offset_goes() -> None:
    stored = [batch(0, 9), batch(10, 19, ACKNOWLEDGED)]
    assert combine(stored, [], 10) == [batch(10, 19, ACKNOWLEDGED)]
    assert combine(stored, [], 15) == [batch(15, 19, ACKNOWLEDGED)]
    assert combine(stored, [], 20) == []
    assert combine(stored, [], -1) == stored


def test_any_batches_give_every_offset_its_greatest_count_and_state() -> None:
    rng = Random(7)
    for _ in range(300):
        state: list[StoredBatch] = []
        expected: dict[int, tuple[int, int]] = {}
        start = 0
        for _ in range(rng.randrange(1, 8)):
            written = []
            for _ in range(rng.randrange(4)):
                first = rng.randrange(40)
                written.append(batch(first, first + rng.randrange(12), rng.choice((0, 2, 4)), rng.randrange(1, 4)))
            start = rng.choice((start, start + rng.randrange(6)))
            state = combine(state, written, start)
            for one in written:
                for offset in range(one.first_offset, one.last_offset + 1):
                    value = (one.delivery_count, one.delivery_state)
                    expected[offset] = max(expected.get(offset, value), value)
            expected = {offset: value for offset, value in expected.items() if offset >= start}
            found = {
                offset: (one.delivery_count, one.delivery_state)
                for one in state
                for offset in range(one.first_offset, one.last_offset + 1)
            }
            assert found == expected
            for before, after in pairwise(state):
                assert before.last_offset < after.first_offset
                assert before.last_offset + 1 < after.first_offset or before[2:] != after[2:]
