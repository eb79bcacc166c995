# C types for follower.py: what every answer of a leader looks at.


cdef class Follower:
    cdef public object epoch, key, state, topic, max_delay_ms
    cdef public long long asked_offset, delay_ms
    cdef public bint is_cut
