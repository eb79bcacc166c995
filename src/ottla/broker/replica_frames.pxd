# C types for replica_frames.py.
cimport cython

cdef Py_ssize_t ROW_HEAD_SIZE, TOPIC_ID_SIZE, ANSWER_HEAD_SIZE

@cython.locals(
    data="const unsigned char[::1]", end=Py_ssize_t, position=Py_ssize_t, topics=cython.int, count=cython.int,
    size=cython.longlong, shift=cython.int, byte=cython.longlong, rows=list, session_id=cython.uint, error=cython.int,
    aborted=cython.int,
)
cpdef answered_rows(object frame)
cpdef bytes size_bytes(long long value)
