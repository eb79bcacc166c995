"""All work on single records, written once: Cython compiles this file (types in kernel.pxd), and it runs as it stands.

Compiled, a record costs 20 to 100 ns here; as plain Python about a microsecond. The compiled and the plain form are
compared in the tests, so keep to what both do alike: no integers beyond 64 bits, no negative indexes.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import uncompiled as cython

from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.records.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC_START,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    MAX_SCHEMA_COUNT,
    NO_TIMESTAMP,
    Compression,
    Record,
    RecordError,
    Validated,
)
from ottla.records.compression import compress, decompress
from ottla.records.errors import CorruptRecords

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

CORRUPT_MESSAGE = 2
INVALID_TIMESTAMP = 32
INVALID_RECORD = 87

SCHEMA_ID = 1
SCHEMA_GUID = 2
NO_SCHEMA = 3
NO_FIELD = 4
"""The schema that a key or value names: an id, a GUID or none; or the key or value is null and needs none."""
ID_SIZE = 5
GUID_SIZE = 17
"""A byte (0 or 1) and the id or the GUID, as Confluent's serializers write them before a value or into a header."""

WITHOUT_KEY = "Compacted topic cannot accept message without key"
MAX_RECORD_ERRORS = 1000
"""A refused batch names this many of its records at most, so that an answer cannot be larger than the question."""

MAX_SIZE = 0x7FFFFFFFFFFFFFFF
MURMUR2_SEED = 0x9747B28C
MURMUR2_FACTOR = 0x5BD1E995
MASK_32 = 0xFFFFFFFF
MASK_64 = 0xFFFFFFFFFFFFFFFF
POLYNOMIAL = 0x82F63B78
"""CRC-32C's, as all polynomials here: the highest bit belongs to the lowest power."""
X_TO_THE_0 = 0x80000000
X_TO_THE_8 = 0x00800000
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_NO_ERRORS: list[RecordError] = []

if not cython.compiled:
    from array import array
    from hashlib import blake2b

    import google_crc32c

    def native_crc32c(data: Any, start: int, end: int) -> int:
        value: int = google_crc32c.value(bytes(memoryview(data)[start:end]))
        return value

    native_crc32c_by_table = native_crc32c

    def native_crc32c_extend(crc: int, data: Any, start: int, end: int) -> int:
        value: int = google_crc32c.extend(crc, bytes(memoryview(data)[start:end]))
        return value

    def native_murmur2(data: bytes) -> int:
        size = len(data)
        h = MURMUR2_SEED ^ size
        end = size & ~3
        for position in range(0, end, 4):
            k = int.from_bytes(data[position : position + 4], "little") * MURMUR2_FACTOR & MASK_32
            k = (k ^ k >> 24) * MURMUR2_FACTOR & MASK_32
            h = h * MURMUR2_FACTOR & MASK_32 ^ k
        if end < size:
            h = (h ^ int.from_bytes(data[end:], "little")) * MURMUR2_FACTOR & MASK_32
        h = (h ^ h >> 13) * MURMUR2_FACTOR & MASK_32
        return h ^ h >> 15

    def native_cut(data: Any, start: int, end: int) -> bytes:
        return bytes(data[start:end])

    def native_tuple(
        kind: type, topic: str, partition: int, offset: int, timestamp: int, key: Any, value: Any, headers: Any
    ) -> Any:
        made: Any = tuple.__new__(kind, (topic, partition, offset, timestamp, key, value, headers))
        return made

    def native_add(left: int, right: int) -> int:
        return (left + right + 0x8000000000000000 & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000

    def native_subtract(left: int, right: int) -> int:
        return native_add(left, -right)

    def native_offset(stored: int) -> int:
        return stored - 1

    def native_int32(data: Any, position: int) -> int:
        value: int = _INT32.unpack_from(data, position)[0]
        return value

    def native_uint32(data: Any, position: int) -> int:
        value: int = _UINT32.unpack_from(data, position)[0]
        return value

    def native_int64(data: Any, position: int) -> int:
        value: int = _INT64.unpack_from(data, position)[0]
        return value

    def native_slots(count: int) -> Any:
        return array("Q", bytes(24)) * count

    def native_free(slots: Any) -> None:
        del slots[:]

    def native_extend(output: bytearray, data: Any, start: int, end: int) -> None:
        output += data[start:end]

    def native_record(
        output: bytearray,
        position: int,
        limit: int,
        timestamp_delta: int,
        offset_delta: int,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
    ) -> int:
        body = bytearray(1)
        write_varint(body, timestamp_delta)
        write_varint(body, offset_delta)
        for field in (key, value):
            write_varint(body, -1 if field is None else len(field))
            if field is not None:
                body += field
        body += headers
        size = bytearray()
        write_varint(size, len(body))
        end = position + len(size) + len(body)
        if end > limit:
            return -1
        output[position:] = size + body
        return end

    def native_digest(offset_map: Any, data: Any, start: int, end: int) -> None:
        digest = blake2b(data[start:end], digest_size=16, key=offset_map.seed).digest()
        offset_map.high = int.from_bytes(digest[:8], "little")
        offset_map.low = int.from_bytes(digest[8:], "little")


def is_compiled() -> bool:
    return bool(cython.compiled)


def crc32c(buffer: Buffer) -> int:
    """CRC-32C (Castagnoli) of a whole buffer, without copying it when compiled."""
    with memoryview(buffer) as view:
        return crc32c_range(view, 0, view.nbytes)


def crc32c_range(data: Any, start: int, end: int) -> int:
    """CRC-32C of data[start:end]."""
    if start < 0 or end < start or end > len(data):
        raise IndexError(f"{start}:{end} of {len(data)} bytes")
    if start == end:
        return 0
    return native_crc32c(data, start, end)


def crc32c_joined(first: int, second: int, second_size: int) -> int:
    """CRC-32C of two pieces one behind the other, out of each one's own: what the second piece's bytes do to the first
    one's CRC is a product with a power of x, whatever they are."""
    power = X_TO_THE_8
    while second_size > 0:
        if second_size & 1:
            first = polynomial_product(first, power)
        power = polynomial_product(power, power)
        second_size >>= 1
    return first ^ second


def polynomial_product(one: int, other: int) -> int:
    """The product of two polynomials over the field of two elements, modulo CRC-32C's."""
    result = 0
    while one:
        if one & X_TO_THE_0:
            result ^= other
        one = one << 1 & MASK_32
        other = other >> 1 ^ POLYNOMIAL if other & 1 else other >> 1
    return result


def crc32c_by_table(data: Any) -> int:
    """The way for processors without the instruction; exported so that tests reach it on other processors."""
    return native_crc32c_by_table(data, 0, len(data)) if len(data) else 0


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 of a key, as an unsigned number (Java's int with the same bits)."""
    return native_murmur2(data)


def partition_for_key(key: bytes, partition_count: int) -> int:
    """`toPositive(murmur2(key)) % partition_count`: the sign bit is cleared, not the number negated."""
    return (native_murmur2(key) & 0x7FFFFFFF) % partition_count


class Cursor:
    """Steps through the records of one batch; the fields describe the record that `advance` read last."""

    def __init__(self, data: Any, position: int, limit: int) -> None:
        self.data = data
        self.position = position
        self.limit = limit
        self.end = limit
        self.start = position
        self.attributes = 0
        self.timestamp_delta = 0
        self.rest_start = 0
        self.offset_delta = 0
        self.key_start = 0
        self.key_size = 0
        self.value_start = 0
        self.value_size = 0
        self.header_count = 0
        self.headers_start = 0
        self.schema_start = 0

    def varint(self) -> int:
        value: int = 0
        shift = 0
        position = self.position
        end = self.end
        if position < end:
            value = self.data[position]
            if value < 0x80:
                self.position = position + 1
                return value >> 1 ^ -(value & 1)
            value = 0
        while shift < 35:
            if position >= end:
                raise CorruptRecords("a varint runs past the end of its record")
            byte = self.data[position]
            position += 1
            value = (value | (byte & 0x7F) << shift) & MASK_32
            if byte < 0x80:
                self.position = position
                return value >> 1 ^ -(value & 1)
            shift += 7
        raise CorruptRecords("a varint is longer than 5 bytes")

    def varlong(self) -> int:
        value: int = 0
        shift = 0
        position = self.position
        end = self.end
        if position < end:
            value = self.data[position]
            if value < 0x80:
                self.position = position + 1
                return value >> 1 ^ -(value & 1)
            value = 0
        while shift < 70:
            if position >= end:
                raise CorruptRecords("a varlong runs past the end of its record")
            byte = self.data[position]
            bits = byte & 0x7F
            position += 1
            value = (value | bits << shift) & MASK_64
            if byte < 0x80:
                self.position = position
                return value >> 1 ^ -(value & 1)
            shift += 7
        raise CorruptRecords("a varlong is longer than 10 bytes")

    def skip(self, size: int) -> None:
        """Pass over a key or value; a negative size is null and has no bytes."""
        if size > 0:
            if size > self.end - self.position:
                raise CorruptRecords(f"a field of {size} bytes in a record that has {self.end - self.position} left")
            self.position += size

    def advance(self) -> None:
        """Read the next record's frame and check all of it, headers included."""
        self.start = self.position
        self.end = self.limit
        size = self.varint()
        if size < 0 or size > self.limit - self.position:
            raise CorruptRecords(f"a record of {size} bytes in a batch that has {self.limit - self.position} left")
        self.end = self.position + size
        if size == 0:
            raise CorruptRecords("an empty record")
        self.attributes = self.data[self.position]
        self.position += 1
        self.timestamp_delta = self.varlong()
        self.rest_start = self.position
        self.offset_delta = self.varint()
        self.key_size = self.varint()
        self.key_start = self.position
        self.skip(self.key_size)
        self.value_size = self.varint()
        self.value_start = self.position
        self.skip(self.value_size)
        count = self.varint()
        if count < 0 or count > self.end - self.position:
            raise CorruptRecords(f"{count} headers in a record that has {self.end - self.position} bytes left")
        self.header_count = count
        self.headers_start = self.position
        while count > 0:
            size = self.varint()
            if size < 0:
                raise CorruptRecords(f"a header key of {size} bytes")
            self.skip(size)
            self.skip(self.varint())
            count -= 1
        if self.position != self.end:
            raise CorruptRecords(f"a record that says it is {self.end - self.position} bytes longer than its fields")

    def key(self) -> bytes | None:
        """The key of the record at which `advance` stopped; None for a null key."""
        return native_cut(self.data, self.key_start, self.key_start + self.key_size) if self.key_size >= 0 else None

    def value(self) -> bytes | None:
        if self.value_size < 0:
            return None
        return native_cut(self.data, self.value_start, self.value_start + self.value_size)

    def rewind(self, position: int) -> None:
        self.position = position

    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """The headers of the record that `advance` has checked."""
        end = self.position
        self.position = self.headers_start
        headers: list[tuple[str, bytes | None]] = []
        count = self.header_count
        while count > 0:
            size = self.varint()
            key = native_cut(self.data, self.position, self.position + size).decode("utf-8", "surrogateescape")
            self.position += size
            size = self.varint()
            if size < 0:
                headers.append((key, None))
            else:
                headers.append((key, native_cut(self.data, self.position, self.position + size)))
                self.position += size
            count -= 1
        self.position = end
        return tuple(headers)

    def find_schema(self, name: Any, is_key: bool) -> int:
        """What the key or value of the record that `advance` has checked says of its schema: SCHEMA_ID or SCHEMA_GUID
        (behind `schema_start`), NO_SCHEMA or NO_FIELD. A header of this name counts more than the first bytes."""
        start = self.key_start if is_key else self.value_start
        size = self.key_size if is_key else self.value_size
        if size < 0:
            return NO_FIELD
        count = self.header_count
        if count > 0:
            end = self.position
            self.position = self.headers_start
            while count > 0:
                name_size = self.varint()
                is_named = name_size == len(name) and starts_with(self.data, self.position, name)
                self.position += name_size
                value_size = self.varint()
                if is_named:
                    start = self.position
                    size = value_size
                    break
                if value_size > 0:
                    self.position += value_size
                count -= 1
            self.position = end
        self.schema_start = start + 1
        if size >= ID_SIZE and self.data[start] == 0:
            return SCHEMA_ID
        if size >= GUID_SIZE and self.data[start] == 1:
            return SCHEMA_GUID
        return NO_SCHEMA

    def finish(self) -> None:
        if self.position != self.limit:
            raise CorruptRecords(f"{self.limit - self.position} bytes left behind the last record")


def starts_with(data: Any, position: int, name: Any) -> bool:
    """Whether a name is at a position; the caller has checked that enough bytes follow."""
    size = len(name)
    index = 0
    while index < size:
        if data[position + index] != name[index]:
            return False
        index += 1
    return True


def cursor_of(buffer: Any, data: Any, max_decompressed: int) -> Cursor:
    """A cursor before the first record of a batch, decompressed if need be."""
    size = len(data)
    if size < HEADER_SIZE or native_int32(data, 8) != size - 12 or data[16] != MAGIC:
        raise CorruptRecords("not one whole batch of magic 2")
    codec = data[22] & COMPRESSION_MASK
    if codec == 0:
        return Cursor(data, HEADER_SIZE, size)
    records = decompress(codec, memoryview(buffer)[HEADER_SIZE:], max_decompressed)
    return Cursor(records, 0, len(records))


def refused(error: int, message: str, record_errors: list[RecordError]) -> Validated:
    return Validated(error, message, record_errors, NO_TIMESTAMP, -1, False)


def check(
    buffer: Any,
    verify_crc: bool,
    timestamp: int,
    earliest: int,
    latest: int,
    log_append_time: bool,
    requires_key: bool,
    is_client: bool,
    max_decompressed: int,
    max_record: int,
) -> Validated:
    """What Kafka's LogValidator checks of one batch that a producer sent; the buffer holds the batch and no more."""
    data = buffer
    size = len(data)
    if size < HEADER_SIZE or native_int32(data, 8) != size - 12:
        return refused(CORRUPT_MESSAGE, "the batch is not as long as it says", [])
    if verify_crc and native_crc32c(data, CRC_START, size) != native_uint32(data, 17):
        return refused(CORRUPT_MESSAGE, "the batch does not have the CRC it says", [])
    attributes = data[22]
    count = native_int32(data, 57)
    if is_client:
        last_offset_delta = native_int32(data, 23)
        if count <= 0 or last_offset_delta != count - 1:
            return refused(INVALID_RECORD, f"a batch of {count} records whose last has delta {last_offset_delta}", [])
        if attributes & CONTROL_FLAG:
            return refused(INVALID_RECORD, "clients may not write control records", [])
        if native_int64(data, 43) > -1 and native_int32(data, 53) < 0:
            return refused(INVALID_RECORD, "a batch with a producer id and no sequence", [])
    has_log_append_time = attributes & LOG_APPEND_TIME_FLAG
    is_compressed = attributes & 7
    base_timestamp = native_int64(data, 27)
    record_timestamp = native_int64(data, 35)
    max_timestamp = NO_TIMESTAMP
    index_of_max = -1
    index = 0
    is_in_place = True
    error = 0
    record_errors = _NO_ERRORS
    try:
        if count < 0:
            raise CorruptRecords(f"{count} records")
        cursor = cursor_of(buffer, data, max_decompressed)
        while index < count:
            cursor.advance()
            if is_compressed and cursor.end - cursor.start > max_record:
                size_of_record = cursor.end - cursor.start
                raise CorruptRecords(
                    f"a record has {size_of_record} bytes, max.decompressed.message.bytes is {max_record}"
                )
            if not has_log_append_time:
                record_timestamp = native_add(base_timestamp, cursor.timestamp_delta)
            if cursor.offset_delta != index:
                is_in_place = False
            if record_timestamp > max_timestamp:
                max_timestamp = record_timestamp
                index_of_max = index
            problem = 0
            if requires_key and cursor.key_size < 0:
                problem = INVALID_RECORD
            elif not log_append_time and record_timestamp != NO_TIMESTAMP:
                if record_timestamp < earliest or record_timestamp > latest:
                    problem = INVALID_TIMESTAMP
            elif has_log_append_time:
                problem = INVALID_TIMESTAMP
            if problem != 0:
                if error == 0:
                    record_errors = []
                if error != INVALID_TIMESTAMP:
                    error = problem
                if len(record_errors) < MAX_RECORD_ERRORS:
                    if problem == INVALID_RECORD:
                        message = WITHOUT_KEY
                    elif not log_append_time and record_timestamp != NO_TIMESTAMP:
                        message = out_of_range(cursor.offset_delta, record_timestamp, earliest, latest)
                    else:
                        sizes = (max(cursor.key_size, 0), max(cursor.value_size, 0))
                        message = wrong_type(cursor.offset_delta, record_timestamp, sizes)
                    record_errors.append(RecordError(index, message))
            index += 1
        cursor.finish()
    except CorruptRecords as corrupt:
        return refused(INVALID_RECORD, str(corrupt), [])
    if error != 0:
        return refused(error, "One or more records have been rejected due to invalid timestamp", record_errors)
    if log_append_time:
        max_timestamp = timestamp
    return tuple.__new__(Validated, (0, None, [], max_timestamp, index_of_max, is_in_place))


def out_of_range(offset: int, timestamp: int, earliest: int, latest: int) -> str:
    return (
        f"Timestamp {timestamp} of message with offset {offset} is out of range. "
        f"The timestamp should be within [{earliest}, {latest}]"
    )


def wrong_type(offset: int, timestamp: int, sizes: tuple[int, int]) -> str:
    """Kafka's sentence about a record whose producer set the timestamp type; it names the class of Kafka's record."""
    record = f"DefaultRecord(offset={offset}, timestamp={timestamp}, key={sizes[0]} bytes, value={sizes[1]} bytes)"
    return f"Invalid timestamp type in message {record}. Producer should not set timestamp type to LogAppendTime."


def read(buffer: Any, max_decompressed: int) -> list[Record]:
    """Every record of one batch as an object. The CRC is not looked at."""
    data = buffer
    cursor = cursor_of(buffer, data, max_decompressed)
    count = native_int32(data, 57)
    if count < 0:
        raise CorruptRecords(f"{count} records")
    has_own_timestamps = not data[22] & LOG_APPEND_TIME_FLAG
    base_offset = native_int64(data, 0)
    base_timestamp = native_int64(data, 27)
    timestamp = native_int64(data, 35)
    records: list[Record] = []
    if count == 0:
        return records
    while count > 0:
        cursor.advance()
        if has_own_timestamps:
            timestamp = native_add(base_timestamp, cursor.timestamp_delta)
        headers = cursor.headers() if cursor.header_count else ()
        offset = native_add(base_offset, cursor.offset_delta)
        records.append(tuple.__new__(Record, (offset, timestamp, cursor.key(), cursor.value(), headers)))
        count -= 1
    cursor.finish()
    return records


def read_partition(
    buffer: Any, kind: type, topic: str, partition: int, start_offset: int, max_decompressed: int
) -> list[Any]:
    """The records of one batch from an offset on, each as a `kind` of tuple with topic, partition, offset, timestamp,
    key, value and headers. The CRC is not looked at."""
    data = buffer
    cursor = cursor_of(buffer, data, max_decompressed)
    count = native_int32(data, 57)
    if count < 0:
        raise CorruptRecords(f"{count} records")
    has_own_timestamps = not data[22] & LOG_APPEND_TIME_FLAG
    base_offset = native_int64(data, 0)
    base_timestamp = native_int64(data, 27)
    timestamp = native_int64(data, 35)
    records: list[Any] = []
    if count == 0:
        return records
    while count > 0:
        cursor.advance()
        count -= 1
        offset = native_add(base_offset, cursor.offset_delta)
        if offset < start_offset:
            continue
        if has_own_timestamps:
            timestamp = native_add(base_timestamp, cursor.timestamp_delta)
        headers = cursor.headers() if cursor.header_count else ()
        records.append(native_tuple(kind, topic, partition, offset, timestamp, cursor.key(), cursor.value(), headers))
    cursor.finish()
    return records


def find_timestamp(buffer: Any, timestamp: int, start_offset: int, max_decompressed: int) -> tuple[int, int] | None:
    """Offset and timestamp of the first record at or after both a timestamp and an offset."""
    data = buffer
    cursor = cursor_of(buffer, data, max_decompressed)
    count = native_int32(data, 57)
    has_own_timestamps = not data[22] & LOG_APPEND_TIME_FLAG
    base_offset = native_int64(data, 0)
    base_timestamp = native_int64(data, 27)
    record_timestamp = native_int64(data, 35)
    while count > 0:
        cursor.advance()
        if has_own_timestamps:
            record_timestamp = native_add(base_timestamp, cursor.timestamp_delta)
        if record_timestamp >= timestamp:
            offset = native_add(base_offset, cursor.offset_delta)
            if offset >= start_offset:
                return offset, record_timestamp
        count -= 1
    return None


def schema_ids(buffer: Any, header: bytes, is_key: bool, max_decompressed: int) -> dict[Any, int]:
    """The schemas that the keys or values of one batch name, each with the index of the first record that does: a
    number, the 16 bytes of a GUID, or None for a record that names no schema. Records whose key or value is null are
    passed over. With more than MAX_SCHEMA_COUNT schemas the rest of the batch is not looked at. CorruptRecords if the
    batch cannot be read."""
    data = buffer
    name = header
    cursor = cursor_of(buffer, data, max_decompressed)
    count = native_int32(data, 57)
    found: dict[Any, int] = {}
    index = 0
    last_kind = 0
    last_high = 0
    last_low = 0
    high = 0
    low = 0
    while index < count:
        cursor.advance()
        kind = cursor.find_schema(name, is_key)
        if kind != NO_FIELD:
            if kind == SCHEMA_ID:
                high = native_uint32(cursor.data, cursor.schema_start)
            elif kind == SCHEMA_GUID:
                high = native_int64(cursor.data, cursor.schema_start)
                low = native_int64(cursor.data, cursor.schema_start + 8)
            if kind != last_kind or high != last_high or low != last_low:
                last_kind = kind
                last_high = high
                last_low = low
                found.setdefault(named_schema(cursor, kind), index)
                if len(found) > MAX_SCHEMA_COUNT:
                    return found
        index += 1
    cursor.finish()
    return found


def named_schema(cursor: Cursor, kind: int) -> Any:
    if kind == SCHEMA_ID:
        return native_uint32(cursor.data, cursor.schema_start)
    if kind == SCHEMA_GUID:
        return native_cut(cursor.data, cursor.schema_start, cursor.schema_start + GUID_SIZE - 1)
    return None


def records_of_schemas(
    buffer: Any, header: bytes, is_key: bool, schemas: Any, max_decompressed: int
) -> list[tuple[int, Any]]:
    """Index and schema of records whose key or value names one of these schemas, at most MAX_RECORD_ERRORS."""
    data = buffer
    name = header
    cursor = cursor_of(buffer, data, max_decompressed)
    count = native_int32(data, 57)
    found: list[tuple[int, Any]] = []
    index = 0
    while index < count and len(found) < MAX_RECORD_ERRORS:
        cursor.advance()
        kind = cursor.find_schema(name, is_key)
        if kind != NO_FIELD:
            schema = named_schema(cursor, kind)
            if schema in schemas:
                found.append((index, schema))
        index += 1
    return found


def write_varint(output: bytearray, value: int) -> None:
    zigzag = (value << 1 ^ value >> 63) & MASK_64
    while zigzag > 0x7F:
        output.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    output.append(zigzag)


def encode(records: Iterable[Record], base_timestamp: int, output: bytearray) -> tuple[int, int]:
    """Append records with offset deltas 0, 1, 2, ... to a buffer; their count and largest timestamp."""
    count = 0
    max_timestamp = NO_TIMESTAMP
    filled = len(output)
    for record in records:
        _, timestamp, key, value, headers = record
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        filled = write_record(output, filled, MAX_SIZE, timestamp - base_timestamp, count, key, value, headers)
        count += 1
    del output[filled:]
    return count, max_timestamp


def write_record(
    output: bytearray,
    position: int,
    limit: int,
    timestamp_delta: int,
    offset_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Iterable[tuple[str, bytes | None]],
) -> int:
    """Write one record at a position of a buffer, which grows if it must; the position behind it, or -1 if that would
    be beyond the limit. What stands behind the position afterwards has no meaning."""
    if key is not None and type(key) is not bytes:
        key = bytes(key)
    if value is not None and type(value) is not bytes:
        value = bytes(value)
    return native_record(
        output,
        position,
        limit,
        timestamp_delta,
        offset_delta,
        key,
        value,
        encode_headers(headers) if headers else b"\0",
    )


def encode_headers(headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    output = bytearray()
    pairs = list(headers)
    write_varint(output, len(pairs))
    for name, content in pairs:
        encoded = name.encode("utf-8", "surrogateescape")
        write_varint(output, len(encoded))
        output += encoded
        if content is None:
            output.append(1)
        else:
            write_varint(output, len(content))
            output += content
    return bytes(output)


class OffsetMap:
    """The latest offset of every key in the dirty part of a log, in a fixed amount of memory.

    24 bytes a key: a 128-bit keyed hash and an offset, in an open-addressed table. Two keys with one hash would be one
    key to the cleaner; with 128 bits and a seed that producers do not know, that does not happen. (Kafka's
    SkimpyOffsetMap relies on MD5 in the same way.)
    """

    def __init__(self, slot_count: int, seed: bytes) -> None:
        if slot_count < 1:
            raise ValueError(f"{slot_count} slots")
        if len(seed) != 16:
            raise ValueError(f"a seed of {len(seed)} bytes")
        self.seed = seed
        self.slot_count = slot_count
        self.size = 0
        self.latest_offset = -1
        self.high = 0
        self.low = 0
        self.slots = native_slots(slot_count)

    def __dealloc__(self) -> None:
        if self.slot_count > 0:
            native_free(self.slots)

    def release(self) -> None:
        """Give the memory back; the map is of no use afterwards. For a thread: 100 MB take the kernel milliseconds."""
        if self.slot_count > 0:
            self.slot_count = 0
            native_free(self.slots)

    def find(self, data: Any, start: int, end: int) -> int:
        """Where the slot of a key is or would be; -1 when the table is full of others."""
        if self.slot_count == 0:
            return -1
        native_digest(self, data, start, end)
        slot = self.high % self.slot_count
        probes = 0
        while probes < self.slot_count:
            index = 3 * slot
            if self.slots[index + 2] == 0:
                return slot
            if self.slots[index] == self.high and self.slots[index + 1] == self.low:
                return slot
            slot += 1
            if slot == self.slot_count:
                slot = 0
            probes += 1
        return -1

    def place(self, data: Any, start: int, end: int, offset: int) -> None:
        slot = self.find(data, start, end)
        if slot < 0:
            raise ValueError("the offset map is full")
        index = 3 * slot
        if self.slots[index + 2] == 0:
            self.size += 1
        self.slots[index] = self.high
        self.slots[index + 1] = self.low
        self.slots[index + 2] = offset + 1  # so that 0 is an empty slot

    def offset_at(self, data: Any, start: int, end: int) -> int:
        slot = self.find(data, start, end)
        if slot < 0:
            return -1
        return native_offset(self.slots[3 * slot + 2])

    def put(self, key: bytes, offset: int) -> None:
        self.place(key, 0, len(key), offset)

    def latest(self, key: bytes) -> int:
        """The latest offset of a key, or -1."""
        return self.offset_at(key, 0, len(key))

    def advance(self, offset: int) -> None:
        """The log has been read up to and with this offset."""
        if offset > self.latest_offset:
            self.latest_offset = offset

    def counts(self) -> tuple[int, int, int]:
        """Keys held, slots, and the offset up to which the log has been read."""
        return self.size, self.slot_count, self.latest_offset


def fill(offset_map: OffsetMap, buffer: Any, start_offset: int, max_size: int, max_decompressed: int) -> bool:
    """Note the offsets of a batch's keys from start_offset on; False when the map reached max_size before its end."""
    data = buffer
    cursor = cursor_of(buffer, data, max_decompressed)
    count = native_int32(data, 57)
    base_offset = native_int64(data, 0)
    while count > 0:
        cursor.advance()
        if cursor.key_size >= 0:
            offset = native_add(base_offset, cursor.offset_delta)
            if offset >= start_offset:
                if offset_map.size >= max_size:
                    return False
                offset_map.place(cursor.data, cursor.key_start, cursor.key_start + cursor.key_size, offset)
        count -= 1
    cursor.finish()
    return True


def retain(
    buffer: Any,
    offset_map: OffsetMap,
    timestamp: int,
    new_delete_horizon: int,
    is_discarded: bool,
    marks_empty_transaction: bool,
    keeps_empty: bool,
    max_decompressed: int,
) -> tuple[Any, int, int]:
    """A batch as compaction leaves it, with how many records it had and keeps: the buffer itself when nothing changes,
    a new one, or None when nothing is left.

    Kept are records past what the map has read, and those that are the latest of their key and not a tombstone whose
    time is over (KIP-534: `timestamp` reached the batch's delete horizon). A batch that still has tombstones, or the
    marker of a transaction with no data left, gets `new_delete_horizon` the first time. Offsets, the last offset delta
    and the producer's fields stay, so sequence numbers survive.
    """
    data = buffer
    cursor = cursor_of(buffer, data, max_decompressed)
    attributes = data[22]
    count = native_int32(data, 57)
    base_offset = native_int64(data, 0)
    base_timestamp = native_int64(data, 27)
    is_control = attributes & CONTROL_FLAG
    has_horizon = attributes & DELETE_HORIZON_FLAG
    has_own_timestamps = not attributes & LOG_APPEND_TIME_FLAG
    keeps_tombstones = not has_horizon or timestamp < base_timestamp
    max_timestamp = NO_TIMESTAMP
    has_tombstone = False
    kept = 0
    index = 0
    if count < 0:
        raise CorruptRecords(f"{count} records")
    choices = bytearray(len(cursor.data) // 7 + 1 if count > len(cursor.data) // 7 else count)
    while index < count:
        cursor.advance()
        if is_discarded:
            is_kept = False
        elif is_control:
            is_kept = True
        else:
            offset = native_add(base_offset, cursor.offset_delta)
            if offset > offset_map.latest_offset:
                is_kept = True
            elif cursor.key_size < 0 or (cursor.value_size < 0 and not keeps_tombstones):
                is_kept = False
            else:
                is_kept = offset >= offset_map.offset_at(
                    cursor.data, cursor.key_start, cursor.key_start + cursor.key_size
                )
        if is_kept:
            choices[index] = 1
            kept += 1
            if cursor.value_size < 0:
                has_tombstone = True
            record_timestamp = native_add(base_timestamp, cursor.timestamp_delta)
            if record_timestamp > max_timestamp:
                max_timestamp = record_timestamp
        index += 1
    if count > 0:
        cursor.finish()
    if not has_own_timestamps:
        max_timestamp = native_int64(data, 35)
    if kept == 0:
        return (empty_batch(buffer) if keeps_empty else None), count, 0
    sets_horizon = (has_tombstone or marks_empty_transaction) and not has_horizon
    if kept == count and not sets_horizon:
        return buffer, count, kept
    output = bytearray()
    cursor.rewind(0 if attributes & COMPRESSION_MASK else HEADER_SIZE)
    index = 0
    while index < count:
        cursor.advance()
        if choices[index]:
            if sets_horizon and has_own_timestamps:
                rebase(output, cursor, base_timestamp, new_delete_horizon)
            else:
                native_extend(output, cursor.data, cursor.start, cursor.position)
        index += 1
    if sets_horizon:
        attributes |= DELETE_HORIZON_FLAG
        base_timestamp = new_delete_horizon
    return assemble(buffer, attributes, base_timestamp, max_timestamp, kept, output), count, kept


def rebase(output: bytearray, cursor: Cursor, base_timestamp: int, new_base_timestamp: int) -> None:
    """Copy a record with its timestamp delta counted from another base."""
    delta = bytearray()
    timestamp = native_add(base_timestamp, cursor.timestamp_delta)
    write_varint(delta, native_subtract(timestamp, new_base_timestamp))
    write_varint(output, 1 + len(delta) + cursor.position - cursor.rest_start)
    output.append(cursor.attributes)
    output += delta
    native_extend(output, cursor.data, cursor.rest_start, cursor.position)


def assemble(
    buffer: Any, attributes: int, base_timestamp: int, max_timestamp: int, count: int, records: bytearray
) -> bytearray:
    """A batch with the header of another and its own records, compressed as the other was."""
    fields = list(HEADER.unpack_from(buffer, 0))
    codec = attributes & COMPRESSION_MASK
    batch = bytearray(HEADER_SIZE)
    batch += compress(Compression(codec), records) if codec and count else records
    fields[1] = len(batch) - 12
    fields[4] = 0
    fields[5] = attributes
    fields[7] = base_timestamp
    fields[8] = max_timestamp
    fields[12] = count
    HEADER.pack_into(batch, 0, *fields)
    _UINT32.pack_into(batch, 17, crc32c_range(batch, CRC_START, len(batch)))
    return batch


def empty_batch(buffer: Any) -> bytearray:
    """The header alone: keeps a producer's last sequence, or the log's last offset, when the records are gone."""
    fields = list(HEADER.unpack_from(buffer, 0))
    attributes = fields[5] & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)
    return assemble(buffer, attributes, NO_TIMESTAMP, fields[8], 0, bytearray())
