"""The checkers find what they are there to find: a checker that never complains proves nothing."""

from __future__ import annotations

import random
import struct

import pytest

from ottla.sim.checkers import Content, History, Violation, check_batches, check_indexes, check_once_in_order
from ottla.sim.client import batch_of
from ottla.sim.disk import Device

A: Content = (b"k", b"a")
B: Content = (b"k", b"b")
C: Content = (b"other", b"c")
PREFIX = "/data/topic-0/00000000000000000000"


def history() -> History:
    made = History("topic-0")
    made.acknowledge(0, [A, B, C])
    return made


@pytest.mark.parametrize(
    ("checker", "found", "start", "end"),
    [
        ("lost", [(0, A), (1, B)], 0, 2),
        ("gap", [(0, A), (2, C)], 0, 3),
        ("short", [(0, A), (1, B)], 0, 3),
        ("wrong", [(0, A), (1, A), (2, C)], 0, 3),
        ("invented", [(0, A), (1, B), (2, C), (3, A)], 0, 4),
        ("bounds", [], 4, 3),
    ],
)
def test_a_log_that_breaks_its_promise_is_found_out(
    checker: str, found: list[tuple[int, Content]], start: int, end: int
) -> None:
    with pytest.raises(Violation, match=checker):
        history().check_log(found, start, end)


def test_a_log_may_hold_what_was_sent_and_never_answered() -> None:
    made = history()
    made.doubt([(None, b"unanswered")])
    made.check_log([(0, A), (1, B), (2, C), (3, (None, b"unanswered"))], 0, 4)


def test_an_offset_given_twice_and_a_record_that_changed_are_found_out() -> None:
    made = history()
    with pytest.raises(Violation, match="reused"):
        made.acknowledge(2, [A])
    made.see([(0, A)])
    with pytest.raises(Violation, match="changed"):
        made.see([(0, B)])
    made.see_high_watermark(3)
    with pytest.raises(Violation, match="watermark"):
        made.see_high_watermark(2)


def test_after_a_power_loss_only_what_was_synced_is_promised() -> None:
    made = History("topic-0")
    made.acknowledge(0, [A], is_synced=True)
    made.acknowledge(1, [B])
    made.power_lost()
    made.check_log([(0, A)], 0, 1)
    with pytest.raises(Violation, match="lost"):
        made.check_log([], 0, 0)


def test_a_compacted_log_keeps_the_latest_of_each_key_and_no_key_rises_again() -> None:
    made = history()
    made.check_compacted([(1, B), (2, C)])
    with pytest.raises(Violation, match="compacted"):
        made.check_compacted([(0, A), (2, C)])
    made.acknowledge(3, [(b"k", None)])
    made.check_compacted([(2, C), (3, (b"k", None))])
    made.check_compacted([(2, C)])
    with pytest.raises(Violation, match="risen"):
        made.check_compacted([(1, B), (2, C)])


def test_a_record_twice_or_out_of_order_is_not_exactly_once() -> None:
    check_once_in_order("topic-0", [(0, A), (1, B)], [A, B])
    for found in ([(0, A), (1, A), (2, B)], [(0, B), (1, A)], [(0, A)]):
        with pytest.raises(Violation, match="once"):
            check_once_in_order("topic-0", found, [A, B])


def segment(index: bytes, time_index: bytes) -> Device:
    """Two batches of one record each."""
    device = Device(random.Random(1))
    disk = device.mount()
    disk.make_directory("/data/topic-0")
    batches = [batch_of([b"x"], 100), batch_of([b"y"], 90)]
    batches[1][:8] = (1).to_bytes(8, "big")
    disk.open(f"{PREFIX}.log", create=True).write(0, b"".join(batches))
    disk.open(f"{PREFIX}.index", create=True).write(0, index)
    disk.open(f"{PREFIX}.timeindex", create=True).write(0, time_index)
    return device


def test_indexes_must_point_at_their_batches_and_tell_the_largest_timestamp() -> None:
    size = len(batch_of([b"x"], 100))
    right = struct.pack(">ii", 1, size), struct.pack(">qi", 100, 0)
    device = segment(*right)
    check_batches(device, "/data/topic-0")
    check_indexes(device, "/data/topic-0")
    with pytest.raises(Violation, match="index"):
        check_indexes(segment(struct.pack(">ii", 1, size + 1), right[1]), "/data/topic-0")
    with pytest.raises(Violation, match="timeindex"):
        check_indexes(segment(right[0], struct.pack(">qi", 90, 1)), "/data/topic-0")
    device.rot(f"{PREFIX}.log", position=size + 65)
    with pytest.raises(Violation, match="crc"):
        check_batches(device, "/data/topic-0")
