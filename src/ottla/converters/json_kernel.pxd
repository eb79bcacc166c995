# C types for json_kernel.py.
cimport cython

cdef int BOOLEAN, WHOLE, FLOATING, DECIMAL, STRING, DATE, MOMENT, LOCAL_MOMENT, ANY, STRUCT, LIST, MAP, OTHER
cdef int MAX_DEPTH, MAX_DIGITS, MAX_POWER
cdef long long MAX_EXACT, NO_DATE


@cython.final
cdef class Column:
    cdef readonly int kind
    cdef readonly bytes name
    cdef readonly bint is_nullable
    cdef long long low, high
    cdef int scale
    cdef double limit
    cdef readonly list children
    cdef dict by_name
    cdef set lower_names
    cdef readonly dict unexpected
    cdef Py_ssize_t next
    cdef readonly Py_ssize_t count
    cdef readonly bint has_nulls
    cdef Py_ssize_t room, content_room
    cdef readonly Py_ssize_t size
    cdef readonly unsigned char[::1] validity
    cdef readonly unsigned char[::1] content
    cdef readonly long long[::1] numbers
    cdef readonly double[::1] doubles
    cdef readonly int[::1] ends

    cpdef add(self, Column child)
    cdef void reserve(self, Py_ssize_t room) except *
    cdef void reserve_content(self, Py_ssize_t size) except *
    @cython.locals(index=Py_ssize_t, kind=cython.int, child=Column)
    cdef void put_null(self) except *
    cdef void put(self) noexcept
    @cython.locals(kind=cython.int, child=Column)
    cdef void truncate(self, Py_ssize_t count) except *


@cython.final
cdef class JsonKernel:
    cdef Column root, rescued
    cdef bint is_open, is_utc, is_negative, has_fraction, has_exponent
    cdef bytes source
    cdef Py_ssize_t position, end, start
    cdef long long mantissa
    cdef int digits, scale, exponent
    cdef list unexpected, kept

    @cython.locals(ends="const int[::1]", validity="const unsigned char[::1]", count=Py_ssize_t, row=Py_ssize_t)
    cpdef list read(self, bytes source, const int[::1] ends, const unsigned char[::1] validity)
    @cython.locals(root=Column, column=Column)
    cdef bint read_row(self) except -1
    @cython.locals(text=bytes, size=Py_ssize_t, index=Py_ssize_t)
    cdef void rescue(self, Column rescued) except *
    @cython.locals(source=bytes, position=Py_ssize_t, end=Py_ssize_t)
    cdef void skip_blank(self) noexcept
    cdef int peek(self) noexcept
    @cython.locals(size=Py_ssize_t, position=Py_ssize_t, index=Py_ssize_t)
    cdef bint literal(self, bytes text) noexcept
    @cython.locals(source=bytes, position=Py_ssize_t, end=Py_ssize_t, result=cython.int, byte=cython.int)
    cdef int skip_string(self) noexcept
    @cython.locals(number=cython.int, index=cython.int, byte=cython.int)
    cdef int hex4(self, Py_ssize_t position) noexcept
    @cython.locals(byte=cython.int, closing=cython.int)
    cdef bint skip_value(self, int depth) except -1
    @cython.locals(
        index=Py_ssize_t, is_known=cython.bint, start=Py_ssize_t, end=Py_ssize_t, child=Column, name=bytes, seen=list,
        byte=cython.int,
    )
    cdef bint read_struct(self, Column column, int depth) except -1
    @cython.locals(child=Column, name=bytes, size=Py_ssize_t, index=Py_ssize_t, found=Column)
    cdef Column find(self, Column column, Py_ssize_t start, Py_ssize_t end)
    cdef bint is_unexpected(self, Column column, bytes name, int depth) except -1
    @cython.locals(byte=cython.int, kind=cython.int)
    cdef bint read_value(self, Column column, int depth) except -1
    @cython.locals(element=Column, byte=cython.int)
    cdef bint read_list(self, Column column, int depth) except -1
    @cython.locals(key=Column, value=Column, seen=set, start=Py_ssize_t, name=bytes, byte=cython.int)
    cdef bint read_map(self, Column column, int depth) except -1
    @cython.locals(start=Py_ssize_t, size=Py_ssize_t, index=Py_ssize_t)
    cdef bint read_any(self, Column column, int depth) except -1
    @cython.locals(
        source=bytes, position=Py_ssize_t, end=Py_ssize_t, content="unsigned char[::1]", size=Py_ssize_t,
        byte=cython.int, code=cython.int, low=cython.int,
    )
    cdef bint read_string(self, Column column) except -1
    @cython.locals(
        source=bytes, position=Py_ssize_t, end=Py_ssize_t, mantissa=cython.longlong, digits=cython.int,
        scale=Py_ssize_t, first=Py_ssize_t, exponent=cython.int, is_negative=cython.bint,
    )
    cdef bint read_number(self) noexcept
    @cython.locals(number=cython.longlong, scale=cython.int)
    cdef bint put_number(self, Column column, int kind) except -1
    @cython.locals(result=cython.longlong, _=cython.int)
    cdef long long power(self, Py_ssize_t exponent) noexcept
    @cython.locals(power=cython.int, number=cython.double, scale=cython.double, _=cython.int)
    cdef bint put_floating(self, Column column) except -1
    @cython.locals(tens=cython.int, ones=cython.int)
    cdef int two(self, Py_ssize_t position) noexcept
    @cython.locals(source=bytes, year=cython.longlong, month=cython.longlong, day=cython.longlong, is_leap=cython.bint)
    cdef long long days(self, Py_ssize_t start) noexcept
    cdef int month_days(self, int month, bint is_leap) noexcept
    @cython.locals(
        source=bytes, start=Py_ssize_t, end=Py_ssize_t, days=cython.longlong, hour=cython.int, minute=cython.int,
        second=cython.int, micros=cython.longlong, position=Py_ssize_t, first=Py_ssize_t, offset=cython.longlong,
        hours=cython.int, minutes=cython.int, seconds=cython.longlong,
    )
    cdef bint read_moment(self, Column column, int kind) except -1
