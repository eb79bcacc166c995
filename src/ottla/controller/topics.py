"""Topics: CreateTopics, DeleteTopics, CreatePartitions and AssignReplicasToDirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.cluster import PartitionImage, TopicImage, features, snapshot
from ottla.cluster.image import TOPIC_RESOURCE
from ottla.cluster.topic import why_topic_name_is_invalid
from ottla.config.describe import describe_topic
from ottla.controller.configs import check_topic_configs
from ottla.controller.placement import Placer, UsableBroker
from ottla.controller.view import MAX_RECORDS_PER_COMMAND, View
from ottla.machine import Decision
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import METADATA_TOPIC
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.records.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.records.topic_record import TopicRecord
from ottla.wire.primitives import ZERO_UUID

_TOO_MANY = "Excessively large number of partitions per request."

DEFAULT = -1
"""A number of partitions or replicas that is left to the broker's settings."""

Charge = Callable[[int], None]
"""Counts partitions against the caller's mutation quota (KIP-599); KafkaError(THROTTLING_QUOTA_EXCEEDED) refuses."""


def create_topics(
    view: View, request: CreateTopicsRequest, charge: Charge | None, *, with_configs: bool
) -> Decision[CreateTopicsResponse]:
    """Create topics, each by itself: an error of one topic does not affect the others."""
    twice = _twice(topic.name for topic in request.topics)
    creation = _Creation(view, charge, with_configs=with_configs)
    results: dict[str, CreatableTopicResult] = {}
    records: list[Message] = []
    if _partition_count(view, request) > MAX_RECORDS_PER_COMMAND:
        return _too_many_partitions(request)
    for topic in request.topics:
        if topic.name in results:
            continue
        try:
            if topic.name in twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if topic.name == METADATA_TOPIC:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
                )
            results[topic.name] = creation.create(topic, records)
        except KafkaError as error:
            results[topic.name] = CreatableTopicResult(
                name=topic.name, error_code=error.code, error_message=error.message
            )
        if len(records) > MAX_RECORDS_PER_COMMAND:
            return _too_many_partitions(request)
    response = CreateTopicsResponse(topics=list(results.values()))
    return Decision([] if request.validate_only else records, response)


class _Creation:
    """One CreateTopics request: what its topics share."""

    def __init__(self, view: View, charge: Charge | None, *, with_configs: bool) -> None:
        self._view = view
        self._charge = charge
        self._with_configs = with_configs
        self._shown: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def create(self, topic: CreatableTopic, records: list[Message]) -> CreatableTopicResult:
        view = self._view
        problem = why_topic_name_is_invalid(topic.name)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if topic.name in view.image.topics_by_name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        colliding = view.colliding_topic(topic.name)
        if colliding is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' collides with existing topic: {colliding}"
            )
        configs = _creation_configs(topic)
        check_topic_configs(view, configs)
        if topic.assignments:
            partitions = self._assigned(topic)
        else:
            partitions = self._placed(topic)
        if self._charge is not None:
            self._charge(len(partitions))
        topic_id = _new_topic_id(view)
        version = view.metadata_version
        records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        for name, value in configs.items():
            records.append(ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value))
        for index, partition in enumerate(partitions):
            records.append(snapshot.partition_record(topic_id, index, partition, version))
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            num_partitions=len(partitions),
            replication_factor=len(partitions[0].replicas),
            configs=self._shown_configs(configs) if self._with_configs else [],
        )

    def _assigned(self, topic: CreatableTopic) -> list[PartitionImage]:
        if topic.replication_factor != DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "A manual assignment was given, but the replication factor is not -1."
            )
        if topic.num_partitions != DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "A manual assignment was given, but the number of partitions is not -1."
            )
        by_index: dict[int, PartitionImage] = {}
        replication_factor: int | None = None
        for assignment in topic.assignments:
            index = assignment.partition_index
            if index in by_index:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Found multiple manual assignments for partition {index}"
                )
            by_index[index] = _assigned_partition(self._view, index, assignment.broker_ids, replication_factor)
            replication_factor = len(assignment.broker_ids)
        if any(index not in by_index for index in range(len(by_index))):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        return [by_index[index] for index in range(len(by_index))]

    def _placed(self, topic: CreatableTopic) -> list[PartitionImage]:
        factor, count = topic.replication_factor, topic.num_partitions
        if factor < DEFAULT or factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if count < DEFAULT or count == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        return _placed_partitions(
            self._view,
            self._view.config.num_partitions if count == DEFAULT else count,
            self._view.config.default_replication_factor if factor == DEFAULT else factor,
        )

    def _shown_configs(self, configs: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        key = tuple(configs.items())
        shown = self._shown.get(key)
        if shown is None:
            shown = self._shown[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=None if entry.is_sensitive else entry.value,
                    read_only=entry.is_read_only,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in sorted(describe_topic(configs, self._view.config))
            ]
        return shown


def delete_topics(view: View, request: DeleteTopicsRequest, charge: Charge | None) -> Decision[DeleteTopicsResponse]:
    """Delete topics that are named by name or by id, each by itself."""
    wanted: list[tuple[str | None, bytes]] = [(name, ZERO_UUID) for name in request.topic_names]
    wanted += [(topic.name, topic.topic_id) for topic in request.topics]
    names_twice = _twice(name for name, id in wanted if name is not None and id == ZERO_UUID)
    ids_twice = _twice(id for name, id in wanted if name is None and id != ZERO_UUID)
    by_id = {id for name, id in wanted if name is None}
    records: list[Message] = []
    responses: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
    for position, (name, id) in enumerate(wanted):
        key = (name, id)
        if key in responses and (name is not None or id != ZERO_UUID):
            continue
        result = DeletableTopicResult(name=name, topic_id=id)
        try:
            if name is not None and id != ZERO_UUID:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
            if name is None and id == ZERO_UUID:
                key = (None, position.to_bytes(16, "big"))
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
            if name in names_twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if id in ids_twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
            topic = _named(view, name, id)
            result.name, result.topic_id = topic.name, topic.id
            if name is not None and topic.id in by_id:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
                )
            if charge is not None:
                charge(len(topic.partitions))
            records.append(RemoveTopicRecord(topic_id=topic.id))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message or error.code.text
        responses[key] = result
    return Decision(records, DeleteTopicsResponse(responses=list(responses.values())))


def create_partitions(
    view: View, request: CreatePartitionsRequest, charge: Charge | None
) -> Decision[CreatePartitionsResponse]:
    """Add partitions to topics. Keys then map to other partitions, which is the caller's concern."""
    twice = _twice(topic.name for topic in request.topics)
    records: list[Message] = []
    results: dict[str, CreatePartitionsTopicResult] = {}
    for topic in request.topics:
        if topic.name in results:
            continue
        result = results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
        try:
            if topic.name in twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added = _added_partitions(view, topic, charge)
            if len(records) + len(added) > MAX_RECORDS_PER_COMMAND:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, _TOO_MANY)
            records += added
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    response = CreatePartitionsResponse(results=list(results.values()))
    return Decision([] if request.validate_only else records, response)


def assign_replicas_to_dirs(
    view: View, broker_id: int, assignments: Mapping[tuple[bytes, int], bytes]
) -> Decision[None]:
    """A broker reports the log directories of its replicas (by topic id and partition)."""
    records: list[Message] = []
    for (topic_id, index), directory in assignments.items():
        topic = view.image.topics_by_id.get(topic_id)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None or broker_id not in partition.replicas:
            continue
        at = partition.replicas.index(broker_id)
        if partition.directories[at] != directory:
            directories = list(partition.directories)
            directories[at] = directory
            records.append(PartitionChangeRecord(topic_id=topic_id, partition_id=index, directories=directories))
    return Decision(records, None, is_atomic=False)


def _added_partitions(view: View, topic: CreatePartitionsTopic, charge: Charge | None) -> list[Message]:
    existing = view.image.topics_by_name.get(topic.name)
    if existing is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    count = len(existing.partitions)
    if topic.count == count:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if topic.count < count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {count} partition(s); {topic.count} would not be an increase.",
        )
    added = topic.count - count
    if topic.assignments is not None and len(topic.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(topic.assignments)} assignment(s) were "
            "specified.",
        )
    if added > MAX_RECORDS_PER_COMMAND:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, _TOO_MANY)
    if charge is not None:
        charge(added)
    replication_factor = len(existing.partitions[0].replicas)
    if topic.assignments is None:
        partitions = _placed_partitions(view, added, replication_factor)
    else:
        partitions = [
            _assigned_partition(view, count + position, assignment.broker_ids, replication_factor)
            for position, assignment in enumerate(topic.assignments)
        ]
    return [
        snapshot.partition_record(existing.id, count + position, partition, view.metadata_version)
        for position, partition in enumerate(partitions)
    ]


def _placed_partitions(view: View, count: int, replication_factor: int) -> list[PartitionImage]:
    usable = [
        UsableBroker(broker.id, broker.rack, broker.is_fenced)
        for broker in view.image.brokers.values()
        if not broker.is_in_controlled_shutdown
    ]
    placer = Placer(usable, view.rng)
    partitions = []
    for _ in range(count):
        replicas = placer.place(replication_factor)
        isr = [replica for replica in replicas if view.is_active(replica)]
        if not isr:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently fenced or "
                "in controlled shutdown.",
            )
        partitions.append(_new_partition(view, replicas, isr))
    return partitions


def check_brokers(view: View, broker_ids: list[int]) -> None:
    """Refuses requested replicas on brokers that cannot have them."""
    if not broker_ids:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."
        )
    for broker_id in sorted(broker_ids):
        if broker_id not in view.image.brokers:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered.",
            )
        if broker_ids.count(broker_id) > 1:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes the broker {broker_id} more than once.",
            )


def _assigned_partition(
    view: View, index: int, broker_ids: list[int], replication_factor: int | None
) -> PartitionImage:
    """A partition's replicas on the brokers that the request names."""
    check_brokers(view, broker_ids)
    if replication_factor is not None and len(broker_ids) != replication_factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s).",
        )
    isr = [broker_id for broker_id in broker_ids if view.is_active(broker_id)]
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers in the manual assignment for partition {index} are fenced or in controlled shutdown.",
        )
    return _new_partition(view, broker_ids, isr)


def _new_partition(view: View, replicas: list[int], isr: list[int]) -> PartitionImage:
    has_directories = features.supports_directory_assignment(view.metadata_version)
    return PartitionImage(
        replicas=tuple(replicas),
        isr=tuple(isr),
        removing=(),
        adding=(),
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(map(view.default_directory, replicas)) if has_directories else (),
    )


def _creation_configs(topic: CreatableTopic) -> dict[str, str]:
    configs: dict[str, str] = {}
    nulls = []
    for config in topic.configs:
        if config.value is None:
            nulls.append(config.name)
        else:
            configs[config.name] = config.value
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    return configs


def _named(view: View, name: str | None, id: bytes) -> TopicImage:
    if name is not None:
        topic = view.image.topics_by_name.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic
    topic = view.image.topics_by_id.get(id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic


def _new_topic_id(view: View) -> bytes:
    """A random (version 4) uuid that is not taken; its text does not begin with a dash, which tools take for a flag."""
    while True:
        value = bytearray(view.rng.randbytes(16))
        value[6] = value[6] & 0x0F | 0x40
        value[8] = value[8] & 0x3F | 0x80
        if value[0] < 0xF8 and bytes(value) not in view.image.topics_by_id:
            return bytes(value)


def _twice(values: Iterable[str | bytes]) -> set[str | bytes]:
    seen: set[str | bytes] = set()
    twice: set[str | bytes] = set()
    for value in values:
        (twice if value in seen else seen).add(value)
    return twice


def _partition_count(view: View, request: CreateTopicsRequest) -> int:
    """How many partitions a request asks for, counted before any is placed."""
    total = 0
    for topic in request.topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == DEFAULT:
            total += view.config.num_partitions
        elif topic.num_partitions > 0:
            total += topic.num_partitions
    return total


def _too_many_partitions(request: CreateTopicsRequest) -> Decision[CreateTopicsResponse]:
    """The error for a request whose records do not fit into one batch."""
    code = ErrorCode.POLICY_VIOLATION
    names = dict.fromkeys(topic.name for topic in request.topics)
    results = [CreatableTopicResult(name=name, error_code=code, error_message=_TOO_MANY) for name in names]
    return Decision([], CreateTopicsResponse(topics=results))
