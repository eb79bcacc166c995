# C types for fetch_sessions.py: what followers want is looked at with every append.
cimport cython


cdef class FetchPartition:
    cdef public FetchSession _session
    cdef public long long _asked_at, current_leader_epoch, fetch_offset, follower_start_offset, high_watermark
    cdef public long long last_fetched_epoch, log_start_offset, max_bytes, tail_offset, tail_position
    cdef public object index, parked, partition, tail_segment, topic, topic_id
    cdef public bint sent_error

    @cython.locals(session=FetchSession)
    cpdef grew(self)
    @cython.locals(session=FetchSession)
    cpdef moved(self)
    cpdef heard(self, long long high_watermark)


cdef class FetchSession:
    cdef public object checked_for, id, parked_consumer_fetch, parked_follower_fetch, replica_id
    cdef public bint is_over, uses_topic_ids
    cdef public dict partitions, ready, watchers
    cdef public long long epoch, used_at
    cdef public double answered_at, pause_s
