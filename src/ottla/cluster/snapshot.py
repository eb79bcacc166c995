"""The records that make up a snapshot of the metadata log."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster import features
from ottla.cluster.features import METADATA_VERSION
from ottla.cluster.image import ClusterImage
from ottla.cluster.registration import BrokerImage, ControllerImage
from ottla.cluster.topic import PartitionImage
from ottla.wire import Message
from ottla.wire.messages.records.client_quota_record import ClientQuotaRecord, EntityData
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.wire.messages.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from ottla.wire.messages.records.topic_record import TopicRecord
from ottla.wire.messages.records.zk_migration_state_record import ZkMigrationStateRecord


def snapshot_records(image: ClusterImage) -> Iterator[Message]:
    """Records that rebuild the image, `metadata.version` first because it determines the format of the others. State
    that the image's `metadata.version` has no fields for is left out; it cannot have come from the log.
    """
    version = image.metadata_version
    yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=version)
    for name in sorted(image.features):
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    if image.zk_migration_state:
        yield ZkMigrationStateRecord(zk_migration_state=image.zk_migration_state)
    for broker in image.brokers.values():
        yield register_broker_record(broker, version)
    if features.supports_controller_registration(version):
        for controller in image.controllers.values():
            yield register_controller_record(controller)
    for topic in image.topics_by_id.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for index, partition in topic.partitions.items():
            yield partition_record(topic.id, index, partition, version)
    for (resource_type, resource_name), configs in image.configs.items():
        for name in sorted(configs):
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=configs[name])
    for entity, quotas in image.client_quotas.items():
        for key in sorted(quotas):
            yield ClientQuotaRecord(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                key=key,
                value=quotas[key],
                remove=False,
            )
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.acls.values()
    if features.supports_scram(version):
        yield from image.scram.values()
    if features.supports_delegation_tokens(version):
        yield from image.delegation_tokens.values()


def partition_record(topic_id: bytes, index: int, partition: PartitionImage, metadata_version: int) -> PartitionRecord:
    """A record with the whole state of a partition."""
    has_elr = features.supports_eligible_leader_replicas(metadata_version)
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=(list(partition.directories) if features.supports_directory_assignment(metadata_version) else []),
        eligible_leader_replicas=list(partition.elr) if has_elr and partition.elr else None,
        last_known_elr=list(partition.last_known_elr) if has_elr and partition.last_known_elr else None,
    )


def register_broker_record(broker: BrokerImage, metadata_version: int) -> RegisterBrokerRecord:
    has_directories = features.supports_directory_assignment(metadata_version)
    cordoned = broker.cordoned_log_dirs if features.supports_cordoned_log_dirs(metadata_version) else None
    return RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
            for one in broker.endpoints.values()
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level)
            for name, levels in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_in_controlled_shutdown,
        log_dirs=list(broker.log_dirs) if has_directories else [],
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )


def register_controller_record(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.is_zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
            for one in controller.endpoints.values()
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level)
            for name, levels in controller.features.items()
        ],
    )
