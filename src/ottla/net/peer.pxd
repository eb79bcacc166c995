# C types for peer.py: what every fetch of a follower and its answer pass.
cimport cython
from ottla.net.deadlines cimport Deadline, Deadlines


cdef class EncodedRequest:
    cdef public object message_class, on_frame
    cdef public int version
    cdef public bytes body


cdef class _Waiting:
    cdef public object request, on_answer, on_frame
    cdef public Deadline timer
    cdef public int api_key, version


cdef class _Connection:
    cdef object _channel, _loop, _client_id, _address, _security, _login, _login_timer, _renewal
    cdef public object handshake, shaking_sock
    cdef Deadlines _deadlines
    cdef dict _known, _versions, _waiting
    cdef int _login_key, _login_version
    cdef bint _is_refused, _is_tls
    cdef public bint is_closed

    cpdef ask(self, object id, object request, object on_answer, object timeout_ms)
    cdef _send(self, object id, _Waiting waiting, dict versions)
    @cython.locals(waiting=_Waiting)
    cpdef frame_received(self, object frame)
