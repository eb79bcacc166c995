"""Which letters of a share partition are at the end of its queue."""

from __future__ import annotations

import pytest

from ottla.groups.share.dead_letters import LetterSource, letter
from ottla.groups.share.letter_search import FIRST_WINDOW, LetterSearch
from ottla.groups.share.partition import LetterRange
from ottla.records import Record, build, end_txn_marker, split
from ottla.wire.errors import KafkaError

SOURCE = LetterSource("workers", "jobs", 3)
MINE, OTHER = 7, 8


class Queue:
    """A queue's log, and the reads of a search in it."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end_offset = 0
        self.reads: list[int] = []

    def _add(self, batch: bytes | bytearray, count: int) -> None:
        placed = bytearray(batch)
        placed[:8] = self.end_offset.to_bytes(8, "big")
        self.batches.append(bytes(placed))
        self.end_offset += count

    def letters(self, *offsets: int, producer_id: int = MINE) -> None:
        made = [letter(SOURCE, one, LetterRange(one, one, 1, True), None, 1) for one in offsets]
        self._add(build(made, producer_id=producer_id, producer_epoch=0, base_sequence=0), len(offsets))

    def others(self, count: int) -> None:
        for _ in range(count):
            self._add(build([Record(value=b"x")], producer_id=OTHER, producer_epoch=0, base_sequence=0), 1)

    def marker(self, epoch: int = 1) -> None:
        self._add(
            end_txn_marker(producer_id=MINE, producer_epoch=epoch, is_commit=False, coordinator_epoch=0, timestamp=1),
            1,
        )

    def read(self, offset: int, max_bytes: int) -> bytes:
        self.reads.append(offset)
        data = b"".join(self.batches)
        at = next((at for at, header in split(data) if header.last_offset >= offset), len(data))
        return data[at : at + max_bytes]

    def search(self, *wanted: tuple[int, int], source_start: int = 0, max_bytes: int = 100_000) -> list[int]:
        ranges = [LetterRange(first, last, 1, False) for first, last in wanted]
        search = LetterSearch(MINE, 1, ranges, source_start, 0, self.end_offset)
        while search.offset is not None:
            search.take(self.read(search.offset, max_bytes))
        return sorted(search.found)


def test_letters_before_the_marker_are_found_and_those_of_others_are_not() -> None:
    queue = Queue()
    queue.letters(1, 2)
    queue.letters(5, producer_id=OTHER)
    queue.others(3)
    queue.letters(4)
    queue.marker()
    assert queue.search((1, 5)) == [1, 2, 4]


def test_the_search_ends_at_a_letter_whose_record_is_archived() -> None:
    queue = Queue()
    queue.letters(3)
    queue.others(10 * FIRST_WINDOW)
    queue.letters(9)  # archived: so is everything with an earlier letter
    queue.letters(10)
    queue.marker()
    assert queue.search((3, 3), (10, 11)) == [10]
    assert min(queue.reads) >= 9 * FIRST_WINDOW, "only the end of the queue is read"


def test_a_letter_of_a_record_that_its_topic_dropped_does_not_end_the_search() -> None:
    queue = Queue()
    queue.letters(10)
    queue.letters(3)
    queue.marker()
    assert queue.search((10, 10), source_start=5) == [10]
    assert queue.search((10, 10), source_start=3) == []


@pytest.mark.parametrize("max_bytes", [5_000, 100_000, 10_000_000])
def test_a_long_queue_is_read_backwards_in_growing_windows(max_bytes: int) -> None:
    queue = Queue()
    queue.letters(*range(20))
    queue.others(6 * FIRST_WINDOW)
    queue.letters(*range(20, 40))
    queue.marker()
    assert queue.search((0, 50), max_bytes=max_bytes) == list(range(40))


def test_all_letters_found_end_the_search_before_the_queue_is_read() -> None:
    queue = Queue()
    queue.others(3 * FIRST_WINDOW)
    queue.letters(1)
    queue.marker()
    assert queue.search((1, 1)) == [1] and min(queue.reads) >= 2 * FIRST_WINDOW


def test_a_leader_that_does_not_have_the_marker_is_not_believed() -> None:
    queue = Queue()
    queue.letters(1)
    with pytest.raises(KafkaError, match="marker"):
        queue.search((1, 2))
    queue.marker(epoch=0)  # of an earlier leader
    with pytest.raises(KafkaError, match="marker"):
        queue.search((1, 2))


def test_a_leader_without_the_end_of_the_queue_is_not_believed() -> None:
    queue = Queue()
    queue.marker()
    search = LetterSearch(MINE, 1, [LetterRange(1, 1, 1, False)], 0, 0, 5)
    search.take(queue.read(0, 1_000))
    with pytest.raises(KafkaError, match="no records"):
        search.take(b"")
