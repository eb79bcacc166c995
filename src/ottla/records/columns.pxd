# C types for columns.py: pointers where that file has bytearrays, and the few functions that are C.
cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from ottla.records.kernel cimport Cursor, cursor_of, native_add, native_int32, native_int64

cdef int KEY, VALUE, TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, HEADERS, MIN_RECORD_SIZE, LOG_APPEND_TIME_FLAG
cdef long long MAX_COLUMN_BYTES, _MAX_INT64
cdef enum:
    HUGE_BYTES = 4 * 1024 * 1024


cdef inline const unsigned char *native_source(Cursor cursor) noexcept:
    return &cursor.data[0]

cdef inline unsigned char *native_view(bytearray buffer) noexcept:
    return <unsigned char *>PyByteArray_AS_STRING(buffer)

cdef extern from *:
    """
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif
    #define OTTLA_HUGE_PAGE ((size_t)2 << 20)

    /* Large memory that is filled from front to back: huge pages are cleared and mapped in a fifth of the time. */
    static void ottla_use_huge_pages(char *data, size_t size) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        size_t start = ((size_t)data + OTTLA_HUGE_PAGE - 1) & ~(OTTLA_HUGE_PAGE - 1);
        size_t end = ((size_t)data + size) & ~(OTTLA_HUGE_PAGE - 1);
        if (end > start) madvise((void *)start, end - start, MADV_HUGEPAGE);
    #endif
    }
    """
    void ottla_use_huge_pages(char *data, size_t size) noexcept nogil

cdef inline int native_grow(bytearray buffer, Py_ssize_t size) except -1:
    if size <= len(buffer):
        return 0
    PyByteArray_Resize(buffer, size)
    if size >= HUGE_BYTES:
        ottla_use_huge_pages(PyByteArray_AS_STRING(buffer), <size_t>size)
    return 0

cdef inline void native_copy(
    unsigned char *output, Py_ssize_t position, const unsigned char *source, Py_ssize_t start, Py_ssize_t size
) noexcept:
    memcpy(output + position, source + start, <size_t>size)

cdef inline void native_put_int32(unsigned char *output, Py_ssize_t index, int value) noexcept:
    (<int32_t *>output)[index] = value

cdef inline void native_put_int64(unsigned char *output, Py_ssize_t index, long long value) noexcept:
    (<int64_t *>output)[index] = value


@cython.final
cdef class BatchRecords:
    cdef Cursor cursor
    cdef readonly int left
    cdef readonly long long next_offset
    cdef long long base_offset, base_timestamp, max_timestamp
    cdef bint has_own_timestamps

    cpdef Py_ssize_t left_bytes(self) noexcept
    cpdef bint is_empty(self) noexcept


@cython.final
cdef class BinaryColumn:
    cdef bytearray offsets, data, validity
    cdef bint has_nulls
    cdef Py_ssize_t size, row_room, room
    cdef unsigned char *offset_view
    cdef unsigned char *data_view
    cdef unsigned char *validity_view

    cdef int reserve(self, Py_ssize_t row_count, Py_ssize_t size) except -1
    cdef int put(self, Py_ssize_t row, const unsigned char *source, Py_ssize_t start, Py_ssize_t size) except -1
    @cython.locals(index=Py_ssize_t)
    cdef int begin_nulls(self, Py_ssize_t row) except -1
    @cython.locals(offsets=object, validity=object)
    cdef object finish(self, Py_ssize_t row_count)
    cdef bint is_free(self) except -1
    cdef void clear(self) noexcept
    cdef Py_ssize_t capacity(self) noexcept


@cython.final
cdef class NumberColumn:
    cdef Py_ssize_t width
    cdef bytearray data
    cdef unsigned char *view

    cdef int reserve(self, Py_ssize_t row_count) except -1
    cdef object finish(self, Py_ssize_t row_count)


@cython.final
cdef class RecordColumns:
    cdef readonly Py_ssize_t count, header_count
    cdef int wanted
    cdef Py_ssize_t room, header_room
    cdef long long timestamp_scale, max_timestamp
    cdef readonly long long max_bytes
    cdef BinaryColumn key, value, header_key, header_value
    cdef NumberColumn topic, partition, offset, timestamp, timestamp_type, header_offsets

    @cython.locals(column=BinaryColumn, number=NumberColumn)
    cpdef bint renew(self) except -1
    cdef list number_columns(self)
    cdef list binary_columns(self)
    @cython.locals(column=BinaryColumn, number=NumberColumn, size=Py_ssize_t)
    cpdef Py_ssize_t capacity(self) except -1
    cpdef Py_ssize_t size(self) noexcept
    cpdef bint fits(self, BatchRecords batch) noexcept
    @cython.locals(wanted=cython.int)
    cdef int reserve(self, Py_ssize_t row_count, Py_ssize_t size) except -1
    @cython.locals(
        cursor=Cursor, size=Py_ssize_t, key_size=Py_ssize_t, value_size=Py_ssize_t, header_count=Py_ssize_t,
        header_key_size=Py_ssize_t, header_value_size=Py_ssize_t, count=Py_ssize_t,
    )
    cpdef Py_ssize_t append(
        self, BatchRecords batch, int topic, int partition, long long start_offset, long long end_offset,
        Py_ssize_t max_count,
    ) except -1
    @cython.locals(
        source="const unsigned char *", wanted=cython.int, key=BinaryColumn, value=BinaryColumn, timestamp_type=cython.int,
        timestamp=cython.longlong, offset=cython.longlong, row=Py_ssize_t, end_row=Py_ssize_t,
    )
    cdef Py_ssize_t read(
        self, BatchRecords batch, Cursor cursor, int topic, int partition, long long start_offset, long long end_offset,
        Py_ssize_t max_count,
    ) except -1
    cdef long long scaled(self, long long timestamp) noexcept
    @cython.locals(count=cython.int, end=Py_ssize_t, size=Py_ssize_t)
    cdef int read_headers(self, Cursor cursor, const unsigned char *source) except -1
    @cython.locals(found=NumberColumn)
    cpdef object numbers(self, int column)
    cpdef object binary(self, int column)
    cpdef tuple headers(self)
