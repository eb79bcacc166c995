"""Used by produce.py and produce_frame.py: appends one batch to one partition's log, or says why not."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from ottla.broker.coordinators.verification import Verdicts, is_verified, overtaken
from ottla.broker.ground import Ground
from ottla.records.batch import ATTRIBUTES_POSITION, LOG_OVERHEAD, MAGIC, TRANSACTIONAL_FLAG
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse

if TYPE_CHECKING:
    from ottla.broker.replicas.partitions import Partition

LENGTH_POSITION = 8
MAGIC_POSITION = 16
LEAST_LENGTH = 14
"""The least length of a message: magic 0, without key and value."""
WITHOUT_START_OFFSET = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""As in Kafka, these refusals do not carry the log's start offset."""

_LENGTH = Struct(">i")
_MAGIC_BYTE = Struct(">b")


def append_to(
    partition: Partition,
    records: memoryview | None,
    timestamp: int,
    now: int,
    ground: Ground,
    verdicts: Verdicts | None = None,
    refusal: KafkaError | None = None,
) -> tuple[PartitionProduceResponse, int]:
    """Append what a request holds for one partition; returns the partition's answer, and how many records the log grew
    by. `refusal`: the error in its schemas.
    """
    try:
        records = check_framing(records)
        may_open = True
        if len(records) > ATTRIBUTES_POSITION and records[ATTRIBUTES_POSITION] & TRANSACTIONAL_FLAG:
            if verdicts is None:
                raise KafkaError(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch without a transactional id"
                )
            may_open = is_verified(partition, verdicts)
    except KafkaError as error:
        ground.metrics.topic(partition.topic).failed_produces += 1
        return refused_row(partition.index, error), 0
    if refusal is not None:
        return refused(partition, refusal, ground), 0
    try:
        appended = partition.append(records, timestamp, now, may_open)
    except KafkaError as error:
        return refused(partition, overtaken(error, verdicts), ground), 0
    row = PartitionProduceResponse(
        index=partition.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time,
        log_start_offset=appended.log_start_offset,
    )
    return row, appended.last_offset - appended.base_offset + 1


def refused(partition: Partition, error: KafkaError, ground: Ground) -> PartitionProduceResponse:
    """The answer for a partition whose log did not take what was sent to it."""
    ground.metrics.topic(partition.topic).failed_produces += 1
    row = refused_row(partition.index, error)
    if error.code not in WITHOUT_START_OFFSET:
        row.log_start_offset = partition.log.log_start_offset
    return row


def refused_row(index: int, error: KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        error_message=error.message,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=message)
            for batch_index, message in getattr(error, "record_errors", ())
        ],
    )


def check_framing(records: memoryview | None) -> memoryview:
    """The records, if they are one whole batch of magic 2; anything else does not reach the log. As in Kafka,
    impossible lengths and magic bytes are CORRUPT_MESSAGE, which producers retry; the rest is INVALID_RECORD, which
    they do not retry.
    """
    if records is None or len(records) == 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request holds no record batch for this partition")
    size = batch_size(records, 0)
    if size < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the record batch is cut off: the request holds {len(records)} bytes of it"
        )
    magic = records[MAGIC_POSITION]
    if magic != MAGIC:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"record batches of magic {magic} are not accepted: magic 2 came with Kafka 0.11"
        )
    if batch_size(records, size) >= 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request holds one record batch per partition, not more")
    return records


def batch_size(records: memoryview, position: int) -> int:
    """The bytes of the batch at a position; -1 if it is not there as a whole. KafkaError CORRUPT_MESSAGE if its length
    or magic byte is one that no message of any version has."""
    left = len(records) - position
    if left < LOG_OVERHEAD:
        return -1
    (length,) = _LENGTH.unpack_from(records, position + LENGTH_POSITION)
    if length < LEAST_LENGTH:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"Record size {length} is less than the minimum record overhead ({LEAST_LENGTH})"
        )
    if left <= MAGIC_POSITION:
        return -1
    (magic,) = _MAGIC_BYTE.unpack_from(records, position + MAGIC_POSITION)
    if not 0 <= magic <= MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    size: int = LOG_OVERHEAD + length
    return size if size <= left else -1
