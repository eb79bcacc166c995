"""One connection of a client, its bytes handed over without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from ottla.client.config import ClientConfig
from ottla.client.connection import MAX_FRAME_BYTES, RECEIVE_BYTES, Connection
from ottla.client.errors import (
    AuthenticationError,
    KafkaError,
    NetworkError,
    RequestTimedOut,
    TlsError,
    UnsupportedByBroker,
)
from ottla.wire import Message
from ottla.wire.frames import decode_request_header, encode_response
from ottla.wire.greeting import Versions
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse


class Loop:
    """The running loop, with the sockets of this test in place of the system's."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.readers: dict[object, Callable[[], None]] = {}
        self.writers: dict[object, Callable[[], None]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def add_reader(self, sock: object, callback: Callable[[], None]) -> None:
        self.readers[sock] = callback

    def remove_reader(self, sock: object) -> None:
        self.readers.pop(sock, None)

    def add_writer(self, sock: object, callback: Callable[[], None]) -> None:
        self.writers[sock] = callback

    def remove_writer(self, sock: object) -> None:
        self.writers.pop(sock, None)


class Pipe:
    """A socket that collects what is written, and has what the test puts into it."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.written = bytearray()
        self.incoming = bytearray()
        self.error: OSError | None = None
        """What reading and writing raise."""
        self.takes = True
        self.is_closed = False

    def send(self, data: Any) -> int:
        if self.error is not None:
            raise self.error
        if not self.takes:
            raise BlockingIOError
        self.written += data
        return len(data)

    def sendmsg(self, buffers: Any, *_: Any) -> int:
        return sum(self.send(bytes(buffer)) for buffer in buffers)

    def recv_into(self, buffer: Any) -> int:
        if self.error is not None:
            raise self.error
        view = memoryview(buffer)
        size = min(len(view), len(self.incoming))
        view[:size] = self.incoming[:size]
        del self.incoming[:size]
        return size

    def setsockopt(self, *_: Any) -> None: ...

    def getsockopt(self, *_: Any) -> int:
        return 0

    def fileno(self) -> int:
        return 1

    def close(self) -> None:
        self.is_closed = True


def connected(max_frame_bytes: int = MAX_FRAME_BYTES, /, **settings: Any) -> tuple[Connection, Pipe]:
    config = ClientConfig.parse({"bootstrap.servers": "h:1", **settings})
    pipe = Pipe()
    connection = Connection(cast(asyncio.AbstractEventLoop, pipe.loop), config, "h", 1)
    connection.start(pipe, max_frame_bytes=max_frame_bytes)
    connection.versions = Versions({3: (0, 13), 18: (0, 4)})
    return connection, pipe


def receive(pipe: Pipe, data: bytes, piece: int = 1 << 20) -> None:
    """Hand over bytes as a socket would, in pieces of at most that size."""
    for position in range(0, len(data), piece):
        pipe.incoming += data[position : position + piece]
        while pipe.incoming and not pipe.is_closed:
            pipe.loop.readers[pipe]()


def end(pipe: Pipe, error: OSError | None = None) -> None:
    """The broker closes the connection, or it breaks."""
    pipe.error = error
    pipe.loop.readers[pipe]()


def answer(correlation_id: int, response: Message, version: int = 13) -> bytes:
    api_key = type(response).__schema__.api_key
    assert api_key is not None
    return b"".join(bytes(piece) for piece in encode_response(api_key, version, correlation_id, response))


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


@pytest.mark.parametrize("piece", [1, 3, 7, 1 << 20])
def test_answers_find_their_requests_however_they_arrive(piece: int) -> None:
    async def work() -> None:
        connection, pipe = connected()
        waiting = [connection.request(MetadataRequest(topics=[])) for _ in range(3)]
        frames = b"".join(answer(number, MetadataResponse(controller_id=number)) for number in range(3))
        receive(pipe, frames, piece)
        assert [one.result().controller_id for one in waiting] == [0, 1, 2]
        assert connection.in_flight_count == 0

    run(work)


@pytest.mark.parametrize("size", [10, RECEIVE_BYTES // 4, RECEIVE_BYTES, 3_000_000])
def test_an_answer_of_any_size_is_received_and_can_be_kept(size: int) -> None:
    async def work() -> None:
        connection, pipe = connected()
        brokers = [MetadataResponseBroker(node_id=number, host="x" * 100) for number in range(size // 100 + 1)]
        waiting = [connection.request(MetadataRequest(topics=[])) for _ in range(2)]
        frames = b"".join(answer(number, MetadataResponse(brokers=brokers)) for number in range(2))
        receive(pipe, frames, 50_000)
        assert all(one.result().brokers == brokers for one in waiting)

    run(work)


def test_requests_carry_the_client_id_and_the_highest_common_version() -> None:
    async def work() -> None:
        connection, pipe = connected(**{"client.id": "me"})
        connection.versions.spoken[3] = (0, 9)
        connection.request(MetadataRequest(topics=[]))
        header, _ = decode_request_header(bytes(pipe.written[4:]))
        assert header == (3, 9, 0, "me")
        connection.versions.spoken[3] = (14, 20)
        with pytest.raises(UnsupportedByBroker, match="offers versions 14 to 20"):
            connection.request(MetadataRequest(topics=[]))
        del connection.versions.spoken[3]
        with pytest.raises(UnsupportedByBroker, match="does not offer it"):
            connection.request(MetadataRequest(topics=[]))

    run(work)


def test_all_waiting_requests_learn_that_the_connection_ended() -> None:
    async def work() -> None:
        connection, pipe = connected()
        waiting = [connection.request(MetadataRequest(topics=[])) for _ in range(3)]
        end(pipe, ConnectionResetError("reset"))
        for one in waiting:
            with pytest.raises(NetworkError, match="reset"):
                await one
        assert pipe.is_closed
        with pytest.raises(NetworkError):
            connection.request(MetadataRequest(topics=[]))
        await connection.closed()

    run(work)


def test_an_answer_that_does_not_come_in_time_ends_the_connection() -> None:
    async def work() -> None:
        connection, _ = connected()
        soon = connection.request(MetadataRequest(topics=[]), timeout_ms=10)
        later = connection.request(MetadataRequest(topics=[]), timeout_ms=10_000)
        with pytest.raises(RequestTimedOut, match="did not answer Metadata within 10 ms"):
            await soon
        with pytest.raises(NetworkError):
            await later
        assert connection.is_closed

    run(work)


def test_an_answer_to_a_cancelled_request_is_dropped_in_its_turn() -> None:
    async def work() -> None:
        connection, pipe = connected()
        given_up, other = (connection.request(MetadataRequest(topics=[])) for _ in range(2))
        given_up.cancel()
        receive(pipe, answer(0, MetadataResponse()) + answer(1, MetadataResponse(controller_id=7)))
        assert other.result().controller_id == 7

    run(work)


@pytest.mark.parametrize(
    "hostile",
    [
        answer(5, MetadataResponse()),
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x01x",
        b"\x00\x00\x00\x0a" + bytes(4) + b"\xff" * 6,
    ],
)
def test_bytes_that_make_no_sense_end_the_connection(hostile: bytes) -> None:
    async def work() -> None:
        connection, pipe = connected()
        waiting = connection.request(MetadataRequest(topics=[]))
        receive(pipe, hostile)
        with pytest.raises(NetworkError, match="cannot be read"):
            await waiting

    run(work)


def test_a_size_alone_makes_no_buffer_of_that_size() -> None:
    async def work() -> None:
        connection, pipe = connected()
        connection.request(MetadataRequest(topics=[]))
        receive(pipe, (2**31 - 1).to_bytes(4, "big") + bytes(100))
        assert connection._channel is not None and connection._channel._frame is not None
        assert len(connection._channel._frame) <= 1024 * 1024

    run(work)


def test_a_buffer_is_used_again_when_no_view_of_it_is_left() -> None:
    async def work() -> None:
        connection, pipe = connected()
        frames = []
        for number in range(3):
            answered = connection.request(FetchRequest(), version=12)
            content = bytes([number]) * 100_000
            partition = PartitionData(records=content)
            response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
            whole = answer(number, response, 12)
            receive(pipe, whole[:30_000])
            assert connection._channel is not None and connection._channel._frame is not None
            frames.append(id(connection._channel._frame))
            receive(pipe, whole[30_000:])
            records = (await answered).responses[0].partitions[0].records
            assert records == content
            if number == 0:
                kept = records
            del records, answered, partition, response
        assert kept == bytes(100_000), "what is still looked at stays as it is"
        assert frames[0] != frames[1] and frames[1] == frames[2]

    run(work)


def test_an_old_broker_is_asked_again_in_its_own_version() -> None:
    async def work() -> None:
        connection, pipe = connected()
        negotiating = asyncio.create_task(connection._negotiate())
        await asyncio.sleep(0)
        header, _ = decode_request_header(bytes(pipe.written[4:]))
        assert header[:2] == (18, 5)
        refusal = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])
        pipe.written.clear()
        receive(pipe, answer(0, refusal, 0))
        await asyncio.sleep(0)
        header, _ = decode_request_header(bytes(pipe.written[4:]))
        assert header[:2] == (18, 2)
        receive(pipe, answer(1, ApiVersionsResponse(api_keys=[ApiVersion(api_key=1, max_version=4)]), 2))
        await negotiating
        assert connection.versions.spoken == {1: (0, 4)}

    run(work)


def test_a_broker_that_throttles_mutes_the_connection() -> None:
    async def work() -> None:
        connection, pipe = connected()
        connection.request(MetadataRequest(topics=[]))
        receive(pipe, answer(0, MetadataResponse(throttle_time_ms=500)))
        now = asyncio.get_running_loop().time()
        assert now < connection.muted_until < now + 1

    run(work)


def test_a_request_without_an_answer_waits_for_none() -> None:
    async def work() -> None:
        connection, pipe = connected()
        connection.send_only(ApiVersionsRequest(), version=0)
        assert pipe.written
        assert connection.in_flight_count == 0

    run(work)


# Logging in again, and brokers that expect something else


def logged_in() -> tuple[Connection, Pipe]:
    connection, pipe = connected(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="u", sasl_password="p"
    )
    connection.versions = Versions({3: (0, 13), 17: (0, 1), 36: (0, 2)})
    return connection, pipe


def sent(pipe: Pipe) -> list[int]:
    """The api keys of the requests written so far, which are forgotten."""
    keys = []
    data = bytes(pipe.written)
    pipe.written.clear()
    while data:
        size = int.from_bytes(data[:4], "big")
        keys.append(decode_request_header(memoryview(data)[4 : 4 + size])[0].api_key)
        data = data[4 + size :]
    return keys


def test_a_session_is_renewed_between_the_requests_of_a_connection_in_use() -> None:
    async def work() -> None:
        connection, pipe = logged_in()
        before = connection.request(MetadataRequest(topics=[]))
        renewal = asyncio.ensure_future(connection._log_in_again())
        await asyncio.sleep(0)
        assert sent(pipe) == [3, 17]
        held_back = [connection.request(MetadataRequest(topics=[])) for _ in range(2)]
        assert sent(pipe) == [], "a broker takes nothing between the handshake and the last token"
        receive(pipe, answer(0, MetadataResponse(controller_id=0)))
        receive(pipe, answer(1, SaslHandshakeResponse(mechanisms=["PLAIN"]), 1))
        assert (await before).controller_id == 0
        await asyncio.sleep(0)
        assert sent(pipe) == [36]
        receive(pipe, answer(4, SaslAuthenticateResponse(), 2))
        await renewal
        assert sent(pipe) == [3, 3]
        for number in (2, 3):
            receive(pipe, answer(number, MetadataResponse(controller_id=number)))
        assert [(await one).controller_id for one in held_back] == [2, 3]
        connection.request(MetadataRequest(topics=[]))
        assert sent(pipe) == [3]
        connection.close()

    run(work)


def test_a_connection_that_only_logs_in_again_is_idle() -> None:
    async def work() -> None:
        connection, pipe = logged_in()
        connection.used_at = 5.0
        renewal = asyncio.ensure_future(connection._log_in_again())
        await asyncio.sleep(0)
        receive(pipe, answer(0, SaslHandshakeResponse(mechanisms=["PLAIN"]), 1))
        await asyncio.sleep(0)
        receive(pipe, answer(1, SaslAuthenticateResponse(), 2))
        await renewal
        assert connection.used_at == 5.0
        connection.close()

    run(work)


def test_a_refused_renewal_ends_the_connection_for_all_waiting_requests() -> None:
    async def work() -> None:
        connection, pipe = logged_in()
        renewal = asyncio.ensure_future(connection._log_in_again())
        await asyncio.sleep(0)
        held_back = connection.request(MetadataRequest(topics=[]))
        receive(pipe, answer(0, SaslHandshakeResponse(mechanisms=["PLAIN"]), 1))
        await asyncio.sleep(0)
        receive(pipe, answer(2, SaslAuthenticateResponse(error_code=58, error_message="expired"), 2))
        await asyncio.wait([renewal])
        with pytest.raises(AuthenticationError, match=r"h:1: the broker refused user 'u'.*\(expired\)"):
            await held_back
        assert connection.is_closed

    run(work)


@pytest.mark.parametrize(
    ("incoming", "protocol", "kind", "expected"),
    [
        (bytes.fromhex("15030300020246"), "PLAINTEXT", TlsError, "h:1 speaks TLS, and security.protocol is PLAINTEXT"),
        (b"", "PLAINTEXT", NetworkError, "expect another security.protocol than PLAINTEXT"),
        (b"", "SSL", NetworkError, "expect another security.protocol than SSL"),
    ],
)
def test_a_broker_that_ends_the_connection_at_once(
    incoming: bytes, protocol: str, kind: type[KafkaError], expected: str
) -> None:
    async def work() -> None:
        connection, pipe = connected(security_protocol=protocol)
        connection.versions = Versions()
        waiting = connection.request(ApiVersionsRequest(), version=4)
        receive(pipe, incoming)
        end(pipe)
        with pytest.raises(kind, match=expected):
            await waiting

    run(work)


@pytest.mark.parametrize(("protocol", "expected"), [("PLAINTEXT", "SASL_PLAINTEXT"), ("SSL", "SASL_SSL")])
def test_a_broker_that_ends_the_connection_at_the_first_request_may_want_a_login(protocol: str, expected: str) -> None:
    async def work() -> None:
        connection, pipe = connected(security_protocol=protocol)
        greeted = connection.request(ApiVersionsRequest(), version=4)
        receive(pipe, answer(0, ApiVersionsResponse(), 4))
        await greeted
        waiting = connection.request(MetadataRequest(topics=[]))
        end(pipe)
        with pytest.raises(NetworkError, match=f"security.protocol is {expected}, not {protocol}"):
            await waiting

    run(work)


def test_a_broker_of_an_older_version_that_ends_the_connection_may_want_a_login_too() -> None:
    async def work() -> None:
        connection, pipe = connected()
        negotiating = asyncio.create_task(connection._negotiate())
        await asyncio.sleep(0)
        refusal = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
        receive(pipe, answer(0, refusal, 0))
        await asyncio.sleep(0)
        receive(pipe, answer(1, ApiVersionsResponse(), 4))
        await negotiating
        waiting = connection.request(MetadataRequest(topics=[]), version=4)
        end(pipe)
        with pytest.raises(NetworkError, match="is SASL_PLAINTEXT, not PLAINTEXT"):
            await waiting

    run(work)


def test_a_connection_that_breaks_while_a_request_is_written_fails_that_request_with_the_others() -> None:
    async def work() -> None:
        connection, pipe = connected()
        before = connection.request(MetadataRequest(topics=[]))
        pipe.error = BrokenPipeError("broken")
        now = connection.request(MetadataRequest(topics=[]))
        for one in (before, now):
            with pytest.raises(NetworkError, match="broken"):
                await one
        assert connection.is_closed and connection.in_flight_count == 0

    run(work)


def test_a_full_connection_has_room_again_when_its_queue_has_left() -> None:
    async def work() -> None:
        connection, pipe = connected()
        pipe.takes = False
        topics = [MetadataRequestTopic(name="x" * 200) for _ in range(3_000)]
        assert not connection.is_full
        while not connection.is_full:
            connection.request(MetadataRequest(topics=topics))
        waiting = asyncio.ensure_future(connection.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        pipe.takes = True
        pipe.loop.writers[pipe]()
        await waiting
        assert not connection.is_full
        connection.close()

    run(work)
