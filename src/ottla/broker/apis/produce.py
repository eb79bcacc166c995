"""Produce v3-v13: acks 0, 1 and all; idempotent and transactional producers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.broker.apis.produce_append import (
    LENGTH_POSITION,
    MAGIC_POSITION,
    append_to,
    refused_row,
)
from ottla.broker.apis.produce_frame import produce_frame
from ottla.broker.apis.produce_schemas import NO_REFUSALS, Refusals, produce_validated, validated_batches
from ottla.broker.caller import Caller
from ottla.broker.coordinators.transactions import TransactionCoordinator
from ottla.broker.coordinators.verification import (
    FIRST_PRODUCE_VERSION_WITH_TOPIC_IDS,
    Verdicts,
    is_transactional,
    produce_transactional,
)
from ottla.broker.ground import Ground
from ottla.broker.replicas.purgatory import DelayedProduceResponse
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api, Need
from ottla.broker.serving.quotas import Quotas
from ottla.records import HEADER_SIZE, Compression
from ottla.records.batch import ATTRIBUTES_POSITION, COMPRESSION_MASK, LOG_OVERHEAD, MAGIC
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import AUDIT_TOPIC
from ottla.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from ottla.broker.replicas.partitions import Partition

FIRST_VERSION_WITH_LEADERS = 10
FIRST_VERSION_WITH_ZSTD = 7
ALL = -1
ADMIN_CLIENT_ID = "__admin_client"

_LENGTH = Struct(">i")


def produce(
    request: ProduceRequest,
    ground: Ground,
    replicas: Replicas,
    transactions: TransactionCoordinator,
    quotas: Quotas,
    caller: Caller,
) -> ProduceResponse | asyncio.Future[Any] | None:
    denied: list[TopicProduceResponse] = []
    if caller.client.access.authorizer is not None:
        if _is_denied_transactional(request, caller):
            caller.is_refused = request.acks == 0
            return None if caller.is_refused else refuse_all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        denied = _without_denied(request, ground, caller)
    if request.acks not in (1, -1, 0):
        return refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS, denied)

    def append(refusals: Refusals) -> ProduceResponse | asyncio.Future[Any] | None:
        if request.transactional_id is None:
            return append_all(request, ground, replicas, quotas, caller, None, denied, refusals)
        try:
            return produce_transactional(
                request,
                transactions,
                caller,
                lambda verdicts: append_all(request, ground, replicas, quotas, caller, verdicts, denied, refusals),
            )
        except KafkaError as error:
            return refuse_all(request, error.code, denied)

    validated = validated_batches(request, replicas, caller)
    if validated:
        return produce_validated(request, validated, replicas, caller, append)
    return append(NO_REFUSALS)


def _is_denied_transactional(request: ProduceRequest, caller: Caller) -> bool:
    """Whether the sender may not use the transactional id of a request that holds transactional batches."""
    return (
        request.transactional_id is not None
        and not caller.is_allowed(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, request.transactional_id)
        and is_transactional(request)
    )


def _without_denied(request: ProduceRequest, ground: Ground, caller: Caller) -> list[TopicProduceResponse]:
    """Take the topics out of a request that its sender may not write to, and answer for them. Topics that are allowed
    are noted for the frame handler."""
    access, image = caller.client.access, ground.image
    uses_topic_ids = caller.api_version >= FIRST_PRODUCE_VERSION_WITH_TOPIC_IDS
    allowed, denied = [], []
    for topic in request.topic_data:
        key = topic.topic_id if uses_topic_ids else topic.name
        if key not in access.writable:
            found = image.topics_by_id.get(topic.topic_id) if uses_topic_ids else image.topics_by_name.get(topic.name)
            if uses_topic_ids and found is None:
                allowed.append(topic)  # as Kafka: for an id, UNKNOWN_TOPIC_ID reveals nothing
                continue
            name = topic.name if found is None else found.name
            if not caller.is_allowed(AclOperation.WRITE, AclResource.TOPIC, name):
                denied.append(topic)
                continue
            if found is not None:
                access.note_writable(found.name, found.id)
        allowed.append(topic)
    if not denied:
        return []
    request.topic_data = allowed
    return refuse_all(ProduceRequest(topic_data=denied), ErrorCode.TOPIC_AUTHORIZATION_FAILED).responses


def _may_write_internal(topic: str, ground: Ground, caller: Caller) -> bool:
    """Only nodes write audit events: otherwise a principal with Write on all topics could forge them."""
    if topic != AUDIT_TOPIC:
        return caller.client_id == ADMIN_CLIENT_ID
    if not caller.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION, is_logged=False):
        return False
    return (caller.client_id or "") in map(str, (*ground.image.brokers, *ground.image.controllers))


def append_all(
    request: ProduceRequest,
    ground: Ground,
    replicas: Replicas,
    quotas: Quotas,
    caller: Caller,
    verdicts: Verdicts | None = None,
    denied: Sequence[TopicProduceResponse] = (),
    refusals: Refusals = NO_REFUSALS,
) -> ProduceResponse | asyncio.Future[Any] | None:
    """Append what a request holds. `verdicts` are the coordinator's answers for a transactional request; None if the
    request is not transactional. `denied` are answers for topics that were taken out of it, `refusals` those for
    batches whose schemas are not known."""
    acks = request.acks
    timestamp, now = ground.clock(), ground.now()
    uses_topic_ids = caller.api_version >= FIRST_PRODUCE_VERSION_WITH_TOPIC_IDS
    partitions = replicas.partitions
    topics: list[TopicProduceResponse] = list(denied)
    unflushed: list[Partition] = []
    uncommitted: list[tuple[Partition, int, PartitionProduceResponse]] = []
    misdirected: list[tuple[Partition, PartitionProduceResponse]] = []
    produced_bytes = 0
    failed = bool(denied)
    for topic in request.topic_data:
        if uses_topic_ids:
            of_topic = partitions.by_id.get(topic.topic_id)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            of_topic = partitions.by_name.get(topic.name)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        rows: list[PartitionProduceResponse] = []
        messages_in = bytes_in = 0
        name = topic.name
        for data in topic.partition_data:
            partition = of_topic.get(data.index) if of_topic is not None else None
            try:
                if partition is None:
                    partition = replicas.hosting.find(topic.topic_id if uses_topic_ids else topic.name, data.index)
                    if partition is None:
                        raise KafkaError(unknown if of_topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                if partition.is_internal and not _may_write_internal(partition.topic, ground, caller):
                    raise KafkaError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition.topic} is internal: clients cannot write to it"
                    )
                if caller.api_version < FIRST_VERSION_WITH_ZSTD and _is_zstd(data.records):
                    raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
                if not partition.is_alone:
                    partition.check_leader()
                    if acks == ALL:
                        partition.check_in_sync()
            except KafkaError as error:
                row = refused_row(data.index, error)
                if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and partition is not None:
                    misdirected.append((partition, row))
                rows.append(row)
                failed = True
                continue
            name = partition.topic
            row, messages = append_to(
                partition, data.records, timestamp, now, ground, verdicts, refusals.get(partition)
            )
            rows.append(row)
            if row.error_code:
                failed = True
                continue
            if partition.log.high_watermark < row.base_offset + messages:
                if partition.is_alone or partition.log.is_flush_due:
                    unflushed.append(partition)
                if acks == ALL and not partition.is_alone:
                    uncommitted.append((partition, row.base_offset + messages, row))
            messages_in += messages
            bytes_in += len(data.records or b"")
        if bytes_in:
            meter = ground.metrics.topic(name)
            meter.produces += 1
            meter.messages_in += messages_in
            meter.bytes_in += bytes_in
            produced_bytes += bytes_in
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=rows))
    response = ProduceResponse(responses=topics)
    if misdirected and caller.api_version >= FIRST_VERSION_WITH_LEADERS:
        _name_leaders(response, misdirected, ground, caller)
    if quotas.is_produce_quota_set and produced_bytes:
        response.throttle_time_ms = caller.throttle_ms = quotas.record_produced(caller, produced_bytes, now)
    if acks == 0:
        if failed:
            # acks=0 has no answer for the error: as in Kafka, the closed connection shows it to the producer.
            caller.is_refused = True
        for partition in unflushed:
            ground.spawn(partition.flush())
        return None
    flushed = ground.spawn(_answer_when_flushed(response, unflushed, ground)) if unflushed else None
    if uncommitted:
        future: asyncio.Future[ProduceResponse] = ground.loop.create_future()
        DelayedProduceResponse(future, ground.deadlines, response, uncommitted, request.timeout_ms, flushed)
        return future
    return flushed if flushed is not None else response


def _is_zstd(records: memoryview | None) -> bool:
    """Whether the first batch is whole and says that zstd compressed it."""
    return (
        records is not None
        and len(records) >= HEADER_SIZE
        and records[MAGIC_POSITION] == MAGIC
        and LOG_OVERHEAD + _LENGTH.unpack_from(records, LENGTH_POSITION)[0] <= len(records)
        and records[ATTRIBUTES_POSITION] & COMPRESSION_MASK == Compression.ZSTD
    )


async def _answer_when_flushed(
    response: ProduceResponse, partitions: list[Partition], ground: Ground
) -> ProduceResponse:
    # Shielded: a disconnected producer must not stop its records from becoming readable.
    flushes = [asyncio.shield(ground.spawn(partition.flush())) for partition in partitions]
    outcomes = await asyncio.gather(*flushes, return_exceptions=True)
    for partition, outcome in zip(partitions, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            if not isinstance(outcome, OSError | KafkaError):
                raise outcome
            _fail(response, partition)
    return response


def _name_leaders(
    response: ProduceResponse,
    misdirected: list[tuple[Partition, PartitionProduceResponse]],
    ground: Ground,
    caller: Caller,
) -> None:
    """KIP-951: the answer names the leader to a client that asked another broker."""
    leaders: dict[int, None] = {}
    for partition, row in misdirected:
        row.current_leader = LeaderIdAndEpoch(leader_id=partition.leader_id, leader_epoch=partition.leader_epoch)
        leaders[partition.leader_id] = None
    response.node_endpoints = [
        NodeEndpoint(node_id=id, host=host, port=port, rack=rack)
        for id, host, port, rack in ground.brokers(caller.client.listener)
        if id in leaders
    ]


def _fail(response: ProduceResponse, partition: Partition) -> None:
    for topic in response.responses:
        if partition.topic_id == topic.topic_id or partition.topic == topic.name:
            for row in topic.partition_responses:
                if row.index == partition.index:
                    row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                    row.base_offset = -1


def refuse_all(
    request: ProduceRequest, code: ErrorCode, denied: Sequence[TopicProduceResponse] = ()
) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            *denied,
            *(
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                        for data in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ),
        ]
    )


api = Api(
    key=0,
    handler=produce,
    needs=(
        Need(AclOperation.WRITE, AclResource.TOPIC),
        Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID),
        Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),
    ),
    frame=produce_frame,
    frame_rooms=(Ground, Replicas, Quotas),
)
