"""What a consumer does when a leader tells where an epoch ended (KIP-320)."""

from __future__ import annotations

import pytest

from ottla import records
from ottla.client.core.fetching import FetchedBatches
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.subscription import EARLIEST, AssignedPartition, OffsetReset, ResetKind
from ottla.client.errors import LogTruncated
from ottla.records import Record

NONE = OffsetReset(ResetKind.NONE)
PARTITION = TopicPartition("t", 0)


def batches(base_offset: int, count: int, leader_epoch: int) -> FetchedBatches:
    batch = records.build([Record(value=b"v")] * count, base_offset=base_offset, leader_epoch=leader_epoch)
    return FetchedBatches(PARTITION, batch, base_offset)


def read_to_10_and_fetched_to_15() -> AssignedPartition:
    """Offsets 0 to 9 of epoch 3 were handed out, 10 to 14 of epoch 4 wait."""
    state = AssignedPartition(PARTITION)
    state.seek(0)
    state.add(batches(0, 10, 3))
    state.add(batches(10, 5, 4))
    assert len(state.take(10)) == 10
    return state


def test_nothing_is_asked_while_nothing_is_known_of_the_position() -> None:
    state = AssignedPartition(PARTITION)
    state.seek(7)
    assert not state.needs_validation(5)
    state.seek(7, leader_epoch=2)
    assert state.needs_validation(5)
    assert not state.needs_validation(-1)  # nor of a leader whose epoch is not known
    state.seek(7, leader_epoch=2, validated_epoch=5)
    assert not state.needs_validation(5)


def test_each_leader_epoch_is_asked_once_about_the_last_record_fetched() -> None:
    state = read_to_10_and_fetched_to_15()
    assert state.fetched_epoch == 4 and state.needs_validation(5)
    assert state.compare(5, 15, 4, NONE) is None
    assert not state.needs_validation(5) and state.needs_validation(6)
    assert (state.position, state.fetch_offset, len(state.fetched)) == (10, 15, 1)


def test_what_waits_and_is_gone_is_fetched_again() -> None:
    state = read_to_10_and_fetched_to_15()
    assert state.compare(5, 12, 4, NONE) is None
    assert (state.position, state.fetch_offset, len(state.fetched)) == (10, 10, 0)
    assert state.leader_epoch == 3 and not state.needs_validation(5)


@pytest.mark.parametrize(("end_offset", "end_epoch", "divergent"), [(6, 3, 6), (-1, -1, None)])
def test_what_was_handed_out_and_is_gone_is_an_error_unless_there_is_a_reset(
    end_offset: int, end_epoch: int, divergent: int | None
) -> None:
    state = read_to_10_and_fetched_to_15()
    error = state.compare(5, end_offset, end_epoch, NONE)
    assert isinstance(error, LogTruncated)
    assert (error.partition, error.offset, error.divergent_offset) == (PARTITION, 10, divergent)
    assert state.needs_validation(5)  # until the application seeks
    assert state.compare(5, end_offset, end_epoch, EARLIEST) is None
    if divergent is None:
        assert state.position is None and state.reset is EARLIEST
    else:
        assert (state.position, state.leader_epoch) == (6, 3) and not state.needs_validation(5)
    assert not state.fetched
