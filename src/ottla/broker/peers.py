"""The other nodes that this one talks to, by their addresses.

Answers on a connection come in the order of its requests. So whatever copies a log has a connection of its own: a
request that waits for a commit would hold back the very records that the commit waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.broker.suspicions import Look
from ottla.net import NoAnswer, Peer, ReceiveBuffers, Sockets
from ottla.wire import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest


class Peers:
    """One connection for each and each purpose, made when there is something to send."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sockets: Sockets, buffers: ReceiveBuffers, *, client_id: str
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._buffers = buffers
        self._client_id = client_id
        self._by_address: dict[tuple[str, int, str], Peer] = {}

    def send(
        self,
        host: str,
        port: int,
        request: Message,
        on_answer: Callable[[Message | NoAnswer], None],
        timeout_ms: int,
        *,
        purpose: str = "",
    ) -> None:
        peer = self._by_address.get((host, port, purpose))
        if peer is None:
            peer = Peer(self._loop, self._sockets, self._buffers, host, port, client_id=self._client_id)
            self._by_address[host, port, purpose] = peer
        peer.send(request, on_answer, timeout_ms=timeout_ms)

    def send_in_quorum(
        self, host: str, port: int, request: Message, on_answer: Callable[[Message | NoAnswer], None], timeout_ms: int
    ) -> None:
        self.send(host, port, request, on_answer, timeout_ms, purpose="quorum")

    def ask_once(
        self, host: str, port: int, request: Message, on_answer: Callable[[Message | NoAnswer], None], timeout_ms: int
    ) -> None:
        """On a connection of its own, which shows whether somebody is there now."""
        peer = Peer(self._loop, self._sockets, self._buffers, host, port, client_id=self._client_id)

        def answered(answer: Message | NoAnswer) -> None:
            self._loop.call_soon(peer.close)
            on_answer(answer)

        peer.send(request, answered, timeout_ms=timeout_ms)

    async def look_at(self, host: str, port: int, timeout_ms: int) -> Look:
        """Whether somebody answers at an address. A process that is about to end may still take a connection, but it
        closes it instead of answering."""
        seen: asyncio.Future[Look] = self._loop.create_future()

        def take(answer: Message | NoAnswer) -> None:
            if not seen.done():
                is_gone = isinstance(answer, NoAnswer) and answer.is_closed
                seen.set_result(
                    Look.REFUSED if is_gone else Look.SILENT if isinstance(answer, NoAnswer) else Look.ANSWERED
                )

        self.ask_once(host, port, ApiVersionsRequest(), take, timeout_ms)
        return await seen

    def close(self) -> None:
        for peer in self._by_address.values():
            peer.close()
        self._by_address.clear()
