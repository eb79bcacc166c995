"""The range assignor: neighbouring partitions of each topic stay together.

Topics with the same number of partitions and the same subscribers are cut at the same places, so that a member gets
the same partition numbers of each (co-partitioning): a join of two topics is then local. Members are taken in the
order of their instance ids, then of their member ids, so a static member gets the same range after a restart.
"""

from __future__ import annotations

from ottla.groups.assignors.assignment import Assignment, GroupSpec


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    order = sorted(
        group.members,
        key=lambda id: (
            (0, group.members[id].instance_id or "") if group.members[id].instance_id is not None else (1, id)
        ),
    )
    subscribers: dict[bytes, int] = {}
    for member in group.members.values():
        for topic_id in member.topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    served = dict.fromkeys(subscribers, 0)
    assignments: dict[str, Assignment] = {}
    for id in order:
        assignment: Assignment = {}
        for topic_id in group.members[id].topic_ids:
            quota, extra = divmod(group.partition_counts[topic_id], subscribers[topic_id])
            index = served[topic_id]
            served[topic_id] = index + 1
            # the first `extra` subscribers have one partition more
            start = index * quota + min(index, extra)
            end = start + quota + (index < extra)
            if start < end:
                assignment[topic_id] = tuple(range(start, end))
        assignments[id] = assignment
    return assignments
