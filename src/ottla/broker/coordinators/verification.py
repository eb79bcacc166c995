"""Produce requests of transactional producers: before a partition takes the first batch of a transaction, the
transaction's coordinator is asked (KIP-890), so that a late or repeated batch cannot open a transaction that never
ends.

Clients of protocol version 2 (Produce v12 on) leave adding the partition to the broker; older clients have added it
themselves, and the coordinator is only asked to verify it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.coordinators.transactions import CLIENT_VERSION_THAT_ADDS, Codes, TransactionPartitions
from ottla.records.batch import ATTRIBUTES_POSITION, HEADER_SIZE, TRANSACTIONAL_FLAG
from ottla.transactions import TopicPartition
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.caller import Caller
    from ottla.broker.coordinators.transactions import TransactionCoordinator
    from ottla.broker.replicas.partitions import Partition
    from ottla.replication.producers import Verification
    from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

FIRST_PRODUCE_VERSION_THAT_ADDS = 12
FIRST_PRODUCE_VERSION_WITH_TOPIC_IDS = 13
FIRST_PRODUCE_VERSION_WITH_ABORTABLE_ERRORS = 11
_PRODUCER = Struct(">qhi")  # id, epoch, base sequence
_PRODUCER_POSITION = 43

_PASSING = frozenset(
    [
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ]
)
"""Producers would not expect these of a partition's leader; NOT_ENOUGH_REPLICAS makes them try again."""


class Unverified(NamedTuple):
    """A batch that would open a transaction in its partition."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    verification: Verification


@dataclass(slots=True)
class Verdicts:
    """The coordinator's answers for batches that would open a transaction: refused, or confirmed. Other batches need
    none.
    """

    of: dict[Partition, KafkaError | Unverified] = field(default_factory=dict)
    has_waited: bool = False
    """Whether a marker may have been written, or the leader changed, during the wait."""


Append = Callable[[Verdicts], "ProduceResponse | asyncio.Future[Any] | None"]
"""Appends the request's batches, once it is known which of them may open a transaction."""


def produce_transactional(
    request: ProduceRequest, transactions: TransactionCoordinator, caller: Caller, append: Append
) -> ProduceResponse | asyncio.Future[Any] | None:
    """The answer to a transactional Produce request. KafkaError if all of it is refused."""
    ground = transactions.ground
    adds = caller.api_version >= FIRST_PRODUCE_VERSION_THAT_ADDS
    unverified = _find_unverified(request, transactions, caller, supports_epoch_bump=adds)
    waiting = transactions.delayed_produces
    before = waiting.get(_producer_id(request)) if waiting else None
    codes: Codes | asyncio.Future[Codes]
    if unverified and (adds or ground.config.transaction_partition_verification_enable):
        codes = transactions.admit(_asked(request, unverified, adds))
    elif unverified:
        codes = dict.fromkeys(_names(unverified), ErrorCode.NONE)
    elif before is None:
        return append(Verdicts())
    else:
        codes = {}
    if (
        before is None
        and isinstance(codes, dict)
        and not (adds and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values())
    ):
        return append(_verdicts(unverified, codes, caller.api_version, transactions))
    # The frame's buffer is reused before the answer is ready.
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytearray(data.records))
    appended: asyncio.Future[None] = ground.loop.create_future()
    _note_waiting(appended, waiting, _producer_id(request))
    task = ground.spawn(
        _append_when_admitted(request, transactions, caller, append, unverified, codes, before, appended)
    )
    return None if request.acks == 0 else task


def _note_waiting(appended: asyncio.Future[None], waiting: dict[int, asyncio.Future[None]], producer_id: int) -> None:
    """Remember a waiting request: the producer's next batch must not be appended before it."""

    def ended(_: asyncio.Future[None]) -> None:
        if waiting.get(producer_id) is appended:
            del waiting[producer_id]

    waiting[producer_id] = appended
    appended.add_done_callback(ended)


async def _append_when_admitted(
    request: ProduceRequest,
    transactions: TransactionCoordinator,
    caller: Caller,
    append: Append,
    unverified: list[Unverified],
    codes: Codes | asyncio.Future[Codes],
    before: asyncio.Future[None] | None,
    appended: asyncio.Future[None],
) -> ProduceResponse | None:
    """Wait for the coordinator, and for the batch `before` this one; while the coordinator still ends the previous
    transaction, ask again for a short time.
    """
    try:
        answer = await _append_in_turn(request, transactions, caller, append, unverified, codes, before)
    finally:
        appended.set_result(None)
    if isinstance(answer, asyncio.Future):
        response: ProduceResponse = await answer
        return response
    return answer


async def _append_in_turn(
    request: ProduceRequest,
    transactions: TransactionCoordinator,
    caller: Caller,
    append: Append,
    unverified: list[Unverified],
    codes: Codes | asyncio.Future[Codes],
    before: asyncio.Future[None] | None,
) -> ProduceResponse | asyncio.Future[Any] | None:
    ground = transactions.ground
    if before is not None:
        await asyncio.wait([before])
    config = ground.config
    give_up_at = ground.now() + config.add_partitions_to_txn_retry_backoff_max_ms
    while True:
        if isinstance(codes, asyncio.Future):
            codes = await codes
        if ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values() or ground.now() >= give_up_at:
            break
        await asyncio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)
        # The marker that ends the previous transaction also ends this verification: begin it again.
        unverified = _find_unverified(request, transactions, caller, supports_epoch_bump=True)
        codes = transactions.admit(_asked(request, unverified, adds=True)) if unverified else {}
    verdicts = _verdicts(unverified, codes, caller.api_version, transactions)
    verdicts.has_waited = True
    return append(verdicts)


def _asked(request: ProduceRequest, unverified: list[Unverified], adds: bool) -> TransactionPartitions:
    return TransactionPartitions(
        request.transactional_id or "",
        unverified[0].producer_id,
        unverified[0].producer_epoch,
        _names(unverified),
        CLIENT_VERSION_THAT_ADDS if adds else 0,
    )


def _names(unverified: list[Unverified]) -> list[TopicPartition]:
    return [TopicPartition(one.partition.topic, one.partition.index) for one in unverified]


def is_transactional(request: ProduceRequest) -> bool:
    """Whether a request holds a batch of a transaction."""
    return any(
        data.records is not None
        and len(data.records) > ATTRIBUTES_POSITION
        and data.records[ATTRIBUTES_POSITION] & TRANSACTIONAL_FLAG
        for topic in request.topic_data
        for data in topic.partition_data
    )


def _producer_id(request: ProduceRequest) -> int:
    """The producer of a request's transactional batches; -1 if there are none."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) >= HEADER_SIZE
                and records[ATTRIBUTES_POSITION] & TRANSACTIONAL_FLAG
            ):
                producer_id: int = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)[0]
                return producer_id
    return -1


def _find_unverified(
    request: ProduceRequest, transactions: TransactionCoordinator, caller: Caller, *, supports_epoch_bump: bool
) -> list[Unverified]:
    """The batches that would open a transaction. All transactional batches of a request are of one producer."""
    partitions = transactions.replicas.partitions
    timestamp = transactions.ground.clock()
    unverified: list[Unverified] = []
    producers: dict[tuple[int, int], None] = {}
    for topic in request.topic_data:
        key: bytes | str
        if caller.api_version >= FIRST_PRODUCE_VERSION_WITH_TOPIC_IDS:
            key, of_topic = topic.topic_id, partitions.by_id.get(topic.topic_id)
        else:
            key, of_topic = topic.name, partitions.by_name.get(topic.name)
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < HEADER_SIZE or not records[ATTRIBUTES_POSITION] & TRANSACTIONAL_FLAG:
                continue
            producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
            producers[producer_id, epoch] = None
            if len(producers) > 1:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            partition = of_topic.get(data.index) if of_topic is not None else None
            if partition is None:
                # A new topic's partitions are opened one after the other; the append would open this one, unverified.
                with suppress(KafkaError):  # the append meets the error again, and answers with it
                    partition = transactions.replicas.hosting.find(key, data.index)
            if partition is None or partition.is_internal or producer_id < 0 or not partition.is_leader:
                continue
            verification = partition.log.producers.begin_verification(
                timestamp, producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump
            )
            if verification is not None:
                unverified.append(Unverified(partition, producer_id, epoch, verification))
    return unverified


def is_verified(partition: Partition, verdicts: Verdicts) -> bool:
    """Whether a batch may open a transaction in its partition. A confirmation expires when a marker is written after
    it. KafkaError if the coordinator refused it.
    """
    verdict = verdicts.of.get(partition)
    if verdict is None:
        return False
    if isinstance(verdict, KafkaError):
        raise verdict
    return partition.log.producers.verifications.get(verdict.producer_id) is verdict.verification


def overtaken(error: KafkaError, verdicts: Verdicts | None) -> KafkaError:
    """The error for a producer whose batch the log refused after a wait. Its transaction may still be open: the marker
    was a late copy, or earlier records were truncated when the leader changed. Kafka answers INVALID_TXN_STATE, which
    ends the transaction; here the producer retries, and the coordinator decides again.
    """
    if error.code is not ErrorCode.INVALID_TXN_STATE or verdicts is None or not verdicts.has_waited:
        return error
    return KafkaError(
        ErrorCode.NOT_ENOUGH_REPLICAS, "the partition changed while the transaction's coordinator was asked"
    )


def _verdicts(
    unverified: list[Unverified], codes: Codes, api_version: int, transactions: TransactionCoordinator
) -> Verdicts:
    verdicts = Verdicts()
    for one in unverified:
        partition = one.partition
        code = codes[TopicPartition(partition.topic, partition.index)]
        if code == ErrorCode.NONE:
            verdicts.of[partition] = one
            continue
        transactions.unconfirmed_count += 1
        partition.log.producers.end_verification(one.producer_id, one.producer_epoch, one.verification)
        verdicts.of[partition] = KafkaError(*_for_producer(code, api_version))
    return verdicts


def _for_producer(code: ErrorCode, api_version: int) -> tuple[ErrorCode, str | None]:
    """The coordinator's answer, as an error for the producer."""
    code = verification_error(code, has_abortable=api_version >= FIRST_PRODUCE_VERSION_WITH_ABORTABLE_ERRORS)
    if code in _PASSING or (
        code == ErrorCode.CONCURRENT_TRANSACTIONS and api_version < FIRST_PRODUCE_VERSION_THAT_ADDS
    ):
        return ErrorCode.NOT_ENOUGH_REPLICAS, f"the partition's place in the transaction is not known now: {code.name}"
    if code == ErrorCode.INVALID_TXN_STATE:
        return code, "the partition was not added to the transaction"
    return code, None


def verification_error(code: ErrorCode, *, has_abortable: bool) -> ErrorCode:
    """The coordinator's error mapped to codes that clients of a partition's leader know."""
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and not has_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
