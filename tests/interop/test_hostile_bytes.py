"""Bytes no client would send: the server answers, refuses or closes, keeps its memory bounded and serves the others."""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.interop import requests
from tests.interop.conftest import ON_KAFKA, new_server
from tests.interop.servers import API_VERSIONS_V0, METADATA_V1_ALL_TOPICS, Server, ask, read_exactly

MIB = 1024 * 1024
AT_ONCE_S = 15 if os.environ.get("OTTLA_INTEROP_ALL") == "1" else 100
"""An answer that waits for another connection never comes. How soon one comes is asked when there is no other work."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own, so that the hostile bytes of these tests disturb no other test."""
    started = new_server(tmp_path_factory.mktemp("hostile") / "data", ["num.partitions=1"])
    started.start()
    yield started
    started.kill()


@pytest.fixture(autouse=True)
def lives_on(server: Server) -> Iterator[None]:
    """After each test the server answers at once, and its memory has grown by no more than a few frames."""
    before = server.rss_bytes()
    yield
    assert server.is_running(), server.output()
    started = time.monotonic()
    assert server.answers(), "no answer afterwards"
    assert time.monotonic() - started < AT_ONCE_S
    grown = server.rss_bytes() - before
    assert ON_KAFKA or grown < 150 * MIB, f"resident memory grew by {grown // MIB} MiB"


def sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def closes(connection: socket.socket) -> bool:
    """Whether the server ends the connection without an answer."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def drain(connection: socket.socket, seconds: float) -> None:
    """Say goodbye, then read what still comes."""
    connection.settimeout(seconds)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


def test_random_bytes(server: Server) -> None:
    rng = Random(1)
    for _ in range(300):
        with server.connect() as connection, contextlib.suppress(OSError):
            connection.sendall(rng.randbytes(rng.choice((1, 3, 4, 5, 20, 2000))))
            drain(connection, 0.02)


def test_random_bytes_behind_a_right_size_and_api_key(server: Server) -> None:
    rng = Random(2)
    for api_key in range(95):
        for version in range(0, 19, 3):
            body = struct.pack(">hhi", api_key, version, 7) + rng.randbytes(rng.choice((0, 2, 10, 100)))
            with server.connect() as connection, contextlib.suppress(OSError):
                connection.sendall(sized(body))
                drain(connection, 0.02)


def mutated(frame: bytes, rng: Random) -> bytes:
    changed = bytearray(frame)
    for _ in range(rng.choice((1, 1, 2, 8))):
        position = rng.randrange(len(changed))
        match rng.randrange(5):
            case 0:
                changed[position] ^= 1 << rng.randrange(8)
            case 1:
                changed[position : position + 4] = rng.choice(
                    (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00")
                )
            case 2:
                del changed[position:]
            case 3:
                changed[position:position] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                changed[position] = rng.choice((0, 0x7F, 0x80, 0xFF))
        if not changed:
            return b"\x00"
    return bytes(changed)


def test_mutated_requests_of_every_api_and_version(server: Server) -> None:
    rng = Random(3)
    hints = {"max_wait": datetime.timedelta(0), "num_partitions": 1, "count": 2}
    for api_key in requests.all_apis():
        for version in requests.versions(api_key):
            with server.connect() as connection, contextlib.suppress(OSError):
                for _ in range(8):
                    frame = requests.frame(requests.request(api_key, version, hints, rng))
                    connection.sendall(sized(mutated(frame, rng)))
                drain(connection, 0.05)


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 100 * MIB + 1, 0, 1])
def test_an_impossible_size_closes_the_connection(server: Server, size: int) -> None:
    with server.connect() as connection:
        connection.sendall(struct.pack(">i", size) + b"\x00" * 64)
        assert closes(connection)


@pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka sets them aside and runs out of memory")
def test_declared_but_unsent_megabytes_are_not_set_aside(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            connection = stack.enter_context(server.connect())
            connection.sendall(struct.pack(">ihhih", 100 * MIB, 0, 9, 1, -1) + b"\x00" * 1000)
        time.sleep(0.5)
        assert server.answers()
        assert ON_KAFKA or server.rss_bytes() < 500 * MIB


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">hhihi", 3, 1, 1, -1, 2**31 - 1),  # Metadata: an array of two billion topics
        struct.pack(">hhihih", 3, 1, 1, -1, 1, 32767),  # a name longer than the frame
        struct.pack(">hhihb", 3, 9, 1, -1, 0) + b"\xff\xff\xff\xff\x0f",  # a compact array of 2**32 - 2
        struct.pack(">hhihb", 3, 9, 1, -1, 0) + b"\xff" * 12,  # a varint without end
        struct.pack(">hhihi", 3, 1, 1, 5, 0)[:11],  # ends inside the header
        struct.pack(">hhihb", 18, 3, 1, -1, 0) + b"\x04kio\x021\xff\xff\xff\xff\x07",  # two billion tagged fields
        struct.pack(">hhihhhii", 0, 3, 1, -1, -1, 1, 1000, 2**31 - 1),  # Produce: two billion topics
        struct.pack(">hhihiiiibi", 1, 4, 1, -1, -1, 100, 1, 2**31 - 1, 0, 2**31 - 1),  # Fetch: two billion topics
    ],
)
def test_counts_and_lengths_beyond_the_frame_end_the_connection(server: Server, body: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(sized(body))
        assert closes(connection)


def test_an_unknown_api_or_version_closes_and_apiversions_answers_version_0(server: Server) -> None:
    for api_key, version in ((3, 99), (999, 0), (-1, 0), (0, 99), (4, 0), (3, -1)):
        with server.connect() as connection:
            connection.sendall(sized(struct.pack(">hhih", api_key, version, 1, -1)))
            assert closes(connection), (api_key, version)
    with server.connect() as connection:
        received = ask(connection, struct.pack(">hhihb", 18, 99, 77, -1, 0))
        correlation_id, error_code, count = struct.unpack_from(">ihi", received)
        assert (correlation_id, error_code) == (77, 35)
        assert (18, 0, 5) in struct.iter_unpack(">hhh", received[10 : 10 + 6 * count])
        assert len(ask(connection, API_VERSIONS_V0)) > 100  # the same connection goes on


def test_a_request_may_arrive_byte_by_byte(server: Server) -> None:
    with server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in sized(METADATA_V1_ALL_TOPICS):
            connection.sendall(bytes([byte]))
            time.sleep(0.002)
        (size,) = struct.unpack(">i", read_exactly(connection, 4))
        assert struct.unpack_from(">i", read_exactly(connection, size))[0] == 2


def test_a_thousand_requests_at_once_are_answered_in_order(server: Server) -> None:
    count = 1000
    with server.connect() as connection:
        connection.sendall(b"".join(sized(struct.pack(">hhihi", 3, 1, number, -1, 0)) for number in range(count)))
        for number in range(count):
            (size,) = struct.unpack(">i", read_exactly(connection, 4))
            assert struct.unpack_from(">i", read_exactly(connection, size))[0] == number


def test_unfinished_frames_do_not_disturb_other_connections(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(500):
            connection = stack.enter_context(server.connect())
            connection.sendall(sized(METADATA_V1_ALL_TOPICS)[: 1 + number % 15])
        for _ in range(20):
            started = time.monotonic()
            assert server.answers()
            assert time.monotonic() - started < AT_ONCE_S


def test_two_thousand_connections_come_and_go(server: Server) -> None:
    time.sleep(0.3)
    before = server.open_files()
    for _ in range(4):
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(server.connect()) for _ in range(500)]
            for connection in connections[::5]:
                assert ask(connection, API_VERSIONS_V0)
    for _ in range(1_200):
        if server.open_files() <= before + 20:
            break
        time.sleep(0.1)
    assert server.open_files() <= before + 20


def big_topic(server: Server) -> str:
    """A topic with about 20 MB in it."""
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
    producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap, "message.max.bytes": 2_000_000})
    for _ in range(20):
        producer.produce("big", b"\x01" * 1_000_000, partition=0)
        producer.flush(120)
    return "big"


def fetch_frame(topic: str, correlation_id: int) -> bytes:
    """Fetch v4: one partition from offset 0, up to 50 MB."""
    name = topic.encode()
    head = struct.pack(">hhihiiiib", 1, 4, correlation_id, -1, -1, 0, 1, 50 * MIB, 0)
    return head + struct.pack(f">ih{len(name)}siiqi", 1, len(name), name, 1, 0, 0, 50 * MIB)


def test_slow_readers_cost_little_memory_and_delay_no_other_client(server: Server) -> None:
    """Twenty clients each ask for 20 MB fifty times and read nothing."""
    topic = big_topic(server)
    before = server.rss_bytes()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(server.connect())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(b"".join(sized(fetch_frame(topic, number)) for number in range(50)))
        time.sleep(1)
        assert ON_KAFKA or server.rss_bytes() - before < 100 * MIB
        started = time.monotonic()
        for _ in range(10):
            assert server.answers()
        assert time.monotonic() - started < AT_ONCE_S
        with server.connect() as connection:
            assert len(ask(connection, fetch_frame(topic, 1))) > 15_000_000


def varint(number: int) -> bytes:
    zigzag = number << 1
    parts = bytearray()
    while zigzag >= 128:
        parts.append(zigzag & 127 | 128)
        zigzag >>= 7
    parts.append(zigzag)
    return bytes(parts)


def bomb(size: int) -> bytes:
    """A gzip batch whose only record has a value of `size` zero bytes."""
    google_crc32c: Any = pytest.importorskip("google_crc32c")
    head = b"\x00" + varint(0) + varint(0) + b"\x01" + varint(size)
    record_size = len(head) + size + 1
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = io.BytesIO()
    packed.write(packer.compress(varint(record_size) + head))
    for _ in range(size // MIB):
        packed.write(packer.compress(b"\x00" * MIB))
    packed.write(packer.compress(b"\x00" * (size % MIB) + b"\x00"))
    packed.write(packer.flush())
    timestamp = int(time.time() * 1000)
    rest = struct.pack(">hiqqqhii", 1, 0, timestamp, timestamp, -1, -1, -1, 1) + packed.getvalue()
    return struct.pack(">qiibI", 0, 9 + len(rest), -1, 2, google_crc32c.value(rest)) + rest


def test_a_decompression_bomb_does_not_fill_the_memory(server: Server) -> None:
    batch = bomb(700 * MIB)
    assert len(batch) < 1_000_000
    hints = {
        "name": "bomb",
        "acks": 1,
        "timeout": datetime.timedelta(seconds=20),
        "records": batch,
        "transactional_id": None,
    }
    with server.connect(250) as connection:
        ask(connection, requests.frame(requests.request(3, 4, {"name": "bomb", "allow_auto_topic_creation": True})))
        time.sleep(0.5)
        received = ask(connection, requests.frame(requests.request(0, 8, hints)))
        requests.answer(0, 8, received)


@pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka writes its own log messages")
def test_none_of_this_ends_in_a_traceback(server: Server) -> None:
    """Runs against the same server as the others; whatever came before must not have been an unexpected exception."""
    text = Path(server.log).read_text(errors="replace")
    assert "Traceback" not in text, text[text.index("Traceback") :][:3000]
