"""A connection on asyncio that asks and awaits: the same bytes for both servers, hundreds of them in one process."""

from __future__ import annotations

import asyncio
import struct
from functools import cache
from typing import TypeVar

from ottla.wire import decode
from ottla.wire.apis import response_class
from ottla.wire.frames import decode_response_header, encode_request
from ottla.wire.message import Message

CLIENT_ID = "ottla-bench"
_SIZE = struct.Struct(">i")

Response = TypeVar("Response", bound=Message)


class Asking:
    """One request in flight at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Asking:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, request: Message, version: int, response: type[Response]) -> Response:
        key = _key(response)
        self._writer.write(b"".join(encode_request(key, version, 1, CLIENT_ID, request)))
        (size,) = _SIZE.unpack(await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        _, position = decode_response_header(frame, key, version)
        return decode(response, version, frame, position)

    def close(self) -> None:
        self._writer.close()


@cache
def _key(response: type[Message]) -> int:
    key = response.__schema__.api_key
    assert key is not None
    assert response_class(key) is response
    return key
