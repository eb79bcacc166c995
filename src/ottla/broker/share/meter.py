"""What a broker counts of its share partitions, under Kafka's names of share-group-metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.metrics import Histogram, Metrics, Sample
from ottla.groups.share.partition import Acknowledgement, AcknowledgeType

if TYPE_CHECKING:
    from ottla.broker.share.share import Share

LOAD_MS = (1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, 30_000.0)


class ShareMeter:
    __slots__ = ("acknowledged", "load_ms", "lock_timeouts")

    def __init__(self) -> None:
        self.acknowledged = dict.fromkeys(AcknowledgeType, 0)
        self.lock_timeouts = 0
        self.load_ms = Histogram(LOAD_MS)

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
        lambda: _in_flight(share),
    )
    cache = "kafka_server_sharesessioncache_"
    metrics.gauge(cache + "sharesessionscount", "Share sessions.", lambda: len(share.sessions))
    metrics.gauge(
        cache + "sharepartitionscount", "Partitions of all share sessions.", lambda: share.sessions.partition_count
    )


def _in_flight(share: Share) -> Iterator[Sample]:
    for hosted in share:
        if hosted.machine is not None:
            partition = hosted.partition
            labels = (
                ("group", hosted.key.group_id),
                ("topic", partition.topic),
                ("partition", str(partition.index)),
            )
            yield labels, hosted.machine.in_flight_count
