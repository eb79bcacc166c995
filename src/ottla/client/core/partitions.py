"""A partition by its topic's name: what a consumer's calls and callbacks speak of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Topic -> its partition numbers, in the order of `partitions`."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
