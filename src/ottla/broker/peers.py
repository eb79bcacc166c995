"""The other nodes that this one talks to, by their addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.net import NoAnswer, Peer, ReceiveBuffers, Sockets
from ottla.wire import Message


class Peers:
    """One connection for each, made when there is something to send."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sockets: Sockets, buffers: ReceiveBuffers, *, client_id: str
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._buffers = buffers
        self._client_id = client_id
        self._by_address: dict[tuple[str, int], Peer] = {}

    def send(
        self, host: str, port: int, request: Message, on_answer: Callable[[Message | NoAnswer], None], timeout_ms: int
    ) -> None:
        peer = self._by_address.get((host, port))
        if peer is None:
            peer = Peer(self._loop, self._sockets, self._buffers, host, port, client_id=self._client_id)
            self._by_address[host, port] = peer
        peer.send(request, on_answer, timeout_ms=timeout_ms)

    def ask_once(
        self, host: str, port: int, request: Message, on_answer: Callable[[Message | NoAnswer], None], timeout_ms: int
    ) -> None:
        """On a connection of its own, which shows whether somebody is there now."""
        peer = Peer(self._loop, self._sockets, self._buffers, host, port, client_id=self._client_id)

        def answered(answer: Message | NoAnswer) -> None:
            self._loop.call_soon(peer.close)
            on_answer(answer)

        peer.send(request, answered, timeout_ms=timeout_ms)

    def close(self) -> None:
        for peer in self._by_address.values():
            peer.close()
        self._by_address.clear()
