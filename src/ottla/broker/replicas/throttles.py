"""The replication throttles of this node, from settings of brokers and topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.replication.throttle import UNLIMITED, ReplicationThrottle

if TYPE_CHECKING:
    from ottla.broker.replicas.partitions import Partition
    from ottla.cluster import ClusterImage
    from ottla.config import BrokerConfig

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


class ReplicationThrottles:
    def __init__(self, config: BrokerConfig) -> None:
        self._node_id = config.node_id
        windows = config.replication_quota_window_num, 1000 * config.replication_quota_window_size_seconds
        self.leader = ReplicationThrottle(*windows)
        self.follower = ReplicationThrottle(*windows)
        self.log_dirs = ReplicationThrottle(
            config.alter_log_dirs_replication_quota_window_num,
            1000 * config.alter_log_dirs_replication_quota_window_size_seconds,
        )
        self.log_dirs.mark_all("")  # it holds for all partitions

    def use_rates(self, config: BrokerConfig) -> None:
        rates = {LEADER_RATE: self.leader, FOLLOWER_RATE: self.follower, LOG_DIRS_RATE: self.log_dirs}
        for name, throttle in rates.items():
            text = config.dynamic.get(name, config.dynamic_default.get(name))
            throttle.limit(UNLIMITED if text is None else int(text))

    def use_topics(self, image: ClusterImage, topics: Iterable[str]) -> None:
        """Settings of these topics may have changed."""
        for topic in topics:
            configs = image.topic_configs(topic)
            for name, throttle in ((LEADER_REPLICAS, self.leader), (FOLLOWER_REPLICAS, self.follower)):
                if name in configs:
                    throttle.mark(topic, configs[name].split(","), self._node_id)
                else:
                    throttle.unmark(topic)

    def holds_back(self, partition: Partition, replica_id: int, now: int) -> bool:
        """Whether the leader sends a follower nothing of a partition for now."""
        leader = partition.leader
        return (
            leader is not None
            and replica_id not in leader.isr
            and self.leader.is_throttled(partition.topic, partition.index)
            and self.leader.wait_ms(now) > 0
        )
