"""What a worker stands on in a test: sockets to stand-in brokers, and a clock that only waiting moves."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ottla.net import Socket, Sockets


class InPlace:
    """The port `net.Blocking`. No socket ever becomes readable by waiting: what stand-ins answer is there at once."""

    def __init__(self, connect: Callable[[int], Socket]) -> None:
        self.seconds = 1_000.0
        self.waits: list[float] = []
        """For how long a read was waited for, each time."""
        self.never_connects = False
        self.rng = random.Random(1)
        self.sockets: Sockets = _Sockets(connect)

    def now(self) -> float:
        return self.seconds

    def clock(self) -> int:
        return int(self.seconds * 1000)

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def addresses(self, host: str) -> list[str]:
        return [host]

    def wait_readable(self, sock: Socket, seconds: float) -> None:
        self.waits.append(seconds)
        self._time_out(seconds)

    def wait_writable(self, sock: Socket, seconds: float) -> None:
        if self.never_connects:
            self._time_out(seconds)

    def _time_out(self, seconds: float) -> None:
        self.seconds += seconds
        raise TimeoutError("timed out")


class _Sockets:
    supports_sendfile = False

    def __init__(self, connect: Callable[[int], Socket]) -> None:
        self._connect = connect

    def connect(self, host: str, port: int) -> Socket:
        return self._connect(port)

    def is_name(self, host: str) -> bool:
        return False

    def listen(self, *_: Any) -> Any:
        raise NotImplementedError

    async def look_up(self, host: str) -> str:
        raise NotImplementedError

    async def addresses(self, host: str) -> list[str]:
        raise NotImplementedError
