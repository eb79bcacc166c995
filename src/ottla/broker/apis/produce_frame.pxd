# C types for produce_frame.py.
cimport cython
from ottla.storage.tail cimport LogTail

cdef int FIRST_FLEXIBLE_VERSION, FIRST_VERSION_WITH_TOPIC_IDS, MAX_PARTITIONS, HEADER_SIZE, TRANSACTIONAL_FLAG, ACKS_ALL
cdef int TOPIC_ID_SIZE, ATTRIBUTES_POSITION, COMPRESSION_MASK, ZSTD, FIRST_VERSION_WITH_LOG_START, FIRST_VERSION_WITH_ZSTD
cdef int FIRST_VERSION_WITH_RECORD_ERRORS
cdef Py_ssize_t MAX_NAME_SIZE
cdef long long MAX_TIMEOUT_MS

cdef int integer(const unsigned char[::1] data, Py_ssize_t position) noexcept

@cython.locals(
    data="const unsigned char[::1]", size=Py_ssize_t, is_flexible=cython.bint, name_start=Py_ssize_t, attributes=cython.int,
    acks=cython.int, topic_start=Py_ssize_t, topic_end=Py_ssize_t,
    count=cython.int, index=cython.int, length=Py_ssize_t, shift=cython.int, byte=cython.int, log=LogTail, places=list,
    parts=list, timestamp=cython.longlong, messages_in=cython.longlong, bytes_in=cython.longlong,
    offset=cython.longlong, end_offset=cython.longlong, timeout_ms=cython.int, head_size=Py_ssize_t, rows_size=Py_ssize_t,
    uncommitted=list,
)
cpdef produce_frame(object frame, Py_ssize_t position, int version, object correlation_id, tuple rooms, object access=*)
