"""Subscriptions, assignments and sticky's user data, against bytes that Java's consumer writes."""

from __future__ import annotations

import pytest

from ottla.client.core.assignors import NO_GENERATION
from ottla.client.core.consumer_protocol import (
    decode_assignment,
    decode_sticky_user_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_user_data,
    encode_subscription,
)
from ottla.client.core.partitions import TopicPartition
from ottla.wire import WireError

OWNED = [TopicPartition("t", 0), TopicPartition("t", 2)]


def test_a_subscription_has_javas_form() -> None:
    data = encode_subscription("range", ["t"], owned=OWNED, generation=7, rack_id="r")
    assert data == bytes.fromhex(
        "0003"  # version
        "00000001 0001 74"  # topics
        "ffffffff"  # no user data
        "00000001 0001 74 00000002 00000000 00000002"  # owned
        "00000007"  # generation
        "0001 72"  # rack
    )


def test_an_assignment_has_javas_form_and_comes_back() -> None:
    data = encode_assignment(OWNED)
    assert data == bytes.fromhex("0003 00000001 0001 74 00000002 00000000 00000002 ffffffff")
    assert decode_assignment(data) == OWNED


def test_no_bytes_are_an_empty_assignment() -> None:
    assert decode_assignment(b"") == []


def test_sticky_carries_what_a_member_had_in_its_user_data() -> None:
    data = encode_subscription("sticky", ["t"], owned=[], generation=4, previous=OWNED)
    read = decode_subscription("sticky", data)
    assert (read.owned, read.generation) == (OWNED, 4)


def test_sticky_user_data_has_javas_form() -> None:
    assert encode_sticky_user_data(OWNED, 9) == bytes.fromhex("00000001 0001 74 00000002 00000000 00000002 00000009")


def test_sticky_user_data_of_the_first_version_has_no_generation() -> None:
    assert decode_sticky_user_data(bytes.fromhex("00000001 0001 74 00000001 00000003")) == (
        [TopicPartition("t", 3)],
        NO_GENERATION,
    )


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x7f\xff\xff\xff", bytes.fromhex("00000001 7fff 74")])
def test_unreadable_user_data_is_as_good_as_none(data: bytes) -> None:
    assert decode_sticky_user_data(data) == ([], NO_GENERATION)


def test_cooperative_sticky_reads_owned_partitions_of_an_old_member_with_the_generation_of_its_user_data() -> None:
    data = bytes.fromhex("0001 00000001 0001 74 00000004 00000006 00000001 0001 74 00000001 00000000")
    read = decode_subscription("cooperative-sticky", data)
    assert (read.owned, read.generation) == ([TopicPartition("t", 0)], 6)


def test_a_version_of_the_future_is_read_as_the_latest_known() -> None:
    data = b"\x00\x09" + encode_subscription("range", ["t"], owned=[], generation=1)[2:] + b"later fields"
    assert decode_subscription("range", data).topics == ["t"]


@pytest.mark.parametrize("data", [b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x01\x00\x00\x00\x05"])
def test_what_is_no_subscription_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_subscription("range", data)
