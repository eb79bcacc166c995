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


def rows_with(column: Any, needle: bytes) -> list[int]:
    """The rows of a pyarrow.BinaryArray whose bytes contain the needle, in order."""
    _, places, data = column.buffers()
    if data is None or not needle or not len(column):
        return []
    with memoryview(places) as view:
        ends = view.cast("i")[column.offset : column.offset + len(column) + 1]
        found = _find_libc(data, ends, needle) if _memmem is not None else _find_plain(data, ends, needle)
        ends.release()
    return found


def _find_libc(data: Any, ends: memoryview, needle: bytes) -> list[int]:
    assert _memmem is not None
    address, size, last = data.address, len(needle), ends[-1]
    rows: list[int] = []
    place = ends[0]
    while place + size <= last:
        hit = _memmem(address + place, last - place, needle, size)
        if hit is None:
            break
        place = _note(hit - address, ends, size, rows)
    return rows


def _find_plain(data: Any, ends: memoryview, needle: bytes) -> list[int]:
    search = re.compile(re.escape(needle)).search
    rows: list[int] = []
    place, last = ends[0], ends[-1]
    with memoryview(data) as view:
        while (hit := search(view[place:last])) is not None:
            place = _note(place + hit.start(), ends, len(needle), rows)
    return rows


def _note(place: int, ends: memoryview, size: int, rows: list[int]) -> int:
    """Take a hit down unless it lies across the end of a row; where to go on."""
    row = bisect_right(ends, place) - 1
    if place + size > ends[row + 1]:
        return place + 1
    rows.append(row)
    return int(ends[row + 1])
