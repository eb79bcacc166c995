"""ProducerState: Kafka's rules for sequences, epochs, transactions, expiry and snapshots."""

from __future__ import annotations

import pytest

from ottla.records import crc32c
from ottla.records.batch import MAX_PRODUCER_EPOCH, MAX_SEQUENCE
from ottla.replication import CorruptSnapshot, Origin, ProducerState
from ottla.replication.producers import decode_snapshot
from ottla.wire.errors import ErrorCode, KafkaError

DAY_MS = 86_400_000


class Partition:
    """Batches of one record each, appended one after the other."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.offset = 0

    def send(
        self,
        sequence: int,
        count: int = 1,
        *,
        producer: int = 7,
        epoch: int = 0,
        timestamp: int = 0,
        origin: Origin = Origin.CLIENT,
        is_transactional: bool = False,
    ) -> int | None:
        """The offset given, or None for a duplicate."""
        last = sequence + count - 1
        if last > MAX_SEQUENCE:
            last -= MAX_SEQUENCE + 1
        if self.state.check(producer, epoch, sequence, last, self.offset, origin) is not None:
            return None
        if origin == Origin.CLIENT:
            self.state.check_transaction(producer, is_transactional)
        base = self.offset
        self.state.replay(producer, epoch, last, base, base + count - 1, timestamp, is_transactional)
        self.offset += count
        return base

    def refused(self, sequence: int, **options: object) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            self.send(sequence, **options)  # type: ignore[arg-type]
        return caught.value.code

    def end(self, *, producer: int = 7, epoch: int = 0, is_abort: bool = False, coordinator_epoch: int = 0) -> int:
        completed = self.state.replay_marker(producer, epoch, coordinator_epoch, self.offset, 0, is_abort)
        lso = -1
        if completed is not None:
            lso = self.state.last_stable_offset_after(completed)
            self.state.complete(completed)
        self.offset += 1
        return lso


def test_sequences_follow_each_other() -> None:
    partition = Partition()
    assert partition.send(0, 3) == 0
    assert partition.send(3) == 3
    assert partition.refused(5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.refused(2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.send(4) == 4
    assert partition.state.end_offset == 5


def test_an_unknown_producer_may_start_at_any_sequence() -> None:
    assert Partition().send(17) == 0


def test_the_last_five_batches_are_recognised() -> None:
    partition = Partition()
    for sequence in range(0, 12, 2):
        partition.send(sequence, 2)
    for sequence in range(2, 12, 2):
        found = partition.state.check(7, 0, sequence, sequence + 1, 99)
        assert found is not None and (found.base_offset, found.last_offset) == (sequence, sequence + 1)
        assert found.base_sequence == sequence
    assert partition.refused(0, count=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.refused(2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "only the very same batch is a repetition"


def test_sequences_wrap_after_the_largest() -> None:
    partition = Partition()
    partition.send(MAX_SEQUENCE - 1, 4)
    assert partition.state.producers[7].last_sequence == 1
    assert partition.send(MAX_SEQUENCE - 1, 4) is None
    assert partition.send(2) == 4
    partition = Partition()
    partition.send(MAX_SEQUENCE)
    assert partition.refused(1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.send(0) == 1


def test_a_new_epoch_starts_at_zero_and_fences_the_old() -> None:
    partition = Partition()
    partition.send(0)
    assert partition.refused(1, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.send(0, epoch=1) == 1
    assert partition.refused(1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.refused(0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.send(1, epoch=1) == 2


def test_replication_accepts_history_and_the_coordinator_any_sequence() -> None:
    partition = Partition()
    partition.send(5, epoch=3)
    assert partition.send(0, epoch=3, origin=Origin.COORDINATOR) == 1
    with pytest.raises(KafkaError):
        partition.send(0, epoch=2, origin=Origin.COORDINATOR)
    assert partition.send(9, epoch=2, origin=Origin.REPLICATION) == 2
    assert partition.state.producers[7].epoch == 2


def test_an_open_transaction_bounds_what_is_stable() -> None:
    partition = Partition()
    state = partition.state
    assert not state.ongoing
    partition.send(0, producer=1)
    partition.send(0, producer=2, is_transactional=True)
    partition.send(0, producer=3, is_transactional=True)
    partition.send(1, producer=2, is_transactional=True)
    assert (state.first_unstable_offset, state.first_undecided_offset) == (1, 1)
    assert state.has_ongoing_transaction(2, 0) and not state.has_ongoing_transaction(2, 1)
    assert partition.end(producer=2, is_abort=True) == 2
    assert (state.first_unstable_offset, state.first_undecided_offset) == (1, 2)
    state.advance_high_watermark(4)
    assert state.first_unstable_offset == 1, "the marker at offset 4 is not below the high watermark"
    state.advance_high_watermark(5)
    assert state.first_unstable_offset == 2
    assert partition.end(producer=3) == 6
    state.advance_log_start(6)
    assert state.first_unstable_offset is None and state.is_empty() is False


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    partition = Partition()
    partition.send(0, is_transactional=True)
    assert partition.refused(1) == ErrorCode.INVALID_TXN_STATE
    partition.end()
    assert partition.send(1) == 2


def test_a_marker_without_data_completes_nothing() -> None:
    partition = Partition()
    assert partition.end() == -1
    assert partition.state.producers[7].epoch == 0
    assert partition.send(0) == 1


def test_a_bumped_epoch_in_a_marker_forgets_the_batches() -> None:
    partition = Partition()
    partition.send(0, 4, is_transactional=True)
    partition.end(epoch=1)
    assert partition.refused(4, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.send(0, epoch=1) == 5


def marker_refused(state: ProducerState, epoch: int, coordinator_epoch: int = 0, version: int = 0) -> ErrorCode | None:
    try:
        state.check_marker(7, epoch, coordinator_epoch, transaction_version=version)
    except KafkaError as error:
        return error.code
    return None


def test_markers_are_fenced_by_producer_and_coordinator_epochs() -> None:
    partition = Partition()
    state = partition.state
    assert marker_refused(state, 0) is None
    partition.send(0, epoch=3, is_transactional=True)
    assert marker_refused(state, 2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert marker_refused(state, 3) is None
    assert marker_refused(state, 3, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH, "version 2 bumps the epoch"
    assert marker_refused(state, 4, version=2) is None
    partition.end(epoch=4, coordinator_epoch=5)
    assert marker_refused(state, 4, 5, version=2) is None, "a retry of a marker whose transaction is over"
    assert marker_refused(state, 4, 4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    state.check_marker(7, 0, 0, Origin.REPLICATION)
    partition.send(0, epoch=MAX_PRODUCER_EPOCH, is_transactional=True)
    assert marker_refused(state, MAX_PRODUCER_EPOCH, 5, version=2) is None, "the epoch cannot rise any more"


def test_a_transaction_is_verified_before_its_first_batch() -> None:
    partition = Partition()
    state = partition.state
    verification = state.begin_verification(0, 7, 3, 0)
    assert verification is not None
    assert state.begin_verification(0, 7, 2, 0) is verification and verification.lowest_sequence == 2
    assert partition.refused(3, is_transactional=True) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.begin_verification(0, 7, 5, 1) is verification and verification.lowest_sequence == 5
    assert state.begin_verification(0, 7, 9, 0) is verification and verification.epoch == 1
    assert partition.send(5, epoch=1, is_transactional=True) == 0
    assert not state.verifications
    assert state.begin_verification(0, 7, 6, 1) is None
    state.begin_verification(0, 8, 2, 0, supports_epoch_bump=True)
    assert partition.refused(2, producer=8, is_transactional=True) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.send(0, producer=9) == 1
    assert partition.send(1, producer=9) == 2
    partition.end(producer=8)
    assert not state.verifications


def test_a_late_retry_does_not_stand_in_the_way_of_the_next_transaction() -> None:
    partition = Partition()
    state = partition.state
    partition.send(0, is_transactional=True)
    partition.send(1, is_transactional=True)
    partition.end()
    verification = state.begin_verification(0, 7, 0, 0)
    assert verification is not None and verification.lowest_sequence == 2
    assert partition.send(0, is_transactional=True) is None, "recognised"
    assert partition.send(2, is_transactional=True) == 3


def test_a_late_batch_of_an_epoch_that_is_over_puts_no_batch_of_the_next_out_of_order() -> None:
    partition = Partition()
    partition.send(0, epoch=1, is_transactional=True)
    assert partition.state.begin_verification(0, 7, 0, 0) is not None
    assert partition.send(1, epoch=1, is_transactional=True) == 1
    assert partition.refused(0, epoch=0, is_transactional=True) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_refused_verification_ends_unless_a_later_epoch_has_joined_it() -> None:
    state = Partition().state
    verification = state.begin_verification(0, 7, 0, 0)
    assert verification is not None
    state.begin_verification(0, 7, 0, 1)
    state.end_verification(7, 0, verification)
    assert state.verifications == {7: verification}
    state.end_verification(7, 1, verification)
    assert not state.verifications


def test_silent_producers_expire_but_not_inside_a_transaction() -> None:
    partition = Partition()
    state = partition.state
    partition.send(0, producer=1, timestamp=1000)
    partition.send(0, producer=2, timestamp=1000, is_transactional=True)
    partition.send(0, producer=3, timestamp=2000)
    state.begin_verification(1000, 4, 0, 0)
    state.expire(1000 + DAY_MS - 1, DAY_MS)
    assert (sorted(state.producers), len(state), len(state.verifications)) == ([1, 2, 3], 3, 1)
    state.expire(1000 + DAY_MS, DAY_MS)
    assert (sorted(state.producers), len(state.verifications)) == ([2, 3], 0)


def test_a_transaction_its_coordinator_forgot_is_late() -> None:
    partition = Partition()
    state = partition.state
    assert not state.has_late_transaction(10**9, 900_000)
    partition.send(0, timestamp=1000, is_transactional=True)
    assert not state.has_late_transaction(1000 + 900_000 + 300_000, 900_000)
    assert state.has_late_transaction(1001 + 900_000 + 300_000, 900_000)
    del state.producers[7]
    assert not state.has_late_transaction(10**12, 900_000)


def test_a_snapshot_keeps_each_producers_last_batch() -> None:
    partition = Partition()
    for sequence in range(3):
        partition.send(sequence, timestamp=10 + sequence)
    partition.send(0, 2, producer=8, epoch=4, timestamp=20, is_transactional=True)
    partition.state.replay_marker(9, 2, 6, 5, 30, False)
    data = partition.state.encode_snapshot()
    assert data[:2] == b"\x00\x01" and len(data) == 10 + 3 * 46
    state = ProducerState()
    state.load_snapshot(data, 6, timestamp=100, expiration_ms=1000)
    assert (state.end_offset, state.snapshot_offset, state.ongoing) == (6, 6, {3: 8})
    assert (state.producers[7].last_sequence, state.producers[7].last_offset) == (2, 2)
    assert state.check(7, 0, 2, 2, 6) is not None
    assert state.check(7, 0, 3, 3, 6) is None
    with pytest.raises(KafkaError):
        state.check(7, 0, 1, 1, 6)
    assert (state.producers[9].coordinator_epoch, state.producers[9].last_sequence) == (6, -1)
    assert state.encode_snapshot() == data


def test_expired_producers_are_left_out_of_a_loaded_snapshot() -> None:
    partition = Partition()
    partition.send(0, timestamp=10)
    partition.send(0, producer=8, timestamp=10, is_transactional=True)
    state = ProducerState()
    state.load_snapshot(partition.state.encode_snapshot(), 2, timestamp=1010, expiration_ms=1000)
    assert sorted(state.producers) == [8]


def test_any_damage_to_a_snapshot_is_seen() -> None:
    partition = Partition()
    partition.send(0)
    data = partition.state.encode_snapshot()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(damaged))
    for size in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(data[:size])
    body = b"\x7f\xff\xff\xff" + data[10:]
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(b"\x00\x01" + crc32c(body).to_bytes(4, "big") + body)
    assert decode_snapshot(ProducerState().encode_snapshot()) == {}


def test_clearing_forgets_all_producers() -> None:
    partition = Partition()
    partition.send(0, is_transactional=True)
    partition.state.clear(50)
    assert partition.state.is_empty() and partition.state.end_offset == 50
    assert partition.state.first_undecided_offset is None
    partition.state.advance_log_start(60)
    assert partition.state.end_offset == 60
