"""Connections of an HTTP port (aiohttp): bounded in number, and closed if they do not say in time what they want.

aiohttp itself waits for ever for the first request of a connection, and takes as many connections as there are
descriptors. Requests that come again are answered here, before aiohttp sees them (`repeated_requests`).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import HttpVersion11, web

from ottla.registry.repeated_requests import RepeatedRequests, is_one_request

MAX_CONNECTIONS = 800
MAX_PER_ADDRESS = 400
FIRST_REQUEST_S = 10.0
KEPT_FOR_S = 75.0
"""How long a connection may be idle, or in the middle of a head, between two requests."""
SEEN_EVERY_S = 5.0
"""aiohttp sees a request of each connection that often: its timers of idle connections start again."""
Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Answer(web.Response):
    """An answer, and the number of the state that it was read from, if an equal request would get the same from it."""

    of_state: int | None = None


class HttpConnections(web.Server):
    """A server that counts its connections, also by address; a connection beyond the limit is closed at once."""

    def __init__(
        self,
        handle: Handle,
        *,
        first_request_s: float = FIRST_REQUEST_S,
        state: Callable[[], int] | None = None,
        **settings: Any,
    ) -> None:
        """`state` gives the number of the state: with it, requests that come again are answered at once."""
        super().__init__(self._asked, **settings)
        self._handle = handle
        self._settings = settings
        self._state = state
        self._repeated = RepeatedRequests()
        self._first_request_s = first_request_s
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        self._addresses: dict[web.RequestHandler, str] = {}
        self._counts: Counter[str] = Counter()

    def __call__(self) -> web.RequestHandler:
        if self._state is None:
            return super().__call__()
        return _Connection(self, self._repeated, self._state, **self._settings)

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


class _Connection(web.RequestHandler):
    """A connection whose requests are answered from the kept answers while aiohttp is idle.

    aiohttp is idle when it has answered all that it was given. That is known if it was given exactly one request; after
    anything else (half of a request, two at once) aiohttp answers the connection's requests until it ends.
    """

    def __init__(
        self, server: HttpConnections, repeated: RepeatedRequests, state: Callable[[], int], **settings: Any
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(server, loop=loop, **settings)
        self._repeated = repeated
        self._state = state
        self._time = loop.time
        self._seen_at = float("-inf")
        self._is_idle = True
        self._given: bytes | None = None
        """What aiohttp was given since it was idle, if that came at once."""

    def data_received(self, data: bytes) -> None:
        if self._is_idle and data:
            now = self._time()
            if now - self._seen_at < SEEN_EVERY_S and not self.writing_paused:
                answer = self._repeated.answer(data, self._state(), int(time.time()))
                if answer is not None and self.transport is not None:
                    self.transport.write(answer)
                    return
            self._is_idle, self._given, self._seen_at = False, data, now
        elif data:
            self._given = None
        super().data_received(data)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        answer, is_reset = await super().finish_response(request, resp, start_time)
        given, self._given = self._given, None
        if given is None or is_reset or not _is_done(request, answer, given):
            return answer, is_reset
        self._is_idle = True
        if isinstance(answer, Answer) and answer.of_state is not None and _may_be_kept(request):
            self._repeated.keep(given, _bytes_of(answer), answer.of_state)
        return answer, is_reset


def _is_done(request: web.BaseRequest, answer: web.StreamResponse, given: bytes) -> bool:
    """Whether aiohttp has read all that it was given as this one request, and now waits for the next."""
    is_kept_open = bool(answer.keep_alive) and request.version == HttpVersion11
    return is_kept_open and is_one_request(given, request.content_length or 0)


def _may_be_kept(request: web.BaseRequest) -> bool:
    """An answer to HEAD is sent without its body; a password is not kept, though without logins nothing reads it."""
    return request.method != "HEAD" and "Authorization" not in request.headers


def _bytes_of(answer: web.Response) -> bytes:
    """An answer as it was sent."""
    headers = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    assert isinstance(answer.body, bytes)
    return f"HTTP/1.1 {answer.status} {answer.reason}\r\n{headers}\r\n".encode() + answer.body
