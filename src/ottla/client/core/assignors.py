"""How the leader of a classic group shares the partitions out: range, roundrobin, sticky and cooperative-sticky.

An assignor's name is the group's agreement: Java's and librdkafka's consumers in the same group offer the same names,
and the leader uses its own implementation. What they must agree on is the form of subscriptions and user data
(`consumer_protocol`), and for cooperative-sticky the rule that a partition is never given to a member while another
still claims it: it stays away for one rebalance (KIP-429).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ottla.client.core.partitions import TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """The metadata that a member sent when it joined."""

    topics: Sequence[str]
    instance_id: str | None = None
    owned: Sequence[TopicPartition] = ()
    """The partitions that it owns (cooperative), or owned before it gave them up for this rebalance (sticky)."""
    generation: int = NO_GENERATION
    """The generation in which it was assigned them."""
    rack_id: str | None = None
    user_data: bytes | None = field(default=None, repr=False)


Assignments = dict[str, list[TopicPartition]]
Members = Mapping[str, MemberSubscription]


class Assignor(Protocol):
    name: str
    is_cooperative: bool
    """Whether members keep their partitions while the group rebalances."""

    def assign(self, members: Members, partition_counts: Mapping[str, int]) -> Assignments:
        """The partitions of every member. Topics that are not in partition_counts do not exist."""


def in_order(members: Members) -> list[str]:
    """Static members first, by their instance id, which outlives restarts; then the others by member id."""
    return sorted(
        members,
        key=lambda member_id: (
            (0, members[member_id].instance_id or "", member_id)
            if members[member_id].instance_id is not None
            else (1, member_id, "")
        ),
    )


def subscribers(members: Members, partition_counts: Mapping[str, int]) -> dict[str, list[str]]:
    """The members that read each topic, topics and members in order."""
    topics: dict[str, list[str]] = {topic: [] for topic in sorted(partition_counts)}
    for member_id in in_order(members):
        for topic in dict.fromkeys(members[member_id].topics):
            if topic in topics:
                topics[topic].append(member_id)
    return {topic: readers for topic, readers in topics.items() if readers}


class RangeAssignor:
    """Each topic cut into as many neighbouring ranges as it has readers: partition n of two topics with as many
    partitions goes to the same member."""

    name = "range"
    is_cooperative = False

    def assign(self, members: Members, partition_counts: Mapping[str, int]) -> Assignments:
        assignments: Assignments = {member_id: [] for member_id in members}
        for topic, readers in subscribers(members, partition_counts).items():
            size, longer = divmod(partition_counts[topic], len(readers))
            start = 0
            for index, member_id in enumerate(readers):
                end = start + size + (index < longer)
                assignments[member_id].extend(TopicPartition(topic, partition) for partition in range(start, end))
                start = end
        return assignments


class RoundRobinAssignor:
    """Deals all partitions of all topics in turn; a member that is not subscribed to the topic is passed over."""

    name = "roundrobin"
    is_cooperative = False

    def assign(self, members: Members, partition_counts: Mapping[str, int]) -> Assignments:
        assignments: Assignments = {member_id: [] for member_id in members}
        circle = in_order(members)
        readers_of = {topic: set(readers) for topic, readers in subscribers(members, partition_counts).items()}
        place = 0
        for topic, readers in readers_of.items():
            for partition in range(partition_counts[topic]):
                while circle[place % len(circle)] not in readers:
                    place += 1
                assignments[circle[place % len(circle)]].append(TopicPartition(topic, partition))
                place += 1
        return assignments


class StickyAssignor:
    """As even as the subscriptions allow; of the most even assignments, one that moves few partitions."""

    name = "sticky"
    is_cooperative = False

    def assign(self, members: Members, partition_counts: Mapping[str, int]) -> Assignments:
        return assign_sticky(members, partition_counts)


class CooperativeStickyAssignor:
    """Sticky, in two steps: what changes hands is first only taken away, and given in the rebalance that follows."""

    name = "cooperative-sticky"
    is_cooperative = True

    def assign(self, members: Members, partition_counts: Mapping[str, int]) -> Assignments:
        assignments = assign_sticky(members, partition_counts)
        claimed_by: dict[TopicPartition, list[str]] = {}
        for member_id, subscription in members.items():
            for partition in subscription.owned:
                claimed_by.setdefault(partition, []).append(member_id)
        return {
            member_id: [
                partition
                for partition in assigned
                if member_id in claimed_by.get(partition, ()) or partition not in claimed_by
            ]
            for member_id, assigned in assignments.items()
        }


ASSIGNORS: dict[str, Assignor] = {
    assignor.name: assignor
    for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
}


def assign_sticky(members: Members, partition_counts: Mapping[str, int]) -> Assignments:
    """Every member keeps the partitions that it may keep, and the rest goes to the members with the fewest. Then single
    partitions move from members with more to members with fewer, until no move makes it more even.

    Each move lowers the sum of the squares of the loads, so the last step ends.
    """
    readers_of = subscribers(members, partition_counts)
    assignments: Assignments = {member_id: [] for member_id in members}
    owner_of = _owners(members, partition_counts)
    for partition in sorted(owner_of):
        assignments[owner_of[partition]].append(partition)
    _cut_to_quota(assignments, readers_of, partition_counts)
    held = {partition for partitions in assignments.values() for partition in partitions}
    load = {member_id: len(partitions) for member_id, partitions in assignments.items()}
    rank = {member_id: index for index, member_id in enumerate(in_order(members))}
    free = [
        TopicPartition(topic, partition)
        for topic in sorted(readers_of, key=lambda topic: (len(readers_of[topic]), topic))
        for partition in range(partition_counts[topic])
        if (topic, partition) not in held
    ]
    for partition in free:
        least = min(readers_of[partition.topic], key=lambda member_id: (load[member_id], rank[member_id]))
        assignments[least].append(partition)
        load[least] += 1
    _even_out(assignments, readers_of, load, rank)
    for partitions in assignments.values():
        partitions.sort()
    return assignments


def _owners(members: Members, partition_counts: Mapping[str, int]) -> dict[TopicPartition, str]:
    """Whose each claimed partition is: the claim of the latest generation counts; two in one generation void each
    other, since one of the two does not know yet that it lost the partition."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id in in_order(members):
        subscription = members[member_id]
        topics = set(subscription.topics)
        for partition in dict.fromkeys(subscription.owned):
            if partition.topic not in topics or partition.partition >= partition_counts.get(partition.topic, 0):
                continue
            generation, _ = claims.get(partition, (NO_GENERATION - 1, None))
            if subscription.generation > generation:
                claims[partition] = subscription.generation, member_id
            elif subscription.generation == generation:
                claims[partition] = generation, None
    return {partition: owner for partition, (_, owner) in claims.items() if owner is not None}


def _cut_to_quota(
    assignments: Assignments, readers_of: Mapping[str, list[str]], partition_counts: Mapping[str, int]
) -> None:
    """If all members read the same topics, each needs at most its share: its surplus is free without a search."""
    if not readers_of or any(len(readers) != len(assignments) for readers in readers_of.values()):
        return
    share, extra = divmod(sum(partition_counts[topic] for topic in readers_of), len(assignments))
    for member_id in sorted(assignments, key=lambda member_id: (-len(assignments[member_id]), member_id)):
        keeps = share
        if extra and len(assignments[member_id]) > share:
            keeps, extra = share + 1, extra - 1
        del assignments[member_id][keeps:]


def _even_out(
    assignments: Assignments, readers_of: Mapping[str, list[str]], load: dict[str, int], rank: Mapping[str, int]
) -> None:
    is_changed = True
    while is_changed:
        is_changed = False
        for member_id in sorted(assignments, key=lambda member_id: (-load[member_id], rank[member_id])):
            for partition in list(assignments[member_id]):
                least = min(readers_of[partition.topic], key=lambda other: (load[other], rank[other]))
                if load[member_id] - load[least] < 2:
                    continue
                assignments[member_id].remove(partition)
                assignments[least].append(partition)
                load[member_id] -= 1
                load[least] += 1
                is_changed = True
