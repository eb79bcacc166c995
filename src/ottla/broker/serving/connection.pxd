# C types for connection.py: what every request passes, and what an ordinary one needs of it.
cimport cython

cdef Py_ssize_t REQUEST_HEADER_SIZE, MAX_UNSENT_BYTES


cdef class ServedApi:
    cdef public object api, name, roles, request_class, response_class, handler, direct_handler, frame_handler, decoders, observe
    cdef public tuple frame_rooms
    cdef public int min_version, max_version, first_flexible_version


cdef class _Slot:
    cdef public list parts
    cdef public object delayed, future
    cdef public int throttle_ms


cdef class Connection:
    cdef object _served, _serving, _ground, _channel, _slots, _timer
    cdef bint _is_held, _is_throttled, _is_releasing, _is_ordering
    cdef public bint is_closed
    cdef public object client, gate

    cpdef frame_received(self, object frame)
    @cython.locals(served=ServedApi, slot=_Slot, version=cython.int)
    cdef _start(self, object frame)
    @cython.locals(
        data="const unsigned char[::1]", size=Py_ssize_t, position=Py_ssize_t, version=cython.int, served=ServedApi,
        correlation_id=cython.uint, slot=_Slot,
    )
    cdef bint _start_from_frame(self, object frame, object started) except -1
    @cython.locals(slot=_Slot, ready=list)
    cdef _release(self)
    cdef _hold(self)
