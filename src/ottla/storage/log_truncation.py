"""How a log loses records: DeleteRecords and retention at its start, truncation at its end, compaction in between."""

from __future__ import annotations

import asyncio

from ottla.records import CorruptRecords
from ottla.storage.log_reads import LogReads
from ottla.storage.segment import DELETED, SWAP, Segment
from ottla.storage.snapshots import rebuild_producers, remove_if_there, snapshot_path
from ottla.wire.errors import ErrorCode, KafkaError


class LogTruncation(LogReads):
    """The part of a log that removes records."""

    __slots__ = ()

    # --- at the start

    def delete_records(self, offset: int) -> int:
        """DeleteRecords: remove the records below `offset` (-1: the high watermark); returns the new log start offset.
        The next retention run deletes the files.
        """
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} of {self.name} is above the high watermark {self.high_watermark}",
            )
        self.advance_log_start(offset)
        return self.log_start_offset

    def advance_log_start(self, offset: int) -> bool:
        """Raise the log start offset; it never goes back."""
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.high_watermark < offset:
            self.advance_high_watermark(offset)
        if self.recovery_point < offset:
            self.recovery_point = offset
        self.epochs.truncate_from_start(offset)
        self.producers.advance_log_start(offset)
        if self._snapshots:
            self.producers.snapshot_offset = self._snapshots[-1]
        return True

    def remove_segments(self, count: int, *, timestamp: int) -> int:
        """Remove the `count` oldest segments: the log starts after them, and their files are renamed now and deleted
        after file.delete.delay.ms. Before all segments are removed a new one is rolled, so that the log keeps its end
        offset.
        """
        if not count:
            return 0
        if count == len(self.segments):
            if not self.segments[-1].size:
                count -= 1
            else:
                self.roll(timestamp=timestamp)
        if not count:
            return 0
        removed = self.segments[:count]
        start = self.segments[count].base_offset
        is_synced = self.recovery_point >= start
        try:
            self.advance_log_start(start)
            del self.segments[:count]
            self._discard(removed)
            if not is_synced:
                # The recovery point is beyond them now: recovery would not check their bytes if a power loss brought
                # their names back.
                self._disk.sync_directory(self.directory)
        except OSError as trouble:
            self._failed(trouble)
        return count

    def _discard(self, segments: list[Segment], *, keep_snapshots: bool = False) -> None:
        paths: list[str] = []
        for segment in segments:
            segment.rename(DELETED)
            paths += segment.paths()
            if not keep_snapshots:
                paths += self._discard_snapshot(segment.base_offset)
            segment.close()  # an open descriptor would keep the bytes of a deleted file on the disk
        self._remove_later(paths, self._file_delete_delay_ms)

    def _discard_snapshot(self, offset: int) -> list[str]:
        if offset not in self._snapshots:
            return []
        self._snapshots.remove(offset)
        path = snapshot_path(self.directory, offset)
        try:
            self._disk.rename(path, path + DELETED)
        except FileNotFoundError:
            return []
        return [path + DELETED]

    # --- at the end

    def truncate(self, offset: int, *, timestamp: int) -> bool:
        """Remove everything from `offset` on, as a follower does when its leader's log differs. False if there is
        nothing.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        try:
            if offset < self.segments[0].base_offset:
                self.truncate_fully(offset, timestamp=timestamp)
                return True
            self._tail_offset = -1
            self._truncations += 1
            gone = [segment for segment in self.segments if segment.base_offset > offset]
            del self.segments[len(self.segments) - len(gone) :]
            self._active = None
            self._discard(gone)
            self.segments[-1].truncate(offset)
            self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, offset)
            self.epochs.truncate_from_end(offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            self._activate()
            self.rebuild_producers(offset, timestamp=timestamp)
            self.advance_high_watermark(min(self.high_watermark, offset))
        except OSError as trouble:
            self._failed(trouble)
        except CorruptRecords as trouble:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(trouble)) from None
        return True

    def cut(self, offset: int, *, timestamp: int) -> None:
        """`truncate`, and refuse appends until `sync_end` has put that on disk (L5). After a cut below the recovery
        point the checkpoint must be written first, too: recovery would trust whatever is written there later.
        """
        self.is_cut = True
        if offset < self.recovery_point:
            self.is_cut_below_recovery_point = True
        self.truncate(offset, timestamp=timestamp)

    async def sync_end(self) -> None:
        """Put the present end of the log on disk, so that a power loss cannot bring the removed records back."""
        while True:
            segment = self.active_segment
            truncations = self._truncations
            try:
                await segment.file.sync()
                # Removed segments must not come back either.
                await asyncio.get_running_loop().run_in_executor(None, self._disk.sync_directory, self.directory)
            except FileNotFoundError as trouble:
                if self.is_offline:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from None  # deleted while it was synced
                if segment is self.active_segment:
                    self._failed(trouble)
                continue  # another truncation removed it: the log has another end now
            except OSError as trouble:
                self._failed(trouble)
            if truncations == self._truncations:
                self.is_cut = self.is_cut_below_recovery_point = False
            return

    def truncate_fully(self, offset: int, *, timestamp: int) -> None:
        """Remove everything and continue at `offset`: for a follower that is behind its leader's log start."""
        try:
            self._tail_offset = -1
            self._truncations += 1
            self._discard(self.segments)
            self.segments = [
                Segment.create(
                    self._disk, self.directory, offset, created_timestamp=timestamp, jitter_ms=self._jitter_ms()
                )
            ]
            self._active = None
            self._fresh_files = True
            for snapshot in self._snapshots:
                remove_if_there(self._disk, snapshot_path(self.directory, snapshot))
            self._snapshots.clear()
            self.log_start_offset = self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, offset)
            self.epochs.clear()
            self.producers.clear(offset)
            self.advance_high_watermark(offset)
            self._activate()
        except OSError as trouble:
            self._failed(trouble)

    def rebuild_producers(
        self, end_offset: int, *, timestamp: int, expiration_ms: int = 86_400_000, is_clean: bool = False
    ) -> None:
        """Rebuild the producers as of `end_offset`: from the latest valid snapshot not beyond it and the batches after
        it.
        """
        rebuild_producers(
            self._disk,
            self.directory,
            self.segments,
            self.producers,
            self._snapshots,
            log_start_offset=self.log_start_offset,
            end_offset=end_offset,
            timestamp=timestamp,
            expiration_ms=expiration_ms,
            is_clean=is_clean,
        )
        self.take_snapshot()

    # --- compaction

    def cleaned_segment(self, base_offset: int, *, timestamp: int) -> Segment:
        """A new segment beside the log, under .cleaned names, for the cleaner to fill. Leftovers of an interrupted
        cleaning are removed.
        """
        segment = Segment(self._disk, self.directory, base_offset, suffix=".cleaned", created_timestamp=timestamp)
        for path in segment.paths():
            remove_if_there(self._disk, path)
        segment = Segment.create(
            self._disk, self.directory, base_offset, created_timestamp=timestamp, suffix=".cleaned"
        )
        segment.limit_index(self._config.segment_index_bytes)
        return segment

    def replace_segments(self, new: list[Segment], old: list[Segment]) -> None:
        """Replace `old` segments (neighbours, not active) by cleaned ones (sealed and synced). Kafka's steps, so that a
        crash at any point leaves the old or the new ones: all new ones become .swap, from the last to the first (a
        remaining .cleaned makes every .swap at or above it invalid); the old ones become .deleted; the new ones lose
        their suffix. Recovery completes a replacement whose .swap files exist.
        """
        assert new and old and self.segments[-1] not in old
        try:
            for segment in reversed(new):
                segment.rename(SWAP)
            # From now on the new segments are the log's.
            index = self.segments.index(old[0])
            assert self.segments[index : index + len(old)] == old
            self._disk.sync_directory(self.directory)
            self.segments[index : index + len(old)] = new
            bases = [segment.base_offset for segment in new]
            paths: list[str] = []
            for segment in old:
                segment.rename(DELETED)
                paths += segment.paths()
                segment.close()
                if segment.base_offset not in bases:
                    paths += self._discard_snapshot(segment.base_offset)
            for segment in new:
                segment.rename("")
            self._remove_later(paths, self._file_delete_delay_ms)
            self._fresh_files = True
        except OSError as trouble:
            self._failed(trouble)
