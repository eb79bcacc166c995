# C types for leader.py: what a leader knows of its followers is asked for with every append and every fetch.
cimport cython


cdef class Replica:
    cdef public long long end_offset, start_offset, broker_epoch, fetched_at, leader_end_offset, caught_up_at

    cpdef bint is_caught_up(self, long long leader_end_offset, long long now, long long max_lag_ms) except -1


cdef class Leader:
    cdef public object _brokers
    cdef public long long _max_lag_ms, _not_before
    cdef public tuple isr, proposed
    cdef public dict replicas, _directories
    cdef public long long leader_epoch, partition_epoch, start_offset
    cdef public object node_id

    @cython.locals(replica=Replica, caught_up_at=cython.longlong)
    cpdef fetched(
        self, object replica_id, long long offset, long long leader_end_offset, long long now, long long broker_epoch,
        long long start_offset,
    )
    @cython.locals(replica=Replica)
    cpdef outgrew(self, object replica_id, long long end_offset, long long asked_at)
    @cython.locals(replica=Replica, committed=cython.longlong)
    cpdef committed_offset(self, long long end_offset, long long now, long long min_insync_replicas)
