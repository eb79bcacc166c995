"""What /metrics shows of groups: how many there are, what they do, and how far behind they are.

Lag is told in records and in seconds: the age of the first record that a group has not committed yet, which is what an
operator wants to know and what Kafka leaves to tools beside it. That record is found through the log's index and the
header of its batch, so a scrape reads no records; what it found is kept for as long as the group stays where it is, and
one scrape looks for no more than so many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.metrics import Labels, Sample
from ottla.records import HEADER_SIZE, CorruptRecords, read_header
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.partitions import Partition
    from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue

MAX_LAG_SERIES = 5_000
"""Partitions of groups that are told one by one; what is left out is counted."""
MAX_LOOKUPS_PER_SCRAPE = 1_000
"""A lookup takes some 20 microseconds; partitions that had to wait are told from the next scrape on."""

_STATES = {
    "classic": ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
}

PREFIX = "kafka_server_group_coordinator_metrics_"
_COUNTERS = (
    ("offset-commit", "offset_commit_count_total", "Offsets committed."),
    ("offset-expiration", "offset_expiration_count_total", "Committed offsets that expired."),
    ("offset-deletion", "offset_deletion_count_total", "Committed offsets that were deleted."),
    ("group-completed-rebalance-count", "group_completed_rebalance_count_total", "Rebalances of classic groups."),
    ("consumer-group-rebalance", "consumer_group_rebalance_count_total", "Rebalances of consumer groups."),
)


def register_group_metrics(node: Node) -> None:
    """Let the node's metrics show its group coordinator."""
    metrics, groups = node.metrics, node.groups
    lag = Lag(node)
    metrics.gauge(PREFIX + "group_count", "Groups by type.", lambda: _by_type(node))
    metrics.gauge("ottla_groups", "Groups by type and state.", lambda: _by_state(node))
    metrics.gauge("ottla_group_offsets", "Committed offsets.", lambda: _offset_count(node))
    for sensor, name, help_text in _COUNTERS:
        metrics.counter(PREFIX + name, help_text, lambda sensor=sensor: _counts(node)[sensor])  # type: ignore[misc]
    metrics.gauge(PREFIX + "num_partitions", "Partitions of __consumer_offsets by state.", lambda: _partitions(node))
    metrics.gauge(
        PREFIX + "partition_load_time_max",
        "Milliseconds that the slowest load of a partition of __consumer_offsets took.",
        lambda: groups.load_ms_max,
    )
    metrics.gauge(
        PREFIX + "partition_load_time_avg",
        "Milliseconds that a load of a partition of __consumer_offsets took.",
        lambda: groups.load_ms_total / groups.load_count if groups.load_count else 0.0,
    )
    metrics.gauge(
        "ottla_group_lag_records", "Records behind the committed offset, by group and partition.", lag.records
    )
    metrics.gauge(
        "ottla_group_lag_seconds", "Age of the first record that is not committed, by group and partition.", lag.seconds
    )
    metrics.gauge(
        "ottla_group_lag_omitted", "Partitions of groups whose lag is not told: too many.", lambda: lag.omitted
    )


def _by_state(node: Node) -> Iterator[Sample]:
    counts: Counter[tuple[str, str]] = Counter()
    for hosted in node.groups.active():
        if hosted.machine is not None:
            counts.update(hosted.machine.group_counts())
    known = [(group_type, state) for group_type, states in _STATES.items() for state in states]
    for group_type, state in dict.fromkeys(known + sorted(counts)):
        yield (("type", group_type), ("state", state)), counts[group_type, state]


def _by_type(node: Node) -> Iterator[Sample]:
    counts: Counter[str] = Counter(dict.fromkeys(_STATES, 0))
    for labels, count in _by_state(node):
        counts[dict(labels)["type"]] += int(count)
    for group_type in sorted(counts):
        yield (("protocol", group_type),), counts[group_type]


def _counts(node: Node) -> Counter[str]:
    counts = Counter(node.groups.past_counts)
    for hosted in node.groups.active():
        if hosted.machine is not None:
            counts.update(hosted.machine.counts)
    return counts


def _offset_count(node: Node) -> int:
    return sum(hosted.machine.offset_count for hosted in node.groups.active() if hosted.machine is not None)


def _committed(node: Node) -> Iterator[tuple[str, str, int, OffsetCommitValue]]:
    for hosted in node.groups.active():
        if hosted.machine is not None:
            yield from hosted.machine.committed_offsets()


def _partitions(node: Node) -> Iterator[Sample]:
    loading = sum(hosted.machine is None for hosted in node.groups.shards.values())
    yield (("state", "loading"),), loading
    yield (("state", "active"),), len(node.groups.shards) - loading


class Lag:
    """How far every group is behind, found anew at every scrape but for what has not moved."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._timestamps: dict[tuple[bytes, int, int], int] = {}
        """Of the record at an offset of a partition, by topic id, partition and offset."""
        self._behind: list[tuple[Labels, Partition, int]] = []
        self.omitted = 0

    def records(self) -> Iterator[Sample]:
        """Lag in records; also remembers for `seconds`, which is asked next, who is behind and where."""
        node = self._node
        self._behind = []
        seen = 0
        for group_id, topic, index, committed in _committed(node):
            if seen == MAX_LAG_SERIES:
                break
            seen += 1
            partition = node.partitions.get(topic, index)
            if partition is None:
                continue
            labels = (("group", group_id), ("topic", topic), ("partition", str(index)))
            lag = max(0, partition.log.high_watermark - committed.offset)
            self._behind.append((labels, partition, committed.offset if lag else -1))
            yield labels, lag
        self.omitted = _offset_count(node) - seen

    def seconds(self) -> Iterator[Sample]:
        timestamp = self._node.clock()
        kept: dict[tuple[bytes, int, int], int] = {}
        lookups = 0
        for labels, partition, offset in self._behind:
            if offset < 0:
                yield labels, 0.0
                continue
            key = partition.topic_id, partition.index, offset
            found = kept.get(key)
            if found is None:
                found = self._timestamps.get(key)
            if found is None:
                if lookups >= MAX_LOOKUPS_PER_SCRAPE:
                    continue
                lookups += 1
                found = first_timestamp(partition, offset)
            if found is not None:
                kept[key] = found
                yield labels, max(0, timestamp - found) / 1000
        self._timestamps = kept
        self._behind = []


def first_timestamp(partition: Partition, offset: int) -> int | None:
    """When the first record from an offset on was written, as exactly as its batch's header tells; None if there is no
    such record, or it has no timestamp."""
    log = partition.log
    try:
        found = log.read(max(offset, log.log_start_offset), max_bytes=HEADER_SIZE)
        if found is None:
            return None
        header = read_header(found.file.read(found.position, HEADER_SIZE))
    except (KafkaError, CorruptRecords, OSError):
        return None
    is_first = offset <= header.base_offset and header.delete_horizon is None and not header.has_log_append_time
    timestamp = header.base_timestamp if is_first else header.max_timestamp
    return timestamp if timestamp >= 0 else None
