"""A channel against a socket made of lists: bytes in any pieces arrive as whole frames, and the reverse."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from random import Random
from struct import pack
from typing import Any

import pytest

from ottla.net import Channel, ReceiveBuffers


class Loop:
    """The part of an event loop that a channel uses; nothing happens unless the test says so."""

    def __init__(self) -> None:
        self.readers: dict[object, Callable[[], None]] = {}
        self.writers: dict[object, Callable[[], None]] = {}
        self.soon: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.threads: list[tuple[asyncio.Future[Any], Callable[[], Any]]] = []

    def time(self) -> float:
        return 0.0

    def add_reader(self, sock: object, callback: Callable[[], None]) -> None:
        self.readers[sock] = callback

    def remove_reader(self, sock: object) -> None:
        self.readers.pop(sock, None)

    def add_writer(self, sock: object, callback: Callable[[], None]) -> None:
        self.writers[sock] = callback

    def remove_writer(self, sock: object) -> None:
        self.writers.pop(sock, None)

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self.soon.append((callback, arguments))

    def run_soon(self) -> None:
        soon, self.soon = self.soon, []
        for callback, arguments in soon:
            callback(*arguments)

    def run_in_executor(self, executor: None, work: Callable[..., Any], *arguments: Any) -> Thread:
        thread = Thread(lambda: work(*arguments))
        self.thread = thread
        return thread


class Thread:
    """Work that a thread does when the test lets it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._callbacks: list[Callable[[Any], None]] = []
        self._result: Any = None

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def finish(self) -> None:
        self._result = self._work()
        for callback in self._callbacks:
            callback(self)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        return self._result


class Sock:
    held_bytes = 0

    def setsockopt(self, level: int, option: int, value: int) -> None:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT):
            self.low_water = value
        elif (level, option, value) == (socket.IPPROTO_TCP, getattr(socket, "TCP_QUICKACK", None), 1):
            self.quick_acks += 1

    def getsockopt(self, *_: Any) -> int:
        return 0

    def __init__(self) -> None:
        self.incoming = bytearray()
        self.sent = bytearray()
        self.room = 1 << 30
        self.is_closed = False
        self.has_ended = False
        self.asked_bytes: list[int] = []
        self.low_water = 1
        self.quick_acks = 0

    def recv_into(self, buffer: Any) -> int:
        view = memoryview(buffer)
        self.asked_bytes.append(len(view))
        if not self.incoming:
            if self.has_ended:
                return 0
            raise BlockingIOError
        taken = bytes(self.incoming[: len(view)])
        view[: len(taken)] = taken
        del self.incoming[: len(taken)]
        return len(taken)

    def send(self, data: Any) -> int:
        return self.sendmsg([data])

    def sendmsg(self, buffers: Any, ancillary: Any = (), flags: int = 0) -> int:
        data = b"".join(buffers)[: self.room]
        if not data:
            raise BlockingIOError
        self.room -= len(data)
        self.sent += data
        return len(data)

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self.is_closed = True


class Frames:
    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.is_closed = False
        self.on_frame: Callable[[], None] = lambda: None

    def frame_received(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.on_frame()

    def channel_closed(self) -> None:
        self.is_closed = True


class MemoryFile:
    def __init__(self, data: bytes, is_cached: bool = True) -> None:
        self.data = data
        self.cached = is_cached
        self.held = 0

    def fileno(self) -> int | None:
        return None

    def read(self, position: int, size: int) -> bytes:
        return self.data[position : position + size]

    def is_cached(self, position: int, size: int) -> bool:
        return self.cached

    def hold(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1


class Part:
    def __init__(self, file: MemoryFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size


class World:
    def __init__(self, buffer_bytes: int = 64, max_frame_bytes: int = 1 << 22, sock: Sock | None = None) -> None:
        self.loop = Loop()
        self.sock = sock or Sock()
        self.frames = Frames()
        self.channel = Channel(
            self.loop,  # type: ignore[arg-type]
            self.sock,
            ReceiveBuffers(buffer_bytes),
            max_frame_bytes=max_frame_bytes,
            supports_sendfile=False,
        )
        self.channel.start(self.frames)

    def arrive(self, data: bytes) -> None:
        self.sock.incoming += data
        self.read()

    def read(self) -> None:
        while len(self.sock.incoming) >= self.sock.low_water and self.sock in self.loop.readers:
            self.loop.readers[self.sock]()

    def drain(self) -> None:
        while self.sock in self.loop.writers and self.sock.room:
            self.loop.writers[self.sock]()


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


@pytest.mark.parametrize("seed", range(20))
def test_frames_arrive_whole_however_the_bytes_are_cut(seed: int) -> None:
    rng = Random(seed)
    bodies = [rng.randbytes(rng.choice([0, 1, 3, 60, 61, 64, 65, 500])) for _ in range(30)]
    stream = b"".join(map(framed, bodies))
    world = World()
    position = 0
    while position < len(stream):
        size = rng.choice([1, 2, 3, 5, 40, 64, 1000])
        world.arrive(stream[position : position + size])
        position += size
    assert world.frames.frames == bodies


class RecordSock(Sock):
    """Hands on bytes as TLS does: whole records only, so that it holds the beginning of the next one."""

    held_bytes = 17 * 1024

    def __init__(self) -> None:
        super().__init__()
        self.record = bytearray()
        self.plain = bytearray()

    def recv_into(self, buffer: Any) -> int:
        self.record += self.incoming
        self.incoming.clear()
        whole = len(self.record) - len(self.record) % 16_384
        self.plain += self.record[:whole]
        del self.record[:whole]
        view = memoryview(buffer)
        taken = bytes(self.plain[: len(view)])
        if not taken:
            raise BlockingIOError
        view[: len(taken)] = taken
        del self.plain[: len(taken)]
        return len(taken)

    def has_pending(self) -> bool:
        return bool(self.plain)


@pytest.mark.parametrize("sock", [Sock, RecordSock])
@pytest.mark.parametrize("seed", range(10))
def test_no_frame_waits_for_more_bytes_than_its_own(seed: int, sock: type[Sock]) -> None:
    rng = Random(seed)
    world = World(buffer_bytes=rng.choice([64, 600_000]), sock=sock())
    piece = rng.choice([1_448, 16_405, 65_536])
    for _ in range(12):
        body = rng.randbytes(rng.choice([12, 65_532, 98_300, 700_000]))
        stream = framed(body)
        empty_count = -len(stream) % 16_384 // 4
        stream += bytes(4 * empty_count)
        for start in range(0, len(stream), piece):
            world.arrive(stream[start : start + piece])
            while world.loop.soon:
                world.loop.run_soon()
        assert world.frames.frames == [body, *[b""] * empty_count]
        assert world.sock.low_water == 1
        world.frames.frames.clear()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports sockets readable from a count of bytes on")
def test_in_the_middle_of_a_large_frame_the_loop_is_not_called_for_every_packet() -> None:
    world = World(buffer_bytes=64_000)
    stream = framed(bytes(1_000_000))
    for start in range(0, len(stream), 16_384):
        world.arrive(stream[start : start + 16_384])
    assert len(world.frames.frames) == 1
    assert len(world.sock.asked_bytes) < 25  # of 62 packets


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has TCP_QUICKACK")
def test_the_beginning_of_a_frame_is_acknowledged_at_once() -> None:
    """A peer without TCP_NODELAY holds the end of its frame back until then."""
    world = World()
    world.arrive(framed(b"whole"))
    assert world.sock.quick_acks == 0
    stream = framed(bytes(1_000))
    world.arrive(stream[:100])
    assert world.sock.quick_acks == 1
    world.arrive(stream[100:])
    assert world.sock.quick_acks == 1
    assert len(world.frames.frames) == 2


def test_a_frame_larger_than_the_growth_step_arrives_whole() -> None:
    body = Random(1).randbytes(3_000_000)
    world = World(max_frame_bytes=4_000_000)
    world.arrive(framed(body))
    assert world.frames.frames == [body]


def test_memory_follows_what_a_peer_sent_and_not_what_it_announced() -> None:
    world = World(max_frame_bytes=2_000_000_000)
    world.arrive(pack(">i", 1_900_000_000) + b"only this")
    assert len(world.channel._frame or b"") <= 1 << 15


@pytest.mark.parametrize("size", [-1, -(2**31), 1 << 22 | 1, 2**31 - 1])
def test_a_frame_with_an_impossible_size_closes_the_connection(size: int) -> None:
    world = World()
    world.arrive(pack(">i", size))
    assert world.frames.is_closed
    assert world.sock.is_closed
    assert world.frames.frames == []


def test_frames_that_arrived_before_a_pause_wait_for_its_end() -> None:
    world = World(buffer_bytes=256)
    world.frames.on_frame = world.channel.pause_reading
    world.arrive(framed(b"one") + framed(b"two") + framed(b"three"))
    assert world.frames.frames == [b"one"]
    world.channel.resume_reading()
    world.loop.run_soon()
    assert world.frames.frames == [b"one", b"two"]
    world.frames.on_frame = lambda: None
    world.channel.resume_reading()
    world.loop.run_soon()
    world.read()
    assert world.frames.frames == [b"one", b"two", b"three"]


def test_answers_to_frames_of_one_read_leave_in_one_call() -> None:
    world = World(buffer_bytes=256)
    sizes: list[int] = []
    send = world.sock.sendmsg
    world.sock.sendmsg = lambda *arguments: sizes.append(1) or send(*arguments)  # type: ignore[func-returns-value,method-assign]
    world.frames.on_frame = lambda: world.channel.send([b"answer"])
    world.arrive(framed(b"one") + framed(b"two"))
    assert bytes(world.sock.sent) == b"answeranswer"
    assert len(sizes) == 1


@pytest.mark.parametrize("room", [1, 7, 100])
def test_parts_and_files_leave_in_order_through_a_slow_socket(room: int) -> None:
    world = World()
    world.sock.room = room
    file = MemoryFile(bytes(range(256)) * 8)
    world.channel.send([b"head", Part(file, 100, 1500), memoryview(b"tail"), Part(file, 0, 3)])
    for _ in range(5000):
        world.sock.room = room
        world.drain()
    assert bytes(world.sock.sent) == b"head" + file.data[100:1600] + b"tail" + file.data[:3]
    assert world.channel.out_bytes == 0


def test_what_is_not_in_the_page_cache_is_read_by_a_thread() -> None:
    world = World()
    file = MemoryFile(b"cold data and more", is_cached=False)
    world.channel.send([b"head ", Part(file, 0, 9), b" tail"])
    assert bytes(world.sock.sent) == b"head "
    assert file.held == 1
    world.loop.thread.finish()
    assert file.held == 0
    assert bytes(world.sock.sent) == b"head cold data tail"


def test_when_drained_waits_for_the_last_byte() -> None:
    world = World()
    world.sock.room = 2
    drained: list[bool] = []
    world.channel.send([b"answer"])
    world.channel.when_drained(lambda: drained.append(True))
    assert drained == []
    world.sock.room = 100
    world.drain()
    assert drained == [True]


def test_the_end_of_the_stream_closes_the_channel_once() -> None:
    world = World()
    world.sock.has_ended = True
    world.loop.readers[world.sock]()
    world.channel.close()
    assert world.frames.is_closed
    assert world.loop.readers == {}


def test_a_frame_that_does_not_arrive_whole_takes_the_buffer_of_one_that_was_answered() -> None:
    world = World()
    frame = bytes(range(200)) * 3
    for _ in range(3):
        whole = len(frame).to_bytes(4, "big") + frame
        for start in range(0, len(whole), 100):
            world.arrive(whole[start : start + 100])
        frame = frame[:-1]
    assert world.frames.frames == [bytes(range(200)) * 3, (bytes(range(200)) * 3)[:-1], (bytes(range(200)) * 3)[:-2]]


def test_behind_a_large_frame_only_the_beginning_of_the_next_one_is_copied() -> None:
    shared, large, small = 100_000, bytes(range(250)) * 800, b"small"
    world = World(buffer_bytes=shared)
    bodies = [large, large, small, small, large, small]
    for body in bodies:
        world.sock.asked_bytes.clear()
        world.arrive(framed(body))
        after_large = len(world.frames.frames) > 1 and world.frames.frames[-2] == large
        assert world.sock.asked_bytes[0] == (32 * 1024 if after_large else shared)
    assert world.frames.frames == bodies
    world.arrive(b"".join(map(framed, bodies)))
    assert world.frames.frames == bodies * 2


def test_only_few_and_small_buffers_are_kept() -> None:
    buffers = ReceiveBuffers(64)
    buffers.give(bytearray(2 << 20))
    assert buffers.take(1) is None
    for _ in range(50):
        buffers.give(bytearray(100))
    assert buffers.take(101) is None
    assert sum(1 for _ in iter(lambda: buffers.take(100), None)) == 8
