"""Finds bytes in a column of records at the speed of memory: one `memmem` over the whole column, not one per record.

libc's memmem is several times faster than `bytes.find` and `re`, and runs without the interpreter's lock. If libc has
none, `re` does the same.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any


def _libc() -> Callable[..., int | None] | None:
    try:
        found: Any = ctypes.CDLL(None).memmem
    except (OSError, AttributeError):
        return None
    found.restype = ctypes.c_void_p
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    made: Callable[..., int | None] = found
    return made


_memmem = _libc()


def occurs(column: Any, needle: bytes) -> bool:
    """Whether the needle is in the bytes of a pyarrow.BinaryArray, even if only across the end of a row."""
    _, places, data = column.buffers()
    if data is None or not len(column):
        return False
    with memoryview(places) as view:
        ends = view.cast("i")
        first, last = ends[column.offset], ends[column.offset + len(column)]
        ends.release()
    return _find(data, first, last, needle) >= 0


def rows_with(column: Any, needle: bytes) -> list[int]:
    """The rows of a pyarrow.BinaryArray whose bytes contain the needle, in order."""
    _, places, data = column.buffers()
    rows: list[int] = []
    if data is None or not needle or not len(column):
        return rows
    with memoryview(places) as view:
        ends = view.cast("i")[column.offset : column.offset + len(column) + 1]
        place, last = ends[0], ends[-1]
        while (place := _find(data, place, last, needle)) >= 0:
            place = _note(place, ends, len(needle), rows)
        ends.release()
    return rows


def _find(data: Any, first: int, last: int, needle: bytes) -> int:
    """Where the needle begins in this part of a pyarrow.Buffer; -1 if it is not there."""
    if _memmem is None:
        with memoryview(data) as view:
            found = re.compile(re.escape(needle)).search(view[first:last])
            return -1 if found is None else first + found.start()
    hit = _memmem(data.address + first, last - first, needle, len(needle))
    return -1 if hit is None else int(hit - data.address)


def _note(place: int, ends: memoryview, size: int, rows: list[int]) -> int:
    """Take a hit down unless it lies across the end of a row; where to go on."""
    row = bisect_right(ends, place) - 1
    if place + size > ends[row + 1]:
        return place + 1
    rows.append(row)
    return int(ends[row + 1])
