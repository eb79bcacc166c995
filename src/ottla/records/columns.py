"""Record batches straight into columns: no Python object per record.

A `RecordColumns` has the buffers of Arrow's layout (offsets, data, validity bits, little numbers), of the columns that
are wanted and of no others; it knows nothing of Arrow itself. What is read is checked like everywhere else, by the
kernel's cursor. Cython compiles this file (types in columns.pxd), and it runs as it stands.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import uncompiled as cython

from struct import Struct
from typing import Any, NamedTuple

from ottla.records.batch import LOG_APPEND_TIME_FLAG
from ottla.records.errors import CorruptRecords
from ottla.wire.spares import is_free

if not cython.compiled:
    from ottla.records.kernel import Cursor, cursor_of, native_add, native_int32, native_int64

KEY = 1
VALUE = 2
TOPIC = 4
PARTITION = 8
OFFSET = 16
TIMESTAMP = 32
TIMESTAMP_TYPE = 64
HEADERS = 128

MAX_COLUMN_BYTES = 0x7FFFFFFF
"""The capacity of one column: its offsets are 32 bits wide."""
MIN_RECORD_SIZE = 7
_MAX_INT64 = 0x7FFFFFFFFFFFFFFF
_INT32 = Struct("=i")
_INT64 = Struct("=q")

if not cython.compiled:

    def native_source(cursor: Cursor) -> Any:
        return cursor.data

    def native_view(buffer: bytearray) -> Any:
        return buffer

    def native_grow(buffer: bytearray, size: int) -> None:
        if size > len(buffer):
            buffer.extend(bytes(size - len(buffer)))

    def native_copy(output: Any, position: int, source: Any, start: int, size: int) -> None:
        output[position : position + size] = source[start : start + size]

    def native_put_int32(output: Any, index: int, value: int) -> None:
        _INT32.pack_into(output, 4 * index, value)

    def native_put_int64(output: Any, index: int, value: int) -> None:
        _INT64.pack_into(output, 8 * index, value)


class Binary(NamedTuple):
    """A column of bytes in Arrow's layout."""

    validity: memoryview | None
    """The validity bitmap, one bit a row; None if no row is null."""
    offsets: memoryview
    """Where each row's bytes begin, as int32, and one more for the end."""
    data: memoryview


class BatchRecords:
    """The records of one batch, read from front to back in as many steps as one likes."""

    def __init__(self, buffer: Any, max_decompressed: int) -> None:
        data = buffer
        self.cursor = cursor_of(buffer, data, max_decompressed)
        self.left = native_int32(data, 57)
        if self.left < 0 or self.left > (self.cursor.limit - self.cursor.position) // MIN_RECORD_SIZE:
            raise CorruptRecords(f"{self.left} records in {self.cursor.limit - self.cursor.position} bytes")
        self.base_offset = native_int64(data, 0)
        self.next_offset = self.base_offset
        self.base_timestamp = native_int64(data, 27)
        self.max_timestamp = native_int64(data, 35)
        self.has_own_timestamps = not data[22] & LOG_APPEND_TIME_FLAG

    def left_bytes(self) -> int:
        """The uncompressed size of the remaining records."""
        return self.cursor.limit - self.cursor.position

    def is_empty(self) -> bool:
        return self.left == 0


class BinaryColumn:
    """A column of bytes that grows."""

    def __init__(self) -> None:
        self.offsets = bytearray(4)
        self.data = bytearray()
        self.validity = bytearray()
        self.has_nulls = False
        self.size = 0
        self.row_room = 0
        self.room = 0
        self.offset_view = native_view(self.offsets)
        self.data_view = native_view(self.data)
        self.validity_view = native_view(self.validity)

    def reserve(self, row_count: int, size: int) -> None:
        """Make room for so many rows in all, and for so many more bytes."""
        if row_count > self.row_room:
            self.row_room = max(row_count, self.row_room + (self.row_room >> 1))
            native_grow(self.offsets, 4 * self.row_room + 4)
            self.offset_view = native_view(self.offsets)
            if self.has_nulls:
                native_grow(self.validity, (self.row_room + 7) >> 3)
                self.validity_view = native_view(self.validity)
        if self.size + size > self.room:
            self.room = max(self.size + size, self.room + (self.room >> 1))
            native_grow(self.data, self.room)
            self.data_view = native_view(self.data)

    def put(self, row: int, source: Any, start: int, size: int) -> None:
        """The row's bytes; a negative size is null. There is room for them."""
        if size > 0:
            native_copy(self.data_view, self.size, source, start, size)
            self.size += size
        native_put_int32(self.offset_view, row + 1, self.size)
        if size < 0:
            if not self.has_nulls:
                self.begin_nulls(row)
            self.validity_view[row >> 3] = self.validity_view[row >> 3] & ~(1 << (row & 7))
        elif self.has_nulls:
            self.validity_view[row >> 3] = self.validity_view[row >> 3] | 1 << (row & 7)

    def begin_nulls(self, row: int) -> None:
        """The first null: every row before it is valid."""
        self.has_nulls = True
        native_grow(self.validity, (self.row_room + 7) >> 3)
        self.validity_view = native_view(self.validity)
        index = 0
        while index <= row >> 3:
            self.validity_view[index] = 255
            index += 1

    def finish(self, row_count: int) -> Binary:
        """Views of the buffers, as far as so many rows fill them."""
        native_grow(self.offsets, 4 * row_count + 4)
        native_put_int32(native_view(self.offsets), 0, 0)
        offsets = memoryview(self.offsets)[: 4 * row_count + 4]
        validity = memoryview(self.validity)[: (row_count + 7) >> 3] if self.has_nulls else None
        return Binary(validity, offsets, memoryview(self.data)[: self.size])

    def is_free(self) -> bool:
        return is_free(self.offsets) and is_free(self.data) and is_free(self.validity)

    def clear(self) -> None:
        self.size = 0
        self.has_nulls = False

    def capacity(self) -> int:
        return len(self.offsets) + len(self.data) + len(self.validity)


class NumberColumn:
    """A column of 32 or 64 bits a row that grows."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.data = bytearray()
        self.view = native_view(self.data)

    def reserve(self, row_count: int) -> None:
        native_grow(self.data, self.width * row_count)
        self.view = native_view(self.data)

    def finish(self, row_count: int) -> memoryview:
        self.reserve(row_count)
        return memoryview(self.data)[: self.width * row_count]


class RecordColumns:
    """Records of any number of batches, as columns. `wanted` is a sum of KEY, VALUE and so on.

    What is finished are views of its buffers. When all of them are gone it may begin anew (`renew`), in the memory that
    it has.
    """

    def __init__(self, wanted: int, timestamp_scale: int = 1, max_bytes: int = MAX_COLUMN_BYTES) -> None:
        self.max_bytes = min(max_bytes, MAX_COLUMN_BYTES)
        self.count = 0
        self.header_count = 0
        self.wanted = wanted
        self.room = 0
        self.header_room = 0
        self.timestamp_scale = timestamp_scale
        self.max_timestamp = _MAX_INT64 // timestamp_scale
        self.key = BinaryColumn()
        self.value = BinaryColumn()
        self.topic = NumberColumn(4)
        self.partition = NumberColumn(4)
        self.offset = NumberColumn(8)
        self.timestamp = NumberColumn(8)
        self.timestamp_type = NumberColumn(4)
        self.header_offsets = NumberColumn(4)
        self.header_key = BinaryColumn()
        self.header_value = BinaryColumn()

    def renew(self) -> bool:
        """Empty it, to be filled again; False if a view of its content still exists."""
        number: NumberColumn
        column: BinaryColumn
        for number in self.number_columns():
            if not is_free(number.data):
                return False
        for column in self.binary_columns():
            if not column.is_free():
                return False
        for column in self.binary_columns():
            column.clear()
        self.count = 0
        self.header_count = 0
        return True

    def number_columns(self) -> list[NumberColumn]:
        return [
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.timestamp_type,
            self.header_offsets,
        ]

    def binary_columns(self) -> list[BinaryColumn]:
        return [self.key, self.value, self.header_key, self.header_value]

    def capacity(self) -> int:
        """The number of bytes that fit."""
        number: NumberColumn
        column: BinaryColumn
        size = 0
        for number in self.number_columns():
            size += len(number.data)
        for column in self.binary_columns():
            size += column.capacity()
        return size

    def size(self) -> int:
        """Bytes of keys, values and headers so far."""
        return self.key.size + self.value.size + self.header_key.size + self.header_value.size

    def fits(self, batch: BatchRecords) -> bool:
        """Whether the rest of a batch fits; the first batch always does."""
        return self.count == 0 or self.size() + batch.left_bytes() <= self.max_bytes

    def reserve(self, row_count: int, size: int) -> None:
        wanted = self.wanted
        if row_count > self.room:
            self.room = max(row_count, self.room + (self.room >> 1))
            if wanted & TOPIC:
                self.topic.reserve(self.room)
            if wanted & PARTITION:
                self.partition.reserve(self.room)
            if wanted & OFFSET:
                self.offset.reserve(self.room)
            if wanted & TIMESTAMP:
                self.timestamp.reserve(self.room)
            if wanted & TIMESTAMP_TYPE:
                self.timestamp_type.reserve(self.room)
            if wanted & HEADERS:
                self.header_offsets.reserve(self.room + 1)
        if wanted & KEY:
            self.key.reserve(self.room, size)
        if wanted & VALUE:
            self.value.reserve(self.room, size)
        if wanted & HEADERS:
            self.header_key.reserve(self.header_room, size)
            self.header_value.reserve(self.header_room, size)

    def append(
        self,
        batch: BatchRecords,
        topic: int,
        partition: int,
        start_offset: int,
        end_offset: int,
        max_count: int,
    ) -> int:
        """Append the next records of a batch, at most so many, that lie between two offsets; how many there were.

        CorruptRecords: none of them was appended, and the batch cannot be read any further.
        """
        if self.size() + batch.left_bytes() > MAX_COLUMN_BYTES:
            raise OverflowError(f"a column holds {MAX_COLUMN_BYTES} bytes at most")
        cursor = batch.cursor
        size = batch.left_bytes()
        self.reserve(self.count + min(batch.left, max_count), size)
        key_size, value_size = self.key.size, self.value.size
        header_count = self.header_count
        header_key_size, header_value_size = self.header_key.size, self.header_value.size
        try:
            count = self.read(batch, cursor, topic, partition, start_offset, end_offset, max_count)
            if batch.left == 0:
                cursor.finish()
        except CorruptRecords:
            self.key.size, self.value.size = key_size, value_size
            self.header_count = header_count
            self.header_key.size, self.header_value.size = header_key_size, header_value_size
            raise
        self.count += count
        return count

    def read(
        self,
        batch: BatchRecords,
        cursor: Cursor,
        topic: int,
        partition: int,
        start_offset: int,
        end_offset: int,
        max_count: int,
    ) -> int:
        source = native_source(cursor)
        wanted = self.wanted
        key, value = self.key, self.value
        timestamp_type = 0 if batch.has_own_timestamps else 1
        timestamp = batch.max_timestamp
        row = self.count
        end_row = row + min(max_count, batch.left)
        while batch.left > 0 and row < end_row:
            cursor.advance()
            offset = native_add(batch.base_offset, cursor.offset_delta)
            if offset < start_offset:
                batch.left -= 1
                continue
            if offset >= end_offset:
                cursor.rewind(cursor.start)
                break
            batch.left -= 1
            batch.next_offset = offset + 1
            if wanted & VALUE:
                value.put(row, source, cursor.value_start, cursor.value_size)
            if wanted & KEY:
                key.put(row, source, cursor.key_start, cursor.key_size)
            if wanted & OFFSET:
                native_put_int64(self.offset.view, row, offset)
            if wanted & TIMESTAMP:
                if timestamp_type == 0:
                    timestamp = native_add(batch.base_timestamp, cursor.timestamp_delta)
                native_put_int64(self.timestamp.view, row, self.scaled(timestamp))
            if wanted & PARTITION:
                native_put_int32(self.partition.view, row, partition)
            if wanted & TOPIC:
                native_put_int32(self.topic.view, row, topic)
            if wanted & TIMESTAMP_TYPE:
                native_put_int32(self.timestamp_type.view, row, timestamp_type)
            if wanted & HEADERS:
                native_put_int32(self.header_offsets.view, row, self.header_count)
                if cursor.header_count > 0:
                    self.read_headers(cursor, source)
                native_put_int32(self.header_offsets.view, row + 1, self.header_count)
            row += 1
        return row - self.count

    def scaled(self, timestamp: int) -> int:
        """In the unit that is wanted; what no number can hold becomes the largest there is."""
        if timestamp > self.max_timestamp:
            timestamp = self.max_timestamp
        elif timestamp < -self.max_timestamp:
            timestamp = -self.max_timestamp
        return timestamp * self.timestamp_scale

    def read_headers(self, cursor: Cursor, source: Any) -> None:
        """The headers of the record that the cursor has checked."""
        count = cursor.header_count
        if self.header_count + count > self.header_room:
            self.header_room = max(self.header_count + count, 2 * self.header_room)
            self.header_key.reserve(self.header_room, 0)
            self.header_value.reserve(self.header_room, 0)
        end = cursor.position
        cursor.position = cursor.headers_start
        while count > 0:
            size = cursor.varint()
            self.header_key.put(self.header_count, source, cursor.position, size)
            cursor.position += size
            size = cursor.varint()
            self.header_value.put(self.header_count, source, cursor.position, size)
            if size > 0:
                cursor.position += size
            self.header_count += 1
            count -= 1
        cursor.position = end

    def numbers(self, column: int) -> memoryview:
        """The content of the buffer TOPIC (an index), PARTITION, OFFSET, TIMESTAMP or TIMESTAMP_TYPE."""
        found = {
            TOPIC: self.topic,
            PARTITION: self.partition,
            OFFSET: self.offset,
            TIMESTAMP: self.timestamp,
            TIMESTAMP_TYPE: self.timestamp_type,
        }[column]
        return found.finish(self.count)

    def binary(self, column: int) -> Binary:
        """The buffers of KEY or VALUE."""
        return self.key.finish(self.count) if column == KEY else self.value.finish(self.count)

    def headers(self) -> tuple[memoryview, Binary, Binary, int]:
        """The buffers of the lists' offsets, of the headers' keys and values, and how many headers there
        are."""
        offsets = self.header_offsets.finish(self.count + 1)
        if self.count == 0:
            native_put_int32(self.header_offsets.view, 0, 0)
        return (
            offsets,
            self.header_key.finish(self.header_count),
            self.header_value.finish(self.header_count),
            self.header_count,
        )
