"""Fetch sessions as the client keeps them, and the way from fetched bytes to records."""

from __future__ import annotations

import pytest

from ottla import records
from ottla.client.core.fetching import FetchedBatches, FetchSession, FetchTarget
from ottla.client.core.partitions import TopicPartition
from ottla.records import Compression, ControlType, Record
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.primitives import ZERO_UUID

T, U = b"t" * 16, b"u" * 16
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def target(offset: int, topic_id: bytes = T) -> FetchTarget:
    return FetchTarget(topic_id, offset, 0, 1_000)


def answer(*partitions: int, session_id: int = 7) -> FetchResponse:
    return FetchResponse(
        session_id=session_id,
        responses=[
            FetchableTopicResponse(topic_id=T, partitions=[PartitionData(partition_index=n) for n in partitions])
        ],
    )


def named(request: object) -> list[tuple[str, int, int]]:
    return [(topic.topic, one.partition, one.fetch_offset) for topic in request.topics for one in topic.partitions]  # type: ignore[attr-defined]


def forgotten(request: object) -> list[tuple[str, int]]:
    return [(topic.topic, one) for topic in request.forgotten_topics_data for one in topic.partitions]  # type: ignore[attr-defined]


def test_a_session_names_everything_once_and_then_what_changed() -> None:
    session = FetchSession()
    first = session.plan({ZERO: target(0), ONE: target(5)})
    assert (first.session_id, first.session_epoch) == (0, 0) and named(first) == [("t", 0, 0), ("t", 1, 5)]
    assert [partition for partition, _ in session.handle(answer(0, 1))] == [ZERO, ONE]
    second = session.plan({ZERO: target(10), ONE: target(5)})
    assert (second.session_id, second.session_epoch) == (7, 1) and named(second) == [("t", 0, 10)]
    session.handle(answer(0))
    third = session.plan({ONE: target(5)})
    assert third.session_epoch == 2 and named(third) == [] and forgotten(third) == [("t", 0)]


def test_a_broker_without_a_free_session_is_told_everything_each_time() -> None:
    session = FetchSession()
    session.plan({ZERO: target(0)})
    session.handle(answer(0, session_id=0))
    again = session.plan({ZERO: target(0)})
    assert (again.session_id, again.session_epoch) == (0, 0) and named(again) == [("t", 0, 0)]


def test_after_silence_the_old_session_is_ended_by_a_full_request() -> None:
    session = FetchSession()
    session.plan({ZERO: target(0)})
    session.handle(answer(0))
    session.plan({ZERO: target(1)})
    session.fail()
    again = session.plan({ZERO: target(1)})
    assert (again.session_id, again.session_epoch) == (7, 0) and named(again) == [("t", 0, 1)]


@pytest.mark.parametrize(
    ("code", "session_id"), [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7)]
)
def test_a_session_the_broker_does_not_accept_is_opened_anew(code: ErrorCode, session_id: int) -> None:
    session = FetchSession()
    session.plan({ZERO: target(0)})
    session.handle(answer(0))
    session.plan({ZERO: target(0)})
    with pytest.raises(KafkaError):
        session.handle(FetchResponse(error_code=code))
    again = session.plan({ZERO: target(0)})
    assert (again.session_id, again.session_epoch) == (session_id, 0) and named(again) == [("t", 0, 0)]


def test_a_topic_made_anew_under_its_name_is_forgotten_and_named_again() -> None:
    session = FetchSession()
    session.plan({ZERO: target(0)})
    session.handle(answer(0))
    request = session.plan({ZERO: target(0, U)})
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [T]
    assert [topic.topic_id for topic in request.topics] == [U]


def test_topics_without_ids_need_an_older_version_and_a_session_of_their_own() -> None:
    session = FetchSession()
    session.plan({ZERO: target(0)})
    assert session.max_version is None
    session.handle(answer(0))
    request = session.plan({ZERO: target(0, ZERO_UUID)})
    assert session.max_version == 12 and request.session_epoch == 0


def batch(base_offset: int, *values: str, **options: object) -> bytearray:
    content = [Record(timestamp=5, key=None, value=value.encode()) for value in values]
    return records.build(content, base_offset=base_offset, **options)  # type: ignore[arg-type]


def marker(base_offset: int, producer_id: int, control_type: ControlType) -> bytearray:
    return records.end_txn_marker(
        is_commit=control_type is ControlType.COMMIT,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=5,
        base_offset=base_offset,
    )


def values(batches: FetchedBatches, count: int = 100) -> list[str]:
    return [record.value.decode() for record in batches.take(count) if record.value is not None]


def test_records_come_in_pieces_and_the_position_follows() -> None:
    fetched = FetchedBatches(ZERO, batch(3, "a", "b") + batch(5, "c", compression=Compression.GZIP), 3)
    assert fetched.end_offset == 6
    assert values(fetched, 1) == ["a"] and fetched.next_offset == 4
    taken = fetched.take(10)
    assert [(record.topic, record.partition, record.offset) for record in taken] == [("t", 0, 4), ("t", 0, 5)]
    assert fetched.next_offset == 6 and fetched.is_empty


def test_a_fetch_in_the_middle_of_a_batch_passes_over_its_beginning() -> None:
    assert values(FetchedBatches(ZERO, batch(0, "a", "b", "c"), 2)) == ["c"]


def test_the_next_offset_is_the_end_of_the_batch_even_where_compaction_took_the_last_record() -> None:
    compacted = batch(0, "a", "b")
    compacted[23:27] = (4).to_bytes(4, "big")  # the last offset delta outlives its record
    fetched = FetchedBatches(ZERO, compacted, 0, checks_crcs=False)
    assert values(fetched) == ["a", "b"] and fetched.next_offset == 5 == fetched.end_offset


def test_a_batch_cut_short_at_the_end_is_left_for_the_next_fetch() -> None:
    fetched = FetchedBatches(ZERO, batch(0, "a") + batch(1, "b")[:-3], 0)
    assert fetched.end_offset == 1 and values(fetched) == ["a"]


def test_a_batch_larger_than_the_fetch_is_an_error() -> None:
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        FetchedBatches(ZERO, batch(0, "abcdef")[:-3], 0)


def test_a_damaged_batch_is_an_error_after_what_is_sound_before_it() -> None:
    damaged = batch(1, "b")
    damaged[-1] ^= 1
    fetched = FetchedBatches(ZERO, batch(0, "a") + damaged, 0)
    assert values(fetched) == ["a"]
    for _ in range(2):
        with pytest.raises(KafkaError, match="CORRUPT_MESSAGE: t-0 at offset 1"):
            fetched.take(10)


def transactional(base_offset: int, producer_id: int, *content: str) -> bytearray:
    return batch(
        base_offset, *content, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
    )


def test_batches_of_aborted_transactions_and_all_markers_are_passed_over() -> None:
    data = b"".join(
        [
            transactional(0, 1, "aborted"),
            transactional(1, 2, "committed"),
            marker(2, 1, ControlType.ABORT),
            marker(3, 2, ControlType.COMMIT),
            transactional(4, 1, "later"),
            marker(5, 1, ControlType.COMMIT),
        ]
    )
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    fetched = FetchedBatches(ZERO, data, 0, aborted)
    assert values(fetched) == ["committed", "later"]
    assert fetched.next_offset == 6


def test_a_transaction_that_began_before_the_fetch_is_aborted_as_well() -> None:
    data = transactional(10, 1, "aborted") + marker(11, 1, ControlType.ABORT) + transactional(12, 1, "fine")
    assert values(FetchedBatches(ZERO, data, 10, [AbortedTransaction(producer_id=1, first_offset=2)])) == ["fine"]


def test_only_aborted_data_moves_the_position_without_records() -> None:
    data = transactional(0, 1, "aborted") + marker(1, 1, ControlType.ABORT)
    fetched = FetchedBatches(ZERO, data, 0, [AbortedTransaction(producer_id=1, first_offset=0)])
    assert fetched.take(10) == [] and fetched.next_offset == 2 and fetched.is_empty


def test_read_uncommitted_gets_everything_but_markers() -> None:
    data = transactional(0, 1, "aborted") + marker(1, 1, ControlType.ABORT)
    assert values(FetchedBatches(ZERO, data, 0)) == ["aborted"]
