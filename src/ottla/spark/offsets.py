"""Which offsets a query reads, decided without a broker: ranges and their splitting, rate limits, and what a checkpoint
keeps.

In a checkpoint positions stand as Spark's Kafka source writes them, {"topic": {"0": 17}}, so a query that changes from
that source to this one goes on where it was. Beside them, under names that no topic can have:

    "@topicIds"  each topic's id: one that was deleted and created again is another topic
    "@group"     the consumer group that progress is committed to, chosen when the query first began
    "@initial"   in the end of the first batch only: where that batch begins. Spark asks a source for its initial
                 offsets anew when the first batch is repeated, and "latest" would be a later place by then.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.client.core.partitions import TopicPartition

TOPIC_IDS = "@topicIds"
GROUP_ID = "@group"
INITIAL = "@initial"

Positions = dict[TopicPartition, int]


class OffsetRange(NamedTuple):
    """The range of a partition that one task reads."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    topic_id: bytes

    @property
    def size(self) -> int:
        """The number of offsets in it: compaction and transaction markers may have left fewer records."""
        return self.end_offset - self.start_offset


class CheckpointError(ValueError):
    """The offsets in a checkpoint are not those of a topic."""


@dataclass(slots=True)
class SourceOffset:
    """A place in all partitions that a query reads."""

    positions: Positions
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    group_id: str | None = None
    initial: Positions | None = None

    def to_json(self) -> dict[str, Any]:
        """In one order always: Spark compares offsets by their text."""
        document: dict[str, Any] = _by_topic(self.positions)
        document[TOPIC_IDS] = {
            topic: base64.b64encode(topic_id).decode() for topic, topic_id in sorted(self.topic_ids.items())
        }
        if self.group_id is not None:
            document[GROUP_ID] = self.group_id
        if self.initial is not None:
            document[INITIAL] = _by_topic(self.initial)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SourceOffset:
        try:
            return cls(
                _positions({topic: found for topic, found in document.items() if not topic.startswith("@")}),
                {topic: base64.b64decode(text) for topic, text in document.get(TOPIC_IDS, {}).items()},
                document.get(GROUP_ID),
                _positions(document[INITIAL]) if INITIAL in document else None,
            )
        except (ValueError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"the checkpoint holds {document!r} where offsets of topics should be, e.g. "
                f'{{"topicA": {{"0": 23}}}} ({error}): it belongs to another query; give this one a folder of its own'
            ) from None


def _by_topic(positions: Positions) -> dict[str, Any]:
    document: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        document.setdefault(topic, {})[str(partition)] = offset
    return dict(document)


def _positions(document: Mapping[str, Mapping[str, int]]) -> Positions:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in document.items()
        for partition, offset in partitions.items()
    }


def limit_rate(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], max_offsets: int) -> Positions:
    """Ends not further than so many offsets in all, shared out by how much each partition has; none gets nothing."""
    sizes = {partition: max(end - starts[partition], 0) for partition, end in ends.items()}
    total = sum(sizes.values())
    if total <= max_offsets:
        return dict(ends)
    limited = {}
    for partition, end in ends.items():
        share = max_offsets * sizes[partition] // total
        if sizes[partition]:
            share = max(share, 1)
        limited[partition] = min(starts[partition] + share, end) if sizes[partition] else end
    return limited


def plan_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records_per_partition: int | None
) -> list[OffsetRange]:
    """The tasks' ranges: as many as there are partitions with something to read, or more of them, if so asked."""
    planned = [one for one in ranges if one.size > 0]
    if max_records_per_partition is not None:
        planned = [piece for one in planned for piece in _divided(one, -(-one.size // max_records_per_partition))]
    if min_partitions is not None and len(planned) < min_partitions:
        planned = _divided_to(planned, min_partitions)
    return planned


def _divided_to(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Large ranges are divided, small ones are left whole and out of the account."""
    total = sum(one.size for one in ranges)
    whole = [one for one in ranges if _part_count(one.size, total, min_partitions) == 1]
    rest_total = total - sum(one.size for one in whole)
    rest_count = max(min_partitions - len(whole), 1)
    kept = set(whole)
    return [
        piece
        for one in ranges
        for piece in _divided(one, 1 if one in kept else _part_count(one.size, rest_total, rest_count))
    ]


def _part_count(size: int, total: int, wanted: int) -> int:
    return max((2 * size * wanted + total) // (2 * total), 1)


def _divided(one: OffsetRange, count: int) -> list[OffsetRange]:
    pieces = []
    start = one.start_offset
    for index in range(count):
        end = start + (one.end_offset - start) // (count - index)
        pieces.append(one._replace(start_offset=start, end_offset=end))
        start = end
    return [piece for piece in pieces if piece.size > 0]


@dataclass(slots=True)
class BatchDelay:
    """minOffsetsPerTrigger: a batch waits until there is enough to read, but never longer than maxTriggerDelay."""

    min_offsets: int
    max_delay_ms: int
    last_batch_at: float | None = None

    def is_due(self, available: int, now: float) -> bool:
        """Whether a batch may begin, at this moment in milliseconds; a first one never waits."""
        if not available:
            return False
        is_late = self.last_batch_at is None or now - self.last_batch_at >= self.max_delay_ms
        if is_late or available >= self.min_offsets:
            self.last_batch_at = now
            return True
        return False
