# C types for offset_commit_frame.py.
cimport cython

cdef int FIRST_FLEXIBLE_VERSION, FIRST_VERSION_WITH_TOPIC_IDS, MAX_PARTITIONS, VALUE_VERSION
cdef Py_ssize_t TOPIC_ID_SIZE, _CRC_POSITION, _VALUE_SIZE

@cython.locals(
    data="const unsigned char[::1]", size=Py_ssize_t, length=Py_ssize_t, end=Py_ssize_t, topic_start=Py_ssize_t,
    topic_end=Py_ssize_t, count=Py_ssize_t, rows=list, values=list, answer=list,
)
cpdef offset_commit_frame(object frame, Py_ssize_t position, int version, object correlation_id, tuple rooms, object access=*)

@cython.locals(
    count=Py_ssize_t, position=Py_ssize_t, delta=Py_ssize_t, size=Py_ssize_t, step=Py_ssize_t,
    batch=bytearray,
)
cdef bytearray commit_batch(tuple form, list rows, object timestamp, bytes topic_id)

cdef bytes _varint(Py_ssize_t number)
