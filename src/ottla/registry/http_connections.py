"""Connections of an HTTP port (aiohttp): bounded in number, and closed if they do not say in time what they want.

aiohttp itself waits for ever for the first request of a connection, and takes as many connections as there are
descriptors.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

MAX_CONNECTIONS = 800
MAX_PER_ADDRESS = 400
FIRST_REQUEST_S = 10.0
KEPT_FOR_S = 75.0
"""How long a connection may be idle, or in the middle of a head, between two requests."""
Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HttpConnections(web.Server):
    """A server that counts its connections, also by address; a connection beyond the limit is closed at once."""

    def __init__(self, handle: Handle, *, first_request_s: float = FIRST_REQUEST_S, **settings: Any) -> None:
        super().__init__(self._asked, **settings)
        self._handle = handle
        self._first_request_s = first_request_s
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        self._addresses: dict[web.RequestHandler, str] = {}
        self._counts: Counter[str] = Counter()

    async def _asked(self, request: web.BaseRequest) -> web.StreamResponse:
        timer = self._silent.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()
        return await self._handle(request)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        address = str((transport.get_extra_info("peername") or ("",))[0])
        self._addresses[handler] = address
        self._counts[address] += 1
        if len(self._addresses) > MAX_CONNECTIONS or self._counts[address] > MAX_PER_ADDRESS:
            transport.abort()
            return
        loop = asyncio.get_running_loop()
        self._silent[handler] = loop.call_later(self._first_request_s, transport.abort)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        timer = self._silent.pop(handler, None)
        if timer is not None:
            timer.cancel()
        address = self._addresses.pop(handler, None)
        if address is not None:
            self._counts[address] -= 1
            self._counts += Counter()  # addresses without connections go
