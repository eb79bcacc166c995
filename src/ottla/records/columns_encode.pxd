# C types for columns_encode.py: pointers where that file has bytearrays, and the few functions that are C.
cimport cython
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from libc.string cimport memcpy
from ottla.records.columns cimport native_grow, native_view
from ottla.records.kernel cimport native_crc32c_extend, native_subtract, ottla_murmur2

cdef int ANY, HEADER_SIZE, USUAL_RECORD_OVERHEAD, HEADER_OVERHEAD, SMALLEST_ROOM, FIRST_BYTES, SUM_BYTES
cdef unsigned long long MASK_64


cdef inline void native_copy(
    unsigned char *output, Py_ssize_t position, const unsigned char[::1] source, Py_ssize_t start, Py_ssize_t size
) noexcept:
    memcpy(output + position, &source[start], <size_t>size)

cdef inline unsigned int native_hash(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t size) noexcept:
    return ottla_murmur2(&data[position], <size_t>size)

cdef inline bytearray native_buffer(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)  # what is in it does not matter

cdef inline unsigned char native_byte(unsigned long long value) noexcept:
    return <unsigned char>value


@cython.final
cdef class BytesColumn:
    cdef const unsigned char[::1] data
    cdef const long long[::1] offsets
    cdef const unsigned char[::1] validity
    cdef bint has_nulls
    cdef Py_ssize_t start, data_size
    cdef readonly Py_ssize_t count

    @cython.locals(index=Py_ssize_t)
    cdef bint is_null(self, Py_ssize_t row) noexcept
    cdef Py_ssize_t position(self, Py_ssize_t row) noexcept
    @cython.locals(index=Py_ssize_t, first=cython.longlong, last=cython.longlong)
    cdef Py_ssize_t size(self, Py_ssize_t row) except -2


@cython.final
cdef class NumberColumn:
    cdef const long long[::1] numbers
    cdef const unsigned char[::1] validity
    cdef bint has_nulls
    cdef Py_ssize_t start
    cdef readonly Py_ssize_t count

    @cython.locals(index=Py_ssize_t)
    cdef long long number(self, Py_ssize_t row, long long otherwise) noexcept


@cython.final
cdef class HeadersColumn:
    cdef NumberColumn lists
    cdef const unsigned char[::1] validity
    cdef bint has_nulls
    cdef BytesColumn keys, values
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t first, end

    @cython.locals(index=Py_ssize_t)
    cdef int seek(self, Py_ssize_t row) except -1


@cython.final
cdef class Rows:
    cdef readonly Py_ssize_t count
    cdef BytesColumn key, value
    cdef NumberColumn timestamp, partition
    cdef HeadersColumn headers

    @cython.locals(row=Py_ssize_t, partition=cython.longlong)
    cpdef Py_ssize_t row_elsewhere(self, long long partition_count) except -2
    @cython.locals(row=Py_ssize_t)
    cpdef Py_ssize_t row_too_large(self, long long max_record_size) except -2
    @cython.locals(size=Py_ssize_t, index=Py_ssize_t)
    cpdef Py_ssize_t size_of(self, Py_ssize_t row) except -1


@cython.locals(zigzag=cython.ulonglong, size=cython.int)
cdef int varint_size(long long value) noexcept

@cython.locals(zigzag=cython.ulonglong)
cdef Py_ssize_t write_varint(unsigned char *output, Py_ssize_t position, long long value) noexcept


@cython.final
cdef class OpenBatch:
    cdef bytearray content
    cdef unsigned char *view
    cdef Py_ssize_t room, position, summed
    cdef unsigned int crc
    cdef int count
    cdef long long base_timestamp, max_timestamp

    cdef int reserve(self, Py_ssize_t size) except -1
    cdef int write_bytes(self, BytesColumn column, Py_ssize_t row, Py_ssize_t size) except -1
    cdef void sum_up(self, Py_ssize_t end) noexcept


@cython.final
cdef class TableEncoder:
    cdef int partition_count
    cdef Py_ssize_t batch_size, first_room
    cdef bint uses_keys, is_round_robin, sums_up
    cdef list anywhere, open, done
    cdef object spares
    cdef Py_ssize_t turn, done_bytes, key_size, value_size

    cpdef Py_ssize_t encode(self, Rows rows, Py_ssize_t row, long long timestamp, Py_ssize_t max_bytes) except -1
    @cython.locals(partition=cython.longlong, hashed=cython.uint)
    cdef int partition_of(self, Rows rows, Py_ssize_t row) except -2
    @cython.locals(partition=cython.int, is_anywhere=cython.bint, batch=OpenBatch, size=Py_ssize_t, body=Py_ssize_t)
    cdef int encode_row(self, Rows rows, Py_ssize_t row, long long timestamp) except -1
    @cython.locals(size=Py_ssize_t, index=Py_ssize_t, part=Py_ssize_t, headers=HeadersColumn)
    cdef Py_ssize_t body_size(self, Rows rows, Py_ssize_t row, long long timestamp_delta, int offset_delta) except -1
    @cython.locals(headers=HeadersColumn, index=Py_ssize_t)
    cdef int write(self, OpenBatch batch, Rows rows, Py_ssize_t row, long long timestamp, Py_ssize_t body) except -1
    cdef bytearray new_buffer(self, Py_ssize_t size)
    @cython.locals(batch=OpenBatch, content=object, crc=object)
    cpdef close(self, int partition)
    @cython.locals(partition=cython.int)
    cpdef close_all(self)
    cpdef list take(self)
