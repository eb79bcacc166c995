"""One connection to a broker over a plain socket: requests out, answers in their order.

A Spark worker does one thing at a time, so nothing here waits in a loop: `send` puts a request on the way, `receive`
blocks for the oldest answer. Several requests may be under way, which is how the next fetch travels while the last one
is decoded. All answers of a connection are read into one buffer that grows as needed: what an answer holds of it
(records) is good until the next one is received.
"""

from __future__ import annotations

import socket
from collections import deque
from struct import Struct
from typing import Any

from ottla.client.config import ClientConfig
from ottla.client.errors import KafkaError, NetworkError, RequestTimedOut, UnsupportedByBroker, check_error
from ottla.wire import Message, WireError, decode
from ottla.wire.apis import API_VERSIONS, APIS, response_class
from ottla.wire.errors import ErrorCode
from ottla.wire.frames import decode_response_header, encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_SIZE = Struct(">i")
_ERROR_CODE = Struct(">h")
RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024
"""What the kernel may hold while the last answer is decoded: a whole fetch."""
FIRST_FRAME_BYTES = 64 * 1024
MAX_PIECE_COUNT = 512
"""Pieces in one system call; the kernel's limit is 1024."""


class BlockingConnection:
    """A connection that stands and knows the broker's versions; NetworkError if there is none to be had."""

    def __init__(self, host: str, port: int, config: ClientConfig) -> None:
        self.host = host
        self.port = port
        self.versions: dict[int, tuple[int, int]] = {}
        self.is_closed = False
        self._config = config
        self._waiting: deque[tuple[int, int, int]] = deque()
        """(api key, version, correlation id) of the requests under way, the oldest first."""
        self._correlation_id = 0
        self._buffer = bytearray(FIRST_FRAME_BYTES)
        self._size = memoryview(bytearray(4))
        try:
            self._socket = socket.create_connection((host, port), config.socket_connection_setup_timeout_ms / 1000)
        except OSError as error:
            raise NetworkError(f"cannot connect to {host}:{port}: {error}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            self._socket = self._secure(self._socket)
            self._socket.settimeout(config.request_timeout_ms / 1000)
            self._negotiate()
            self._log_in()
        except BaseException:
            self.close()
            raise

    def _secure(self, plain: socket.socket) -> socket.socket:
        """The socket that requests go through."""
        return plain

    def _log_in(self) -> None:
        """Tell the broker who this is, where it asks."""

    def _negotiate(self) -> None:
        """ApiVersions, newest first (KIP-511): a broker that lacks that version answers in version 0 with its own."""
        version = APIS[API_VERSIONS].max_version
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version="0.1.0")
        self._write(API_VERSIONS, version, request)
        response: ApiVersionsResponse = self.receive()
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            spoken = next((api.max_version for api in response.api_keys if api.api_key == API_VERSIONS), 0)
            self._write(API_VERSIONS, min(version, spoken), request)
            response = self.receive()
        check_error(response.error_code)
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    @property
    def in_flight_count(self) -> int:
        return len(self._waiting)

    def version_of(self, api_key: int, max_version: int | None = None) -> int:
        """The highest version that both sides speak; UnsupportedByBroker if there is none."""
        api = APIS[api_key]
        last = api.max_version if max_version is None else min(max_version, api.max_version)
        if max_version is None and api.latest_version_unstable:
            last -= 1
        spoken = self.versions.get(api_key)
        if spoken is None or spoken[0] > last or spoken[1] < api.min_version:
            offered = "does not offer it" if spoken is None else f"offers versions {spoken[0]} to {spoken[1]}"
            raise UnsupportedByBroker(f"{api.name}: the broker at {self.host}:{self.port} {offered}")
        return min(last, spoken[1])

    def request(self, request: Message, *, max_version: int | None = None) -> Any:
        """The answer to one request; nothing else may be under way."""
        assert not self.in_flight_count, "an answer would be taken for another"
        self.send(request, max_version=max_version)
        return self.receive()

    def send(self, request: Message, *, max_version: int | None = None, has_answer: bool = True) -> None:
        """Put a request on the way; Produce without acks has no answer."""
        api_key = type(request).__schema__.api_key
        assert api_key is not None
        self._write(api_key, self.version_of(api_key, max_version), request, has_answer)

    def _write(self, api_key: int, version: int, request: Message, has_answer: bool = True) -> None:
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        pieces = encode_request(api_key, version, correlation_id, self._config.client_id, request)
        try:
            if len(pieces) == 1:
                self._socket.sendall(pieces[0])
            else:
                self._send_pieces([memoryview(piece).cast("B") for piece in pieces])
        except OSError as error:
            raise self._failed(error) from error
        if has_answer:
            self._waiting.append((api_key, version, correlation_id))

    def _send_pieces(self, pieces: list[memoryview]) -> None:
        start = 0
        while start < len(pieces):
            sent = self._socket.sendmsg(pieces[start : start + MAX_PIECE_COUNT])
            while start < len(pieces) and sent >= len(pieces[start]):
                sent -= len(pieces[start])
                start += 1
            if sent:
                pieces[start] = pieces[start][sent:]

    def receive(self) -> Any:
        """The answer to the oldest request under way. Its records are views that the next `receive` overwrites."""
        api_key, version, expected = self._waiting[0]
        try:
            self._fill(self._size)
            (size,) = _SIZE.unpack(self._size)
            if size < 4:
                raise WireError(f"a frame of {size} bytes")
            frame = self._frame(size)
            correlation_id, position = decode_response_header(frame, api_key, version)
            if correlation_id != expected:
                raise WireError(f"answer {correlation_id} where {expected} was due")
            if api_key == API_VERSIONS and _ERROR_CODE.unpack_from(frame, 4)[0] == ErrorCode.UNSUPPORTED_VERSION:
                version = 0
            response = decode(response_class(api_key), version, frame, position)
        except TimeoutError as error:
            self.close()
            name, timeout_ms = APIS[api_key].name, self._config.request_timeout_ms
            raise RequestTimedOut(f"{self.host}:{self.port} did not answer {name} within {timeout_ms} ms") from error
        except (OSError, WireError) as error:
            raise self._failed(error) from error
        self._waiting.popleft()
        return response

    def _frame(self, size: int) -> memoryview:
        """A frame's bytes. The buffer grows with what has come, never on the word of a peer alone."""
        filled = 0
        while filled < size:
            if len(self._buffer) == filled:
                grown = bytearray(min(2 * filled, size))
                grown[:filled] = self._buffer
                self._buffer = grown
            end = min(len(self._buffer), size)
            self._fill(memoryview(self._buffer)[filled:end])
            filled = end
        return memoryview(self._buffer)[:size]

    def _fill(self, view: memoryview) -> None:
        filled, size = 0, len(view)
        while filled < size:
            count = self._socket.recv_into(view[filled:], 0, socket.MSG_WAITALL)
            if count == 0:
                raise ConnectionError("the broker closed the connection")
            filled += count

    def _failed(self, error: Exception) -> KafkaError:
        answer_count = self._correlation_id - len(self._waiting)
        self.close()
        if answer_count <= 1:
            from ottla.client.tls_failures import explain_end

            return explain_end(error, self.host, self.port, self._config, answer_count, bytes(self._size[:2]))
        return NetworkError(f"the connection to {self.host}:{self.port} ended: {error}")

    def close(self) -> None:
        self.is_closed = True
        self._waiting.clear()
        self._socket.close()
