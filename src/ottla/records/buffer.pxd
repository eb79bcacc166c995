# C types for buffer.py.
cimport cython
from ottla.records.kernel cimport write_record

cdef int HEADER_SIZE, FIRST_SIZE
cdef long long NO_TIMESTAMP


@cython.final
cdef class RecordBuffer:
    cdef Py_ssize_t limit
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t count
    cdef readonly long long base_timestamp, max_timestamp
    cdef readonly list timestamps
    cdef bytearray content

    @cython.locals(count=Py_ssize_t, limit=Py_ssize_t, end=Py_ssize_t, moment=cython.longlong)
    cpdef Py_ssize_t append(self, object timestamp, object key, object value, object headers=*) except -2
