# C types for delivery.py: one delivery is made for every record that is sent.
cimport cython

@cython.freelist(1024)
cdef class Delivery:
    cdef public object _batch
    cdef public Py_ssize_t _index

cdef class PendingDelivery(Delivery):
    cdef public list _callbacks
    cdef public object _error
    cdef public bint _is_in
