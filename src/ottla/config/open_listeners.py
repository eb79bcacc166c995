"""Finds listeners that other machines on the network can read along with or use: without TLS, on an address that is not
loopback.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from ottla.config.listeners import Listener

OPEN_PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; an empty one is every interface."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False  # a name: other machines may resolve it, too


def open_listeners(listeners: Iterable[Listener]) -> list[Listener]:
    return [one for one in listeners if one.security_protocol in OPEN_PROTOCOLS and not is_loopback(one.host)]


def open_entries(listeners: str, protocols: str) -> list[str]:
    """The open entries of `listeners`, with `listener.security.protocol.map`: both as DescribeConfigs gives them."""
    by_name = {}
    for entry in protocols.split(","):
        name, _, protocol = entry.partition(":")
        by_name[name.strip().upper()] = protocol.strip().upper()
    found = []
    for entry in filter(None, (one.strip() for one in listeners.split(","))):
        name, _, address = entry.partition("://")
        protocol = by_name.get(name.strip().upper(), name.strip().upper())
        if protocol in OPEN_PROTOCOLS and not is_loopback(address.rpartition(":")[0]):
            found.append(entry)
    return found


def warning_of(address: str, protocol: str) -> str:
    """What an open listener means, and what to do, in one sentence."""
    what = (
        "without TLS: passwords and records can be read on the way"
        if protocol == "SASL_PLAINTEXT"
        else "without TLS and without logins: anyone who reaches this address can read and change everything"
    )
    return (
        f"listener {address} is {what}. Use --secure ('ottla security --help'), listen on 127.0.0.1, or say --insecure "
        "if the network is closed to others"
    )
