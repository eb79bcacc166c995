"""What a connection of this node is asked of the kernel."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
import threading
from typing import Any

import pytest

from ottla.net.beside import beside_loop
from ottla.net.blocking import OsBlocking
from ottla.net.sockets import MAX_RETRANSMISSION_MS, OsSockets

TCP_RTO_MAX_MS = 44


class Kernel:
    """A socket as the kernel makes it; an old kernel does not know every option."""

    def __init__(self, is_old: bool) -> None:
        self._is_old = is_old
        self.options: dict[int, int] = {}
        self.is_blocking = True

    def setblocking(self, flag: bool) -> None:
        self.is_blocking = flag

    def setsockopt(self, level: int, option: int, value: int) -> None:
        if self._is_old and option == TCP_RTO_MAX_MS:
            raise OSError(errno.ENOPROTOOPT, "Protocol not available")
        assert level == socket.IPPROTO_TCP
        self.options[option] = value

    def connect(self, address: tuple[str, int]) -> None:
        raise BlockingIOError(errno.EINPROGRESS, "Operation now in progress")


@pytest.mark.parametrize("is_old", [False, True])
def test_a_link_that_heals_is_used_again_within_a_second(monkeypatch: pytest.MonkeyPatch, is_old: bool) -> None:
    """TCP doubles the time between its tries to send again; only newer kernels let it be bounded."""
    kernel = Kernel(is_old)
    monkeypatch.setattr(socket, "socket", lambda *_: kernel)
    connected: Any = OsSockets().connect("127.0.0.1", 9092)
    assert connected is kernel and not kernel.is_blocking
    expected = {socket.TCP_NODELAY: 1}
    if sys.platform == "linux" and not is_old:
        expected[TCP_RTO_MAX_MS] = MAX_RETRANSMISSION_MS
    assert kernel.options == expected


@pytest.mark.parametrize(
    ("host", "is_name"), [("127.0.0.1", False), ("::1", False), ("localhost", True), ("10.0.0", True), ("a.b", True)]
)
def test_what_has_to_be_looked_up(host: str, is_name: bool) -> None:
    assert OsSockets().is_name(host) == is_name


def test_a_name_server_that_does_not_answer_holds_neither_the_loop_nor_its_end_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_asked, may_answer = threading.Event(), threading.Event()
    looking: list[threading.Thread] = []

    def getaddrinfo(*_: object) -> list[object]:
        looking.append(threading.current_thread())
        is_asked.set()
        may_answer.wait()
        return [(None, None, None, None, ("10.0.0.1", 0))]

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(OsSockets().look_up("broker-1"), 0.01)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    asyncio.run(scenario())
    is_asked.wait()
    (thread,) = looking
    assert thread.daemon, "the process does not wait for it either"
    may_answer.set()
    thread.join()


def test_a_name_is_looked_up_and_one_without_an_address_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, *_: object) -> list[object]:
        if host == "broker-1":
            return [(None, None, None, None, ("10.0.0.1", 0))]
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def scenario() -> None:
        assert await OsSockets().look_up("broker-1") == "10.0.0.1"
        with pytest.raises(socket.gaierror):
            await OsSockets().look_up("broker-2")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    asyncio.run(scenario())


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".org", "\udcff.org"])
def test_what_no_host_can_be_named_has_no_address(host: str) -> None:
    """Python raises UnicodeError for these, before the system is asked."""

    async def scenario() -> None:
        for looked_up in (OsSockets().look_up(host), OsSockets().addresses(host)):
            with pytest.raises(socket.gaierror, match="no host can have the name"):
                await asyncio.wait_for(looked_up, 60)

    asyncio.run(scenario())
    with pytest.raises(socket.gaierror):
        OsBlocking().addresses(host)


def test_every_exception_beside_the_loop_reaches_the_caller() -> None:
    async def scenario() -> None:
        with pytest.raises(ValueError, match="wrong"):
            await asyncio.wait_for(beside_loop(lambda: int("wrong")), 60)

    asyncio.run(scenario())


@pytest.mark.parametrize("port", [70_000, -1, 2**31 - 1])
def test_a_number_that_is_no_port_cannot_be_connected(port: int) -> None:
    """Metadata may hold any number."""
    with pytest.raises(OSError, match=f"{port} is no port"):
        OsSockets().connect("127.0.0.1", port)
