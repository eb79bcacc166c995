# C types for channel.py: what a connection counts and compares for every read and every answer.
cimport cython

cdef Py_ssize_t FIRST_FRAME_BYTES, FILE_CHUNK_BYTES, COPY_CHUNK_BYTES, GATHER_PARTS, ENOUGH_BYTES, MAX_SPARE_BYTES, MAX_SPARES


cdef class ReceiveBuffers:
    cdef public bytearray shared
    cdef list _spares


cdef class _Rest:
    cdef public object file
    cdef public long long position
    cdef long long _size


cdef class Channel:
    cdef object _loop, _time, _sock, _receive, _send, _view, _file, _warmed_file, _on_drained, _out, _pending
    cdef ReceiveBuffers _buffers
    cdef bytearray _buffer
    cdef public bytearray _frame
    cdef bytes _head
    cdef Py_ssize_t _filled, _frame_end, _frame_size, _largest_frame, _max_frame_bytes, _held_bytes, _low_water
    cdef long long _file_position, _file_end
    cdef bint _closed, _is_paused, _is_receiving, _is_warming, _is_writing, _sendfile
    cdef public double active_at
    cdef public long long bytes_in, out_bytes
    cdef public object receiver, error

    @cython.locals(frame=bytearray, received=Py_ssize_t, kept=Py_ssize_t)
    cpdef _readable(self)
    @cython.locals(enough=Py_ssize_t, missing=Py_ssize_t)
    cdef _wait_for_enough(self)
    cdef _take(self, bytearray frame, Py_ssize_t received)
    @cython.locals(filled=Py_ssize_t, grown=bytearray)
    cdef _frame_filled(self, bytearray frame)
    @cython.locals(
        buffer=bytearray, position=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, frame=bytearray
    )
    cdef _parse(self, Py_ssize_t end)
    cpdef send(self, list parts)
    cpdef _write(self)
    @cython.locals(gathered=list, flags=cython.int, sent=Py_ssize_t, size=Py_ssize_t)
    cdef _send_bytes(self)
    @cython.locals(size=cython.longlong, sent=cython.longlong)
    cdef bint _send_file(self, object file) except -1
