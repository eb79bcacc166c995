"""The ends of partitions as a reader of committed records sees them: without transaction markers and aborted records.

A group that has read everything may have committed the offset before the last marker: consumers that commit "the record
plus one" do. Offsets do not distinguish such a marker from an unread record, so a short tail is fetched and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.client.core.fetching import LAST_VERSION_WITH_NAMES, FetchedBatches
from ottla.client.core.isolation import IsolationLevel
from ottla.client.core.partitions import by_topic
from ottla.client.errors import KafkaError
from ottla.client.metadata import TopicPartition
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

MAX_TAIL_OFFSETS = 1_000
"""Beyond so many offsets a few markers make no difference, and nothing is fetched."""
MAX_TAIL_BYTES = 16 * 1024
MAX_ANSWER_BYTES = 1024 * 1024


async def count_readable(
    cluster: Cluster, node_id: int, tails: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """How many records lie between two offsets of partitions that a broker leads. Partitions are left out if their tail
    is long, or too large for one answer, or could not be fetched."""
    short = {partition: tail for partition, tail in tails.items() if 0 < tail[1] - tail[0] <= MAX_TAIL_OFFSETS}
    if not short:
        return {}
    ordered = sorted(short, key=lambda partition: short[partition][1] - short[partition][0])
    response: FetchResponse = await cluster.send(node_id, _request(ordered, short), max_version=LAST_VERSION_WITH_NAMES)
    counts: dict[TopicPartition, int] = {}
    for topic in response.responses:
        for row in topic.partitions:
            partition = TopicPartition(topic.topic, row.partition_index)
            tail = short.get(partition)
            if tail is None or row.error_code or not row.records:
                continue
            try:
                fetched = FetchedBatches(partition, row.records, tail[0], row.aborted_transactions)
                if fetched.end_offset >= tail[1]:
                    found = fetched.take(MAX_TAIL_OFFSETS)
                    counts[partition] = sum(tail[0] <= record.offset < tail[1] for record in found)
            except KafkaError:
                continue  # damaged, or the first batch alone is too large: not this function's to report
    return counts


def _request(partitions: Iterable[TopicPartition], tails: Mapping[TopicPartition, tuple[int, int]]) -> FetchRequest:
    return FetchRequest(
        max_bytes=MAX_ANSWER_BYTES,
        isolation_level=IsolationLevel.READ_COMMITTED,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=number,
                        fetch_offset=tails[TopicPartition(topic, number)][0],
                        partition_max_bytes=MAX_TAIL_BYTES,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(partitions).items()
        ],
    )
