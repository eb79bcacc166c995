"""A member of a classic group: what it said when it joined, what it was assigned, and which of its requests wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.wire.messages.describe_groups import DescribedGroupMember
from ottla.wire.messages.join_group import JoinGroupRequestProtocol


class ParkedRequest(NamedTuple):
    """A request that is left waiting: how its caller is found again, and in which version it is answered."""

    waiter: Any
    api_version: int


class Protocols:
    """The protocols a member can speak, the ones it likes best first, each with what it has to tell the leader.

    For consumers these are the assignors, and what they have to tell is the subscription. A name that comes twice
    counts once: a member has one vote and supports a protocol or does not.
    """

    __slots__ = ("_metadata", "pairs")

    def __init__(self, pairs: Iterable[tuple[str, bytes]]) -> None:
        self.pairs = tuple(pairs)
        """As the member sent them: joining with the same ones again changes nothing."""
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
        """What the member tells the leader if this protocol is chosen."""
        return self._metadata[name]

    def vote(self, candidates: set[str]) -> str:
        """The candidate that the member likes best."""
        return next(name for name, _ in self.pairs if name in candidates)


@dataclass(slots=True, eq=False)
class ClassicMember:
    """One member; its id is the coordinator's, its group instance id its own (None for a dynamic member)."""

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
    """Whether it waits for its first generation. It may not know its id yet, so waiting is no sign of life."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether a request of it that waits stands for its heartbeats."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def describe(self, protocol_name: str | None) -> DescribedGroupMember:
        """As DescribeGroups shows it; what it told the leader only where the protocol is settled."""
        return DescribedGroupMember(
            member_id=self.id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol_name is None else self.protocols.metadata(protocol_name),
            member_assignment=self.assignment,
        )
