"""Records of a batch that is being filled: each is encoded as it comes, so that a full batch is ready to be sent.

Cython compiles this file (types in buffer.pxd), and it runs as it stands.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import uncompiled as cython

from typing import TYPE_CHECKING, Any

from ottla.records.batch import HEADER_SIZE, NO_TIMESTAMP, Compression
from ottla.records.build import seal
from ottla.records.compression import compress
from ottla.records.kernel import read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

if not cython.compiled:
    from ottla.records.kernel import write_record

FIRST_SIZE = 1024


class RecordBuffer:
    """The records of one batch, encoded; it takes no more than `limit` bytes, but always one record."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = HEADER_SIZE
        """The bytes of the batch so far, before compression."""
        self.count = 0
        self.timestamps: list[int] = []
        """Of each record."""
        self.base_timestamp = 0
        self.max_timestamp = NO_TIMESTAMP
        self.content = bytearray(FIRST_SIZE)

    def __len__(self) -> int:
        return self.count

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> int:
        """The index of the record in the batch; -1 if the batch has no room for it."""
        count = self.count
        limit = self.limit
        moment = timestamp
        if count == 0:
            self.base_timestamp = moment
            limit = 0x7FFFFFFFFFFFFFFF
        end = write_record(self.content, self.size, limit, moment - self.base_timestamp, count, key, value, headers)
        if end < 0:
            return -1
        self.size = end
        self.count = count + 1
        self.timestamps.append(timestamp)
        if moment > self.max_timestamp:
            self.max_timestamp = moment
        return count

    def build(
        self,
        *,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
    ) -> bytearray:
        """The whole batch. Without compression it is the buffer itself: building it again, under other numbers, changes
        what was built before."""
        content = self.content
        del content[self.size :]
        if compression is not Compression.NONE:
            batch = bytearray(HEADER_SIZE)
            batch += compress(compression, memoryview(content)[HEADER_SIZE:], level)
            content = batch
        seal(
            content,
            count=self.count,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
        return content

    def halves(self) -> tuple[RecordBuffer, RecordBuffer]:
        """Two buffers with half of the records each, for a batch that a broker finds too large."""
        records: Any = read(self.build(), len(self.content))
        half = self.count // 2
        halves = RecordBuffer(self.limit), RecordBuffer(self.limit)
        for index, (_, timestamp, key, value, headers) in enumerate(records):
            halves[index >= half].append(timestamp, key, value, headers)
        return halves
