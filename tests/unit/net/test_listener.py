"""Whom a listener takes: limits on connections, and addresses that come too often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.net import Channel, Listener


class Sock:
    def __init__(self) -> None:
        self.is_closed = False

    def recv_into(self, buffer: Any) -> int:
        raise BlockingIOError

    def send(self, data: bytes) -> int:
        raise BlockingIOError

    def close(self) -> None:
        self.is_closed = True


class Listening:
    def __init__(self) -> None:
        self.waiting: list[tuple[Sock, tuple[str, int]]] = []

    def close(self) -> None: ...
    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 9092

    def accept(self) -> tuple[Sock, tuple[str, int]]:
        if not self.waiting:
            raise BlockingIOError
        return self.waiting.pop(0)


class Timer:
    def cancel(self) -> None: ...


class World:
    """A loop that runs nothing by itself, and a listener on it."""

    supports_sendfile = False

    def __init__(
        self,
        hold_ms: Callable[[str], int] = lambda host: 0,
        per_ip: int = 10,
        most: int = 100,
        pause_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.later: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []
        self.listening = Listening()
        self.is_accepting = True
        self.listener = Listener(
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            lambda channel, host, port, tls: self,
            max_frame_bytes=1000,
            max_connections=most,
            max_connections_per_ip=per_ip,
            idle_ms=1000,
            hold_ms=hold_ms,
            pause_ms=pause_ms,
        )
        self.listener.open("127.0.0.1", 0)

    def frame_received(self, frame: memoryview) -> None: ...
    def channel_closed(self) -> None: ...
    def listen(self, host: str, port: int, backlog: int) -> Listening:
        return self.listening

    def time(self) -> float:
        return 0.0

    def add_reader(self, sock: Any, callback: Callable[[], None]) -> None:
        if sock is self.listening:
            self.is_accepting = True

    def remove_reader(self, sock: Any) -> None:
        if sock is self.listening:
            self.is_accepting = False

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: Any) -> Timer:
        self.later.append((delay, callback, arguments))
        return Timer()

    def connect(self, host: str) -> Sock:
        sock = Sock()
        self.listening.waiting.append((sock, (host, 5000)))
        if self.is_accepting:
            self.listener._acceptable()
        return sock

    def channels(self) -> list[Channel]:
        return list(self.listener.channels)


def test_an_address_has_as_many_connections_as_it_may() -> None:
    world = World(per_ip=2)
    assert [world.connect("10.0.0.1").is_closed for _ in range(3)] == [False, False, True]
    assert not world.connect("10.0.0.2").is_closed


def test_an_address_with_a_limit_of_its_own_has_that() -> None:
    world = World(per_ip=2)
    world.listener.connections_per_ip = {"10.0.0.1": 0, "10.0.0.2": 3}
    assert world.connect("10.0.0.1").is_closed
    assert [world.connect("10.0.0.2").is_closed for _ in range(4)] == [False, False, False, True]


def test_a_connection_over_its_hosts_rate_is_held_and_then_closed() -> None:
    world = World(lambda host: 700 if host == "10.0.0.1" else 0)
    held = world.connect("10.0.0.1")
    assert not held.is_closed and not world.channels()
    delay, callback, arguments = world.later[-1]
    assert delay == 0.7
    callback(*arguments)
    assert held.is_closed
    assert not world.connect("10.0.0.2").is_closed and len(world.channels()) == 1


def test_held_connections_count_as_connections() -> None:
    world = World(lambda host: 700, most=2)
    assert [world.connect("10.0.0.1").is_closed for _ in range(3)] == [False, False, True]


def test_a_connection_over_the_rate_waits_and_so_do_those_after_it() -> None:
    pauses = [0, 300, 0]
    world = World(pause_ms=lambda: pauses.pop(0))
    for _ in range(3):
        world.connect("10.0.0.1")
    assert len(world.channels()) == 1 and not world.is_accepting
    assert len(world.listening.waiting) == 1, "it waits in the backlog"
    assert world.listener.connection_count == 2, "the late one is accepted"
    delay, listen_again, _ = world.later[-1]
    assert delay == 0.3
    listen_again()
    assert len(world.channels()) == 2 and world.is_accepting
    world.listener._acceptable()
    assert len(world.channels()) == 3


def test_a_connection_that_waits_is_closed_with_its_listener() -> None:
    world = World(pause_ms=lambda: 300)
    late = world.connect("10.0.0.1")
    world.listener.stop_accepting()
    assert late.is_closed
    world.later[-1][1]()
    assert not world.channels() and not world.is_accepting
