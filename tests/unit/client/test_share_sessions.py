"""Share sessions, acknowledgements as ranges, and acquired records, without a socket."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla import records
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.share_acknowledgements import AcknowledgedRange, AcknowledgeType, InFlight, as_ranges
from ottla.client.core.share_fetching import MAX_ACQUIRED_COUNT, AcquiredBatches
from ottla.client.core.share_session import ShareSession, TopicIdPartition
from ottla.client.errors import ConfigError
from ottla.client.share_consumer_config import ShareConsumerConfig
from ottla.records import Record
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_fetch import AcquiredRecords, ShareFetchRequest

T = b"t" * 16
ZERO, ONE = TopicIdPartition(T, 0), TopicIdPartition(T, 1)
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


# Ranges


def test_neighbours_of_one_type_become_one_range() -> None:
    assert as_ranges({}) == []
    assert as_ranges({3: 1, 1: 1, 2: 1}) == [AcknowledgedRange(1, 3, 1)]
    assert as_ranges({0: 1, 1: 2, 2: 2, 4: 2}) == [(0, 0, 1), (1, 2, 2), (4, 4, 2)]


def test_only_records_in_flight_can_be_acknowledged_and_the_last_word_counts() -> None:
    in_flight = InFlight(node_id=1)
    in_flight.deliver([5, 6, 7])
    in_flight.acknowledge(5, REJECT)
    in_flight.acknowledge(5, RELEASE)
    with pytest.raises(KafkaError) as raised:
        in_flight.acknowledge(8, ACCEPT)
    assert raised.value.code is ErrorCode.INVALID_RECORD_STATE
    assert in_flight.unacknowledged_count == 2
    in_flight.acknowledge_all(ACCEPT)
    assert in_flight.take() == {5: RELEASE, 6: ACCEPT, 7: ACCEPT}
    assert in_flight.is_empty
    with pytest.raises(KafkaError):
        in_flight.acknowledge(5, ACCEPT)


# Sessions


def named(request: ShareFetchRequest) -> dict[int, list[tuple[int, int, list[int]]]]:
    return {
        one.partition_index: [
            (batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in one.acknowledgement_batches
        ]
        for topic in request.topics
        for one in topic.partitions
    }


def forgotten(request: ShareFetchRequest) -> list[int]:
    return [number for topic in request.forgotten_topics_data for number in topic.partitions]


def test_a_session_names_all_partitions_first_and_later_only_changes() -> None:
    session = ShareSession("g", "me")
    request = session.plan_fetch([ZERO, ONE], {})
    assert (request.group_id, request.member_id, request.share_session_epoch) == ("g", "me", 0)
    assert named(request) == {0: [], 1: []}
    session.handle(0)
    request = session.plan_fetch([ZERO, ONE], {ZERO: {4: 1, 5: 1, 6: 3}})
    assert request.share_session_epoch == 1
    assert named(request) == {0: [(4, 5, [1]), (6, 6, [3])]}
    session.handle(0)
    request = session.plan_fetch([ZERO], {})
    assert (request.share_session_epoch, named(request), forgotten(request)) == (2, {}, [1])


def test_a_partition_that_is_only_acknowledged_is_not_fetched_from_then_on() -> None:
    session = ShareSession("g", "me")
    session.plan_fetch([ZERO, ONE], {})
    session.handle(0)
    request = session.plan_fetch([ZERO], {ONE: {1: 1}})
    assert (named(request), forgotten(request)) == ({1: [(1, 1, [1])]}, [1])


def test_acknowledging_is_part_of_the_sequence_and_the_last_one_closes() -> None:
    session = ShareSession("g", "me")
    assert not session.is_open
    session.plan_fetch([ZERO], {})
    session.handle(0)
    request = session.plan_acknowledge({ZERO: {1: 4}})
    assert (request.share_session_epoch, request.is_renew_ack) == (1, True)
    session.handle(0)
    request = session.plan_acknowledge({ZERO: {1: 1}}, is_last=True)
    assert (request.share_session_epoch, request.is_renew_ack) == (-1, False)


def test_a_refused_session_is_opened_anew() -> None:
    session = ShareSession("g", "me")
    session.plan_fetch([ZERO], {})
    session.handle(0)
    with pytest.raises(KafkaError) as raised:
        session.handle(ErrorCode.SHARE_SESSION_NOT_FOUND, "gone")
    assert raised.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND
    request = session.plan_fetch([ZERO], {})
    assert (request.share_session_epoch, named(request)) == (0, {0: []})


def test_the_epoch_wraps_around_to_one() -> None:
    session = ShareSession("g", "me")
    session.epoch = 2**31 - 1
    session.handle(0)
    assert session.epoch == 1


# Acquired records


def batch_of(base_offset: int, values: Sequence[bytes]) -> bytes:
    return bytes(records.build([Record(timestamp=5, key=None, value=one) for one in values], base_offset=base_offset))


def acquired(data: bytes, *ranges: Sequence[int]) -> AcquiredBatches:
    rows = [AcquiredRecords(first_offset=a, last_offset=b, delivery_count=count) for a, b, count in ranges]
    return AcquiredBatches(TopicPartition("t", 0), T, 1, data, rows, expires_at=1_000)


def test_only_acquired_records_are_handed_out_each_with_its_delivery_count() -> None:
    data = batch_of(0, [b"a", b"b", b"c", b"d"]) + batch_of(4, [b"e", b"f"])
    taken = acquired(data, (1, 2, 1), (4, 4, 3)).take(100)
    assert [(record.offset, record.value, record.delivery_count) for record in taken.records] == [
        (1, b"b", 1),
        (2, b"c", 1),
        (4, b"e", 3),
    ]
    assert (taken.gaps, taken.rejected) == ([], [])


def test_a_take_ends_with_a_whole_batch() -> None:
    batches = acquired(batch_of(0, [b"a", b"b"]) + batch_of(2, [b"c", b"d"]), (0, 3, 1))
    assert [record.offset for record in batches.take(1).records] == [0, 1]
    assert not batches.is_empty
    assert [record.offset for record in batches.take(1).records] == [2, 3]
    assert batches.is_empty


def test_acquired_offsets_without_a_record_are_gaps() -> None:
    batches = acquired(batch_of(2, [b"c", b"d"]) + batch_of(6, [b"g"]), (0, 8, 1))
    taken = batches.take(100)
    assert [record.offset for record in taken.records] == [2, 3, 6]
    assert taken.gaps == [0, 1, 4, 5, 7, 8]
    assert batches.is_empty


def test_the_records_of_a_damaged_batch_are_rejected_and_those_around_it_are_not() -> None:
    bad = bytearray(batch_of(2, [b"c", b"d"]))
    bad[-2] ^= 1
    batches = acquired(batch_of(0, [b"a", b"b"]) + bytes(bad) + batch_of(4, [b"e"]), (0, 4, 1))
    taken = batches.take(100)
    assert [record.offset for record in taken.records] == [0, 1]
    assert taken.rejected == [2, 3]
    assert taken.error is not None and taken.error.code is ErrorCode.CORRUPT_MESSAGE
    assert [record.offset for record in batches.take(100).records] == [4]


def test_a_broker_cannot_make_a_client_count_offsets_without_end() -> None:
    with pytest.raises(KafkaError):
        acquired(b"", (0, MAX_ACQUIRED_COUNT, 1))


# Settings


def test_settings_have_kafkas_names_and_defaults() -> None:
    config = ShareConsumerConfig.parse({"bootstrap.servers": "h:1", "group.id": "g"})
    assert (config.share_acknowledgement_mode, config.share_acquire_mode) == ("implicit", "batch_optimized")
    assert (config.max_poll_records, config.fetch_max_bytes) == (500, 52_428_800)
    config = ShareConsumerConfig.parse(
        {"bootstrap.servers": "h:1", "group.id": "g", "share.acquire.mode": "RECORD_LIMIT"}
    )
    assert config.is_strict


@pytest.mark.parametrize("name", ["auto.offset.reset", "isolation.level", "enable.auto.commit", "group.instance.id"])
def test_settings_that_a_share_consumer_does_not_have_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        ShareConsumerConfig.parse({"bootstrap.servers": "h:1", "group.id": "g", name: "earliest"})


def test_a_share_consumer_needs_a_group() -> None:
    with pytest.raises(ConfigError, match=r"group\.id"):
        ShareConsumerConfig.parse({"bootstrap.servers": "h:1"})
