"""The sender of a forwarded request, as an Envelope carries it (KIP-590): principal and address as bytes."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

from ottla.security.principal import Principal
from ottla.wire import WireError, decoder, encode_bytes
from ottla.wire.messages.records.default_principal_data import DefaultPrincipalData

MAX_PRINCIPAL_BYTES = 65_536
"""More than two strings of Kafka's greatest length of a name take."""
_VERSION = b"\0\0"
_LOCAL_ADDRESS = bytes((127, 0, 0, 1))


def principal_bytes(principal: Principal) -> bytes:
    data = DefaultPrincipalData(
        type=principal.type, name=principal.name, token_authenticated=principal.is_token_authenticated
    )
    return _VERSION + encode_bytes(data, 0)


def principal_of(data: bytes | memoryview | None) -> Principal:
    """The inverse of `principal_bytes`; ValueError for other bytes."""
    if data is None or len(data) > MAX_PRINCIPAL_BYTES or bytes(data[:2]) != _VERSION:
        raise ValueError("the principal of a forwarded request is missing, too long or of an unknown version")
    try:
        decoded: DefaultPrincipalData = decoder(DefaultPrincipalData, 0)(memoryview(bytes(data)), 2)[0]
    except WireError as error:
        raise ValueError(f"the principal of a forwarded request cannot be read: {error}") from error
    return Principal(decoded.type, decoded.name, decoded.token_authenticated)


def address_bytes(host: str) -> bytes:
    """4 or 16 bytes. A host that is no address, as in tests, becomes the loopback address."""
    try:
        return ip_address(host).packed
    except ValueError:
        return _LOCAL_ADDRESS


def host_of(data: bytes | memoryview) -> str:
    """ValueError if these are not the bytes of an IPv4 or IPv6 address."""
    if len(data) not in (4, 16):
        raise ValueError(f"the address of a forwarded request has {len(data)} bytes, not 4 or 16")
    address = ip_address(bytes(data))
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(address if mapped is None else mapped)
