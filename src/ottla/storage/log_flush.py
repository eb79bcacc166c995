"""How a log becomes durable: flushes that several callers share, and the ways to close it."""

from __future__ import annotations

import asyncio
from bisect import bisect_right

from ottla.storage.checkpoints import sync_epochs
from ottla.storage.disk import File
from ottla.storage.log_reads import base_offset_of
from ottla.storage.log_truncation import LogTruncation
from ottla.storage.segment import Segment
from ottla.storage.snapshots import snapshot_path
from ottla.storage.tail import NO_ROOM
from ottla.wire.errors import ErrorCode, KafkaError


class LogFlush(LogTruncation):
    """Syncing and closing."""

    __slots__ = ()

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether closed segments are not on disk yet; they should be soon, so that a recovery is short."""
        return self.recovery_point < self.segments[-1].base_offset

    async def flush(self, offset: int | None = None) -> None:
        """Return when everything below `offset` (default: the present log end) is on the disk. One sync serves all
        callers that wait; callers that arrive while it runs share the next."""
        target = self.log_end_offset if offset is None else min(offset, self.log_end_offset)
        # A truncation can move the log's end, and so all that is left to flush, below `offset`.
        while self.recovery_point < min(target, self.log_end_offset):
            await self._flush_once(self.log_end_offset, include_active=True)

    async def flush_closed_segments(self) -> None:
        """The flush that Kafka does in the background after a roll: the recovery point moves to the start of the active
        segment.
        """
        target = self.segments[-1].base_offset
        while self.recovery_point < min(target, self.segments[-1].base_offset):
            await self._flush_once(target, include_active=False)

    async def _flush_once(self, end_offset: int, *, include_active: bool) -> None:
        """Wait for the flush under way, or else start one. The caller checks whether that was enough."""
        running = self._flushing
        if running is not None and not running.done():
            await asyncio.shield(running)
            return
        self._flushing = over = asyncio.get_running_loop().create_future()
        try:
            await self._flush(end_offset, include_active=include_active)
        finally:
            over.set_result(None)

    async def _flush(self, end_offset: int, *, include_active: bool) -> None:
        if self.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        truncations = self._truncations
        segments = self.segments
        start = max(0, bisect_right(segments, self.recovery_point, key=base_offset_of) - 1)
        active = segments[-1]
        try:
            self._flush_epochs()
            for segment in segments[start:-1]:
                segment.write_out()
            for segment in segments[start:-1]:
                await self._sync_closed(segment)
            if include_active:
                await active.file.sync()
                if active is not self.segments[-1]:
                    # It was closed meanwhile. The recovery point will be after it, so no later flush syncs its indexes:
                    # sync them now.
                    await self._sync_closed(active)
            snapshot = self._unsynced_snapshot
            if snapshot >= 0:
                await self._sync_snapshot(snapshot)
                if snapshot == self._unsynced_snapshot:
                    self._unsynced_snapshot = -1
            if self._fresh_files:
                await self._sync_directory()
        except FileNotFoundError as trouble:
            if truncations != self._truncations:
                return  # a truncation removed it: the caller checks again
            if not self.is_offline:
                self._failed(trouble)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from None  # deleted while it was synced
        except OSError as trouble:
            self._failed(trouble)
        if truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, min(end_offset, self.log_end_offset))

    def _flush_epochs(self) -> None:
        """Write the epochs' file if they changed. On a full disk the file of a log that is always recovered may lag:
        recovery finds the epochs in its records.
        """
        if self.epochs.is_dirty:
            try:
                self.write_epochs(sync=True)
            except OSError as trouble:
                if trouble.errno not in NO_ROOM or not self.is_always_recovered:
                    raise

    async def _sync_closed(self, segment: Segment) -> None:
        try:
            await segment.sync()
        except FileNotFoundError:
            if segment in self.segments:
                raise
        if segment.suffix:
            segment.close()  # it was removed meanwhile
        segment.offset_index.close()
        segment.time_index.close()

    async def _sync_directory(self) -> None:
        self._fresh_files = False
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._disk.sync_directory, self.directory)
        except BaseException:
            self._fresh_files = True
            raise

    async def _sync_snapshot(self, offset: int) -> None:
        try:
            file = self._disk.open(snapshot_path(self.directory, offset))
        except FileNotFoundError:
            return  # its segment has been removed
        try:
            await file.sync()
        finally:
            file.close()

    def flush_now(self) -> None:
        """`flush`, blocking: for a start, and for a stop without a loop."""
        segments = self.segments
        start = max(0, bisect_right(segments, self.recovery_point, key=base_offset_of) - 1)
        try:
            self._flush_epochs()
            if self.recovery_point < self.log_end_offset:
                for segment in segments[start:-1]:
                    segment.write_out()
                    segment.sync_now()
                segments[-1].file.sync_now()
            if self._fresh_files:
                self._fresh_files = False
                self._disk.sync_directory(self.directory)
        except OSError as trouble:
            self._failed(trouble)
        self.recovery_point = self.log_end_offset

    # --- closing

    def close(self, *, sync: bool = False) -> None:
        """Write everything that is only in memory (indexes, epochs, producers) and close the files. With `sync` it is
        also on the disk: a stop is clean only if a power loss after it changes nothing.
        """
        try:
            for file in self._write_out(sync=sync):
                if sync:
                    file.sync_now()
                file.close()
            if sync and self._fresh_files:
                self._fresh_files = False
                self._disk.sync_directory(self.directory)
        except OSError as trouble:
            self._failed(trouble)
        finally:
            self._give_back()

    async def shut(self) -> None:
        """`flush`, then `close` with `sync`, without blocking the loop: many logs at once take little longer than one.
        A log that never had a record skips the syncs: it has nothing to lose.
        """
        if not self.log_end_offset and not self.is_cut:
            self.close()
            return
        await self.flush()
        if self.is_cut:
            await self.sync_end()
        try:
            if self.epochs.is_dirty:
                await sync_epochs(self._disk, self.directory, self.epochs.entries)
                self.epochs.is_dirty = False
            for file in self._write_out(sync=True):
                await file.sync()
                file.close()
            if self._fresh_files:
                await self._sync_directory()
        except OSError as trouble:
            self._failed(trouble)
        finally:
            self._give_back()

    def _write_out(self, *, sync: bool) -> list[File]:
        """Write everything that is only in memory. Returns the files that must be synced against a power loss."""
        if self._is_epoch_file_due:
            self.write_epochs(sync=sync and bool(self.epochs.epochs))
        self.take_snapshot()
        files: list[File] = []
        active = self.segments[-1]
        if self._active is not None or active.is_index_missing():
            active.seal()
            self._fresh_files = True
            for index in (active.offset_index, active.time_index, active.transaction_index):
                file = index.file()
                if file is not None and len(index):
                    files.append(file)
        if self._unsynced_snapshot >= 0:
            files.append(self._disk.open(snapshot_path(self.directory, self._unsynced_snapshot)))
            self._unsynced_snapshot = -1
            self._fresh_files = True
        return files

    def _give_back(self) -> None:
        for segment in self.segments:
            segment.close()
        self._active = None

    def moved(self, directory: str) -> None:
        """Its folder was renamed."""
        self.directory = directory
        for segment in self.segments:
            segment.moved(directory)
