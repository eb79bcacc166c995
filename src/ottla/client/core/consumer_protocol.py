"""What the consumers of a classic group tell each other through the coordinator, as Java's and librdkafka's do:
subscriptions and assignments behind a version of two bytes, and the user data of the sticky assignors.

A member writes version 3 and reads any: later versions only add fields at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from struct import error as StructError

from ottla.client.core.assignors import NO_GENERATION, MemberSubscription
from ottla.client.core.partitions import TopicPartition, by_topic
from ottla.wire import decode_from, encode_bytes
from ottla.wire.consumer_protocol import LATEST_VERSION, VERSION_SIZE, protocol_version
from ottla.wire.messages.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.records.consumer_protocol_assignment import TopicPartition as AssignedPartitions
from ottla.wire.messages.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.records.consumer_protocol_subscription import TopicPartition as OwnedPartitions

PROTOCOL_TYPE = "consumer"
_INT32 = Struct(">i")
_INT16 = Struct(">h")


def encode_subscription(
    assignor: str,
    topics: Iterable[str],
    *,
    owned: Iterable[TopicPartition],
    generation: int,
    rack_id: str | None = None,
    previous: Sequence[TopicPartition] | None = None,
) -> bytes:
    """The metadata of one assignor in a JoinGroup.

    `previous` are the partitions before an eager rebalance revoked them; sticky sends them in its user data."""
    user_data = None
    if assignor == "sticky" and previous is not None:
        user_data = encode_sticky_user_data(previous, generation)
    elif assignor == "cooperative-sticky":
        user_data = _INT32.pack(generation)
    message = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=[
            OwnedPartitions(topic=topic, partitions=sorted(partitions))
            for topic, partitions in sorted(by_topic(owned).items())
        ],
        generation_id=generation,
        rack_id=rack_id,
    )
    return LATEST_VERSION.to_bytes(VERSION_SIZE, "big") + encode_bytes(message, LATEST_VERSION)


def decode_subscription(assignor: str, data: bytes, instance_id: str | None = None) -> MemberSubscription:
    """A member's subscription as the leader reads it; WireError if the bytes are no subscription."""
    message = decode_from(ConsumerProtocolSubscription, protocol_version(data), data, VERSION_SIZE)[0]
    owned = [
        TopicPartition(each.topic, partition) for each in message.owned_partitions for partition in each.partitions
    ]
    generation = message.generation_id
    if assignor == "sticky":
        owned, generation = decode_sticky_user_data(message.user_data)
    elif assignor == "cooperative-sticky" and generation == NO_GENERATION and message.user_data:
        try:
            (generation,) = _INT32.unpack_from(message.user_data)
        except StructError:
            generation = NO_GENERATION
    return MemberSubscription(
        topics=list(message.topics),
        instance_id=instance_id,
        owned=owned,
        generation=generation,
        rack_id=message.rack_id,
        user_data=message.user_data,
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignedPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items()
        ]
    )
    return LATEST_VERSION.to_bytes(VERSION_SIZE, "big") + encode_bytes(message, LATEST_VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions that the leader assigned to this member. A member without partitions may get no bytes at all."""
    if not data:
        return []
    message = decode_from(ConsumerProtocolAssignment, protocol_version(data), data, VERSION_SIZE)[0]
    return [
        TopicPartition(each.topic, partition) for each in message.assigned_partitions for partition in each.partitions
    ]


def encode_sticky_user_data(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """An array of topics with their partitions, then the generation: the second version of sticky's user data."""
    topics = sorted(by_topic(partitions).items())
    pieces = [_INT32.pack(len(topics))]
    for topic, numbers in topics:
        name = topic.encode()
        pieces += [_INT16.pack(len(name)), name, _INT32.pack(len(numbers)), *map(_INT32.pack, numbers)]
    pieces.append(_INT32.pack(generation))
    return b"".join(pieces)


def decode_sticky_user_data(data: bytes | None) -> tuple[list[TopicPartition], int]:
    """The partitions that a member had, and their generation; the first version has no generation. Unreadable bytes
    count as none."""
    if not data:
        return [], NO_GENERATION
    try:
        partitions, position = _decode_previous(data)
    except (StructError, UnicodeDecodeError, ValueError):
        return [], NO_GENERATION
    if len(data) - position < _INT32.size:
        return partitions, NO_GENERATION
    return partitions, _INT32.unpack_from(data, position)[0]


def _decode_previous(data: bytes) -> tuple[list[TopicPartition], int]:
    (topic_count,) = _INT32.unpack_from(data)
    position = _INT32.size
    partitions: list[TopicPartition] = []
    for _ in range(topic_count):
        (length,) = _INT16.unpack_from(data, position)
        position += _INT16.size
        if length < 0 or position + length > len(data):
            raise ValueError("a topic's name is cut short")
        topic = data[position : position + length].decode()
        position += length
        (count,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        if count < 0 or count * _INT32.size > len(data) - position:
            raise ValueError("a topic's partitions are cut short")
        for _ in range(count):
            partitions.append(TopicPartition(topic, _INT32.unpack_from(data, position)[0]))
            position += _INT32.size
    return partitions, position
