# C types for fetch_frame.py.
cimport cython
from ottla.storage.tail cimport LogTail, SegmentTail

cdef int FIRST_VERSION_WITH_REPLICA_STATE
cdef Py_ssize_t FETCH_HEAD_SIZE, TOPIC_ID_SIZE, WANTED_SIZE, REPLICA_STATE_SIZE, MAX_COPIED_BYTES, _ANSWER_HEAD_SIZE

@cython.locals(
    data="const unsigned char[::1]", end=Py_ssize_t, topics=cython.int, count=cython.int, named=list, found=list,
)
cpdef fetch_frame(object frame, Py_ssize_t position, int version, object correlation_id, object node)

@cython.locals(count=cython.int)
cdef Py_ssize_t skip_tags(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(log=LogTail)
cdef bint is_ordinary(
    object wanted, object replica_id, object leader_epoch, long long fetch_offset, object last_epoch
) except -1


cdef class FollowerFetch:
    cdef object _session, _node, _correlation_id, _timeout, _timer
    cdef long long _max_bytes
    cdef bint _is_finishing
    cdef public bint is_over
    cdef public object on_answer

    @cython.locals(log=LogTail)
    cpdef bint has_records(self) except -1
    @cython.locals(
        log=LogTail, left=cython.longlong, size=cython.longlong, length=cython.longlong, high_watermark=cython.longlong,
        start_offset=cython.longlong, topics=dict, counts=dict, answer=list, parts=list,
    )
    cpdef list answer(self)


@cython.locals(size=Py_ssize_t, start=Py_ssize_t, place=Py_ssize_t, joined=list)
cdef list framed(list answer, object correlation_id, object session_id)
