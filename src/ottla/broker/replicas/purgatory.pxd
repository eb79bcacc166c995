# C types for purgatory.py.
cimport cython
from ottla.broker.replicas.partitions cimport Partition


cdef class DelayedProduce:
    cdef public dict _rows
    cdef public object _timeout
    cdef public bint is_over

    cpdef committed(self, Partition partition)
    cpdef cancel(self)
    cpdef _settle(self)
    cpdef _fail(self, object row, object code)
    cpdef _answer(self)


cdef class DelayedProduceResponse(DelayedProduce):
    cdef public object _flushed, _response, future

    cpdef _settle(self)
    cpdef _fail(self, object row, object code)
    cpdef _answer(self)


cdef class DelayedProduceFrame(DelayedProduce):
    cdef public bytearray _response
    cdef public bint _has_log_start
    cdef public object on_answer

    cpdef _fail(self, object row, object code)
    cpdef _answer(self)
