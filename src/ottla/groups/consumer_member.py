"""A member of a consumer group (KIP-848), as defined by its records. States of a member:

- STABLE: it has the target assignment of its epoch.
- UNREVOKED_PARTITIONS: it must revoke partitions and has not confirmed that yet. It keeps its epoch meanwhile.
- UNRELEASED_PARTITIONS: it is in the epoch of the target assignment, but others still hold some of its partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ottla.wire.messages.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.wire.messages.records.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue

STABLE: Final = 0
UNREVOKED_PARTITIONS: Final = 1
UNRELEASED_PARTITIONS: Final = 2
UNKNOWN_STATE: Final = 127
"""A state of a later release: the member must join again."""

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""A static member that leaves for a while: its partitions wait for the next member with its instance id."""

Ownership = dict[bytes, dict[int, int]]
"""Partitions by topic id, each with the epoch in which the member got it. Never changed once made."""

NOTHING: Ownership = {}


class ClassicProtocol(NamedTuple):
    """An assignor that a classic member offers, with its subscription encoded for it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """Data of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]
    """In the order of its preference; the first is used in the group's answers."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: int = STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """The names it is subscribed to, sorted."""
    regex: str | None = ""
    server_assignor: str | None = None
    assigned: Ownership = field(default_factory=lambda: NOTHING)
    pending_revocation: Ownership = field(default_factory=lambda: NOTHING)
    classic: ClassicMetadata | None = None

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state == STABLE and self.epoch == assignment_epoch

    def at_epoch(self, epoch: int, state: int, assigned: Ownership, pending_revocation: Ownership) -> ConsumerMember:
        """The member after a step of its reconciliation."""
        return replace(
            self,
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending_revocation,
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        metadata = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=tuple(sorted(set(value.subscribed_topic_names))),
            regex=value.subscribed_topic_regex,
            server_assignor=value.server_assignor,
            classic=None
            if metadata is None
            else ClassicMetadata(
                metadata.session_timeout_ms,
                tuple(
                    ClassicProtocol(protocol.name, bytes(protocol.metadata))
                    for protocol in metadata.supported_protocols
                ),
            ),
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        known = value.state in (STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS)
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=value.state if known else UNKNOWN_STATE,
            assigned=_ownership(value.assigned_partitions, value.member_epoch),
            pending_revocation=_ownership(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> ConsumerMember:
        """The member without its current assignment: the last step before it is removed."""
        return replace(
            self, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned=NOTHING, pending_revocation=NOTHING
        )


def _ownership(topics: list[TopicPartitions], member_epoch: int) -> Ownership:
    """Records from before Kafka 4.2 have no epochs of single partitions: the member's epoch counts for all."""
    ownership: Ownership = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        ownership[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return ownership
