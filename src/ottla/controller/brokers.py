"""Brokers come and go: registration, unfencing, controlled shutdown, fencing, and the controllers' own registration."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster import BrokerImage, Endpoint, TopicImage, features, snapshot
from ottla.cluster.features import METADATA_VERSION, MIN_METADATA_VERSION, FeatureRange
from ottla.cluster.registration import ControllerImage
from ottla.cluster.topic import LOST_DIRECTORY, MIGRATING_DIRECTORY, NO_LEADER, UNASSIGNED_DIRECTORY
from ottla.controller.elections import plan_isr_changes
from ottla.controller.view import View
from ottla.machine import Decision
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.primitives import uuid_text

_RESERVED_DIRECTORIES = (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY)
FENCED, UNFENCED = 1, -1
IN_CONTROLLED_SHUTDOWN = 1


def register_broker(view: View, request: BrokerRegistrationRequest, broker_epoch: int) -> Decision[int]:
    """A process says that it is a broker. It stays fenced until `unfence`; the reply is its broker epoch.

    `broker_epoch` is the offset at which the records will be written. A broker whose previous epoch is not the one that
    was registered did not shut down cleanly: with eligible leader replicas, what it had no longer counts as in sync.
    """
    image = view.image
    if request.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers of a ZooKeeper cluster cannot register")
    _check_log_dirs(view, request)
    supported = _checked_features(view, request)
    existing = image.brokers.get(request.broker_id)
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        broker = BrokerImage(
            id=existing.id,
            epoch=existing.epoch,
            incarnation_id=existing.incarnation_id,
            endpoints=_endpoints(request.listeners),
            features=supported,
            rack=request.rack,
            is_fenced=existing.is_fenced,
            is_in_controlled_shutdown=existing.is_in_controlled_shutdown,
            log_dirs=tuple(request.log_dirs),
        )
        return Decision([snapshot.register_broker_record(broker, view.metadata_version)], existing.epoch)
    records: list[Message] = []
    if existing is not None:
        is_clean = existing.epoch == request.previous_broker_epoch
        if view.is_elr_enabled and not is_clean:
            affected = _partitions_with(view, existing.id, in_elr=True)
            records.extend(plan_isr_changes(view, affected, lost=existing.id))
        else:
            records.extend(plan_isr_changes(view, _partitions_with(view, existing.id), removed=existing.id))
    broker = BrokerImage(
        id=request.broker_id,
        epoch=broker_epoch,
        incarnation_id=request.incarnation_id,
        endpoints=_endpoints(request.listeners),
        features=supported,
        rack=request.rack,
        log_dirs=tuple(request.log_dirs),
    )
    records.append(snapshot.register_broker_record(broker, view.metadata_version))
    return Decision(records, broker_epoch, is_atomic=False)


def unfence(view: View, broker_id: int, cordoned_log_dirs: tuple[bytes, ...]) -> Decision[None]:
    """A broker has caught up with the metadata and may lead. Partitions without a leader may get one."""
    broker = _registered(view, broker_id)
    records: list[Message] = []
    if broker.is_fenced:
        records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=UNFENCED))
        leaderless = [
            (topic, index)
            for topic in view.image.topics_by_id.values()
            for index, partition in topic.partitions.items()
            if partition.leader == NO_LEADER
        ]
        records.extend(plan_isr_changes(view, leaderless, added=broker_id))
    if features.supports_cordoned_log_dirs(view.metadata_version) and broker.cordoned_log_dirs != cordoned_log_dirs:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned_log_dirs)
            )
        )
    return Decision(records, None, is_atomic=False)


def shut_down(view: View, broker_id: int) -> Decision[None]:
    """A broker wants to stop: it leaves every ISR, and its partitions are led by others where there are any."""
    broker = _registered(view, broker_id)
    if broker.is_in_controlled_shutdown:
        return Decision([], None)
    records: list[Message] = [
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
        )
    ]
    records.extend(plan_isr_changes(view, _partitions_with(view, broker_id), removed=broker_id))
    return Decision(records, None, is_atomic=False)


def fence(view: View, broker_id: int) -> Decision[None]:
    """A broker no longer takes part: it has stopped, or nobody hears of it."""
    broker = _registered(view, broker_id)
    if broker.is_fenced:
        return Decision([], None)
    records: list[Message] = []
    records.extend(plan_isr_changes(view, _partitions_with(view, broker_id), removed=broker_id))
    records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=FENCED))
    return Decision(records, None, is_atomic=False)


def register_controller(view: View, request: ControllerRegistrationRequest) -> Decision[None]:
    """A controller of the quorum says where it listens and what it supports."""
    if not features.supports_controller_registration(view.metadata_version):
        return Decision([], None)
    controller = ControllerImage(
        id=request.controller_id,
        incarnation_id=request.incarnation_id,
        endpoints=_endpoints(request.listeners),
        features={
            feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
            for feature in request.features
        },
        is_zk_migration_ready=request.zk_migration_ready,
    )
    return Decision([snapshot.register_controller_record(controller)], None)


def _registered(view: View, broker_id: int) -> BrokerImage:
    broker = view.image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    return broker


def _partitions_with(view: View, broker_id: int, *, in_elr: bool = False) -> Iterator[tuple[TopicImage, int]]:
    """Partitions that have a broker in their ISR, or also in their ELR."""
    for topic in view.image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            if broker_id in partition.isr or (in_elr and broker_id in partition.elr):
                yield topic, index


def _check_log_dirs(view: View, request: BrokerRegistrationRequest) -> None:
    if not features.supports_directory_assignment(view.metadata_version):
        return
    directories = request.log_dirs
    if not directories:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if any(directory in _RESERVED_DIRECTORIES for directory in directories):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for other in view.image.brokers.values():
        if other.id != request.broker_id:
            for directory in directories:
                if directory in other.log_dirs:
                    raise KafkaError(
                        ErrorCode.INVALID_REGISTRATION,
                        f"Broker {other.id} is already registered with directory {uuid_text(directory)}",
                    )


def _checked_features(view: View, request: BrokerRegistrationRequest) -> dict[str, FeatureRange]:
    """What the broker supports; KafkaError if the cluster has finalized anything that it does not."""
    supported = {
        feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    supported.setdefault(METADATA_VERSION, FeatureRange(MIN_METADATA_VERSION, MIN_METADATA_VERSION))
    for name, level in view.image.features.items():
        levels = supported.get(name, FeatureRange(0, 0))
        if level not in levels:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {levels.min_level} and {levels.max_level}, inclusive.",
            )
    return supported


def _endpoints(listeners: object) -> dict[str, Endpoint]:
    assert isinstance(listeners, list)
    return {one.name: Endpoint(one.name, one.host, one.port, one.security_protocol) for one in listeners}
