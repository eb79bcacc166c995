"""Opening a partition's folder, whatever the last stop was.

After a clean stop every file is as it was left: the log's end is read off the last index entry and the batches behind
it. After a crash (kill -9, power loss) each segment from the one with the recovery point on is read from its
beginning and every batch's CRC is checked; the log ends before the first thing that is not a whole valid batch
following its predecessor (a torn write, a page of zeros, bit rot) and later segments go. Indexes, leader epochs and
producers of these segments are made anew. What lies in segments before the recovery point was synced and is not read
again, as in Kafka; nothing synced is ever cut off unless it has rotted.

A clean stop is not trusted blindly either: if the last segment does not end with a whole batch it is recovered, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

from ottla.config import TopicConfig
from ottla.replication import LeaderEpochs, ProducerState
from ottla.storage.checkpoints import CorruptCheckpoint, read_epochs, read_topic_id
from ottla.storage.disk import Disk
from ottla.storage.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
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

logger = logging.getLogger(__name__)


def load_log(
    disk: Disk,
    directory: str,
    topic: str,
    partition: int,
    config: TopicConfig,
    *,
    is_clean: bool,
    recovery_point: int,
    log_start_offset: int,
    timestamp: int,
    may_have_gaps: bool = False,
    producer_expiration_ms: int = 86_400_000,
    rng: Random | None = None,
    remove_later: Callable[[list[str], int], None] | None = None,
    on_failure: Callable[[Log, OSError], None] | None = None,
) -> Log:
    """The log in a folder, ready for use. `is_clean` says that the log dir was closed properly; the two offsets are
    those of its checkpoint files (0 when they are lost: then everything is checked). `may_have_gaps`: a hole between
    the offsets beyond the recovery point need not come from lost bytes, since that point itself is lost."""
    names = disk.names(directory)
    if any(name.endswith((CLEANED, SWAP, DELETED)) for name in names):
        names = _finish_swaps(disk, directory, names)
    present = set(names)
    snapshots = sorted(
        offset for name in names if name.endswith(SNAPSHOT) and (offset := _offset_of(name, SNAPSHOT)) is not None
    )
    segments, damaged = _load_segments(disk, directory, names, present, timestamp)
    try:
        epochs = LeaderEpochs(read_epochs(disk, directory)) if "leader-epoch-checkpoint" in present else LeaderEpochs()
    except CorruptCheckpoint as trouble:
        logger.warning("%s: %s; leader epochs are read from the log", directory, trouble)
        epochs = LeaderEpochs()
    # The file is replaced whenever an epoch begins, and synced later: a power loss may leave it empty, though the log
    # up to the recovery point is there.
    are_epochs_lost = not is_clean and not len(epochs)
    producers = ProducerState()
    interval_bytes = config.index_interval_bytes

    may_have_gaps = may_have_gaps or "compact" in config.cleanup_policy

    def recover(index: int, may_have_gaps: bool) -> bool:
        return _recover(
            disk,
            segments,
            index,
            interval_bytes,
            epochs,
            snapshots,
            log_start_offset,
            timestamp,
            producer_expiration_ms,
            may_have_gaps,
        )

    is_cut = False
    log_end_offset = log_start_offset
    for index, segment in enumerate(segments):
        next_base = segments[index + 1].base_offset if index + 1 < len(segments) else None
        is_beyond = next_base is None or next_base > recovery_point
        if are_epochs_lost and not is_beyond:
            _note_epochs(segment, epochs)
        if not is_clean and is_beyond:
            # Of what is beyond the recovery point the log itself knows its epochs: the file may tell of records that
            # were lost, where others stand that had been cut off before.
            epochs.truncate_from_end(segment.base_offset)
            is_cut = recover(index, may_have_gaps)
        elif segment in damaged and segment.size:
            logger.warning("%s: its index files are not usable and are made anew", segment.path)
            segment.rebuild_indexes(interval_bytes)
        if next_base is None or (is_beyond and not is_clean):
            log_end_offset, end = segment.next_offset()
            if end != segment.size:
                logger.warning("%s does not end with a whole batch in spite of a clean stop", segment.path)
                is_cut = recover(index, True)
                log_end_offset, _ = segment.next_offset()
            if next_base is not None and log_end_offset < next_base and not may_have_gaps:
                # Lost pages may end at a batch: nothing to cut, yet what follows is not the continuation.
                is_cut = True
            if next_base is not None and log_end_offset > next_base:
                # A file that had been removed came back with a power loss: the log went on here, not there.
                logger.warning("%s begins within the segment before it and is removed", segments[index + 1].path)
                is_cut = True
        if is_cut:
            for rest in segments[index + 1 :]:
                _remove_segment(disk, rest)
            if segments[index + 1 :]:
                disk.sync_directory(directory)  # or they could come back
            del segments[index + 1 :]
            break

    if segments and log_end_offset < log_start_offset:
        logger.warning(
            "%s ends at %d, before its start at %d: it starts anew", directory, log_end_offset, log_start_offset
        )
        for segment in segments:
            _remove_segment(disk, segment)
        segments = []
        epochs.clear()
        for offset in snapshots:
            disk.remove(snapshot_path(directory, offset))
        snapshots = []
        log_end_offset = log_start_offset
    if not segments:
        segments = [Segment.create(disk, directory, log_start_offset, created_timestamp=timestamp)]
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    recovery_point = log_end_offset if is_clean and not is_cut else min(recovery_point, log_end_offset)

    if log_end_offset > log_start_offset or snapshots:
        _remove_stray_snapshots(disk, directory, segments, snapshots)
        rebuild_producers(
            disk,
            directory,
            segments,
            producers,
            snapshots,
            log_start_offset=log_start_offset,
            end_offset=log_end_offset,
            timestamp=timestamp,
            expiration_ms=producer_expiration_ms,
            is_clean=is_clean,
        )
    else:
        producers.end_offset = log_end_offset
    return Log(
        disk,
        directory,
        topic,
        partition,
        config,
        segments=segments,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        recovery_point=max(recovery_point, log_start_offset),
        epochs=epochs,
        producers=producers,
        snapshots=snapshots,
        topic_id=read_topic_id(disk, directory) if "partition.metadata" in present else None,
        rng=rng,
        remove_later=remove_later,
        on_failure=on_failure,
    )


def _offset_of(name: str, suffix: str) -> int | None:
    digits = name[: -len(suffix)]
    return int(digits) if len(digits) == 20 and digits.isdigit() else None


def _base_of(name: str) -> int | None:
    digits = name[:20]
    return int(digits) if len(digits) == 20 and digits.isdigit() else None


def _finish_swaps(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """End what a crash interrupted. Files to be deleted go. A .cleaned means that a replacement was still being
    built, so it goes with every .swap at or above it; another .swap is a replacement that was decided: the segments
    it stands for go and it takes their place."""
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
    """The segments by their .log files, and those whose indexes are missing or cannot be right. Index files without a
    log are removed."""
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


def _recover(
    disk: Disk,
    segments: list[Segment],
    index: int,
    interval_bytes: int,
    epochs: LeaderEpochs,
    snapshots: list[int],
    log_start_offset: int,
    timestamp: int,
    expiration_ms: int,
    may_have_gaps: bool,
) -> bool:
    """Check a segment's batches, cut it after the last good one, and rebuild what goes with it. True if bytes were
    cut."""
    segment = segments[index]
    segment.offset_index.reset()
    segment.time_index.reset()
    segment.transaction_index.reset()
    segment.max_timestamp = segment.first_timestamp = -1
    segment.offset_of_max_timestamp = segment.base_offset
    segment.bytes_since_entry = segment.largest_batch_size = 0
    producers = ProducerState()
    rebuild_producers(
        disk,
        segment.directory,
        segments[:index],
        producers,
        snapshots,
        log_start_offset=log_start_offset,
        end_offset=segment.base_offset,
        timestamp=timestamp,
        expiration_ms=expiration_ms,
        is_clean=False,
    )
    end = 0
    next_offset = segment.base_offset
    for position, header, batch in segment.batches(check=True):
        if header.last_offset - segment.base_offset > 2**31 - 1:
            break
        if header.base_offset != next_offset and not may_have_gaps:
            break  # the base offset is outside the CRC: rot there shows only so
        segment.note(position, len(batch), header.base_offset, header.last_offset, header.max_timestamp, interval_bytes)
        if header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)
        replay(producers, header, batch, segment)
        end = position + len(batch)
        next_offset = header.next_offset
    cut = segment.size - end
    if cut:
        logger.warning("%s: %d bytes after position %d are no valid batches and are cut", segment.path, cut, end)
        segment.file.truncate(end)
        segment.size = end
    segment.is_checked = True
    segment.seal()
    write_snapshot(disk, segment.directory, producers, snapshots)
    return cut > 0


def _note_epochs(segment: Segment, epochs: LeaderEpochs) -> None:
    """The epochs of a segment that needs no recovery."""
    for _, header, _ in segment.batches():
        if header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)


def _remove_stray_snapshots(disk: Disk, directory: str, segments: list[Segment], snapshots: list[int]) -> None:
    """Keep the snapshots at segment starts and the latest other one if it is beyond the last segment's start (that of a
    clean stop)."""
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
