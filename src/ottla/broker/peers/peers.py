"""The other nodes that this one talks to, by their addresses.

Answers on a connection come in the order of its requests. So each fetcher of a log has a connection of its own:
otherwise a request that waits for a commit would block the records that the commit needs.

Names are looked up beside the loop: a name server that does not answer must stop neither the node nor its signals.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.broker.peers.security import NodeSecurity, Troubles, Unverified
from ottla.broker.peers.suspicions import Look
from ottla.net import NoAnswer, Peer, ReceiveBuffers, Sockets
from ottla.net.peer import PeerSecurity
from ottla.net.tls import HandshakeTurns
from ottla.wire import Message

log = logging.getLogger("ottla.peers")

BROKERS, CONTROLLERS = "broker", "controller"
"""The kind of listener that a connection goes to."""
NAME_S = 30.0
"""How long an address is reused before its name is looked up again."""


class Peers:
    """One connection for each and each purpose, made when there is something to send."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: Sockets,
        buffers: ReceiveBuffers,
        *,
        client_id: str,
        to_brokers: NodeSecurity | None = None,
        to_controllers: NodeSecurity | None = None,
        troubles: Troubles | None = None,
    ) -> None:
        """`to_brokers` and `to_controllers` secure the connections to their listeners; None is in the open."""
        self._loop = loop
        self._sockets = sockets
        self._buffers = buffers
        self._client_id = client_id
        self._security = {BROKERS: to_brokers, CONTROLLERS: to_controllers}
        self._troubles = troubles
        self._turns = HandshakeTurns(loop)
        self._by_address: dict[tuple[str, str, int, str, str], Peer] = {}
        self._found: dict[str, tuple[str, float]] = {}
        """Name -> its last address, and until when it is not looked up again."""
        self._looking_up: dict[str, asyncio.Task[None]] = {}
        self._sending: dict[asyncio.Task[None], None] = {}
        """Requests and connections that wait for a name lookup."""
        self._unknown_names: set[str] = set()

    def send(
        self,
        host: str,
        port: int,
        request: Message,
        on_answer: Callable[[Message | NoAnswer], None],
        timeout_ms: int,
        *,
        purpose: str = "",
        role: str = BROKERS,
    ) -> None:
        if self._sockets.is_name(host):
            sending = self._loop.create_task(
                self._send_by_name(host, port, request, on_answer, timeout_ms, purpose, role)
            )
            self._sending[sending] = None
            sending.add_done_callback(self._sending.pop)
        else:
            self._send(host, port, request, on_answer, timeout_ms, purpose, role, host)

    async def _send_by_name(
        self,
        name: str,
        port: int,
        request: Message,
        on_answer: Callable[[Message | NoAnswer], None],
        timeout_ms: int,
        purpose: str,
        role: str,
    ) -> None:
        end = self._loop.time() + timeout_ms / 1000
        address = await self._address_of(name, timeout_ms)

        def answered(answer: Message | NoAnswer) -> None:
            if isinstance(answer, NoAnswer):
                self.forget_address(name)  # the node may have moved to another address
            on_answer(answer)

        if address is None:
            answered(NoAnswer(is_closed=False))
        else:
            left_ms = max(1, int((end - self._loop.time()) * 1000))
            self._send(address, port, request, answered, left_ms, purpose, role, name)

    def _send(
        self,
        host: str,
        port: int,
        request: Message,
        on_answer: Callable[[Message | NoAnswer], None],
        timeout_ms: int,
        purpose: str,
        role: str,
        name: str,
    ) -> None:
        key = (name, host, port, purpose, role)
        peer = self._by_address.get(key)
        if peer is None:
            peer = self._by_address[key] = self._new_peer(host, port, name, self._security[role])
        peer.send(request, on_answer, timeout_ms=timeout_ms)

    def send_in_quorum(
        self, host: str, port: int, request: Message, on_answer: Callable[[Message | NoAnswer], None], timeout_ms: int
    ) -> None:
        self.send(host, port, request, on_answer, timeout_ms, purpose="quorum", role=CONTROLLERS)

    def open(self, host: str, port: int, on_open: Callable[[Peer | None], None], timeout_ms: int) -> None:
        """Give the caller a connection to a broker of its own, which the caller closes: at once if the host is an
        address, or once the name was looked up; None if that fails or takes too long. If the connection breaks, the
        caller closes it, calls `forget_address` and opens another: the node may have a new address."""
        if self._sockets.is_name(host):
            opening = self._loop.create_task(self._open_by_name(host, port, on_open, timeout_ms))
            self._sending[opening] = None
            opening.add_done_callback(self._sending.pop)
        else:
            on_open(self._new_peer(host, port, host, self._security[BROKERS]))

    async def _open_by_name(
        self, name: str, port: int, on_open: Callable[[Peer | None], None], timeout_ms: int
    ) -> None:
        address = await self._address_of(name, timeout_ms)
        on_open(None if address is None else self._new_peer(address, port, name, self._security[BROKERS]))

    def forget_address(self, name: str) -> None:
        """Look a name up again before the next connection to it."""
        self._found.pop(name, None)

    def hang_up(self, host: str, port: int) -> None:
        """Close the connections to the listener for brokers at an address: pending requests there fail."""
        for key, peer in list(self._by_address.items()):
            name, _, its_port, _, role = key
            if (name, its_port, role) == (host, port, BROKERS):
                del self._by_address[key]
                peer.close()

    async def look_at(self, host: str, port: int, timeout_ms: int, *, is_foreign_tls: bool | None = None) -> Look:
        """Whether a broker answers at an address, on a connection of its own, which needs no login. A process that is
        ending may still accept a connection, but closes it without an answer. `is_foreign_tls`: the address is not that
        of the listener for brokers, and whether it speaks TLS.
        """
        name = host
        if self._sockets.is_name(host):
            address = await self._address_of(host, timeout_ms)
            if address is None:
                return Look.SILENT
            host = address
        seen: asyncio.Future[Look] = self._loop.create_future()

        def take(answer: Message | NoAnswer) -> None:
            if not seen.done():
                if not isinstance(answer, NoAnswer) or answer.is_there:
                    seen.set_result(Look.ANSWERED)
                else:
                    seen.set_result(Look.REFUSED if answer.is_closed else Look.SILENT)

        security: PeerSecurity | None = self._security[BROKERS]
        if is_foreign_tls is not None:
            security = Unverified() if is_foreign_tls else None
        peer = self._new_peer(host, port, name, security)
        peer.look(take, timeout_ms=timeout_ms)
        try:
            return await seen
        finally:
            peer.close()

    async def trouble(self, host: str, port: int, timeout_ms: int) -> str:
        """Why no connection to a controller can be made, in words; empty if one was made."""
        known = "" if self._troubles is None else self._troubles.at(f"{host}:{port}")
        if known:
            return known
        if self._sockets.is_name(host):
            try:
                host = await asyncio.wait_for(self._sockets.look_up(host), timeout_ms / 1000)
            except TimeoutError:
                return "no name server answers"
            except OSError:
                return "name not found"
        try:
            connecting = self._sockets.connect(host, port)
        except OSError as error:
            return _reason(error)
        is_writable = asyncio.Event()
        self._loop.add_writer(connecting, is_writable.set)
        try:
            await asyncio.wait_for(is_writable.wait(), timeout_ms / 1000)
            connecting.recv_into(bytearray(1))
        except BlockingIOError:
            return ""  # connected, and the other side waits for a request
        except TimeoutError:
            return "no answer to connecting"
        except OSError as error:
            return _reason(error)
        finally:
            self._loop.remove_writer(connecting)
            connecting.close()
        return "the connection was closed"

    async def _address_of(self, name: str, timeout_ms: int) -> str | None:
        """The address of a name, None if that is not known in time. Connections are tried many times per second: names
        are not looked up each time, and no request waits for a lookup if the last address can be used.
        """
        found = self._found.get(name)
        if found is None or found[1] <= self._loop.time():
            looking_up = self._looking_up.get(name)
            if looking_up is None:
                looking_up = self._looking_up[name] = self._loop.create_task(self._look_up(name))
            if found is None:
                await asyncio.wait([looking_up], timeout=timeout_ms / 1000)
                found = self._found.get(name)
        return None if found is None else found[0]

    async def _look_up(self, name: str) -> None:
        try:
            self._found[name] = (await self._sockets.look_up(name), self._loop.time() + NAME_S)
            self._unknown_names.discard(name)
        except OSError as error:
            if name not in self._unknown_names:  # logged once: it is tried again many times per second
                self._unknown_names.add(name)
                log.warning("the name %s cannot be looked up: %s", name, error)
        finally:
            del self._looking_up[name]

    async def is_gone(self, host: str, port: int, timeout_ms: int, *, is_foreign_tls: bool | None = None) -> bool:
        """Whether an address refuses connections. A node that is only slow to answer is not gone."""
        return await self.look_at(host, port, timeout_ms, is_foreign_tls=is_foreign_tls) is Look.REFUSED

    def _new_peer(self, host: str, port: int, name: str, security: PeerSecurity | None) -> Peer:
        return Peer(
            self._loop,
            self._sockets,
            self._buffers,
            host,
            port,
            client_id=self._client_id,
            name=name,
            security=security,
            turns=self._turns,
        )

    def close(self) -> None:
        for task in (*self._looking_up.values(), *self._sending):
            task.cancel()
        for peer in self._by_address.values():
            peer.close()
        self._by_address.clear()


def _reason(error: OSError) -> str:
    """`connection refused`, `no route to host`: the system's words, without its numbers."""
    text = error.strerror or str(error) or type(error).__name__
    return text[0].lower() + text[1:]
