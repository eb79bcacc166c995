"""Metrics of groups: their number, their states, and their lag. Lag is given in records and in seconds: the age of the
first record that a group has not committed yet, which Kafka leaves to other tools. That record is found through the
log's index and the header of its batch, so a scrape reads no records; the result is kept until the group commits
another offset, and the number of lookups per scrape is limited. Transaction markers are no records: a group with only
markers left has no lag. An offset that counts the batches of a Spark sink has no lag.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.metrics import Labels, Sample
from ottla.records import HEADER_SIZE, CorruptRecords, read_header
from ottla.wire.errors import KafkaError
from ottla.wire.sink_decisions import is_sink_decision

if TYPE_CHECKING:
    from ottla.broker.coordinators.groups import GroupCoordinator
    from ottla.broker.replicas.partitions import Partition
    from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue

MAX_LAG_SERIES = 5_000
"""Partitions of groups with a series of their own; further ones are only counted."""
MAX_LOOKUPS_PER_SCRAPE = 1_000
"""A lookup takes about 20 microseconds; further partitions appear from the next scrape on."""
MAX_MARKERS = 8
"""Transaction markers that a lookup skips at most. Each is a batch of its own."""

_STATES = {
    "classic": ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
}

PREFIX = "kafka_server_group_coordinator_metrics_"
_COUNTERS = (
    ("offset-commit", "offset_commit_count_total", "Offsets committed."),
    ("offset-expiration", "offset_expiration_count_total", "Committed offsets that expired."),
    ("offset-deletion", "offset_deletion_count_total", "Committed offsets that were deleted."),
    ("group-completed-rebalance-count", "group_completed_rebalance_count_total", "Rebalances of classic groups."),
    ("consumer-group-rebalance", "consumer_group_rebalance_count_total", "Rebalances of consumer groups."),
    ("streams-group-rebalance", "streams_group_rebalance_count_total", "Rebalances of streams groups."),
    ("share-group-rebalance", "share_group_rebalance_count_total", "Rebalances of share groups."),
)


def register_group_metrics(groups: GroupCoordinator) -> None:
    """Let the node's metrics show its group coordinator."""
    metrics = groups.ground.metrics
    lag = Lag(groups)
    metrics.gauge(PREFIX + "group_count", "Groups by type.", lambda: _by_type(groups))
    metrics.gauge("ottla_groups", "Groups by type and state.", lambda: _by_state(groups))
    metrics.gauge("ottla_group_offsets", "Committed offsets.", lambda: _offset_count(groups))
    for sensor, name, help_text in _COUNTERS:
        metrics.counter(PREFIX + name, help_text, lambda sensor=sensor: _counts(groups)[sensor])  # type: ignore[misc]
    metrics.gauge(PREFIX + "num_partitions", "Partitions of __consumer_offsets by state.", lambda: _partitions(groups))
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
        "ottla_group_lag_records",
        "Records behind the committed offset, by group and partition; 0 if only transaction markers are.",
        lag.records,
    )
    metrics.gauge(
        "ottla_group_lag_seconds", "Age of the first record that is not committed, by group and partition.", lag.seconds
    )
    metrics.gauge(
        "ottla_group_lag_omitted",
        "Partitions of groups whose lag is not reported, because there are too many.",
        lambda: lag.omitted,
    )


def _by_state(groups: GroupCoordinator) -> Iterator[Sample]:
    counts: Counter[tuple[str, str]] = Counter()
    for hosted in groups.active():
        if hosted.machine is not None:
            counts.update(hosted.machine.group_counts())
    known = [(group_type, state) for group_type, states in _STATES.items() for state in states]
    for group_type, state in dict.fromkeys(known + sorted(counts)):
        yield (("type", group_type), ("state", state)), counts[group_type, state]


def _by_type(groups: GroupCoordinator) -> Iterator[Sample]:
    counts: Counter[str] = Counter(dict.fromkeys(_STATES, 0))
    for labels, count in _by_state(groups):
        counts[dict(labels)["type"]] += int(count)
    for group_type in sorted(counts):
        yield (("protocol", group_type),), counts[group_type]


def _counts(groups: GroupCoordinator) -> Counter[str]:
    counts = Counter(groups.past_counts)
    for hosted in groups.active():
        if hosted.machine is not None:
            counts.update(hosted.machine.counts)
    return counts


def _offset_count(groups: GroupCoordinator) -> int:
    return sum(hosted.machine.offset_count for hosted in groups.active() if hosted.machine is not None)


def _committed(groups: GroupCoordinator) -> Iterator[tuple[str, str, int, OffsetCommitValue]]:
    for hosted in groups.active():
        if hosted.machine is not None:
            yield from hosted.machine.committed_offsets()


def _partitions(groups: GroupCoordinator) -> Iterator[Sample]:
    loading = sum(hosted.machine is None for hosted in groups.shards.values())
    yield (("state", "loading"),), loading
    yield (("state", "active"),), len(groups.shards) - loading


class Unread(NamedTuple):
    """The records after a committed offset."""

    end_offset: int
    """The log end when it was looked up."""
    has_data: bool
    timestamp: int | None
    """When the first record was written, as exactly as its batch's header says."""


class Lag:
    """The lag of every group, computed at each scrape, except for offsets that have not changed."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups
        self._known: dict[tuple[bytes, int, int], Unread] = {}
        """By topic id, partition and committed offset."""
        self._behind: list[tuple[Labels, Unread | None]] = []
        self.omitted = 0

    def records(self) -> Iterator[Sample]:
        """Lag in records, 0 if only transaction markers follow: a consumer's committed offset stays before them. Call
        `seconds` afterwards: it uses what this call found.
        """
        groups = self._groups
        self._behind = []
        kept: dict[tuple[bytes, int, int], Unread] = {}
        seen = lookups = 0
        for group_id, topic, index, committed in _committed(groups):
            if seen == MAX_LAG_SERIES:
                break
            seen += 1
            partition = groups.replicas.partitions.get(topic, index)
            if partition is None or is_sink_decision(committed.metadata):
                continue
            labels = (("group", group_id), ("topic", topic), ("partition", str(index)))
            high_watermark = partition.log.high_watermark
            lag = max(0, high_watermark - committed.offset)
            if not lag:
                self._behind.append((labels, _NOTHING))
                yield labels, 0
                continue
            key = partition.topic_id, index, committed.offset
            found = kept.get(key) or self._known.get(key)
            if found is None or (not found.has_data and found.end_offset < high_watermark):
                found = None
                if lookups < MAX_LOOKUPS_PER_SCRAPE:
                    lookups += 1
                    found = first_unread(partition, committed.offset)
            if found is not None:
                kept[key] = found
            self._behind.append((labels, found))
            yield labels, lag if found is None or found.has_data else 0
        self._known = kept
        self.omitted = _offset_count(groups) - seen

    def seconds(self) -> Iterator[Sample]:
        timestamp = self._groups.ground.clock()
        for labels, found in self._behind:
            if found is None:
                continue
            if not found.has_data:
                yield labels, 0.0
            elif found.timestamp is not None:
                yield labels, max(0, timestamp - found.timestamp) / 1000
        self._behind = []


_NOTHING = Unread(0, False, None)


def first_unread(partition: Partition, offset: int) -> Unread:
    """The first batch from an offset on that is no transaction marker. At most a few markers are skipped: what follows
    them counts as data.
    """
    log = partition.log
    offset = max(offset, log.log_start_offset)
    try:
        for _ in range(MAX_MARKERS):
            if offset >= log.high_watermark:
                return Unread(offset, False, None)
            found = log.read(offset, max_bytes=HEADER_SIZE)
            if found is None:
                return Unread(offset, True, None)
            header = read_header(found.file.read(found.position, HEADER_SIZE))
            if not header.is_control:
                break
            offset = header.next_offset
        else:
            return Unread(offset, offset < log.high_watermark, None)
    except (KafkaError, CorruptRecords, OSError):
        return Unread(offset, True, None)
    is_first = offset <= header.base_offset and header.delete_horizon is None and not header.has_log_append_time
    timestamp = header.base_timestamp if is_first else header.max_timestamp
    return Unread(offset, True, timestamp if timestamp >= 0 else None)
