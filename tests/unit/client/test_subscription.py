"""What a consumer reads and how far it is."""

from __future__ import annotations

import re

import pytest

from ottla import records
from ottla.client.arrow import read_options
from ottla.client.core.fetching import FetchedBatches
from ottla.client.core.offsets import (
    OffsetAndMetadata,
    plan_commit,
    plan_offset_fetch,
    read_commit,
    read_offset_fetch,
    shape_offset_fetch,
)
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.subscription import EARLIEST, LATEST, OffsetReset, ResetKind, Subscription, parse_duration_ms
from ottla.records import Record
from ottla.wire import encode_bytes
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.primitives import ZERO_UUID

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
T = b"t" * 16


def fetched(partition: TopicPartition, base_offset: int, count: int, offset: int | None = None) -> FetchedBatches:
    batch = records.build([Record(value=b"v")] * count, base_offset=base_offset)
    return FetchedBatches(partition, batch, base_offset if offset is None else offset)


def reading(*partitions: TopicPartition) -> Subscription:
    subscription = Subscription(LATEST)
    subscription.assign(partitions)
    for state in subscription.assigned.values():
        state.seek(0)
    return subscription


def offsets(subscription: Subscription, count: int) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in subscription.collect(count)]


def test_data_is_fetched_ahead_until_there_is_enough_of_it() -> None:
    state = reading(ZERO).state_of(ZERO)
    assert state.wants_data(100, now=0)
    state.add(fetched(ZERO, 0, 10))
    assert state.fetch_offset == 10 and state.position == 0
    assert not state.wants_data(100, now=0) and state.wants_data(10_000, now=0)


def test_a_seek_drops_what_was_fetched() -> None:
    subscription = reading(ZERO)
    state = subscription.state_of(ZERO)
    state.add(fetched(ZERO, 0, 10))
    before = state.seek_count
    state.seek(4)
    assert state.seek_count > before and subscription.collect(10) == [] and state.fetch_offset == 4


@pytest.mark.parametrize("takes_columns", [False, True], ids=["records", "columns"])
def test_damaged_data_is_dropped_and_fetched_again_from_the_position(takes_columns: bool) -> None:
    def take() -> int:
        if not takes_columns:
            return len(subscription.collect(10))
        columns = read_options(["offset"]).new_columns(1_000_000)
        subscription.collect_columns(columns, 10, {})
        return columns.count

    subscription = reading(ZERO)
    state = subscription.state_of(ZERO)
    damaged = records.build([Record(value=b"v")] * 3, base_offset=2)
    damaged[-1] ^= 1
    state.add(FetchedBatches(ZERO, records.build([Record(value=b"v")] * 2) + damaged, 0))
    state.add(fetched(ZERO, 5, 5))
    assert take() == 2
    before = state.seek_count
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE: t-0 at offset 2"):
        take()
    assert (state.position, state.fetch_offset, state.fetched_size, state.is_damaged) == (2, 2, 0, True)
    assert state.seek_count > before, "an answer under way begins behind the position: it is thrown away"
    state.add(fetched(ZERO, 2, 3))
    assert take() == 3


def test_one_call_takes_the_records_of_many_small_answers() -> None:
    subscription = reading(ZERO, ONE)
    for partition in (ZERO, ONE):
        for base_offset in range(0, 30, 3):
            subscription.state_of(partition).add(fetched(partition, base_offset, 3))
    assert offsets(subscription, 40) == [*((0, one) for one in range(30)), *((1, one) for one in range(10))]
    assert subscription.state_of(ONE).position == 10
    assert offsets(subscription, 40) == [(1, one) for one in range(10, 30)]


def test_sound_answers_are_taken_before_a_damaged_one() -> None:
    subscription = reading(ZERO)
    state = subscription.state_of(ZERO)
    state.add(fetched(ZERO, 0, 2))
    damaged = bytearray(records.build([Record(value=b"v")] * 3, base_offset=2))
    damaged[-1] ^= 1
    state.add(FetchedBatches(ZERO, bytes(damaged), 2))
    assert offsets(subscription, 10) == [(0, 0), (0, 1)]
    with pytest.raises(KafkaError):
        subscription.collect(10)
    assert state.position == 2 and state.is_damaged


def test_partitions_take_turns() -> None:
    subscription = reading(ZERO, ONE)
    subscription.state_of(ZERO).add(fetched(ZERO, 0, 3))
    subscription.state_of(ONE).add(fetched(ONE, 0, 3))
    assert offsets(subscription, 2) == [(0, 0), (0, 1)]
    assert offsets(subscription, 2) == [(1, 0), (1, 1)]
    assert sorted(offsets(subscription, 9)) == [(0, 2), (1, 2)]


def test_a_paused_partition_keeps_its_data() -> None:
    subscription = reading(ZERO)
    state = subscription.state_of(ZERO)
    state.add(fetched(ZERO, 0, 1))
    state.is_paused = True
    assert subscription.collect(5) == [] and not state.wants_data(10_000, now=0)
    state.is_paused = False
    assert offsets(subscription, 5) == [(0, 0)]


def test_a_partition_of_the_group_is_not_read_before_the_listener_knows() -> None:
    subscription = Subscription(LATEST)
    subscription.subscribe(["t"])
    subscription.add([ZERO])
    state = subscription.state_of(ZERO)
    state.seek(0)
    assert not state.wants_data(1, now=0)
    state.is_taken = True
    assert state.wants_data(1, now=0)


def test_an_assignment_by_hand_keeps_the_positions_of_what_stays() -> None:
    subscription = reading(ZERO)
    subscription.state_of(ZERO).seek(7)
    subscription.assign([ONE, ZERO])
    assert subscription.state_of(ZERO).position == 7 and subscription.state_of(ONE).position is None


def test_topics_and_partitions_by_hand_do_not_go_together() -> None:
    subscription = reading(ZERO)
    with pytest.raises(KafkaError):
        subscription.subscribe(["t"])
    subscription.unsubscribe()
    subscription.subscribe(["t"])
    with pytest.raises(KafkaError):
        subscription.assign([ZERO])


def test_a_pattern_matches_whole_names() -> None:
    subscription = Subscription(LATEST)
    subscription.subscribe_pattern(re.compile("a.c"))
    assert subscription.match(["abc", "abcd", "xabc"]) and subscription.topics == ("abc",)
    assert not subscription.match(["abc", "zzz"])


def test_what_is_not_assigned_cannot_be_asked_for() -> None:
    with pytest.raises(KafkaError, match="t-1 is not assigned"):
        reading(ZERO).state_of(ONE)


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("P3D", 259_200_000), ("PT1H30M", 5_400_000), ("PT0.5S", 500), ("P1DT1S", 86_401_000)]
)
def test_durations_are_isos(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["P", "PT", "3D", "", "P1.5D", "-PT1S"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(KafkaError):
        parse_duration_ms(text)


def test_where_to_begin_is_a_timestamp_to_ask_for() -> None:
    assert EARLIEST.timestamp(1_000) == -2 and LATEST.timestamp(1_000) == -1
    assert OffsetReset.parse("by_duration:PT1S").timestamp(5_000) == 4_000
    assert OffsetReset.parse("none").kind is ResetKind.NONE
    for text in ("first", "by_duration", "latest:PT1S"):
        with pytest.raises(KafkaError):
            OffsetReset.parse(text)


def test_a_commit_without_topic_ids_needs_an_older_version() -> None:
    wanted = {ZERO: OffsetAndMetadata(5, "note", 3)}
    request, version = plan_commit("g", wanted, member_id="me", generation=2, topic_id=lambda _: T)
    assert version is None and encode_bytes(request, 10)
    assert plan_commit("g", wanted, topic_id=lambda _: ZERO_UUID)[1] == 9


def test_refused_commits_are_told_by_partition() -> None:
    response = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic_id=T,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=0),
                    OffsetCommitResponsePartition(partition_index=1, error_code=22),
                ],
            )
        ]
    )
    assert read_commit(response, {T: "t"}.get) == {ONE: ErrorCode.ILLEGAL_GENERATION}


@pytest.mark.parametrize("version", range(1, 11))
def test_reading_commits_is_asked_for_in_every_version(version: int) -> None:
    request, _ = plan_offset_fetch("g", [ZERO, ONE], topic_id=lambda _: T)
    shape_offset_fetch(request, version)
    assert b"g" in encode_bytes(request, version)


def test_a_partition_without_a_commit_is_not_in_the_answer() -> None:
    found = [
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, metadata="note"),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
    ]
    response = OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(topics=[OffsetFetchResponseTopics(topic_id=T, partitions=found)])]
    )
    assert read_offset_fetch(response, {T: "t"}.get) == (ErrorCode.NONE, {ZERO: OffsetAndMetadata(5, "note")}, {})
