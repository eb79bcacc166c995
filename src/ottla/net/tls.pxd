# C types for tls.py: what every TLS record of a connection passes.
cimport cython

cdef Py_ssize_t ENCRYPTED_BYTES, PIECE_BYTES, PLAIN_BYTES, RECORD_BYTES
cdef Py_ssize_t LARGEST_RECORD_BYTES, HEADER_BYTES, ENCRYPTED_PIECE_BYTES


cdef class TlsSocket:
    cdef object _sock, _incoming, _outgoing, _tls, _unsent
    cdef bytes _head
    cdef Py_ssize_t _given, _arrived_end, _partial, _missing, _plain_count
    cdef bint _is_ended, _is_shaken
    cdef public bint has_received
    cdef public object fileno, setsockopt, getsockopt

    cpdef bint has_pending(self) except -1
    @cython.locals(size=Py_ssize_t, filled=Py_ssize_t)
    cpdef recv_into(self, object buffer)
    @cython.locals(count=Py_ssize_t)
    cdef Py_ssize_t _decrypt(self, object view, Py_ssize_t size, Py_ssize_t filled) except -1
    @cython.locals(kept=Py_ssize_t, received=Py_ssize_t)
    cdef bint _receive(self, Py_ssize_t wanted) except -1
    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t)
    cdef bint _give(self) except -1
    @cython.locals(buffer=bytearray, end=Py_ssize_t, stop=Py_ssize_t, position=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _piece_end(self, Py_ssize_t start) except -1
