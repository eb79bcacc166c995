# C types for kernel.py, and the few functions that are C: everything here has a plain twin at the top of that file.
cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

cdef extern from "Python.h":
    object PyType_GenericAlloc(type kind, Py_ssize_t count)
    void PyObject_GC_UnTrack(void *tracked)

cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <string.h>

    /* CRC-32C, reflected polynomial 0x82f63b78. Three lanes run side by side because the instruction has a latency of
       three cycles and a throughput of one; lanes are joined by multiplying with x^(8 * lane), through tables. */
    #define OTTLA_LONG 2048
    #define OTTLA_SHORT 256

    static uint32_t ottla_bytes[8][256];
    static uint32_t ottla_long[4][256];
    static uint32_t ottla_short[4][256];
    static volatile int ottla_crc_kind = 0; /* 0: not prepared, 1: tables, 2: instructions */

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #define OTTLA_CRC_INSTRUCTION 1
    #define OTTLA_CRC_TARGET __attribute__((target("sse4.2")))
    #define OTTLA_CRC64(crc, value) ((uint32_t)__builtin_ia32_crc32di((crc), (value)))
    #define OTTLA_CRC8(crc, value) ((uint32_t)__builtin_ia32_crc32qi((crc), (value)))
    static int ottla_has_crc_instruction(void) { __builtin_cpu_init(); return __builtin_cpu_supports("sse4.2"); }
    #elif defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
    #define OTTLA_CRC_INSTRUCTION 1
    #include <sys/auxv.h>
    #define OTTLA_CRC_TARGET __attribute__((target("+crc")))
    #define OTTLA_CRC64(crc, value) __builtin_aarch64_crc32cx((crc), (value))
    #define OTTLA_CRC8(crc, value) __builtin_aarch64_crc32cb((crc), (value))
    static int ottla_has_crc_instruction(void) { return (getauxval(AT_HWCAP) & (1 << 7)) != 0; }
    #elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
    #define OTTLA_CRC_INSTRUCTION 1
    #include <arm_acle.h>
    #define OTTLA_CRC_TARGET
    #define OTTLA_CRC64(crc, value) __crc32cd((crc), (value))
    #define OTTLA_CRC8(crc, value) __crc32cb((crc), (value))
    static int ottla_has_crc_instruction(void) { return 1; }
    #endif

    static uint32_t ottla_times_zeros(uint32_t crc, size_t size) {
        while (size--) crc = crc >> 8 ^ ottla_bytes[0][crc & 255];
        return crc;
    }

    static void ottla_prepare_lane(uint32_t table[4][256], size_t size) {
        /* linear: only the 32 single bits need the long way */
        uint32_t of_bit[32];
        int bit, byte, value;
        for (bit = 0; bit < 32; bit++) of_bit[bit] = ottla_times_zeros((uint32_t)1 << bit, size);
        for (byte = 0; byte < 4; byte++)
            for (value = 0; value < 256; value++) {
                uint32_t crc = 0;
                for (bit = 0; bit < 8; bit++)
                    if (value >> bit & 1) crc ^= of_bit[8 * byte + bit];
                table[byte][value] = crc;
            }
    }

    static void ottla_prepare_crc(void) {
        int kind = 1, index, step;
        for (index = 0; index < 256; index++) {
            uint32_t crc = (uint32_t)index;
            for (step = 0; step < 8; step++) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
            ottla_bytes[0][index] = crc;
        }
        for (index = 0; index < 256; index++)
            for (step = 1; step < 8; step++)
                ottla_bytes[step][index] =
                    ottla_bytes[step - 1][index] >> 8 ^ ottla_bytes[0][ottla_bytes[step - 1][index] & 255];
    #ifdef OTTLA_CRC_INSTRUCTION
        if (ottla_has_crc_instruction()) {
            ottla_prepare_lane(ottla_long, OTTLA_LONG);
            ottla_prepare_lane(ottla_short, OTTLA_SHORT);
            kind = 2;
        }
    #endif
        ottla_crc_kind = kind;
    }

    static uint32_t ottla_crc_by_table(uint32_t crc, const unsigned char *data, size_t size) {
        while (size >= 8) {
            uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
            crc = ottla_bytes[7][low & 255] ^ ottla_bytes[6][low >> 8 & 255] ^ ottla_bytes[5][low >> 16 & 255]
                ^ ottla_bytes[4][low >> 24] ^ ottla_bytes[3][data[4]] ^ ottla_bytes[2][data[5]]
                ^ ottla_bytes[1][data[6]] ^ ottla_bytes[0][data[7]];
            data += 8;
            size -= 8;
        }
        while (size--) crc = crc >> 8 ^ ottla_bytes[0][(crc ^ *data++) & 255];
        return crc;
    }

    #ifdef OTTLA_CRC_INSTRUCTION
    static inline uint64_t ottla_word(const unsigned char *data) {
        uint64_t value;
        memcpy(&value, data, 8);
        return value;
    }

    static inline uint32_t ottla_shift(uint32_t table[4][256], uint32_t crc) {
        return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
    }

    OTTLA_CRC_TARGET static uint32_t ottla_crc_by_instruction(uint32_t crc, const unsigned char *data, size_t size) {
        size_t lane = OTTLA_LONG;
        uint32_t (*table)[256] = ottla_long;
        while (1) {
            while (size >= 3 * lane) {
                uint32_t second = 0, third = 0;
                const unsigned char *end = data + lane;
                while (data < end) {
                    crc = OTTLA_CRC64(crc, ottla_word(data));
                    second = OTTLA_CRC64(second, ottla_word(data + lane));
                    third = OTTLA_CRC64(third, ottla_word(data + 2 * lane));
                    data += 8;
                }
                crc = ottla_shift(table, crc) ^ second;
                crc = ottla_shift(table, crc) ^ third;
                data += 2 * lane;
                size -= 3 * lane;
            }
            if (lane == OTTLA_SHORT) break;
            lane = OTTLA_SHORT;
            table = ottla_short;
        }
        while (size >= 8) { crc = OTTLA_CRC64(crc, ottla_word(data)); data += 8; size -= 8; }
        while (size--) crc = OTTLA_CRC8(crc, *data++);
        return crc;
    }
    #endif

    static uint32_t ottla_crc32c_extend(uint32_t crc, const unsigned char *data, size_t size) {
        if (!ottla_crc_kind) ottla_prepare_crc();
    #ifdef OTTLA_CRC_INSTRUCTION
        if (ottla_crc_kind == 2) return ~ottla_crc_by_instruction(~crc, data, size);
    #endif
        return ~ottla_crc_by_table(~crc, data, size);
    }

    static uint32_t ottla_crc32c_by_table(const unsigned char *data, size_t size) {
        if (!ottla_crc_kind) ottla_prepare_crc();
        return ~ottla_crc_by_table(~(uint32_t)0, data, size);
    }

    /* SipHash-2-4 with 128 bits of output: the hash of compaction's key map. */
    #define OTTLA_ROTATE(value, bits) ((value) << (bits) | (value) >> (64 - (bits)))
    #define OTTLA_ROUND \
        do { \
            v0 += v1; v1 = OTTLA_ROTATE(v1, 13) ^ v0; v0 = OTTLA_ROTATE(v0, 32); \
            v2 += v3; v3 = OTTLA_ROTATE(v3, 16) ^ v2; \
            v0 += v3; v3 = OTTLA_ROTATE(v3, 21) ^ v0; \
            v2 += v1; v1 = OTTLA_ROTATE(v1, 17) ^ v2; v2 = OTTLA_ROTATE(v2, 32); \
        } while (0)

    static uint64_t ottla_little(const unsigned char *data, size_t size) {
        uint64_t value = 0;
        while (size--) value = value << 8 | data[size];
        return value;
    }

    static void ottla_siphash(
        const unsigned char *data, size_t size, const unsigned char *seed, unsigned long long *high, unsigned long long *low
    ) {
        uint64_t k0 = ottla_little(seed, 8), k1 = ottla_little(seed + 8, 8), word;
        uint64_t v0 = k0 ^ 0x736f6d6570736575ull, v1 = k1 ^ 0x646f72616e646f6dull ^ 0xee;
        uint64_t v2 = k0 ^ 0x6c7967656e657261ull, v3 = k1 ^ 0x7465646279746573ull;
        size_t left = size;
        while (left >= 8) {
            word = ottla_little(data, 8);
            v3 ^= word; OTTLA_ROUND; OTTLA_ROUND; v0 ^= word;
            data += 8;
            left -= 8;
        }
        word = (uint64_t)size << 56 | ottla_little(data, left);
        v3 ^= word; OTTLA_ROUND; OTTLA_ROUND; v0 ^= word;
        v2 ^= 0xee; OTTLA_ROUND; OTTLA_ROUND; OTTLA_ROUND; OTTLA_ROUND;
        *high = v0 ^ v1 ^ v2 ^ v3;
        v1 ^= 0xdd; OTTLA_ROUND; OTTLA_ROUND; OTTLA_ROUND; OTTLA_ROUND;
        *low = v0 ^ v1 ^ v2 ^ v3;
    }

    /* Kafka's 32-bit murmur2. */
    static uint32_t ottla_murmur2(const unsigned char *data, size_t size) {
        uint32_t h = 0x9747b28cu ^ (uint32_t)size, k;
        for (; size >= 4; data += 4, size -= 4) {
            k = ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24) * 0x5bd1e995u;
            h = h * 0x5bd1e995u ^ (k ^ k >> 24) * 0x5bd1e995u;
        }
        if (size) {
            for (k = 0; size; size--) k = k << 8 | data[size - 1];
            h = (h ^ k) * 0x5bd1e995u;
        }
        h = (h ^ h >> 13) * 0x5bd1e995u;
        return h ^ h >> 15;
    }

    static inline size_t ottla_varint_size(int64_t value) {
        uint64_t zigzag = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
        size_t size = 1;
        while (zigzag > 0x7f) { zigzag >>= 7; size++; }
        return size;
    }

    static inline char *ottla_put_varint(char *output, int64_t value) {
        uint64_t zigzag = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
        while (zigzag > 0x7f) { *output++ = (char)((zigzag & 0x7f) | 0x80); zigzag >>= 7; }
        *output++ = (char)zigzag;
        return output;
    }

    static inline char *ottla_put_field(char *output, const char *data, int64_t size) {
        output = ottla_put_varint(output, size);
        if (size > 0) { memcpy(output, data, (size_t)size); output += size; }
        return output;
    }

    static inline uint32_t ottla_uint32(const unsigned char *data) {
        return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
    }

    static inline int64_t ottla_int64(const unsigned char *data) {
        return (int64_t)((uint64_t)ottla_uint32(data) << 32 | ottla_uint32(data + 4));
    }
    """
    unsigned int ottla_crc32c_extend(unsigned int crc, const unsigned char *data, size_t size) nogil
    unsigned int ottla_crc32c_by_table(const unsigned char *data, size_t size) nogil
    void ottla_siphash(
        const unsigned char *data, size_t size, const unsigned char *seed, unsigned long long *high, unsigned long long *low
    ) nogil
    unsigned int ottla_murmur2(const unsigned char *data, size_t size) nogil
    size_t ottla_varint_size(long long value) nogil
    char *ottla_put_varint(char *output, long long value) nogil
    char *ottla_put_field(char *output, const char *data, long long size) nogil
    unsigned int ottla_uint32(const unsigned char *data) nogil
    long long ottla_int64(const unsigned char *data) nogil


# constants of kernel.py as C integers: as Python objects every comparison with one would make an object
cdef int COMPRESSION_MASK, CONTROL_FLAG, CRC_START, DELETE_HORIZON_FLAG, HEADER_SIZE, LOG_APPEND_TIME_FLAG, MAGIC
cdef Py_ssize_t MAX_SIZE
cdef int SCHEMA_ID, SCHEMA_GUID, NO_SCHEMA, NO_FIELD, MAX_SCHEMA_COUNT
cdef Py_ssize_t ID_SIZE, GUID_SIZE
cdef int CORRUPT_MESSAGE, INVALID_TIMESTAMP, INVALID_RECORD, MAX_RECORD_ERRORS
cdef long long NO_TIMESTAMP
cdef unsigned int MASK_32, POLYNOMIAL, X_TO_THE_0, X_TO_THE_8
cdef unsigned long long MASK_64


cdef inline unsigned int native_crc32c(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) noexcept:
    return ottla_crc32c_extend(0, &data[start], <size_t>(end - start))

cdef inline unsigned int native_crc32c_extend(
    unsigned int crc, const unsigned char *data, Py_ssize_t start, Py_ssize_t end
) noexcept:
    return ottla_crc32c_extend(crc, data + start, <size_t>(end - start))

cdef inline unsigned int native_crc32c_by_table(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) noexcept:
    return ottla_crc32c_by_table(&data[start], <size_t>(end - start))

cdef inline unsigned int native_murmur2(bytes data) noexcept:
    return ottla_murmur2(<const unsigned char *>PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data))

cdef inline bytes native_cut(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end):
    if start == end:
        return b""
    return PyBytes_FromStringAndSize(<const char *>&data[start], end - start)

cdef inline object native_tuple(
    type kind, object topic, object partition, long long offset, long long timestamp, bytes key, bytes value, tuple headers
):
    """A tuple of a subclass without another tuple to copy from; the garbage collector need not look at strings and
    numbers."""
    made = PyType_GenericAlloc(kind, 7)
    _put(made, 0, topic)
    _put(made, 1, partition)
    _put(made, 2, offset)
    _put(made, 3, timestamp)
    _put(made, 4, key)
    _put(made, 5, value)
    _put(made, 6, headers)
    if not headers:
        PyObject_GC_UnTrack(<void *>made)
    return made

cdef inline void _put(object made, Py_ssize_t place, object item) noexcept:
    Py_INCREF(item)
    PyTuple_SET_ITEM(made, place, item)

cdef inline long long native_add(long long left, long long right) noexcept:
    return <long long>(<unsigned long long>left + <unsigned long long>right)

cdef inline int native_int32(const unsigned char[::1] data, Py_ssize_t position) noexcept:
    return <int>ottla_uint32(&data[position])

cdef inline unsigned int native_uint32(const unsigned char[::1] data, Py_ssize_t position) noexcept:
    return ottla_uint32(&data[position])

cdef inline long long native_int64(const unsigned char[::1] data, Py_ssize_t position) noexcept:
    return ottla_int64(&data[position])


cdef inline long long native_subtract(long long left, long long right) noexcept:
    return <long long>(<unsigned long long>left - <unsigned long long>right)

cdef inline long long native_offset(unsigned long long stored) noexcept:
    return <long long>stored - 1

cdef inline int native_extend(bytearray output, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except -1:
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(output)
    if end > start:
        PyByteArray_Resize(output, size + end - start)
        memcpy(PyByteArray_AS_STRING(output) + size, &data[start], <size_t>(end - start))
    return 0

cdef inline unsigned long long *native_slots(Py_ssize_t count) except NULL:
    cdef unsigned long long *slots = <unsigned long long *>calloc(<size_t>count, 24)
    if slots == NULL:
        raise MemoryError()
    return slots

cdef inline int native_free(unsigned long long *slots) noexcept:
    with nogil:
        free(slots)
    return 0

cdef inline Py_ssize_t native_record(
    bytearray output, Py_ssize_t position, Py_ssize_t limit, long long timestamp_delta, long long offset_delta, bytes key,
    bytes value, bytes headers,
) except -2:
    cdef Py_ssize_t key_size = -1, value_size = -1, headers_size = PyBytes_GET_SIZE(headers), size, end
    cdef const char *key_data = NULL
    cdef const char *value_data = NULL
    cdef char *place
    if key is not None:
        key_size, key_data = PyBytes_GET_SIZE(key), PyBytes_AS_STRING(key)
    if value is not None:
        value_size, value_data = PyBytes_GET_SIZE(value), PyBytes_AS_STRING(value)
    size = 1 + <Py_ssize_t>(
        ottla_varint_size(timestamp_delta) + ottla_varint_size(offset_delta) + ottla_varint_size(key_size)
        + ottla_varint_size(value_size)
    ) + headers_size
    if key_size > 0:
        size += key_size
    if value_size > 0:
        size += value_size
    end = position + <Py_ssize_t>ottla_varint_size(size) + size
    if end > limit:
        return -1
    if end > PyByteArray_GET_SIZE(output):
        PyByteArray_Resize(output, end if end > 2 * position else 2 * position)
    place = ottla_put_varint(PyByteArray_AS_STRING(output) + position, size)
    place[0] = 0
    place = ottla_put_varint(place + 1, timestamp_delta)
    place = ottla_put_varint(place, offset_delta)
    place = ottla_put_field(place, key_data, key_size)
    place = ottla_put_field(place, value_data, value_size)
    memcpy(place, PyBytes_AS_STRING(headers), <size_t>headers_size)
    return end

cdef inline int native_digest(OffsetMap offset_map, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except -1:
    cdef const unsigned char *key = NULL
    if end > start:
        key = &data[start]
    ottla_siphash(key, <size_t>(end - start), <const unsigned char *>PyBytes_AS_STRING(offset_map.seed), &offset_map.high, &offset_map.low)
    return 0


@cython.final
cdef class OffsetMap:
    cdef bytes seed
    cdef Py_ssize_t slot_count, size
    cdef long long latest_offset
    cdef unsigned long long high, low
    cdef unsigned long long *slots

    @cython.locals(slot=Py_ssize_t, probes=Py_ssize_t, index=Py_ssize_t)
    cdef Py_ssize_t find(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except -2
    @cython.locals(slot=Py_ssize_t, index=Py_ssize_t)
    cdef int place(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end, long long offset) except -1
    @cython.locals(slot=Py_ssize_t)
    cdef int64_t offset_at(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except? -2
    cpdef release(self)
    cpdef put(self, bytes key, long long offset)
    cpdef latest(self, bytes key)
    cpdef advance(self, long long offset)
    cpdef tuple counts(self)


@cython.final
cdef class Cursor:
    cdef const unsigned char[::1] data
    cdef Py_ssize_t position, limit, end, start
    cdef int attributes
    cdef long long timestamp_delta
    cdef Py_ssize_t rest_start
    cdef int offset_delta
    cdef Py_ssize_t key_start, key_size, value_start, value_size, headers_start
    cdef Py_ssize_t schema_start
    cdef int header_count

    @cython.locals(value=cython.uint, byte=cython.uint, shift=cython.int, position=Py_ssize_t, end=Py_ssize_t)
    cdef int varint(self) except? -1
    @cython.locals(
        value=cython.ulonglong, byte=cython.uint, bits=cython.ulonglong, shift=cython.int, position=Py_ssize_t, end=Py_ssize_t
    )
    cdef int64_t varlong(self) except? -1
    cdef int skip(self, Py_ssize_t size) except -1
    @cython.locals(size=Py_ssize_t, count=Py_ssize_t)
    cdef int advance(self) except -1
    @cython.locals(size=Py_ssize_t, count=cython.int, end=Py_ssize_t)
    cdef tuple headers(self)
    cdef bytes key(self)
    cdef bytes value(self)
    @cython.locals(
        start=Py_ssize_t, size=Py_ssize_t, name_size=Py_ssize_t, value_size=Py_ssize_t, count=cython.int, end=Py_ssize_t,
        is_named=cython.bint,
    )
    cdef int find_schema(self, const unsigned char[::1] name, bint is_key) except -1
    cdef int finish(self) except -1
    cdef int rewind(self, Py_ssize_t position) except -1


cpdef bint is_compiled()
cpdef unsigned int crc32c_by_table(const unsigned char[::1] data) except? 1
cpdef unsigned int murmur2(bytes data) except? 1
cpdef long long partition_for_key(bytes key, long long partition_count) except? -1
cpdef unsigned int crc32c_range(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except? 1
@cython.locals(power=cython.uint)
cpdef unsigned int crc32c_joined(unsigned int first, unsigned int second, unsigned long long second_size) noexcept
@cython.locals(result=cython.uint)
cdef unsigned int polynomial_product(unsigned int one, unsigned int other) noexcept

@cython.locals(size=Py_ssize_t, codec=cython.int)
cdef Cursor cursor_of(object buffer, const unsigned char[::1] data, Py_ssize_t max_decompressed)

@cython.locals(
    data="const unsigned char[::1]", size=Py_ssize_t, attributes=cython.int, count=cython.int, last_offset_delta=cython.int,
    has_log_append_time=cython.int, base_timestamp=cython.longlong, record_timestamp=cython.longlong,
    max_timestamp=cython.longlong, index_of_max=cython.int, index=cython.int, is_in_place=cython.bint, error=cython.int,
    problem=cython.int, is_compressed=cython.int, cursor=Cursor,
)
cpdef check(
    object buffer, bint verify_crc, long long timestamp, long long earliest, long long latest, bint log_append_time,
    bint requires_key, bint is_client, Py_ssize_t max_decompressed, Py_ssize_t max_record,
)

@cython.locals(
    data="const unsigned char[::1]", count=cython.int, has_own_timestamps=cython.bint, base_offset=cython.longlong,
    base_timestamp=cython.longlong, timestamp=cython.longlong, offset=cython.longlong, cursor=Cursor, records=list,
)
cpdef list read(object buffer, Py_ssize_t max_decompressed)

@cython.locals(
    data="const unsigned char[::1]", count=cython.int, has_own_timestamps=cython.bint, base_offset=cython.longlong,
    base_timestamp=cython.longlong, timestamp=cython.longlong, offset=cython.longlong, cursor=Cursor, records=list,
)
cpdef list read_partition(
    object buffer, type kind, object topic, object partition, long long start_offset, Py_ssize_t max_decompressed
)

@cython.locals(
    data="const unsigned char[::1]", count=cython.int, has_own_timestamps=cython.bint, base_offset=cython.longlong,
    base_timestamp=cython.longlong, record_timestamp=cython.longlong, offset=cython.longlong, cursor=Cursor,
)
cpdef find_timestamp(object buffer, long long timestamp, long long start_offset, Py_ssize_t max_decompressed)

@cython.locals(size=Py_ssize_t, index=Py_ssize_t)
cdef bint starts_with(const unsigned char[::1] data, Py_ssize_t position, const unsigned char[::1] name) noexcept

@cython.locals(
    data="const unsigned char[::1]", name="const unsigned char[::1]", count=cython.int, index=cython.int,
    kind=cython.int, last_kind=cython.int, last_high=cython.longlong, last_low=cython.longlong, high=cython.longlong,
    low=cython.longlong, cursor=Cursor, found=dict,
)
cpdef dict schema_ids(object buffer, bytes header, bint is_key, Py_ssize_t max_decompressed)
cdef named_schema(Cursor cursor, int kind)

@cython.locals(
    data="const unsigned char[::1]", name="const unsigned char[::1]", count=cython.int, index=cython.int,
    kind=cython.int, cursor=Cursor, found=list,
)
cpdef list records_of_schemas(
    object buffer, bytes header, bint is_key, object schemas, Py_ssize_t max_decompressed
)

@cython.locals(zigzag=cython.ulonglong)
cdef int write_varint(bytearray output, long long value) except -1

@cython.locals(count=cython.longlong, max_timestamp=cython.longlong, timestamp=cython.longlong, filled=Py_ssize_t)
cpdef tuple encode(object records, long long base_timestamp, bytearray output)

cdef Py_ssize_t write_record(
    bytearray output, Py_ssize_t position, Py_ssize_t limit, long long timestamp_delta, long long offset_delta, object key,
    object value, object headers,
) except -2
cdef bytes encode_headers(object headers)

@cython.locals(
    data="const unsigned char[::1]", count=cython.int, base_offset=cython.longlong, offset=cython.longlong, cursor=Cursor
)
cpdef bint fill(OffsetMap offset_map, object buffer, long long start_offset, Py_ssize_t max_size, Py_ssize_t max_decompressed) except -1

@cython.locals(
    data="const unsigned char[::1]", choices="unsigned char[::1]", attributes=cython.int, count=cython.int, base_offset=cython.longlong, offset=cython.longlong,
    base_timestamp=cython.longlong, max_timestamp=cython.longlong, record_timestamp=cython.longlong, is_control=cython.int,
    has_horizon=cython.int, has_own_timestamps=cython.bint, keeps_tombstones=cython.bint, has_tombstone=cython.bint,
    is_kept=cython.bint, sets_horizon=cython.bint, kept=cython.int, index=cython.int, output=bytearray, cursor=Cursor,
)
cpdef tuple retain(
    object buffer, OffsetMap offset_map, long long timestamp, long long new_delete_horizon, bint is_discarded,
    bint marks_empty_transaction, bint keeps_empty, Py_ssize_t max_decompressed,
)

@cython.locals(delta=bytearray, timestamp=cython.longlong)
cdef int rebase(bytearray output, Cursor cursor, long long base_timestamp, long long new_base_timestamp) except -1
