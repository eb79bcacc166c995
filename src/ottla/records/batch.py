"""Record batch v2: the 61 bytes in front of every batch, read and stamped in place.

A batch is stored, replicated and fetched as the bytes the producer sent; the broker only writes its base offset and
leader epoch, which the CRC (bytes 21 onwards) leaves out for exactly that reason.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ottla.records.errors import CorruptRecords, UnsupportedMagic

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""Base offset and length: what comes before the bytes that `length` counts."""
CRC_START = 21
"""The CRC covers everything from the attributes on."""
ATTRIBUTES_POSITION = 22
"""The low byte of the attributes: codec, timestamp type and flags."""

MAGIC = 2
NO_TIMESTAMP = -1
MAX_SCHEMA_COUNT = 100
"""The number of different schemas in one batch that are recorded (`kernel.schema_ids`)."""
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
MAX_SEQUENCE = 0x7FFFFFFF
MAX_PRODUCER_EPOCH = 0x7FFF

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

HEADER = Struct(">qiibIhiqqqhii")
_SIZES = Struct(">qiib")
_LENGTH = Struct(">i")
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")


class Compression(IntEnum):
    """The codec in the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """The fixed fields of one batch, in wire order."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # a tuple's count() is of no use here

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def compression(self) -> Compression:
        """CorruptRecords for the ids 5 to 7, which no codec has."""
        try:
            return Compression(self.attributes & COMPRESSION_MASK)
        except ValueError as error:
            raise CorruptRecords(str(error)) from None

    @property
    def is_compressed(self) -> bool:
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon(self) -> int | None:
        """When the cleaner may drop this batch's tombstones or marker (KIP-534); it lives in the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


class Record(NamedTuple):
    """One record as it was read. Its header keys are UTF-8; bytes that are not come out as surrogates."""

    offset: int = 0
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class RecordError(NamedTuple):
    """Why one record of a produced batch was refused (KIP-467)."""

    batch_index: int
    message: str


class Validated(NamedTuple):
    """The result of checking a produced batch. `error` is Kafka's error code: 0, 2 (CORRUPT_MESSAGE), 32
    (INVALID_TIMESTAMP), 87 (INVALID_RECORD). With an error only `message` and `record_errors` are valid."""

    error: int
    message: str | None
    record_errors: list[RecordError]
    max_timestamp: int
    offset_of_max_timestamp: int
    """Offset delta of the first record that has it. (Kafka's time index holds the batch's last offset instead.)"""
    is_in_place: bool
    """False when offset deltas are not 0, 1, 2, ...: the batch must be rebuilt (`recompress`) before it is stored."""


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at a position; the records behind it need not be there."""
    try:
        header: BatchHeader = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))
    except Exception as error:
        raise CorruptRecords(f"no batch header at {position}: {error}") from None
    if header[3] != MAGIC:
        raise UnsupportedMagic(f"magic {header[3]} at {position}")
    if header[1] < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptRecords(f"batch length {header[1]} at {position} is smaller than a header")
    return header


def split(buffer: Buffer) -> list[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; a batch cut off at the end is left out."""
    end = memoryview(buffer).nbytes
    position = 0
    batches = []
    while end - position >= LOG_OVERHEAD:
        if end - position < HEADER_SIZE:
            if end - position >= _SIZES.size:
                _, length, _, magic = _SIZES.unpack_from(buffer, position)
                if magic != MAGIC:
                    raise UnsupportedMagic(f"magic {magic} at {position}")
                if length < HEADER_SIZE - LOG_OVERHEAD:
                    raise CorruptRecords(f"batch length {length} at {position} is smaller than a header")
            break
        header = read_header(buffer, position)
        size = LOG_OVERHEAD + header[1]
        if size > end - position:
            break
        batches.append((position, header))
        position += size
    return batches


def whole_size(buffer: Buffer) -> int:
    """Bytes of the whole batches that a buffer begins with, by their lengths alone."""
    end = memoryview(buffer).nbytes
    position = 0
    while end - position >= HEADER_SIZE:
        size = LOG_OVERHEAD + _LENGTH.unpack_from(buffer, position + 8)[0]
        if size < HEADER_SIZE or size > end - position:
            break
        position += size
    return position


def stamp(batch: Buffer, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Give a validated batch its place in the log; the CRC leaves these fields out, so it still holds."""
    _BASE_OFFSET.pack_into(batch, position, base_offset)
    _LEADER_EPOCH.pack_into(batch, position + 12, leader_epoch)
