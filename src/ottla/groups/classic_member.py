"""A member of a classic group: its metadata, its assignment, and its parked requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.wire.messages.describe_groups import DescribedGroupMember
from ottla.wire.messages.join_group import JoinGroupRequestProtocol


class ParkedRequest(NamedTuple):
    """A parked request: the key of its caller, and the version of its answer."""

    waiter: Any
    api_version: int


class Protocols:
    """The protocols that a member supports, in its order of preference, each with metadata for the leader. For
    consumers these are assignors with the subscription. A name that occurs twice counts once, as does the member's
    vote.
    """

    __slots__ = ("_metadata", "pairs")

    def __init__(self, pairs: Iterable[tuple[str, bytes]]) -> None:
        self.pairs = tuple(pairs)
        """As the member sent them: joining again with the same ones changes nothing."""
        self._metadata = dict(reversed(self.pairs)) if self.pairs else {}

    @classmethod
    def of(cls, protocols: Iterable[JoinGroupRequestProtocol]) -> Protocols:
        return cls((protocol.name, bytes(protocol.metadata)) for protocol in protocols)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Protocols) and self.pairs == other.pairs

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.pairs)

    @property
    def names(self) -> Iterable[str]:
        """Each name once."""
        return self._metadata.keys()

    def metadata(self, name: str) -> bytes:
        """The member's metadata for the leader if this protocol is chosen."""
        return self._metadata[name]

    def vote(self, candidates: set[str]) -> str:
        """The candidate that the member prefers."""
        return next(name for name, _ in self.pairs if name in candidates)


@dataclass(slots=True, eq=False)
class ClassicMember:
    """One member; the coordinator chose its member id, the member its group instance id (None for a dynamic member)."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: ParkedRequest | None = None
    awaiting_sync: ParkedRequest | None = None
    is_new: bool = False
    """Whether it waits for its first generation. It may not know its id yet, so a parked request does not show that it
    is alive.
    """

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether a parked request counts in place of its heartbeats."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def describe(self, protocol_name: str | None) -> DescribedGroupMember:
        """The row for DescribeGroups; with its metadata only if the protocol is settled."""
        return DescribedGroupMember(
            member_id=self.id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol_name is None else self.protocols.metadata(protocol_name),
            member_assignment=self.assignment,
        )
