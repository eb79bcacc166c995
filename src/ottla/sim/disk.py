"""A disk that lies as far as POSIX lets it: what was not synced may be lost when the power fails.

A `Device` is the medium and the page cache over it; a `Disk` is one process's view of it and implements storage's port.
After kill -9 the page cache survives and only the process's view is frozen. After a power loss each unsynced page is
kept or lost by chance, and so are file lengths and names:

- Bytes and length of a file are durable once the file was synced after they were written. An unsynced page may be kept,
  lost (old bytes, or zeros where there were none) or torn between two sectors.
- Names are durable once their folder was synced. The changes to one folder survive in order (a journal: a prefix of
  them is kept); folders know nothing of each other. Syncing a file also makes its own creation durable, as ext4, xfs
  and btrfs do, but not a later rename. A rename is atomic, yet moves whatever bytes were durable: renaming an unsynced
  file may leave an empty one.
- A failed sync leaves pages that the next sync believes clean (as Linux does): a writer that goes on lost them.

Like `OsDisk`, a file's descriptor may be closed behind its back and reopened by path, so a file that was renamed
without being told is detected.
"""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

PAGE_BYTES = 4096
SECTOR_BYTES = 512
LARGE_BYTES = 1 << 40


class Crashed(BaseException):
    """The machine stopped in the middle of this very call. Not an Exception: no program can handle its own death."""


class Inode:
    """A file's bytes: as programs see them, and as the medium has them."""

    __slots__ = ("allocated", "cached", "dirty", "durable", "modified_timestamp")

    def __init__(self, timestamp: int) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.dirty: dict[int, None] = {}
        self.allocated: dict[int, None] = {}
        self.modified_timestamp = timestamp

    def write(self, position: int, data: Buffer) -> None:
        if not len(data):
            return
        end = position + len(data)
        if position > len(self.cached):
            self.cached.extend(bytes(position - len(self.cached)))
        self.cached[position:end] = data
        for page in range(position // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1):
            self.dirty.setdefault(page)
            self.allocated.setdefault(page)

    def truncate(self, size: int) -> None:
        if size < len(self.cached):
            for page in range(size // PAGE_BYTES, (len(self.cached) - 1) // PAGE_BYTES + 1):
                self.dirty.setdefault(page)
                if page * PAGE_BYTES >= size:
                    self.allocated.pop(page, None)
            del self.cached[size:]
        else:
            self.cached.extend(bytes(size - len(self.cached)))  # a hole: a length without bytes

    def sync(self, pages: list[int]) -> None:
        size = len(self.cached)
        del self.durable[size:]
        self.durable.extend(bytes(size - len(self.durable)))
        for page in pages:
            part = slice(page * PAGE_BYTES, min(size, (page + 1) * PAGE_BYTES))
            if part.start < size:
                self.durable[part] = self.cached[part]
            self.dirty.pop(page, None)

    def is_durable(self) -> bool:
        return not self.dirty and len(self.cached) == len(self.durable)

    def lose(self, rng: random.Random) -> None:
        """The power fails: chance decides what had reached the medium."""
        if not self.is_durable():
            self.cached = self._remains(rng)
        self.durable = bytearray(self.cached)
        self.dirty.clear()
        self.allocated = dict.fromkeys(page for page in self.allocated if page * PAGE_BYTES < len(self.cached))

    def _remains(self, rng: random.Random) -> bytearray:
        cached, durable = self.cached, self.durable
        style = rng.random()
        if style < 0.2:
            return durable
        if style < 0.35:
            return cached
        pages = sorted(self.dirty)
        if style < 0.6:
            pages = pages[: rng.randint(0, len(pages))]  # written back in order, and not to the end
        else:
            pages = [page for page in pages if rng.random() < 0.5]
        kept = {page: self._page(cached, page) for page in pages}
        for page in kept:
            if rng.random() < 0.2:
                sector = rng.randrange(0, PAGE_BYTES, SECTOR_BYTES)
                kept[page] = kept[page][:sector] + self._page(durable, page)[sector:]
        kept_size = max((min(len(cached), (page + 1) * PAGE_BYTES) for page in kept), default=len(durable))
        sizes = len(durable), len(cached), max(len(durable), kept_size)
        size = sizes[2] if style < 0.6 and len(cached) > len(durable) else rng.choice(sizes)
        remains = bytearray(size)
        for page in range((size + PAGE_BYTES - 1) // PAGE_BYTES):
            content = kept.get(page) or self._page(durable, page)
            start = page * PAGE_BYTES
            remains[start : min(size, start + PAGE_BYTES)] = content[: size - start]
        return remains

    @staticmethod
    def _page(content: bytearray, page: int) -> bytes:
        return bytes(content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]).ljust(PAGE_BYTES, b"\0")


class Directory:
    """A folder: its names as programs see them, as the medium has them, and the changes between the two in order."""

    __slots__ = ("changes", "durable", "entries", "modified_timestamp")

    def __init__(self, timestamp: int) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.changes: list[tuple[str | None, str | None, Node]] = []  # name before, name after, what
        self.modified_timestamp = timestamp

    def change(self, before: str | None, after: str | None, node: Node) -> None:
        self._apply(self.entries, before, after, node)
        self.changes.append((before, after, node))

    def commit(self, count: int) -> None:
        for before, after, node in self.changes[:count]:
            self._apply(self.durable, before, after, node)
        del self.changes[:count]

    def commit_creation(self, node: Node) -> None:
        for index, (before, _, changed) in enumerate(self.changes):
            if changed is node and before is None:
                self.commit(index + 1)
                return

    def lose(self, rng: random.Random) -> None:
        self.commit(rng.choice((0, rng.randint(0, len(self.changes)), len(self.changes))))
        self.changes.clear()
        self.entries = dict(self.durable)

    @staticmethod
    def _apply(entries: dict[str, Node], before: str | None, after: str | None, node: Node) -> None:
        if before is not None:
            entries.pop(before, None)
        if after is not None:
            entries[after] = node


Node: TypeAlias = Inode | Directory


@dataclass(slots=True)
class Fault:
    """Something this device does wrong on purpose, `count` times, where the path contains `path`."""

    operation: str
    path: str
    code: int
    count: int = 1


@dataclass(slots=True)
class Schedule:
    """When the machine shall stop: at which write-like operation from now, and how."""

    left: int
    is_torn: bool


class Device:
    """The medium, its page cache, and its faults."""

    def __init__(
        self,
        rng: random.Random,
        *,
        clock: Callable[[], int] = lambda: 1_700_000_000_000,
        note: Callable[[str], None] = lambda what: None,
        sync_delay_s: tuple[float, float] = (0.000_2, 0.005),
        recycle_probability: float = 0.02,
    ) -> None:
        self.rng = rng
        self.clock = clock
        self.note = note
        self.sync_delay_s = sync_delay_s
        self.recycle_probability = recycle_probability
        self.capacity_bytes: int | None = None
        self.faults: list[Fault] = []
        self.operation_count = 0
        self.on_crash: Callable[[], None] = lambda: None
        self._schedule: Schedule | None = None
        self._root = Directory(clock())
        self._disks: list[Disk] = []
        self._locks: dict[str, Disk] = {}

    def mount(self) -> Disk:
        """The view of a new process."""
        disk = Disk(self)
        self._disks.append(disk)
        return disk

    # Disturbances

    def kill(self) -> None:
        """Every process has ended; the page cache survives them."""
        for disk in self._disks:
            disk.is_frozen = True
        self._disks.clear()
        self._locks.clear()
        self._schedule = None

    def power_loss(self) -> None:
        """Every process has ended, and unsynced data is kept or lost by chance."""
        self.kill()
        self._lose(self._root)
        self.note("power loss")

    def crash_at(self, operation: int, *, is_torn: bool = True) -> None:
        """Stop the machine at this write-like operation from now on (0 is the next): it does not happen, or, a torn
        write, half of it does. The caller then decides between `kill` and `power_loss`."""
        self._schedule = Schedule(operation, is_torn)

    def cancel_crash(self) -> None:
        self._schedule = None

    def fail(self, operation: str, path: str, code: int = errno.EIO, count: int = 1) -> None:
        """Make the next `count` operations of this kind ("read", "write", "sync", "rename", ...; "" is any) on matching
        paths fail."""
        self.faults.append(Fault(operation, path, code, count))

    def rot(self, path: str, position: int | None = None, bit: int | None = None) -> int:
        """Flip one bit of a file, on the medium and in the cache; returns its position."""
        inode = self.inode(path)
        assert inode.cached, "an empty file cannot rot"
        position = self.rng.randrange(len(inode.cached)) if position is None else position
        mask = 1 << (self.rng.randrange(8) if bit is None else bit)
        inode.cached[position] ^= mask
        if position < len(inode.durable):
            inode.durable[position] ^= mask
        self.note(f"rot {path} {position}")
        return position

    def _lose(self, directory: Directory) -> None:
        directory.lose(self.rng)
        for _, node in sorted(directory.entries.items()):
            if isinstance(node, Directory):
                self._lose(node)
            else:
                node.lose(self.rng)

    # What scenarios look at

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with it now."""
        return not self.faults and self.capacity_bytes is None

    def files(self, under: str = "/") -> list[str]:
        """Paths of all files, as programs see them."""
        node = self.find(under)
        return [] if not isinstance(node, Directory) else sorted(self._walk(under.rstrip("/"), node))

    def _walk(self, path: str, directory: Directory) -> Iterator[str]:
        for name, node in directory.entries.items():
            if isinstance(node, Directory):
                yield from self._walk(f"{path}/{name}", node)
            else:
                yield f"{path}/{name}"

    def content(self, path: str) -> bytes:
        return bytes(self.inode(path).cached)

    def durable_content(self, path: str) -> bytes:
        return bytes(self.inode(path).durable)

    @property
    def used_bytes(self) -> int:
        return sum(len(self.inode(path).allocated) for path in self.files()) * PAGE_BYTES

    # What a Disk uses

    def begin(self, operation: str, path: str, disk: Disk) -> bool:
        """Before every write-like operation: whether it happens. Faults raise, a scheduled crash raises `Crashed`."""
        if disk.is_frozen:
            return False
        self.operation_count += 1
        if self._schedule is not None:
            if self._schedule.left == 0:
                self.note(f"crash at {operation} {path}")
                self._stop()
            self._schedule.left -= 1
        self.check_faults(operation, path)
        self.note(f"{operation} {path}")
        return True

    def tears(self, disk: Disk) -> bool:
        """Whether the write that is about to begin is the torn one."""
        schedule = self._schedule
        return not disk.is_frozen and schedule is not None and schedule.left == 0 and schedule.is_torn

    def check_faults(self, operation: str, path: str) -> None:
        for fault in self.faults:
            if fault.count > 0 and fault.operation in ("", operation) and fault.path in path:
                fault.count -= 1
                self.note(f"fault {operation} {path}: {errno.errorcode[fault.code]}")
                raise OSError(fault.code, os.strerror(fault.code), path)

    def _stop(self) -> None:
        for disk in self._disks:
            disk.is_frozen = True
        self._schedule = None
        self.on_crash()
        raise Crashed

    def find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in _parts(path):
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(name)
        return node

    def inode(self, path: str) -> Inode:
        node = self.find(path)
        if not isinstance(node, Inode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def directory(self, path: str) -> Directory:
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def commit_creation(self, path: str) -> None:
        """A synced file has a name, and so have the folders above it."""
        node: Node = self._root
        for name in _parts(path):
            if not isinstance(node, Directory):
                return
            child = node.entries.get(name)
            if child is None:
                return
            node.commit_creation(child)
            node = child

    def lock(self, path: str, disk: Disk) -> Callable[[], None]:
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        self._locks[path] = disk

        def release() -> None:
            if self._locks.get(path) is disk:
                del self._locks[path]

        return release


class Disk:
    """One process's view of the device: storage's `Disk`. Frozen once the process is dead: writes vanish."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.is_frozen = False

    def open(self, path: str, *, create: bool = False) -> File:
        node = self.device.find(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            parent, name = self._parent(path)
            node = Inode(self.device.clock())
            if self.device.begin("create", path, self):
                parent.change(None, name, node)
        else:
            self.device.check_faults("open", path)
        return File(self, path, node)

    def names(self, directory: str) -> list[str]:
        self.device.check_faults("names", directory)
        return sorted(self.device.directory(directory).entries)

    def exists(self, path: str) -> bool:
        return self.device.find(path) is not None

    def size(self, path: str) -> int:
        return len(self.device.inode(path).cached)

    def rename(self, source: str, target: str) -> None:
        node = self.device.find(source)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        before, old_name = self._parent(source)
        after, new_name = self._parent(target)
        replaced = after.entries.get(new_name)
        if isinstance(replaced, Directory) and (replaced.entries or isinstance(node, Inode)):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        if isinstance(node, Directory) and isinstance(replaced, Inode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), target)
        if not self.device.begin("rename", f"{source} -> {target}", self) or node is replaced:
            return
        if before is after:
            before.change(old_name, new_name, node)
        else:
            # Atomic over both folders, so both are committed: a journal would keep the two halves together.
            before.change(old_name, None, node)
            after.change(None, new_name, node)
            before.commit(len(before.changes))
            after.commit(len(after.changes))

    def remove(self, path: str) -> None:
        inode = self.device.inode(path)
        parent, name = self._parent(path)
        if self.device.begin("remove", path, self):
            parent.change(name, None, inode)

    def make_directory(self, path: str) -> None:
        parts = _parts(path)
        for end in range(1, len(parts) + 1):
            ancestor = "/" + "/".join(parts[:end])
            node = self.device.find(ancestor)
            if isinstance(node, Inode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            if node is None:
                parent, name = self._parent(ancestor)
                if self.device.begin("mkdir", ancestor, self):
                    parent.change(None, name, Directory(self.device.clock()))

    def remove_directory(self, path: str) -> None:
        directory = self.device.directory(path)
        if directory.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        parent, name = self._parent(path)
        if self.device.begin("rmdir", path, self):
            parent.change(name, None, directory)

    def sync_directory(self, path: str) -> None:
        directory = self.device.directory(path)
        if self.device.begin("syncdir", path, self):
            directory.commit(len(directory.changes))

    def absolute(self, path: str) -> str:
        return path

    def free_bytes(self, path: str) -> int:
        self.device.directory(path)
        if self.device.capacity_bytes is None:
            return LARGE_BYTES
        return max(0, self.device.capacity_bytes - self.device.used_bytes)

    def total_bytes(self, path: str) -> int:
        return LARGE_BYTES if self.device.capacity_bytes is None else self.device.capacity_bytes

    def modified_timestamp(self, path: str) -> int:
        node = self.device.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node.modified_timestamp

    def lock(self, path: str) -> Callable[[], None]:
        if not self.exists(path):
            self.open(path, create=True).close()
        return self.device.lock(posixpath.normpath(path), self)

    def _parent(self, path: str) -> tuple[Directory, str]:
        parts = _parts(path)
        return self.device.directory("/" + "/".join(parts[:-1])), parts[-1]


class File:
    """An open file of a simulated disk."""

    __slots__ = ("_device", "_disk", "_held", "_inode", "path")

    def __init__(self, disk: Disk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._device = disk.device
        self._inode: Inode | None = inode
        self._held = 0
        self.path = path

    def read(self, position: int, size: int) -> bytes:
        inode = self._open()
        self._device.check_faults("read", self.path)
        return bytes(inode.cached[position : position + size])

    def write(self, position: int, data: Buffer) -> None:
        inode, device = self._open(), self._device
        view = memoryview(data).cast("B")
        if device.tears(self._disk):
            inode.write(position, bytes(view[: device.rng.randrange(len(view) + 1)]))
        if not device.begin("write", self.path, self._disk):
            return
        room = self._room(inode, position, len(view))
        inode.write(position, bytes(view[:room]))
        inode.modified_timestamp = device.clock()
        if room < len(view):
            device.note(f"full {self.path}")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def truncate(self, size: int) -> None:
        inode = self._open()
        if self._device.begin("truncate", self.path, self._disk):
            inode.truncate(size)
            inode.modified_timestamp = self._device.clock()

    def size(self) -> int:
        return len(self._open().cached)

    async def sync(self) -> None:
        inode = self._open()
        pages = list(inode.dirty)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            try:
                self._sync(inode, pages)
            except BaseException as error:
                if not done.cancelled():
                    done.set_exception(error)
            else:
                if not done.cancelled():
                    done.set_result(None)

        self._held += 1
        try:
            loop.call_later(self._device.rng.uniform(*self._device.sync_delay_s), finish)
            await done
        finally:
            self._held -= 1

    def sync_now(self) -> None:
        inode = self._open()
        self._sync(inode, list(inode.dirty))

    def fileno(self) -> int | None:
        return None

    def reserve(self, position: int, size: int) -> None:
        return

    def is_cached(self, position: int, size: int) -> bool:
        return self._device.rng.random() < 0.8

    def hold(self) -> None:
        self._open()
        self._held += 1

    def release(self) -> None:
        self._held -= 1
        assert self._held >= 0, f"{self.path} released more often than held"

    def moved(self, path: str) -> None:
        self.path = path

    def close(self) -> None:
        self._inode = None

    def _open(self) -> Inode:
        if self._inode is None or (not self._held and self._device.rng.random() < self._device.recycle_probability):
            self._inode = self._device.inode(self.path)
        return self._inode

    def _sync(self, inode: Inode, pages: list[int]) -> None:
        device = self._device
        try:
            happens = device.begin("sync", self.path, self._disk)
        except OSError:
            inode.dirty.clear()  # the kernel reports a lost page once and calls it clean
            raise
        if happens:
            inode.sync([page for page in pages if page in inode.dirty])
            device.commit_creation(self.path)

    def _room(self, inode: Inode, position: int, size: int) -> int:
        """The part of a write that fits: whole pages, or all of it."""
        capacity = self._device.capacity_bytes
        if capacity is None or not size:
            return size
        free = (capacity - self._device.used_bytes) // PAGE_BYTES
        for page in range(position // PAGE_BYTES, (position + size - 1) // PAGE_BYTES + 1):
            if page not in inode.allocated:
                if free <= 0:
                    return max(0, page * PAGE_BYTES - position)
                free -= 1
        return size


@lru_cache(10_000)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in posixpath.normpath(path).split("/") if part)
