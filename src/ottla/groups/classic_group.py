"""A classic group: its members, the protocol they agreed on, and its generation.

The members' leader assigns; the coordinator keeps the list of members, the generation and the leader. States and
transitions:

    Empty                -> PreparingRebalance   a first member joins
    PreparingRebalance   -> CompletingRebalance  all known members have joined, or their time is up
    PreparingRebalance   -> Empty                no member is left when the time is up
    CompletingRebalance  -> Stable               the leader's SyncGroup brought the assignment, and it is written
    CompletingRebalance  -> PreparingRebalance   a member joins, leaves, fails or changes before that; or sync times out
    Stable               -> PreparingRebalance   a member joins, leaves, fails or changes; the leader joins again
    any                  -> Dead                 the coordinator moves

Invariants:

    G1  a member waits for at most one JoinGroup and one SyncGroup; `awaiting_join_count` counts those of the first kind
    G2  every member supports at least one protocol that all support, so there is always one to choose
    G3  the generation grows by one with every rebalance that ends
    G4  the leader is a member, and there is one whenever there are members
    G5  JoinGroups wait only in PreparingRebalance, SyncGroups only in CompletingRebalance
"""

from __future__ import annotations

from collections import Counter
from enum import Enum

from ottla.groups.classic_member import ClassicMember, ParkedRequest, Protocols
from ottla.groups.classic_subscription import subscribed_topics
from ottla.groups.records import GroupRecord
from ottla.groups.state import PartitionCheck
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.join_group import JoinGroupResponseMember
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.group_metadata_value import GroupMetadataValue, MemberMetadata

CONSUMER_PROTOCOL_TYPE = "consumer"


class ClassicState(Enum):
    """The states of a classic group; the values are those of ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_PREVIOUS = {
    ClassicState.EMPTY: (ClassicState.PREPARING_REBALANCE,),
    ClassicState.PREPARING_REBALANCE: (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY),
    ClassicState.COMPLETING_REBALANCE: (ClassicState.PREPARING_REBALANCE,),
    ClassicState.STABLE: (ClassicState.COMPLETING_REBALANCE,),
    ClassicState.DEAD: tuple(ClassicState),
}


class ClassicGroup:
    """One classic group (implements `Group`)."""

    type = "classic"

    def __init__(
        self,
        group_id: str,
        *,
        timestamp: int,
        current: ClassicState = ClassicState.EMPTY,
        generation: int = 0,
        protocol_type: str = "",
        protocol_name: str | None = None,
        leader: str | None = None,
    ) -> None:
        self.id = group_id
        self.current = current
        self.previous = ClassicState.DEAD
        self.current_state_timestamp = timestamp
        """When the group entered its state, wall clock; -1 if an old record does not have it."""
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.members: dict[str, ClassicMember] = {}
        """By id, those that joined first come first."""
        self.static_members: dict[str, str] = {}
        """Member ids by group instance id."""
        self.pending_joins: dict[str, None] = {}
        """Member ids that were given to clients which have not joined with them yet."""
        self.pending_syncs: dict[str, None] = {}
        """Members of the generation that have not sent SyncGroup yet."""
        self.awaiting_join_count = 0
        self.has_new_member = False
        """Whether a member joined since the initial rebalance was last extended."""
        self.writing: GroupMetadataValue | None = None
        """The last record made, until it is replayed: the group already has its content, and more."""
        self.is_unassigned = False
        """Whether the record from which it was loaded has no leader: then the members' assignments are incomplete."""
        self._supported: Counter[str] = Counter()
        self._subscriptions: list[bytes] | None = None
        self._subscribed_topics: frozenset[str] | None = None
        self._is_subscription_read = False

    # --- what every type of group answers

    @property
    def state(self) -> str:
        return self.current.value

    @property
    def is_empty(self) -> bool:
        return self.current is ClassicState.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, api_version: int
    ) -> PartitionCheck | None:
        """Whether this caller may commit offsets now. Generation -1 is an admin or a consumer that assigns itself."""
        if self.current is ClassicState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and self.is_empty:
            return None
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not is_transactional and not self.is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not is_transactional and self.current is ClassicState.COMPLETING_REBALANCE:
            # The member has the new generation but not its assignment: its partitions may belong to others.
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if self.current is ClassicState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.id} is in dead state.")

    def check_offset_delete(self) -> None:
        """Whether offsets may be deleted; of a group of consumers only those of topics that no member reads."""
        if self.current is ClassicState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.id} is in dead state.")
        if not self.is_empty and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        if self.current is ClassicState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.id} is in dead state.")
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic; True if the subscriptions cannot be decoded."""
        topics = self.subscribed_topics
        return self.uses_consumer_protocol if topics is None else topic in topics

    def tombstones(self) -> list[GroupRecord]:
        return [GroupRecord(GroupMetadataKey(group=self.id), None)]

    def expiry_base(self, commit_timestamp: int) -> int | None:
        if not self.protocol_type:
            return commit_timestamp  # no member ever joined: offsets of a consumer that assigns itself
        if self.is_empty:
            return self.current_state_timestamp if self.current_state_timestamp >= 0 else commit_timestamp
        if self.uses_consumer_protocol and self.current is ClassicState.STABLE and self.subscribed_topics is not None:
            return commit_timestamp
        return None

    def describe(self) -> DescribedGroup:
        is_settled = self.current is ClassicState.STABLE
        protocol_name = self.protocol_name if is_settled else None
        return DescribedGroup(
            group_id=self.id,
            group_state=self.state,
            protocol_type=self.protocol_type,
            protocol_data=protocol_name or "",
            members=[member.describe(protocol_name) for member in self.members.values()],
        )

    # --- states and generations

    def transition(self, to: ClassicState, timestamp: int) -> None:
        assert self.current in _PREVIOUS[to], f"{self.current} -> {to}"
        self.previous = self.current
        self.current = to
        self.current_state_timestamp = timestamp

    @property
    def can_rebalance(self) -> bool:
        return self.current in _PREVIOUS[ClassicState.PREPARING_REBALANCE]

    @property
    def have_all_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long members may take to join a rebalance: the largest timeout of any member."""
        return max(0, max((member.rebalance_timeout_ms for member in self.members.values()), default=0))

    def next_generation(self, timestamp: int) -> None:
        self.generation += 1
        self.pending_syncs.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition(ClassicState.COMPLETING_REBALANCE, timestamp)
        else:
            self.protocol_name = None
            self.transition(ClassicState.EMPTY, timestamp)
        self.note_subscriptions()

    def is_leader(self, member_id: str) -> bool:
        return self.leader == member_id

    def elect_joined_leader(self) -> bool:
        """Elect a leader that has joined; False if no member has."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is not None:
            return True
        joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader = joined.id
        return True

    # --- members

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another process has the instance id now."""
        if instance_id is not None:
            existing = self.static_members.get(instance_id)
            if existing is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if existing != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member; the first one sets the group's protocol type."""
        assert member.id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self._supported.update(member.protocols.names)
        if member.awaiting_join is not None:
            self.awaiting_join_count += 1
        self.pending_joins.pop(member.id, None)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member, or an id without a member; if the leader is removed the oldest member leads."""
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._retract(member.protocols)
        if member.awaiting_join is not None:
            self.awaiting_join_count -= 1
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_static(self, member: ClassicMember, new_id: str) -> None:
        """Give a static member the id of its new process."""
        assert member.instance_id is not None and member.awaiting_join is None and member.awaiting_sync is None
        old_id, member.id = member.id, new_id
        self.members[new_id] = self.members.pop(old_id)
        self.static_members[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_syncs:
            del self.pending_syncs[old_id]
            self.pending_syncs[new_id] = None

    def update(
        self, member: ClassicMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._retract(member.protocols)
        member.protocols = protocols
        self._supported.update(protocols.names)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def await_join(self, member: ClassicMember, waiting: ParkedRequest) -> ParkedRequest | None:
        """Park the member's JoinGroup; returns the one parked before, which would otherwise never be answered."""
        before, member.awaiting_join = member.awaiting_join, waiting
        if before is None:
            self.awaiting_join_count += 1
        return before

    def end_join(self, member: ClassicMember) -> ParkedRequest | None:
        """Takes the parked JoinGroup, to be answered now."""
        waiting, member.awaiting_join = member.awaiting_join, None
        if waiting is not None:
            self.awaiting_join_count -= 1
        return waiting

    # --- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can join: one of them is supported by all members."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(self._supported[name] == count for name in protocols.names)

    def select_protocol(self) -> str:
        """The protocol that all support and most prefer; with equal votes the oldest member's choice."""
        count = len(self.members)
        candidates = {name for name, supporters in self._supported.items() if supporters == count}
        votes = Counter(member.protocols.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def _retract(self, protocols: Protocols) -> None:
        for name in protocols.names:
            if self._supported[name] == 1:
                del self._supported[name]
            else:
                self._supported[name] -= 1

    # --- subscriptions of consumers

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """What the members of this generation read; None if unknown. Decoded from their metadata on demand."""
        if not self._is_subscription_read:
            self._is_subscription_read = True
            self._subscribed_topics = None if self._subscriptions is None else subscribed_topics(self._subscriptions)
            self._subscriptions = None
        return self._subscribed_topics

    def note_subscriptions(self) -> None:
        """Keep the members' metadata of this generation: it may change while the next one forms."""
        self._is_subscription_read = False
        self._subscriptions = None
        if self.uses_consumer_protocol:
            if not self.members:
                self._subscriptions = []
            elif self.protocol_name is not None:
                self._subscriptions = [
                    member.protocols.metadata(self.protocol_name) for member in self.members.values()
                ]

    # --- responses and records

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """All members with their metadata for the leader, which needs no more to assign."""
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                metadata=member.protocols.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    def record(self, assignments: dict[str, bytes]) -> GroupRecord:
        """The group's record: its generation, and its members with their assignments."""
        members = []
        for member in self.members.values():
            assert self.protocol_name is not None
            members.append(
                MemberMetadata(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.protocols.metadata(self.protocol_name),
                    assignment=assignments[member.id],
                )
            )
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=self.current_state_timestamp,
            members=members,
        )
        self.writing = value
        return GroupRecord(GroupMetadataKey(group=self.id), value)

    @classmethod
    def of_record(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """The group that a record describes. The record has only the chosen protocol of each member."""
        group = cls(
            group_id,
            timestamp=value.current_state_timestamp,
            current=ClassicState.STABLE if value.members else ClassicState.EMPTY,
            generation=value.generation,
            protocol_type=value.protocol_type,
            protocol_name=value.protocol or ("" if value.members else None),
            leader=value.leader if any(written.member_id == value.leader for written in value.members) else None,
        )
        for written in value.members:
            if written.member_id in group.members or written.group_instance_id in group.static_members:
                continue  # no coordinator writes that, but it must not make a group unreadable
            has_no_timeout = written.rebalance_timeout == -1
            member = ClassicMember(
                id=written.member_id,
                instance_id=written.group_instance_id,
                client_id=written.client_id,
                client_host=written.client_host,
                rebalance_timeout_ms=written.session_timeout if has_no_timeout else written.rebalance_timeout,
                session_timeout_ms=written.session_timeout,
                protocols=Protocols([(value.protocol or "", written.subscription)]),
                assignment=written.assignment,
            )
            group.add(member, value.protocol_type)
        group.note_subscriptions()
        group.is_unassigned = bool(group.members) and value.leader is None
        return group
