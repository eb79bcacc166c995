"""A few lines of HTTP for Prometheus and for health checks: GET /metrics, GET /health.

Not a web server: one request per connection, a small bound on its size and a short one on its time.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinators.lag_metrics import register_group_metrics
from ottla.broker.coordinators.transaction_metrics import register_transaction_metrics
from ottla.broker.metrics import CONTENT_TYPE
from ottla.broker.serving.gauges import register_gauges
from ottla.broker.serving.http_guard import HttpAccess, normalised_path

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinators import Coordinators
    from ottla.broker.metadata.controllership import Controllership
    from ottla.broker.replicas.replicas import Replicas
    from ottla.broker.serving.serving import Serving

log = logging.getLogger("ottla.serving")

MAX_REQUEST_BYTES: Final = 8_192
MAX_CONNECTIONS: Final = 32
REQUEST_TIMEOUT_SECONDS: Final = 5.0

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}

Answer = tuple[int, str, str]


async def serve_metrics(
    serving: Serving,
    controllership: Controllership,
    replicas: Replicas,
    coordinators: Coordinators,
    port: int,
    access: HttpAccess | None = None,
    context: ssl.SSLContext | None = None,
) -> MetricsServer:
    """Answer for a node; close it with `close()`. Port 0 takes a free one: see `port`."""
    ground = serving.ground
    register_gauges(ground, controllership, replicas, serving)
    register_group_metrics(coordinators.groups)
    register_transaction_metrics(coordinators.transactions)
    server = MetricsServer(ground.metrics.render, lambda: health(replicas), access or HttpAccess())
    await server.open(port, context)
    return server


def health(replicas: Replicas) -> tuple[bool, str]:
    """A node is healthy if it is registered, not fenced and has a log dir left."""
    ground = replicas.ground
    broker = ground.image.brokers.get(ground.node_id)
    if broker is None or broker.is_fenced:
        return False, "not registered\n"
    offline = sum(partition.log.is_offline for partition in replicas.partitions)
    if not replicas.logs.online_dirs:
        return False, "no log directory is online\n"
    return True, "ok\n" if not offline else f"ok, {offline} partitions offline\n"


class MetricsServer:
    """The listening socket and its few connections."""

    def __init__(
        self, render: Callable[[], str], is_healthy: Callable[[], tuple[bool, str]], access: HttpAccess | None = None
    ) -> None:
        self._render = render
        self._is_healthy = is_healthy
        self._access = access or HttpAccess()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def open(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(
            self._connected, self._access.host or None, port, limit=MAX_REQUEST_BYTES, ssl=context
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) > MAX_CONNECTIONS:
                answer = (503, "text/plain", "too many connections\n")
                is_head = False
            else:
                answer, is_head = await self._answer(reader)
                if answer[0] == 401:
                    peer = writer.get_extra_info("peername")
                    log.info("a request of %s to the metrics port was refused: no token, or a wrong one", peer[0])
            writer.write(encode_answer(answer, is_head=is_head))
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                await writer.drain()
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[Answer, bool]:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return (431, "text/plain", "the request is too large\n"), False
        except asyncio.IncompleteReadError:
            return (400, "text/plain", "the request is not complete\n"), False
        except TimeoutError:
            return (408, "text/plain", "the request took too long\n"), False
        return self.answer(head)

    def answer(self, head: bytes) -> tuple[Answer, bool]:
        """The answer to a request's head, and whether only its head is wanted."""
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return (400, "text/plain", "this is not HTTP/1\n"), False
        # Checked before anything else: no path and no method avoids the token.
        if not self._access.lets_in(head):
            return (401, "text/plain", "a bearer token is needed\n"), False
        method, target, _ = words
        is_head = method == b"HEAD"
        if method not in (b"GET", b"HEAD"):
            return (405, "text/plain", "only GET is answered here\n"), False
        path = normalised_path(target)
        if path == b"/metrics":
            return (200, CONTENT_TYPE, self._render()), is_head
        if path in (b"/health", b"/"):
            is_well, text = self._is_healthy()
            return (200 if is_well else 503, "text/plain; charset=utf-8", text), is_head
        return (404, "text/plain", "try /metrics or /health\n"), is_head


def encode_answer(answer: Answer, *, is_head: bool) -> bytes:
    status, content_type, text = answer
    body = text.encode()
    asks = "WWW-Authenticate: Bearer\r\n" if status == 401 else ""
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
        f"Content-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"{asks}Connection: close\r\n\r\n"
    ).encode()
    return head if is_head else head + body
