"""TLS over simulated sockets that take and give bytes in any pieces: channels at both ends cannot tell."""

from __future__ import annotations

import asyncio
import random
import ssl
from pathlib import Path

import pytest

from ottla.net import Channel, ReceiveBuffers, Socket, dial
from ottla.net.dial import readable
from ottla.net.tls import TlsSocket
from ottla.sim.loop import Loop
from ottla.sim.network import Network, Weather

FILES = Path(__file__).parents[1] / "vectors" / "tls"


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    client = ssl.create_default_context(cafile=str(FILES / "ca.pem"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(FILES / "broker.pem")
    return client, server


class Frames:
    """Answers every frame with the same bytes, or keeps what comes."""

    def __init__(self, channel: Channel | None = None) -> None:
        self.channel = channel
        self.frames: list[bytes] = []
        self.arrived = asyncio.Event()
        self.closed = asyncio.Event()

    def frame_received(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.arrived.set()
        if self.channel is not None:
            self.channel.send([len(frame).to_bytes(4, "big"), bytes(frame)])

    def channel_closed(self) -> None:
        self.closed.set()


def channel_on(loop: Loop, sock: Socket) -> Channel:
    return Channel(loop, sock, ReceiveBuffers(64 * 1024), max_frame_bytes=2**24, supports_sendfile=False)


class World:
    def __init__(self, seed: int, weather: Weather) -> None:
        self.loop = Loop(seed)
        self.network = Network(self.loop, random.Random(seed), weather)
        self.listening = self.network.host("server").listen("server", 9093)

    async def connect(self, name: str) -> tuple[TlsSocket, TlsSocket]:
        client, server = contexts()
        dialling = asyncio.ensure_future(dial(self.network.host("client"), "server", 9093))
        await readable(self.listening)
        accepted, _ = self.listening.accept()
        ours = TlsSocket(await dialling, client, server_hostname=name)
        theirs = TlsSocket(accepted, server, is_server=True)
        shaking = [asyncio.ensure_future(one.handshake()) for one in (ours, theirs)]
        await asyncio.wait(shaking)
        for one in shaking:
            one.result()
        return ours, theirs


@pytest.mark.parametrize("seed", range(6))
def test_frames_of_any_size_cross_tls_both_ways(seed: int) -> None:
    world = World(seed, Weather(partial_probability=0.1 * seed, buffer_bytes=(3_000, 20_000, 300_000)[seed % 3]))
    rng = random.Random(seed)
    sent = [rng.randbytes(rng.choice((0, 1, 100, 16_384, 70_000, 400_000))) for _ in range(20)]

    async def work() -> None:
        ours, theirs = await world.connect("broker.test")
        channels = channel_on(world.loop, ours), channel_on(world.loop, theirs)
        here, there = Frames(), Frames(channels[1])
        channels[0].start(here)
        channels[1].start(there)
        for frame in sent:
            channels[0].send([len(frame).to_bytes(4, "big"), frame])
        while len(here.frames) < len(sent):
            here.arrived.clear()
            await here.arrived.wait()
        assert there.frames == sent
        assert here.frames == sent
        channels[0].close()
        await there.closed.wait()
        assert channels[1].error is None
        world.listening.close()

    world.loop.run(work(), within_s=600)
    world.loop.finish()


def test_a_name_that_the_certificate_does_not_have_fails_the_handshake() -> None:
    world = World(1, Weather())

    async def work() -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            await world.connect("elsewhere.test")

    world.loop.run(work())


def test_an_end_of_the_connection_during_the_handshake_is_a_reset() -> None:
    world = World(1, Weather())

    async def work() -> None:
        dialling = asyncio.ensure_future(dial(world.network.host("client"), "server", 9093))
        await readable(world.listening)
        accepted, _ = world.listening.accept()
        ours = TlsSocket(await dialling, contexts()[0], server_hostname="broker.test")
        shaking = asyncio.ensure_future(ours.handshake())
        await asyncio.sleep(1)
        accepted.close()
        with pytest.raises(ConnectionResetError):
            await shaking

    world.loop.run(work())


def test_dialling_a_port_that_nothing_listens_on_is_refused() -> None:
    world = World(1, Weather())

    async def work() -> None:
        with pytest.raises(ConnectionRefusedError):
            await dial(world.network.host("client"), "server", 1)

    world.loop.run(work())
    world.listening.close()
    world.loop.finish()
