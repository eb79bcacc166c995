"""Brokers come and go: registration, unfencing, controlled shutdown, fencing, and the controllers' own registration."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster import BrokerImage, Endpoint, TopicImage, features, snapshot
from ottla.cluster.features import METADATA_VERSION, MIN_METADATA_VERSION, FeatureRange
from ottla.cluster.registration import ControllerImage
from ottla.cluster.topic import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from ottla.controller.elections import plan_isr_changes
from ottla.controller.view import View
from ottla.machine import Decision
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.records.unregister_broker_record import UnregisterBrokerRecord
from ottla.wire.messages.records.unregister_controller_record import UnregisterControllerRecord
from ottla.wire.primitives import uuid_text
from ottla.wire.sentinels import NO_LEADER

_RESERVED_DIRECTORIES = (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY)
FENCED, UNFENCED = 1, -1
IN_CONTROLLED_SHUTDOWN = 1


def register_broker(view: View, request: BrokerRegistrationRequest, broker_epoch: int) -> Decision[int]:
    """Register a broker, which stays fenced until `unfence`; the reply is its broker epoch.

    `broker_epoch` is the offset at which the records will be written. A broker whose previous epoch differs from the
    registered one did not shut down cleanly: with eligible leader replicas, its replicas no longer count as in sync.
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
    # Also for a broker that was unregistered: what its disks hold is not known.
    is_clean = existing is not None and existing.epoch == request.previous_broker_epoch
    records: list[Message] = []
    if view.is_elr_enabled and not is_clean:
        affected = _partitions_with(view, request.broker_id, in_elr=True)
        records.extend(plan_isr_changes(view, affected, lost=request.broker_id))
    else:
        affected = _partitions_with(view, request.broker_id)
        records.extend(plan_isr_changes(view, affected, removed=request.broker_id))
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
    """A broker wants to stop: it leaves every ISR, and other replicas lead its partitions if there are any in sync."""
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
    """A broker no longer takes part: it has stopped, or sends no heartbeats."""
    broker = _registered(view, broker_id)
    if broker.is_fenced:
        return Decision([], None)
    records: list[Message] = []
    records.extend(plan_isr_changes(view, _partitions_with(view, broker_id), removed=broker_id))
    records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=FENCED))
    return Decision(records, None, is_atomic=False)


def unregister_broker(view: View, broker_id: int) -> Decision[None]:
    """A broker is not expected back. Its replicas stay assigned to it until they are reassigned."""
    broker = _registered(view, broker_id)
    records: list[Message] = []
    records.extend(plan_isr_changes(view, _partitions_with(view, broker_id), removed=broker_id))
    records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch))
    return Decision(records, None, is_atomic=False)


def heartbeat(
    view: View, request: BrokerHeartbeatRequest, *, is_handover_known: bool
) -> Decision[BrokerHeartbeatResponse]:
    """Answers a heartbeat: the broker has replayed the metadata up to an offset, and asks to be fenced, unfenced or
    shut down. A broker that leads partitions may stop only when the other brokers have the metadata with the new
    leaders (`is_handover_known`); otherwise they would send clients to a stopped leader.
    """
    broker = view.image.brokers.get(request.broker_id)
    if broker is None:
        # As in Kafka; the broker registers anew, as it does when its epoch is stale.
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {request.broker_id} is not registered")
    if broker.epoch != request.broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    is_caught_up = request.current_metadata_offset >= broker.epoch
    reply = BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=broker.is_fenced)
    change: Decision[None] = Decision([], None)
    if broker.is_fenced:
        reply.should_shut_down = request.want_shut_down
        if is_caught_up and not request.want_fence and not request.want_shut_down:
            change = unfence(view, broker.id, tuple(request.cordoned_log_dirs or ()))
            reply.is_fenced = False
    elif request.want_fence or (request.want_shut_down and _may_stop(view, broker, is_handover_known)):
        change = fence(view, broker.id)
        reply.is_fenced, reply.should_shut_down = True, request.want_shut_down
    elif request.want_shut_down:
        change = shut_down(view, broker.id)
    elif request.cordoned_log_dirs is not None:
        change = unfence(view, broker.id, tuple(request.cordoned_log_dirs))
    if change.records or not request.offline_log_dirs:
        return Decision(change.records, reply, is_atomic=False)
    # Only if the answer contains no other change: two changes of one partition must not be decided without seeing each
    # other.
    return Decision(_directories_lost(view, broker, request.offline_log_dirs), reply, is_atomic=False)


def _may_stop(view: View, broker: BrokerImage, is_handover_known: bool) -> bool:
    if broker.is_in_controlled_shutdown and not is_handover_known:
        return False
    return not any(
        partition.leader == broker.id
        for topic in view.image.topics_by_id.values()
        for partition in topic.partitions.values()
    )


def _directories_lost(view: View, broker: BrokerImage, offline: list[bytes]) -> list[Message]:
    """Log directories of a broker failed: its replicas there leave the ISR, and other replicas lead."""
    lost = [directory for directory in broker.log_dirs if directory in offline]
    if not lost or not features.supports_directory_assignment(view.metadata_version):
        return []
    affected = (
        (topic, index)
        for topic, index in _partitions_with(view, broker.id)
        if topic.partitions[index].directory(broker.id) in lost
    )
    records: list[Message] = []
    records.extend(plan_isr_changes(view, affected, removed=broker.id))
    left = [directory for directory in broker.log_dirs if directory not in lost]
    records.append(BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left))
    return records


def register_controller(view: View, request: ControllerRegistrationRequest) -> Decision[None]:
    """A controller of the quorum registers its listeners and the features it supports."""
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


def unregister_controller(view: View, controller_id: int) -> Decision[None]:
    """Remove a controller's registration: its supported features no longer limit the cluster's (KIP-1312)."""
    if not features.supports_controller_unregistration(view.metadata_version):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        )
    if controller_id not in view.image.controllers:
        raise KafkaError(
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"Controller ID {controller_id} is not currently registered."
        )
    return Decision([UnregisterControllerRecord(controller_id=controller_id)], None)


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
