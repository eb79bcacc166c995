# C for byte_search.py: the search itself.
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

cdef extern from *:
    """
    #include <string.h>

    #if defined(__GNUC__)
    typedef unsigned char ottla_16_bytes __attribute__((vector_size(16)));
    #define OTTLA_POSITIONS 64

    /* Whether one of 64 positions has the needle's first byte, and its last one at its distance. */
    static int ottla_may_begin(
        const unsigned char *data, size_t distance, ottla_16_bytes first, ottla_16_bytes last
    ) {
        ottla_16_bytes any = {0};
        unsigned long long halves[2];
        for (int place = 0; place < OTTLA_POSITIONS; place += 16) {
            ottla_16_bytes here, there;
            memcpy(&here, data + place, 16);
            memcpy(&there, data + place + distance, 16);
            any |= (ottla_16_bytes)((here == first) & (there == last));
        }
        memcpy(halves, &any, 16);
        return (halves[0] | halves[1]) != 0;
    }
    #endif

    /* Where the needle begins, -1 if it does not occur. */
    static Py_ssize_t ottla_find(
        const unsigned char *data, size_t size, const unsigned char *needle, size_t length
    ) {
        size_t place = 0, distance = length - 1, end;
        if (length == 0) return 0;
        if (length > size) return -1;
        end = size - distance;
        while (place < end) {
            size_t checked = end;
    #if defined(__GNUC__)
            ottla_16_bytes first = {0}, last = {0};
            first += needle[0];
            last += needle[distance];
            while (place + OTTLA_POSITIONS <= end && !ottla_may_begin(data + place, distance, first, last))
                place += OTTLA_POSITIONS;
            if (place + OTTLA_POSITIONS <= end) checked = place + OTTLA_POSITIONS;
    #endif
            for (; place < checked; place++)
                if (data[place] == needle[0] && data[place + distance] == needle[distance]
                    && memcmp(data + place, needle, length) == 0)
                    return (Py_ssize_t)place;
        }
        return -1;
    }
    """
    Py_ssize_t ottla_find(
        const unsigned char *data, size_t size, const unsigned char *needle, size_t length
    ) noexcept nogil

cdef inline Py_ssize_t native_find(object data, Py_ssize_t first, Py_ssize_t last, bytes needle) except -2:
    cdef Py_buffer view
    cdef Py_ssize_t found
    cdef const unsigned char *wanted = <const unsigned char *>PyBytes_AS_STRING(needle)
    cdef size_t length = <size_t>PyBytes_GET_SIZE(needle)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if not 0 <= first <= last <= view.len:
        PyBuffer_Release(&view)
        raise IndexError("the part lies outside of the bytes")
    with nogil:
        found = ottla_find(<const unsigned char *>view.buf + first, <size_t>(last - first), wanted, length)
    PyBuffer_Release(&view)
    return found if found < 0 else first + found
