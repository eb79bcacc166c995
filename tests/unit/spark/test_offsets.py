"""Ranges, rate limits and what a checkpoint keeps."""

from __future__ import annotations

import json

import pytest

from ottla.client.core.partitions import TopicPartition
from ottla.spark.offsets import BatchDelay, CheckpointError, OffsetRange, SourceOffset, limit_rate, plan_ranges
from ottla.wire.primitives import ZERO_UUID

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", partition, 100, 100 + size, ZERO_UUID) for partition, size in enumerate(sizes)]


def sizes(planned: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(one.partition, one.size) for one in planned]


def test_each_partition_with_records_is_one_task() -> None:
    assert sizes(plan_ranges(ranges(10, 0, 5), None, None)) == [(0, 10), (2, 5)]


def test_large_partitions_are_divided_when_more_tasks_are_wanted() -> None:
    planned = plan_ranges(ranges(100, 10), 4, None)
    assert sizes(planned) == [(0, 33), (0, 33), (0, 34), (1, 10)]
    assert [one.start_offset for one in planned[:3]] == [100, 133, 166]
    assert plan_ranges(ranges(100, 10), 2, None) == ranges(100, 10)


def test_no_task_reads_more_than_so_many_records() -> None:
    assert sizes(plan_ranges(ranges(25, 10), None, 10)) == [(0, 8), (0, 8), (0, 9), (1, 10)]
    assert sizes(plan_ranges(ranges(25, 10), 8, 10)) == [
        (0, 4), (0, 4), (0, 4), (0, 4), (0, 4), (0, 5), (1, 5), (1, 5),
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 3, 7, 50])
def test_divided_ranges_cover_everything_once(count: int) -> None:
    planned = plan_ranges(ranges(17, 1000, 3), count, 40)
    offsets = [(one.partition, offset) for one in planned for offset in range(one.start_offset, one.end_offset)]
    assert sorted(offsets) == [(p, 100 + n) for p, size in enumerate((17, 1000, 3)) for n in range(size)]


def test_a_rate_limit_is_shared_out_by_size() -> None:
    starts, ends = {A0: 0, A1: 50, B0: 0}, {A0: 900, A1: 150, B0: 0}
    assert limit_rate(starts, ends, 100) == {A0: 90, A1: 60, B0: 0}
    assert limit_rate(starts, ends, 1_000) == ends


def test_no_partition_with_records_is_starved() -> None:
    assert limit_rate({A0: 0, A1: 0}, {A0: 1_000_000, A1: 3}, 10) == {A0: 9, A1: 1}


def test_a_batch_waits_for_enough_but_not_for_ever() -> None:
    delay = BatchDelay(min_offsets=10, max_delay_ms=1_000)
    assert not delay.is_due(0, now=0), "there is nothing to read"
    assert delay.is_due(1, now=1), "the first batch does not wait"
    assert not delay.is_due(9, now=500)
    assert delay.is_due(10, now=600)
    assert not delay.is_due(1, now=1_599)
    assert delay.is_due(1, now=1_600)


def test_offsets_survive_a_checkpoint() -> None:
    offset = SourceOffset({B0: 4, A1: 2, A0: 1}, {"a": b"i" * 16}, "group", {A0: 0})
    document = offset.to_json()
    assert list(document)[:2] == ["a", "b"]
    assert SourceOffset.from_json(json.loads(json.dumps(document))) == offset


def test_a_checkpoint_of_sparks_own_source_is_read() -> None:
    assert SourceOffset.from_json({"a": {"0": 1, "1": 2}}) == SourceOffset({A0: 1, A1: 2})


@pytest.mark.parametrize("document", [{"logOffset": 3}, {"a": {"x": 1}}, {"a": {"0": None}}])
def test_a_checkpoint_of_another_kind_of_query_is_told_apart(document: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match="belongs to another query"):
        SourceOffset.from_json(document)
