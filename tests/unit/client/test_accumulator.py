"""Batches of a producer: when they close, which may be sent, what happens to failed ones."""

from __future__ import annotations

import pytest

from ottla.client.core.accumulator import Accumulator, Batch, PartitionQueue
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.sequences import Sequences
from ottla.records import read
from ottla.records.batch import MAX_PRODUCER_EPOCH

FIRST = TopicPartition("t", 0)


def new_accumulator(keeps_order: bool = False, is_idempotent: bool = True, linger_ms: float = 5) -> Accumulator:
    return Accumulator(
        batch_size=200,
        buffer_memory=100_000,
        linger_ms=linger_ms,
        delivery_timeout_ms=1000,
        keeps_order=keeps_order,
        is_idempotent=is_idempotent,
    )


def fill(
    accumulator: Accumulator, count: int, now: float = 0, size: int = 30, partition: TopicPartition = FIRST
) -> PartitionQueue:
    """Records that take so many bytes each."""
    queue = accumulator.queue(partition)
    for number in range(count):
        added = accumulator.append(queue, number, None, b"%0*d" % (size - 7, number), (), size + 14, now, False)
        assert added is not None
    return queue


def values_of(batch: Batch) -> list[int]:
    return [int(record.value or b"") for record in read(batch.records.build())]


def full_batches(accumulator: Accumulator, count: int, now: float = 0) -> PartitionQueue:
    return fill(accumulator, count, now, size=200)


def send(accumulator: Accumulator, sequences: Sequences, queue: PartitionQueue, now: float = 0) -> Batch:
    assert queue in accumulator.ready(now)
    assert sequences.prepare(queue)
    return accumulator.take(queue)


def identified() -> Sequences:
    sequences = Sequences()
    sequences.begin(7, 0)
    return sequences


def test_a_record_that_cannot_be_encoded_leaves_no_batch_behind() -> None:
    accumulator = new_accumulator()
    queue = accumulator.queue(FIRST)
    with pytest.raises(TypeError):
        accumulator.append(queue, "today", None, b"x", (), 30, 0, False)  # type: ignore[arg-type]  # what is tested
    assert accumulator.is_empty and queue.open is None and accumulator.used_bytes == 0


def test_a_batch_waits_for_linger_ms() -> None:
    accumulator = new_accumulator()
    queue = fill(accumulator, 2, now=100)
    assert accumulator.ready(104) == []
    assert accumulator.deadline(104) == 105
    assert accumulator.ready(105) == [queue]
    assert values_of(accumulator.take(queue)) == [0, 1]


def test_a_full_batch_does_not_wait() -> None:
    accumulator = new_accumulator()
    queue = fill(accumulator, 5)
    assert [len(batch.records) for batch in queue.batches] == [4, 1]
    assert accumulator.ready(0) == [queue]
    accumulator.take(queue)
    assert accumulator.ready(1) == []


def test_what_is_flushed_does_not_wait() -> None:
    accumulator = new_accumulator()
    queue = fill(accumulator, 1)
    accumulator.close_all()
    assert accumulator.ready(0) == [queue]


def test_the_buffer_is_given_back_when_a_batch_is_done() -> None:
    accumulator = new_accumulator()
    queue = fill(accumulator, 1)
    assert accumulator.used_bytes == 200  # while it is open, all it may hold
    accumulator.close_all()
    assert accumulator.used_bytes == 61 + 30
    batch = accumulator.take(queue)
    accumulator.put_back(batch, 0)
    assert accumulator.used_bytes == 61 + 30
    accumulator.finish(batch)
    accumulator.finish(batch)
    assert accumulator.used_bytes == 0
    assert accumulator.is_empty


def test_batches_older_than_the_delivery_timeout_expire() -> None:
    accumulator = new_accumulator()
    queue = full_batches(accumulator, 1, now=0)
    full_batches(accumulator, 1, now=500)
    assert accumulator.expired(999) == []
    assert accumulator.expired(1000) == [queue.batches[0]]
    assert len(accumulator.expired(1500)) == 2


def test_several_batches_of_a_partition_may_be_on_the_wire_at_once() -> None:
    accumulator, sequences = new_accumulator(), identified()
    queue = full_batches(accumulator, 3)
    sent = [send(accumulator, sequences, queue) for _ in range(3)]
    assert [batch.base_sequence for batch in sent] == [0, 1, 2]


def test_one_request_at_a_time_keeps_the_order_without_sequences() -> None:
    accumulator = new_accumulator(keeps_order=True, is_idempotent=False)
    queue = full_batches(accumulator, 2)
    accumulator.ready(0)
    first = accumulator.take(queue)
    assert accumulator.ready(0) == []
    accumulator.put_back(first, 10)
    assert accumulator.ready(9) == []
    assert accumulator.ready(10) == [queue]
    assert accumulator.take(queue) is first


def test_batches_that_fail_are_sent_again_one_by_one_under_their_numbers() -> None:
    accumulator, sequences = new_accumulator(), identified()
    queue = full_batches(accumulator, 3)
    first, second = send(accumulator, sequences, queue), send(accumulator, sequences, queue)
    accumulator.put_back(second, 0)
    accumulator.put_back(first, 0)
    assert send(accumulator, sequences, queue) is first
    assert accumulator.ready(0) == []  # the second one is not sent before the first is answered
    accumulator.finish(first)
    assert send(accumulator, sequences, queue) is second
    assert (first.base_sequence, second.base_sequence) == (0, 1)
    third = send(accumulator, sequences, queue)  # a new one may follow at once
    assert third.base_sequence == 2


def test_a_batch_behind_one_that_is_missing_is_sent_again_as_it_is() -> None:
    accumulator, sequences = new_accumulator(), identified()
    queue = full_batches(accumulator, 2)
    first, second = send(accumulator, sequences, queue), send(accumulator, sequences, queue)
    accumulator.put_back(first, 0)
    sequences.out_of_order(second)
    accumulator.put_back(second, 0)
    assert not queue.needs_reset
    assert send(accumulator, sequences, queue) is first
    accumulator.finish(first)
    assert send(accumulator, sequences, queue) is second
    assert (second.producer_epoch, second.base_sequence) == (0, 1)


def test_a_gap_is_closed_by_a_new_epoch_once_nothing_is_on_the_wire() -> None:
    accumulator, sequences = new_accumulator(), identified()
    queue = full_batches(accumulator, 4)
    first, second, third = (send(accumulator, sequences, queue) for _ in range(3))
    sequences.gave_up(first)
    accumulator.finish(first)
    sequences.out_of_order(second)
    accumulator.put_back(second, 0)
    assert accumulator.ready(0) == []  # the third one is still on the wire
    sequences.out_of_order(third)
    accumulator.put_back(third, 0)
    assert send(accumulator, sequences, queue) is second
    assert (second.producer_epoch, second.base_sequence) == (1, 0)
    assert (third.producer_epoch, third.base_sequence) == (1, 1)
    accumulator.finish(second)
    assert send(accumulator, sequences, queue) is third
    fourth = send(accumulator, sequences, queue)
    assert (fourth.producer_epoch, fourth.base_sequence) == (1, 2)


def test_a_batch_that_may_have_been_written_keeps_its_numbers_even_behind_a_gap() -> None:
    accumulator, sequences = new_accumulator(), identified()
    queue = full_batches(accumulator, 2)
    first, second = send(accumulator, sequences, queue), send(accumulator, sequences, queue)
    sequences.gave_up(first)
    accumulator.finish(first)
    accumulator.put_back(second, 0)  # the connection ended: it may have been written
    assert send(accumulator, sequences, queue) is second
    assert (second.producer_epoch, second.base_sequence) == (0, 1)


def test_what_comes_later_tells_whether_a_batch_without_an_answer_is_written() -> None:
    accumulator, sequences = new_accumulator(), identified()
    queue = full_batches(accumulator, 3)
    sent = [send(accumulator, sequences, queue) for _ in range(3)]
    for batch in sent:
        batch.is_unsure = True
        accumulator.put_back(batch, 0)
    first, second, third = sent
    for batch in (first, second):  # the broker restarted and remembers the third one only
        assert send(accumulator, sequences, queue) is batch
        assert sequences.out_of_order(batch)
        accumulator.set_aside(batch)
    assert send(accumulator, sequences, queue) is third
    assert sequences.proven(third) == [first, second]
    assert not queue.needs_reset


def test_when_nothing_that_came_later_is_written_neither_is_what_came_before() -> None:
    accumulator, sequences = new_accumulator(), identified()
    queue = full_batches(accumulator, 2)
    first, second = (send(accumulator, sequences, queue) for _ in range(2))
    for batch in (first, second):
        batch.is_unsure = True
        accumulator.put_back(batch, 0)
    assert send(accumulator, sequences, queue) is first
    assert sequences.out_of_order(first)
    accumulator.set_aside(first)
    assert send(accumulator, sequences, queue) is second
    assert not sequences.out_of_order(second)
    accumulator.put_back(second, 0)
    accumulator.bring_back(queue)
    assert send(accumulator, sequences, queue) is first
    assert (first.producer_epoch, first.base_sequence, second.base_sequence) == (1, 0, 1)


def test_other_partitions_take_up_the_new_epoch_when_they_are_empty() -> None:
    accumulator, sequences = new_accumulator(), identified()
    other = fill(accumulator, 3, size=200, partition=TopicPartition("t", 1))
    on_wire = send(accumulator, sequences, other)
    sequences.producer_epoch = 1
    second = send(accumulator, sequences, other)
    assert (second.producer_epoch, second.base_sequence) == (0, 1)
    accumulator.finish(on_wire)
    accumulator.finish(second)
    third = send(accumulator, sequences, other)
    assert (third.producer_epoch, third.base_sequence) == (1, 0)


def test_a_producer_whose_epochs_are_used_up_asks_for_another_id() -> None:
    accumulator, sequences = new_accumulator(), Sequences()
    sequences.begin(7, MAX_PRODUCER_EPOCH)
    queue = full_batches(accumulator, 2)
    batch = send(accumulator, sequences, queue)
    sequences.gave_up(batch)
    accumulator.finish(batch)
    assert not sequences.prepare(queue)
    assert not sequences.has_id
    sequences.begin(8, 0)
    second = send(accumulator, sequences, queue)
    assert (second.producer_id, second.producer_epoch, second.base_sequence) == (8, 0, 0)


def test_sequences_wrap_to_zero() -> None:
    accumulator, sequences = new_accumulator(), identified()
    queue = fill(accumulator, 8)
    queue.producer_id, queue.producer_epoch, queue.next_sequence = 7, 0, 0x7FFFFFFE
    assert send(accumulator, sequences, queue).base_sequence == 0x7FFFFFFE
    assert queue.next_sequence == 2


def test_a_batch_that_is_too_large_goes_on_in_halves() -> None:
    accumulator, sequences = new_accumulator(), identified()
    queue = fill(accumulator, 4)
    done: list[Batch] = []
    batch = queue.batches[0]
    batch.callbacks.append(done.append)
    accumulator.close_all()
    assert send(accumulator, sequences, queue) is batch
    accumulator.split(batch)
    halves = list(queue.batches)
    assert [values_of(half) for half in halves] == [[0, 1], [2, 3]]
    assert [half.base_sequence for half in halves] == [0, 2]
    for half, offset in zip(halves, (10, 12), strict=True):
        assert send(accumulator, sequences, queue) is half
        half.base_offset = offset
        accumulator.finish(half)
    assert done == [batch]
    assert batch.place_of(3) == (halves[1], 1)
    assert batch.count == 4
    assert accumulator.used_bytes == 0
    assert accumulator.is_empty


def test_a_split_batch_expires_in_its_parts() -> None:
    accumulator, sequences = new_accumulator(), identified()
    queue = fill(accumulator, 4)
    accumulator.close_all()
    batch = send(accumulator, sequences, queue)
    accumulator.split(batch)
    expired = accumulator.expired(1000)
    assert len(expired) == 2
    for half in expired:
        accumulator.finish(half)
    assert batch.is_done


def test_a_batch_that_waits_for_a_broker_sets_no_timer() -> None:
    accumulator, sequences = new_accumulator(), identified()
    queue = full_batches(accumulator, 1)
    accumulator.put_back(send(accumulator, sequences, queue), 20)
    assert accumulator.deadline(19) == 20
    assert accumulator.deadline(20) == 1000  # nothing but its end


def test_partitions_take_turns() -> None:
    accumulator, sequences = new_accumulator(), identified()
    first = full_batches(accumulator, 2)
    second = fill(accumulator, 2, size=200, partition=TopicPartition("t", 1))
    assert accumulator.ready(0) == [first, second]
    send(accumulator, sequences, first)
    assert accumulator.ready(0) == [second, first]
