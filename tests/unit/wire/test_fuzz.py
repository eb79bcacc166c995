"""Bytes from outside give a message or a WireError, and never more memory than their size allows."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from random import Random

import pytest

from ottla.wire import Message, WireError, decode, decode_from, decoder, encode_bytes, schema
from ottla.wire.frames import decode_request_header, decode_response_header
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.unit.wire.values import all_messages, make, versions_of

MESSAGES = all_messages()
INTERESTING = [
    *(b"\x00", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"),
    *(b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80", b"\xc3\x28"),
]


def mutate(data: bytes, rng: Random) -> bytes:
    mutated = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        position = rng.randint(0, len(mutated))
        match rng.randrange(5):
            case 0:
                del mutated[position : position + rng.randint(1, 9)]
            case 1:
                mutated[position:position] = rng.choice(INTERESTING)
            case 2:
                value = rng.choice(INTERESTING)
                mutated[position : position + len(value)] = value
            case 3:
                mutated[position : position + 1] = rng.randbytes(1)
            case _:
                mutated[position:position] = mutated[rng.randint(0, position) : position][:50]
    return bytes(mutated)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_mutated_bytes_give_a_message_or_a_wire_error(cls: type[Message]) -> None:
    rng = Random(cls.__name__)
    for version in versions_of(cls):
        for _ in range(4):
            valid = encode_bytes(make(cls, version, rng, is_flexible=schema(cls).is_flexible(version)), version)
            for _ in range(4):
                data = mutate(valid, rng)
                try:
                    message, end = decode_from(cls, version, data)
                except WireError:
                    continue
                assert end <= len(data)
                repr(message)
                again = encode_bytes(message, version)  # what was read can be written, and means the same
                assert encode_bytes(decode(cls, version, again), version) == again


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_random_bytes_give_a_message_or_a_wire_error(cls: type[Message]) -> None:
    rng = Random(cls.__name__)
    for version in versions_of(cls):
        for _ in range(8):
            pieces = (rng.choice(INTERESTING) if rng.random() < 0.5 else rng.randbytes(3) for _ in range(30))
            try:
                decode(cls, version, b"".join(pieces))
            except WireError:
                continue


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_hostile_counts_allocate_next_to_nothing(cls: type[Message]) -> None:
    bodies = [bytes([value]) * 200 for value in (0, 1, 2, 3, 0x7F, 0xFF)]
    bodies += [bytes(count) + b"\x7f\xff\xff\xff" * 40 for count in range(0, 12, 2)]
    bodies += [b"\1" * count + b"\xff\xff\xff\xff\x07" * 40 for count in range(0, 12, 3)]
    for version in {schema(cls).first_version, schema(cls).last_version}:
        function = decoder(cls, version)
        for body in bodies:
            attempt(function, body)  # what is made once (short formats, error texts) does not count
            tracemalloc.start()
            attempt(function, body)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 100_000, f"version {version} of {cls.__name__} took {peak} bytes for {len(body)}"


def attempt(function: object, body: bytes) -> None:
    assert callable(function)
    with suppress(WireError):
        function(body, 0)


def test_headers_of_mutated_frames_are_read_or_refused() -> None:
    rng = Random(1)
    for _ in range(5000):
        frame = mutate(b"\x00\x12\x00\x03\x00\x00\x00\x01\x00\x03abc\x00" + b"\x02x\x02y\x00", rng)
        for buffer in (frame, memoryview(frame)):
            try:
                header, position = decode_request_header(buffer)
                if header.api_key == 18 and header.api_version == 3:
                    decode(ApiVersionsRequest, 3, buffer, position)
            except WireError:
                continue
        try:
            decode_response_header(frame, 1, 12)
        except WireError:
            continue
