"""LeaderEpochs: KIP-101's questions and what truncation leaves."""

from __future__ import annotations

import pytest

from ottla.replication import LeaderEpochs


def epochs() -> LeaderEpochs:
    return LeaderEpochs([(2, 0), (4, 10), (7, 30)])


def test_epochs_are_assigned_once_and_in_order() -> None:
    cache = LeaderEpochs()
    assert (len(cache), cache.latest, cache.earliest, cache.is_dirty) == (0, -1, None, False)
    assert cache.assign(1, 0)
    assert cache.is_dirty
    cache.is_dirty = False
    assert not cache.assign(1, 5)
    assert not cache.is_dirty
    assert cache.assign(3, 5)
    assert cache.entries == [(1, 0), (3, 5)]
    assert (len(cache), cache.latest, cache.earliest) == (2, 3, (1, 0))


def test_a_new_history_replaces_what_it_contradicts() -> None:
    cache = epochs()
    cache.assign(5, 10)
    assert cache.entries == [(2, 0), (5, 10)]
    cache.assign(5, 3)
    assert cache.entries == [(2, 0), (5, 3)]
    cache.assign(9, 0)
    assert cache.entries == [(9, 0)]


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (0, (0, 0)), (2, (2, 10)), (3, (2, 10)), (4, (4, 30)), (6, (4, 30)), (7, (7, 99)), (8, (-1, -1))],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(epoch: int, expected: tuple[int, int]) -> None:
    assert epochs().end_offset_for(epoch, 99) == expected


def test_an_empty_cache_knows_no_end() -> None:
    assert LeaderEpochs().end_offset_for(3, 99) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 2), (9, 2), (10, 4), (29, 4), (30, 7), (1000, 7)])
def test_every_offset_has_its_epoch(offset: int, epoch: int) -> None:
    assert epochs().epoch_for_offset(offset) == epoch
    assert epochs().epoch_for_offset(-1) is None


@pytest.mark.parametrize(
    ("end_offset", "left"),
    [(31, [(2, 0), (4, 10), (7, 30)]), (30, [(2, 0), (4, 10)]), (11, [(2, 0), (4, 10)]), (10, [(2, 0)]), (0, [])],
)
def test_truncation_at_the_end(end_offset: int, left: list[tuple[int, int]]) -> None:
    cache = epochs()
    cache.truncate_from_end(end_offset)
    assert cache.entries == left
    assert cache.latest == (left[-1][0] if left else -1)
    assert cache.is_dirty == (len(left) < 3)


@pytest.mark.parametrize(
    ("start_offset", "left"),
    [
        (0, [(2, 0), (4, 10), (7, 30)]),
        (5, [(2, 5), (4, 10), (7, 30)]),
        (10, [(4, 10), (7, 30)]),
        (29, [(4, 29), (7, 30)]),
        (50, [(7, 50)]),
    ],
)
def test_truncation_at_the_start(start_offset: int, left: list[tuple[int, int]]) -> None:
    cache = epochs()
    cache.truncate_from_start(start_offset)
    assert cache.entries == left
    assert cache.is_dirty == (start_offset > 0)


def test_nothing_is_cut_before_the_first_epoch() -> None:
    cache = LeaderEpochs([(3, 20)])
    cache.truncate_from_start(5)
    assert cache.entries == [(3, 20)]
    assert not cache.is_dirty


def test_clearing() -> None:
    cache = epochs()
    cache.clear()
    assert (cache.entries, cache.latest, cache.is_dirty) == ([], -1, True)
    cache = LeaderEpochs()
    cache.clear()
    assert not cache.is_dirty
