"""A consumer group (KIP-848): the state that its records define, and queries on it.

Three epochs move a group. The *group epoch* rises when a member comes, goes or changes its subscription, or when a
topic changes. The *assignment epoch* is the group epoch for which the target assignment was last computed. Each
*member epoch* follows when the member has given up what the target no longer gives it.

States: Empty (no members), Assigning (the target is older than the group), Reconciling (a member has not reached its
target), Stable.

I1. A partition has one owner: it is assigned to a member only when no other member has it assigned or still to revoke.
"""

from __future__ import annotations

from functools import partial

from ottla.cluster import ClusterImage
from ottla.groups.assignors import EMPTY, Assignment
from ottla.groups.consumer_member import ConsumerMember, Ownership
from ottla.groups.consumer_records import group_tombstones
from ottla.groups.records import GroupRecord
from ottla.groups.state import PartitionCheck
from ottla.groups.subscriptions import Subscriptions
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_describe import Assignment as DescribedAssignment
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.consumer_group_describe import Member as DescribedMember
from ottla.wire.messages.consumer_group_describe import TopicPartitions
from ottla.wire.messages.describe_groups import DescribedGroup

CONSUMER_PROTOCOL = "consumer"
FREE = -1
"""The epoch of a partition without an owner."""


class ConsumerGroup:
    """Read it freely; only `replay` of records changes it."""

    type = "consumer"
    protocol_type = CONSUMER_PROTOCOL

    def __init__(self, id: str) -> None:
        self.id = id
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp = 0
        """When the target assignment was computed, in wall clock milliseconds; 0 if it never was."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.subscriptions = Subscriptions()
        self.targets: dict[str, Assignment] = {}
        """The target assignment, by member id."""
        self.partition_epochs: dict[bytes, dict[int, int]] = {}
        """By topic id and partition: the epoch of the member that owns it."""
        self.classic_count = 0
        """Members that speak the classic protocol."""
        self.classic_protocols: dict[str, int] = {}
        """How many of them offer an assignor."""
        self.has_partition_metadata = False
        """Whether a record of Kafka 4.0 exists, to be removed with the next change."""
        self.refreshed_epoch: int | None = None
        """Not persisted: the group epoch for which the topics were last checked; None: check again."""
        self._server_assignors: dict[str, int] = {}

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def needs_refresh(self) -> bool:
        """Whether the topics must be checked again; also if the epoch of the last check was never written."""
        return self.refreshed_epoch is None or self.epoch < self.refreshed_epoch

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target(self, member: ConsumerMember) -> Assignment:
        """A member's target. A new static member takes the target of the one with its instance id."""
        if member.instance_id is None:
            return self.targets.get(member.id, EMPTY)
        return self.targets.get(self.static_members.get(member.instance_id, ""), EMPTY)

    def partition_epoch(self, topic_id: bytes, partition: int) -> int:
        partitions = self.partition_epochs.get(topic_id)
        return FREE if partitions is None else partitions.get(partition, FREE)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether other members still have partitions of the member's target."""
        for topic_id, partitions in self.targets.get(member.id, EMPTY).items():
            assigned = member.assigned.get(topic_id, {})
            for partition in partitions:
                if partition not in assigned and self.partition_epoch(topic_id, partition) != FREE:
                    return True
        return False

    def server_assignor(self, before: ConsumerMember | None = None, after: ConsumerMember | None = None) -> str | None:
        """The assignor that most members request, as if `before` became `after`."""
        counts = self._server_assignors.copy()
        if before is not None and before.server_assignor is not None:
            _count(counts, before.server_assignor, -1)
        if after is not None and after.server_assignor is not None:
            _count(counts, after.server_assignor, 1)
        return max(counts, key=lambda name: (counts[name], name), default=None)

    def supports_classic_protocols(self, protocol_type: str, names: list[str]) -> bool:
        """Whether one of the assignors is offered by every classic member."""
        if protocol_type != CONSUMER_PROTOCOL:
            return False
        if not self.members:
            return bool(names)
        return any(self.classic_protocols.get(name, 0) == self.classic_count for name in names)

    # what the group is asked about offsets

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, api_version: int
    ) -> PartitionCheck | None:
        if generation < 0 and not self.members:
            return None  # an admin, or a consumer that assigns itself
        if is_transactional and generation == -1 and member_id == "" and instance_id is None:
            return None  # a producer from before KIP-447
        member = self.member(member_id)
        if not is_transactional and not member.is_classic and api_version < 9:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
            )
        if generation == member.epoch:
            return None
        if generation > member.epoch:
            word = "generation id" if member.is_classic else "member epoch"
            raise _stale(member, f"Received {word} {generation} is newer than current member epoch {member.epoch}.")
        return partial(_check_partition, member, generation)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            word = "generation id" if member.is_classic else "member epoch"
            raise _stale(
                member, f"The received {word} {member_epoch} does not match the expected member epoch {member.epoch}."
            )

    def check_offset_delete(self) -> None:
        """Offsets of topics without subscribers may be deleted at any time."""

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

    def tombstones(self) -> list[GroupRecord]:
        return group_tombstones(self.id, self.members, self.subscriptions.resolved)

    def expiry_base(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def describe(self) -> DescribedGroup:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.id} is not a classic group.")

    def describe_consumer_group(self, image: ClusterImage, default_assignor: str) -> DescribedConsumerGroup:
        return DescribedConsumerGroup(
            group_id=self.id,
            group_state=self.state,
            group_epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            assignor_name=self.server_assignor() or default_assignor,
            members=[
                DescribedMember(
                    member_id=member.id,
                    instance_id=member.instance_id,
                    rack_id=member.rack_id,
                    member_epoch=member.epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topic_names=list(member.topics),
                    subscribed_topic_regex=member.regex,
                    assignment=_described(_all_owned(member), image),
                    target_assignment=_described(self.targets.get(member.id, EMPTY), image),
                    member_type=0 if member.is_classic else 1,
                )
                for member in self.members.values()
            ],
        )

    # Changes by records.

    def update_member(self, member: ConsumerMember) -> None:
        before = self.members.get(member.id)
        if before is not None:
            self._forget(before)
        self.members[member.id] = member
        self.subscriptions.add(member)
        if member.server_assignor is not None:
            _count(self._server_assignors, member.server_assignor, 1)
        if member.classic is not None:
            self.classic_count += 1
            for protocol in member.classic.protocols:
                _count(self.classic_protocols, protocol.name, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id
        self._own(member.assigned, member.epoch)
        self._own(member.pending_revocation, member.epoch)

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget(member)
            if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
                del self.static_members[member.instance_id]

    def _forget(self, member: ConsumerMember) -> None:
        self.subscriptions.remove(member)
        if member.server_assignor is not None:
            _count(self._server_assignors, member.server_assignor, -1)
        if member.classic is not None:
            self.classic_count -= 1
            for protocol in member.classic.protocols:
                _count(self.classic_protocols, protocol.name, -1)
        self._disown(member.assigned, member.epoch)
        self._disown(member.pending_revocation, member.epoch)

    def _own(self, ownership: Ownership, epoch: int) -> None:
        for topic_id, partitions in ownership.items():
            epochs = self.partition_epochs.setdefault(topic_id, {})
            for partition in partitions:
                owned = epochs.get(partition)
                assert owned is None or owned < epoch, (
                    f"I1: {topic_id.hex()}-{partition} of group {self.id} has an owner at epoch {owned}, not {epoch}"
                )
                epochs[partition] = epoch

    def _disown(self, ownership: Ownership, epoch: int) -> None:
        for topic_id, partitions in ownership.items():
            epochs = self.partition_epochs.get(topic_id)
            if epochs is None:
                continue
            for partition in partitions:
                if epochs.get(partition) == epoch:
                    del epochs[partition]
            if not epochs:
                del self.partition_epochs[topic_id]


def _count(counts: dict[str, int], key: str, change: int) -> None:
    count = counts.get(key, 0) + change
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key, None)


def _stale(member: ConsumerMember, message: str) -> KafkaError:
    return KafkaError(ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH, message)


def _check_partition(member: ConsumerMember, epoch: int, topic: str, topic_id: bytes, partition: int) -> None:
    """A commit with an earlier epoch is valid for partitions that the member has had since then (KIP-1251)."""
    assigned = member.assigned.get(topic_id, {}).get(partition)
    if assigned is None:
        assigned = member.pending_revocation.get(topic_id, {}).get(partition)
    if assigned is None:
        raise _stale(member, f"Partition {topic}-{partition} is not assigned or pending revocation for member.")
    if epoch < assigned:
        word = "generation id" if member.is_classic else "member epoch"
        raise _stale(
            member,
            f"Received {word} {epoch} is older than assignment epoch {assigned} for partition {topic}-{partition}.",
        )


def _all_owned(member: ConsumerMember) -> Assignment:
    """The member's partitions, and those that it must revoke and may still have."""
    topic_ids = member.assigned.keys() | member.pending_revocation.keys()
    return {
        topic_id: tuple(sorted({*member.assigned.get(topic_id, ()), *member.pending_revocation.get(topic_id, ())}))
        for topic_id in sorted(topic_ids)
    }


def _described(partitions: Assignment, image: ClusterImage) -> DescribedAssignment:
    """Deleted topics are left out."""
    return DescribedAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=list(numbers))
            for topic_id, numbers in partitions.items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        ]
    )
