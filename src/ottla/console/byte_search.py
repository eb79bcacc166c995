"""Finds bytes in a column of records at the speed of memory: one search over the whole column, not one per record.

Cython compiles this file (the search is C in byte_search.pxd, several times faster than memmem for short needles, and
runs without the interpreter's lock), and it runs as it stands.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ottla.records import uncompiled as cython

import re
from bisect import bisect_right
from typing import Any

if not cython.compiled:

    def native_find(data: Any, first: int, last: int, needle: bytes) -> int:
        """Where the needle begins in this part of a buffer; -1 if it is not there."""
        with memoryview(data) as view:
            found = re.compile(re.escape(needle)).search(view[first:last])
            return -1 if found is None else first + found.start()


def occurs(column: Any, needle: bytes) -> bool:
    """Whether the needle is in the bytes of a pyarrow.BinaryArray, even if only across the end of a row."""
    _, places, data = column.buffers()
    if data is None or not len(column):
        return False
    with memoryview(places) as view:
        ends = view.cast("i")
        first, last = ends[column.offset], ends[column.offset + len(column)]
        ends.release()
    found: int = native_find(data, first, last, needle)
    return found >= 0


def rows_with(column: Any, needle: bytes) -> list[int]:
    """The rows of a pyarrow.BinaryArray whose bytes contain the needle, in order."""
    _, places, data = column.buffers()
    rows: list[int] = []
    if data is None or not needle or not len(column):
        return rows
    with memoryview(places) as view:
        ends = view.cast("i")[column.offset : column.offset + len(column) + 1]
        place, last = ends[0], ends[len(column)]
        while (place := native_find(data, place, last, needle)) >= 0:
            place = _note(place, ends, len(needle), rows)
        ends.release()
    return rows


def _note(place: int, ends: memoryview, size: int, rows: list[int]) -> int:
    """Take a hit down unless it lies across the end of a row; where to go on."""
    row = bisect_right(ends, place) - 1
    if place + size > ends[row + 1]:
        return place + 1
    rows.append(row)
    return int(ends[row + 1])
