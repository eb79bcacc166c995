"""The uniform assignor: every member has as many partitions as any other, give or take one, and moves are few.

When all members are subscribed to the same topics, each has a quota and keeps what it has up to it. Otherwise the
free partitions go to the subscriber with the fewest, topic by topic, and then partitions move from
subscribers with many to subscribers with few as long as that evens them out.
"""

from __future__ import annotations

from struct import unpack

from ottla.groups.assignors.assignment import EMPTY, Assignment, GroupSpec

MAX_ROUNDS = 16
"""How many rounds over the topics of a mixed group are made to even it out, at most."""


def assign_uniform(group: GroupSpec) -> dict[str, Assignment]:
    if not group.members:
        return {}
    return _assign_equally(group) if group.is_homogeneous else _Mixed(group).assign()


def _assign_equally(group: GroupSpec) -> dict[str, Assignment]:
    topic_ids = next(iter(group.members.values())).topic_ids
    if not topic_ids:
        return {}
    member_count = len(group.members)
    quota, extra = divmod(sum(group.partition_counts[topic_id] for topic_id in topic_ids), member_count)
    assigned: dict[str, Assignment] = {}
    changed: dict[str, dict[bytes, tuple[int, ...]]] = {}
    """Members that lose or gain partitions. All others keep their assignment object: in a large group that many members
    join, the cost per unchanged member must be minimal.
    """
    wanting: list[tuple[str, int]] = []
    taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in topic_ids}
    given_up: list[tuple[bytes, int]] = []
    for index, (id, member) in enumerate(group.members.items()):
        room = quota + (extra > 0)
        may_have_extra = extra > 0
        assigned[id] = member.assignment
        for topic_id, partitions in member.assignment.items():
            has = len(partitions)
            if topic_id in taken:
                taken[topic_id].update(partitions)
                if has <= room:
                    room -= has
                    continue
                given_up += [(topic_id, partition) for partition in partitions[room:]]
            keeps = changed.get(id)
            if keeps is None:
                keeps = changed[id] = dict(member.assignment)
            if topic_id in taken and room:
                keeps[topic_id] = partitions[:room]
                room = 0
            else:
                del keeps[topic_id]
        if room and may_have_extra and member_count - index > extra:
            # a later member may already have one more, and would have to give it up
            room -= 1
            may_have_extra = False
        if may_have_extra:
            extra -= 1
        if room:
            wanting.append((id, room))
    free = [
        (topic_id, partition)
        for topic_id in topic_ids
        for partition in range(group.partition_counts[topic_id])
        if partition not in taken[topic_id]
    ]
    free += given_up
    start = 0
    for id, room in wanting:
        if start >= len(free):
            break
        assignment = changed.get(id)
        if assignment is None:
            assignment = changed[id] = dict(assigned[id])
        for topic_id, partition in free[start : start + room]:
            assignment[topic_id] = (*assignment.get(topic_id, ()), partition)
        start += room
    assert start >= len(free), "partitions were left over"
    for id, assignment in changed.items():
        assigned[id] = _in_order(assignment)
    return assigned


def _in_order(assignment: dict[bytes, tuple[int, ...]]) -> Assignment:
    return {topic_id: tuple(sorted(assignment[topic_id])) for topic_id in sorted(assignment)}


class _Mixed:
    """One run over a group whose members are subscribed to different topics. Members are numbered."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._ids = list(group.members)
        self._loads = [0] * len(self._ids)
        self._subscribers: dict[bytes, list[int]] = {}
        self._owners: dict[bytes, list[int]] = {}
        """By topic, the number of each partition's member; -1 for none."""
        for number, member in enumerate(group.members.values()):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)

    def assign(self) -> dict[str, Assignment]:
        if not self._subscribers:
            return {}
        for topic_id in self._subscribers:
            self._owners[topic_id] = [-1] * self._group.partition_counts[topic_id]
        for number, member in enumerate(self._group.members.values()):
            subscribed = set(member.topic_ids)
            for topic_id, partitions in member.assignment.items():
                if topic_id in subscribed:
                    owners = self._owners[topic_id]
                    for partition in partitions:
                        if partition < len(owners):
                            owners[partition] = number
                            self._loads[number] += 1
        order = sorted(self._subscribers, key=self._rank)
        for topic_id in order:
            self._assign_free(topic_id)
        self._even_out([topic_id for topic_id in order if len(self._subscribers[topic_id]) > 1])
        assignments: list[dict[bytes, list[int]]] = [{} for _ in self._ids]
        for topic_id in sorted(self._owners):
            for partition, number in enumerate(self._owners[topic_id]):
                assignments[number].setdefault(topic_id, []).append(partition)
        return {
            id: {topic_id: tuple(partitions) for topic_id, partitions in assignment.items()} if assignment else EMPTY
            for id, assignment in zip(self._ids, assignments, strict=True)
        }

    def _rank(self, topic_id: bytes) -> tuple[float, int, tuple[int, ...]]:
        """Topics with many partitions for each subscriber come first, because they leave the least choice."""
        subscriber_count = len(self._subscribers[topic_id])
        return -len(self._owners[topic_id]) / subscriber_count, subscriber_count, unpack(">qq", topic_id)

    def _assign_free(self, topic_id: bytes) -> None:
        owners = self._owners[topic_id]
        if -1 not in owners:
            return
        levels = _Levels(self._loads, self._subscribers[topic_id])
        for partition, owner in enumerate(owners):
            if owner == -1:
                number = levels.least()
                owners[partition] = number
                self._loads[number] += 1

    def _even_out(self, topic_ids: list[bytes]) -> None:
        """Go through the topics until one whole round moved nothing."""
        last_moved = -1
        for _ in range(MAX_ROUNDS):
            for index, topic_id in enumerate(topic_ids):
                if index == last_moved:
                    return
                if self._even_out_topic(topic_id) or last_moved == -1:
                    last_moved = index

    def _even_out_topic(self, topic_id: bytes) -> int:
        """Move partitions of a topic from subscribers with many partitions to ones with few; how many moved."""
        subscribers = self._subscribers[topic_id]
        loads = [self._loads[number] for number in subscribers]
        if max(loads) - min(loads) <= 1:
            return 0
        levels = _Levels(self._loads, subscribers)
        owners = self._owners[topic_id]
        to_give: dict[int, list[int]] = {}
        for partition, number in enumerate(owners):
            to_give.setdefault(number, []).append(partition)
        moved = 0
        while not levels.are_even:
            giver = levels.most(to_give)
            if giver == -1:
                break
            partition = to_give[giver].pop()
            taker = levels.least()
            if levels.are_even:
                break
            owners[partition] = taker
            self._loads[giver] -= 1
            self._loads[taker] += 1
            moved += 1
        return moved


class _Levels:
    """The members with the fewest and the most partitions, while partitions move one at a time. Members are sorted by
    load once. Members at the lowest level are served in turn; then the level rises and includes the members that were
    already there. In the same way the highest level sinks.
    """

    def __init__(self, loads: list[int], members: list[int]) -> None:
        self._loads = loads
        self._members = sorted(members, key=lambda number: (loads[number], number))
        count = len(self._members)
        self._low_end = 0
        self._low_level = loads[self._members[0]] - 1
        self._next_low = 0
        self._high_start = count
        self._high_end = count
        self._high_level = loads[self._members[-1]] + 1
        self._next_high = count - 1

    @property
    def are_even(self) -> bool:
        return self._high_level - self._low_level <= 1

    def least(self) -> int:
        """The member that gets the next partition."""
        if self._next_low >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._members) and self._loads[self._members[self._low_end]] == self._low_level:
                self._low_end += 1
            self._next_low = 0
        number = self._members[self._next_low]
        self._next_low += 1
        return number

    def most(self, to_give: dict[int, list[int]]) -> int:
        """The member that gives the next partition; -1 if no member with many partitions has one of this topic."""
        while True:
            number = self._next_most()
            if number == -1 or to_give.get(number):
                return number
            # it has none of this topic: it goes to the end of its range, and the range becomes shorter
            last = self._high_end - 1
            self._members[self._next_high + 1] = self._members[last]
            self._members[last] = number
            self._high_end = last

    def _next_most(self) -> int:
        if self._next_high < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = self._loads[self._members[self._high_start - 1]]
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._loads[self._members[self._high_start - 1]] == self._high_level:
                self._high_start -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return -1
        number = self._members[self._next_high]
        self._next_high -= 1
        return number
