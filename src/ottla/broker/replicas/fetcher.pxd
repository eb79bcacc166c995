# C types for fetcher.py: what every answer of a leader and the next request to it pass.
from ottla.replication.follower_session cimport FollowerSession


cdef class Fetcher:
    cdef object _leader_id, _ground, _peers, _presence, _throttle, _controller, _sync_cut, _peer, _address, _driver
    cdef object _usual_answer
    cdef FollowerSession _session

    cpdef handle(self, object event)
    cpdef _perform(self, object effect)
    cpdef _fetch(self, object wait_ms)
    cpdef _send(self, object peer, object wait_ms)
    cpdef bint _take_frame(self, object frame) except -1
