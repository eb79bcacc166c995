# C types for fetch_frame.py.
cimport cython
from ottla.broker.replicas.partitions cimport Partition
from ottla.replication.fetch_sessions cimport FetchPartition, FetchSession
from ottla.replication.leader cimport Leader
from ottla.storage.tail cimport LogTail, SegmentTail

cdef int FIRST_VERSION_WITH_REPLICA_STATE
cdef double PAUSE_S, MAX_PAUSE_S, PAUSED_BYTES_PER_S
cdef Py_ssize_t FETCH_HEAD_SIZE, TOPIC_ID_SIZE, WANTED_SIZE, KNOWN_SIZE, REPLICA_STATE_SIZE, MAX_COPIED_BYTES
cdef Py_ssize_t MAX_JOINED_BYTES, GATHERED_BYTES
cdef Py_ssize_t _ANSWER_HEAD_SIZE

@cython.locals(
    data="const unsigned char[::1]", end=Py_ssize_t, topics=cython.int, count=cython.int, named=list, found=list,
    session=FetchSession, wanted=FetchPartition, partition=Partition, fetch=FollowerFetch, now=cython.longlong,
    start_offset=cython.longlong,
)
cpdef fetch_frame(object frame, Py_ssize_t position, int version, object correlation_id, tuple rooms, object access=*)

@cython.locals(count=cython.int)
cdef Py_ssize_t skip_tags(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(log=LogTail, partition=Partition, leader=Leader)
cdef bint is_ordinary(
    FetchPartition wanted, object replica_id, long long leader_epoch, long long fetch_offset, long long last_epoch
) except -1


cdef class FollowerFetch:
    cdef FetchSession _session
    cdef object _ground, _correlation_id, _timeout, _timer
    cdef long long _max_bytes
    cdef bint _is_finishing, _is_pausing
    cdef public bint is_over
    cdef public object on_answer

    @cython.locals(log=LogTail, wanted=FetchPartition, partition=Partition)
    cpdef bint has_records(self) except -1
    @cython.locals(log=LogTail, wanted=FetchPartition, partition=Partition)
    cpdef wait(self, object max_wait_ms)
    cpdef grew(self, FetchPartition wanted)
    cpdef close(self)
    @cython.locals(passed_s=cython.double, longest_s=cython.double)
    cpdef double pause(self) except? -1
    @cython.locals(
        log=LogTail, wanted=FetchPartition, partition=Partition, segment=SegmentTail, size=cython.longlong,
        is_streaming=cython.bint,
    )
    cdef bint _is_gathering(self) except -1
    @cython.locals(
        log=LogTail, wanted=FetchPartition, partition=Partition, left=cython.longlong, size=cython.longlong,
        length=cython.longlong, high_watermark=cython.longlong, start_offset=cython.longlong, topics=dict, counts=dict,
        answer=list, parts=list,
    )
    cpdef list answer(self)


@cython.locals(size=cython.longlong, position=cython.longlong, segment=SegmentTail, is_tail=cython.bint)
cdef read_tail(FetchPartition wanted, object log, long long max_bytes, bint is_first)

@cython.locals(size=Py_ssize_t, start=Py_ssize_t, place=Py_ssize_t, joined=list)
cdef list framed(list answer, object correlation_id, object session_id)
