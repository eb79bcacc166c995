"""Frames: a four-byte size, a header, and a request or a response.

A flexible request has header version 2, any other version 1; a flexible response version 1, any other 0. ApiVersions is
the exception: a client reads its response before it knows what the broker speaks, so that response always has header 0.
"""

from __future__ import annotations

from struct import Struct as Format
from struct import error as StructError
from typing import Any, NamedTuple

from ottla.wire.apis import API_VERSIONS, APIS
from ottla.wire.codec import encoder
from ottla.wire.message import Message
from ottla.wire.primitives import WireError, decode_unsigned_varint

MAX_HEADER_TAGS = 10_000

_REQUEST = Format(">hhih")
_CORRELATION = Format(">i")
_SIZED_CORRELATION = Format(">ii")
_SIZED_CORRELATION_AND_TAGS = Format(">iix")
_SIZED_REQUEST = Format(">ihhih")


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_version(api_key: int, version: int) -> int:
    return 2 if APIS[api_key].is_flexible(version) else 1


def response_header_version(api_key: int, version: int) -> int:
    return 1 if api_key != API_VERSIONS and APIS[api_key].is_flexible(version) else 0


def decode_request_header(frame: bytes | bytearray | memoryview) -> tuple[RequestHeader, int]:
    """The header of a frame (without its size) and where the request begins.

    A version that the API does not have is no error here: ApiVersions must be answered even then. An unknown api key
    is one, since not even the form of its header is known.
    """
    try:
        api_key, version, correlation_id, length = _REQUEST.unpack_from(frame)
        api = APIS.get(api_key)
        if api is None:
            raise WireError(f"there is no API with key {api_key}")
        position = 10
        client_id = None
        if length >= 0:
            position += length
            if position > len(frame):
                raise WireError("request header is cut short")
            client_id = str(frame[10:position], "utf-8")
        if api.first_flexible_version is not None and version >= api.first_flexible_version:
            if frame[position]:
                position = _skip_tags(frame, position)
            else:
                position += 1
    except (StructError, IndexError) as error:
        raise WireError("request header is cut short") from error
    except UnicodeDecodeError as error:
        raise WireError("client id is not UTF-8") from error
    return tuple.__new__(RequestHeader, (api_key, version, correlation_id, client_id)), position


def decode_response_header(frame: bytes | bytearray | memoryview, api_key: int, version: int) -> tuple[int, int]:
    """The correlation id of a frame (without its size) and where the response begins."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
    except StructError as error:
        raise WireError("response header is cut short") from error
    position = 4
    if response_header_version(api_key, version):
        position = _skip_tags(frame, position)
    return correlation_id, position


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, request: Message | bytes
) -> list[Any]:
    """A whole frame as a scatter list, its size first. A request may be encoded already."""
    pieces: list[Any] = []
    if isinstance(request, bytes):
        pieces.append(request)
    else:
        encoder(type(request), version)(request, pieces)
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    tags = b"\0" if APIS[api_key].is_flexible(version) else b""
    size = 10 + len(name) + len(tags) + sum(map(len, pieces))
    try:
        head = _SIZED_REQUEST.pack(size, api_key, version, correlation_id, length)
    except StructError as error:
        raise WireError(f"request header cannot be encoded: {error}") from error
    pieces[0] = b"".join((head, name, tags, pieces[0]))
    return pieces


def encode_response(api_key: int, version: int, correlation_id: int, response: Message) -> list[Any]:
    """A whole frame as a scatter list, its size first."""
    pieces: list[Any] = []
    encoder(type(response), version)(response, pieces)
    body = pieces[0]
    size = 4 + (len(body) if len(pieces) == 1 else sum(map(len, pieces)))
    flexible = APIS[api_key].first_flexible_version
    if flexible is not None and version >= flexible and api_key != API_VERSIONS:
        pieces[0] = _SIZED_CORRELATION_AND_TAGS.pack(size + 1, correlation_id) + body
    else:
        pieces[0] = _SIZED_CORRELATION.pack(size, correlation_id) + body
    return pieces


def _skip_tags(frame: bytes | bytearray | memoryview, position: int) -> int:
    """Headers have no tagged fields that are read. Skipping takes time for each: there may be only so many."""
    count, position = decode_unsigned_varint(frame, position)
    if count > MAX_HEADER_TAGS:
        raise WireError(f"a header has {count} tagged fields; at most {MAX_HEADER_TAGS} are taken")
    for _ in range(count):
        _, position = decode_unsigned_varint(frame, position)
        size, position = decode_unsigned_varint(frame, position)
        position += size
        if position > len(frame):
            raise WireError("header is cut short")
    return position
