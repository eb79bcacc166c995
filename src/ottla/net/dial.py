"""Connecting as a client does: a host is looked up, and its addresses are tried one after the other."""

from __future__ import annotations

import asyncio
import os
import socket

from ottla.net.sockets import Socket, Sockets


async def dial(sockets: Sockets, host: str, port: int) -> Socket:
    """A connected socket; the OSError of the first address if none of them accepts."""
    first_error: OSError | None = None
    for address in await sockets.addresses(host):
        try:
            return await _connect(sockets, address, port)
        except OSError as error:
            first_error = first_error or error
    raise first_error or OSError(f"{host} has no address")


async def _connect(sockets: Sockets, address: str, port: int) -> Socket:
    sock = sockets.connect(address, port)
    try:
        await writable(sock)
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
    except BaseException:
        sock.close()
        raise
    return sock


async def writable(sock: Socket) -> None:
    """Wait until the socket takes bytes, or has an error."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(sock, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_writer(sock)


async def readable(sock: Socket) -> None:
    """Wait until the socket has bytes, has ended or has an error."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(sock, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(sock)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
