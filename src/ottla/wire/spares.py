"""Buffers that serve again once no view of them exists.

Fresh memory is cleared and mapped by the kernel page by page: for a megabyte that takes longer than to fill it with
records. So what reads and writes much keeps the last few buffers it used, and looks whether they are free.
"""

from __future__ import annotations

from collections import deque

MAX_COUNT = 32
"""More are not looked through."""


def is_free(buffer: bytearray) -> bool:
    """Whether no view of a buffer exists: only then it can change its size."""
    try:
        if buffer:
            buffer.append(buffer.pop())  # pop first: the append then needs no new memory
        else:
            buffer.append(0)
            buffer.clear()
    except BufferError:
        return False
    return True


class SpareBuffers:
    """The buffers that were last used, of at most so many bytes together."""

    def __init__(self, max_bytes: int = 16 * 1024 * 1024) -> None:
        self._buffers: deque[bytearray] = deque()
        self._max_bytes = max_bytes
        self._bytes = 0

    def take(self, size: int) -> bytearray | None:
        """One that holds so many bytes and is free, whatever is in it: of several the one that was used last, which the
        processor's cache has still."""
        for place in range(len(self._buffers) - 1, -1, -1):
            buffer = self._buffers[place]
            if len(buffer) >= size and is_free(buffer):
                del self._buffers[place]
                self._bytes -= len(buffer)
                return buffer
        return None

    def keep(self, buffer: bytearray) -> None:
        """Once all views of it are gone it may be taken: code that still needs its content holds one."""
        self._buffers.append(buffer)
        self._bytes += len(buffer)
        while self._bytes > self._max_bytes or len(self._buffers) > MAX_COUNT:
            self._bytes -= len(self._buffers.popleft())

    def clear(self) -> None:
        self._buffers.clear()
        self._bytes = 0
