"""What the controller's commands read: the image, the settings in force, and a source of chance."""

from __future__ import annotations

from random import Random

from ottla.cluster import BrokerImage, ClusterImage, ImageChanges
from ottla.cluster import features as features
from ottla.cluster.image import BROKER_RESOURCE
from ottla.cluster.topic import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, collision_name
from ottla.config import BrokerConfig
from ottla.controller.acl_index import AclIndex
from ottla.controller.delegation_tokens import TokenIndex

MAX_RECORDS_PER_COMMAND = 10_000
"""A request that would need more is refused as a whole, as Kafka does: a command is one atomic batch."""


class View:
    """The controller's image. It is ahead of the brokers' images by the records that are written but not durable
    yet.
    """

    __slots__ = ("_topics_by_collision_name", "acls", "config", "image", "rng", "static_config", "tokens")

    def __init__(self, image: ClusterImage, rng: Random, config: BrokerConfig) -> None:
        self.image = image
        self.rng = rng
        self.static_config = config
        self.config = config
        """The node's settings with the dynamic ones of the image on top."""
        self._topics_by_collision_name: dict[str, dict[str, None]] = {}
        for name in image.topics_by_name:
            self._add_name(name)
        self.acls = AclIndex(image.acls)
        self.tokens = TokenIndex(config.delegation_token_secret_key, image.delegation_tokens)
        self._use_dynamic_config()

    def replayed(self, changes: ImageChanges) -> None:
        for topic in changes.topics_created.values():
            self._add_name(topic.name)
        for topic in changes.topics_deleted.values():
            self._remove_name(topic.name)
        self.acls.changed(changes.acls_changed, self.image.acls)
        if changes.delegation_tokens_changed:
            self.tokens.changed(changes.delegation_tokens_changed, self.image.delegation_tokens)
        if any(kind == BROKER_RESOURCE for kind, _ in changes.configs_changed):
            self._use_dynamic_config()

    @property
    def metadata_version(self) -> int:
        return self.image.metadata_version

    @property
    def is_elr_enabled(self) -> bool:
        """Whether eligible leader replicas are kept (KIP-966)."""
        return self.image.features.get(features.ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1

    def colliding_topic(self, name: str) -> str | None:
        """A topic whose metrics would have the same names as those of this topic."""
        key = collision_name(name)
        return None if key is None else next(iter(self._topics_by_collision_name.get(key, ())), None)

    def is_active(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def is_directory_online(self, broker_id: int, directory: bytes) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.has_online(directory)

    def default_directory(self, broker_id: int) -> bytes:
        """The log directory of a new replica on a broker, if the controller can decide it."""
        broker = self.image.brokers[broker_id]
        if not broker.log_dirs:
            return MIGRATING_DIRECTORY
        usable = usable_log_dirs(broker)
        return usable[0] if len(broker.log_dirs) == 1 or len(usable) == 1 else UNASSIGNED_DIRECTORY

    def topic_setting(self, topic: str, name: str) -> str | None:
        """A topic's override of a setting."""
        return self.image.topic_configs(topic).get(name)

    def min_insync_replicas(self, topic: str) -> int:
        override = self.topic_setting(topic, "min.insync.replicas")
        return self.config.min_insync_replicas if override is None else int(override)

    def is_unclean_election_enabled(self, topic: str) -> bool:
        override = self.topic_setting(topic, "unclean.leader.election.enable")
        return self.config.unclean_leader_election_enable if override is None else override.strip().lower() == "true"

    def _use_dynamic_config(self) -> None:
        configs = self.image.configs
        own = configs.get((BROKER_RESOURCE, str(self.static_config.node_id)), {})
        self.config = self.static_config.with_dynamic(configs.get((BROKER_RESOURCE, ""), {}), own)

    def _add_name(self, name: str) -> None:
        key = collision_name(name)
        if key is not None:
            self._topics_by_collision_name.setdefault(key, {})[name] = None

    def _remove_name(self, name: str) -> None:
        key = collision_name(name)
        if key is not None:
            names = self._topics_by_collision_name[key]
            del names[name]
            if not names:
                del self._topics_by_collision_name[key]


def usable_log_dirs(broker: BrokerImage) -> tuple[bytes, ...]:
    """The log directories that take new replicas; all of them if all are cordoned."""
    cordoned = broker.cordoned_log_dirs or ()
    return tuple(directory for directory in broker.log_dirs if directory not in cordoned) or broker.log_dirs
