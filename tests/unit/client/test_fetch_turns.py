"""When a broker is asked for records, and how long it may wait."""

from __future__ import annotations

import pytest

from ottla import records
from ottla.client.core.fetch_turns import PAUSE_MS, FetchTurns
from ottla.client.core.fetching import FetchedBatches
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.subscription import AssignedPartition
from ottla.records import Record

NODE = 1
MAX_WAIT_MS = 500


def partition(*, has_records: bool, more: bool | None) -> AssignedPartition:
    """One with or without records here, whose log is known to have more or not (None: nothing is known)."""
    state = AssignedPartition(TopicPartition("t", 0))
    state.seek(0)
    if has_records:
        batch = records.build([Record(0, 1, None, b"x", ())])
        state.add(FetchedBatches(state.partition, batch, 0))
    if more is not None:
        state.readable_end = state.fetch_offset + (1 if more else 0)
    return state


NEW = partition(has_records=False, more=None)
DRY = partition(has_records=False, more=True)
IDLE = partition(has_records=False, more=False)
BUSY = partition(has_records=True, more=True)
LAST = partition(has_records=True, more=False)


@pytest.mark.parametrize(
    ("wanting", "holding", "has_few", "wait_ms"),
    [
        ([NEW, NEW], [], True, MAX_WAIT_MS),
        ([IDLE, IDLE], [], True, MAX_WAIT_MS),
        ([IDLE, LAST], [], True, MAX_WAIT_MS),
        ([IDLE], [LAST], False, PAUSE_MS),
        ([DRY, BUSY], [BUSY], False, PAUSE_MS),
        ([BUSY, BUSY], [], False, None),
        ([BUSY, BUSY], [], True, MAX_WAIT_MS),
        ([BUSY], [BUSY], False, None),
    ],
)
def test_a_broker_is_asked_when_a_partition_runs_dry(
    wanting: list[AssignedPartition], holding: list[AssignedPartition], has_few: bool, wait_ms: int | None
) -> None:
    assert FetchTurns(MAX_WAIT_MS).wait_ms(NODE, wanting, holding, has_few, 10_000) == wait_ms


@pytest.mark.parametrize(("wanting", "holding"), [([IDLE], [BUSY]), ([IDLE, BUSY], [])])
def test_partitions_without_news_never_make_the_broker_wait_while_others_have_more(
    wanting: list[AssignedPartition], holding: list[AssignedPartition]
) -> None:
    turns = FetchTurns(MAX_WAIT_MS)
    assert turns.wait_ms(NODE, wanting, holding, False, 10_000) == 0
    turns.asked(NODE, 10_000)
    assert turns.next_at(NODE) == 10_000 + PAUSE_MS
    assert turns.wait_ms(NODE, wanting, holding, False, 10_000 + PAUSE_MS - 1) is None
    assert turns.wait_ms(2, wanting, holding, False, 10_000) == 0, "another broker has its own turns"
    assert turns.wait_ms(NODE, wanting, holding, False, 10_000 + PAUSE_MS) == 0


def test_a_partition_that_is_paused_keeps_no_other_waiting() -> None:
    paused = partition(has_records=True, more=True)
    paused.is_paused = True
    assert FetchTurns(MAX_WAIT_MS).wait_ms(NODE, [IDLE], [paused], False, 10_000) == PAUSE_MS


def test_a_consumer_that_takes_all_at_once_has_the_next_fetch_under_way() -> None:
    turns = FetchTurns(MAX_WAIT_MS)
    turns.takes_all = True
    assert turns.wait_ms(NODE, [BUSY, BUSY], [], False, 10_000) == MAX_WAIT_MS
    assert turns.wait_ms(NODE, [BUSY, IDLE], [BUSY], False, 10_000) == PAUSE_MS
