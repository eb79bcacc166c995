# C types for follower_session.py: what every answer of a leader and the next request to it pass.
cimport cython
from ottla.replication.follower cimport Follower


cdef class FollowerSession:
    cdef public object _throttle, _usual_fetch, state, id
    cdef public dict changed, followers, forgotten, named, waiting
    cdef public long long _interrupt_at, _interrupted_at, _max_delay_ms, _max_wait_ms, delay_ms, epoch

    cpdef list handle(self, object event, long long now)
    cpdef deadline(self)
    cdef list _tick(self, long long now)
    cdef list _answered(self, object session_id, long long now)
    cdef bint _has_something_to_ask(self)
    cdef list _next_fetch(self, long long now)
    cpdef dict begin_fetch(self)
