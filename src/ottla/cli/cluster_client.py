"""How commands talk to a cluster: one plain connection per broker, one request at a time."""

from __future__ import annotations

import socket
from contextlib import suppress
from struct import Struct
from types import TracebackType
from typing import Any, TypeVar

from ottla.wire import Message, WireError, decoder, frames
from ottla.wire.apis import response_class
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

CLIENT_ID = "ottla"
TIMEOUT_S = 30.0
METADATA_VERSION = 12
FIND_COORDINATOR_VERSION = 4
TRANSACTION_KEY = 1
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
_SIZE = Struct(">i")

Response = TypeVar("Response", bound=Message)


class CommandError(Exception):
    """Why a command cannot go on, in words for whoever typed it."""


class ClusterClient:
    """A cluster, known by the address of one of its brokers."""

    def __init__(self, address: str) -> None:
        self._bootstrap = _parse_address(address)
        self._connections: dict[tuple[str, int], socket.socket] = {}
        self._addresses: dict[int, tuple[str, int]] = {}

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def metadata(self, topics: list[str] | None = None) -> MetadataResponse:
        """All topics, or these."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response: MetadataResponse = self._ask(self._bootstrap, request, METADATA_VERSION)
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        return response

    @property
    def broker_ids(self) -> list[int]:
        if not self._addresses:
            self.metadata([])
        return sorted(self._addresses)

    def ask(self, broker_id: int, request: Message, version: int) -> Any:
        """What a broker answers."""
        if broker_id not in self.broker_ids:
            raise CommandError(f"the cluster has no broker {broker_id}")
        return self._ask(self._addresses[broker_id], request, version)

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id."""
        request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[transactional_id])
        response: FindCoordinatorResponse = self.ask(self.broker_ids[0], request, FIND_COORDINATOR_VERSION)
        (found,) = response.coordinators
        if found.error_code:
            raise CommandError(f"no coordinator for {transactional_id}: {ErrorCode(found.error_code).text}")
        return found.node_id

    def _ask(self, address: tuple[str, int], request: Message, version: int) -> Any:
        key: int = type(request).__schema__.api_key  # type: ignore[assignment]
        try:
            connection = self._connections.get(address)
            if connection is None:
                connection = socket.create_connection(address, TIMEOUT_S)
                self._connections[address] = connection
            connection.sendall(b"".join(frames.encode_request(key, version, 1, CLIENT_ID, request)))
            (size,) = _SIZE.unpack(_receive(connection, _SIZE.size))
            if not 0 <= size <= MAX_RESPONSE_BYTES:
                raise CommandError(f"{_told(address)} does not speak Kafka's protocol")
            frame = _receive(connection, size)
        except OSError as error:
            with suppress(KeyError):
                self._connections.pop(address).close()
            raise CommandError(f"{_told(address)} cannot be asked: {error.strerror or error}") from None
        try:
            _, position = frames.decode_response_header(frame, key, version)
            return decoder(response_class(key), version)(memoryview(frame), position)[0]
        except WireError as error:
            raise CommandError(f"{_told(address)} answered what cannot be read: {error}") from None


def _parse_address(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise CommandError(f"{address}: expected HOST:PORT, for example 127.0.0.1:9092")
    return host.strip("[]"), int(port)


def _told(address: tuple[str, int]) -> str:
    return f"the broker at {address[0]}:{address[1]}"


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise OSError("it closed the connection")
        data += piece
    return bytes(data)
