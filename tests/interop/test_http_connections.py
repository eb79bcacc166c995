"""Connections to the HTTP ports of the registry and the console that ask for nothing, and too many of them."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from ottla.registry import http_connections
from ottla.registry.http_connections import HttpConnections

pytestmark = pytest.mark.interop


async def _hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


def test_a_connection_that_does_not_say_what_it_wants_is_closed() -> None:
    async def run() -> None:
        runner = web.ServerRunner(HttpConnections(_hello, access_log=None, first_request_s=0.3))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        slow_reader, slow_writer = await asyncio.open_connection("127.0.0.1", port)
        slow_writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await slow_reader.readexactly(1)
        # one that asked stays
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        writer.close()
        slow_writer.close()
        await runner.cleanup()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_too_many_connections_of_an_address_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "MAX_PER_ADDRESS", 3)

    async def run() -> None:
        runner = web.ServerRunner(HttpConnections(_hello, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            fourth, late = await asyncio.open_connection("127.0.0.1", port)
            opened.append((fourth, late))
            await fourth.readexactly(1)
        for reader, writer in opened[:3]:
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).endswith(b"hello")
        # those that have gone are not counted any more
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.append((reader, writer))
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"hello")
        for _, one in opened:
            one.close()
        await runner.cleanup()

    asyncio.run(asyncio.wait_for(run(), 60))
