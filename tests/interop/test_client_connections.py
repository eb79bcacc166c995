"""Connections of Ottla's own client to brokers that fall silent or are replaced: whatever ends the client's work, no
socket is left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ottla.client.blocking import Admin
from ottla.client.cluster import Cluster
from ottla.client.config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.errors import ClientClosed, KafkaError, NetworkError
from ottla.wire import decode
from ottla.wire.apis import API_VERSIONS, APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.frames import decode_request_header, encode_response
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseBroker

HANDSHAKE = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=key, min_version=api.min_version, max_version=api.max_version) for key, api in APIS.items()
    ]
)


class SilentBroker:
    """Answers ApiVersions if asked to, and nothing else."""

    def __init__(self, *, shakes_hands: bool) -> None:
        self.address = ""
        self.open_count = 0
        self._shakes_hands = shakes_hands
        self._asked = asyncio.Event()
        self._ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_count += 1
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                header, _ = decode_request_header(await reader.readexactly(size))
                if header.api_key == API_VERSIONS and self._shakes_hands:
                    answer = encode_response(API_VERSIONS, header.api_version, header.correlation_id, HANDSHAKE)
                    writer.writelines([bytes(piece) for piece in answer])
                else:
                    self._asked.set()
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            self.open_count -= 1
            self._ended.set()
            writer.close()

    async def asked(self) -> None:
        """Wait until a client waits for an answer that will not come."""
        await asyncio.wait_for(self._asked.wait(), 120)

    async def deserted(self) -> None:
        """Wait until every connection has been closed by the client."""
        while self.open_count:
            self._ended.clear()
            await asyncio.wait_for(self._ended.wait(), 120)


@asynccontextmanager
async def silent_broker(*, shakes_hands: bool) -> AsyncIterator[SilentBroker]:
    broker = SilentBroker(shakes_hands=shakes_hands)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield broker
        server.close()


def config_of(broker: SilentBroker) -> ClientConfig:
    return ClientConfig.parse({"bootstrap.servers": broker.address})


async def cancel(task: asyncio.Task[Any], cluster: Cluster) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def close(task: asyncio.Task[Any], cluster: Cluster) -> None:
    await cluster.close()
    with pytest.raises(KafkaError):
        await task


async def close_and_cancel_that(task: asyncio.Task[Any], cluster: Cluster) -> None:
    cluster.request_update()
    closing = asyncio.create_task(cluster.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    with pytest.raises(KafkaError):
        await task


@pytest.mark.parametrize(
    ("shakes_hands", "end"), [(False, cancel), (True, cancel), (True, close), (True, close_and_cancel_that)]
)
def test_work_that_ends_while_a_bootstrap_server_is_asked_leaves_no_connection(
    shakes_hands: bool, end: Callable[[asyncio.Task[Any], Cluster], Awaitable[None]]
) -> None:
    async def work() -> None:
        async with silent_broker(shakes_hands=shakes_hands) as broker:
            cluster = Cluster(config_of(broker))
            task = asyncio.create_task(cluster.refresh(["t"]))
            await broker.asked()
            await end(task, cluster)
            await broker.deserted()
            with pytest.raises(ClientClosed if end is not cancel else NetworkError):
                await cluster.connection(0)
            await cluster.close()

    asyncio.run(work())


def test_a_cluster_that_is_closed_while_it_connects_leaves_no_connection() -> None:
    async def work() -> None:
        async with silent_broker(shakes_hands=True) as broker:
            cluster = Cluster(config_of(broker))
            task = asyncio.create_task(
                Connection.connect("127.0.0.1", int(broker.address.split(":")[1]), cluster.config)
            )
            cluster._connecting[0, "main"] = task
            task.add_done_callback(lambda done: cluster._connected((0, "main"), done))
            await asyncio.wait([task])
            await cluster.close()
            await broker.deserted()

    asyncio.run(work())


def test_a_bootstrap_server_that_is_being_connected_to_as_a_broker_leaves_no_connection() -> None:
    async def work() -> None:
        async with silent_broker(shakes_hands=True) as broker:
            cluster = Cluster(config_of(broker))
            port = int(broker.address.split(":")[1])
            is_asked = asyncio.Event()

            async def connect() -> Connection:
                connection = await Connection.connect("127.0.0.1", port, cluster.config)
                await is_asked.wait()
                return connection

            task = cluster._connecting[0, "main"] = asyncio.create_task(connect())
            task.add_done_callback(lambda done: cluster._connected((0, "main"), done))
            bootstrap = await Connection.connect("127.0.0.1", port, cluster.config)
            brokers = [MetadataResponseBroker(node_id=0, host="127.0.0.1", port=port)]
            if not cluster._adopt(bootstrap, MetadataResponse(brokers=brokers)):
                bootstrap.close()
            is_asked.set()
            connection = await task
            await cluster.close()
            assert bootstrap.is_closed
            assert connection.is_closed
            await broker.deserted()

    asyncio.run(work())


def test_a_blocking_call_that_is_interrupted_leaves_no_connection() -> None:
    async def work() -> None:
        async with silent_broker(shakes_hands=True) as broker:
            admin = Admin(bootstrap_servers=broker.address)

            def ask() -> None:
                with pytest.raises(KafkaError):
                    admin.list_topics()

            asking = threading.Thread(target=ask)
            asking.start()
            await broker.asked()
            await asyncio.to_thread(admin.close)
            await asyncio.to_thread(asking.join, 120)
            assert not asking.is_alive()
            await broker.deserted()

    asyncio.run(work())


class Renumbered:
    """A broker that names itself number 1 in its metadata, at the address where clients find number 2 (KIP-1242)."""

    def __init__(self) -> None:
        self.port = 0
        self.claimed_id = 1
        """What Metadata says."""
        self.greetings: list[tuple[str | None, int]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                header, position = decode_request_header(frame)
                answer = self.answer(header.api_key, header.api_version, frame, position)
                pieces = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
                writer.writelines([bytes(piece) for piece in pieces])
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            writer.close()

    def answer(self, api_key: int, version: int, frame: bytes, position: int) -> Any:
        if api_key == API_VERSIONS:
            asked = decode(ApiVersionsRequest, version, frame, position)
            self.greetings.append((asked.cluster_id, asked.node_id))
            if asked.node_id not in (-1, 2):
                return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
            return HANDSHAKE
        # Known to the client by another name of the same address, so that its first connection is not kept.
        brokers = [MetadataResponseBroker(node_id=self.claimed_id, host="localhost", port=self.port)]
        return MetadataResponse(brokers=brokers, cluster_id="one", controller_id=self.claimed_id)


@pytest.mark.parametrize("is_checked", [True, False])
def test_a_client_that_meets_another_node_begins_again_at_its_bootstrap_servers(
    is_checked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        broker = Renumbered()
        server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
        broker.port = server.sockets[0].getsockname()[1]
        settings = {
            "bootstrap.servers": f"127.0.0.1:{broker.port}",
            "metadata.cluster.check.enable": str(is_checked).lower(),
        }
        async with server, Cluster(ClientConfig.parse(settings)) as cluster:
            await cluster.refresh([])
            assert cluster.metadata.cluster_id == "one"
            broker.claimed_id = 2
            if is_checked:
                with pytest.raises(NetworkError, match="is now another node or belongs to another cluster"):
                    await cluster.connection(1)
                assert cluster.metadata.cluster_id is None
                await cluster.refresh([])
                await cluster.connection(2)
                assert broker.greetings[-1] == ("one", 2)
                assert "beginning again at bootstrap.servers" in caplog.text
            else:
                await cluster.connection(1)
                assert set(broker.greetings) == {(None, -1)}

    asyncio.run(asyncio.wait_for(work(), 120))
