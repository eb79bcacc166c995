# C types for tail.py: offsets, sizes and timestamps are not Python objects on the way of a batch to its file.
cimport cython

cdef long long _NEVER, _MAX_RELATIVE_OFFSET, _MAX_SEQUENCE
cdef int _UNUSUAL, _OF_TRANSACTIONS
cdef Py_ssize_t _CRC_START


cdef class SegmentTail:
    cdef public object _file, offset_index, time_index
    cdef public long long base_offset, bytes_since_entry, first_timestamp, largest_batch_size, max_timestamp
    cdef public long long offset_limit, offset_of_max_timestamp, reserved, size, time_limit
    cdef public bint is_full

    cpdef note(
        self, long long position, long long size, long long base_offset, long long last_offset, long long max_timestamp,
        long long interval_bytes,
    )


cdef class LogTail:
    cdef public SegmentTail _active
    cdef public long long _after_max_ms, _before_max_ms, _flush_messages, _index_interval_bytes, _max_message_bytes
    cdef public long long _max_record_bytes
    cdef public long long _roll_after, _roll_after_wall, _segment_bytes
    cdef public long long high_watermark, log_end_offset, log_start_offset, recovery_point
    cdef public bint _is_compacted, _keeps_batches, is_cut, is_offline, validates_schemas
    cdef public object _on_failure, epochs, producers

    @cython.locals(
        size=cython.longlong, segment=SegmentTail, base_offset=cython.longlong, length=cython.longlong, magic=cython.int,
        attributes=cython.int, delta=cython.longlong, max_timestamp=cython.longlong, producer_id=cython.longlong,
        epoch=cython.int, sequence=cython.longlong, offset=cython.longlong, last_offset=cython.longlong,
        last=cython.longlong, latest=cython.longlong,
    )
    cpdef long long place(self, object batches, long long leader_epoch, long long timestamp) except? -2
    @cython.locals(
        size=cython.longlong, segment=SegmentTail, offset=cython.longlong, last_offset=cython.longlong,
    )
    cpdef long long place_made(
        self, bytearray batch, long long count, long long leader_epoch, long long timestamp
    ) except? -2
    @cython.locals(
        segment=SegmentTail, end=cython.longlong, position=cython.longlong, next_offset=cython.longlong,
        newest=cython.longlong, known=dict, found=list, base_offset=cython.longlong, length=cython.longlong,
        leader_epoch=cython.longlong, magic=cython.int, crc=cython.uint, attributes=cython.int, delta=cython.longlong,
        max_timestamp=cython.longlong, id=cython.longlong, epoch=cython.int, first=cython.longlong, size=cython.longlong,
        last=cython.longlong, start=cython.longlong, place=cython.longlong, last_offset=cython.longlong,
    )
    cpdef long long copy(self, object batches) except? -2
    cdef bint _has_room(
        self, SegmentTail segment, long long size, long long last_offset, long long leader_epoch, long long max_timestamp,
        long long timestamp,
    ) except -1
    cdef _write_at(self, SegmentTail segment, long long position, object data, long long size)
    @cython.locals(position=cython.longlong, offset=cython.longlong)
    cdef _put(
        self, SegmentTail segment, object batch, long long size, long long last_offset, long long leader_epoch,
        long long max_timestamp,
    )
    cpdef long long advance_high_watermark(self, long long offset) except? -2
