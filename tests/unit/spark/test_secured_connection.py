"""A worker's secured connection on a socket that is none: what it sends, and in which order."""

from __future__ import annotations

from collections.abc import Iterable
from struct import unpack
from typing import Any

import pytest

from ottla.client.config import ClientConfig
from ottla.client.errors import AuthenticationError, NetworkError
from ottla.spark.secured_connection import SecuredConnection
from ottla.wire import Message
from ottla.wire.frames import decode_request_header, encode_response
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.unit.spark.in_place import InPlace

METADATA, HANDSHAKE, API_VERSIONS, AUTHENTICATE = 3, 17, 18, 36
SESSION_MS = 10_000


class Broker:
    """The other end: answers each request at once, and gives sessions ten seconds."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.refuses = False
        self.is_mute = False
        self.in_place = InPlace(lambda _: self)
        self.is_closed = False
        self._incoming = bytearray()

    def setsockopt(self, *_: object) -> None:
        pass

    def getsockopt(self, *_: object) -> int:
        return 0

    def fileno(self) -> int:
        return -1

    def send(self, data: Any, /) -> int:
        return self.sendmsg([data])

    def sendmsg(self, buffers: Iterable[Any], *_unused: object) -> int:
        data = b"".join(buffers)
        if self.is_mute:
            return len(data)
        (size,) = unpack(">i", data[:4])
        assert size == len(data) - 4
        header, _ = decode_request_header(memoryview(data)[4:])
        self.asked.append(header.api_key)
        response = self._answer(header.api_key, header.correlation_id)
        for piece in encode_response(header.api_key, header.api_version, header.correlation_id, response):
            self._incoming += piece
        return len(data)

    def _answer(self, api_key: int, correlation_id: int) -> Message:
        if api_key == API_VERSIONS:
            spoken = {METADATA: 13, HANDSHAKE: 1, API_VERSIONS: 4, AUTHENTICATE: 2}
            return ApiVersionsResponse(
                api_keys=[ApiVersion(api_key=key, max_version=last) for key, last in spoken.items()]
            )
        if api_key == HANDSHAKE:
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        if api_key == AUTHENTICATE:
            return SaslAuthenticateResponse(error_code=58 if self.refuses else 0, session_lifetime_ms=SESSION_MS)
        return MetadataResponse(controller_id=correlation_id)

    def recv_into(self, view: Any, /) -> int:
        if not self._incoming:
            raise BlockingIOError
        size = min(len(view), len(self._incoming))
        view[:size] = self._incoming[:size]
        del self._incoming[:size]
        return size

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def broker() -> Broker:
    return Broker()


def connected(broker: Broker) -> SecuredConnection:
    settings: dict[str, Any] = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    settings |= {"bootstrap.servers": "h:1", "sasl.username": "u", "sasl.password": "hush"}
    return SecuredConnection("h", 1, ClientConfig.parse(settings), blocking=broker.in_place)


def test_a_login_is_renewed_behind_the_requests_under_way(broker: Broker) -> None:
    connection = connected(broker)
    assert broker.asked == [API_VERSIONS, HANDSHAKE, AUTHENTICATE]
    tickets = [connection.send(MetadataRequest(topics=[])) for _ in range(2)]
    in_use = connection._buffer
    broker.in_place.seconds += SESSION_MS / 1000
    tickets.append(connection.send(MetadataRequest(topics=[])))
    assert broker.asked[3:] == [METADATA, METADATA, HANDSHAKE, AUTHENTICATE, METADATA]
    assert connection._buffer is in_use, "the caller may yet be reading the last answer in it"
    assert connection.in_flight_count == 3
    assert [connection.receive(ticket).controller_id for ticket in tickets] == [3, 4, 7]
    assert connection.in_flight_count == 0


def test_a_login_that_still_holds_is_left_alone(broker: Broker) -> None:
    connection = connected(broker)
    broker.in_place.seconds += SESSION_MS / 1000 * 0.8
    connection.request(MetadataRequest(topics=[]))
    assert broker.asked[3:] == [METADATA]


def test_a_renewal_that_is_refused_ends_the_connection(broker: Broker) -> None:
    connection = connected(broker)
    broker.refuses = True
    broker.in_place.seconds += SESSION_MS / 1000
    with pytest.raises(AuthenticationError, match="h:1: the broker refused user 'u'") as failed:
        connection.request(MetadataRequest(topics=[]))
    assert "hush" not in str(failed.value)
    assert connection.is_closed
    assert broker.is_closed


def test_a_handshake_that_does_not_end_may_be_tried_again(broker: Broker) -> None:
    """As one to another broker may: it is not an error of Python's that ends the task."""
    broker.is_mute = True
    config = ClientConfig.parse({"bootstrap.servers": "a:1", "security.protocol": "SSL"})
    with pytest.raises(NetworkError, match="a:1 did not finish the TLS handshake within 10000 ms"):
        SecuredConnection("a", 1, config, blocking=broker.in_place)
    assert broker.is_closed
    assert broker.in_place.seconds == 1_010
