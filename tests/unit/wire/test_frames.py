from __future__ import annotations

import pytest

from ottla.wire import WireError, decode
from ottla.wire.frames import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
    request_header_version,
    response_header_version,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.list_groups import ListGroupsRequest


@pytest.mark.parametrize("client_id", [None, "", "console-producer", "klient-č"])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_request_is_read_as_it_was_written(client_id: str | None, version: int) -> None:
    request = HeartbeatRequest(group_id="group", generation_id=1, member_id="member")
    frame = b"".join(encode_request(12, version, 77, client_id, request))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    for body in (frame[4:], bytearray(frame[4:]), memoryview(frame)[4:]):
        header, position = decode_request_header(body)
        assert header == RequestHeader(12, version, 77, client_id)
        assert decode(HeartbeatRequest, version, body, position) == request


def test_header_versions() -> None:
    assert [request_header_version(12, version) for version in (3, 4)] == [1, 2]
    assert [response_header_version(12, version) for version in (3, 4)] == [0, 1]
    assert request_header_version(17, 1) == 1 and response_header_version(17, 1) == 0
    assert [request_header_version(18, version) for version in (2, 3)] == [1, 2]
    assert [response_header_version(18, version) for version in (2, 3)] == [0, 0]


def test_a_response_has_the_header_of_its_version() -> None:
    response = HeartbeatResponse(error_code=27)
    assert b"".join(encode_response(12, 3, 5, response)) == bytes.fromhex("0000000a 00000005 00000000 001b")
    assert b"".join(encode_response(12, 4, 5, response)) == bytes.fromhex("0000000c 00000005 00 00000000 001b 00")
    frame = b"".join(encode_response(12, 4, 5, response))[4:]
    assert decode_response_header(frame, 12, 4) == (5, 5)
    assert decode_response_header(frame, 12, 3) == (5, 4)


def test_the_response_to_api_versions_never_has_tags_in_its_header() -> None:
    frame = b"".join(encode_response(18, 4, 9, ApiVersionsResponse()))[4:]
    correlation_id, position = decode_response_header(frame, 18, 4)
    assert (correlation_id, position) == (9, 4)
    assert decode(ApiVersionsResponse, 4, frame, position) == ApiVersionsResponse()


def test_a_frame_of_records_keeps_them_apart() -> None:
    batch = memoryview(bytes(100))
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=batch)])])
    pieces = encode_response(1, 12, 1, response)
    assert pieces[1] is batch
    assert int.from_bytes(pieces[0][:4], "big") == sum(map(len, pieces)) - 4


def test_an_empty_request_is_all_header() -> None:
    assert encode_request(16, 0, 1, None, ListGroupsRequest()) == [bytes.fromhex("0000000a 0010 0000 00000001 ffff")]


def test_an_unsupported_version_of_api_versions_still_has_a_header() -> None:
    frame = bytes.fromhex("0012 0063 00000007 0001 61 00")
    header, _ = decode_request_header(frame)
    assert header == RequestHeader(18, 99, 7, "a")


def test_tags_of_a_header_are_skipped() -> None:
    frame = bytes.fromhex("0012 0003 00000007 0001 61 02 00 01 ff 05 00") + b"rest"
    header, position = decode_request_header(frame)
    assert (header.client_id, frame[position:]) == ("a", b"rest")
    assert decode_response_header(bytes.fromhex("00000007 01 00 02 abcd") + b"rest", 12, 4) == (7, 9)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "0012 0003 00000007 00",
        "0012 0003 00000007 0009 61",
        "0012 0003 00000007 0001 61",
        "0012 0003 00000007 0001 ff 00",
        "0012 0003 00000007 0001 61 01 00 09 00",
        "0012 0003 00000007 0001 61 ffffffff07",
        "0004 0000 00000007 ffff",
        "03e7 0000 00000007 ffff",
    ],
)
def test_a_broken_header_is_a_wire_error(frame: str) -> None:
    for buffer in (bytes.fromhex(frame), memoryview(bytes.fromhex(frame))):
        with pytest.raises(WireError):
            decode_request_header(buffer)


@pytest.mark.parametrize("frame", ["", "000000", "00000007", "00000007 01 00 09"])
def test_a_broken_response_header_is_a_wire_error(frame: str) -> None:
    with pytest.raises(WireError):
        decode_response_header(bytes.fromhex(frame), 12, 4)


def test_a_client_id_that_does_not_fit_is_a_wire_error() -> None:
    with pytest.raises(WireError):
        encode_request(18, 0, 1, "x" * 40_000, ApiVersionsRequest())
    with pytest.raises(WireError):
        encode_request(18, 0, 1 << 31, "x", ApiVersionsRequest())
