"""Kafka's wire protocol: messages, their bytes, error codes and the table of APIs. Pure: bytes in, objects out.

The messages themselves are in `ottla.wire.messages.<api>`; none is imported before it is used.
"""

from ottla.wire.codec import decode, decode_from, decoder, encode, encode_bytes, encoder
from ottla.wire.message import Message, Schema, Struct, schema
from ottla.wire.primitives import UnsupportedVersion, WireError

__all__ = [
    "Message",
    "Schema",
    "Struct",
    "UnsupportedVersion",
    "WireError",
    "decode",
    "decode_from",
    "decoder",
    "encode",
    "encode_bytes",
    "encoder",
    "schema",
]
