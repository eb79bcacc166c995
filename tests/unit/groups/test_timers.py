from __future__ import annotations

from random import Random

from ottla.groups.timers import Timers


def due(timers: Timers[str], now: int) -> list[str]:
    """What comes of everything that is due."""
    results = []
    while (operation := timers.pop_due(now)) is not None:
        results.append(operation(now, 0))
    return results


class Recorder:
    """Timers with operations that say their name."""

    def __init__(self) -> None:
        self.timers: Timers[str] = Timers()

    def set(self, name: str, at: int) -> None:
        self.timers.schedule((name,), at, lambda now, timestamp: name)


def test_without_operations_there_is_no_deadline() -> None:
    timers: Timers[str] = Timers()

    assert timers.deadline() is None
    assert timers.pop_due(1_000_000) is None
    assert len(timers) == 0


def test_operations_come_in_the_order_of_their_deadlines() -> None:
    recorder = Recorder()
    recorder.set("second", 20)
    recorder.set("first", 10)
    recorder.set("third", 30)

    assert recorder.timers.deadline() == 10
    assert due(recorder.timers, 25) == ["first", "second"]
    assert recorder.timers.deadline() == 30


def test_operations_of_the_same_millisecond_come_in_the_order_in_which_they_were_set() -> None:
    recorder = Recorder()
    for name in ("c", "a", "b"):
        recorder.set(name, 10)

    assert due(recorder.timers, 10) == ["c", "a", "b"]


def test_an_operation_learns_both_clocks() -> None:
    timers: Timers[tuple[int, int]] = Timers()
    timers.schedule(("key",), 5, lambda now, timestamp: (now, timestamp))

    operation = timers.pop_due(7)

    assert operation is not None
    assert operation(7, 1_700_000_000_000) == (7, 1_700_000_000_000)


def test_an_operation_is_not_due_a_millisecond_early() -> None:
    recorder = Recorder()
    recorder.set("one", 10)

    assert due(recorder.timers, 9) == []
    assert due(recorder.timers, 10) == ["one"]


def test_a_deadline_that_is_moved_on_comes_once_and_later() -> None:
    recorder = Recorder()
    recorder.set("member", 10)
    recorder.set("member", 50)

    assert due(recorder.timers, 49) == []
    assert recorder.timers.deadline() == 50
    assert due(recorder.timers, 50) == ["member"]
    assert due(recorder.timers, 1_000) == []


def test_a_deadline_that_is_moved_forward_comes_once_and_earlier() -> None:
    recorder = Recorder()
    recorder.set("member", 50)
    recorder.set("member", 10)

    assert due(recorder.timers, 10) == ["member"]
    assert due(recorder.timers, 1_000) == []


def test_a_key_set_again_after_an_earlier_deadline_was_used_up_comes_at_its_new_time_only() -> None:
    recorder = Recorder()
    recorder.set("member", 50)
    recorder.set("member", 10)
    assert due(recorder.timers, 10) == ["member"]

    recorder.set("member", 90)  # the entry for 50 is still in the heap

    assert due(recorder.timers, 89) == []
    assert due(recorder.timers, 90) == ["member"]
    assert due(recorder.timers, 1_000) == []


def test_a_cancelled_operation_never_comes() -> None:
    recorder = Recorder()
    recorder.set("member", 10)
    recorder.timers.cancel(("member",))
    recorder.timers.cancel(("nobody",))

    assert ("member",) not in recorder.timers
    assert recorder.timers.deadline() is None
    assert due(recorder.timers, 1_000) == []


def test_an_operation_set_again_after_it_was_cancelled_comes_once() -> None:
    recorder = Recorder()
    recorder.set("member", 10)
    recorder.timers.cancel(("member",))
    recorder.set("member", 10)

    assert due(recorder.timers, 10) == ["member"]


def test_the_latest_operation_of_a_key_is_the_one_that_comes() -> None:
    timers: Timers[str] = Timers()
    timers.schedule(("key",), 10, lambda now, timestamp: "old")
    timers.schedule(("key",), 10, lambda now, timestamp: "new")

    assert due(timers, 10) == ["new"]


def test_schedule_if_absent_leaves_what_is_there() -> None:
    timers: Timers[str] = Timers()
    timers.schedule_if_absent(("key",), 10, lambda now, timestamp: "first")
    timers.schedule_if_absent(("key",), 5, lambda now, timestamp: "second")

    assert due(timers, 5) == []
    assert due(timers, 10) == ["first"]


def test_an_operation_may_set_its_own_key_again() -> None:
    timers: Timers[str] = Timers()

    def again(now: int, timestamp: int) -> str:
        timers.schedule(("key",), now + 10, again)
        return str(now)

    timers.schedule(("key",), 10, again)

    assert due(timers, 10) == ["10"]
    assert timers.deadline() == 20
    assert due(timers, 20) == ["20"]


def test_keys_of_one_millisecond_need_not_be_comparable() -> None:
    timers: Timers[str] = Timers()
    timers.schedule((1, "a"), 10, lambda now, timestamp: "number")
    timers.schedule(("a", 1), 10, lambda now, timestamp: "text")
    timers.schedule((None,), 10, lambda now, timestamp: "none")

    assert due(timers, 10) == ["number", "text", "none"]


def test_clear_forgets_everything() -> None:
    recorder = Recorder()
    recorder.set("member", 10)
    recorder.timers.clear()

    assert recorder.timers.deadline() is None
    assert len(recorder.timers) == 0
    recorder.set("member", 20)
    assert due(recorder.timers, 20) == ["member"]


def test_moving_deadlines_for_ever_takes_no_more_memory() -> None:
    recorder = Recorder()
    for step in range(20_000):
        name = f"member-{step % 10}"
        recorder.timers.cancel((name,))
        recorder.set(name, step + 45_000)
        recorder.set(name, step + 40_000)

    assert len(recorder.timers) == 10
    assert len(recorder.timers._heap) <= 128
    assert sorted(due(recorder.timers, 100_000)) == [f"member-{index}" for index in range(10)]


def test_many_random_changes_agree_with_a_plain_list() -> None:
    rng = Random(4)
    recorder = Recorder()
    expected: dict[str, int] = {}
    now = 0
    for _ in range(5_000):
        name = f"key-{rng.randrange(30)}"
        match rng.randrange(5):
            case 0:
                recorder.timers.cancel((name,))
                expected.pop(name, None)
            case 1:
                now += rng.randrange(20)
                came = due(recorder.timers, now)
                assert sorted(came) == sorted(key for key, at in expected.items() if at <= now)
                assert [expected[key] for key in came] == sorted(expected[key] for key in came)
                for key in came:
                    del expected[key]
            case _:
                at = now + rng.randrange(100)
                recorder.set(name, at)
                expected[name] = at
        assert recorder.timers.deadline() == min(expected.values(), default=None)
        assert len(recorder.timers) == len(expected)
