"""Simulated TCP: order, partial calls, back pressure, endings good and bad, cuts, and Ottla's own net layer on it."""

from __future__ import annotations

import asyncio
import errno
import random
import socket

import pytest

from ottla.net import Channel, Listener, ReceiveBuffers
from ottla.sim.loop import Loop
from ottla.sim.network import Network, Socket, Weather


async def readable(sock: Socket) -> None:
    await _ready(sock, asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader)


async def writable(sock: Socket) -> None:
    await _ready(sock, asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer)


async def _ready(sock: Socket, add, remove) -> None:  # type: ignore[no-untyped-def]
    ready = asyncio.Event()
    add(sock, ready.set)
    try:
        await ready.wait()
    finally:
        remove(sock)


async def read_all(sock: Socket) -> bytes:
    """To the end of the stream."""
    data = b""
    while True:
        await readable(sock)
        buffer = bytearray(1_000)
        count = sock.recv_into(buffer)
        if not count:
            return data
        data += buffer[:count]


async def write_all(sock: Socket, data: bytes) -> int:
    blocked = 0
    while data:
        try:
            data = data[sock.send(data) :]
        except BlockingIOError:
            blocked += 1
            await writable(sock)
    return blocked


class World:
    def __init__(self, seed: int = 1, weather: Weather | None = None) -> None:
        self.loop = Loop(seed)
        self.network = Network(self.loop, random.Random(seed), weather)

    async def pair(self) -> tuple[Socket, Socket]:
        listening = self.network.host("a").listen("127.0.0.1", 9092, 10)
        client = self.network.host("b").connect("a", 9092)
        await readable(listening)
        server, address = listening.accept()
        assert address == client.getsockname()
        await writable(client)
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        assert client.getpeername() == ("a", 9092)
        return server, client


def test_bytes_arrive_in_order_however_calls_cut_them() -> None:
    world = World(weather=Weather(partial_probability=0.5))
    data = random.Random(5).randbytes(300_000)

    async def main() -> None:
        server, client = await world.pair()
        reading = world.loop.create_task(read_all(server))
        blocked = await write_all(client, data)
        assert blocked > 0, "the buffer is bounded"
        client.close()
        assert await reading == data
        server.close()

    world.loop.run(main())
    assert world.network.delivered_count > 10
    world.loop.finish()


def test_nothing_to_read_and_no_room_to_write_would_block() -> None:
    world = World(weather=Weather(buffer_bytes=1_000))

    async def main() -> None:
        server, client = await world.pair()
        with pytest.raises(BlockingIOError):
            server.recv_into(bytearray(10))
        sent = 0
        with pytest.raises(BlockingIOError):
            while True:
                sent += client.sendmsg([b"x" * 300, b"y" * 300])
        assert sent == 1_000

    world.loop.run(main())
    world.loop.finish()


def test_connecting_to_a_port_without_a_listener_is_refused() -> None:
    world = World()

    async def main() -> None:
        client = world.network.host("b").connect("a", 9092)
        await writable(client)
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
        with pytest.raises(ConnectionRefusedError):
            client.send(b"x")
        client.close()

    world.loop.run(main())
    world.loop.finish()


def test_sending_to_a_closed_peer_is_answered_by_a_reset() -> None:
    world = World()

    async def main() -> None:
        server, client = await world.pair()
        server.close()
        await readable(client)
        assert client.recv(10) == b""
        client.send(b"anyone there?")
        await asyncio.sleep(0.1)
        with pytest.raises(ConnectionResetError):
            client.send(b"hello?")
        with pytest.raises(BrokenPipeError):
            client.send(b"hello?")

    world.loop.run(main())
    world.loop.finish()


def test_a_cut_holds_bytes_back_until_it_heals() -> None:
    world = World()

    async def main() -> None:
        server, client = await world.pair()
        world.network.cut("a", "b")
        client.send(b"one ")
        await asyncio.sleep(60)
        with pytest.raises(BlockingIOError):
            server.recv(10)
        world.network.heal()
        client.send(b"two")
        client.close()
        assert await read_all(server) == b"one two"

    world.loop.run(main())
    world.loop.finish()


def test_what_was_sent_before_a_close_arrives_after_a_cut_heals() -> None:
    world = World()

    async def main() -> None:
        server, client = await world.pair()
        world.network.cut("a", "b")
        client.send(b"given up long ago")
        client.close()
        await asyncio.sleep(60)
        world.network.heal()
        assert await read_all(server) == b"given up long ago"

    world.loop.run(main())
    world.loop.finish()


def test_a_one_way_cut_lets_the_other_direction_through() -> None:
    world = World()

    async def main() -> None:
        server, client = await world.pair()
        world.network.cut("b", "a", both_ways=False)
        server.send(b"hello")
        client.send(b"lost for now")
        await asyncio.sleep(1)
        assert client.recv(100)
        with pytest.raises(BlockingIOError):
            server.recv(100)

    world.loop.run(main())
    world.loop.finish()


def test_a_killed_host_closes_its_connections_and_a_dark_one_says_nothing() -> None:
    world = World()

    async def main() -> None:
        _server, client = await world.pair()
        world.network.kill("a")
        await readable(client)
        assert client.recv(10) == b""
        client.close()

        _server, client = await world.pair()
        world.network.power_loss("a")
        client.send(b"ping")
        await asyncio.sleep(100)
        with pytest.raises(BlockingIOError):
            client.recv(10)
        world.network.power_on("a")
        client.send(b"ping")
        await readable(client)
        with pytest.raises(ConnectionResetError):
            client.recv(10)

    world.loop.run(main())
    world.loop.finish()


def test_closing_a_socket_that_the_loop_still_watches_is_a_bug() -> None:
    world = World()

    async def main() -> None:
        server, _client = await world.pair()
        world.loop.add_reader(server, print)
        with pytest.raises(AssertionError, match="still watches"):
            server.close()
        world.loop.remove_reader(server)
        server.close()

    world.loop.run(main())
    world.loop.finish()


def conversation(seed: int) -> str:
    world = World(seed)

    async def main() -> None:
        server, client = await world.pair()
        reading = world.loop.create_task(read_all(server))
        for size in range(1, 50):
            await write_all(client, bytes(size * 100))
        client.close()
        await reading

    world.loop.run(main())
    world.loop.finish()
    return world.loop.trace.fingerprint


def test_one_seed_gives_one_trace_and_another_seed_another() -> None:
    assert conversation(1) == conversation(1)
    assert conversation(1) != conversation(2)


class Echo:
    """Sends every frame back, half of them later."""

    def __init__(self, loop: Loop, channel: Channel) -> None:
        self._loop = loop
        self._channel = channel

    def frame_received(self, frame: memoryview) -> None:
        data = len(frame).to_bytes(4, "big") + bytes(frame)
        if len(frame) % 2:
            self._channel.send([data[:3], data[3:]])
        else:
            self._channel.pause_reading()
            self._loop.call_later(0.002, self._answer, data)

    def _answer(self, data: bytes) -> None:
        if not self._channel.is_closed:
            self._channel.send([data])
            self._channel.resume_reading()

    def channel_closed(self) -> None:
        pass


@pytest.mark.parametrize("seed", range(10))
def test_ottlas_net_layer_keeps_frames_whole_and_in_order(seed: int) -> None:
    """Byte by byte, in tiny buffers, paused and resumed: what the broker's channels must stand."""
    rng = random.Random(seed)
    world = World(seed, Weather(partial_probability=rng.choice((0.0, 0.3, 0.9)), buffer_bytes=rng.choice((50, 5_000))))
    frames = [rng.randbytes(rng.choice((0, 1, 2, 3, 4, 5, 99, 1_000, 9_000))) for _ in range(40)]
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)

    async def main() -> None:
        listener = Listener(
            world.loop,
            world.network.host("a"),
            lambda channel, host, port, tls: Echo(world.loop, channel),
            max_frame_bytes=100_000,
            max_connections=10,
            max_connections_per_ip=10,
            idle_ms=600_000,
            buffers=ReceiveBuffers(8_192),
        )
        listener.open("a", 9092)
        listener.start_accepting()
        client = world.network.host("b").connect("a", 9092)
        await writable(client)
        received = b""

        async def receive() -> None:
            nonlocal received
            while len(received) < len(stream):
                await readable(client)
                received += client.recv(10_000)

        receiving = world.loop.create_task(receive())
        await write_all(client, stream)
        await receiving
        assert received == stream
        client.close()
        await asyncio.sleep(1)
        assert not listener.channels
        listener.close()

    world.loop.run(main())
    world.loop.finish()
