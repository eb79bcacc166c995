"""The checkers of transactions find what they are there to find."""

from __future__ import annotations

import pytest

from ottla import records
from ottla.records import Record
from ottla.sim.checkers import Content, Violation
from ottla.sim.transaction_history import CLIENT, Attempt, LoggedTransactions, Partition, TransactionHistory
from ottla.sim.transaction_reader import Fetch, committed
from ottla.sim.transaction_workload import Place, tokens

A: Partition = ("topic", 0)
B: Partition = ("topic", 1)
ONE: Content = (b"key", b"one")
TWO: Content = (b"key", b"two")


def history(*, is_commit: bool | None = None) -> tuple[TransactionHistory, Attempt]:
    """A transaction with a record in each of two partitions."""
    made = TransactionHistory()
    attempt = made.begin("attempt")
    for partition, content in ((A, ONE), (B, TWO)):
        made.write(attempt, partition, [content])
        made.acknowledge(partition, 0, [content])
    attempt.is_commit_asked = is_commit is not False
    if is_commit is not None:
        made.conclude(attempt, is_commit, CLIENT, "the coordinator said so")
    return made, attempt


def test_a_transaction_that_is_there_as_a_whole_or_not_at_all_is_right() -> None:
    made, attempt = history(is_commit=True)
    made.see(A, 0, 2, {0: ONE})
    made.see(B, 0, 2, {0: TWO})
    made.check_all({A: {0: ONE}, B: {0: TWO}})
    made, attempt = history()
    made.see(A, 0, 2, {})
    made.see(B, 0, 2, {})
    made.check_all({A: {}, B: {}})
    assert attempt.is_committed is False


def test_a_lost_write_is_found_out() -> None:
    with pytest.raises(Violation, match="lost"):
        history(is_commit=True)[0].see(A, 0, 2, {})
    with pytest.raises(Violation, match="lost"):
        history(is_commit=True)[0].check_all({A: {}, B: {0: TWO}})


def test_an_aborted_read_is_found_out() -> None:
    with pytest.raises(Violation, match="aborted-read"):
        history(is_commit=False)[0].see(A, 0, 2, {0: ONE})
    with pytest.raises(Violation, match="aborted-read"):
        history(is_commit=False)[0].check_all({A: {0: ONE}, B: {}})
    made, attempt = history()
    made.see(A, 0, 2, {0: ONE})
    with pytest.raises(Violation, match="aborted-read"):
        made.conclude(attempt, False, CLIENT, "the coordinator said so")


def test_a_torn_transaction_is_found_out() -> None:
    made, _ = history()
    made.see(A, 0, 2, {0: ONE})
    with pytest.raises(Violation, match="torn"):
        made.see(B, 0, 2, {})
    made, _ = history()
    made.see(A, 0, 2, {})
    with pytest.raises(Violation, match="torn"):
        made.see(B, 0, 2, {0: TWO})


def test_a_record_that_is_read_twice_or_was_never_sent_is_found_out() -> None:
    made, _ = history(is_commit=True)
    with pytest.raises(Violation, match="twice"):
        made.see(A, 0, 3, {0: ONE, 2: ONE})
    with pytest.raises(Violation, match="invented"):
        made.see(A, 0, 3, {0: TWO})
    with pytest.raises(Violation, match="reused"):
        made.acknowledge(A, 0, [TWO])


def test_a_token_in_two_places_is_found_out() -> None:
    found: dict[Partition, dict[int, Content]] = {
        A: {0: (b"id-0", b"here 0 x"), 1: (b"id-0", b"gone 1 x"), 2: (b"id-1", b"here 0 x")},
        B: {0: (b"id-0", b"here 1 x")},
    }
    assert tokens(found, "id-") == {"id-0": Place(B, 1), "id-1": Place(A, 0)}
    del found[A][1]
    with pytest.raises(Violation, match="sum"):
        tokens(found, "id-")


def data(offset: int, epoch: int, *, sequence: int = 0, producer_id: int = 7) -> bytes:
    return bytes(
        records.build(
            [Record(0, 0, b"key", b"%d" % offset, ())],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
    )


def marker(offset: int, epoch: int, *, is_commit: bool, producer_id: int = 7) -> bytes:
    return bytes(
        records.end_txn_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            is_commit=is_commit,
            coordinator_epoch=0,
            timestamp=0,
            base_offset=offset,
        )
    )


def logged(*batches: bytes) -> LoggedTransactions:
    log = LoggedTransactions("topic-0")
    log.read(b"".join(batches))
    return log


def test_a_batch_behind_the_marker_of_its_epoch_is_a_leak() -> None:
    assert logged(data(0, 0), marker(1, 0, is_commit=True), data(2, 0, sequence=1)).open == {7: 2}
    with pytest.raises(Violation, match="leak"):
        logged(data(0, 0), marker(1, 1, is_commit=True), data(2, 0, sequence=1))
    with pytest.raises(Violation, match="sequence"):
        logged(data(0, 0), marker(1, 1, is_commit=True), data(2, 1, sequence=1))
    with pytest.raises(Violation, match="epoch"):
        logged(data(0, 1), marker(1, 0, is_commit=True))


def test_a_transaction_without_an_end_is_found_out() -> None:
    logged(data(0, 0), marker(1, 1, is_commit=True)).check_over()
    with pytest.raises(Violation, match="hanging"):
        logged(data(0, 0)).check_over()


def test_the_list_of_aborted_transactions_is_checked() -> None:
    log = logged(data(0, 0), marker(1, 1, is_commit=False), data(2, 1), marker(3, 2, is_commit=True))
    log.check_aborted(0, 4, [(7, 0)], 4)
    log.check_aborted(2, 4, [], 4)
    with pytest.raises(Violation, match="missing"):
        log.check_aborted(0, 4, [], 4)
    with pytest.raises(Violation, match="names"):
        log.check_aborted(0, 4, [(7, 0), (7, 2)], 4)
    with pytest.raises(Violation, match="names"):
        log.check_aborted(2, 4, [(7, 0)], 4)


def test_a_reader_leaves_out_what_was_aborted_and_nothing_else() -> None:
    batches = [
        data(0, 0),
        data(1, 0, producer_id=8),
        marker(2, 1, is_commit=False),
        data(3, 1),
        marker(4, 1, is_commit=True, producer_id=8),
        marker(5, 2, is_commit=True),
    ]
    whole = b"".join(batches)
    assert committed(Fetch(whole, 6, 6, 6, [(7, 0)]), 0) == {1: (b"key", b"1"), 3: (b"key", b"3")}
    assert committed(Fetch(whole, 6, 6, 6, [(7, 0)]), 2) == {3: (b"key", b"3")}
    assert list(committed(Fetch(whole, 6, 6, 6, []), 0)) == [0, 1, 3]
