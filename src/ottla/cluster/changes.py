"""What a list of metadata records touched, so that a node can bring its logs, configs and quotas up to date."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.cluster.registration import BrokerImage, ControllerImage
from ottla.cluster.topic import PartitionImage, TopicImage

ConfigResource = tuple[int, str]
"""A resource type (2 topic, 4 broker, 16 client-metrics, 32 group) and a name ("" = the default for all brokers)."""

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of entity type ("user", "client-id", "ip") and name (None = the default), sorted by type."""


@dataclass(slots=True)
class ImageChanges:
    """The difference between two images, collected while records are replayed. Dicts are used as ordered sets."""

    topics_created: dict[bytes, TopicImage] = field(default_factory=dict)
    """Topic id -> the topic in the new image."""
    topics_deleted: dict[bytes, TopicImage] = field(default_factory=dict)
    """Topic id -> the topic in the old image."""
    partitions_changed: dict[tuple[bytes, int], PartitionImage | None] = field(default_factory=dict)
    """(topic id, partition) -> the partition in the old image; None for a new one."""
    configs_changed: dict[ConfigResource, dict[str, str] | None] = field(default_factory=dict)
    """The settings of a resource in the old image; None if it had none. The four fields below are alike."""
    client_quotas_changed: dict[QuotaEntity, dict[str, float] | None] = field(default_factory=dict)
    brokers_changed: dict[int, BrokerImage | None] = field(default_factory=dict)
    controllers_changed: dict[int, ControllerImage | None] = field(default_factory=dict)
    features_changed: dict[str, int | None] = field(default_factory=dict)
    scram_users_changed: dict[str, None] = field(default_factory=dict)
    acls_changed: dict[bytes, None] = field(default_factory=dict)
    delegation_tokens_changed: dict[str, None] = field(default_factory=dict)
    are_producer_ids_changed: bool = False

    def topic_created(self, topic: TopicImage) -> None:
        self.topics_created[topic.id] = topic

    def topic_deleted(self, topic: TopicImage) -> None:
        """A topic that was created and deleted within these records leaves no trace."""
        for partition in topic.partitions:
            self.partitions_changed.pop((topic.id, partition), None)
        if self.topics_created.pop(topic.id, None) is None:
            self.topics_deleted[topic.id] = topic

    def partition_changed(self, topic_id: bytes, partition: int, before: PartitionImage | None) -> None:
        self.partitions_changed.setdefault((topic_id, partition), before)
