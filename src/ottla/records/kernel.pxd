# C types for kernel.py, and the few functions that are C: everything here has a plain twin at the top of that file.
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

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

    static uint32_t ottla_crc32c(const unsigned char *data, size_t size) {
        if (!ottla_crc_kind) ottla_prepare_crc();
    #ifdef OTTLA_CRC_INSTRUCTION
        if (ottla_crc_kind == 2) return ~ottla_crc_by_instruction(~(uint32_t)0, data, size);
    #endif
        return ~ottla_crc_by_table(~(uint32_t)0, data, size);
    }

    static inline uint32_t ottla_uint32(const unsigned char *data) {
        return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
    }

    static inline int64_t ottla_int64(const unsigned char *data) {
        return (int64_t)((uint64_t)ottla_uint32(data) << 32 | ottla_uint32(data + 4));
    }
    """
    unsigned int ottla_crc32c(const unsigned char *data, size_t size) nogil
    unsigned int ottla_uint32(const unsigned char *data) nogil
    long long ottla_int64(const unsigned char *data) nogil


# constants of kernel.py as C integers: as Python objects every comparison with one would make an object
cdef int COMPRESSION_MASK, CONTROL_FLAG, CRC_START, DELETE_HORIZON_FLAG, HEADER_SIZE, LOG_APPEND_TIME_FLAG, MAGIC
cdef int CORRUPT_MESSAGE, INVALID_TIMESTAMP, INVALID_RECORD, MAX_RECORD_ERRORS
cdef long long NO_TIMESTAMP


cdef inline unsigned int native_crc32c(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end):
    return ottla_crc32c(&data[start], <size_t>(end - start))

cdef inline bytes native_cut(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end):
    if start == end:
        return b""
    return PyBytes_FromStringAndSize(<const char *>&data[start], end - start)

cdef inline long long native_add(long long left, long long right):
    return <long long>(<unsigned long long>left + <unsigned long long>right)

cdef inline int native_int32(const unsigned char[::1] data, Py_ssize_t position):
    return <int>ottla_uint32(&data[position])

cdef inline unsigned int native_uint32(const unsigned char[::1] data, Py_ssize_t position):
    return ottla_uint32(&data[position])

cdef inline long long native_int64(const unsigned char[::1] data, Py_ssize_t position):
    return ottla_int64(&data[position])


@cython.final
cdef class Cursor:
    cdef const unsigned char[::1] data
    cdef Py_ssize_t position, limit, end, start
    cdef int attributes
    cdef long long timestamp_delta
    cdef int offset_delta
    cdef Py_ssize_t key_start, key_size, value_start, value_size, headers_start
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
    cdef int finish(self) except -1


cpdef bint is_compiled()
cpdef unsigned int crc32c_range(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except? 1

@cython.locals(size=Py_ssize_t, codec=cython.int)
cdef Cursor cursor_of(object buffer, const unsigned char[::1] data, Py_ssize_t max_decompressed)

@cython.locals(
    data="const unsigned char[::1]", size=Py_ssize_t, attributes=cython.int, count=cython.int, last_offset_delta=cython.int,
    has_log_append_time=cython.int, base_timestamp=cython.longlong, record_timestamp=cython.longlong,
    max_timestamp=cython.longlong, index_of_max=cython.int, index=cython.int, is_in_place=cython.bint, error=cython.int,
    problem=cython.int, cursor=Cursor,
)
cpdef check(
    object buffer, bint verify_crc, long long timestamp, long long earliest, long long latest, bint log_append_time,
    bint requires_key, bint is_client, Py_ssize_t max_decompressed,
)

@cython.locals(
    data="const unsigned char[::1]", count=cython.int, has_own_timestamps=cython.bint, base_offset=cython.longlong,
    base_timestamp=cython.longlong, timestamp=cython.longlong, offset=cython.longlong, cursor=Cursor, records=list,
)
cpdef list read(object buffer, Py_ssize_t max_decompressed)

@cython.locals(
    data="const unsigned char[::1]", count=cython.int, has_own_timestamps=cython.bint, base_offset=cython.longlong,
    base_timestamp=cython.longlong, record_timestamp=cython.longlong, offset=cython.longlong, cursor=Cursor,
)
cpdef find_timestamp(object buffer, long long timestamp, long long start_offset, Py_ssize_t max_decompressed)

@cython.locals(zigzag=cython.ulonglong)
cdef int write_varint(bytearray output, long long value) except -1

@cython.locals(count=cython.longlong, max_timestamp=cython.longlong, timestamp=cython.longlong, body=bytearray)
cpdef tuple encode(object records, long long base_timestamp, bytearray output)
