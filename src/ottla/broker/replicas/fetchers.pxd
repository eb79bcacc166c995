# C types for fetchers.py: what every answer of a leader and the next request to it pass.
cimport cython
from ottla.broker.replicas.follower_frames cimport Followed


cdef class Fetcher:
    cdef object _ground, _fetchers, _peers, _throttles, _leader_id, _peer, _address, _backoff, _timer, _session_id
    cdef dict _followed, _changed, _told, _forgotten, _delayed, _held_back, _mending
    cdef long long _session_epoch, _interrupted_at
    cdef bint _is_asking, _is_due, _is_closed, _is_interrupted, _is_interrupt_due

    cpdef fetch_soon(self)
    @cython.locals(now=cython.longlong)
    cpdef _fetch(self)
    cdef _connect(self)
    cdef _begin_session(self)
    cdef bytes _request(self, object wait_ms)
    cpdef bint _take_frame(self, object frame) except -1
    cdef _go_on(self, object session_id)
    cdef _failed(self)
