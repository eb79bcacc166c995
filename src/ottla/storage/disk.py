"""The files a node stands on: storage reads and writes only through a `Disk`. `OsDisk` is the operating system's; the
simulator's loses what was not synced. Errors are always an `OSError`: ENOSPC and EDQUOT mean "no room now", any other
means that the log dir can no longer be trusted.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from functools import cache
from typing import Protocol, TypeAlias

from ottla.storage.slow_disk import SlowSyncs

Buffer: TypeAlias = bytes | bytearray | memoryview

_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)
SLOW_SYNCS = SlowSyncs()
_ONE_BYTE = bytearray(1)
_KEEP_SIZE = 1


class File(Protocol):
    """One file, read and written by position; there is no cursor."""

    path: str

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def write(self, position: int, data: Buffer) -> None:
        """All of `data` or an OSError; after an error some of it may be in the file."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it; releases blocks that were reserved after its end."""
        ...

    def reserve(self, position: int, size: int) -> None:
        """Reserve disk blocks for bytes that will be written there. The file does not grow. Only a hint: if the blocks
        cannot be reserved, nothing happens.
        """
        ...

    def size(self) -> int: ...

    async def sync(self) -> None:
        """Return when everything written before this call is on the disk; does not block the loop."""
        ...

    def sync_now(self) -> None:
        """`sync`, blocking: for start, stop and small metadata."""
        ...

    def fileno(self) -> int | None:
        """A descriptor for sendfile, None if there is none. Any later call of the disk may close it: ask again before
        every use, or keep it open between `hold` and `release`.
        """
        ...

    def is_cached(self, position: int, size: int) -> bool:
        """Whether reading these bytes now would not wait for the disk, as far as the system can tell."""
        ...

    def hold(self) -> None:
        """Keep the descriptor open until `release`, because a thread uses it."""
        ...

    def release(self) -> None: ...

    def moved(self, path: str) -> None:
        """The owner renamed the file or its folder."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A tree of files. Paths are strings with `/`; renames are atomic; names become durable with `sync_directory`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """FileNotFoundError when it is absent and `create` is false."""
        ...

    def names(self, directory: str) -> list[str]:
        """Sorted names in a folder; FileNotFoundError when it is absent."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def make_directory(self, path: str) -> None:
        """Creates the folder and its parents; no error if it exists."""
        ...

    def remove_directory(self, path: str) -> None:
        """Removes an empty folder."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def absolute(self, path: str) -> str:
        """The absolute path, under which other programs on the machine find it."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def modified_timestamp(self, path: str) -> int:
        """Wall clock milliseconds of the last write."""
        ...

    def lock(self, path: str) -> Callable[[], None]:
        """Take an exclusive lock between processes on a file (created if absent). Returns the function that releases
        it; BlockingIOError if another process holds the lock.
        """
        ...


class FileSlice:
    """Bytes of a segment to send to a socket: their place in the file, not a copy."""

    __slots__ = ("file", "position", "segment_base_offset", "size")

    def __init__(self, file: File, position: int, size: int, segment_base_offset: int = 0) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.segment_base_offset = segment_base_offset

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        return self.file.read(self.position, self.size)

    def fileno(self) -> int | None:
        return self.file.fileno()

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path!r}, position={self.position}, size={self.size})"


@cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    """Linux's fallocate(2), which Python has only in a form that makes the file longer."""
    import ctypes

    try:
        call = ctypes.CDLL(None).fallocate
    except (OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    call.restype = ctypes.c_int
    made: Callable[[int, int, int, int], int] = call
    return made


class OsFile:
    """A file of the operating system whose descriptor the disk may close and open again (see `OsDisk`)."""

    __slots__ = ("_descriptor", "_disk", "_held", "_is_closing", "path", "used")

    def __init__(self, disk: OsDisk, path: str, descriptor: int) -> None:
        self._disk = disk
        self._descriptor = descriptor
        self._held = 0
        self._is_closing = False
        self.path = path
        self.used = True

    def read(self, position: int, size: int) -> bytes:
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._reopen()
        self.used = True
        data = os.pread(descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        left = size - len(data)
        while left:
            more = os.pread(descriptor, left, position + size - left)
            if not more:
                break
            parts.append(more)
            left -= len(more)
        return b"".join(parts)

    def write(self, position: int, data: Buffer) -> None:
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._reopen()
        self.used = True
        written = os.pwrite(descriptor, data, position)
        size = len(data)
        if written != size:
            view = memoryview(data)
            while written < size:
                written += os.pwrite(descriptor, view[written:], position + written)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor if self._descriptor >= 0 else self._reopen(), size)

    def reserve(self, position: int, size: int) -> None:
        allocate = _fallocate()
        if allocate is not None:
            descriptor = self._descriptor if self._descriptor >= 0 else self._reopen()
            allocate(descriptor, _KEEP_SIZE, position, size)

    def size(self) -> int:
        return os.fstat(self._descriptor if self._descriptor >= 0 else self._reopen()).st_size

    async def sync(self) -> None:
        descriptor = self._descriptor if self._descriptor >= 0 else self._reopen()
        self._held += 1
        try:
            await asyncio.get_running_loop().run_in_executor(
                None, SLOW_SYNCS.timed, self.path, os.fdatasync, descriptor
            )
        finally:
            self.release()

    def sync_now(self) -> None:
        SLOW_SYNCS.timed(self.path, os.fdatasync, self._descriptor if self._descriptor >= 0 else self._reopen())

    def fileno(self) -> int | None:
        self.used = True
        return self._descriptor if self._descriptor >= 0 else self._reopen()

    def is_cached(self, position: int, size: int) -> bool:
        if _NO_WAIT is None:
            return True
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self._reopen()
        try:
            os.preadv(descriptor, [_ONE_BYTE], position, _NO_WAIT)
            if size > 1:
                os.preadv(descriptor, [_ONE_BYTE], position + size - 1, _NO_WAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True  # the file system does not support the question
        return True

    def hold(self) -> None:
        if self._descriptor < 0:
            self._reopen()
        self._held += 1

    def release(self) -> None:
        self._held -= 1
        if self._is_closing and not self._held:
            self.close()

    def moved(self, path: str) -> None:
        self.path = path

    def close(self) -> None:
        """Close the descriptor as soon as no thread uses it. A later use opens the file again, so slices that are still
        to be sent remain valid.
        """
        self._is_closing = self._held > 0
        if self._descriptor >= 0 and not self._is_closing:
            self._disk.forget(self)
            os.close(self._descriptor)
            self._descriptor = -1

    def is_held(self) -> bool:
        return self._held > 0

    def _reopen(self) -> int:
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        self.used = True
        self._disk.remember(self)
        return self._descriptor


class OsDisk:
    """The operating system's files, with at most `max_open` descriptors open at a time.

    A node with thousands of partitions has more segments than a process may have descriptors. The least recently used
    are closed (second chance: a use only sets a flag, so the hot path pays nothing) and opened again when needed."""

    def __init__(self, max_open: int | None = None) -> None:
        if max_open is None:
            import resource

            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            max_open = 65_536 if limit == resource.RLIM_INFINITY else max(64, limit * 2 // 5)
        self.max_open = max_open
        self._open: dict[OsFile, None] = {}

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        file = OsFile(self, path, os.open(path, flags, 0o644))
        self.remember(file)
        return file

    def names(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path, 0o755)
        except FileExistsError:
            return
        except FileNotFoundError:
            os.makedirs(path, 0o755, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            SLOW_SYNCS.timed(path, os.fsync, descriptor)
        finally:
            os.close(descriptor)

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)

    def free_bytes(self, path: str) -> int:
        answer = os.statvfs(path)
        return answer.f_bavail * answer.f_frsize

    def total_bytes(self, path: str) -> int:
        answer = os.statvfs(path)
        return answer.f_blocks * answer.f_frsize

    def modified_timestamp(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def lock(self, path: str) -> Callable[[], None]:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # POSIX locks, as Java's FileChannel takes them: a Kafka on the same folder sees it.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return lambda: os.close(descriptor)

    def remember(self, file: OsFile) -> None:
        """Count an open descriptor, closing others beyond the limit."""
        opened = self._open
        opened[file] = None
        if len(opened) > self.max_open:
            for _ in range(2 * len(opened)):
                oldest = next(iter(opened))
                if oldest.used or oldest.is_held() or oldest is file:
                    oldest.used = False
                    del opened[oldest]
                    opened[oldest] = None
                else:
                    oldest.close()
                    return

    def forget(self, file: OsFile) -> None:
        self._open.pop(file, None)

    def close_files(self) -> None:
        """Close all descriptors that are not held. A later use opens the file again."""
        for file in list(self._open):
            if not file.is_held():
                file.close()
