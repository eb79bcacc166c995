"""One connection: frames in, scatter lists out.

Receiving: all connections of a loop share one receive buffer, since only one of them is read at a time. Whole frames
are passed to the receiver as views of it, and the receiver must copy what it keeps. Only a frame that has not arrived
whole gets a buffer of its own, which grows with the bytes that arrived, never with the size a peer declares (it may
begin as large as an earlier frame of this peer). After a frame that was larger than the shared buffer, only the
beginning of the next one is read into the shared buffer, and its rest directly into its own. So an idle connection
holds no buffer, and a hostile one holds about as much as it has sent.

Sending: a part is bytes or a piece of a file. Files go to the socket by sendfile where both sides are real; elsewhere
(TLS, simulation) by read and send. A piece that is not in the page cache is first read by a thread, so that a consumer
of old data never stops the loop.

Cython compiles this file (types in channel.pxd), and it runs as it stands.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ottla.net.sockets import Socket

RECEIVE_BUFFER_BYTES = 512 * 1024
FIRST_FRAME_BYTES = 32 * 1024
MAX_SPARES = 8
MAX_SPARE_BYTES = 1024 * 1024
FILE_CHUNK_BYTES = 1024 * 1024
COPY_CHUNK_BYTES = 256 * 1024
"""The chunk without sendfile: as much as a TLS socket takes with one call."""
GATHER_PARTS = 64
ENOUGH_BYTES = 64 * 1024
"""In the middle of a frame the loop calls only when so many bytes have arrived, or all that are missing."""
_MORE: int = getattr(socket, "MSG_MORE", 0)
_LOW_WATER: int = getattr(socket, "SO_RCVLOWAT", 0) if sys.platform == "linux" else 0
_QUICK_ACK: int = getattr(socket, "TCP_QUICKACK", 0)


class SendableFile(Protocol):
    def fileno(self) -> int | None:
        """The descriptor to send from, or None if the file has none (simulation). It is valid until the next call."""
        ...

    def read(self, position: int, size: int) -> bytes: ...
    def is_cached(self, position: int, size: int) -> bool:
        """Whether reading it now would not wait for the disk."""
        ...

    def hold(self) -> None: ...
    def release(self) -> None: ...


class FilePart(Protocol):
    """A piece of a file on its way to a socket."""

    position: int

    @property
    def file(self) -> SendableFile: ...
    def __len__(self) -> int: ...


class FrameReceiver(Protocol):
    def frame_received(self, frame: memoryview) -> None: ...
    def channel_closed(self) -> None: ...


class ReceiveBuffers:
    """What the connections of a node receive into: one buffer for all, and a few spare ones for frames that do not
    arrive whole. Buffers of frames that have been answered are kept as spares: a new buffer is filled with zeros first,
    which costs as much as receiving into it.
    """

    __slots__ = ("_spares", "shared")

    def __init__(self, shared_bytes: int = RECEIVE_BUFFER_BYTES) -> None:
        self.shared = bytearray(shared_bytes)
        self._spares: list[bytearray] = []

    def take(self, size: int) -> bytearray | None:
        """A spare buffer of at least this size, if there is one."""
        for index, spare in enumerate(self._spares):
            if len(spare) >= size:
                return self._spares.pop(index)
        return None

    def make(self, size: int) -> bytearray:
        """A new buffer that holds at least so many bytes."""
        return bytearray(size)

    def give(self, buffer: bytearray) -> None:
        """Take back the buffer of a frame that was handled."""
        if len(self._spares) < MAX_SPARES and len(buffer) <= MAX_SPARE_BYTES:
            self._spares.append(buffer)


class _Rest:
    """The unsent rest of a file part."""

    __slots__ = ("_size", "file", "position")

    def __init__(self, file: SendableFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size


class FrameTooLarge(ValueError):
    """A peer announced a frame that is negative or over the limit."""

    def __init__(self, size: int) -> None:
        super().__init__(f"a frame of {size} bytes")
        self.size = size


class Channel:
    __slots__ = (
        "_buffer",
        "_buffers",
        "_closed",
        "_file",
        "_file_end",
        "_file_position",
        "_filled",
        "_frame",
        "_frame_end",
        "_frame_size",
        "_head",
        "_held_bytes",
        "_is_paused",
        "_is_receiving",
        "_is_warming",
        "_is_writing",
        "_largest_frame",
        "_loop",
        "_low_water",
        "_max_frame_bytes",
        "_on_drained",
        "_out",
        "_pending",
        "_receive",
        "_send",
        "_sendfile",
        "_sock",
        "_time",
        "_view",
        "_warmed_file",
        "active_at",
        "bytes_in",
        "error",
        "out_bytes",
        "receiver",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: Socket,
        buffers: ReceiveBuffers,
        *,
        max_frame_bytes: int,
        supports_sendfile: bool,
    ) -> None:
        self._loop = loop
        self._time = loop.time
        self._sock = sock
        self._receive = sock.recv_into
        self._send = sock.send
        self._pending: Callable[[], bool] | None = getattr(sock, "has_pending", None)
        """Whether the socket itself has bytes that the system will not report as readable (TLS)."""
        self._held_bytes: int = getattr(sock, "held_bytes", 0)
        """The most bytes that the socket may have received and not delivered yet (TLS)."""
        self._low_water = 1
        self._buffers = buffers
        self._buffer = buffers.shared
        self._view = memoryview(buffers.shared)
        self._max_frame_bytes = max_frame_bytes
        self._sendfile = supports_sendfile
        self._head = b""
        self._frame: bytearray | None = None
        self._frame_size = self._frame_end = 0
        self._largest_frame = 0
        self._filled = 0
        self._out: deque[Any] = deque()
        self._file: SendableFile | None = None
        self._file_position = self._file_end = 0
        self._warmed_file: SendableFile | None = None
        self._is_writing = self._is_warming = self._is_paused = self._is_receiving = self._closed = False
        self._on_drained: Callable[[], None] | None = None
        self.receiver: FrameReceiver
        self.error: Exception | None = None
        """Why the connection ended; None if either side just closed it."""
        self.out_bytes = 0
        self.bytes_in = 0
        self.active_at = loop.time()

    def start(self, receiver: FrameReceiver) -> None:
        self.receiver = receiver
        self._loop.add_reader(self._sock, self._readable)
        if self._pending is not None and self._pending():
            self._loop.call_soon(self._read_pending)

    @property
    def is_closed(self) -> bool:
        return self._closed

    # Receiving

    def limit_frames(self, max_frame_bytes: int) -> None:
        """Take frames up to this size from now on: before a login a peer may send less than after it."""
        self._max_frame_bytes = max_frame_bytes

    def pause_reading(self) -> None:
        """Stop reading from this peer for now; frames that have already arrived wait as well."""
        if not self._is_paused and not self._closed:
            self._is_paused = True
            self._loop.remove_reader(self._sock)

    def resume_reading(self) -> None:
        if self._is_paused and not self._closed:
            self._is_paused = False
            # Not now: another channel may be in the middle of the shared buffer.
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        if self._is_paused or self._closed:
            return
        self._loop.add_reader(self._sock, self._readable)
        if len(self._head) >= 4:
            kept = len(self._head)
            self._buffer[:kept] = self._head
            self._head = b""
            self._take(None, kept)
        if self._pending is not None:
            self._read_pending()

    def _read_pending(self) -> None:
        if not self._is_paused and not self._closed and self._pending is not None and self._pending():
            self._readable()

    def _readable(self) -> None:
        frame = self._frame
        try:
            if frame is not None:
                received = self._receive(memoryview(frame)[self._filled : self._frame_end])
            elif self._head:
                kept = len(self._head)
                self._buffer[:kept] = self._head
                received = self._receive(self._view[kept:])
                if received:
                    received += kept
                    self._head = b""
            elif self._largest_frame > len(self._buffer):
                received = self._receive(self._view[:FIRST_FRAME_BYTES])
            else:
                received = self._receive(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.error = error
            self.close()
            return
        if received == 0:
            self.close()
            return
        self.active_at = self._time()
        if self._pending is not None and self._pending():
            self._loop.call_soon(self._read_pending)
        if frame is not None:
            self._filled += received
            if self._filled < self._frame_end:
                if self._low_water > 1:
                    self._wait_for_enough()
                return
        self._take(frame, received)

    def _take(self, frame: bytearray | None, received: int) -> None:
        """Take one frame that is complete, or so many bytes of the shared buffer. Answers to all frames of one read are
        sent together.
        """
        self._is_receiving = True
        try:
            if frame is None:
                self._parse(received)
                if self._frame is not None and _QUICK_ACK:
                    # A peer without TCP_NODELAY holds the frame's end back until all before it is acknowledged, which
                    # the system delays by 40 ms otherwise.
                    self._sock.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
            else:
                self._frame_filled(frame)
        except FrameTooLarge as error:
            self.error = error
            self.close()
        finally:
            self._is_receiving = False
        if self._frame is not None or self._low_water > 1:
            self._wait_for_enough()
        if self._out and not self._is_writing and not self._closed:
            self._write()

    def _wait_for_enough(self) -> None:
        """Let the system report a connection readable when a good part of its frame is there, not for every packet:
        peers that write TLS records send a megabyte in 64 pieces."""
        enough = 1
        if self._frame is not None:
            missing = self._frame_size - self._filled - self._held_bytes
            enough = min(missing, ENOUGH_BYTES) if missing > FIRST_FRAME_BYTES else 1
        if enough != self._low_water and not self._closed and _LOW_WATER:
            self._low_water = enough
            self._sock.setsockopt(socket.SOL_SOCKET, _LOW_WATER, enough)

    def _frame_filled(self, frame: bytearray) -> None:
        filled = self._frame_end
        if filled < self._frame_size:
            # The peer did send what it announced so far: make room for as much again.
            grown = self._frame = self._buffers.make(min(2 * filled, self._frame_size))
            self._frame_end = min(self._frame_size, len(grown))
            grown[:filled] = memoryview(frame)[:filled]
            return
        self._frame = None
        self._largest_frame = max(self._largest_frame, filled)
        self.bytes_in += filled + 4
        self.receiver.frame_received(memoryview(frame)[:filled])
        self._buffers.give(frame)

    def _parse(self, end: int) -> None:
        view = self._view
        buffer = self._buffer
        position = 0
        while end - position >= 4:
            if self._closed:
                return
            if self._is_paused:
                break
            size = buffer[position] << 24 | buffer[position + 1] << 16
            size |= buffer[position + 2] << 8 | buffer[position + 3]
            if size < 0 or size > self._max_frame_bytes:  # a negative one (compiled) reads as a huge one (plain)
                raise FrameTooLarge(size if size < 2**31 else size - 2**32)
            start = position + 4
            stop = start + size
            if stop > end:
                self._filled = end - start
                frame = self._buffers.take(size)
                if frame is None:
                    frame = self._buffers.make(min(size, max(FIRST_FRAME_BYTES, 2 * self._filled, self._largest_frame)))
                memoryview(frame)[: self._filled] = view[start:end]
                self._frame, self._frame_size, self._frame_end = frame, size, min(size, len(frame))
                return
            self._largest_frame = min(self._largest_frame, len(buffer))
            self.bytes_in += size + 4
            self.receiver.frame_received(view[start:stop])
            position = stop
        if position < end:
            self._head = bytes(view[position:end])

    # Sending

    def send(self, parts: list[Any]) -> None:
        """Queue parts (bytes-like or FilePart) and send what the socket takes now."""
        if self._closed:
            return
        self._out.extend(parts)
        for part in parts:
            self.out_bytes += len(part)
        if not self._is_receiving and not self._is_writing:
            self._write()

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Call once everything queued has left (or the connection has)."""
        if not self._out and self._file is None:
            callback()
        else:
            self._on_drained = callback

    def _write(self) -> None:
        try:
            while True:
                if self._file is not None:
                    if not self._send_file(self._file):
                        return
                elif self._out:
                    part = self._out[0]
                    if type(part) is not bytes and hasattr(part, "file"):
                        self._out.popleft()
                        self._file = part.file
                        self._file_position = part.position
                        self._file_end = part.position + len(part)
                    else:
                        self._send_bytes()
                else:
                    break
        except (BlockingIOError, InterruptedError):
            if not self._is_writing:
                self._is_writing = True
                self._loop.add_writer(self._sock, self._write)
            return
        except OSError as error:
            self.error = error
            self.close()
            return
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._sock)
        if self._on_drained is not None:
            callback, self._on_drained = self._on_drained, None
            callback()

    def _send_bytes(self) -> None:
        out = self._out
        gathered: list[Any] = []
        flags = 0
        for part in out:
            if type(part) is not bytes and hasattr(part, "file"):
                flags = _MORE
                break
            gathered.append(part)
            if len(gathered) == GATHER_PARTS:
                break
        if len(gathered) == 1 and not flags:
            sent = self._send(gathered[0])
        else:
            sent = self._sock.sendmsg(gathered, (), flags)
        self.out_bytes -= sent
        for part in gathered:
            size = len(part)
            if sent >= size:
                sent -= size
                out.popleft()
            else:
                out[0] = memoryview(part)[sent:]
                return

    def _send_file(self, file: SendableFile) -> bool:
        """Send the next chunk; False when the channel has to wait for the disk."""
        size = min(FILE_CHUNK_BYTES if self._sendfile else COPY_CHUNK_BYTES, self._file_end - self._file_position)
        if size == 0:
            self._file = None
            return True
        if not file.is_cached(self._file_position, size):
            self._warm(file, size)
            return False
        descriptor = file.fileno() if self._sendfile else None
        if descriptor is not None:
            sent = os.sendfile(self._sock.fileno(), descriptor, self._file_position, size)
            if sent == 0:
                raise OSError("a file grew shorter while it was being sent")
        else:
            self._put_first(file.read(self._file_position, size))
            return True
        self._file_position += sent
        self.out_bytes -= sent
        if self._file_position == self._file_end:
            self._file = None
        return True

    def _warm(self, file: SendableFile, size: int) -> None:
        if self._is_writing:
            self._loop.remove_writer(self._sock)
        self._is_writing = True  # no other call writes meanwhile
        self._is_warming = True
        file.hold()
        self._warmed_file = file
        warming = self._loop.run_in_executor(None, file.read, self._file_position, size)
        warming.add_done_callback(self._warmed)

    def _warmed(self, warming: asyncio.Future[bytes]) -> None:
        """A thread has read what the page cache lacked: send these bytes, then go on as before."""
        self._is_warming = False
        if self._warmed_file is not None:
            self._warmed_file.release()
            self._warmed_file = None
        if warming.cancelled() or self._closed:
            return
        if warming.exception() is not None:
            self.close()
            return
        data = warming.result()
        if not data:
            self.close()
            return
        self._is_writing = False
        self._put_first(data)
        self._write()

    def _put_first(self, data: bytes) -> None:
        """Send these bytes of the current file next, then the rest of it."""
        if not data:
            raise OSError("a file grew shorter while it was being sent")
        self._file_position += len(data)
        if self._file_position < self._file_end:
            # The rest of the file is sent after these bytes: it waits at the head of the queue.
            assert self._file is not None
            self._out.appendleft(_Rest(self._file, self._file_position, self._file_end - self._file_position))
        self._file = None
        self._out.appendleft(data)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if not self._is_paused:
            self._loop.remove_reader(self._sock)
        if self._is_writing and not self._is_warming:
            self._loop.remove_writer(self._sock)
        self._sock.close()
        self._out.clear()
        self._file = None
        self._frame = None
        self.receiver.channel_closed()
        if self._on_drained is not None:
            callback, self._on_drained = self._on_drained, None
            callback()
