"""The records of a batch that were encoded together, before their producer id and sequence numbers are known."""

from __future__ import annotations

from ottla.records.batch import HEADER_SIZE, NO_PRODUCER_ID, NO_SEQUENCE, Compression, Record
from ottla.records.build import build, read, seal
from ottla.records.compression import compress


class EncodedRecords:
    """Records of one partition, encoded, behind room for a batch's header."""

    __slots__ = ("_base_timestamp", "_content", "_count", "_crc", "_max_timestamp", "partition", "size")

    timestamps: tuple[int, ...] = ()
    """They are in the records only."""

    def __init__(
        self,
        partition: int,
        content: memoryview,
        count: int,
        base_timestamp: int,
        max_timestamp: int,
        crc: int | None = None,
    ) -> None:
        """`crc` is that of the records alone, if the encoder computed it."""
        self.partition = partition
        self.size = len(content)
        """Bytes of the whole batch, before compression."""
        self._content = content
        self._count = count
        self._base_timestamp = base_timestamp
        self._max_timestamp = max_timestamp
        self._crc = crc

    def __len__(self) -> int:
        """How many records there are."""
        return self._count

    def build(
        self,
        *,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
    ) -> memoryview:
        """The whole batch. Without compression these are the same bytes each time: what was built before changes."""
        batch = self._content
        if compression is not Compression.NONE:
            compressed = compress(compression, self._content[HEADER_SIZE:], level)
            batch = memoryview(bytearray(HEADER_SIZE) + compressed)
        seal(
            batch,
            count=self._count,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
            records_crc=self._crc if compression is Compression.NONE else None,
        )
        return batch

    def halves(self) -> tuple[EncodedRecords, EncodedRecords]:
        """Two with half of the records each, for a batch that a broker finds too large."""
        records = read(self.build())
        half = self._count // 2
        return self._of(records[:half]), self._of(records[half:])

    def _of(self, records: list[Record]) -> EncodedRecords:
        timestamps = [record.timestamp for record in records]
        return EncodedRecords(self.partition, memoryview(build(records)), len(records), timestamps[0], max(timestamps))
