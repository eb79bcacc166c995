"""Bytes captured from real clients and a real Kafka: decoded, compared, encoded again to the very same bytes.

A file holds a frame without its size in hex, a line of dashes, what the header says, and the message as Python.
Recorded by tools/record_vectors.py.
"""

from __future__ import annotations

import re
from ast import literal_eval
from importlib import import_module
from pathlib import Path

import pytest

from ottla.wire import decode_from
from ottla.wire.apis import APIS, request_class, response_class
from ottla.wire.frames import decode_request_header, decode_response_header, encode_request, encode_response

VECTORS = sorted(Path(__file__).parent.glob("*.txt"))
KEYS = {api.module: key for key, api in APIS.items()}


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_recorded_frame_is_read_and_written_as_it_was(path: Path) -> None:
    named = re.fullmatch(r"(\w+)_v(\d+)_(request|response)_([\w.-]+)", path.stem)
    assert named is not None
    module, version = named[1], int(named[2])
    key = KEYS[module]
    code, _, rest = path.read_text().partition("----\n")
    head, _, text = rest.partition("\n")
    frame = bytes.fromhex(code)
    expected = eval(text, vars(import_module(f"ottla.wire.messages.{module}")))
    if named[3] == "request":
        header, position = decode_request_header(frame)
        correlation_id, _, client_id = head.partition(" ")
        assert tuple(header) == (key, version, int(correlation_id), literal_eval(client_id))
        message, end = decode_from(request_class(key), version, frame, position)
        again = encode_request(key, version, header.correlation_id, header.client_id, message)
    else:
        correlation, position = decode_response_header(frame, key, version)
        assert correlation == int(head)
        message, end = decode_from(response_class(key), version, frame, position)
        again = encode_response(key, version, correlation, message)
    assert message == expected
    assert end == len(frame)
    assert b"".join(again) == len(frame).to_bytes(4, "big") + frame


def test_there_are_vectors_of_every_kind_of_sender() -> None:
    senders = {path.stem.rpartition("_")[2] for path in VECTORS}
    assert senders >= {"kafka", "java", "librdkafka", "kafka-python", "aiokafka"}
