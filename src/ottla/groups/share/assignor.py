"""The share assignor `simple` (KIP-932): every partition has a member, every member a partition, as evenly as possible,
and members keep their partitions.

With more members than partitions a partition is shared by several of them, which is what share groups are for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.groups.assignors import EMPTY, Assignment

Partition = tuple[bytes, int]


def assign_simple(
    subscribed: Mapping[str, Sequence[bytes]],
    partitions: Mapping[bytes, Sequence[int]],
    targets: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """The target of every member. `subscribed` has the topic ids of each, in order; `partitions` those of each topic
    that may be assigned; `targets` the present one of each."""
    by_topics: dict[tuple[bytes, ...], list[str]] = {}
    for member_id in sorted(subscribed):
        by_topics.setdefault(tuple(subscribed[member_id]), []).append(member_id)
    given: dict[str, dict[bytes, list[int]]] = {member_id: {} for member_id in subscribed}
    if len(by_topics) <= 1:
        for topic_ids, member_ids in by_topics.items():
            _share_out(member_ids, _of_topics(topic_ids, partitions), targets, given)
    else:
        subscribers: dict[bytes, list[str]] = {}
        for member_id in sorted(subscribed):
            for topic_id in subscribed[member_id]:
                subscribers.setdefault(topic_id, []).append(member_id)
        for topic_id in sorted(subscribers):
            _share_out(subscribers[topic_id], _of_topics((topic_id,), partitions), targets, given)
    return {
        member_id: {topic_id: tuple(sorted(indexes)) for topic_id, indexes in sorted(topics.items())}
        for member_id, topics in given.items()
    }


def _of_topics(topic_ids: Sequence[bytes], partitions: Mapping[bytes, Sequence[int]]) -> list[Partition]:
    return [(topic_id, index) for topic_id in topic_ids for index in partitions.get(topic_id, ())]


def _share_out(
    member_ids: list[str],
    partitions: list[Partition],
    targets: Mapping[str, Assignment],
    given: dict[str, dict[bytes, list[int]]],
) -> None:
    """Give each partition to the same number of members; members differ by at most one partition."""
    if not partitions:
        return
    members_per_partition = -(-len(member_ids) // len(partitions))
    least, more_count = divmod(len(partitions) * members_per_partition, len(member_ids))
    """`more_count` members get one more than `least`."""
    free = dict.fromkeys(partitions, members_per_partition)
    counts: dict[str, int] = {}
    has: dict[str, set[Partition]] = {}

    def give(member_id: str, partition: Partition) -> None:
        free[partition] -= 1
        counts[member_id] += 1
        has[member_id].add(partition)
        given[member_id].setdefault(partition[0], []).append(partition[1])

    for member_id in member_ids:
        counts[member_id] = 0
        has[member_id] = set()
        for topic_id, indexes in targets.get(member_id, EMPTY).items():
            for index in indexes:
                partition = (topic_id, index)
                if free.get(partition, 0) > 0 and counts[member_id] < least + (more_count > 0):
                    more_count -= counts[member_id] == least
                    give(member_id, partition)
    # Partitions with the fewest members come first: each must get a member.
    waiting = sorted(partitions, key=lambda partition: -free[partition])
    for limit in (least, least + 1):
        for member_id in member_ids:
            while counts[member_id] < limit and waiting and (limit == least or more_count > 0):
                found = next((one for one in waiting if free[one] > 0 and one not in has[member_id]), None)
                if found is None:
                    break
                more_count -= counts[member_id] == least
                give(member_id, found)
                waiting.remove(found)
                if free[found] > 0:
                    waiting.append(found)
