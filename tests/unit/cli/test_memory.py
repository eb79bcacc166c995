"""When a node gives memory back to the operating system."""

from __future__ import annotations

from ottla.cli.memory import IDLE_SHARE, LOOK_S, WORTH_BYTES, IdleMemory

START = 60_000_000
BUSY_S, IDLE_S = LOOK_S * IDLE_SHARE * 2, LOOK_S * IDLE_SHARE / 2


class Process:
    """A process that needs `used` bytes and has kept others."""

    def __init__(self) -> None:
        self.used = START
        self.kept = 0
        self.cpu_s = 0.0
        self.trims = 0
        self.memory = IdleMemory(lambda: self.used + self.kept, self.trim, lambda: self.cpu_s)

    def trim(self) -> None:
        self.kept = 0
        self.trims += 1

    def look_after(self, cpu_s: float) -> int:
        self.cpu_s += cpu_s
        self.memory.look()
        return self.trims


def test_what_large_requests_left_is_given_back_when_the_process_is_idle() -> None:
    process = Process()
    process.kept = WORTH_BYTES
    assert process.look_after(BUSY_S) == 0
    assert process.look_after(IDLE_S) == 1
    assert process.look_after(IDLE_S) == 1
    process.kept = WORTH_BYTES - 1
    assert process.look_after(IDLE_S) == 1


def test_memory_that_is_in_use_is_tried_once() -> None:
    process = Process()
    process.used += 2 * WORTH_BYTES
    assert [process.look_after(IDLE_S) for _ in range(3)] == [1, 1, 1]
    process.used -= 2 * WORTH_BYTES
    assert process.look_after(IDLE_S) == 1
    process.kept = WORTH_BYTES
    assert process.look_after(IDLE_S) == 2
