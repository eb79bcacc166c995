"""A record batch that is encoded before it is known who writes it: the producer's fields are stamped when it leaves."""

from __future__ import annotations

from struct import Struct

from ottla.records import kernel
from ottla.records.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    Compression,
    Record,
)
from ottla.records.build import read
from ottla.records.compression import compress

_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_PRODUCER = Struct(">qhi")
PRODUCER_POSITION = 43


class EncodedRecords:
    """The records of one batch, whose header is complete but for producer id, epoch, sequence and CRC."""

    __slots__ = ("_count", "_data", "max_timestamp", "partition", "size")

    def __init__(
        self,
        partition: int,
        content: bytearray,
        count: int,
        base_timestamp: int,
        max_timestamp: int,
        compression: Compression = Compression.NONE,
        level: int | None = None,
    ) -> None:
        """`content` has room for a header in front of its records."""
        self.partition = partition
        self.max_timestamp = max_timestamp
        self._count = count
        if compression is not Compression.NONE:
            packed = compress(compression, memoryview(content)[HEADER_SIZE:], level)
            content = bytearray(HEADER_SIZE)
            content += packed
        self._data = content
        self.size = len(content)
        """Bytes of the whole batch."""
        HEADER.pack_into(
            content,
            0,
            0,
            len(content) - LOG_OVERHEAD,
            -1,
            MAGIC,
            0,
            int(compression),
            count - 1,
            base_timestamp,
            max_timestamp,
            NO_PRODUCER_ID,
            -1,
            NO_SEQUENCE,
            count,
        )

    def __len__(self) -> int:
        """How many records there are."""
        return self._count

    def stamp(
        self,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
    ) -> bytearray:
        """The batch as this producer writes it. The bytes are always the same ones: what was stamped before is gone."""
        data = self._data
        (attributes,) = _ATTRIBUTES.unpack_from(data, CRC_START)
        attributes = attributes | TRANSACTIONAL_FLAG if is_transactional else attributes & ~TRANSACTIONAL_FLAG
        _ATTRIBUTES.pack_into(data, CRC_START, attributes)
        _PRODUCER.pack_into(data, PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
        _CRC.pack_into(data, 17, kernel.crc32c_range(data, CRC_START, len(data)))
        return data

    def records(self) -> list[Record]:
        """The records as objects, for a batch that has to be split."""
        return read(self._data)

    def release(self) -> None:
        """Give the bytes back: the batch is done."""
        self._data = bytearray()
