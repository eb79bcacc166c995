"""Metrics of a broker's share partitions, under Kafka's names (share-group-metrics)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.metrics import Histogram, Metrics, Sample
from ottla.groups.share.partition import Acknowledgement, AcknowledgeType, SharePartition

if TYPE_CHECKING:
    from ottla.broker.share.share import Share

LOAD_MS = (1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, 30_000.0)


MAX_GROUPS = 1000
"""Groups with metrics of their own; further groups are counted together, under OTHERS."""
OTHERS = ""


class LetterCounts:
    """Dead letters of one group."""

    __slots__ = ("failed", "found", "lost", "requests", "written")

    def __init__(self) -> None:
        self.written = self.found = self.requests = self.failed = self.lost = 0


class ShareMeter:
    __slots__ = ("acknowledged", "archived", "letters", "load_ms", "lock_timeouts", "redelivered")

    def __init__(self) -> None:
        self.acknowledged = dict.fromkeys(AcknowledgeType, 0)
        self.lock_timeouts = self.archived = self.redelivered = 0
        self.letters: dict[str, LetterCounts] = {}
        self.load_ms = Histogram(LOAD_MS)

    def letters_of(self, group_id: str) -> LetterCounts:
        """The counters of a group's dead letters."""
        name = group_id if group_id in self.letters or len(self.letters) < MAX_GROUPS else OTHERS
        return self.letters.setdefault(name, LetterCounts())

    def count_acknowledgements(self, given: Iterable[Acknowledgement]) -> None:
        counts = self.acknowledged
        for one in given:
            if len(one.types) == 1:
                counts[AcknowledgeType(one.types[0])] += one.last_offset - one.first_offset + 1
            else:
                for kind in AcknowledgeType:
                    counts[kind] += one.types.count(kind)


def register_share_metrics(metrics: Metrics, share: Share) -> None:
    meter = share.meter
    prefix = "kafka_server_share_group_metrics_"
    metrics.counter(
        prefix + "share_acknowledgement_count",
        "Records acknowledged by members of share groups.",
        lambda: [((("ack_type", kind.name.lower()),), count) for kind, count in meter.acknowledged.items()],
    )
    metrics.gauge(
        prefix + "partition_load_time_avg",
        "Milliseconds to load a share partition, on average.",
        lambda: meter.load_ms.total / meter.load_ms.count if meter.load_ms.count else 0.0,
    )
    metrics.counter(
        "kafka_server_sharepartitionmetrics_acquisitionlocktimeout",
        "Records whose acquisition lock expired.",
        lambda: meter.lock_timeouts,
    )
    metrics.gauge(
        "kafka_server_sharepartitionmetrics_inflightmessagecount",
        "Records of a share partition that are in flight.",
        lambda: _of_partitions(share, lambda machine: machine.in_flight_count),
    )
    metrics.counter(
        "ottla_share_redelivered_records_total",
        "Records that share groups were handed out for the second time, or later.",
        lambda: meter.redelivered,
    )
    metrics.counter(
        "ottla_share_archived_records_total",
        "Records that share groups gave up: rejected, or delivered too often.",
        lambda: meter.archived,
    )
    _register_letters(metrics, share)
    cache = "kafka_server_sharesessioncache_"
    metrics.gauge(cache + "sharesessionscount", "Share sessions.", lambda: len(share.sessions))
    metrics.gauge(
        cache + "sharepartitionscount", "Partitions of all share sessions.", lambda: share.sessions.partition_count
    )


def _of_partitions(share: Share, count: Callable[[SharePartition], int]) -> Iterator[Sample]:
    for hosted in share:
        if hosted.machine is not None:
            partition = hosted.partition
            labels = (
                ("group", hosted.key.group_id),
                ("topic", partition.topic),
                ("partition", str(partition.index)),
            )
            yield labels, count(hosted.machine)


def _register_letters(metrics: Metrics, share: Share) -> None:
    """KIP-1191's metrics, and those of letters that were given up or that wait."""
    letters = share.meter.letters

    def by_group(field: str) -> Callable[[], list[Sample]]:
        return lambda: [((("group", group),), getattr(counts, field)) for group, counts in letters.items()]

    prefix = "kafka_server_sharegroupmetrics_deadletterqueue"
    metrics.counter(prefix + "recordcount", "Dead letters written.", by_group("written"))
    metrics.counter(prefix + "totalproducerequests", "Batches of dead letters sent.", by_group("requests"))
    metrics.counter(prefix + "failedproducerequests", "Batches of dead letters that failed.", by_group("failed"))
    metrics.counter(
        "ottla_share_lost_dead_letters_total", "Records archived without their dead letter.", by_group("lost")
    )
    metrics.counter(
        "ottla_share_found_dead_letters_total",
        "Dead letters that an earlier leader had written, and that were not written again.",
        by_group("found"),
    )
    metrics.gauge(
        "ottla_share_waiting_dead_letters",
        "Records of a share partition whose dead letters are not written yet.",
        lambda: _of_partitions(share, lambda machine: machine.letter_count),
    )
