"""Opens a partition's folder after a clean or an unclean stop. After a clean stop the files are complete: the log's end
follows from the last index entry and the batches after it. After a crash (kill -9, power loss) each segment from the
one with the recovery point on is read from its beginning and every batch's CRC is checked; the log ends before the
first bytes that are not a whole valid batch following its predecessor (a torn write, a page of zeros, bit rot), and
later segments are removed. Indexes, leader epochs and producers of these segments are rebuilt. Segments before the
recovery point were synced and are not read again, as in Kafka; synced bytes are cut off only if they are corrupt.

Recovery needs no room on the disk: what it rebuilds and cannot write stays in memory, and the recovery point stays
before it, so that the next flush writes it or the next start rebuilds it.

A clean stop is not trusted blindly either: if the last segment does not end with a whole batch it is recovered, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ottla.config import TopicConfig
from ottla.replication import LeaderEpochs, ProducerState
from ottla.storage.checkpoints import CorruptCheckpoint, read_epochs, read_topic_id
from ottla.storage.disk import Disk
from ottla.storage.index import MAX_RELATIVE_OFFSET, OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from ottla.storage.log import Log
from ottla.storage.segment import CLEANED, DELETED, SEGMENT_SUFFIXES, SWAP, Segment
from ottla.storage.snapshots import (
    SNAPSHOT,
    rebuild_producers,
    remove_if_there,
    replay,
    snapshot_path,
    write_snapshot,
)
from ottla.storage.tail import NEVER, NO_ROOM

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LastStop:
    """What a log dir recorded at a log's last stop. The offsets are from its checkpoint files, 0 if they are lost: then
    everything is checked.
    """

    is_clean: bool
    """Whether the log dir was closed properly."""
    recovery_point: int = 0
    log_start_offset: int = 0
    may_have_gaps: bool = False
    """Whether gaps between offsets after the recovery point may be normal (compaction) and not lost bytes, because that
    point itself is lost.
    """


def load_log(
    disk: Disk,
    directory: str,
    topic: str,
    partition: int,
    config: TopicConfig,
    last_stop: LastStop,
    *,
    timestamp: int,
    producer_expiration_ms: int = 86_400_000,
    rng: Random | None = None,
    remove_later: Callable[[list[str], int], None] | None = None,
    on_failure: Callable[[Log, OSError], None] | None = None,
) -> Log:
    """The log in a folder, ready for use."""
    found = _Recovery(disk, directory, config, last_stop, timestamp, producer_expiration_ms)
    found.check_segments()
    found.start_anew_if_behind()
    found.settle_offsets()
    found.rebuild_producers()
    found.log_outcome()
    log = Log(
        disk,
        directory,
        topic,
        partition,
        config,
        segments=found.segments,
        log_start_offset=found.log_start_offset,
        log_end_offset=found.log_end_offset,
        recovery_point=found.recovery_point,
        epochs=found.epochs,
        producers=found.producers,
        snapshots=found.snapshots,
        topic_id=read_topic_id(disk, directory) if "partition.metadata" in found.present else None,
        rng=rng,
        remove_later=remove_later,
        on_failure=on_failure,
    )
    log._fresh_files = found.is_new
    return log


class _Recovery:
    """The recovery of one folder: finds the files that exist, then performs the steps of `load_log` in their order."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: TopicConfig,
        last_stop: LastStop,
        timestamp: int,
        producer_expiration_ms: int,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._interval_bytes = config.index_interval_bytes
        self._is_clean = last_stop.is_clean
        self._may_have_gaps = last_stop.may_have_gaps or "compact" in config.cleanup_policy
        self._timestamp = timestamp
        self._producer_expiration_ms = producer_expiration_ms
        self._is_cut = False
        self._unwritten_offset = NEVER
        """The base offset of the first segment whose indexes did not fit on the disk."""
        self._recovered_bytes = self._recovered_count = 0
        self.is_new = False
        """Whether the log's only segment was created just now."""
        names = disk.names(directory)
        if any(name.endswith((CLEANED, SWAP, DELETED)) for name in names):
            names = _finish_swaps(disk, directory, names)
        self.present = set(names)
        self.snapshots = sorted(
            offset for name in names if name.endswith(SNAPSHOT) and (offset := _offset_of(name, SNAPSHOT)) is not None
        )
        self.segments, self._damaged = _load_segments(disk, directory, names, self.present, timestamp)
        self.epochs = self._read_epochs()
        # The file is replaced whenever an epoch begins, and synced later: a power loss may leave it empty, though the
        # log up to the recovery point is there.
        self._are_epochs_lost = not self._is_clean and not len(self.epochs)
        self.producers = ProducerState()
        self.log_start_offset = self.log_end_offset = last_stop.log_start_offset
        self.recovery_point = last_stop.recovery_point

    def _read_epochs(self) -> LeaderEpochs:
        try:
            if "leader-epoch-checkpoint" in self.present:
                return LeaderEpochs(read_epochs(self._disk, self._directory))
        except CorruptCheckpoint as trouble:
            logger.warning("%s: %s; leader epochs are read from the log", self._directory, trouble)
        return LeaderEpochs()

    def check_segments(self) -> None:
        """Recover the segments that the last stop does not vouch for, and find the log's end: before the first segment
        that does not continue its predecessor.
        """
        segments = self.segments
        for index in range(len(segments)):
            next_base = segments[index + 1].base_offset if index + 1 < len(segments) else None
            is_beyond = next_base is None or next_base > self.recovery_point
            self._check_segment(index, is_beyond)
            if next_base is None or (is_beyond and not self._is_clean):
                self._find_end(index, next_base)
            if self._is_cut:
                self._remove_behind(index)
                break

    def _check_segment(self, index: int, is_beyond: bool) -> None:
        segment = self.segments[index]
        if self._are_epochs_lost and not is_beyond:
            _note_epochs(segment, self.epochs)
        if not self._is_clean and is_beyond:
            # For records after the recovery point only the log itself is right about epochs: the file may have epochs
            # of lost records, whose place older, truncated records took.
            self.epochs.truncate_from_end(segment.base_offset)
            self._is_cut = self._recover(index, self._may_have_gaps)
        elif segment in self._damaged and segment.size:
            logger.warning("%s: rebuilding its index files, which cannot be used", segment.path)
            try:
                segment.rebuild_indexes(self._interval_bytes)
            except OSError as trouble:
                self._write_later(segment, trouble)

    def _find_end(self, index: int, next_base: int | None) -> None:
        """Find the log's end if this segment is its last; cut the log there if the next segment does not continue
        it.
        """
        segment = self.segments[index]
        self.log_end_offset, end = segment.next_offset()
        if end != segment.size:
            logger.warning("%s ends within a batch, although the node stopped cleanly", segment.path)
            self._is_cut = self._recover(index, True)
            self.log_end_offset, _ = segment.next_offset()
        if next_base is not None and self.log_end_offset < next_base and not self._may_have_gaps:
            # Lost pages may end exactly at a batch: nothing to cut, but the next segment is no continuation.
            self._is_cut = True
        if next_base is not None and self.log_end_offset > next_base:
            # A removed file came back after a power loss: the log continued in this segment, not in that one.
            logger.warning("%s begins within the segment before it and is removed", self.segments[index + 1].path)
            self._is_cut = True

    def _recover(self, index: int, may_have_gaps: bool) -> bool:
        """Check a segment's batches, cut it after the last valid one, and rebuild its indexes, epochs and producers.
        True if bytes were cut.
        """
        segment = self.segments[index]
        segment.offset_index.reset()
        segment.time_index.reset()
        segment.transaction_index.reset()
        segment.max_timestamp = segment.first_timestamp = -1
        segment.offset_of_max_timestamp = segment.base_offset
        segment.bytes_since_entry = segment.largest_batch_size = 0
        self._recovered_bytes += segment.size
        self._recovered_count += 1
        producers = ProducerState()
        self._rebuild(producers, self.segments[:index], segment.base_offset, is_clean=False)
        end = 0
        next_offset = segment.base_offset
        for position, header, batch in segment.batches(check=True):
            if header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
                break
            if header.base_offset != next_offset and not may_have_gaps:
                break  # the CRC does not cover the base offset: this check does
            segment.note(
                position,
                len(batch),
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
                self._interval_bytes,
            )
            if header.leader_epoch > self.epochs.latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
            replay(producers, header, batch, segment)
            end = position + len(batch)
            next_offset = header.next_offset
        cut = segment.size - end
        if cut:
            logger.warning("%s: %d bytes after position %d are no valid batches and are cut", segment.path, cut, end)
            segment.file.truncate(end)
            segment.size = end
        segment.is_checked = True
        try:
            segment.seal()
            write_snapshot(self._disk, self._directory, producers, self.snapshots)
        except OSError as trouble:
            self._write_later(segment, trouble)
        return cut > 0

    def _write_later(self, segment: Segment, trouble: OSError) -> None:
        """Continue on a full disk: index entries stay in memory until a flush, and an earlier snapshot with the batches
        since gives the same producers. Any other error takes the log dir offline.
        """
        if trouble.errno not in NO_ROOM:
            raise trouble
        logger.warning("%s: its index or producer snapshot is written later: %s", segment.path, trouble)
        self._unwritten_offset = min(self._unwritten_offset, segment.base_offset)

    def log_outcome(self) -> None:
        """Log one line for a log that was not closed cleanly, if any of it had to be read again."""
        if self._recovered_bytes:
            logger.info(
                "%s: recovered, %d bytes of %d segments were read again; the log ends at offset %d",
                self._directory,
                self._recovered_bytes,
                self._recovered_count,
                self.log_end_offset,
            )

    def _remove_behind(self, index: int) -> None:
        rest = self.segments[index + 1 :]
        for segment in rest:
            _remove_segment(self._disk, segment)
        if rest:
            self._disk.sync_directory(self._directory)  # otherwise they could come back
        del self.segments[index + 1 :]

    def start_anew_if_behind(self) -> None:
        """Remove a log that ends before its start offset; create an empty segment in a folder without any."""
        if self.segments and self.log_end_offset < self.log_start_offset:
            logger.warning(
                "%s ends at %d, before its start at %d: it starts anew",
                self._directory,
                self.log_end_offset,
                self.log_start_offset,
            )
            for segment in self.segments:
                _remove_segment(self._disk, segment)
            self.segments = []
            self.epochs.clear()
            for offset in self.snapshots:
                self._disk.remove(snapshot_path(self._directory, offset))
            self.snapshots = []
            self.log_end_offset = self.log_start_offset
        self.is_new = not self.segments
        if self.is_new:
            self.segments = [
                Segment.create(self._disk, self._directory, self.log_start_offset, created_timestamp=self._timestamp)
            ]

    def settle_offsets(self) -> None:
        """Make start offset, recovery point and epochs consistent with the remaining segments."""
        is_trusted = self._is_clean and not self._is_cut
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        self.epochs.truncate_from_end(self.log_end_offset)
        self.epochs.truncate_from_start(self.log_start_offset)
        point = self.log_end_offset if is_trusted else min(self.recovery_point, self.log_end_offset)
        self.recovery_point = max(min(point, self._unwritten_offset), self.log_start_offset)

    def rebuild_producers(self) -> None:
        """Rebuild the producers as of the log's end."""
        if self.log_end_offset > self.log_start_offset or self.snapshots:
            _remove_stray_snapshots(self._disk, self._directory, self.segments, self.snapshots)
            self._rebuild(self.producers, self.segments, self.log_end_offset, is_clean=self._is_clean)
        else:
            self.producers.end_offset = self.log_end_offset

    def _rebuild(self, producers: ProducerState, segments: list[Segment], end_offset: int, *, is_clean: bool) -> None:
        rebuild_producers(
            self._disk,
            self._directory,
            segments,
            producers,
            self.snapshots,
            log_start_offset=self.log_start_offset,
            end_offset=end_offset,
            timestamp=self._timestamp,
            expiration_ms=self._producer_expiration_ms,
            is_clean=is_clean,
        )


def _offset_of(name: str, suffix: str) -> int | None:
    digits = name[: -len(suffix)]
    return int(digits) if len(digits) == 20 and digits.isdigit() else None


def _base_of(name: str) -> int | None:
    digits = name[:20]
    return int(digits) if len(digits) == 20 and digits.isdigit() else None


def _finish_swaps(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Complete or undo what a crash interrupted. .deleted files are removed. A .cleaned means that a replacement was
    still being built: it is removed with every .swap at or above it. Any other .swap is a complete replacement: it
    takes the place of the segments that it covers.
    """
    cleaned = [base for name in names if name.endswith(CLEANED) and (base := _base_of(name)) is not None]
    least_cleaned = min(cleaned, default=None)
    swaps: list[str] = []
    for name in names:
        if name.endswith((DELETED, CLEANED)):
            disk.remove(f"{directory}/{name}")
        elif name.endswith(SWAP):
            base = _base_of(name)
            if base is None or (least_cleaned is not None and base >= least_cleaned):
                disk.remove(f"{directory}/{name}")
            else:
                swaps.append(name)
    logs = [name for name in swaps if name.endswith(f".log{SWAP}")]
    if logs:
        first, end = None, 0
        for name in logs:
            base = _base_of(name)
            assert base is not None
            segment = Segment(disk, directory, base, size=disk.size(f"{directory}/{name}"), suffix=SWAP)
            first = base if first is None else min(first, base)
            end = max(end, segment.next_offset()[0])
            segment.close()
        assert first is not None
        for name in disk.names(directory):
            base = _base_of(name)
            if base is not None and not name.endswith(SWAP) and first <= base < end and _is_segment_file(name):
                logger.info("%s/%s was replaced by a cleaned segment", directory, name)
                disk.remove(f"{directory}/{name}")
    for name in swaps:
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    return disk.names(directory)


def _is_segment_file(name: str) -> bool:
    return name.endswith(SEGMENT_SUFFIXES)


def _load_segments(
    disk: Disk, directory: str, names: list[str], present: set[str], timestamp: int
) -> tuple[list[Segment], list[Segment]]:
    """The segments, by their .log files, and those whose indexes are missing or certainly wrong. Index files without a
    .log are removed.
    """
    segments: list[Segment] = []
    damaged: list[Segment] = []
    for name in names:
        base = _base_of(name)
        if base is None:
            continue
        stem = name[:20]
        if name.endswith(".log") and len(name) == 24:
            size = disk.size(f"{directory}/{name}")
            has_indexes = f"{stem}.index" in present and f"{stem}.timeindex" in present
            offset_bytes = disk.size(f"{directory}/{stem}.index") if has_indexes else 0
            time_bytes = disk.size(f"{directory}/{stem}.timeindex") if has_indexes else 0
            segment = Segment(
                disk,
                directory,
                base,
                size=size,
                offset_entries=offset_bytes // OFFSET_ENTRY_SIZE,
                time_entries=time_bytes // TIME_ENTRY_SIZE,
                has_transactions=f"{stem}.txnindex" in present,
                created_timestamp=timestamp,
            )
            segments.append(segment)
            if not has_indexes or offset_bytes % OFFSET_ENTRY_SIZE or time_bytes % TIME_ENTRY_SIZE:
                damaged.append(segment)
        elif _is_segment_file(name) and f"{stem}.log" not in present:
            logger.warning("%s/%s belongs to no segment and is removed", directory, name)
            disk.remove(f"{directory}/{name}")
    return segments, damaged


def _note_epochs(segment: Segment, epochs: LeaderEpochs) -> None:
    """Add the epochs of a segment that needs no recovery."""
    for _, header, _ in segment.batches():
        if header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)


def _remove_stray_snapshots(disk: Disk, directory: str, segments: list[Segment], snapshots: list[int]) -> None:
    """Keep the snapshots at segment starts and the latest other one if it is beyond the last segment's start (the one
    of a clean stop).
    """
    bases = {segment.base_offset for segment in segments}
    strays = [offset for offset in snapshots if offset not in bases]
    if strays and strays[-1] >= segments[-1].base_offset:
        strays.pop()
    for offset in strays:
        snapshots.remove(offset)
        remove_if_there(disk, snapshot_path(directory, offset))


def _remove_segment(disk: Disk, segment: Segment) -> None:
    segment.close()
    for path in segment.paths():
        remove_if_there(disk, path)
