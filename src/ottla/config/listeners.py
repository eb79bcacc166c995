"""Where a node listens and what it tells clients: `listeners`, `advertised.listeners` and the quorum's voters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.config.keys import invalid

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listener(NamedTuple):
    """An address with a name and a security protocol. An empty host means every interface, port 0 any free port."""

    name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Voter(NamedTuple):
    """A member of the static quorum, from `controller.quorum.voters`."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.node_id}@{host}:{self.port}"


def parse_address(text: str) -> tuple[str, int] | None:
    """`host:port` with an optional bracket around an IPv6 host, or None when it is neither."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        return None
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    if not all(c.isalnum() or c in "-%._:" for c in host):
        return None
    return host, int(port)


def parse_security_protocol_map(text: str) -> dict[str, str]:
    setting = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in entry.partition(":"))
        if not colon or not name:
            raise invalid(setting, text, f"Expected NAME:PROTOCOL pairs, not {entry!r}")
        if protocol.upper() not in SECURITY_PROTOCOLS:
            raise invalid(setting, text, f"{protocol} is not one of {', '.join(SECURITY_PROTOCOLS)}")
        if name.upper() in protocols:
            raise invalid(setting, text, f"{name} is mapped twice")
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_listeners(
    setting: str, entries: Iterable[str], protocols: Mapping[str, str], *, distinct_ports: bool
) -> tuple[Listener, ...]:
    """The listeners of a setting's entries. All names must differ, and all ports except 0 and an IPv4/IPv6 pair on one
    port.
    """
    listeners: list[Listener] = []
    for entry in entries:
        name, separator, rest = entry.partition("://")
        address = parse_address(rest) if separator else None
        if address is None or not name.strip():
            raise invalid(setting, entry, "Expected NAME://HOST:PORT")
        upper = name.strip().upper()
        protocol = protocols.get(upper)
        if protocol is None:
            raise invalid(
                setting, entry, f"listener.security.protocol.map has no protocol for {upper} ({', '.join(protocols)})"
            )
        if any(other.name == upper for other in listeners):
            raise invalid(setting, entry, f"Each listener must have a different name; {upper} is used twice")
        host, port = address
        if distinct_ports and port != 0:
            same = [other for other in listeners if other.port == port]
            if len(same) > 1 or any(
                (":" in other.host) == (":" in host) or not (other.host and host) for other in same
            ):
                raise invalid(setting, entry, f"Each listener must have a different port; {port} is used twice")
        listeners.append(Listener(upper, host, port, protocol))
    return tuple(listeners)


def parse_voters(entries: Iterable[str]) -> tuple[Voter, ...]:
    setting = "controller.quorum.voters"
    voters: list[Voter] = []
    for entry in entries:
        node_id, at, rest = entry.partition("@")
        address = parse_address(rest) if at else None
        if address is None or not address[0] or not (node_id.isascii() and node_id.isdecimal()):
            raise invalid(setting, entry, "Expected ID@HOST:PORT")
        if any(voter.node_id == int(node_id) for voter in voters):
            raise invalid(setting, entry, f"Node {node_id} is listed twice")
        voters.append(Voter(int(node_id), *address))
    return tuple(voters)


def parse_connections_per_ip(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`: addresses or host names with the connections each may have."""
    limits: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = (part.strip() for part in entry.rpartition(":"))
        if not colon or not host or not (count.isascii() and count.isdecimal()):
            raise invalid("max.connections.per.ip.overrides", text, f"Expected HOST:COUNT, not {entry}")
        limits[host] = int(count)
    return limits
