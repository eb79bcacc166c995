"""A TLS socket over a socket that gives what the other end encrypted in pieces of the test's choice."""

from __future__ import annotations

import random
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ottla.net.tls import TlsSocket

FILES = Path(__file__).parents[2] / "vectors" / "tls"
RECORD_BYTES = 16_384
HEADER_BYTES = 5


class Pieces:
    """The socket below: each read gives at most one piece, and none if there are no more."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.sent = bytearray()

    def recv_into(self, buffer: Any, /) -> int:
        if not self.pieces:
            raise BlockingIOError
        piece = self.pieces.pop(0)
        taken = min(len(buffer), len(piece))
        buffer[:taken] = piece[:taken]
        if taken < len(piece):
            self.pieces.insert(0, piece[taken:])
        return taken

    def send(self, data: Any, /) -> int:
        self.sent += data
        return len(data)

    def sendmsg(self, buffers: Iterable[Any], ancdata: Iterable[Any] = (), flags: int = 0, /) -> int:
        return self.send(b"".join(buffers))

    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...

    def getsockopt(self, level: int, option: int, /) -> int:
        return 0

    def fileno(self) -> int:
        return -1

    def close(self) -> None: ...


class Connection:
    """A client, and the TLS socket of its server, after their handshake."""

    def __init__(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(FILES / "broker.pem")
        client = ssl.create_default_context(cafile=str(FILES / "ca.pem"))
        client.maximum_version = version
        self.below = Pieces()
        self.socket = TlsSocket(self.below, server, is_server=True)
        self._arrived, self._written = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._client = client.wrap_bio(self._arrived, self._written, server_hostname="broker.test")
        while not self._shake():
            self.below.pieces.append(self._written.read())
            self.socket.receive_handshake()
            self.socket.step()
            self.socket.flush()
            self._arrived.write(self.below.sent)
            self.below.sent.clear()

    def _shake(self) -> bool:
        try:
            self._client.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.below.pieces.append(self._written.read())
        if self.below.pieces[-1]:
            self.socket.receive_handshake()
            self.socket.step()
        return True

    def encrypt(self, data: bytes) -> bytes:
        """What the client sends for these bytes: a record for each call, or several for a large one."""
        view = memoryview(data)
        while view:
            view = view[self._client.write(view) :]
        return self._written.read()

    def end(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self._client.unwrap()
        return self._written.read()

    def read(self, room: int) -> bytes:
        """Everything that can be read now, with a buffer of this size."""
        buffer = bytearray(room)
        found = bytearray()
        while True:
            try:
                count = self.socket.recv_into(buffer)
            except BlockingIOError:
                return bytes(found)
            if not count:
                return bytes(found)
            found += buffer[:count]


@pytest.fixture
def reads_in_vain(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for each read of OpenSSL that finds no whole record."""
    in_vain: list[int] = []
    read = ssl.SSLObject.read

    def counted(self: ssl.SSLObject, *arguments: Any) -> Any:
        try:
            return read(self, *arguments)
        except ssl.SSLWantReadError:
            in_vain.append(1)
            raise

    monkeypatch.setattr(ssl.SSLObject, "read", counted)
    return in_vain


def cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
        if not data:
            break
    return [*pieces, data] if data else pieces


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 1_000, 16_405, 16_406, 16_407, 40_000, 300_000])
def test_records_may_arrive_in_pieces_of_any_size(size: int, version: ssl.TLSVersion, reads_in_vain: list[int]) -> None:
    connection = Connection(version)
    rng = random.Random(size)
    sizes = (1, 10, 5_000, 300) if size < 1_000 else (1, RECORD_BYTES, 200_000, 5, 100_000, 3)
    sent = [rng.randbytes(count) for count in sizes]
    encrypted = b"".join(map(connection.encrypt, sent))
    connection.below.pieces = cut(encrypted, [size] * len(encrypted))
    assert connection.read(512 * 1024) == b"".join(sent)
    assert not reads_in_vain


@pytest.mark.parametrize("seed", range(20))
def test_buffers_and_pieces_of_any_size_give_the_bytes_that_were_sent(seed: int, reads_in_vain: list[int]) -> None:
    connection = Connection()
    rng = random.Random(seed)
    sent = [rng.randbytes(rng.choice((1, 100, 16_384, 16_385, 70_000, 260_000))) for _ in range(8)]
    encrypted = b"".join(map(connection.encrypt, sent))
    connection.below.pieces = cut(encrypted, (rng.choice((1, 4, 5, 700, 16_000, 66_000)) for _ in encrypted))
    assert connection.read(rng.choice((1_000, 16_384, 30_000, 512 * 1024))) == b"".join(sent)
    assert not reads_in_vain


def test_a_part_of_a_record_is_nothing_to_read_yet() -> None:
    connection = Connection()
    encrypted = connection.encrypt(b"x" * 100)
    for piece in (encrypted[:3], encrypted[3:40], encrypted[40:-1]):
        connection.below.pieces = [piece]
        assert connection.read(1_000) == b""
        assert not connection.socket.has_pending()
    connection.below.pieces = [encrypted[-1:]]
    assert connection.read(1_000) == b"x" * 100


def test_what_a_small_buffer_leaves_of_a_record_is_pending() -> None:
    connection = Connection()
    connection.below.pieces = [connection.encrypt(b"abc") + connection.encrypt(b"def")]
    buffer = bytearray(2)
    pending = []
    for _ in range(3):
        assert connection.socket.recv_into(buffer) == 2
        pending.append(connection.socket.has_pending())
    assert pending == [True, True, False]


def test_the_other_ends_goodbye_ends_the_reading() -> None:
    connection = Connection()
    connection.below.pieces = [connection.encrypt(b"last") + connection.end()]
    buffer = bytearray(100)
    assert connection.socket.recv_into(buffer) == 4
    assert connection.socket.recv_into(buffer) == 0


@pytest.mark.parametrize("length", [20_000, 65_535])
def test_a_record_that_announces_too_much_is_refused_at_once(length: int) -> None:
    connection = Connection()
    connection.below.pieces = [b"\x17\x03\x03" + length.to_bytes(2, "big") + b"x"]
    with pytest.raises(ssl.SSLError, match=r"PACKET_LENGTH_TOO_LONG|ENCRYPTED_LENGTH_TOO_LONG"):
        connection.read(100)


def test_a_record_that_was_changed_is_refused() -> None:
    connection = Connection()
    changed = bytearray(connection.encrypt(b"x" * 100))
    changed[HEADER_BYTES] ^= 1
    connection.below.pieces = [bytes(changed)]
    with pytest.raises(ssl.SSLError):
        connection.read(1_000)
