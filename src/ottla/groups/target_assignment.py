"""The target assignment: the partitions that the group's assignor gives to each member of a consumer group."""

from __future__ import annotations

from ottla.cluster import ClusterImage
from ottla.groups.assignors import EMPTY, Assignment, Assignor, GroupSpec, MemberSpec
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_member import ConsumerMember
from ottla.groups.consumer_records import target_assignment_metadata_record, target_assignment_record
from ottla.groups.records import GroupRecord
from ottla.groups.subscriptions import Subscriptions


def may_compute(group: ConsumerGroup, interval_ms: int, timestamp: int) -> bool:
    """Whether the last target assignment is old enough for a new one.

    A group that many members join at once is assigned in bulk. A wall clock that was set back does not delay it."""
    if group.assignment_timestamp == 0 or interval_ms == 0:
        return True
    return not 0 <= timestamp - group.assignment_timestamp < interval_ms


def compute_target(
    group: ConsumerGroup,
    assignor: Assignor,
    image: ClusterImage,
    *,
    epoch: int,
    member: ConsumerMember,
    subscriptions: Subscriptions,
    timestamp: int,
) -> tuple[list[GroupRecord], Assignment]:
    """The records of a new target assignment, and the target of `member`. `member` is the state after the request: it
    may be new to the group, or replace the member with its instance id; `subscriptions` include it.
    """
    topic_ids: dict[tuple[str, ...], tuple[bytes, ...]] = {}
    partition_counts: dict[bytes, int] = {}
    for topic in subscriptions.topics():
        found = image.topics_by_name.get(topic)
        if found is not None:
            partition_counts[found.id] = len(found.partitions)

    def ids_of(member: ConsumerMember) -> tuple[bytes, ...]:
        names = subscriptions.topics_of(member)
        ids = topic_ids.get(names)
        if ids is None:
            ids = tuple(sorted(image.topics_by_name[name].id for name in names if name in image.topics_by_name))
            topic_ids[names] = ids
        return ids

    # When many members join a large group, each of them causes a pass over all members: the cost per member must be
    # very low.
    replaced = None if member.instance_id is None else group.static_members.get(member.instance_id)
    targets = group.targets
    target_of = targets.get
    members = {**group.members, member.id: member}
    if replaced is not None and replaced != member.id:
        del members[replaced]
    is_homogeneous = subscriptions.is_homogeneous()
    ids = ids_of(member)
    specs = {
        id: MemberSpec(ids if is_homogeneous else ids_of(members[id]), target_of(id, EMPTY), members[id].instance_id)
        for id in sorted(members)
    }
    if replaced is not None:
        specs[member.id] = MemberSpec(ids, target_of(replaced, EMPTY), member.instance_id)
    assignments = assignor(GroupSpec(specs, partition_counts, is_homogeneous))
    if len(assignments) < len(specs):
        assignments = {id: assignments.get(id, EMPTY) for id in specs}
    records = []
    for id, assignment in assignments.items():
        before = target_of(id)
        if assignment is not before and assignment != before:
            records.append(target_assignment_record(group.id, id, assignment))
    records.append(target_assignment_metadata_record(group.id, epoch, timestamp))
    return records, assignments.get(member.id, EMPTY)
