# C types for partitions.py: what every append and every fetch of a follower passes.
cimport cython
from ottla.replication.fetch_sessions cimport FetchPartition
from ottla.replication.leader cimport Leader
from ottla.storage.tail cimport LogTail

cdef int ANSWERED_AT_ONCE_MS


cdef class Partition:
    cdef public object _delayed_commits, log, topic, topic_id, leader_id
    cdef public int index
    cdef public long long _committed_at, _end_offset, _told_start_offset, _unseen_bytes, leader_epoch
    cdef public dict fetches, delayed_follower_fetches, delayed_fetches
    cdef public bint is_alone, is_internal, is_leader, is_streaming
    cdef public Leader leader

    cpdef bint has_enough_in_sync(self) except -1
    @cython.locals(tail=LogTail, leader=Leader, before=cython.longlong, fetch=FetchPartition)
    cpdef grew(self, long long size, long long now)
    @cython.locals(leader=Leader)
    cpdef fetched(
        self, object replica_id, long long broker_epoch, long long offset, long long start_offset, long long now
    )
    @cython.locals(
        tail=LogTail, leader=Leader, before=cython.longlong, end_offset=cython.longlong, committed_offset=cython.longlong,
        size=cython.longlong,
    )
    cpdef advance(self, long long now)
    @cython.locals(fetch=FetchPartition)
    cpdef tell_followers(self)
    @cython.locals(tail=LogTail, high_watermark=cython.longlong)
    cpdef _complete_commits(self)
