from __future__ import annotations

import pytest

from ottla.security.forwarded import MAX_PRINCIPAL_BYTES, address_bytes, host_of, principal_bytes, principal_of
from ottla.security.principal import ANONYMOUS, Principal


def test_a_principal_is_carried_as_kafka_carries_it() -> None:
    assert principal_bytes(ANONYMOUS) == b"\x00\x00\x05User\nANONYMOUS\x00\x00"  # of tests/vectors
    token = Principal("User", "alice", is_token_authenticated=True)
    carried = principal_of(principal_bytes(token))
    assert carried == token and carried.is_token_authenticated


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\0",
        b"\0\1\x05User\x06alice\0\0",
        b"\0\0\x05User\x06ali",
        b"\0\0\xff\xff\xff\xff\x0f",
        b"\0\0" + bytes(MAX_PRINCIPAL_BYTES),
    ],
)
def test_other_bytes_are_no_principal(data: bytes | None) -> None:
    with pytest.raises(ValueError, match="forwarded request"):
        principal_of(data)


@pytest.mark.parametrize(
    ("host", "carried"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8::1", "2001:db8::1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("no-address", "127.0.0.1"),
    ],
)
def test_an_address_of_either_family_is_carried(host: str, carried: str) -> None:
    assert host_of(address_bytes(host)) == carried


@pytest.mark.parametrize("size", [0, 3, 5, 15, 17])
def test_an_address_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="4 or 16"):
        host_of(bytes(size))
