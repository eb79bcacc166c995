"""Messages to bytes and back, with functions that are compiled per (message, version) on first use.

`ottla.wire.compiler` describes the functions and how they treat broken bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.wire.message import Schema, Struct
from ottla.wire.primitives import UnsupportedVersion

M = TypeVar("M", bound=Struct)


def decode(cls: type[M], version: int, buffer: bytes | bytearray | memoryview, position: int = 0) -> M:
    """The message that begins at position; bytes after it are not looked at."""
    return decoder(cls, version)(buffer, position)[0]


def decode_from(cls: type[M], version: int, buffer: bytes | bytearray | memoryview, position: int = 0) -> tuple[M, int]:
    """The message that begins at position, and the position after it."""
    return decoder(cls, version)(buffer, position)


def encode(message: Struct, version: int) -> list[Any]:
    """The message as a scatter list: bytes, with the records fields between them as they were given."""
    pieces: list[Any] = []
    encoder(type(message), version)(message, pieces)
    return pieces


def encode_bytes(message: Struct, version: int) -> bytes:
    pieces: list[Any] = []
    encoder(type(message), version)(message, pieces)
    if len(pieces) == 1:
        piece: bytes = pieces[0]
        return piece
    return b"".join(piece.read() if hasattr(piece, "read") else piece for piece in pieces)


def decoder(cls: type[M], version: int) -> Callable[[bytes | bytearray | memoryview, int], tuple[M, int]]:
    schema = cls.__schema__
    function = schema.decoders.get(version)
    if function is None:
        _check_version(schema, version)
        from ottla.wire.compiler import compile_decoder

        function = schema.decoders[version] = compile_decoder(schema, version)
    return function


def encoder(cls: type[M], version: int) -> Callable[[M, list[Any]], None]:
    schema = cls.__schema__
    function = schema.encoders.get(version)
    if function is None:
        _check_version(schema, version)
        from ottla.wire.compiler import compile_encoder

        function = schema.encoders[version] = compile_encoder(schema, version)
    return function


def _check_version(schema: Schema, version: int) -> None:
    first, last = schema.versions
    if not first <= version <= last:
        raise UnsupportedVersion(f"{schema.cls.__name__} has versions {first} to {last}, not {version}")
