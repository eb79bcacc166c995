"""Requests to a registry that come again: the answers are those of aiohttp, byte by byte, but for the date."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import product
from random import Random

import pytest
from aiohttp import web

from ottla.registry import http_connections
from ottla.registry.http_connections import Answer, HttpConnections
from ottla.registry.server import RegistryConfig, RegistryServer
from ottla.registry.topic import ClientSettings
from tests.unit.registry.requests import Registry, field, record

pytestmark = pytest.mark.interop
JSON = "application/vnd.schemaregistry.v1+json"
LATEST = b"GET /subjects/orders-value/versions/latest HTTP/1.1\r\nHost: x\r\n\r\n"
FIRST = b"GET /schemas/ids/1 HTTP/1.1\r\nHost: x\r\n\r\n"


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, request: bytes) -> None:
        self._writer.write(request)

    async def receive(self, method: bytes = b"GET") -> bytes:
        """One answer; nothing if the registry has closed the connection."""
        try:
            answer = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as ended:
            return ended.partial
        length = re.search(rb"Content-Length: (\d+)", answer)
        if length is not None and method != b"HEAD":
            answer += await self._reader.readexactly(int(length[1]))
        return answer

    async def ask(self, request: bytes) -> bytes:
        self.send(request)
        return await self.receive(request.partition(b" ")[0])

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Served:
    """A registry without a cluster: reads are answered, writes are replayed here."""

    def __init__(self, registry: Registry, connections: HttpConnections, port: int) -> None:
        self.registry = registry
        self.connections = connections
        self._port = port
        self._clients: list[Client] = []

    async def open(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for one in self._clients:
            await one.close()

    async def ask_alone(self, request: bytes) -> bytes:
        """The answer on a connection of its own, which is always aiohttp's."""
        client = await self.open()
        answer = await client.ask(request)
        await client.close()
        return answer


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    server = RegistryServer(RegistryConfig(), ClientSettings({}, {}, {}))
    registry = Registry(server.state)
    fill(registry)
    connections = server.connections()
    async with running(connections) as port:
        made = Served(registry, connections, port)
        yield made
        await made.close()
    await server.stop()


@asynccontextmanager
async def running(connections: HttpConnections) -> AsyncIterator[int]:
    """A server on the port that this gives."""
    runner = web.ServerRunner(connections)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def run(scenario: Callable[[Served], Awaitable[None]]) -> None:
    async def with_registry() -> None:
        async with served() as registry:
            await scenario(registry)

    asyncio.run(asyncio.wait_for(with_registry(), 60))


def fill(registry: Registry) -> None:
    """Live, deleted and referring schemas in two contexts."""
    registry.register("orders-value", record(field("id", "long")))
    registry.register("orders-value", record(field("id", "long"), field("note", "string", default="")))
    registry.register("gone-value", record(field("gone", "int"), name="Gone"))
    registry.ask("DELETE", "/subjects/gone-value")
    registry.register(":.eu:orders-value", record(field("land", "string"), name="Land"))
    reference = {"name": "Order", "subject": "orders-value", "version": 1}
    registry.register("bill-value", record(field("order", "Order"), name="Bill"), references=[reference])
    registry.ask("PUT", "/config/orders-value", {"compatibility": "FULL"})


def without_date(answer: bytes) -> bytes:
    found, count = re.subn(rb"\r\nDate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n", b"\r\nDate: then\r\n", answer)
    assert count == 1 or not answer
    return found


def requests() -> Iterator[bytes]:
    reads = [
        *(f"/schemas/ids/{id_}" for id_ in (1, 2, 3, 4, 999, "x")),
        "/schemas/ids/1?subject=orders-value",
        "/schemas/ids/1?subject=:.eu:orders-value",
        "/schemas/ids/4?format=resolved",
        "/schemas/ids/1?format=wrong",
        "/schemas/ids/1?fetchMaxId=true",
        "/schemas/ids/1/schema",
        "/schemas/ids/1/versions",
        "/schemas/ids/3?deleted=true",
        "/contexts/.eu/schemas/ids/1",
        *(f"/subjects/orders-value/versions/{version}" for version in ("latest", 1, 2, 3, -1)),
        "/subjects/orders-value/versions/2/schema",
        "/subjects/orders%2Dvalue/versions/1",
        "/subjects/gone-value/versions/1",
        "/subjects/gone-value/versions/1?deleted=true",
        "/subjects",
        "/subjects?deleted=true",
        "//subjects",
        "/config/orders-value",
        "/mode",
        "/contexts",
        "/nothing",
        "/",
    ]
    headers = [
        "",
        "Accept: application/json\r\n",
        f"Accept: text/html, {JSON}\r\nUser-Agent: test\r\n",
        "Connection: keep-alive\r\n",
        "Connection: close\r\n",
        "Expect: 100-continue\r\n",
        "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nHTTP2-Settings: \r\n",
        "Authorization: Basic dXNlcjpwYXNzd29yZA==\r\n",
    ]
    for path, more in product(reads, headers):
        yield f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode()
    for method, version, more in product(
        ("GET", "HEAD", "OPTIONS"), ("1.0", "1.1"), ("", "Connection: keep-alive\r\n")
    ):
        yield f"{method} /schemas/ids/1 HTTP/{version}\r\nHost: x\r\n{more}\r\n".encode()
    known, unknown = (json.dumps({"schema": json.dumps(record(field("id", type_)))}) for type_ in ("long", "string"))
    for path, body, kind in product(
        ("/subjects/orders-value", "/subjects/orders-value/versions", "/compatibility/subjects/orders-value/versions"),
        (known, unknown, "{", ""),
        (JSON, "text/plain"),
    ):
        if path.endswith("versions") and body == unknown:
            continue  # a write
        if body or not path.startswith("/subjects"):
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
            yield f"{head}{body}".encode()
    chunked = f"Transfer-Encoding: chunked\r\n\r\n{len(known):x}\r\n{known}\r\n0\r\n\r\n"
    yield f"POST /subjects/orders-value HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n{chunked}".encode()


def test_an_answer_that_comes_again_is_the_one_of_a_new_connection() -> None:
    async def scenario(registry: Served) -> None:
        repeated = 0
        for request in requests():
            alone = without_date(await registry.ask_alone(request))
            assert alone.startswith(b"HTTP/1."), request
            client = await registry.open()
            for _ in range(3):
                before = registry.connections.requests_count
                again = without_date(await client.ask(request))
                assert again in (alone, b""), request
                is_repeated = again == alone and registry.connections.requests_count == before
                assert not (is_repeated and b"Authorization" in request), "a password was kept"
                repeated += is_repeated
                if not again:
                    assert b"Connection: close" in alone or b"HTTP/1.0" in request, request
                    break
            await client.close()
        assert repeated > 100

    run(scenario)


def test_a_change_is_seen_by_the_next_request() -> None:
    async def scenario(registry: Served) -> None:
        client = await registry.open()
        before = {await client.ask(LATEST) for _ in range(3)}
        assert len(set(map(without_date, before))) == 1
        registry.registry.register("orders-value", record(field("id", "long"), field("more", "string", default="")))
        after = without_date(await client.ask(LATEST))
        assert b'"version":3' in after and after not in map(without_date, before)
        assert without_date(await client.ask(LATEST)) == after == without_date(await registry.ask_alone(LATEST))
        registry.registry.ask("DELETE", "/subjects/orders-value/versions/3")
        assert b'"version":2' in await client.ask(LATEST)

    run(scenario)


async def repeating(registry: Served) -> Client:
    """A connection on which both requests are answered without aiohttp."""
    client = await registry.open()
    for one in (FIRST, LATEST) * 2:
        await client.ask(one)
    before = registry.connections.requests_count
    for one in (FIRST, LATEST):
        await client.ask(one)
    assert registry.connections.requests_count == before
    return client


def test_requests_that_come_together_or_in_pieces_are_answered_in_order() -> None:
    async def scenario(registry: Served) -> None:
        first, latest = [without_date(await registry.ask_alone(one)) for one in (FIRST, LATEST)]
        for pieces in (
            [FIRST + LATEST],
            [FIRST, LATEST],
            [FIRST[:20], FIRST[20:] + LATEST],
            [FIRST + LATEST[:30], LATEST[30:]],
            [FIRST[:-1], FIRST[-1:], LATEST],
            [b"\r\n" + FIRST, LATEST],
        ):
            client = await repeating(registry)
            for one in pieces:
                client.send(one)
                await asyncio.sleep(0.01)  # so that most pieces arrive alone; the answers are the same if not
            assert [without_date(await client.receive()) for _ in range(2)] == [first, latest], pieces
            assert without_date(await client.ask(FIRST)) == first, pieces
            await client.close()

    run(scenario)


def test_answers_do_not_depend_on_where_the_network_cuts_requests() -> None:
    body = json.dumps({"schema": json.dumps(record(field("id", "long")))})
    head = f"POST /subjects/orders-value HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n"
    known = [
        FIRST,
        LATEST,
        FIRST.replace(b"GET", b"HEAD"),
        FIRST.replace(b"/1 ", b"/999 "),
        f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode(),
        f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n\r\n".encode(),
    ]

    async def scenario(registry: Served) -> None:
        alone = {one: without_date(await registry.ask_alone(one)) for one in known}
        repeated = 0
        for seed in range(30):
            rng = Random(seed)
            client = await registry.open()
            for _ in range(20):
                before = registry.connections.requests_count
                asked = rng.choices(known[: rng.choice((2, len(known)))], k=rng.choice((1, 1, 1, 1, 3)))
                sent = b"".join(asked)
                cuts = sorted(rng.randrange(len(sent)) for _ in range(rng.choice((0, 0, 0, 0, 0, 1, 2))))
                for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
                    client.send(sent[start:end])
                    await asyncio.sleep(0.001)
                found = [without_date(await client.receive(one.partition(b" ")[0])) for one in asked]
                assert found == [alone[one] for one in asked], (seed, asked, cuts)
                repeated += registry.connections.requests_count == before
            await client.close()
        assert repeated > 0

    run(scenario)


def test_a_request_waits_for_those_before_it() -> None:
    async def scenario() -> None:
        go_on = asyncio.Event()

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            if request.path == "/slow":
                await go_on.wait()
            answer = Answer(text=request.path)
            answer.of_state = 1
            return answer

        connections = HttpConnections(handle, state=lambda: 1, access_log=None)
        async with running(connections) as port:
            client = Client(*await asyncio.open_connection("127.0.0.1", port))
            known, quick, slow = (
                f"GET /{one} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for one in ("known", "quick", "slow")
            )
            for _ in range(3):
                assert (await client.ask(known)).endswith(b"/known")
            assert connections.requests_count == 1
            (connection,) = connections.connections
            for _ in range(2):
                assert (await client.ask(known.replace(b"GET", b"HEAD"))).endswith(b"\r\n\r\n")
                assert (await client.ask(known)).startswith(b"HTTP/1.1 200")
            connection.data_received(quick)
            connection.data_received(slow)
            assert (await client.receive()).endswith(b"/quick")
            connection.data_received(known)
            go_on.set()
            assert [(await client.receive()).rpartition(b"\n")[2] for _ in range(2)] == [b"/slow", b"/known"]
            await client.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_connection_that_is_to_be_closed_is_closed() -> None:
    async def scenario(registry: Served) -> None:
        for closing in (FIRST[:-2] + b"Connection: close\r\n\r\n", FIRST.replace(b"HTTP/1.1", b"HTTP/1.0")):
            alone = without_date(await registry.ask_alone(closing))
            for _ in range(2):
                client = await repeating(registry)
                assert without_date(await client.ask(closing)) == alone
                assert not await client.receive()

    run(scenario)


def test_limits_of_heads_hold_for_connections_whose_requests_came_again() -> None:
    async def scenario(registry: Served) -> None:
        for wrong in (b"GET /" + b"x" * 9_000 + FIRST[4:], FIRST[:-2] + b"A: b\r\n" * 200 + b"\r\n", b"\0" + FIRST):
            client = await repeating(registry)
            assert (await client.ask(wrong)).startswith(b"HTTP/1.0 400"), wrong[:40]
            assert not await client.ask(FIRST)

    run(scenario)


def test_aiohttp_sees_a_request_when_its_timers_must_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(registry: Served) -> None:
        client = await repeating(registry)
        monkeypatch.setattr(http_connections, "SEEN_EVERY_S", 0.0)
        for _ in range(3):
            before = registry.connections.requests_count
            await client.ask(FIRST)
            assert registry.connections.requests_count == before + 1

    run(scenario)


def test_a_client_that_does_not_read_is_left_to_aiohttp() -> None:
    async def scenario(registry: Served) -> None:
        client = await repeating(registry)
        (connection,) = registry.connections.connections
        connection.pause_writing()
        before = registry.connections.requests_count
        await client.ask(FIRST)
        assert registry.connections.requests_count == before + 1
        connection.resume_writing()
        await client.ask(FIRST)
        assert registry.connections.requests_count == before + 1

    run(scenario)


def test_with_logins_no_answer_is_kept() -> None:
    async def scenario() -> None:
        config = RegistryConfig(login_settings={"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"})
        server = RegistryServer(config, ClientSettings({}, {}, {}))
        assert type(server.connections()()) is web.RequestHandler
        await server.stop()

    asyncio.run(scenario())
