"""Producer snapshots beside the segments, and how a log comes to know its producers: the latest good snapshot, then the
batches since.

    <20-digit offset>.snapshot   the producers as of that offset; one at each segment's start and one of a clean stop
"""

from __future__ import annotations

import logging
from bisect import insort

from ottla.records import BatchHeader, ControlType, CorruptRecords, read_end_txn_marker
from ottla.replication import CorruptSnapshot, ProducerState
from ottla.storage.disk import Disk
from ottla.storage.index import AbortedTransaction
from ottla.storage.segment import Segment
from ottla.storage.tail import NO_ROOM

logger = logging.getLogger(__name__)

SNAPSHOT = ".snapshot"


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020d}{SNAPSHOT}"


def write_snapshot(disk: Disk, directory: str, producers: ProducerState, snapshots: list[int]) -> bool:
    """Write a snapshot of the producers as of now; False if it exists. Without a sync: it has a CRC, and an earlier one
    with the batches since gives the same.
    """
    offset = producers.end_offset
    if offset <= producers.snapshot_offset:
        return False
    data = producers.encode_snapshot()
    file = disk.open(snapshot_path(directory, offset), create=True)
    try:
        file.write(0, data)
        file.truncate(len(data))
    finally:
        file.close()
    producers.snapshot_offset = offset
    if offset not in snapshots:
        insort(snapshots, offset)
    return True


def rebuild_producers(
    disk: Disk,
    directory: str,
    segments: list[Segment],
    producers: ProducerState,
    snapshots: list[int],
    *,
    log_start_offset: int,
    end_offset: int,
    timestamp: int,
    expiration_ms: int,
    is_clean: bool,
) -> None:
    """Fill `producers` as of `end_offset`. Snapshots that are corrupt, beyond it or not above the log's start are
    removed. A cleanly stopped log without any snapshot is from a Kafka release without snapshots: it has no producers
    and is not read.
    """
    if is_clean and not snapshots:
        producers.clear(end_offset)
        return
    for offset in list(snapshots):
        if offset > end_offset or offset <= log_start_offset:
            snapshots.remove(offset)
            remove_if_there(disk, snapshot_path(directory, offset))
    producers.clear(log_start_offset)
    producers.snapshot_offset = log_start_offset
    while snapshots:
        path = snapshot_path(directory, snapshots[-1])
        try:
            file = disk.open(path)
            try:
                data = file.read(0, file.size())
            finally:
                file.close()
            producers.load_snapshot(data, snapshots[-1], timestamp, expiration_ms)
            break
        except FileNotFoundError:
            snapshots.pop()
        except CorruptSnapshot as trouble:
            logger.warning("%s: %s; using an earlier snapshot and the log", path, trouble)
            remove_if_there(disk, path)
            snapshots.pop()
    start = producers.end_offset
    if start < end_offset:
        for index, segment in enumerate(segments):
            next_base = segments[index + 1].base_offset if index + 1 < len(segments) else end_offset
            if next_base <= start or segment.base_offset >= end_offset:
                continue
            try:
                position = segment.locate(max(start, segment.base_offset, log_start_offset))
            except CorruptRecords:
                position = 0  # from the segment's start, as far as its batches can be read
            if position < 0:
                continue
            for _, header, batch in segment.batches(position):
                if header.base_offset >= end_offset:
                    break
                if header.last_offset >= start:
                    replay(producers, header, batch, None)
    producers.end_offset = end_offset


def replay(producers: ProducerState, header: BatchHeader, batch: memoryview, segment: Segment | None) -> None:
    """Apply one batch of the log; aborted transactions are added to the segment's index if one is given."""
    if header.producer_id < 0:
        producers.end_offset = header.last_offset + 1
    elif not header.is_control:
        producers.replay(
            header.producer_id,
            header.producer_epoch,
            header.last_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            header.is_transactional,
        )
    elif header.count > 0:  # a control batch without records only keeps the offset of a removed marker
        try:
            marker = read_end_txn_marker(batch)
        except CorruptRecords:
            producers.end_offset = header.last_offset + 1
            return
        is_abort = marker.control_type == ControlType.ABORT
        completed = producers.replay_marker(
            header.producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            header.base_offset,
            header.max_timestamp,
            is_abort,
        )
        if completed is not None:
            if is_abort and segment is not None:
                try:
                    segment.transaction_index.append(
                        AbortedTransaction(
                            completed.producer_id,
                            completed.first_offset,
                            completed.last_offset,
                            producers.last_stable_offset_after(completed),
                        )
                    )
                except OSError as trouble:
                    if trouble.errno not in NO_ROOM:
                        raise
            producers.complete(completed)


def remove_if_there(disk: Disk, path: str) -> None:
    try:
        disk.remove(path)
    except FileNotFoundError:
        return
