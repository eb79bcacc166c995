"""TLS over any non-blocking socket of the port, behind the same interface: a channel cannot tell.

OpenSSL works on two buffers in memory; this class moves their bytes from and to the socket below, real or simulated.
Two things differ from a plain socket. Bytes that were decrypted, or wait to be, are not reported by the system as
readable: `has_pending` says so, and the channel reads on. And bytes that were encrypted cannot be taken back: if the
socket below does not take all of them, `send` raises BlockingIOError and remembers how much plain text they hold; the
next call, which must offer the same bytes first (a channel does), sends the rest and returns that count.
"""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

from ottla.net.dial import readable, writable
from ottla.net.sockets import Socket

ENCRYPTED_BYTES = 256 * 1024
"""So much is read from the socket at once."""
PLAIN_BYTES = 256 * 1024
"""At most so much is encrypted ahead of what the socket has taken."""


class TlsSocket:
    """One end of a TLS connection. `handshake` comes first."""

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
        self._encrypted = bytearray(ENCRYPTED_BYTES)
        self._unsent = memoryview(b"")
        """Encrypted bytes that the socket has not taken."""
        self._plain_count = 0
        """How many bytes of plain text the encrypted ones hold that `send` has not reported yet."""
        self.fileno = sock.fileno
        self.setsockopt = sock.setsockopt
        self.getsockopt = sock.getsockopt
        self.close = sock.close

    async def handshake(self) -> None:
        """ssl.SSLError if the two sides do not agree, ConnectionResetError if the other one ends the connection."""
        while True:
            try:
                self._tls.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                is_done = False
            except ssl.SSLError:
                with suppress(OSError):
                    self._flush()  # the alert that says why
                raise
            await self._flush_all()
            if is_done:
                return
            try:
                received = self._sock.recv_into(self._encrypted)
            except (BlockingIOError, InterruptedError):
                await readable(self._sock)
                continue
            if received == 0:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            self._incoming.write(memoryview(self._encrypted)[:received])

    async def _flush_all(self) -> None:
        while True:
            try:
                self._flush()
                return
            except (BlockingIOError, InterruptedError):
                await writable(self._sock)

    # Receiving

    def has_pending(self) -> bool:
        """Whether a read may return bytes though the socket below has none."""
        return self._tls.pending() > 0 or self._incoming.pending > 0

    def recv_into(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        filled = 0
        while filled < len(view):
            try:
                count = cast(int, self._tls.read(len(view) - filled, view[filled:]))
            except ssl.SSLWantReadError:
                if filled:
                    break
                if not self._receive():
                    return 0
            except ssl.SSLZeroReturnError:
                break
            else:
                if count == 0:
                    break
                filled += count
        return filled

    def _receive(self) -> bool:
        """Whether the socket below has not ended; BlockingIOError if it has no bytes now."""
        if self._outgoing.pending:
            with suppress(BlockingIOError, InterruptedError):
                self._flush()  # what TLS itself answers to what it read
        received = self._sock.recv_into(self._encrypted)
        self._incoming.write(memoryview(self._encrypted)[:received])
        return received > 0

    # Sending

    def send(self, data: Any, /) -> int:
        return self.sendmsg((data,))

    def sendmsg(self, buffers: Iterable[Any], ancdata: Iterable[Any] = (), flags: int = 0, /) -> int:
        if not self._plain_count:
            count = 0
            for buffer in buffers:
                view = memoryview(buffer)[: PLAIN_BYTES - count]
                count += self._tls.write(view) if len(view) else 0
                if count == PLAIN_BYTES:
                    break
            self._plain_count = count
        self._flush()
        sent, self._plain_count = self._plain_count, 0
        return sent

    def _flush(self) -> None:
        """Send what is encrypted; BlockingIOError if the socket does not take all of it now."""
        while True:
            if not self._unsent:
                if not self._outgoing.pending:
                    return
                self._unsent = memoryview(self._outgoing.read())
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
