"""TxnOffsetCommit v0-v6: offsets of a group that count when a transaction is committed. Topics have ids instead of
names from v6 on (KIP-1319).

The group's partition of __consumer_offsets is part of the transaction like any other: its coordinator is asked before
the first offsets of a transaction are written (see `transactional_produce`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.coordinators.hosted_shard import coordinator_error
from ottla.broker.coordinators.transactions import (
    CLIENT_VERSION_THAT_ADDS,
    Codes,
    TransactionCoordinator,
    TransactionPartitions,
)
from ottla.broker.coordinators.verification import verification_error
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.groups.offsets import transactional_commit_refused
from ottla.groups.shard import GroupShard
from ottla.records.batch import NO_SEQUENCE
from ottla.transactions import TopicPartition
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.replicas.partitions import Partition
    from ottla.replication.producers import Verification

FIRST_VERSION_THAT_ADDS = 5
FIRST_VERSION_WITH_ABORTABLE_ERRORS = 4
FIRST_VERSION_THAT_KNOWS_LOADING = 2
FIRST_VERSION_WITH_TOPIC_IDS = 6


def txn_offset_commit(
    request: TxnOffsetCommitRequest,
    ground: Ground,
    groups: GroupCoordinator,
    transactions: TransactionCoordinator,
    caller: Caller,
) -> Any:
    if not caller.is_allowed(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, request.transactional_id):
        return transactional_commit_refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, request.group_id):
        return transactional_commit_refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused: list[TxnOffsetCommitResponseTopic] = []
    if caller.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        refused += _named(request, ground)
    request.topics, denied = caller.split(AclOperation.READ, AclResource.TOPIC, request.topics, lambda one: one.name)
    refused += _topics_refused(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    refused += _without_unknown(request, ground)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    try:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        partition = groups.shard(groups.partition_for(request.group_id)).partition
        if request.producer_id < 0:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if request.producer_epoch < 0:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    except KafkaError as error:
        return _refuse(request, error.code, refused, caller)
    adds = caller.api_version >= FIRST_VERSION_THAT_ADDS
    verification = partition.log.producers.begin_verification(
        ground.clock(), request.producer_id, NO_SEQUENCE, request.producer_epoch, supports_epoch_bump=adds
    )
    if verification is None or not (adds or ground.config.transaction_partition_verification_enable):
        return _commit(request, groups, caller, refused, partition, verification)
    asked = TransactionPartitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [TopicPartition(partition.topic, partition.index)],
        CLIENT_VERSION_THAT_ADDS if adds else 0,
    )
    answer = transactions.admit(asked)
    if isinstance(answer, asyncio.Future):
        return _commit_when_admitted(request, groups, caller, refused, partition, verification, answer)
    return _after(request, groups, caller, refused, partition, verification, answer)


async def _commit_when_admitted(
    request: TxnOffsetCommitRequest,
    groups: GroupCoordinator,
    caller: Caller,
    refused: list[TxnOffsetCommitResponseTopic],
    partition: Partition,
    verification: Verification,
    answer: asyncio.Future[Codes],
) -> TxnOffsetCommitResponse:
    committed = _after(request, groups, caller, refused, partition, verification, await answer)
    response: TxnOffsetCommitResponse = committed if isinstance(committed, TxnOffsetCommitResponse) else await committed
    return response


def _after(
    request: TxnOffsetCommitRequest,
    groups: GroupCoordinator,
    caller: Caller,
    refused: list[TxnOffsetCommitResponseTopic],
    partition: Partition,
    verification: Verification,
    codes: Codes,
) -> Any:
    code = codes[TopicPartition(partition.topic, partition.index)]
    if code == ErrorCode.NONE:
        return _commit(request, groups, caller, refused, partition, verification)
    partition.log.producers.end_verification(request.producer_id, request.producer_epoch, verification)
    code = verification_error(code, has_abortable=caller.api_version >= FIRST_VERSION_WITH_ABORTABLE_ERRORS)
    return _refuse(request, coordinator_error(KafkaError(code)).code, refused, caller)


def _commit(
    request: TxnOffsetCommitRequest,
    groups: GroupCoordinator,
    caller: Caller,
    refused: list[TxnOffsetCommitResponseTopic],
    partition: Partition,
    verification: Verification | None,
) -> Any:
    """Write the offsets to the log as records of the transaction, unless the transaction has ended or has another
    producer meanwhile.
    """
    producers = partition.log.producers
    known = producers.producers.get(request.producer_id)
    if known is not None and known.epoch > request.producer_epoch:
        return _refuse(request, ErrorCode.INVALID_PRODUCER_EPOCH, refused, caller)
    is_open = producers.has_ongoing_transaction(request.producer_id, request.producer_epoch)
    if not is_open and producers.verifications.get(request.producer_id) is not verification:
        # A late copy of a marker, or another leader: the client retries (see `transactional_produce.overtaken`).
        return _refuse(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, refused, caller)

    def refuse(request: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
        return _refuse(request, error.code, refused, caller)

    def finish(request: TxnOffsetCommitRequest, response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        response.topics = _merged(refused, response.topics)
        return _in_version(response, caller)

    return groups.run(
        request.group_id,
        GroupShard.commit_transaction_offsets,
        request,
        groups.call(caller),
        refuse,
        finish,
        producer=(request.producer_id, request.producer_epoch),
    )


def _refuse(
    request: TxnOffsetCommitRequest, code: ErrorCode, refused: list[TxnOffsetCommitResponseTopic], caller: Caller
) -> TxnOffsetCommitResponse:
    response = transactional_commit_refused(request, code)
    response.topics = _merged(refused, response.topics)
    return _in_version(response, caller)


def _in_version(response: TxnOffsetCommitResponse, caller: Caller) -> TxnOffsetCommitResponse:
    """Map the error for the oldest producers, which would fail on COORDINATOR_LOAD_IN_PROGRESS."""
    if caller.api_version < FIRST_VERSION_THAT_KNOWS_LOADING:
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    row.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return response


def _topics_refused(topics: list[TxnOffsetCommitRequestTopic], code: ErrorCode) -> list[TxnOffsetCommitResponseTopic]:
    return transactional_commit_refused(TxnOffsetCommitRequest(topics=topics), code).topics


def _named(request: TxnOffsetCommitRequest, ground: Ground) -> list[TxnOffsetCommitResponseTopic]:
    """Fill in the topic names of topic ids; refuse ids without a topic."""
    known: list[TxnOffsetCommitRequestTopic] = []
    unknown: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        image = ground.image.topics_by_id.get(topic.topic_id)
        topic.name = "" if image is None else image.name
        (unknown if image is None else known).append(topic)
    request.topics = known
    return _topics_refused(unknown, ErrorCode.UNKNOWN_TOPIC_ID)


def _without_unknown(request: TxnOffsetCommitRequest, ground: Ground) -> list[TxnOffsetCommitResponseTopic]:
    """Remove partitions that do not exist from the request and answer them with errors."""
    refused: list[TxnOffsetCommitResponseTopic] = []
    known: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        image = ground.image.topics_by_name.get(topic.name)
        there = image.partitions if image is not None else {}
        unknown = [row for row in topic.partitions if row.partition_index not in there]
        if unknown:
            missing = TxnOffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=unknown)
            refused += _topics_refused([missing], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            topic.partitions = [row for row in topic.partitions if row.partition_index in there]
        if topic.partitions:
            known.append(topic)
    if refused:
        request.topics = known
    return refused


def _merged(
    refused: list[TxnOffsetCommitResponseTopic], committed: list[TxnOffsetCommitResponseTopic]
) -> list[TxnOffsetCommitResponseTopic]:
    if not refused:
        return committed
    merged = {(topic.name, topic.topic_id): topic for topic in refused}
    for topic in committed:
        same = merged.setdefault((topic.name, topic.topic_id), topic)
        if same is not topic:
            same.partitions += topic.partitions
    return list(merged.values())


api = Api(
    key=28,
    handler=txn_offset_commit,
    needs=(
        Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID),
        Need(AclOperation.READ, AclResource.GROUP),
        Need(AclOperation.READ, AclResource.TOPIC),
    ),
)
