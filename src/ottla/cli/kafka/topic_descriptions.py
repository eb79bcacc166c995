"""What Kafka's tools ask about topics beyond ottla.client's Admin: eligible leader replicas, topics by id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.admin import Admin
from ottla.client.errors import UnsupportedByBroker, error_of
from ottla.client.metadata import TopicInfo
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)

DEFAULT_PARTITION_LIMIT = 2000


class PartitionDescription(NamedTuple):
    partition: int
    leader_id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None
    """The replicas that may become leader although they are not in sync (KIP-966); None if the broker does not report
    them."""
    last_known_elr: tuple[int, ...] | None


class TopicDescription(NamedTuple):
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class TopicAdmin(Admin):
    """An admin client that describes topics as Kafka's tools show them."""

    async def topic_descriptions(
        self, names: Iterable[str], partition_limit: int = DEFAULT_PARTITION_LIMIT
    ) -> dict[str, TopicDescription]:
        """Topics with all their partitions, so many of them in one response."""
        wanted = sorted(names)
        try:
            return await self._one(lambda: self._describe_partitions(wanted, partition_limit))
        except UnsupportedByBroker:
            return {name: without_elr(info) for name, info in (await self.describe_topics(wanted)).items()}

    async def _describe_partitions(self, names: list[str], limit: int) -> dict[str, TopicDescription]:
        found: dict[str, TopicDescription] = {}
        cursor: DescribeTopicPartitionsRequestCursor | None = None
        while True:
            first = cursor.topic_name if cursor is not None else ""
            response: DescribeTopicPartitionsResponse = await self._ask_any(
                DescribeTopicPartitionsRequest(
                    topics=[TopicRequest(name=name) for name in names if name >= first],
                    response_partition_limit=limit,
                    cursor=cursor,
                )
            )
            for topic in response.topics:
                if topic.error_code:
                    raise error_of(topic.error_code)
                name = topic.name or ""
                known = found[name].partitions if name in found else ()
                partitions = (*known, *(_partition(one) for one in topic.partitions))
                found[name] = TopicDescription(name, topic.topic_id, topic.is_internal, partitions)
            if response.next_cursor is None:
                return found
            cursor = DescribeTopicPartitionsRequestCursor(
                topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
            )


def without_elr(info: TopicInfo) -> TopicDescription:
    """A topic in the answer of an older broker, or of a request by id."""
    partitions = tuple(
        PartitionDescription(one.partition, one.leader_id, one.replicas, one.isr, None, None) for one in info.partitions
    )
    return TopicDescription(info.name, info.topic_id, info.is_internal, partitions)


def _partition(one: DescribeTopicPartitionsResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        one.partition_index,
        one.leader_id,
        tuple(one.replica_nodes),
        tuple(one.isr_nodes),
        tuple(one.eligible_leader_replicas or ()),
        tuple(one.last_known_elr or ()),
    )
