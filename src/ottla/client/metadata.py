"""A client's picture of a cluster: brokers, topics, partitions and their leaders. Replaced whole, never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import ErrorCode, error_code
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from ottla.wire.primitives import ZERO_UUID
from ottla.wire.sentinels import NO_LEADER

__all__ = ["Broker", "ConsumerGroupMetadata", "Metadata", "PartitionInfo", "TopicInfo", "TopicPartition"]


class ConsumerGroupMetadata(NamedTuple):
    """The committer of offsets in a transaction: a member of a group, so that a member which the group has removed is
    refused."""

    group_id: str
    generation_id: int = -1
    """The generation, or the member's epoch in group.protocol=consumer; -1 together with an empty member id: no member
    checks who commits."""
    member_id: str = ""
    group_instance_id: str | None = None


class Broker(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def label(self) -> str:
        """The broker in a line of the log."""
        return f"broker {self.id} at {self.host}:{self.port}"


class PartitionInfo(NamedTuple):
    """One partition as the last metadata showed it."""

    topic: str
    partition: int
    leader_id: int
    """The broker that leads it, or -1."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


class TopicInfo(NamedTuple):
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
    """By number, from 0 on without gaps."""
    error: ErrorCode = ErrorCode.NONE


class Metadata(NamedTuple):
    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Broker] = {}
    topics: Mapping[str, TopicInfo] = {}
    names: Mapping[bytes, str] = {}
    """Topic id -> name."""

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        info = self.topics.get(topic)
        if info is None or not 0 <= partition < len(info.partitions):
            return None
        return info.partitions[partition]

    def updated(self, response: MetadataResponse, asked: Iterable[str] | None) -> Metadata:
        """The metadata after a response. A topic that was not asked for stays; `asked` None asked for all.

        An older leader epoch never replaces a newer one of the same topic: a broker may lag behind (KIP-320).
        """
        topics = {} if asked is None else dict(self.topics)
        for answered in response.topics:
            if answered.name is None:
                continue
            topics[answered.name] = self._topic(answered)
        brokers = {one.node_id: Broker(one.node_id, one.host, one.port, one.rack) for one in response.brokers}
        return Metadata(
            response.cluster_id,
            response.controller_id,
            brokers or self.brokers,
            topics,
            {info.topic_id: name for name, info in topics.items() if info.topic_id != ZERO_UUID},
        )

    def _topic(self, answered: MetadataResponseTopic) -> TopicInfo:
        name = answered.name
        assert name is not None
        known = self.topics.get(name)
        if known is not None and known.topic_id != answered.topic_id:
            known = None
        error = error_code(answered.error_code)
        if error and known is not None and error.is_retriable and error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return known
        partitions = []
        for one in sorted(answered.partitions, key=lambda partition: partition.partition_index):
            leader_id = one.leader_id if one.error_code != ErrorCode.LEADER_NOT_AVAILABLE else NO_LEADER
            partition = PartitionInfo(
                name,
                one.partition_index,
                leader_id,
                one.leader_epoch,
                tuple(one.replica_nodes),
                tuple(one.isr_nodes),
                tuple(one.offline_replicas),
            )
            if known is not None and one.partition_index < len(known.partitions):
                before = known.partitions[one.partition_index]
                if before.leader_epoch > one.leader_epoch >= 0:
                    partition = before
            partitions.append(partition)
        if [partition.partition for partition in partitions] != list(range(len(partitions))):
            error = error or ErrorCode.LEADER_NOT_AVAILABLE
            partitions = []
        return TopicInfo(name, answered.topic_id, answered.is_internal, tuple(partitions), error)

    def with_leader(self, topic: str, partition: int, leader_id: int, leader_epoch: int) -> Metadata:
        """The metadata after a response named a partition's new leader (KIP-951); older news changes nothing."""
        info = self.topics.get(topic)
        before = self.partition(topic, partition)
        if info is None or before is None or leader_epoch <= before.leader_epoch or leader_id not in self.brokers:
            return self
        partitions = list(info.partitions)
        partitions[partition] = before._replace(leader_id=leader_id, leader_epoch=leader_epoch)
        return self._replace(topics={**self.topics, topic: info._replace(partitions=tuple(partitions))})

    def with_brokers(self, brokers: Iterable[Broker]) -> Metadata:
        return self._replace(brokers={**self.brokers, **{broker.id: broker for broker in brokers}})

    def without(self, topics: Iterable[str]) -> Metadata:
        gone = set(topics)
        kept = {name: info for name, info in self.topics.items() if name not in gone}
        return self._replace(
            topics=kept, names={info.topic_id: name for name, info in kept.items() if info.topic_id != ZERO_UUID}
        )
