# C types for follower_frames.py.
cimport cython
from ottla.broker.replicas.partitions cimport Partition
from ottla.replication.follower cimport Follower
from ottla.storage.tail cimport LogTail

cdef Py_ssize_t ROW_HEAD_SIZE, TOPIC_ID_SIZE, ANSWER_HEAD_SIZE


cdef class Followed(Follower):
    cdef public Partition partition


@cython.locals(one=Followed, log=LogTail, topics=dict, rows=list)
cpdef dict wanted_rows(dict changed, dict followed, object partition_max_bytes)

@cython.locals(
    data="const unsigned char[::1]", end=Py_ssize_t, position=Py_ssize_t, topics=cython.int, count=cython.int,
    size=cython.longlong, shift=cython.int, byte=cython.longlong, rows=list, session_id=cython.uint, error=cython.int,
    aborted=cython.int,
)
cpdef answered_rows(object frame)

@cython.locals(
    one=Followed, partition=Partition, log=LogTail, left=list, high_watermark=cython.longlong,
    log_start_offset=cython.longlong, size=Py_ssize_t, copied=cython.longlong,
)
cpdef list take_rows(list rows, dict followed, dict changed, bint is_throttled)
cpdef bytes size_bytes(long long value)
