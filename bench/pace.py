"""Requests made once and sent over and over, on many connections: as fast as answers come, or by the clock.

What is left per request is a recv, a send and a clock, so that one process can drive a server to its limit.
"""

from __future__ import annotations

import math
import select
import socket
import struct
import time
from array import array
from collections import deque
from collections.abc import Callable

from tests.interop.servers import read_exactly

ANSWER_BYTES = 4096
TICK_SECONDS = 0.001


class Refused(Exception):
    """The server answered with an error, or not at all."""


class Busy:
    """One connection that sends the same request again and again.

    `check` gives the error code of the first answer. Where `is_constant`, every later one must be the same bytes.
    """

    __slots__ = ("answer_size", "connection", "expected", "frame", "received", "sent_at")

    answer_size: int
    expected: bytes

    def __init__(
        self, connection: socket.socket, frame: bytes, check: Callable[[bytes], int], *, is_constant: bool = False
    ) -> None:
        self.connection = connection
        self.frame = frame
        self.received = b""
        self.sent_at: deque[float] = deque()
        connection.sendall(frame)
        (size,) = struct.unpack(">i", read_exactly(connection, 4))
        answer = read_exactly(connection, size)
        code = check(answer)
        if code:
            raise Refused(f"the first request was answered with error {code}")
        # An answer without an error always has this size: an error message or record errors would make it longer.
        self.answer_size = 4 + size
        self.expected = struct.pack(">i", size) + answer if is_constant else b""
        connection.setblocking(False)

    def answers(self) -> int:
        """How many whole answers arrived since the last call."""
        data = self.connection.recv(ANSWER_BYTES)
        size = self.answer_size
        if len(data) == size and not self.received:
            if self.expected and data != self.expected:
                raise Refused("a later request was not answered as the first")
            return 1
        if not data:
            raise Refused("the server closed a busy connection")
        data = self.received + data
        count = len(data) // size
        if self.expected and data[: count * size] != self.expected * count:
            raise Refused("a later request was not answered as the first")
        self.received = data[count * size :]
        return count


def flat_out(busy: list[Busy], seconds: float) -> array[float]:
    """Every connection sends its next request when the last is answered. Returns the latencies."""
    latencies = array("d")
    by_descriptor = {one.connection.fileno(): one for one in busy}
    poll = select.epoll()
    now = time.perf_counter
    try:
        for descriptor, one in by_descriptor.items():
            poll.register(descriptor, select.EPOLLIN)
            one.sent_at.append(now())
            one.connection.send(one.frame)
        end = now() + seconds
        waiting = len(busy)
        while waiting:
            for descriptor, _ in poll.poll(30):
                one = by_descriptor[descriptor]
                if not one.answers():
                    continue
                at = now()
                latencies.append(at - one.sent_at.popleft())
                if at < end:
                    one.sent_at.append(at)
                    one.connection.send(one.frame)
                else:
                    waiting -= 1
            if now() > end + 30:
                raise Refused(f"{waiting} busy connections got no answer within 30 s")
    finally:
        poll.close()
    return latencies


def paced(busy: list[Busy], seconds: float, requests_per_second: int) -> array[float]:
    """Requests leave by the clock, whether the last was answered or not, and count from when they were due."""
    latencies = array("d")
    by_descriptor = {one.connection.fileno(): one for one in busy}
    poll = select.epoll()
    now = time.perf_counter
    per_tick = requests_per_second * TICK_SECONDS
    try:
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        started = now()
        ticks = math.ceil(seconds / TICK_SECONDS)
        tick = sent = waiting = 0
        while tick < ticks or waiting:
            at = now()
            due = started + tick * TICK_SECONDS
            if tick < ticks and at >= due:
                tick += 1
                while sent < tick * per_tick:
                    one = busy[sent % len(busy)]
                    one.sent_at.append(due)
                    one.connection.send(one.frame)
                    sent += 1
                    waiting += 1
                continue
            if at > started + seconds + 30:
                raise Refused(f"{waiting} requests got no answer within 30 s")
            for descriptor, _ in poll.poll(max(0.0, due - at) if tick < ticks else 1):
                one = by_descriptor[descriptor]
                count = one.answers()
                at = now()
                for _ in range(count):
                    latencies.append(at - one.sent_at.popleft())
                waiting -= count
    finally:
        poll.close()
    return latencies


def quantile(ordered: array[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def summary(latencies: array[float], seconds: float) -> dict[str, float]:
    ordered = array("d", sorted(latencies))
    return {
        "requests_per_second": len(ordered) / seconds,
        "p50_ms": quantile(ordered, 0.5) * 1000,
        "p99_ms": quantile(ordered, 0.99) * 1000,
        "p999_ms": quantile(ordered, 0.999) * 1000,
        "max_ms": ordered[-1] * 1000,
    }


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
