"""A listener with TLS on a simulated network: whom it takes, as whom, and what it ends."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from pathlib import Path
from typing import Any

import pytest

from ottla.net import Channel, Listener, Socket, dial
from ottla.net.dial import readable
from ottla.net.listener import HANDSHAKE_S, ConnectionRefused, NodeConnections
from ottla.net.tls import TlsSocket
from ottla.net.tls_contexts import TlsSettings, client_context, server_context, stamp
from ottla.security.certificates import subject_name
from ottla.sim.loop import Loop
from ottla.sim.network import Network, Weather

FILES = Path(__file__).parents[1] / "vectors" / "tls"


def settings(store: str | None, trust: str | None = "ca", **more: Any) -> TlsSettings:
    return TlsSettings(
        truststore=stamp("trust", str(FILES / f"{trust}.pem")) if trust else None,
        keystore=stamp("key", str(FILES / f"{store}.pem")) if store else None,
    )._replace(**more)


class World:
    """A listener whose receivers send every frame back, and what they were taken as."""

    def __init__(self, client_auth: str = "none", most: int = 100) -> None:
        self.loop = Loop(3)
        self.network = Network(self.loop, random.Random(3), Weather())
        self.names: list[str] = []
        self.refuses = False
        self.node = NodeConnections(1000)
        self.listener = Listener(
            self.loop,
            self.network.host("server"),
            self._accept,
            max_frame_bytes=100_000,
            max_connections=most,
            max_connections_per_ip=100,
            idle_ms=-1,
            name="SECURE",
            node=self.node,
            tls=server_context(settings("broker", client_auth=client_auth)),
        )
        self.listener.open("server", 9093)
        self.listener.start_accepting()

    def _accept(self, channel: Channel, host: str, port: int, tls: TlsSocket | None) -> Echo:
        assert tls is not None
        if self.refuses:
            raise ConnectionRefused("it has to")
        certificate = tls.certificate()
        self.names.append("" if certificate is None else subject_name(certificate))
        return Echo(channel)

    async def connect(self, store: str | None = None, **more: Any) -> TlsSocket:
        sock = await dial(self.network.host("client"), "server", 9093)
        tls = TlsSocket(sock, client_context(settings(store, **more)), server_hostname="broker.test")
        await tls.handshake()
        return tls

    def run(self, work: Any) -> None:
        self.loop.run(work, within_s=600)
        self.listener.close()


class Echo:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def frame_received(self, frame: memoryview) -> None:
        self.channel.send([len(frame).to_bytes(4, "big"), bytes(frame)])

    def channel_closed(self) -> None: ...


async def received(sock: Socket, size: int) -> bytes:
    """So many bytes, fewer at the end of the connection."""
    buffer = bytearray(size)
    filled = 0
    while filled < size:
        try:
            count = sock.recv_into(memoryview(buffer)[filled:])
        except BlockingIOError:
            await readable(sock)
            continue
        if not count:
            break
        filled += count
    return bytes(buffer[:filled])


def test_a_client_is_served_and_known_by_its_certificate() -> None:
    world = World("requested")

    async def work() -> None:
        for store in (None, "client"):
            tls = await world.connect(store)
            tls.send(b"\x00\x00\x00\x03abc")
            assert await received(tls, 7) == b"\x00\x00\x00\x03abc"
            tls.close()
        assert world.names == ["", "CN=client"]

    world.run(work())


@pytest.mark.parametrize(
    ("client_auth", "store", "is_taken"),
    [
        ("none", None, True),
        ("none", "client-of-another", True),
        ("requested", None, True),
        ("requested", "client", True),
        ("requested", "client-of-another", False),
        ("required", None, False),
        ("required", "client", True),
        ("required", "client-of-another", False),
        ("required", "client-expired", False),
    ],
)
def test_client_certificates_are_asked_for_as_the_setting_says(
    client_auth: str, store: str | None, is_taken: bool
) -> None:
    world = World(client_auth)

    async def work() -> None:
        tls = await world.connect(store)  # with TLS 1.3 the client learns of a refusal afterwards
        tls.send(b"\x00\x00\x00\x01a")
        if is_taken:
            assert await received(tls, 5) == b"\x00\x00\x00\x01a"
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                assert await received(tls, 5) == b""
                raise ConnectionResetError
        assert len(world.listener.channels) == is_taken
        assert world.listener.connection_count == is_taken

    world.run(work())


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_both_versions_of_tls_are_spoken(version: str) -> None:
    world = World()

    async def work() -> None:
        tls = await world.connect(protocols=(version,))
        assert tls.protocol()[0] == version

    world.run(work())


def test_a_handshake_that_does_not_end_is_ended_and_counts_as_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    world = World(most=3)
    caplog.set_level(logging.INFO, "ottla.net")

    async def work() -> None:
        slow = [await dial(world.network.host("client"), "server", 9093) for _ in range(3)]
        slow[0].send(b"\x16\x03\x01")
        await asyncio.sleep(1)
        assert world.listener.connection_count == 3
        refused = await dial(world.network.host("client"), "server", 9093)
        assert await received(refused, 1) == b"", "the limit is reached"
        await asyncio.sleep(HANDSHAKE_S)
        assert world.listener.connection_count == 0
        for sock in slow:
            assert await received(sock, 1) == b""
        tls = await world.connect()
        tls.send(b"\x00\x00\x00\x01a")
        assert await received(tls, 5) == b"\x00\x00\x00\x01a"

    world.run(work())
    assert caplog.text.count("the TLS handshake was not done within 10 s") == 3


def test_other_connections_go_on_while_handshakes_are_open() -> None:
    world = World()

    async def work() -> None:
        tls = await world.connect()
        slow = [await dial(world.network.host("client"), "server", 9093) for _ in range(50)]
        for sock in slow:
            sock.send(b"\x16\x03\x01\x02\x00")
        started = world.loop.time()
        tls.send(b"\x00\x00\x00\x01a")
        assert await received(tls, 5) == b"\x00\x00\x00\x01a"
        assert world.loop.time() - started < 1
        assert world.listener.connection_count == 51

    world.run(work())


def test_a_client_without_tls_is_closed_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    caplog.set_level(logging.INFO, "ottla.net")

    async def work() -> None:
        sock = await dial(world.network.host("client"), "server", 9093)
        sock.send(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
        await received(sock, 100)
        await asyncio.sleep(1)
        assert world.listener.connection_count == 0

    world.run(work())
    (line,) = [record.getMessage() for record in caplog.records]
    assert "this listener speaks TLS, and the client does not" in line and "SECURE" in line


def test_a_tls_client_on_a_listener_without_tls_is_closed_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.listener.tls = None
    caplog.set_level(logging.INFO, "ottla.net")
    world.listener._accept = lambda channel, host, port, tls: Echo(channel)

    async def work() -> None:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await world.connect()
        await asyncio.sleep(1)

    world.run(work())
    (line,) = [record.getMessage() for record in caplog.records]
    assert "it speaks TLS, and this listener does not" in line


def test_a_connection_that_is_refused_after_the_handshake_is_closed_and_not_counted() -> None:
    world = World()
    world.refuses = True

    async def work() -> None:
        tls = await world.connect()
        assert await received(tls, 1) == b""
        assert world.listener.connection_count == 0 and not world.listener._per_ip

    world.run(work())


def test_new_connections_have_the_context_that_was_put_in_place() -> None:
    world = World()

    async def work() -> None:
        first = await world.connect()
        world.listener.tls = server_context(settings("broker-elsewhere"))
        with pytest.raises(ssl.SSLCertVerificationError):
            await world.connect()
        first.send(b"\x00\x00\x00\x01a")
        assert await received(first, 5) == b"\x00\x00\x00\x01a"

    world.run(work())


def test_the_limit_of_a_node_spares_the_protected_listener() -> None:
    world = World()
    world.node.max_connections = 2
    protected = Listener(
        world.loop,
        world.network.host("server"),
        lambda channel, host, port, tls: Echo(channel),
        max_frame_bytes=1000,
        max_connections=10,
        max_connections_per_ip=10,
        idle_ms=-1,
        node=world.node,
        is_protected=True,
    )
    protected.open("server", 9094)
    protected.start_accepting()

    async def work() -> None:
        idle, busy = await world.connect(), await world.connect()
        busy.send(b"\x00\x00\x00\x01a")
        await received(busy, 5)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await world.connect()
        broker = await dial(world.network.host("client"), "server", 9094)
        broker.send(b"\x00\x00\x00\x01a")
        assert await received(broker, 5) == b"\x00\x00\x00\x01a"
        assert await received(idle, 1) == b"", "the connection that was idle for longest made room"
        busy.send(b"\x00\x00\x00\x01b")
        assert await received(busy, 5) == b"\x00\x00\x00\x01b"

    world.run(work())
    protected.close()
