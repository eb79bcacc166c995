from __future__ import annotations

from random import Random

from ottla.groups.offsets_committed import CommittedOffsets
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue


class Log:
    """Committed offsets, one partition of one group at a time."""

    def __init__(self) -> None:
        self.offsets = CommittedOffsets()

    def write(self, offset: int | None, producer_id: int = -1, partition: int = 0, group: str = "g") -> None:
        value = None if offset is None else OffsetCommitValue(offset=offset)
        self.offsets.replay(OffsetCommitKey(group=group, topic="t", partition=partition), value, producer_id)

    def end(self, producer_id: int, *, is_commit: bool = True) -> None:
        self.offsets.complete_transaction(producer_id, is_commit=is_commit)

    def read(self, partition: int = 0, group: str = "g") -> int | None:
        value = self.offsets.of(group).get("t", {}).get(partition)
        return None if value is None else value.offset

    @property
    def is_pending(self) -> bool:
        return self.offsets.is_pending("g", "t", 0)

    def check(self) -> None:
        """I1 and I2."""
        offsets = self.offsets
        assert offsets.count == len(list(offsets))
        assert all(topics and all(topics.values()) for topics in offsets.by_group.values())
        assert all(topics and all(topics.values()) for topics in offsets._pending.values())
        pending = {
            (producer_id, group, topic, partition)
            for group, topics in offsets._pending.items()
            for topic, partitions in topics.items()
            for partition, producers in partitions.items()
            for producer_id in producers
        }
        transactions = {
            (producer_id, *place) for producer_id, places in offsets._transactions.items() for place in places
        }
        assert pending == transactions
        assert all(offsets._transactions.values())


def test_a_later_commit_takes_the_place_of_an_earlier_one() -> None:
    log = Log()
    log.write(1)
    log.write(2)

    assert log.read() == 2
    assert log.offsets.count == 1
    log.check()


def test_a_tombstone_takes_the_offset_away_and_leaves_nothing_behind() -> None:
    log = Log()
    log.write(1)
    log.write(None)
    log.write(None, partition=9)

    assert log.read() is None
    assert log.offsets.count == 0
    assert log.offsets.by_group == {}
    log.check()


def test_an_offset_of_a_transaction_counts_when_the_transaction_commits() -> None:
    log = Log()
    log.write(1)
    log.write(2, producer_id=7)
    assert (log.read(), log.is_pending) == (1, True)
    assert log.offsets.has_transactions("g")

    log.end(7)

    assert (log.read(), log.is_pending) == (2, False)
    assert not log.offsets.has_transactions("g")
    log.check()


def test_an_offset_of_an_aborted_transaction_never_was() -> None:
    log = Log()
    log.write(2, producer_id=7)
    log.end(7, is_commit=False)

    assert (log.read(), log.is_pending, log.offsets.count) == (None, False, 0)
    log.check()


def test_the_end_of_a_transaction_without_offsets_changes_nothing() -> None:
    log = Log()
    log.write(1)
    log.end(99)

    assert log.read() == 1
    log.check()


def test_of_several_offsets_in_a_transaction_the_last_counts() -> None:
    log = Log()
    log.write(2, producer_id=7)
    log.write(3, producer_id=7)
    log.end(7)

    assert log.read() == 3
    log.check()


def test_a_plain_commit_after_a_transactional_one_is_the_younger_even_if_the_marker_comes_last() -> None:
    log = Log()
    log.write(2, producer_id=7)
    log.write(5)
    assert (log.read(), log.is_pending) == (5, True)

    log.end(7)

    assert (log.read(), log.is_pending) == (5, False)
    log.check()


def test_a_transactional_commit_after_a_plain_one_counts_in_the_end() -> None:
    log = Log()
    log.write(2, producer_id=7)
    log.write(5)
    log.write(6, producer_id=7)
    log.end(7)

    assert log.read() == 6


def test_of_two_transactions_the_one_with_the_younger_record_wins_whichever_ends_first() -> None:
    for ends in ((7, 8), (8, 7)):
        log = Log()
        log.write(70, producer_id=7)
        log.write(80, producer_id=8)
        for producer_id in ends:
            log.end(producer_id)
            log.check()

        assert log.read() == 80


def test_a_transaction_that_commits_again_is_younger_than_one_in_between() -> None:
    log = Log()
    log.write(70, producer_id=7)
    log.write(80, producer_id=8)
    log.write(71, producer_id=7)
    log.end(7)
    log.end(8)

    assert log.read() == 71


def test_an_aborted_transaction_does_not_overtake_an_open_one() -> None:
    log = Log()
    log.write(70, producer_id=7)
    log.write(80, producer_id=8)
    log.end(8, is_commit=False)
    log.end(7)

    assert log.read() == 70


def test_a_tombstone_takes_what_is_pending_with_it() -> None:
    log = Log()
    log.write(1)
    log.write(70, producer_id=7)
    log.write(71, producer_id=7, partition=1)
    log.write(80, producer_id=8)
    log.write(None)
    assert not log.is_pending
    log.check()

    log.end(7)
    log.end(8)

    assert (log.read(), log.read(1)) == (None, 71)
    assert log.offsets.transaction_count == 0
    log.check()


def test_transactions_of_one_group_are_not_those_of_another() -> None:
    log = Log()
    log.write(1, producer_id=7, group="a")
    log.write(2, producer_id=8, group="b")
    log.end(7)

    assert log.read(group="a") == 1
    assert log.read(group="b") is None
    assert not log.offsets.has_transactions("a")
    assert log.offsets.has_transactions("b")


def test_many_offsets_share_one_object_for_their_topics_id() -> None:
    offsets = CommittedOffsets()
    for partition in range(3):
        value = OffsetCommitValue(offset=1, topic_id=bytes(bytearray(b"x" * 16)))
        offsets.replay(OffsetCommitKey(group="g", topic="t", partition=partition), value)

    assert len({id(value.topic_id) for _, _, _, value in offsets}) == 1
    offsets.forget_topic_id(b"x" * 16)
    assert offsets._topic_ids == {}


def test_random_logs_agree_with_kafkas_rule_of_record_offsets() -> None:
    """Kafka keeps each record's offset and lets the higher one win; here the order of records says the same."""
    for seed in range(300):
        rng = Random(seed)
        log = Log()
        committed: dict[int, tuple[int, int]] = {}
        pending: dict[int, dict[int, tuple[int, int]]] = {}
        for record_offset in range(60):
            partition, producer_id = rng.randrange(2), rng.randrange(3)
            match rng.randrange(6):
                case 0 | 1:
                    log.write(record_offset, partition=partition)
                    committed[partition] = record_offset, record_offset
                case 2 | 3:
                    log.write(record_offset, producer_id, partition)
                    pending.setdefault(producer_id, {})[partition] = record_offset, record_offset
                case 4:
                    is_commit = rng.random() < 0.7
                    log.end(producer_id, is_commit=is_commit)
                    for place, entry in pending.pop(producer_id, {}).items():
                        if is_commit and (place not in committed or entry[0] > committed[place][0]):
                            committed[place] = entry
                case _:
                    log.write(None, partition=partition)
                    committed.pop(partition, None)
                    for places in pending.values():
                        places.pop(partition, None)
            log.check()
            assert {place: log.read(place) for place in committed} == {
                place: offset for place, (_, offset) in committed.items()
            }
            assert log.offsets.count == len(committed)
            for place in range(2):
                is_pending = any(place in places for places in pending.values())
                assert log.offsets.is_pending("g", "t", place) == is_pending
