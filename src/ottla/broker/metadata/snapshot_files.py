"""The snapshot files beside the metadata log: lists them, finds the latest and writes new ones.

A snapshot is written under its name with `.part` behind it, either from the image of this node or piece by piece as the
leader sends it. It is renamed when it is complete and synced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla import raft
from ottla.broker.metadata.data_folder import read_file
from ottla.broker.metadata.snapshots import Snapshot, SnapshotId, decode_snapshot
from ottla.records import CorruptRecords, read_header

if TYPE_CHECKING:
    from ottla.storage import Disk, File

Buffer = bytes | bytearray | memoryview

log = logging.getLogger("ottla.metadata_log")


class SnapshotFiles:
    """The snapshots in the folder of a metadata log, oldest first in `ids`."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._incoming: File | None = None
        self.ids: list[SnapshotId] = []

    def _path(self, id: raft.SnapshotId) -> str:
        return f"{self._directory}/{SnapshotId(*id).name}"

    @property
    def earliest(self) -> SnapshotId | None:
        return self.ids[0] if self.ids else None

    @property
    def latest(self) -> SnapshotId | None:
        return self.ids[-1] if self.ids else None

    @property
    def size(self) -> int:
        return sum(self._disk.size(self._path(id)) for id in self.ids)

    def load(self) -> Snapshot | None:
        """Find the snapshots; returns the content of the latest whole one. A damaged one is renamed out of the way."""
        found = (SnapshotId.parse(name) for name in self._disk.names(self._directory))
        self.ids = sorted(id for id in found if id is not None)
        while self.ids:
            path = self._path(self.ids[-1])
            try:
                return decode_snapshot(read_file(self._disk, path))
            except CorruptRecords as error:
                log.warning("metadata snapshot %s is skipped: %s", path, error)
                self._disk.rename(path, f"{path}.deleted")
                self.ids.pop()
        return None

    def read(self, id: raft.SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of a snapshot, and a piece of it."""
        file = self._disk.open(self._path(id))
        try:
            return file.size(), file.read(position, max_bytes)
        finally:
            file.close()

    def remove_earliest(self) -> None:
        self._disk.remove(self._path(self.ids.pop(0)))

    def earliest_timestamp(self) -> int:
        """When the earliest snapshot was written."""
        return self._disk.modified_timestamp(self._path(self.ids[0]))

    # From the image of this node

    async def write(self, id: SnapshotId, batches: Iterable[Buffer]) -> int:
        """Write a snapshot that has no name yet, and sync it; returns how many records it has. Other work runs between
        two batches. After an OSError its file is removed.
        """
        file = self._disk.open(f"{self._path(id)}.part", create=True)
        try:
            file.truncate(0)
            position = count = 0
            for batch in batches:
                file.write(position, batch)
                position += len(batch)
                count += read_header(batch).count
                await asyncio.sleep(0)
            await file.sync()
            return count
        except OSError:
            file.truncate(0)
            raise
        finally:
            file.close()

    def keep(self, id: SnapshotId) -> None:
        """Give a written snapshot its name. It is the latest."""
        self._name(id)
        self.ids.append(id)

    def discard(self, id: SnapshotId) -> None:
        """Remove a written snapshot that is not needed any more."""
        if self._disk.exists(f"{self._path(id)}.part"):
            self._disk.remove(f"{self._path(id)}.part")

    def _name(self, id: SnapshotId) -> None:
        self._disk.rename(f"{self._path(id)}.part", self._path(id))
        self._disk.sync_directory(self._directory)

    # From the leader

    def receive(self, id: raft.SnapshotId, position: int, data: Buffer) -> None:
        """Write a piece of a snapshot that the leader sends."""
        if position == 0 or self._incoming is None:
            self.close()
            self._incoming = self._disk.open(f"{self._path(id)}.part", create=True)
            self._incoming.truncate(0)
        self._incoming.write(position, bytes(data))

    def install(self, id: SnapshotId) -> Snapshot:
        """Rename a snapshot that was received completely; returns its content. CorruptRecords if it is damaged."""
        assert self._incoming is not None
        self._incoming.sync_now()
        self.close()
        content = decode_snapshot(read_file(self._disk, f"{self._path(id)}.part"))
        self._name(id)
        return content

    def keep_only(self, id: SnapshotId) -> None:
        for old in self.ids:
            if old != id:
                self._disk.remove(self._path(old))
        self.ids = [id]

    def close(self) -> None:
        if self._incoming is not None:
            self._incoming.close()
            self._incoming = None
