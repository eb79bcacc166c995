# C types for deadlines.py.
cimport cython

cdef int LONG_GRAINS
cdef double GRAIN_S, LONG_DELAY_S, CLOCK_GRAINS


cdef class Deadline:
    cdef dict _together
    cdef object _act
    cdef tuple _given

    cpdef cancel(self)
    cpdef reach(self)


cdef class Deadlines:
    cdef object _loop, _time, _timer
    cdef dict _by_grain
    cdef long long _first_grain

    cdef _set_timer(self, long long grain)
    cdef _reach(self, Deadline deadline)
