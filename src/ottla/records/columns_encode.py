"""Columns straight into record batches: no Python object per record.

What comes in are buffers in Arrow's layout with 64-bit offsets, of a slice of rows; what comes out are encoded batches,
one partition's records in each, in the order of the rows. Cython compiles this file (types in columns_encode.pxd), and
it runs as it stands.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import uncompiled as cython

from collections.abc import Sequence
from typing import Any

from ottla.records.batch import HEADER_SIZE
from ottla.records.encoded import EncodedRecords
from ottla.wire.spares import SpareBuffers

ANY = -1
"""The partition of a row that may go anywhere."""
SMALLEST_ROOM = 16 * 1024
FIRST_BYTES = 8 * 1024 * 1024
"""The first size of the open batches of all partitions."""
USUAL_RECORD_OVERHEAD = 14
"""About what one record takes beside key, value and headers. The producer counts the most it can take instead:
MAX_RECORD_OVERHEAD in client/core/accumulator.py."""
HEADER_OVERHEAD = 10
SUM_BYTES = 12 * 1024
"""Records enter their batch's CRC so many bytes at a time, while the processor's nearest cache has them. (A multiple of
what the CRC takes in one step.)"""
MASK_64 = 0xFFFFFFFFFFFFFFFF

if not cython.compiled:
    from ottla.records.columns import native_copy, native_grow, native_view
    from ottla.records.kernel import murmur2, native_crc32c_extend, native_subtract

    def native_hash(data: Any, position: int, size: int) -> int:
        return murmur2(bytes(data[position : position + size]))

    def native_byte(value: int) -> int:
        return value & 0xFF

    def native_buffer(size: int) -> bytearray:
        return bytearray(size)


def as_bytes(buffer: Any) -> memoryview:
    """Any buffer as one of bytes; none at all as an empty one."""
    return memoryview(b"" if buffer is None else buffer).cast("B")


def as_numbers(buffer: Any) -> memoryview[int]:
    """Any buffer as one of whole 64-bit numbers."""
    content = as_bytes(buffer)
    return content[: len(content) // 8 * 8].cast("q")


class BytesColumn:
    """A slice of a column of bytes: `count` rows from row `start` on."""

    def __init__(self, validity: Any, offsets: Any, data: Any, start: int, count: int) -> None:
        self.data = as_bytes(data)
        self.offsets = as_numbers(offsets)
        self.validity = as_bytes(validity)
        self.has_nulls = validity is not None
        self.start = start
        self.count = count
        self.data_size = len(self.data)
        if start < 0 or count < 0 or (len(self.offsets) <= start + count and count > 0):
            raise ValueError(f"{len(self.offsets)} offsets are too few for {count} rows from row {start} on")
        if self.has_nulls and len(self.validity) < (start + count + 7) >> 3:
            raise ValueError(f"{len(self.validity)} bytes of validity are too few for {start + count} rows")

    def is_null(self, row: int) -> bool:
        index = self.start + row
        return self.has_nulls and not self.validity[index >> 3] >> (index & 7) & 1

    def position(self, row: int) -> int:
        return self.offsets[self.start + row]

    def size(self, row: int) -> int:
        """The row's size in bytes; -1 for null."""
        index = self.start + row
        if self.has_nulls and not self.validity[index >> 3] >> (index & 7) & 1:
            return -1
        first = self.offsets[index]
        last = self.offsets[index + 1]
        if first < 0 or last < first or last > self.data_size or last - first > 0x7FFFFFFF:
            raise ValueError(f"row {row} lies at {first} to {last} of {self.data_size} bytes")
        return last - first


class NumberColumn:
    """A slice of a column of 64-bit numbers."""

    def __init__(self, validity: Any, numbers: Any, start: int, count: int) -> None:
        self.numbers = as_numbers(numbers)
        self.validity = as_bytes(validity)
        self.has_nulls = validity is not None
        self.start = start
        self.count = count
        if start < 0 or count < 0 or len(self.numbers) < start + count:
            raise ValueError(f"{len(self.numbers)} numbers are too few for {count} rows from row {start} on")
        if self.has_nulls and len(self.validity) < (start + count + 7) >> 3:
            raise ValueError(f"{len(self.validity)} bytes of validity are too few for {start + count} rows")

    def number(self, row: int, otherwise: int) -> int:
        """The row's number, or the other one for null."""
        index = self.start + row
        if self.has_nulls and not self.validity[index >> 3] >> (index & 7) & 1:
            return otherwise
        return self.numbers[index]


class HeadersColumn:
    """A slice of a column of lists of headers; a null row has no headers."""

    def __init__(
        self, validity: Any, offsets: Any, start: int, count: int, keys: BytesColumn, values: BytesColumn
    ) -> None:
        """The rows are a slice of the lists; keys and values are those of all lists."""
        self.lists = NumberColumn(None, offsets, start, count + 1)
        self.validity = as_bytes(validity)
        self.has_nulls = validity is not None
        self.count = count
        self.keys = keys
        self.values = values
        self.first = 0
        self.end = 0
        if self.has_nulls and len(self.validity) < (start + count + 7) >> 3:
            raise ValueError(f"{len(self.validity)} bytes of validity are too few for {start + count} rows")

    def seek(self, row: int) -> None:
        """Set `first` and `end` to the row's headers."""
        index = self.lists.start + row
        if self.has_nulls and not self.validity[index >> 3] >> (index & 7) & 1:
            self.first = self.end = 0
        else:
            self.first = self.lists.number(row, 0)
            self.end = self.lists.number(row + 1, 0)
            if self.first < 0 or self.end < self.first or self.end > min(self.keys.count, self.values.count):
                raise ValueError(f"row {row} has headers {self.first} to {self.end} of {self.keys.count}")


class Rows:
    """Rows that become records: their values, and what else there is."""

    def __init__(
        self,
        count: int,
        value: BytesColumn | None,
        key: BytesColumn | None = None,
        timestamp: NumberColumn | None = None,
        partition: NumberColumn | None = None,
        headers: HeadersColumn | None = None,
    ) -> None:
        for column in (value, key, timestamp, partition, headers):
            if column is not None and column.count != count:
                raise ValueError(f"a column of {column.count} rows among others of {count}")
        self.count = count
        self.value = value
        self.key = key
        self.timestamp = timestamp
        self.partition = partition
        self.headers = headers

    def row_elsewhere(self, partition_count: int) -> int:
        """The first row that names a partition which does not exist; -1 if there is none."""
        if self.partition is not None:
            row = 0
            while row < self.count:
                partition = self.partition.number(row, 0)
                if partition < 0 or partition >= partition_count:
                    return row
                row += 1
        return -1

    def row_too_large(self, max_record_size: int) -> int:
        """The first row whose record is larger than that; -1 if there is none."""
        row = 0
        while row < self.count:
            if self.size_of(row) > max_record_size:
                return row
            row += 1
        return -1

    def size_of(self, row: int) -> int:
        """About what the row's record takes."""
        size = USUAL_RECORD_OVERHEAD
        if self.value is not None:
            size += max(self.value.size(row), 0)
        if self.key is not None:
            size += max(self.key.size(row), 0)
        if self.headers is not None:
            self.headers.seek(row)
            index = self.headers.first
            while index < self.headers.end:
                if self.headers.keys.is_null(index):
                    raise ValueError(f"row {row} has a header without a key")
                size += HEADER_OVERHEAD + self.headers.keys.size(index) + max(self.headers.values.size(index), 0)
                index += 1
        return size


def varint_size(value: int) -> int:
    zigzag = (value << 1 ^ value >> 63) & MASK_64
    size = 1
    while zigzag > 0x7F:
        zigzag >>= 7
        size += 1
    return size


def write_varint(output: Any, position: int, value: int) -> int:
    """Write at a position; the position behind it."""
    zigzag = (value << 1 ^ value >> 63) & MASK_64
    while zigzag > 0x7F:
        output[position] = native_byte(zigzag | 0x80)
        zigzag >>= 7
        position += 1
    output[position] = native_byte(zigzag)
    return position + 1


class OpenBatch:
    """The batch of one partition that records are written into."""

    def __init__(self, content: bytearray) -> None:
        self.content = content
        self.view = native_view(content)
        self.room = len(content)
        self.position = HEADER_SIZE
        self.summed = HEADER_SIZE
        self.crc = 0
        self.count = 0
        self.base_timestamp = 0
        self.max_timestamp = 0

    def reserve(self, size: int) -> None:
        if self.position + size > self.room:
            self.room = 2 * (self.position + size)
            native_grow(self.content, self.room)
            self.view = native_view(self.content)

    def write_bytes(self, column: BytesColumn | None, row: int, size: int) -> None:
        """A key or value with its size in front; -1 is null."""
        self.position = write_varint(self.view, self.position, size)
        if size > 0 and column is not None:
            native_copy(self.view, self.position, column.data, column.position(row), size)
            self.position += size

    def sum_up(self, end: int) -> None:
        """Let the CRC of the records cover them up to a position."""
        self.crc = native_crc32c_extend(self.crc, self.view, self.summed, end)
        self.summed = end


class TableEncoder:
    """Makes the batches of one topic out of rows. Each partition has one batch that is still filling."""

    def __init__(
        self,
        partition_count: int,
        batch_size: int,
        *,
        anywhere: Sequence[int],
        uses_keys: bool = True,
        is_round_robin: bool = False,
        sums_up: bool = True,
        spares: SpareBuffers | None = None,
    ) -> None:
        """Rows without a partition and a key go to the partitions `anywhere`, a batch full to each in turn, or, if it
        is round robin, one row to each in turn (keys count for nothing then). `sums_up` says that batches will be sent
        as they are: not compressed, so that the CRC is that of what is written here. Batches are written into spare
        buffers, if there are any."""
        if not anywhere or min(anywhere) < 0 or max(anywhere) >= partition_count:
            raise ValueError(f"{list(anywhere)} of {partition_count} partitions")
        self.partition_count = partition_count
        self.batch_size = batch_size
        self.first_room = min(batch_size, max(SMALLEST_ROOM, FIRST_BYTES // partition_count))
        self.uses_keys = uses_keys and not is_round_robin
        self.is_round_robin = is_round_robin
        self.sums_up = sums_up
        self.anywhere = list(anywhere)
        self.spares = SpareBuffers() if spares is None else spares
        self.turn = 0
        self.open: list[OpenBatch | None] = [None] * partition_count
        self.done: list[EncodedRecords] = []
        self.done_bytes = 0
        self.key_size = 0
        self.value_size = 0

    def encode(self, rows: Rows, row: int, timestamp: int, max_bytes: int) -> int:
        """Encode from a row on until about so many bytes of batches are done; the row to go on with. Rows without a
        timestamp get the given one."""
        while row < rows.count and self.done_bytes < max_bytes:
            self.encode_row(rows, row, timestamp)
            row += 1
        return row

    def partition_of(self, rows: Rows, row: int) -> int:
        if rows.partition is not None:
            partition = rows.partition.number(row, ANY)
            if partition != ANY:
                if partition < 0 or partition >= self.partition_count:
                    raise ValueError(f"row {row} names partition {partition} of {self.partition_count}")
                return partition
        if self.uses_keys and self.key_size >= 0 and rows.key is not None:
            hashed = native_hash(rows.key.data, rows.key.position(row), self.key_size)
            return (hashed & 0x7FFFFFFF) % self.partition_count
        return ANY

    def encode_row(self, rows: Rows, row: int, timestamp: int) -> None:
        self.key_size = -1 if rows.key is None else rows.key.size(row)
        self.value_size = -1 if rows.value is None else rows.value.size(row)
        if rows.timestamp is not None:
            timestamp = rows.timestamp.number(row, timestamp)
        partition = self.partition_of(rows, row)
        is_anywhere = partition == ANY
        if is_anywhere:
            partition = self.anywhere[self.turn]
        size = 0
        body = 0
        batch = self.open[partition]
        while batch is not None:
            body = self.body_size(rows, row, native_subtract(timestamp, batch.base_timestamp), batch.count)
            size = varint_size(body) + body
            if batch.position + size <= self.batch_size:
                break
            self.close(partition)
            if is_anywhere and not self.is_round_robin:
                self.turn = (self.turn + 1) % len(self.anywhere)
                partition = self.anywhere[self.turn]
            batch = self.open[partition]
        if batch is None:
            body = self.body_size(rows, row, 0, 0)
            size = varint_size(body) + body
            batch = OpenBatch(self.new_buffer(max(self.first_room, HEADER_SIZE + size)))
            batch.base_timestamp = timestamp
            batch.max_timestamp = timestamp
            self.open[partition] = batch
        if is_anywhere and self.is_round_robin:
            self.turn = (self.turn + 1) % len(self.anywhere)
        batch.reserve(size)
        self.write(batch, rows, row, timestamp, body)

    def body_size(self, rows: Rows, row: int, timestamp_delta: int, offset_delta: int) -> int:
        """The size of a record behind its own size field."""
        size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta)
        size += varint_size(self.key_size) + max(self.key_size, 0)
        size += varint_size(self.value_size) + max(self.value_size, 0)
        if rows.headers is None:
            return size + 1
        headers = rows.headers
        headers.seek(row)
        size += varint_size(headers.end - headers.first)
        index = headers.first
        while index < headers.end:
            part = headers.keys.size(index)
            if part < 0:
                raise ValueError(f"row {row} has a header without a key")
            size += varint_size(part) + part
            part = headers.values.size(index)
            size += varint_size(part) + max(part, 0)
            index += 1
        return size

    def write(self, batch: OpenBatch, rows: Rows, row: int, timestamp: int, body: int) -> None:
        """Write a record; the caller has made room for it."""
        batch.position = write_varint(batch.view, batch.position, body)
        batch.view[batch.position] = 0
        batch.position += 1
        batch.position = write_varint(batch.view, batch.position, native_subtract(timestamp, batch.base_timestamp))
        batch.position = write_varint(batch.view, batch.position, batch.count)
        batch.write_bytes(rows.key, row, self.key_size)
        batch.write_bytes(rows.value, row, self.value_size)
        headers = rows.headers
        if headers is None:
            batch.view[batch.position] = 0
            batch.position += 1
        else:
            batch.position = write_varint(batch.view, batch.position, headers.end - headers.first)
            index = headers.first
            while index < headers.end:
                batch.write_bytes(headers.keys, index, headers.keys.size(index))
                batch.write_bytes(headers.values, index, headers.values.size(index))
                index += 1
        if timestamp > batch.max_timestamp:
            batch.max_timestamp = timestamp
        batch.count += 1
        if self.sums_up:
            while batch.position - batch.summed >= SUM_BYTES:
                batch.sum_up(batch.summed + SUM_BYTES)

    def new_buffer(self, size: int) -> bytearray:
        spare = self.spares.take(size)
        return native_buffer(size) if spare is None else spare

    def close(self, partition: int) -> None:
        """The partition's batch is complete."""
        batch = self.open[partition]
        if batch is None:
            return
        self.open[partition] = None
        crc = None
        if self.sums_up:
            batch.sum_up(batch.position)
            crc = batch.crc
        content = memoryview(batch.content)[: batch.position]
        if batch.position < batch.room // 2:
            content = memoryview(bytearray(content))  # what waits to be sent takes no more memory than it counts for
        self.spares.keep(batch.content)
        self.done.append(
            EncodedRecords(partition, content, batch.count, batch.base_timestamp, batch.max_timestamp, crc)
        )
        self.done_bytes += batch.position

    def close_all(self) -> None:
        partition = 0
        while partition < self.partition_count:
            self.close(partition)
            partition += 1

    def take(self) -> list[EncodedRecords]:
        """The batches that are done, in the order in which they were completed."""
        done, self.done = self.done, []
        self.done_bytes = 0
        return done
