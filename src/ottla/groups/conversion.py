"""Online upgrade and downgrade: a classic group of consumers becomes a consumer group when the first member joins with
the consumer protocol, and a classic group again when the last of these leaves.

Members keep their partitions. After an upgrade the classic members continue with their generation as their epoch; a
member parked in a rebalance must join again. After a downgrade the remaining members rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from ottla.groups.assignors import EMPTY
from ottla.groups.call import Call
from ottla.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicState
from ottla.groups.classic_groups import ClassicGroups
from ottla.groups.classic_member import ClassicMember, Protocols
from ottla.groups.classic_responses import write_error
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_member import NOTHING, ClassicMetadata, ClassicProtocol, ConsumerMember, Ownership
from ottla.groups.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    partitions_by_topic_id,
)
from ottla.groups.consumer_records import (
    current_assignment_record,
    group_epoch_record,
    group_tombstones,
    member_metadata_record,
    target_assignment_metadata_record,
    target_assignment_record,
)
from ottla.groups.membership import Membership, Step
from ottla.groups.records import GroupRecord
from ottla.groups.state import ShardState
from ottla.machine import Answer, CoordinatorDecision
from ottla.wire import WireError
from ottla.wire.consumer_protocol import protocol_version
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.group_metadata_value import GroupMetadataValue

_UPGRADE_POLICIES = ("upgrade", "bidirectional")
_DOWNGRADE_POLICIES = ("downgrade", "bidirectional")


class Conversion:
    def __init__(self, state: ShardState, classic: ClassicGroups, membership: Membership) -> None:
        self._state = state
        self._classic = classic
        self._membership = membership

    # to a consumer group

    def consumer_group(self, group_id: str) -> tuple[ConsumerGroup, list[GroupRecord]]:
        """The new group for the first member with the consumer protocol. It is created when its records are replayed.
        If the member may join, call `upgraded`.
        """
        group = self._state.groups.get(group_id)
        if group is None:
            return ConsumerGroup(group_id), []
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group.is_empty:
            return ConsumerGroup(group_id), group.tombstones()
        self._check_upgrade(group)
        upgraded = self._convert(group)
        return upgraded, [*group.tombstones(), *_records(upgraded)]

    def upgraded(self, group: ConsumerGroup, now: int) -> list[Answer]:
        """Begin the classic members' sessions, and make members parked in the classic group join again."""
        found = self._state.groups.get(group.id)
        if not isinstance(found, ClassicGroup):
            return []
        for member in group.members.values():
            if member.classic is not None:
                self._membership.schedule_session(group.id, member.id, member.classic.session_timeout_ms, now)
        return self._classic.answer_all(found, ErrorCode.REBALANCE_IN_PROGRESS)

    def _check_upgrade(self, group: ClassicGroup) -> None:
        config = self._state.config
        reason = None
        if config.group_consumer_migration_policy not in _UPGRADE_POLICIES:
            reason = "online upgrade is disabled"
        elif not group.uses_consumer_protocol:
            reason = "the group does not use the consumer embedded protocol"
        elif len(group.members) > config.group_consumer_max_size:
            reason = "the group size exceeds the consumer group maximum size"
        if reason is not None:
            raise _cannot_upgrade(group.id, reason)

    def _convert(self, group: ClassicGroup) -> ConsumerGroup:
        upgraded = ConsumerGroup(group.id)
        upgraded.epoch = upgraded.assignment_epoch = group.generation
        # the protocol is not chosen yet if no rebalance was completed so far
        protocol_name = group.protocol_name or group.select_protocol()
        owners: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            try:
                subscription = decode_subscription(member.protocols.metadata(protocol_name))
                assigned = self._assigned(group, member)
            except (WireError, KeyError):
                raise _cannot_upgrade(group.id, "the embedded consumer protocol is malformed") from None
            for topic_id, partitions in assigned.items():
                for partition in partitions:
                    if owners.setdefault((topic_id, partition), member.id) != member.id:
                        # a leader gave a partition to two members: neither may keep it
                        raise _cannot_upgrade(group.id, "the embedded consumer protocol is malformed")
            upgraded.targets[member.id] = {topic_id: tuple(sorted(assigned[topic_id])) for topic_id in sorted(assigned)}
            upgraded.update_member(
                ConsumerMember(
                    member.id,
                    epoch=group.generation,
                    previous_epoch=group.generation,
                    instance_id=member.instance_id,
                    rack_id=subscription.rack_id or None,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    topics=tuple(sorted(set(subscription.topics))),
                    assigned=assigned,
                    classic=ClassicMetadata(
                        member.session_timeout_ms,
                        tuple(ClassicProtocol(name, metadata) for name, metadata in member.protocols.pairs),
                    ),
                )
            )
        if group.current is ClassicState.STABLE:
            upgraded.metadata_hash = self._membership.metadata_hash(upgraded.subscriptions)
        # otherwise the next member that joins begins a new epoch, even a static one that replaces a parked one: parked
        # members have no partitions yet, and epoch 0 in an answer, in a first rebalance, would mean that no member has
        # joined
        return upgraded

    def _assigned(self, group: ClassicGroup, member: ClassicMember) -> Ownership:
        if not member.assignment:
            return NOTHING  # it has joined and not synced yet
        assignment = decode_assignment(member.assignment)
        if assignment.user_data:
            raise _cannot_upgrade(
                group.id,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade",
            )
        partitions = partitions_by_topic_id(
            ((topic.topic, topic.partitions) for topic in assignment.assigned_partitions), self._state.image
        )
        epoch = group.generation
        return {topic_id: dict.fromkeys(sorted(set(numbers)), epoch) for topic_id, numbers in partitions.items()}

    # to a classic group

    def downgrade_without(
        self, group: ConsumerGroup, leaving: list[ConsumerMember], reply: Any, call: Call
    ) -> CoordinatorDecision[Any] | None:
        """The classic group of the remaining members; None if not all of them are classic, or they are too many."""
        staying = len(group.members) - len(leaving)
        classic_leaving = sum(member.is_classic for member in leaving)
        if group.classic_count - classic_leaving != staying or staying == 0 or not self._may_downgrade(staying):
            return None
        gone = {member.id for member in leaving}
        members = [member for member in group.members.values() if member.id not in gone]
        return self._downgrade(group, members, {}, group.tombstones(), reply, call, is_rebalancing=True)

    def may_downgrade_replacing(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether the last member with the consumer protocol is a static one that a classic member replaces."""
        is_last = group.classic_count == len(group.members) - 1 and not replaced.is_classic
        return is_last and self._may_downgrade(len(group.members))

    def downgrade_replacing(
        self, step: Step, replaced: ConsumerMember, reply: Any, call: Call, *, is_rebalancing: bool
    ) -> CoordinatorDecision[Any]:
        group, joining = step.group, step.member
        members = [member for member in group.members.values() if member.id != replaced.id]
        ids = [joining.id if id == replaced.id else id for id in group.members]
        tombstones = group_tombstones(group.id, ids, group.subscriptions.resolved)
        return self._downgrade(
            group,
            [*members, joining],
            {joining.id: replaced.id},
            [*step.records, *tombstones],
            reply,
            call,
            is_rebalancing=is_rebalancing,
        )

    def _may_downgrade(self, member_count: int) -> bool:
        config = self._state.config
        return config.group_consumer_migration_policy in _DOWNGRADE_POLICIES and member_count <= config.group_max_size

    def _downgrade(
        self,
        group: ConsumerGroup,
        members: Iterable[ConsumerMember],
        target_ids: dict[str, str],
        tombstones: list[GroupRecord],
        reply: Any,
        call: Call,
        *,
        is_rebalancing: bool,
    ) -> CoordinatorDecision[Any]:
        downgraded = ClassicGroup(
            group.id,
            timestamp=call.timestamp,
            current=ClassicState.STABLE,
            generation=group.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
        )
        held: dict[str, dict[bytes, tuple[int, ...]]] = {}
        for member in members:
            assert member.classic is not None
            held[member.id] = _held(member)
            downgraded.add(
                ClassicMember(
                    id=member.id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.classic.session_timeout_ms,
                    protocols=Protocols(member.classic.protocols),
                ),
                CONSUMER_PROTOCOL_TYPE,
            )
        downgraded.protocol_name = downgraded.select_protocol()
        downgraded.note_subscriptions()
        for classic_member in downgraded.members.values():
            # Kafka always writes the target. A member that has not reached it may still read its old partitions, and if
            # the group is upgraded again before a rebalance, these must not be assigned to another member at once.
            share = (
                held[classic_member.id]
                if is_rebalancing
                else group.targets.get(target_ids.get(classic_member.id, classic_member.id), EMPTY)
            )
            version = protocol_version(classic_member.protocols.metadata(downgraded.protocol_name))
            classic_member.assignment = encode_assignment(share, version, self._state.image)
        record = downgraded.record({member.id: member.assignment for member in downgraded.members.values()})
        if is_rebalancing:
            # The members that left are not in the record, so after a restart no expired session would start the
            # rebalance. Kafka loses it then; here a record without a leader means that the group must rebalance.
            assert isinstance(record.value, GroupMetadataValue)
            record.value.leader = None
        for member_id in group.members:
            self._membership.cancel_timers(group.id, member_id)
        self._classic.prepare_group(downgraded)
        answers = self._classic.converted(downgraded, call.now, call.timestamp, is_rebalancing=is_rebalancing)
        return CoordinatorDecision(
            [*tombstones, record],
            reply,
            answers=answers,
            refused=partial(self._downgrade_refused, group, downgraded, reply),
        )

    def _downgrade_refused(
        self, group: ConsumerGroup, downgraded: ClassicGroup, reply: Any, error: KafkaError, call: Call
    ) -> CoordinatorDecision[Any]:
        """Nothing was written: the group is unchanged, and its members' sessions begin again."""
        self._classic.abandon_group(downgraded)
        self._membership.expect_all(group, call.now)
        return CoordinatorDecision([], None if reply is None else type(reply)(error_code=write_error(error.code)))


def _held(member: ConsumerMember) -> dict[bytes, tuple[int, ...]]:
    """All partitions that a member may be reading: those that it keeps, and those that it has not revoked yet."""
    held: dict[bytes, set[int]] = {}
    for owned in (member.assigned, member.pending_revocation):
        for topic_id, partitions in owned.items():
            held.setdefault(topic_id, set()).update(partitions)
    return {topic_id: tuple(sorted(held[topic_id])) for topic_id in sorted(held)}


def _records(group: ConsumerGroup) -> list[GroupRecord]:
    """All records of a group, in Kafka's order."""
    members = group.members.values()
    return [
        *(member_metadata_record(group.id, member) for member in members),
        group_epoch_record(group.id, group.epoch, group.metadata_hash),
        *(target_assignment_record(group.id, member.id, group.targets[member.id]) for member in members),
        target_assignment_metadata_record(group.id, group.assignment_epoch, 0),
        *(current_assignment_record(group.id, member) for member in members),
    ]


def _cannot_upgrade(group_id: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {group_id} to consumer group because {reason}."
    )
