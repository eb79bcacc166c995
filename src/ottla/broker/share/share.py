"""The room of share partitions: what share groups have in flight of the partitions that this broker leads (KIP-932).

A share partition exists from the first fetch of a member until the leader changes, the topic or the group is deleted,
or the last session of the group on this broker ends. The share coordinator keeps its state (`coordinators.persister`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.broker.share.hosted_partition import HostedSharePartition
from ottla.broker.share.meter import ShareMeter, register_share_metrics
from ottla.cluster.features import SHARE_VERSION
from ottla.groups.share.sessions import SharedPartition, ShareSession, ShareSessions
from ottla.groups.share.state_records import SharePartitionKey
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.replicas.partitions import Partition
    from ottla.broker.replicas.replicas import Replicas
    from ottla.broker.share.dead_letters import DeadLetterQueues
    from ottla.broker.share.state_store import StateStore
    from ottla.cluster import ImageChanges
    from ottla.config import GroupConfig

MAX_SHARE_PARTITIONS = 100_000
"""Share partitions of one broker. Kafka limits only its sessions; each group of these creates its own."""


class Share:
    def __init__(
        self,
        ground: Ground,
        replicas: Replicas,
        store: StateStore,
        group_config: Callable[[str], GroupConfig],
        queues: DeadLetterQueues | None = None,
    ) -> None:
        self.ground = ground
        self.group_config = group_config
        self.sessions = ShareSessions(ground.config.group_share_max_share_sessions)
        self.meter = ShareMeter()
        self._replicas = replicas
        self._store = store
        self._queues = queues
        self._partitions: dict[SharePartitionKey, HostedSharePartition] = {}
        self._by_group: dict[str, dict[SharePartitionKey, None]] = {}
        register_share_metrics(ground.metrics, self)

    def __iter__(self) -> Iterator[HostedSharePartition]:
        return iter(list(self._partitions.values()))

    @property
    def is_enabled(self) -> bool:
        """Whether the cluster has finalized `share.version`."""
        return self.ground.image.features.get(SHARE_VERSION, 0) >= 1

    # Share partitions

    def find(self, group_id: str, topic_id: bytes, index: int) -> HostedSharePartition | None:
        """A share partition from which a member has fetched before."""
        return self._partitions.get(SharePartitionKey(group_id, topic_id, index))

    def open(self, group_id: str, partition: Partition) -> HostedSharePartition:
        """The share partition of a group in a partition that this broker leads; the first fetch loads it."""
        key = SharePartitionKey(group_id, partition.topic_id, partition.index)
        hosted = self._partitions.get(key)
        if hosted is not None and not hosted.is_current:
            hosted.fence(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            hosted = None
        if hosted is None:
            if len(self._partitions) >= MAX_SHARE_PARTITIONS:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "This broker has too many share partitions.")
            hosted = HostedSharePartition(
                key,
                partition,
                self.ground,
                self._store,
                lambda: self.group_config(group_id),
                self.meter,
                self._fenced,
                self._queues,
            )
            self._partitions[key] = hosted
            self._by_group.setdefault(group_id, {})[key] = None
        hosted.keep()
        return hosted

    def led_here(self, partition: SharedPartition) -> Partition:
        """KafkaError NOT_LEADER_OR_FOLLOWER if this broker does not lead the partition."""
        topic_id, index = partition
        found = self._replicas.partitions.by_id.get(topic_id, {}).get(index)
        found = found or self._replicas.hosting.find(topic_id, index)
        if found is None or not found.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return found

    def count_acknowledged(self, outcomes: Mapping[SharedPartition, object]) -> None:
        """Count a request with acknowledgements for each of its topics, and those that failed."""
        topics = self.ground.image.topics_by_id
        for topic_id in dict.fromkeys(partition.topic_id for partition in outcomes):
            topic = topics.get(topic_id)
            if topic is not None:
                meter = self.ground.metrics.topic(topic.name)
                meter.share_acknowledgements += 1
                meter.failed_share_acknowledgements += any(
                    isinstance(outcome, KafkaError) for of, outcome in outcomes.items() if of.topic_id == topic_id
                )

    def _fenced(self, hosted: HostedSharePartition) -> None:
        key = hosted.key
        if self._partitions.get(key) is hosted:
            del self._partitions[key]
            of_group = self._by_group[key.group_id]
            del of_group[key]
            if not of_group:
                del self._by_group[key.group_id]

    # Sessions

    def end_session(self, session: ShareSession) -> None:
        """A member closed its session: its records are released."""
        if self.sessions.close(session):
            self._release(session)

    def connection_closed(self, connection: object) -> None:
        for session in self.sessions.connection_closed(connection):
            self._release(session)

    def _release(self, session: ShareSession) -> None:
        group_id, member_id = session.key
        keys = list(self._by_group.get(group_id, ()))
        for key in keys:
            self._partitions[key].release_member(member_id)
        if self.sessions.is_group_empty(group_id):
            for key in keys:
                if key in self._partitions:
                    self._partitions[key].close_when_idle()

    # --- Changes of the metadata

    def image_changed(self, changes: ImageChanges) -> None:
        """Drop share partitions whose partition this broker no longer leads, or leads in a new epoch."""
        if not (self._partitions and (changes.topics_deleted or changes.partitions_changed)):
            return
        for hosted in self:
            if not hosted.is_current:
                hosted.fence(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
