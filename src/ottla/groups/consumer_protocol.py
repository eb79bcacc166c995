"""The formats of the classic protocol's consumers: subscriptions and assignments, after a version of two bytes. The
coordinator of a classic group forwards them unread; a consumer group decodes and encodes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.cluster import ClusterImage
from ottla.wire import decode_from, encoder
from ottla.wire.consumer_protocol import VERSION_SIZE, protocol_version
from ottla.wire.messages.records.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from ottla.wire.messages.records.consumer_protocol_subscription import ConsumerProtocolSubscription


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    return decode_from(ConsumerProtocolSubscription, protocol_version(data), data, VERSION_SIZE)[0]


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    return decode_from(ConsumerProtocolAssignment, protocol_version(data), data, VERSION_SIZE)[0]


def encode_assignment(partitions: Mapping[bytes, Iterable[int]], version: int, image: ClusterImage) -> bytes:
    """Encodes partitions by topic id for a consumer; deleted topics are left out."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic.name, partitions=list(numbers))
            for topic_id, numbers in partitions.items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        ]
    )
    pieces: list[bytes] = [version.to_bytes(VERSION_SIZE, "big")]
    encoder(ConsumerProtocolAssignment, version)(message, pieces)
    return b"".join(pieces)


def partitions_by_topic_id(topics: Iterable[tuple[str, Iterable[int]]], image: ClusterImage) -> dict[bytes, list[int]]:
    """Partitions by topic name as partitions by topic id; topics that do not exist are left out."""
    partitions: dict[bytes, list[int]] = {}
    for name, numbers in topics:
        topic = image.topics_by_name.get(name)
        if topic is not None:
            partitions.setdefault(topic.id, []).extend(numbers)
    return partitions
