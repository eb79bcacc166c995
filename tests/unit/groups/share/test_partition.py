"""The records that a share group has in flight: scenarios, and any order of events against a model with one entry for
each record."""

from __future__ import annotations

from random import Random

import pytest

from ottla.groups.share import partition
from ottla.groups.share.partition import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    Change,
    DeliveryState,
    LetterRange,
    SharePartition,
    StateBatch,
    in_batches,
)
from ottla.wire.errors import ErrorCode, KafkaError

LOCK_MS = 1_000
GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = DeliveryState


class Partition(SharePartition):
    """With one batch per fetch and the arguments that most tests do not care for."""

    def __init__(self, start: int = 0, *rows: StateBatch, deliveries: int = 3, in_flight: int = 100) -> None:
        super().__init__(start, rows, max_delivery_count=deliveries, max_in_flight=in_flight, lock_duration_ms=LOCK_MS)

    def take(self, member: str, last: int, count: int = 100, *, now: int = 0, is_strict: bool = True) -> list[Acquired]:
        at = self.next_fetch_offset
        acquired = self.acquire(member, at, [(at, last)] if at <= last else [], count, is_strict=is_strict, now=now)
        self.check()
        return acquired

    def say(self, member: str, first: int, last: int, *kinds: int, now: int = 0) -> Change | None:
        try:
            return self.acknowledge(member, [Acknowledgement(first, last, kinds)], now)
        finally:
            self.check()

    def done(self, member: str, first: int, last: int, *kinds: int) -> None:
        change = self.say(member, first, last, *kinds)
        assert change is not None
        self.finish(change.id, is_written=True)
        self.check()

    def ended(self, change: Change | None) -> tuple[StateBatch, ...]:
        """What is written of locks that ended, which then count."""
        self.check()
        if change is None:
            return ()
        self.finish(change.id, is_written=True)
        self.check()
        return change.batches

    def refused(self, member: str, first: int, last: int, *kinds: int) -> ErrorCode:
        before = self.state_batches(), self.acquired_count
        with pytest.raises(KafkaError) as caught:
            self.say(member, first, last, *kinds)
        assert (self.state_batches(), self.acquired_count) == before
        return caught.value.code


def test_a_record_is_handed_out_to_one_member_at_a_time_and_done_when_it_is_accepted() -> None:
    queue = Partition()
    assert queue.take("a", 9, 4) == [Acquired(0, 3, 1)]
    assert queue.take("b", 9, 4) == [Acquired(4, 7, 1)]
    assert (queue.start_offset, queue.end_offset, queue.next_fetch_offset) == (0, 8, 8)
    queue.done("b", 4, 7, ACCEPT)
    assert (queue.start_offset, queue.delivery_complete_count) == (0, 4)
    queue.done("a", 0, 3, ACCEPT)
    assert (queue.start_offset, queue.end_offset, queue.in_flight_count) == (8, 8, 0)
    assert queue.take("a", 9) == [Acquired(8, 9, 1)]


def test_what_is_released_comes_back_until_the_limit_of_deliveries() -> None:
    queue = Partition(deliveries=2)
    queue.take("a", 1)
    queue.done("a", 0, 1, RELEASE, ACCEPT)
    assert queue.next_fetch_offset == 0
    assert queue.take("b", 1) == [Acquired(0, 0, 2)]
    change = queue.say("b", 0, 0, RELEASE)
    assert change is not None and change.batches == (StateBatch(0, 0, ARCHIVED, 2),)
    queue.finish(change.id, is_written=True)
    assert (queue.start_offset, queue.in_flight_count) == (2, 0)


def test_each_record_may_be_said_something_else_of() -> None:
    queue = Partition()
    queue.take("a", 4)
    change = queue.say("a", 0, 4, ACCEPT, ACCEPT, REJECT, RELEASE, GAP)
    assert change == Change(
        1,
        0,
        (
            StateBatch(0, 1, ACKNOWLEDGED, 1),
            StateBatch(2, 2, ARCHIVED, 1),
            StateBatch(3, 3, AVAILABLE, 1),
            StateBatch(4, 4, ARCHIVED, 1),
        ),
        archived_count=1,
    )
    queue.finish(change.id, is_written=True)
    assert (queue.start_offset, queue.end_offset, queue.delivery_complete_count) == (3, 5, 1)
    assert queue.state_batches() == [StateBatch(3, 3, AVAILABLE, 1), StateBatch(4, 4, ARCHIVED, 1)]


def test_an_acknowledgement_counts_when_it_is_written() -> None:
    queue = Partition()
    queue.take("a", 3)
    change = queue.say("a", 1, 2, RELEASE)
    assert change is not None
    assert queue.next_fetch_offset == 4, "records whose state is being written are not available"
    assert queue.refused("a", 1, 1, ACCEPT) is ErrorCode.INVALID_RECORD_STATE
    assert queue.ended(queue.expire(LOCK_MS)) == (StateBatch(0, 0, AVAILABLE, 1), StateBatch(3, 3, AVAILABLE, 1))
    queue.finish(change.id, is_written=False)
    queue.check()
    assert queue.deadline == LOCK_MS, "acquired as before, by a lock that has ended meanwhile"
    assert queue.ended(queue.expire(LOCK_MS)) == (StateBatch(1, 2, AVAILABLE, 1),)
    assert queue.take("b", 3, now=LOCK_MS) == [Acquired(0, 3, 2)]


def test_a_lock_ends_with_its_time_and_renew_gives_it_more() -> None:
    queue = Partition()
    queue.take("a", 1, now=0)
    assert queue.say("a", 1, 1, RENEW, now=600) is None
    assert queue.deadline == LOCK_MS
    assert queue.expire(LOCK_MS - 1) is None
    assert queue.ended(queue.expire(LOCK_MS)) == (StateBatch(0, 0, AVAILABLE, 1),)
    assert queue.refused("a", 0, 1, ACCEPT) is ErrorCode.INVALID_RECORD_STATE
    queue.done("a", 1, 1, ACCEPT)
    assert queue.deadline is None


def test_a_member_whose_session_ends_releases_all_it_holds_and_that_delivery_counts() -> None:
    queue = Partition(deliveries=2)
    queue.take("a", 5, 2)
    queue.take("b", 5, 2)
    queue.take("a", 5, 2)
    assert queue.ended(queue.release_member("a")) == (StateBatch(0, 1, AVAILABLE, 1), StateBatch(4, 5, AVAILABLE, 1))
    assert queue.take("c", 5) == [Acquired(0, 1, 2), Acquired(4, 5, 2)]
    assert queue.ended(queue.release_member("c")) == (StateBatch(0, 1, ARCHIVED, 2), StateBatch(4, 5, ARCHIVED, 2))
    assert queue.release_member("c") is None
    assert queue.start_offset == 2


def test_no_member_gets_a_record_before_the_end_of_its_last_lock_is_written() -> None:
    queue = Partition()
    queue.take("a", 1)
    change = queue.expire(LOCK_MS)
    assert change is not None and queue.expire(LOCK_MS) is None
    assert queue.take("b", 1, now=LOCK_MS) == []
    assert queue.refused("a", 0, 0, ACCEPT) is ErrorCode.INVALID_RECORD_STATE
    queue.ended(change)
    assert queue.take("b", 1, now=LOCK_MS) == [Acquired(0, 1, 2)]


def test_records_that_were_delivered_often_come_in_small_portions_and_alone_at_last() -> None:
    """As Apache Kafka 4.3.1 does: 5, 5, 5, then 2 of them, and each alone for the fifth time."""
    queue = Partition(deliveries=5)
    for count in (1, 2, 3):
        assert queue.take("a", 4) == [Acquired(0, 4, count)]
        queue.done("a", 0, 4, RELEASE)
    assert queue.take("a", 9) == [Acquired(0, 1, 4)], "and nothing new beside them"
    queue.done("a", 0, 1, RELEASE)
    assert queue.take("a", 9) == [Acquired(0, 0, 5)]
    assert queue.take("b", 9) == [Acquired(1, 1, 5)]
    queue.done("a", 0, 0, ACCEPT)
    queue.done("b", 1, 1, RELEASE)
    assert queue.start_offset == 2, "the first was accepted, the second has used up its deliveries"
    assert queue.take("a", 9) == [Acquired(2, 3, 4)], "portions of what is left are not smaller"
    assert queue.take("a", 9) == [Acquired(4, 4, 4)]
    assert queue.take("a", 9) == [Acquired(5, 9, 1)]


def test_the_size_of_a_portion_depends_on_the_deliveries_alone() -> None:
    """As Apache Kafka 4.3.1 does: each portion of the n-th delivery has the same size."""
    queue = Partition(deliveries=10)
    for _ in range(5):
        [acquired] = queue.take("a", 31)
        queue.done("a", acquired.first_offset, acquired.last_offset, RELEASE)
    sizes: dict[int, set[int]] = {}
    deliveries = 0
    while acquired_now := queue.take("a", 31):
        [(first, last, count)] = acquired_now
        sizes.setdefault(count, set()).add(last - first + 1)
        deliveries += last - first + 1
        queue.done("a", first, last, RELEASE)
    assert sizes == {6: {16}, 7: {8}, 8: {4}, 9: {2}, 10: {1}}
    assert (deliveries, queue.start_offset) == (5 * 32, 32)


def test_a_portion_of_records_that_were_delivered_often_does_not_come_with_others() -> None:
    queue = Partition(0, StateBatch(2, 3, AVAILABLE, 2), deliveries=4)
    assert queue.take("a", 9) == [Acquired(0, 1, 1)]
    assert queue.take("a", 9) == [Acquired(2, 2, 3)]


def test_batches_of_aborted_transactions_are_archived_instead_of_handed_out() -> None:
    queue = Partition()
    fetched = [(0, 3), (4, 5), (6, 9)]
    got = queue.acquire("a", 0, fetched, 100, is_strict=False, now=0, aborted=[(0, 3), (6, 9)])
    queue.check()
    assert got == [Acquired(4, 5, 1)]
    assert (queue.start_offset, queue.end_offset, queue.acquired_count) == (4, 10, 2)
    assert queue.acquire("a", 10, [(10, 12)], 100, is_strict=True, now=0, aborted=[(10, 12)]) == []
    queue.done("a", 4, 5, ACCEPT)
    assert (queue.start_offset, queue.next_fetch_offset) == (13, 13)


def test_a_fetch_reads_no_further_than_it_may_hand_out() -> None:
    queue = Partition(in_flight=10)
    assert queue.reach_offset(4) == 3
    assert queue.reach_offset(50) == 9
    queue.take("a", 9, 4)
    queue.done("a", 1, 2, RELEASE)
    assert queue.reach_offset(1) == 1
    assert queue.reach_offset(2) == 2
    assert queue.reach_offset(5) == 6


def test_what_is_being_written_counts_as_done_for_the_coordinator_only() -> None:
    queue = Partition()
    queue.take("a", 9)
    queue.say("a", 0, 1, ACCEPT)
    assert (queue.planned_complete_count, queue.delivery_complete_count) == (2, 0)


def test_rows_of_an_answer_are_divided_where_record_batches_end() -> None:
    fetched = [(0, 2), (3, 5), (6, 8), (9, 11)]
    assert list(in_batches(Acquired(1, 10, 2), fetched, 4)) == [Acquired(1, 5, 2), Acquired(6, 10, 2)]
    assert list(in_batches(Acquired(1, 10, 2), fetched, 0)) == [Acquired(1, 10, 2)]


@pytest.mark.parametrize(
    ("first", "last", "kinds", "code"),
    [
        (0, 2, (ACCEPT,), ErrorCode.INVALID_RECORD_STATE),  # 2 is of another member
        (3, 4, (ACCEPT,), ErrorCode.INVALID_RECORD_STATE),  # 4 was never handed out
        (9, 9, (ACCEPT,), ErrorCode.INVALID_RECORD_STATE),
        (1, 0, (ACCEPT,), ErrorCode.INVALID_REQUEST),
        (0, 1, (), ErrorCode.INVALID_REQUEST),
        (0, 1, (ACCEPT, ACCEPT, ACCEPT), ErrorCode.INVALID_REQUEST),
        (0, 0, (7,), ErrorCode.INVALID_REQUEST),
        (-1, 0, (ACCEPT,), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_acknowledgement_is_taken_whole_or_not_at_all(
    first: int, last: int, kinds: tuple[int, ...], code: ErrorCode
) -> None:
    queue = Partition()
    queue.take("a", 1)
    queue.take("b", 3)
    assert queue.refused("a", first, last, *kinds) is code
    queue.done("a", 0, 1, ACCEPT)


def test_a_record_is_acknowledged_once_in_a_request() -> None:
    queue = Partition()
    queue.take("a", 3)
    with pytest.raises(KafkaError) as caught:
        queue.acknowledge("a", [Acknowledgement(0, 2, (ACCEPT,)), Acknowledgement(2, 3, (REJECT,))], 0)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    queue.check()
    assert queue.acquired_count == 4


def test_what_is_done_since_long_may_be_acknowledged_again() -> None:
    queue = Partition(50)
    assert queue.say("a", 10, 20, ACCEPT) is None


def test_members_get_whole_batches_unless_they_are_strict() -> None:
    batches = [(0, 9), (10, 19), (20, 29)]
    queue = Partition()
    assert queue.acquire("a", 0, batches, 12, is_strict=False, now=0) == [Acquired(0, 19, 1)]
    strict = Partition()
    assert strict.acquire("a", 0, batches, 12, is_strict=True, now=0) == [Acquired(0, 11, 1)]
    assert strict.acquire("b", 12, batches[1:], 3, is_strict=True, now=0) == [Acquired(12, 14, 1)]


def test_the_window_is_bounded_and_grows_again_when_records_are_done() -> None:
    queue = Partition(in_flight=10)
    assert queue.take("a", 99) == [Acquired(0, 9, 1)]
    assert not queue.can_acquire
    assert queue.take("b", 99) == []
    queue.done("a", 5, 9, ACCEPT)
    assert not queue.can_acquire, "the window begins with records that are not done"
    queue.done("a", 0, 0, RELEASE)
    assert queue.can_acquire
    assert queue.take("b", 99) == [Acquired(0, 0, 2)]
    queue.done("b", 0, 0, ACCEPT)
    queue.done("a", 1, 4, ACCEPT)
    assert queue.take("b", 99) == [Acquired(10, 19, 1)]


def test_offsets_that_were_compacted_away_do_not_hold_up_the_queue() -> None:
    queue = Partition()
    assert queue.acquire("a", 0, [(5, 6), (9, 9)], 100, is_strict=True, now=0) == [Acquired(5, 9, 1)]
    assert queue.start_offset == 5
    queue.done("a", 5, 9, RELEASE)
    assert queue.acquire("a", 5, [(9, 9)], 100, is_strict=True, now=0) == [Acquired(9, 9, 2)]
    assert queue.start_offset == 9
    assert queue.acquire("a", 20, [(20, 21)], 100, is_strict=True, now=0) == [], "records between would be lost"


def test_records_before_the_logs_start_are_gone() -> None:
    queue = Partition()
    queue.take("a", 9)
    change = queue.say("a", 3, 5, ACCEPT)
    assert change is not None
    assert queue.log_start_moved(5)
    queue.check()
    assert not queue.log_start_moved(5)
    assert (queue.start_offset, queue.acquired_count) == (5, 5)
    queue.finish(change.id, is_written=True)
    assert queue.start_offset == 6
    assert queue.log_start_moved(100)
    assert (queue.start_offset, queue.end_offset, queue.deadline) == (100, 100, None)


def test_a_window_is_what_was_stored_of_it() -> None:
    rows = (StateBatch(8, 9, AVAILABLE, 2), StateBatch(3, 4, ACKNOWLEDGED, 1), StateBatch(6, 6, ARCHIVED, 3))
    queue = Partition(4, *rows, deliveries=5)
    assert (queue.start_offset, queue.end_offset) == (5, 10)
    assert queue.take("a", 20, 5) == [Acquired(5, 5, 1), Acquired(7, 7, 1), Acquired(8, 9, 3), Acquired(10, 10, 1)]
    again = Partition(queue.start_offset, *queue.state_batches())
    assert again.take("b", 20, 2) == [Acquired(5, 5, 2), Acquired(7, 7, 2)]


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_events_keeps_every_record_and_its_promises(seed: int) -> None:
    rng = Random(seed)
    queue = Partition(deliveries=3, in_flight=30)
    queue.has_dead_letters = seed % 2 == 1
    queue.backoff_ms, queue.backoff_max_ms = rng.choice((0, 150)), 250
    letters: set[int] = set()

    def write_letters(count: int) -> None:
        ranges = queue.dead_letters(count)
        for one in ranges:
            offsets = set(range(one.first_offset, one.last_offset + 1))
            assert not offsets & (letters | accepted | set(holders)), "written twice, or of a record in other hands"
            letters.update(offsets)
        queue.ended(queue.archive(ranges))

    counts: dict[int, int] = {}
    holders: dict[int, str] = {}
    accepted: set[int] = set()
    changes: list[tuple[Change, dict[int, int]]] = []
    now = 0
    for _ in range(400):
        now += rng.choice((0, 0, 1, 200))
        event = rng.randrange(10)
        member = rng.choice("abc")
        if event < 4:
            for first, last, count in queue.take(member, rng.randrange(120), rng.randrange(1, 9), now=now):
                for offset in range(first, last + 1):
                    assert offset not in holders and offset not in accepted, (
                        "handed out while held, or after it is done"
                    )
                    counts[offset] = counts.get(offset, 0) + 1
                    assert counts[offset] == count <= 3
                    holders[offset] = member
        elif event < 7 and (mine := sorted(offset for offset, holder in holders.items() if holder == member)):
            first = rng.choice(mine)
            last = first
            while last + 1 in mine and rng.random() < 0.7:
                last += 1
            kinds = [rng.choice((ACCEPT, ACCEPT, RELEASE, REJECT)) for _ in range(first, last + 1)]
            change = queue.say(member, first, last, *kinds, now=now)
            assert change is not None
            for offset in range(first, last + 1):
                holders[offset] = "being written"
            changes.append((change, dict(zip(range(first, last + 1), kinds, strict=True))))
        elif event == 7 and changes:
            change, said = changes.pop(rng.randrange(len(changes)))
            is_written = rng.random() < 0.8
            queue.finish(change.id, is_written=is_written)
            queue.check()
            for offset, kind in said.items():
                del holders[offset]
                if is_written and kind is ACCEPT:
                    accepted.add(offset)
                elif not is_written:
                    holders[offset] = "unknown"
            queue.ended(queue.expire(now + LOCK_MS))  # its lock ends, as all others do
            holders = {offset: holder for offset, holder in holders.items() if holder == "being written"}
        elif event == 8:
            change = queue.release_member(member)
            if change is not None and rng.random() < 0.5:
                said = {at: RELEASE for row in change.batches for at in range(row.first_offset, row.last_offset + 1)}
                changes.append((change, said))
                holders.update(dict.fromkeys(said, "being written"))
            else:
                queue.ended(change)
            holders = {offset: holder for offset, holder in holders.items() if holder != member}
        elif event == 9:
            change = queue.expire(now)  # back-offs end, locks too
            for row in change.batches if change is not None else ():
                for offset in range(row.first_offset, row.last_offset + 1):
                    holders.pop(offset, None)
            queue.ended(change)
            write_letters(rng.randrange(6))
        queue.check()
        assert queue.in_flight_count <= 30
        held = {offset for offset in holders if offset >= queue.start_offset}
        assert queue.acquired_count >= len(held)
    for change, _ in changes:
        queue.finish(change.id, is_written=False)
    queue.ended(queue.expire(now + LOCK_MS))
    # Every record that is not accepted is offered again, or has used up its deliveries or was rejected.
    holders = {}
    for _ in range(300):
        queue.ended(queue.expire(now + 2 * LOCK_MS))
        write_letters(100)
        for first, last, _ in queue.take("z", 119, now=now):
            queue.done("z", first, last, ACCEPT)
            accepted.update(range(first, last + 1))
    assert (queue.start_offset, queue.end_offset, queue.letter_count) == (120, 120, 0)
    if queue.has_dead_letters:
        assert letters | accepted == set(range(120)) and not letters & accepted, "one end for each record"
    else:
        assert not letters


def test_with_dead_letters_a_record_that_is_given_up_is_archived_after_its_letter() -> None:
    queue = Partition(deliveries=2)
    queue.has_dead_letters = True
    queue.take("a", 5)
    change = queue.say("a", 0, 5, REJECT, GAP, ACCEPT, RELEASE, REJECT, REJECT)
    assert change is not None and change.archived_count == 0
    assert [row[2] for row in change.batches] == [ARCHIVING, ARCHIVED, ACKNOWLEDGED, AVAILABLE, ARCHIVING]
    assert queue.dead_letters(10) == [], "a letter is written once the rejection is stored"
    queue.finish(change.id, is_written=True)
    assert queue.take("b", 5, now=0) == [Acquired(3, 3, 2)]
    change = queue.expire(LOCK_MS)
    assert change is not None and change.batches == (StateBatch(3, 3, ARCHIVING, 2),)
    queue.finish(change.id, is_written=True)
    queue.check()
    ranges = [LetterRange(0, 0, 1, True), LetterRange(3, 3, 2, False), LetterRange(4, 5, 1, True)]
    assert queue.dead_letters(10) == ranges
    assert queue.dead_letters(3) == [*ranges[:2], LetterRange(4, 4, 1, True)]
    assert (queue.letter_count, queue.start_offset, queue.delivery_complete_count) == (4, 0, 2)
    change = queue.archive(queue.dead_letters(3))
    assert change is not None and change.archived_count == 3
    rows = (StateBatch(0, 0, ARCHIVED, 1), StateBatch(3, 3, ARCHIVED, 2), StateBatch(4, 4, ARCHIVED, 1))
    assert change.batches == rows
    assert (queue.letter_count, queue.start_offset, queue.planned_complete_count) == (1, 0, 5)
    queue.check()
    queue.finish(change.id, is_written=True)
    queue.check()
    assert (queue.start_offset, queue.dead_letters(9)) == (5, [LetterRange(5, 5, 1, True)])
    change = queue.archive(ranges)
    assert change is not None and change.batches == (StateBatch(5, 5, ARCHIVED, 1),)
    queue.finish(change.id, is_written=True)
    assert (queue.start_offset, queue.in_flight_count, queue.archive(ranges)) == (6, 0, None)


def test_letters_that_were_not_written_are_there_after_loading() -> None:
    rows = (StateBatch(3, 4, ARCHIVING, 1), StateBatch(5, 5, ARCHIVING, 3))
    queue = Partition(3, *rows)
    assert queue.dead_letters(10) == [LetterRange(3, 4, 1, True), LetterRange(5, 5, 3, False)]
    assert queue.state_batches() == list(rows)
    assert (queue.next_fetch_offset, queue.start_offset) == (6, 3)


def test_a_rejection_that_could_not_be_stored_leaves_the_record_with_its_member() -> None:
    queue = Partition()
    queue.has_dead_letters = True
    queue.take("a", 0)
    change = queue.say("a", 0, 0, REJECT)
    assert change is not None
    queue.finish(change.id, is_written=False)
    queue.check()
    assert queue.letter_count == 0
    queue.done("a", 0, 0, ACCEPT)
    assert queue.start_offset == 1


def test_a_released_record_waits_longer_each_time() -> None:
    queue = Partition(deliveries=5)
    queue.backoff_ms, queue.backoff_max_ms = 100, 250
    now = 0
    for pause_ms in (100, 200, 250, 250):
        queue.take("a", 1, now=now)
        change = queue.say("a", 0, 0, RELEASE, now=now)
        assert change is not None
        queue.finish(change.id, is_written=True)
        queue.check()
        assert (queue.deadline, queue.next_fetch_offset) == (now + pause_ms, 2), "others are not held up"
        assert queue.expire(now + pause_ms - 1) is None and queue.next_fetch_offset == 2
        now += pause_ms
        assert queue.expire(now) is None and queue.next_fetch_offset == 0
        queue.check()
    assert queue.take("b", 1, now=now) == [Acquired(0, 0, 5)]


def test_a_lock_that_expires_begins_a_back_off_and_a_session_that_ends_does_not() -> None:
    queue = Partition()
    queue.backoff_ms, queue.backoff_max_ms = 100, 1000
    queue.take("a", 0)
    change = queue.expire(LOCK_MS)
    assert change is not None and change.batches == (StateBatch(0, 0, AVAILABLE, 1),)
    queue.finish(change.id, is_written=True)
    assert (queue.deadline, queue.take("b", 0, now=LOCK_MS)) == (LOCK_MS + 100, [])
    assert queue.expire(LOCK_MS + 100) is None
    assert queue.take("b", 0, now=LOCK_MS + 100) == [Acquired(0, 0, 2)]
    change = queue.release_member("b")
    assert change is not None
    queue.finish(change.id, is_written=True)
    assert queue.take("c", 0, now=LOCK_MS + 100) == [Acquired(0, 0, 3)]


def test_an_acknowledgement_looks_at_its_neighbours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """It went through all runs of the window, 1.6 ms with 10,000 of them."""
    count = 4_000
    share = SharePartition(0, max_delivery_count=5, max_in_flight=count, lock_duration_ms=30_000)
    compared = 0
    is_like = partition._Run.is_like

    def counted(run: partition._Run, other: partition._Run) -> bool:
        nonlocal compared
        compared += 1
        return is_like(run, other)

    monkeypatch.setattr(partition._Run, "is_like", counted)
    for offset in range(count):
        share.acquire("ab"[offset % 2], offset, [(offset, offset)], 1, is_strict=True, now=offset)
    assert len(share._runs) == count and compared < 4 * count
    compared = 0
    change = share.acknowledge("b", [Acknowledgement(2_001, 2_001, (AcknowledgeType.RELEASE,))], 0)
    assert change is not None
    share.finish(change.id, is_written=True)
    assert compared < 10 and share.next_fetch_offset == 2_001
    share.check()
