"""What the members of a consumer group are subscribed to, counted."""

from __future__ import annotations

from ottla.groups.consumer_member import ConsumerMember
from ottla.groups.regex import ResolvedRegex


class Subscriptions:
    """Counts of subscribed names and regular expressions. A copy shows the result if a member joined, changed or left,
    without counting all members again.
    """

    __slots__ = ("member_count", "names", "regex_topics", "regexes", "resolved")

    def __init__(self) -> None:
        self.member_count = 0
        self.names: dict[str, int] = {}
        """How many members are subscribed to a topic by its name."""
        self.regexes: dict[str, int] = {}
        """How many members are subscribed to a regular expression."""
        self.resolved: dict[str, ResolvedRegex] = {}
        self.regex_topics: dict[str, int] = {}
        """How many regular expressions match a topic."""

    def copy(self) -> Subscriptions:
        twin = Subscriptions()
        twin.member_count = self.member_count
        twin.names = self.names.copy()
        twin.regexes = self.regexes.copy()
        twin.resolved = self.resolved.copy()
        twin.regex_topics = self.regex_topics.copy()
        return twin

    def __contains__(self, topic: str) -> bool:
        return topic in self.names or topic in self.regex_topics

    def topics(self) -> list[str]:
        """Every topic that a member is subscribed to, sorted."""
        return sorted(self.names.keys() | self.regex_topics.keys()) if self.regex_topics else sorted(self.names)

    def topics_of(self, member: ConsumerMember) -> tuple[str, ...]:
        """The topics of a member by name or by regular expression; an unresolved one matches nothing."""
        resolved = self.resolved.get(member.regex) if member.regex else None
        if resolved is None:
            return member.topics
        if not member.topics:
            return resolved.topics
        return tuple(sorted({*member.topics, *resolved.topics}))

    def is_homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics."""
        if not self.regexes:
            return all(count == self.member_count for count in self.names.values())
        return not self.names and self.member_count in self.regexes.values()

    def add(self, member: ConsumerMember) -> None:
        self.member_count += 1
        for topic in member.topics:
            self.names[topic] = self.names.get(topic, 0) + 1
        if member.regex:
            self.regexes[member.regex] = self.regexes.get(member.regex, 0) + 1

    def remove(self, member: ConsumerMember) -> None:
        self.member_count -= 1
        for topic in member.topics:
            _take(self.names, topic)
        if member.regex:
            _take(self.regexes, member.regex)

    def resolve(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """The matches of a regular expression changed; None when it is dropped."""
        before = self.resolved.pop(regex, None)
        if before is not None:
            for topic in before.topics:
                _take(self.regex_topics, topic)
        if resolved is not None:
            self.resolved[regex] = resolved
            for topic in resolved.topics:
                self.regex_topics[topic] = self.regex_topics.get(topic, 0) + 1

    def changed(self, before: ConsumerMember | None, after: ConsumerMember | None) -> Subscriptions:
        """The counts as if a member joined (`before` is None), changed, or left (`after` is None)."""
        twin = self.copy()
        if before is not None:
            twin.remove(before)
        if after is not None:
            twin.add(after)
        if before is not None and before.regex and before.regex not in twin.regexes:
            twin.resolve(before.regex, None)
        return twin


def _take(counts: dict[str, int], key: str) -> None:
    count = counts.get(key, 0)
    if count > 1:
        counts[key] = count - 1
    else:
        counts.pop(key, None)
