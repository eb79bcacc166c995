"""A share group (KIP-932): the state that its records define, and queries on it.

As in a consumer group the group epoch rises when a member comes, goes or changes its subscription, or when a topic
changes, and the assignment epoch follows. Members need not give anything up: a partition may be shared, so each member
moves to the target assignment with its next heartbeat.

A partition is assigned only when its state is initialized in the share coordinator:

    uninitialized -> initializing    a member subscribes to the topic; InitializeShareGroupState is in flight
    initializing  -> initialized     the share coordinator has written it
    initializing  -> uninitialized   the write failed; a later heartbeat retries
    initialized   -> deleting        offsets of the topic are deleted; DeleteShareGroupState is in flight
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.cluster import ClusterImage
from ottla.groups.assignors import EMPTY, Assignment
from ottla.groups.records import GroupRecord
from ottla.groups.share.group_records import group_tombstones
from ottla.groups.state import PartitionCheck
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.share_group_describe import Assignment as DescribedAssignment
from ottla.wire.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from ottla.wire.messages.share_group_describe import Member as DescribedMember
from ottla.wire.messages.share_group_describe import TopicPartitions

ASSIGNOR = "simple"
SHARE_PROTOCOL = "share"
Partitions = dict[bytes, frozenset[int]]
"""Partitions by topic id. Never changed once made."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    id: str
    epoch: int = 0
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """The names it is subscribed to, sorted."""
    assigned: Assignment = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class SharePartitions:
    """Partitions that have, will have or had a state in the share coordinator."""

    initializing: Partitions = field(default_factory=dict)
    initialized: Partitions = field(default_factory=dict)
    deleting: frozenset[bytes] = frozenset()
    names: dict[bytes, str] = field(default_factory=dict)

    @property
    def topic_ids(self) -> list[bytes]:
        return sorted({*self.initializing, *self.initialized})

    def of_topic(self, topic_id: bytes) -> frozenset[int]:
        """The topic's partitions that may have a state."""
        return self.initializing.get(topic_id, frozenset()) | self.initialized.get(topic_id, frozenset())

    def begun(self, partitions: Partitions, names: dict[bytes, str]) -> SharePartitions:
        return replace(self, initializing=_union(self.initializing, partitions), names={**self.names, **names})

    def done(self, partitions: Partitions, names: dict[bytes, str]) -> SharePartitions:
        return replace(
            self,
            initializing=_difference(self.initializing, partitions),
            initialized=_union(self.initialized, partitions),
            names={**self.names, **names},
        )

    def given_up(self, partitions: Partitions) -> SharePartitions:
        return replace(self, initializing=_difference(self.initializing, partitions))

    def being_deleted(self, topic_ids: Iterable[bytes]) -> SharePartitions:
        gone = self.without(topic_ids)
        return replace(gone, deleting=self.deleting | set(topic_ids), names=self.names)

    def without(self, topic_ids: Iterable[bytes]) -> SharePartitions:
        gone = set(topic_ids)
        return SharePartitions(
            {topic_id: indexes for topic_id, indexes in self.initializing.items() if topic_id not in gone},
            {topic_id: indexes for topic_id, indexes in self.initialized.items() if topic_id not in gone},
            self.deleting - gone,
            {topic_id: name for topic_id, name in self.names.items() if topic_id not in gone},
        )


def _union(left: Partitions, right: Partitions) -> Partitions:
    topic_ids = sorted({*left, *right})
    return {id: left.get(id, frozenset()) | right.get(id, frozenset()) for id in topic_ids}


def _difference(left: Partitions, right: Partitions) -> Partitions:
    rest = {id: indexes - right.get(id, frozenset()) for id, indexes in left.items()}
    return {id: indexes for id, indexes in rest.items() if indexes}


class ShareGroup:
    """Read it freely; only `replay` of records changes it."""

    type = "share"
    protocol_type = SHARE_PROTOCOL

    def __init__(self, id: str) -> None:
        self.id = id
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp = 0
        """When the target assignment was computed, in wall clock milliseconds; 0 if it never was."""
        self.members: dict[str, ShareMember] = {}
        self.topic_counts: dict[str, int] = {}
        """How many members are subscribed to a topic."""
        self.targets: dict[str, Assignment] = {}
        self.partitions = SharePartitions()
        self.refreshed_epoch: int | None = None
        """Not persisted: the group epoch for which the topics were last checked; None: check again."""

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def needs_refresh(self) -> bool:
        return self.refreshed_epoch is None or self.epoch < self.refreshed_epoch

    def member(self, member_id: str) -> ShareMember:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.id}.")
        return member

    # Changes by records.

    def update_member(self, member: ShareMember) -> None:
        before = self.members.get(member.id)
        self.members[member.id] = member
        if before is None or before.topics is not member.topics:
            self._count(() if before is None else before.topics, -1)
            self._count(member.topics, 1)

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.topics, -1)

    def _count(self, topics: Iterable[str], change: int) -> None:
        for topic in topics:
            count = self.topic_counts.get(topic, 0) + change
            if count > 0:
                self.topic_counts[topic] = count
            else:
                self.topic_counts.pop(topic, None)

    def topics_with(self, before: ShareMember | None, after: ShareMember | None) -> list[str]:
        """Every topic that a member is subscribed to, sorted, as it would be if `before` became `after`."""
        if before is not None and after is not None and before.topics == after.topics:
            return sorted(self.topic_counts)
        counts = self.topic_counts.copy()
        for topic in () if before is None else before.topics:
            counts[topic] -= 1
        for topic in () if after is None else after.topics:
            counts[topic] = counts.get(topic, 0) + 1
        return sorted(topic for topic, count in counts.items() if count > 0)

    # What every group answers.

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, api_version: int
    ) -> PartitionCheck | None:
        raise self._has_no_offsets()

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        raise self._has_no_offsets()

    def check_offset_delete(self) -> None:
        raise self._has_no_offsets()

    def _has_no_offsets(self) -> KafkaError:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.id} is not a consumer group.")

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_counts

    def tombstones(self) -> list[GroupRecord]:
        return group_tombstones(self.id, self.members)

    def expiry_base(self, commit_timestamp: int) -> int | None:
        return None

    def describe(self) -> DescribedGroup:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.id} is not a classic group.")

    def describe_share_group(self, image: ClusterImage) -> DescribedShareGroup:
        return DescribedShareGroup(
            group_id=self.id,
            group_state=self.state,
            group_epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            assignor_name=ASSIGNOR,
            members=[
                DescribedMember(
                    member_id=member.id,
                    rack_id=member.rack_id,
                    member_epoch=member.epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topic_names=list(member.topics),
                    assignment=DescribedAssignment(
                        topic_partitions=[
                            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=list(indexes))
                            for topic_id, indexes in member.assigned.items()
                            if (topic := image.topics_by_id.get(topic_id)) is not None
                        ]
                    ),
                )
                for member in self.members.values()
            ],
        )


def replayed_partitions(value: Any) -> SharePartitions:
    """The content of a record of ShareGroupStatePartitionMetadata."""
    names: dict[bytes, str] = {}
    for topics in (value.initializing_topics, value.initialized_topics, value.deleting_topics):
        names.update((topic.topic_id, topic.topic_name) for topic in topics)
    return SharePartitions(
        {topic.topic_id: frozenset(topic.partitions) for topic in value.initializing_topics},
        {topic.topic_id: frozenset(topic.partitions) for topic in value.initialized_topics},
        frozenset(topic.topic_id for topic in value.deleting_topics),
        names,
    )
