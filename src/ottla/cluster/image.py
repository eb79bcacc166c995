"""The cluster's metadata as one value: what every record of `__cluster_metadata` up to some offset adds up to.

`replay` is the only thing that changes an image. Leader, follower, restart and test all run the same one, so that two
nodes that replayed the same records hold the same image. Inside a metadata transaction (KIP-868) records are held back
until its end, and forgotten if it is aborted: a reader never sees half of it.

Partitions, brokers and controllers are immutable and replaced as a whole; a reader may keep one across an `await`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ottla.cluster.changes import ConfigResource, ImageChanges, QuotaEntity
from ottla.cluster.features import METADATA_VERSION, MIN_METADATA_VERSION, SUPPORTED_FEATURES, FeatureRange
from ottla.cluster.registration import BrokerImage, ControllerImage, Endpoint
from ottla.cluster.topic import (
    MIGRATING_DIRECTORY,
    NO_LEADER_CHANGE,
    PartitionImage,
    TopicImage,
)
from ottla.wire import Message
from ottla.wire.config_resources import ResourceType
from ottla.wire.messages.records.abort_transaction_record import AbortTransactionRecord
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.records.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.records.clear_elr_record import ClearElrRecord
from ottla.wire.messages.records.client_quota_record import ClientQuotaRecord
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.records.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.records.end_transaction_record import EndTransactionRecord
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.records.fence_broker_record import FenceBrokerRecord
from ottla.wire.messages.records.no_op_record import NoOpRecord
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.records.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.records.register_controller_record import RegisterControllerRecord
from ottla.wire.messages.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.wire.messages.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from ottla.wire.messages.records.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ottla.wire.messages.records.topic_record import TopicRecord
from ottla.wire.messages.records.unfence_broker_record import UnfenceBrokerRecord
from ottla.wire.messages.records.unregister_broker_record import UnregisterBrokerRecord
from ottla.wire.messages.records.unregister_controller_record import UnregisterControllerRecord
from ottla.wire.messages.records.user_scram_credential_record import UserScramCredentialRecord
from ottla.wire.messages.records.zk_migration_state_record import ZkMigrationStateRecord

TOPIC_RESOURCE = int(ResourceType.TOPIC)
BROKER_RESOURCE = int(ResourceType.BROKER)
CLIENT_METRICS_RESOURCE = int(ResourceType.CLIENT_METRICS)
GROUP_RESOURCE = int(ResourceType.GROUP)

Name = TypeVar("Name")
Value = TypeVar("Value")


class ReplayError(Exception):
    """A metadata record contradicts the records before it, or is unknown to this release."""


def _different(old: Mapping[Name, Value], new: Mapping[Name, Value]) -> dict[Name, Value | None]:
    """What differs, with its old value."""
    return {name: old.get(name) for name in {**old, **new} if old.get(name) != new.get(name)}


class ClusterImage:
    """All metadata of a cluster. Read its attributes freely; change them only by `replay` or `apply`."""

    __slots__ = (
        "_transaction",
        "acls",
        "brokers",
        "client_quotas",
        "cluster_id",
        "configs",
        "controllers",
        "delegation_tokens",
        "features",
        "next_producer_id",
        "scram",
        "topics_by_id",
        "topics_by_name",
        "zk_migration_state",
    )

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        self.topics_by_name: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, ControllerImage] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.scram: dict[tuple[str, int], UserScramCredentialRecord] = {}
        self.acls: dict[bytes, AccessControlEntryRecord] = {}
        self.delegation_tokens: dict[str, DelegationTokenRecord] = {}
        self.next_producer_id = 0
        self.zk_migration_state = 0
        self._transaction: list[Any] | None = None

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, MIN_METADATA_VERSION)

    @property
    def is_in_transaction(self) -> bool:
        """Whether a metadata transaction has begun and neither ended nor been aborted."""
        return self._transaction is not None

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        found = self.topics_by_name.get(topic)
        return None if found is None else found.partitions.get(partition)

    def topic_configs(self, topic: str) -> dict[str, str]:
        """The settings a topic overrides."""
        return self.configs.get((TOPIC_RESOURCE, topic), {})

    def copy(self) -> ClusterImage:
        """An independent image. Immutable parts are shared."""
        twin = ClusterImage(self.cluster_id)
        for topic_id, topic in self.topics_by_id.items():
            twin.topics_by_id[topic_id] = twin.topics_by_name[topic.name] = topic.copy()
        twin.brokers = dict(self.brokers)
        twin.controllers = dict(self.controllers)
        twin.configs = {resource: dict(configs) for resource, configs in self.configs.items()}
        twin.features = dict(self.features)
        twin.client_quotas = {entity: dict(quotas) for entity, quotas in self.client_quotas.items()}
        twin.scram = dict(self.scram)
        twin.acls = dict(self.acls)
        twin.delegation_tokens = dict(self.delegation_tokens)
        twin.next_producer_id = self.next_producer_id
        twin.zk_migration_state = self.zk_migration_state
        twin._transaction = None if self._transaction is None else list(self._transaction)
        return twin

    def replay(self, record: Message) -> None:
        """Apply one metadata record."""
        self._replay(record, ImageChanges())

    def apply(self, records: Iterable[Message]) -> ImageChanges:
        """Apply records; returns what they touched."""
        changes = ImageChanges()
        for record in records:
            self._replay(record, changes)
        return changes

    def replace(self, records: Iterable[Message]) -> ImageChanges:
        """Take the content of a snapshot in place of the present one; returns what that touched. The dicts are kept and
        refilled, so that code that holds one sees the new content.
        """
        new = ClusterImage(self.cluster_id)
        new.apply(records)
        changes = ImageChanges()
        for topic_id, topic in self.topics_by_id.items():
            if topic_id not in new.topics_by_id:
                changes.topic_deleted(topic)
        for topic_id, topic in new.topics_by_id.items():
            known = self.topics_by_id.get(topic_id)
            if known is None:
                changes.topic_created(topic)
            for index, partition in topic.partitions.items():
                before = known.partitions.get(index) if known is not None else None
                if before != partition:
                    changes.partition_changed(topic_id, index, before)
        changes.configs_changed = _different(self.configs, new.configs)
        changes.client_quotas_changed = _different(self.client_quotas, new.client_quotas)
        changes.brokers_changed = _different(self.brokers, new.brokers)
        changes.controllers_changed = _different(self.controllers, new.controllers)
        changes.features_changed = _different(self.features, new.features)
        changes.acls_changed = dict.fromkeys(_different(self.acls, new.acls))
        changes.delegation_tokens_changed = dict.fromkeys(_different(self.delegation_tokens, new.delegation_tokens))
        changes.scram_users_changed = {user: None for user, _ in _different(self.scram, new.scram)}
        changes.are_producer_ids_changed = self.next_producer_id != new.next_producer_id
        for name in self.__slots__:
            old, value = getattr(self, name), getattr(new, name)
            if isinstance(old, dict):
                old.clear()
                old.update(value)
            else:
                setattr(self, name, value)
        return changes

    def _replay(self, record: Message, changes: ImageChanges) -> None:
        kind = type(record)
        if self._transaction is not None:
            if kind is EndTransactionRecord:
                held_back, self._transaction = self._transaction, None
                for held in held_back:
                    _REPLAY[type(held)](self, held, changes)
            elif kind is AbortTransactionRecord:
                self._transaction = None
            elif kind is BeginTransactionRecord:
                raise ReplayError("a metadata transaction begins inside another one")
            elif kind in _REPLAY:
                self._transaction.append(record)
            else:
                raise ReplayError(f"{kind.__name__} is not a metadata record")
            return
        if kind is BeginTransactionRecord:
            self._transaction = []
            return
        if kind is EndTransactionRecord or kind is AbortTransactionRecord:
            raise ReplayError("a metadata transaction ends that never began")
        replay = _REPLAY.get(kind)
        if replay is None:
            raise ReplayError(f"{kind.__name__} is not a metadata record")
        replay(self, record, changes)

    def _topic(self, record: TopicRecord, changes: ImageChanges) -> None:
        if record.name in self.topics_by_name or record.topic_id in self.topics_by_id:
            raise ReplayError(f"topic {record.name} with id {record.topic_id.hex()} is created twice")
        topic = TopicImage(record.name, record.topic_id)
        self.topics_by_name[record.name] = self.topics_by_id[record.topic_id] = topic
        changes.topic_created(topic)

    def _partition(self, record: PartitionRecord, changes: ImageChanges) -> None:
        topic = self._topic_of(record.topic_id)
        before = topic.partitions.get(record.partition_id)
        replicas = tuple(record.replicas)
        topic.partitions[record.partition_id] = PartitionImage(
            replicas=replicas,
            isr=tuple(record.isr),
            removing=tuple(record.removing_replicas),
            adding=tuple(record.adding_replicas),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=_directories(record.directories, len(replicas)),
            leader_recovery_state=record.leader_recovery_state,
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
        )
        changes.partition_changed(record.topic_id, record.partition_id, before)

    def _partition_change(self, record: PartitionChangeRecord, changes: ImageChanges) -> None:
        topic = self._topic_of(record.topic_id)
        before = topic.partitions.get(record.partition_id)
        if before is None:
            raise ReplayError(f"partition {record.partition_id} of topic {topic.name} changes but does not exist")
        topic.partitions[record.partition_id] = changed_partition(before, record)
        changes.partition_changed(record.topic_id, record.partition_id, before)

    def _remove_topic(self, record: RemoveTopicRecord, changes: ImageChanges) -> None:
        topic = self._topic_of(record.topic_id)
        del self.topics_by_id[topic.id]
        del self.topics_by_name[topic.name]
        configs = self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        if configs is not None:
            changes.configs_changed.setdefault((TOPIC_RESOURCE, topic.name), configs)
        changes.topic_deleted(topic)

    def _clear_elr(self, record: ClearElrRecord, changes: ImageChanges) -> None:
        if record.topic_name:
            topic = self.topics_by_name.get(record.topic_name)
            if topic is None:
                raise ReplayError(f"the eligible leaders of topic {record.topic_name} are cleared, but there is none")
            topics = [topic]
        else:
            topics = list(self.topics_by_name.values())
        for topic in topics:
            for index, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    topic.partitions[index] = partition._replace(elr=(), last_known_elr=())
                    changes.partition_changed(topic.id, index, partition)

    def _config(self, record: ConfigRecord, changes: ImageChanges) -> None:
        resource = (record.resource_type, record.resource_name)
        if resource not in changes.configs_changed:
            before = self.configs.get(resource)
            changes.configs_changed[resource] = None if before is None else dict(before)
        configs = self.configs.setdefault(resource, {})
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        if not configs:
            del self.configs[resource]

    def _client_quota(self, record: ClientQuotaRecord, changes: ImageChanges) -> None:
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        if entity not in changes.client_quotas_changed:
            before = self.client_quotas.get(entity)
            changes.client_quotas_changed[entity] = None if before is None else dict(before)
        quotas = self.client_quotas.setdefault(entity, {})
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if not quotas:
            del self.client_quotas[entity]

    def _feature_level(self, record: FeatureLevelRecord, changes: ImageChanges) -> None:
        if record.name == METADATA_VERSION and record.feature_level not in SUPPORTED_FEATURES[METADATA_VERSION]:
            raise ReplayError(
                f"the cluster runs at metadata.version {record.feature_level}; this release knows "
                f"{SUPPORTED_FEATURES[METADATA_VERSION].min_level} to {SUPPORTED_FEATURES[METADATA_VERSION].max_level}"
            )
        changes.features_changed.setdefault(record.name, self.features.get(record.name))
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level

    def _register_broker(self, record: RegisterBrokerRecord, changes: ImageChanges) -> None:
        changes.brokers_changed.setdefault(record.broker_id, self.brokers.get(record.broker_id))
        self.brokers[record.broker_id] = BrokerImage(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            is_fenced=record.fenced,
            is_in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            log_dirs=tuple(record.log_dirs),
            cordoned_log_dirs=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )

    def _unregister_broker(self, record: UnregisterBrokerRecord, changes: ImageChanges) -> None:
        broker = self._broker_of(record.broker_id, record.broker_epoch)
        changes.brokers_changed.setdefault(record.broker_id, broker)
        del self.brokers[record.broker_id]

    def _broker_registration_change(self, record: BrokerRegistrationChangeRecord, changes: ImageChanges) -> None:
        broker = self._broker_of(record.broker_id, record.broker_epoch)
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise ReplayError(f"broker {record.broker_id} changes in a way this release does not know")
        cordoned = record.cordoned_log_dirs
        self.brokers[record.broker_id] = replace(
            broker,
            is_fenced=broker.is_fenced if record.fenced == 0 else record.fenced == 1,
            is_in_controlled_shutdown=broker.is_in_controlled_shutdown or record.in_controlled_shutdown == 1,
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
            cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else tuple(cordoned),
        )
        changes.brokers_changed.setdefault(record.broker_id, broker)

    def _fence_broker(self, record: FenceBrokerRecord, changes: ImageChanges) -> None:
        broker = self._broker_of(record.id, record.epoch)
        self.brokers[record.id] = replace(broker, is_fenced=True)
        changes.brokers_changed.setdefault(record.id, broker)

    def _unfence_broker(self, record: UnfenceBrokerRecord, changes: ImageChanges) -> None:
        broker = self._broker_of(record.id, record.epoch)
        self.brokers[record.id] = replace(broker, is_fenced=False)
        changes.brokers_changed.setdefault(record.id, broker)

    def _register_controller(self, record: RegisterControllerRecord, changes: ImageChanges) -> None:
        changes.controllers_changed.setdefault(record.controller_id, self.controllers.get(record.controller_id))
        self.controllers[record.controller_id] = ControllerImage(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            is_zk_migration_ready=record.zk_migration_ready,
        )

    def _unregister_controller(self, record: UnregisterControllerRecord, changes: ImageChanges) -> None:
        controller = self.controllers.pop(record.controller_id, None)
        if controller is None:
            raise ReplayError(f"controller {record.controller_id} is not registered")
        changes.controllers_changed.setdefault(record.controller_id, controller)

    def _producer_ids(self, record: ProducerIdsRecord, changes: ImageChanges) -> None:
        self.next_producer_id = record.next_producer_id
        changes.are_producer_ids_changed = True

    def _user_scram_credential(self, record: UserScramCredentialRecord, changes: ImageChanges) -> None:
        self.scram[record.name, record.mechanism] = record
        changes.scram_users_changed[record.name] = None

    def _remove_user_scram_credential(self, record: RemoveUserScramCredentialRecord, changes: ImageChanges) -> None:
        self.scram.pop((record.name, record.mechanism), None)
        changes.scram_users_changed[record.name] = None

    def _access_control_entry(self, record: AccessControlEntryRecord, changes: ImageChanges) -> None:
        self.acls[record.id] = record
        changes.acls_changed[record.id] = None

    def _remove_access_control_entry(self, record: RemoveAccessControlEntryRecord, changes: ImageChanges) -> None:
        if self.acls.pop(record.id, None) is None:
            raise ReplayError(f"an access control entry with id {record.id.hex()} is removed that does not exist")
        changes.acls_changed[record.id] = None

    def _delegation_token(self, record: DelegationTokenRecord, changes: ImageChanges) -> None:
        self.delegation_tokens[record.token_id] = record
        changes.delegation_tokens_changed[record.token_id] = None

    def _remove_delegation_token(self, record: RemoveDelegationTokenRecord, changes: ImageChanges) -> None:
        self.delegation_tokens.pop(record.token_id, None)
        changes.delegation_tokens_changed[record.token_id] = None

    def _zk_migration_state(self, record: ZkMigrationStateRecord, changes: ImageChanges) -> None:
        self.zk_migration_state = record.zk_migration_state

    def _no_op(self, record: NoOpRecord, changes: ImageChanges) -> None:
        """Only moves the offset."""

    def _topic_of(self, topic_id: bytes) -> TopicImage:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise ReplayError(f"no topic has the id {topic_id.hex()}")
        return topic

    def _broker_of(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise ReplayError(f"broker {broker_id} changes but is not registered")
        if broker.epoch != epoch:
            raise ReplayError(f"broker {broker_id} changes at epoch {epoch} but is registered with {broker.epoch}")
        return broker


def changed_partition(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """The partition after a change."""
    is_new_leader = record.leader != NO_LEADER_CHANGE
    replicas = before.replicas if record.replicas is None else tuple(record.replicas)
    directories = before.directories if record.directories is None else record.directories
    return PartitionImage(
        replicas=replicas,
        isr=before.isr if record.isr is None else tuple(record.isr),
        removing=before.removing if record.removing_replicas is None else tuple(record.removing_replicas),
        adding=before.adding if record.adding_replicas is None else tuple(record.adding_replicas),
        leader=record.leader if is_new_leader else before.leader,
        leader_epoch=before.leader_epoch + 1 if is_new_leader else before.leader_epoch,
        partition_epoch=before.partition_epoch + 1,
        directories=_directories(directories, len(replicas)),
        leader_recovery_state=(
            before.leader_recovery_state if record.leader_recovery_state == -1 else record.leader_recovery_state
        ),
        elr=before.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
        last_known_elr=before.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
    )


def _directories(directories: Iterable[bytes], count: int) -> tuple[bytes, ...]:
    known = tuple(directories)
    if len(known) == count:
        return known
    if known and count:
        known = known[:count]
    return known + (MIGRATING_DIRECTORY,) * (count - len(known))


def _endpoints(endpoints: Iterable[Any]) -> dict[str, Endpoint]:
    return {one.name: Endpoint(one.name, one.host, one.port, one.security_protocol) for one in endpoints}


def _features(features: Iterable[Any]) -> dict[str, FeatureRange]:
    return {one.name: FeatureRange(one.min_supported_version, one.max_supported_version) for one in features}


_REPLAY: dict[type, Callable[[ClusterImage, Any, ImageChanges], None]] = {
    AccessControlEntryRecord: ClusterImage._access_control_entry,
    BrokerRegistrationChangeRecord: ClusterImage._broker_registration_change,
    ClearElrRecord: ClusterImage._clear_elr,
    ClientQuotaRecord: ClusterImage._client_quota,
    ConfigRecord: ClusterImage._config,
    DelegationTokenRecord: ClusterImage._delegation_token,
    FeatureLevelRecord: ClusterImage._feature_level,
    FenceBrokerRecord: ClusterImage._fence_broker,
    NoOpRecord: ClusterImage._no_op,
    PartitionChangeRecord: ClusterImage._partition_change,
    PartitionRecord: ClusterImage._partition,
    ProducerIdsRecord: ClusterImage._producer_ids,
    RegisterBrokerRecord: ClusterImage._register_broker,
    RegisterControllerRecord: ClusterImage._register_controller,
    RemoveAccessControlEntryRecord: ClusterImage._remove_access_control_entry,
    RemoveDelegationTokenRecord: ClusterImage._remove_delegation_token,
    RemoveTopicRecord: ClusterImage._remove_topic,
    RemoveUserScramCredentialRecord: ClusterImage._remove_user_scram_credential,
    TopicRecord: ClusterImage._topic,
    UnfenceBrokerRecord: ClusterImage._unfence_broker,
    UnregisterBrokerRecord: ClusterImage._unregister_broker,
    UnregisterControllerRecord: ClusterImage._unregister_controller,
    UserScramCredentialRecord: ClusterImage._user_scram_credential,
    ZkMigrationStateRecord: ClusterImage._zk_migration_state,
}
