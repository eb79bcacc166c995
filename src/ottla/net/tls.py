"""TLS over any non-blocking socket of `Sockets`, with the same interface, so that a channel works with both.

OpenSSL works on two buffers in memory; `TlsSocket` moves their bytes from and to the socket below, real or simulated.
Two things differ from a plain socket. The system does not report bytes as readable that are decrypted or wait to be:
`has_pending` does, and the channel reads on. And bytes that were encrypted cannot be withdrawn: if the socket below
does not take all of them, `send` raises BlockingIOError and remembers how much plain text they hold; the next call must
offer the same bytes first (a channel does), and sends the rest and returns that count.

The encrypted bytes of all connections of a thread are received into one buffer, and pass OpenSSL's own buffers in small
pieces: OpenSSL's buffers never shrink, and so an idle connection holds little memory. The socket reads the lengths of
the TLS records that pass, and asks OpenSSL for plain text only if it holds a whole record: in vain it would raise an
exception, which costs as much as decrypting 8 KB.

Cython compiles this file (types in tls.pxd), and it runs as it stands.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, cast

from ottla.net.blocking import Blocking
from ottla.net.dial import readable, writable
from ottla.net.sockets import Socket

ENCRYPTED_BYTES = 256 * 1024
"""At most so many bytes are read from the socket at once."""
PIECE_BYTES = 64 * 1024
"""At most so many bytes are encrypted before the socket is offered them."""
PLAIN_BYTES = 256 * 1024
"""At most so many bytes are taken by one call of `send`."""
RECORD_BYTES = 16 * 1024
"""The capacity of a TLS record. Parts that fit into one are encrypted together."""
LARGEST_RECORD_BYTES = RECORD_BYTES + 1024
HEADER_BYTES = 5
"""The header of a TLS record; its last two bytes are the length of what follows."""
ENCRYPTED_PIECE_BYTES = 4 * LARGEST_RECORD_BYTES
"""At most so many received bytes are given to OpenSSL at once."""
STEPS_AT_ONCE = 4
"""Handshake steps that run in threads at the same time, at most."""
_MORE: int = getattr(socket, "MSG_MORE", 0)
_NOTHING = memoryview(b"")


class _Shared(threading.local):
    """The receive buffers that the connections of one thread share: each delivers its bytes before another one
    reads.
    """

    def __init__(self) -> None:
        self.buffer = bytearray(ENCRYPTED_BYTES)
        self.view = memoryview(self.buffer)


_shared = _Shared()


class TlsSocket:
    """One end of a TLS connection. A handshake comes first: `handshake`, or a `Handshake` that runs beside the loop."""

    held_bytes = LARGEST_RECORD_BYTES
    """The most bytes that may be received and not decrypted yet: a record that has not arrived completely."""
    __slots__ = (
        "_arrived_end",
        "_given",
        "_head",
        "_incoming",
        "_is_ended",
        "_is_shaken",
        "_missing",
        "_outgoing",
        "_partial",
        "_plain_count",
        "_sock",
        "_tls",
        "_unsent",
        "fileno",
        "getsockopt",
        "has_received",
        "setsockopt",
    )

    def __init__(
        self,
        sock: Socket,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        is_server: bool = False,
    ) -> None:
        self._sock = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=is_server, server_hostname=server_hostname
        )
        self._given = self._arrived_end = 0
        """The part of the shared buffer that was received and not given to OpenSSL yet; empty between two calls."""
        self._head = b""
        """The first bytes of a record's header that has not arrived completely. OpenSSL gets it with the rest."""
        self._partial = 0
        """How many bytes OpenSSL was given of a record that has not arrived completely."""
        self._missing = 0
        """How many bytes of it are still to come."""
        self._is_ended = False
        self._unsent = _NOTHING
        """Encrypted bytes that the socket has not taken."""
        self._plain_count = 0
        """How many bytes of plain text the encrypted ones hold that `send` has not reported yet."""
        self._is_shaken = False
        self.has_received = False
        """Whether the other side has sent anything at all."""
        self.fileno = sock.fileno
        self.setsockopt = sock.setsockopt
        self.getsockopt = sock.getsockopt

    # The handshake

    async def handshake(self) -> None:
        """Perform the handshake. ssl.SSLError if the two sides do not agree, ConnectionResetError if the other one
        closes the connection.
        """
        while True:
            try:
                is_done = self.step()
            except ssl.SSLError:
                self.flush_alert()
                raise
            await self._flush_all()
            if is_done:
                return
            try:
                self.receive_handshake()
            except (BlockingIOError, InterruptedError):
                await readable(self._sock)

    def handshake_in_place(self, blocking: Blocking, seconds: float) -> None:
        """As `handshake`, without an event loop; TimeoutError if it takes longer than `seconds`."""
        ends_at = blocking.now() + seconds
        while True:
            try:
                is_done = self.step()
            except ssl.SSLError:
                self.flush_alert()
                raise
            self._go_on(self.flush, blocking, blocking.wait_writable, ends_at)
            if is_done:
                return
            self._go_on(self.receive_handshake, blocking, blocking.wait_readable, ends_at)

    def _go_on(
        self, act: Callable[[], None], blocking: Blocking, wait: Callable[[Socket, float], None], ends_at: float
    ) -> None:
        while True:
            try:
                return act()
            except (BlockingIOError, InterruptedError):
                wait(self._sock, max(0.0, ends_at - blocking.now()))

    def step(self) -> bool:
        """Let OpenSSL go on with what has arrived; whether the handshake is done. This is the costly part, and touches
        no socket: it may run in a thread."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self._is_shaken = True
        return True

    def receive_handshake(self) -> None:
        """Read what the other side sent; BlockingIOError if there is nothing now."""
        if not self._receive(LARGEST_RECORD_BYTES):
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        while self._give():
            pass

    def flush_alert(self) -> None:
        """Send the alert with the reason of a failed handshake, if the socket takes it."""
        with suppress(OSError):
            self.flush()

    async def _flush_all(self) -> None:
        while True:
            try:
                self.flush()
                return
            except (BlockingIOError, InterruptedError):
                await writable(self._sock)

    def certificate(self) -> bytes | None:
        """The certificate of the other side in DER; None if it has shown none."""
        return self._tls.getpeercert(binary_form=True)

    def protocol(self) -> tuple[str, str]:
        """The version of TLS and the cipher that both sides agreed on."""
        cipher = self._tls.cipher()
        return self._tls.version() or "", cipher[0] if cipher is not None else ""

    # Receiving

    def has_pending(self) -> bool:
        """Whether a read may return bytes though the socket below has none."""
        return self._incoming.pending > self._partial or self._tls.pending() > 0

    def recv_into(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        size = len(view)
        filled = self._decrypt(view, size, 0)
        while not filled:
            if self._is_ended or not self._receive(size):
                return 0
            while self._give():
                filled = self._decrypt(view, size, filled)
        return filled

    def _decrypt(self, view: memoryview, size: int, filled: int) -> int:
        """Fill a buffer with decrypted bytes and return how many it has."""
        while filled < size and self.has_pending():
            try:
                count = cast(int, self._tls.read(size - filled, view[filled:]))
            except ssl.SSLWantReadError:
                break  # the record was one of TLS's own
            except ssl.SSLZeroReturnError:
                count = 0
            if count == 0:
                self._is_ended = True
                break
            filled += count
        return filled

    def _receive(self, wanted: int) -> bool:
        """Receive encrypted bytes; False if the socket has ended, BlockingIOError if it has no bytes now."""
        if self._outgoing.pending:
            with suppress(BlockingIOError, InterruptedError):
                self.flush()  # TLS's own answers to what it read
        view = _shared.view
        kept = len(self._head)
        # Not much more than the caller has room for: what is left over stays in OpenSSL's buffers.
        received = self._sock.recv_into(view[kept : max(wanted, LARGEST_RECORD_BYTES)])
        if not received:
            return False
        self.has_received = True
        view[:kept] = self._head
        self._head = b""
        self._given, self._arrived_end = 0, kept + received
        return True

    def _give(self) -> bool:
        """Give OpenSSL the next piece of what was received; False if there is none."""
        start = self._given
        stop = self._given = self._piece_end(start)
        if stop == start:
            return False
        self._incoming.write(_shared.view[start:stop])
        return True

    def _piece_end(self, start: int) -> int:
        """The end of the piece that starts here: whole records, and at the end of what arrived part of a record."""
        buffer = _shared.buffer
        end = self._arrived_end
        stop = start + self._missing
        if stop > end:
            self._partial += end - start
            self._missing = stop - end
            return end
        if self._missing:
            self._missing = self._partial = 0
        position = stop
        while position < end:
            if end - position < HEADER_BYTES:
                self._head = bytes(buffer[position:end])
                self._arrived_end = position
                break
            size = HEADER_BYTES + (buffer[position + 3] << 8 | buffer[position + 4])
            stop = position + size
            if stop - start > ENCRYPTED_PIECE_BYTES and position > start:
                break
            if stop > end:
                # A record that is too long is no record: OpenSSL says so.
                self._partial = end - position if size <= LARGEST_RECORD_BYTES else 0
                self._missing = stop - end
                return end
            position = stop
        return position

    # Sending

    def send(self, data: Any, /) -> int:
        return self.sendmsg((data,))

    def sendmsg(self, buffers: Iterable[Any], ancdata: Iterable[Any] = (), flags: int = 0, /) -> int:
        if self._plain_count:
            self.flush()
        else:
            parts = list(buffers)
            if flags & _MORE and sum(map(len, parts)) <= RECORD_BYTES and not self._outgoing.pending:
                # More bytes follow at once and are sent together with these.
                return self._encrypt(parts)
            self._send_pieces(parts)
        sent, self._plain_count = self._plain_count, 0
        return sent

    def _send_pieces(self, buffers: list[Any]) -> None:
        if len(buffers) > 1 or len(buffers[0]) <= PIECE_BYTES:
            self._plain_count = self._encrypt(buffers)
            self.flush()
            return
        view = memoryview(buffers[0])[:PLAIN_BYTES]
        for start in range(0, len(view), PIECE_BYTES):
            self._plain_count += self._tls.write(view[start : start + PIECE_BYTES])
            self.flush()

    def _encrypt(self, buffers: Iterable[Any]) -> int:
        """Encrypt the first parts, small ones together in one record; returns how many bytes that were."""
        count = 0
        small: list[Any] = []
        small_size = 0
        for buffer in buffers:
            size = len(buffer)
            if small_size and small_size + size > RECORD_BYTES:
                count += self._tls.write(b"".join(small))
                small, small_size = [], 0
            if size <= RECORD_BYTES:
                small.append(buffer)
                small_size += size
            else:
                taken = self._tls.write(memoryview(buffer)[:PIECE_BYTES])
                count += taken
                if taken < size:
                    return count
            if count >= PIECE_BYTES:
                break
        if small_size:
            count += self._tls.write(b"".join(small))
        return count

    def flush(self) -> None:
        """Send what is encrypted; BlockingIOError if the socket does not take all of it now."""
        while True:
            if not self._unsent:
                if not self._outgoing.pending:
                    return
                self._unsent = memoryview(self._outgoing.read())
            self._unsent = self._unsent[self._sock.send(self._unsent) :]

    def close(self) -> None:
        """Close the socket, after sending TLS's closing alert if it can be sent now."""
        if self._is_shaken and not self._unsent:
            with suppress(OSError, ValueError):
                self._tls.unwrap()
            self.flush_alert()
        self._sock.close()


class HandshakeTurns:
    """Runs the costly steps of handshakes in threads, a few at a time: so when many clients connect at once, the loop
    still serves open connections, and reads of the disk find a free thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running = 0
        self._waiting: deque[tuple[Callable[[], bool], Callable[[asyncio.Future[bool]], None]]] = deque()

    def run(self, step: Callable[[], bool], on_done: Callable[[asyncio.Future[bool]], None]) -> None:
        if self._running >= STEPS_AT_ONCE:
            self._waiting.append((step, on_done))
        else:
            self._start(step, on_done)

    def _start(self, step: Callable[[], bool], on_done: Callable[[asyncio.Future[bool]], None]) -> None:
        self._running += 1
        running = self._loop.run_in_executor(None, step)
        running.add_done_callback(self._ended)
        running.add_done_callback(on_done)

    def _ended(self, running: asyncio.Future[bool]) -> None:
        self._running -= 1
        if self._waiting and self._running < STEPS_AT_ONCE:
            self._start(*self._waiting.popleft())


class Handshake:
    """One handshake beside everything else. `on_done` is called once: with None when it is done, or with the error that
    ended it (TimeoutError after `timeout_s`). The caller closes the connection: after an error the socket itself, not
    the TlsSocket, because a thread may still be working on that.
    """

    __slots__ = ("_is_reading", "_is_writing", "_loop", "_on_done", "_sock", "_timer", "_turns", "tls")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        turns: HandshakeTurns,
        sock: Socket,
        tls: TlsSocket,
        on_done: Callable[[OSError | None], None],
        timeout_s: float,
        *,
        begins: bool,
    ) -> None:
        self.tls = tls
        self._loop = loop
        self._turns = turns
        self._sock = sock
        self._on_done: Callable[[OSError | None], None] | None = on_done
        self._timer = loop.call_later(timeout_s, self._late)
        self._is_reading = self._is_writing = False
        if begins:
            self._step()
        else:
            self._read()

    def cancel(self) -> None:
        """End the handshake without calling `on_done`."""
        self._on_done = None
        self._timer.cancel()
        self._stop_reading()
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._sock)

    def _late(self) -> None:
        self._end(TimeoutError(errno.ETIMEDOUT, "the handshake took too long"))

    def _end(self, error: OSError | None) -> None:
        on_done = self._on_done
        self.cancel()
        if on_done is not None:
            on_done(error)

    def _read(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._loop.add_reader(self._sock, self._readable)

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._sock)

    def _readable(self) -> None:
        try:
            self.tls.receive_handshake()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        self._stop_reading()
        self._step()

    def _step(self) -> None:
        self._turns.run(self.tls.step, self._stepped)

    def _stepped(self, stepped: asyncio.Future[bool]) -> None:
        if self._on_done is None or stepped.cancelled():
            return
        error = stepped.exception()
        if error is None:
            self._flush(stepped.result())
        else:
            self.tls.flush_alert()
            self._end(error if isinstance(error, OSError) else OSError(str(error)))

    def _flush(self, is_done: bool) -> None:
        try:
            self.tls.flush()
        except (BlockingIOError, InterruptedError):
            if not self._is_writing:
                self._is_writing = True
                self._loop.add_writer(self._sock, self._flush, is_done)
            return
        except OSError as error:
            self._end(error)
            return
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._sock)
        if is_done:
            self._end(None)
        else:
            self._read()
