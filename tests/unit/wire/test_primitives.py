from __future__ import annotations

import pytest

from ottla.wire import WireError
from ottla.wire.primitives import (
    ZERO_UUID,
    decode_unsigned_varint,
    decode_varint,
    decode_varlong,
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
    parse_uuid,
    uuid_text,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2097151, "ffff7f"),
        (2097152, "80808001"),
        (0xFFFFFFFF, "ffffffff0f"),
    ],
)
def test_unsigned_varints(value: int, encoded: str) -> None:
    assert encode_unsigned_varint(value).hex() == encoded
    assert decode_unsigned_varint(b"?" + bytes.fromhex(encoded) + b"?", 1) == (value, 1 + len(encoded) // 2)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101")],
)
def test_signed_varints_are_zigzag(value: int, encoded: str) -> None:
    for encode, decode in ((encode_varint, decode_varint), (encode_varlong, decode_varlong)):
        assert encode(value).hex() == encoded
        assert decode(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@pytest.mark.parametrize("bits", [31, 63])
def test_signed_varints_reach_their_limits(bits: int) -> None:
    encode, decode = (encode_varint, decode_varint) if bits == 31 else (encode_varlong, decode_varlong)
    for value in ((1 << bits) - 1, -(1 << bits)):
        assert decode(encode(value), 0) == (value, len(encode(value)))
    for value in (1 << bits, -(1 << bits) - 1):
        with pytest.raises(WireError, match="does not fit"):
            encode(value)


def test_varints_that_do_not_fit() -> None:
    for value in (-1, 1 << 64):
        with pytest.raises(WireError, match="does not fit"):
            encode_unsigned_varint(value)


@pytest.mark.parametrize("encoded", ["", "80", "ffffff", "ffffffff10", "8080808080808080808001", "80" * 30])
def test_broken_varints_are_wire_errors(encoded: str) -> None:
    for decode in (decode_unsigned_varint, decode_varint):
        with pytest.raises(WireError):
            decode(bytes.fromhex(encoded), 0)
    with pytest.raises(WireError):
        decode_varlong(bytes.fromhex(encoded if len(encoded) != 10 else "ff" * 9 + "02"), 0)


@pytest.mark.parametrize(
    ("uuid", "text"),
    [
        (ZERO_UUID, "AAAAAAAAAAAAAAAAAAAAAA"),
        (bytes(15) + b"\1", "AAAAAAAAAAAAAAAAAAAAAQ"),
        (b"\xfb\xff" * 8, "-__7__v_-__7__v_-__7_w"),
    ],
)
def test_uuids_have_the_text_that_kafkas_tools_show(uuid: bytes, text: str) -> None:
    assert uuid_text(uuid) == text
    assert parse_uuid(text) == uuid


@pytest.mark.parametrize("text", ["", "A", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB", "?" * 22, "é" * 22])
def test_other_text_is_no_uuid(text: str) -> None:
    with pytest.raises(WireError, match="is no uuid"):
        parse_uuid(text)
