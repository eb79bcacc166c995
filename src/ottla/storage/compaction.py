"""Log compaction: Kafka's log cleaner.

A compacted log is a clean part, where every key occurs once, and a dirty part behind it. Cleaning reads the keys of
the dirty part into a map (key to latest offset, in bounded memory), then copies every segment below the map's end
without the records that a later record with the same key replaces. Copied records keep their offsets and their order.

Which segments: never the active one, nothing from the last stable offset on, nothing younger than
min.compaction.lag.ms. When: as soon as the dirty part's share is above min.cleanable.dirty.ratio, or its oldest batch
is older than max.compaction.lag.ms.

What else is removed, and when:
  tombstones            delete.retention.ms after the cleaner first kept them (the batch's delete horizon, KIP-534)
  aborted transactions  at once; their marker, and a commit's, delete.retention.ms after the last of their records
  a batch left empty    its header stays while it holds the last sequence of a producer that is remembered, or the last
                        offset below the uncleanable part

New segments are written beside the old ones as .cleaned, synced, and then replace them by renames that recovery can
finish or undo (`Log.replace_segments`). Work is done in pieces: `clean` is a generator, and the log may change in any
way between two steps; the copy is discarded if the segments it was read from are no longer part of the log.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeAlias

from ottla.records import (
    OFFSET_MAP_SLOT_SIZE,
    RECORDS_COMPILED,
    BatchHeader,
    ControlType,
    CorruptRecords,
    OffsetMap,
    compact,
    control_type,
    crc_ok,
    map_keys,
    read_header,
    split,
)
from ottla.storage.disk import Disk, File
from ottla.storage.index import MAX_RELATIVE_OFFSET, AbortedTransaction, CorruptIndex, TransactionIndex
from ottla.storage.log import Log
from ottla.storage.logs import LogDir, Logs
from ottla.storage.retention import retain
from ottla.storage.segment import CLEANED, UNKNOWN, CorruptSegment, Segment
from ottla.wire.errors import KafkaError

logger = logging.getLogger(__name__)

PIECE_BYTES = 128 * 1024 if RECORDS_COMPILED else 16 * 1024
"""Work of one step: about a millisecond."""
PAUSE_S = 0.001
MAX_SEGMENT_READ = 512 * 1024

_CORRUPT = (CorruptRecords, CorruptSegment, CorruptIndex)
_NO_LAG_LIMIT = 2**63 - 1
_LARGE_MAP_BYTES = 8 * 1024 * 1024

Partition = tuple[str, int]
Step: TypeAlias = Awaitable[object] | None
"""The end of a piece of work: None, or an awaitable that must finish before the next piece (a sync, a cold read)."""


class Cleanable(NamedTuple):
    """A compacted log with its dirty part: [first_dirty_offset, first_uncleanable_offset)."""

    log: Log
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    """How long cleaning is overdue by max.compaction.lag.ms; 0 if it is not."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if not self.cleanable_bytes:
            return False
        return self.compaction_delay_ms > 0 or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


@dataclass(slots=True)
class Cleaning:
    """The result of cleaning a log."""

    start_offset: int
    end_offset: int = -1
    """The log is clean up to this offset; -1 if the cleaning was abandoned."""
    mapped_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    read_count: int = 0
    kept_count: int = 0
    map_utilization: float = 0.0


class CleaningAborted(Exception):
    """The log changed under the cleaner: truncated, deleted, offline, no longer compacted."""


class Cleaner:
    """Compacts the logs of a node. cleaner-offset-checkpoint stores up to which offset each is clean."""

    def __init__(self, logs: Logs, disk: Disk, *, rng: Random) -> None:
        self._logs = logs
        self._disk = disk
        self._rng = rng
        self._cleaned: dict[Partition, tuple[bytes | None, int]] = {}
        self._loaded: dict[str, LogDir] = {}
        self._running: Log | None = None
        self.uncleanable: dict[Partition, str] = {}
        """Logs that cannot be cleaned, and why; the cleaner skips them until the node restarts."""
        self.max_dirty_ratio = 0.0
        self.max_compaction_delay_ms = 0
        self.last_run_timestamp = 0
        self.last_map_utilization = 0.0
        self.cleaned_bytes = 0

    # --- which logs

    def cleanable(self, timestamp: int) -> list[Cleanable]:
        """The logs that are due for cleaning, the dirtiest first."""
        self._load_checkpoints()
        self._forget_deleted()
        self.last_run_timestamp = timestamp
        self.max_dirty_ratio = 0.0
        self.max_compaction_delay_ms = 0
        due = []
        for log in self._logs:
            partition = (log.topic, log.partition)
            if "compact" not in log.config.cleanup_policy or log.is_offline or partition in self.uncleanable:
                continue
            if log is self._running:
                continue
            try:
                cleanable = self.examine(log, timestamp)
            except _CORRUPT as trouble:
                self._set_uncleanable(log, str(trouble))
                continue
            except OSError as trouble:
                logger.warning("%s: cannot find out whether it needs cleaning: %s", log.name, trouble)
                continue
            self.max_dirty_ratio = max(self.max_dirty_ratio, cleanable.dirty_ratio)
            self.max_compaction_delay_ms = max(self.max_compaction_delay_ms, cleanable.compaction_delay_ms)
            if cleanable.is_due:
                due.append(cleanable)
        due.sort(key=lambda cleanable: -cleanable.dirty_ratio)
        return due

    def examine(self, log: Log, timestamp: int) -> Cleanable:
        """How dirty a log is."""
        first_dirty_offset = self.cleaned_offset(log)
        segments = log.segments
        active = segments[-1]
        dirty = [segment for segment in segments[_index_of(segments, first_dirty_offset) :] if segment is not active]
        bound = min(log.last_stable_offset, active.base_offset)
        lag_ms = log.config.min_compaction_lag_ms
        if lag_ms > 0:
            for segment in dirty:
                if segment.largest_timestamp > timestamp - lag_ms:
                    bound = min(bound, segment.base_offset)
                    break
        bound = max(bound, first_dirty_offset)
        # Segments are cleaned as a whole: the segment with the bound is not.
        first_uncleanable_offset = min(segments[_index_of(segments, bound)].base_offset, active.base_offset)
        cleanable_bytes = sum(s.size for s in dirty if s.base_offset < first_uncleanable_offset)
        clean_bytes = sum(s.size for s in segments if s.base_offset < first_dirty_offset and s is not active)
        return Cleanable(
            log,
            first_dirty_offset,
            first_uncleanable_offset,
            clean_bytes,
            cleanable_bytes,
            _compaction_delay_ms(dirty, timestamp, log.config.max_compaction_lag_ms),
        )

    def cleaned_offset(self, log: Log) -> int:
        """The offset up to which a log is clean; the log start if it is unknown or invalid."""
        self._load_checkpoints()
        partition = (log.topic, log.partition)
        known = self._cleaned.get(partition)
        if known is None:
            return log.log_start_offset
        topic_id, offset = known
        if topic_id is not None and log.topic_id is not None and topic_id != log.topic_id:
            del self._cleaned[partition]
            return log.log_start_offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return log.log_start_offset
        return offset

    # --- cleaning

    async def run(self, timestamp: int) -> int:
        """Clean what is due, dirtiest first, then apply retention to compacted logs; how many cleanings that took.
        Yields to other work about every millisecond, and stays within log.cleaner.io.max.bytes.per.second."""
        count = 0
        failed: list[Log] = []
        while True:
            due = [cleanable for cleanable in self.cleanable(timestamp) if cleanable.log not in failed]
            if not due:
                break
            cleaning = await self._drive(due[0].log, timestamp)
            if cleaning is None or cleaning.end_offset <= due[0].first_dirty_offset:
                failed.append(due[0].log)
            else:
                count += 1
        self.retain(timestamp)
        return count

    async def _drive(self, log: Log, timestamp: int) -> Cleaning | None:
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        cleaning = Cleaning(0)
        steps = self.clean(log, timestamp, cleaning=cleaning)
        try:
            for step in steps:
                if step is not None:
                    try:
                        await step
                    except (OSError, KafkaError) as trouble:
                        steps.throw(trouble)
                limit = self._logs.config.log_cleaner_io_max_bytes_per_second
                done = cleaning.mapped_bytes + cleaning.read_bytes + cleaning.written_bytes
                pause_s = started_at + done / limit - loop.time() if limit > 0 else 0.0
                await asyncio.sleep(max(PAUSE_S, pause_s))
        except StopIteration:
            pass
        finally:
            steps.close()
        return cleaning if cleaning.end_offset >= 0 else None

    def retain(self, timestamp: int) -> int:
        """Retention of compacted logs: below the log's start, and by size and age with cleanup.policy=compact,delete;
        how many segments were removed. A log that is being cleaned is left for the next run."""
        removed = 0
        for log in list(self._logs):
            if log.is_offline or log is self._running or "compact" not in log.config.cleanup_policy:
                continue
            try:
                removed += retain(log, timestamp)
            except KafkaError as trouble:
                logger.warning("%s: retention failed: %s", log.name, trouble)
        return removed

    def clean(
        self, log: Log, timestamp: int, *, cleaning: Cleaning | None = None
    ) -> Generator[Step, None, Cleaning | None]:
        """Clean one log, in pieces, as far as the key map reaches. None if the cleaning was abandoned: the log changed,
        the disk is full, or the log is corrupt (then it is marked and skipped from then on).
        """
        assert self._running is None, "one log at a time: the memory for keys is there once"
        self._running = log
        try:
            return (yield from self._clean(log, timestamp, cleaning))
        except CleaningAborted as reason:
            logger.info("%s: cleaning was given up: %s", log.name, reason)
        except _CORRUPT as trouble:
            self._set_uncleanable(log, str(trouble))
        except KafkaError as trouble:
            logger.warning("%s: cleaning failed: %s", log.name, trouble)
        except OSError as trouble:
            if trouble.errno not in (errno.ENOSPC, errno.EDQUOT):
                self._set_uncleanable(log, str(trouble))
            else:
                logger.warning("%s: not cleaned, no space left: %s", log.name, trouble)
        finally:
            self._running = None
        return None

    def _clean(self, log: Log, timestamp: int, cleaning: Cleaning | None) -> Generator[Step, None, Cleaning]:
        cleanable = self.examine(log, timestamp)
        start_offset, bound = cleanable.first_dirty_offset, cleanable.first_uncleanable_offset
        if cleaning is None:
            cleaning = Cleaning(start_offset)
        cleaning.start_offset = start_offset
        offset_map = yield from self._map(log, start_offset, bound, cleaning)
        size, slot_count, latest_offset = offset_map.counts()
        cleaning.map_utilization = self.last_map_utilization = size / slot_count
        end_offset = latest_offset + 1
        if end_offset <= start_offset:
            if bound > start_offset:
                raise CorruptRecords(f"the batch at {start_offset} has more keys than log.cleaner.dedupe.buffer.size")
            cleaning.end_offset = start_offset
            return cleaning

        if log.recovery_point < end_offset:
            # The record that replaces another must be on the disk before the other is removed, or a power loss takes
            # both.
            yield log.flush_closed_segments()
        transactions = Transactions()
        segments = [segment for segment in log.segments if segment.base_offset < end_offset]
        groups = group_segments(segments, log.config.segment_bytes, log.config.segment_index_bytes, bound)
        for group in groups:
            yield from self._clean_group(log, group, offset_map, transactions, timestamp, bound, cleaning)
        if slot_count * OFFSET_MAP_SLOT_SIZE > _LARGE_MAP_BYTES:
            yield _in_thread(offset_map.release)
        self._set_cleaned(log, end_offset)
        cleaning.end_offset = end_offset
        self.cleaned_bytes += cleaning.read_bytes
        logger.info(
            "%s: cleaned offsets %d to %d, %d of %d records and %d of %d bytes stay",
            log.name,
            start_offset,
            end_offset,
            cleaning.kept_count,
            cleaning.read_count,
            cleaning.written_bytes,
            cleaning.read_bytes,
        )
        return cleaning

    # --- first pass: the keys of the dirty part

    def _map(
        self, log: Log, start_offset: int, end_offset: int, cleaning: Cleaning
    ) -> Generator[Step, None, OffsetMap]:
        """The latest offset of each key in [start, end), or as far as the memory for keys reaches."""
        config = self._logs.config
        load_factor = config.log_cleaner_io_buffer_load_factor
        memory = config.log_cleaner_dedupe_buffer_size // max(config.log_cleaner_threads, 1)
        # No more keys than offsets: a small dirty part needs a small map.
        slot_count = min(memory // OFFSET_MAP_SLOT_SIZE, int((end_offset - start_offset) / load_factor) + 2)
        offset_map = OffsetMap(max(slot_count, 2), self._rng.randbytes(16))
        max_keys = max(1, int(max(slot_count, 2) * load_factor))
        transactions = Transactions()
        transactions.add(log.aborted_transactions(start_offset, end_offset))
        index = _index_of(log.segments, start_offset)
        dirty = [segment for segment in log.segments[index:] if segment.base_offset < end_offset]
        for number, segment in enumerate(dirty):
            position = segment.locate(start_offset) if segment.base_offset < start_offset else 0
            while 0 <= position < segment.size:
                _require_current(log, dirty[number:])
                chunk = yield from _read(segment, position)
                work = 0
                for at, header in chunk.batches:
                    batch = chunk.data[at : at + header.size]
                    if header.last_offset >= start_offset:
                        if not self._map_batch(offset_map, transactions, header, batch, start_offset, max_keys):
                            return offset_map
                        offset_map.advance(header.last_offset)
                    work += _work(header)
                    if work >= PIECE_BYTES:
                        work = 0
                        yield None
                        _require_current(log, dirty[number:])
                position += chunk.size
                cleaning.mapped_bytes += chunk.size
                yield None
            following = dirty[number + 1].base_offset if number + 1 < len(dirty) else end_offset
            offset_map.advance(following - 1)
        return offset_map

    def _map_batch(
        self,
        offset_map: OffsetMap,
        transactions: Transactions,
        header: BatchHeader,
        batch: memoryview,
        start_offset: int,
        max_keys: int,
    ) -> bool:
        if header.is_control:
            transactions.pass_marker(header, batch)
            return True
        if transactions.pass_batch(header):
            return True
        return map_keys(offset_map, batch, start_offset=start_offset, max_keys=max_keys)

    # --- second pass: copy what remains

    def _clean_group(
        self,
        log: Log,
        group: list[Segment],
        offset_map: OffsetMap,
        transactions: Transactions,
        timestamp: int,
        bound: int,
        cleaning: Cleaning,
    ) -> Generator[Step, None, None]:
        _require_current(log, group)
        cleaned = log.cleaned_segment(group[0].base_offset, timestamp=group[-1].created_timestamp)
        is_done = False
        try:
            transactions.cleaned_index = cleaned.transaction_index
            for number, segment in enumerate(group):
                following = group[number + 1].base_offset if number + 1 < len(group) else segment.next_offset()[0]
                transactions.add(log.aborted_transactions(segment.base_offset, following))
                position = 0
                while position < segment.size:
                    _require_current(log, group)
                    chunk = yield from _read(segment, position)
                    yield from self._copy(
                        log, group, chunk, cleaned, offset_map, transactions, timestamp, bound, cleaning
                    )
                    position += chunk.size
                    cleaning.read_bytes += chunk.size
                    yield None
            cleaned.seal()
            yield cleaned.sync()
            _require_current(log, group)
            log.replace_segments([cleaned], group)
            is_done = True
        finally:
            transactions.cleaned_index = None
            if not is_done and cleaned.suffix == CLEANED:
                self._discard(cleaned)

    def _copy(
        self,
        log: Log,
        group: list[Segment],
        chunk: Chunk,
        cleaned: Segment,
        offset_map: OffsetMap,
        transactions: Transactions,
        timestamp: int,
        bound: int,
        cleaning: Cleaning,
    ) -> Generator[Step, None, None]:
        """Write the batches of a chunk, without the removed records, to the cleaned segment in one write."""
        output = bytearray()
        interval_bytes = log.config.index_interval_bytes
        delete_horizon = timestamp + log.config.delete_retention_ms
        work = 0
        for at, header in chunk.batches:
            batch = chunk.data[at : at + header.size]
            if header.is_control:
                is_over = transactions.pass_marker(header, batch)
                horizon = header.delete_horizon
                is_discarded = is_over and horizon is not None and horizon <= timestamp
            else:
                is_over = False
                is_discarded = transactions.pass_batch(header)
            left = compact(
                batch,
                offset_map,
                timestamp=timestamp,
                delete_horizon=delete_horizon,
                is_discarded=is_discarded,
                marks_empty_transaction=is_over,
                keeps_empty=header.next_offset == bound or _holds_last_sequence(log, header),
            )
            cleaning.read_count += left.read_count
            cleaning.kept_count += left.kept_count
            if left.batch is not None:
                kept = left.batch
                changed = header if kept is batch else read_header(kept)
                position = cleaned.size + len(output)
                cleaned.note(
                    position,
                    changed.size,
                    changed.base_offset,
                    changed.last_offset,
                    changed.max_timestamp,
                    interval_bytes,
                )
                output += kept
            work += _work(header)
            if work >= PIECE_BYTES:
                work = 0
                yield None
                _require_current(log, group)
        if output:
            cleaned.file.write(cleaned.size, output)
            cleaned.size += len(output)
            cleaning.written_bytes += len(output)

    def _discard(self, cleaned: Segment) -> None:
        """Remove an unfinished copy; if even that fails, the next cleaning or start does it."""
        cleaned.close()
        for path in cleaned.paths():
            try:
                self._disk.remove(path)
            except FileNotFoundError:
                continue
            except OSError as trouble:
                logger.warning("%s cannot be removed: %s", path, trouble)

    # --- what is remembered

    def forget(self, topic: str, partition: int) -> None:
        """A log was deleted; a new log of the same name starts dirty."""
        self._load_checkpoints()
        self._cleaned.pop((topic, partition), None)
        self.uncleanable.pop((topic, partition), None)

    def truncated(self, log: Log) -> None:
        """A log was truncated: what is appended from there on is dirty."""
        self._load_checkpoints()
        known = self._cleaned.get((log.topic, log.partition))
        if known is not None and known[1] > log.log_end_offset:
            self._set_cleaned(log, log.log_end_offset)

    def moved(self, log: Log) -> None:
        """A log moved to another log dir, whose checkpoint takes its cleaned offset."""
        self._load_checkpoints()
        known = self._cleaned.get((log.topic, log.partition))
        if known is not None:
            self._set_cleaned(log, known[1])

    def _load_checkpoints(self) -> None:
        for log_dir in self._logs.log_dirs:
            if log_dir.path not in self._loaded and log_dir.is_online:
                self._loaded[log_dir.path] = log_dir
                for partition, offset in self._logs.cleaner_offsets(log_dir).items():
                    log = log_dir.logs.get(partition)
                    if log is not None:
                        self._cleaned[partition] = (log.topic_id, offset)

    def _forget_deleted(self) -> None:
        for known in (self._cleaned, self.uncleanable):
            for partition in [partition for partition in known if self._logs.get(*partition) is None]:
                del known[partition]

    def _set_cleaned(self, log: Log, offset: int) -> None:
        self._cleaned[log.topic, log.partition] = (log.topic_id, offset)
        log_dir = self._logs.dir_of(log)
        if log_dir is None or not log_dir.is_online:
            return
        offsets = {partition: self._cleaned[partition][1] for partition in log_dir.logs if partition in self._cleaned}
        try:
            self._logs.write_cleaner_offsets(log_dir, offsets)
        except OSError as trouble:
            # The old checkpoint remains: after a restart more is cleaned than necessary.
            logger.warning("%s: cleaner-offset-checkpoint was not written: %s", log_dir.path, trouble)

    def _set_uncleanable(self, log: Log, reason: str) -> None:
        logger.error("%s cannot be cleaned and is left alone: %s", log.name, reason)
        self.uncleanable[log.topic, log.partition] = reason


class Transactions:
    """The transactions that are open at the cleaner's position in the log, and which of them were aborted."""

    def __init__(self) -> None:
        self.cleaned_index: TransactionIndex | None = None
        """Collects the aborted transactions that still have batches in the cleaned segment."""
        self._coming: list[AbortedTransaction] = []
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committed: set[int] = set()

    def add(self, aborted: list[AbortedTransaction]) -> None:
        for transaction in aborted:
            if transaction not in self._coming:
                self._coming.append(transaction)
        self._coming.sort(key=lambda transaction: -transaction.first_offset)

    def _reach(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            transaction = self._coming.pop()
            self._aborted.setdefault(transaction.producer_id, (transaction, False))

    def pass_batch(self, header: BatchHeader) -> bool:
        """Account for a data batch; True if its transaction was aborted."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = (aborted[0], True)
        return True

    def pass_marker(self, header: BatchHeader, batch: memoryview) -> bool:
        """Account for a control batch; True if no batch of its transaction was met, so that it is not needed."""
        self._reach(header.last_offset)
        if not header.count:
            return True
        kind = control_type(batch)
        if kind is ControlType.ABORT:
            aborted = self._aborted.pop(header.producer_id, None)
            if aborted is None or not aborted[1]:
                return True
            if self.cleaned_index is not None:
                self.cleaned_index.append(aborted[0])
            return False
        if kind is ControlType.COMMIT:
            if header.producer_id in self._committed:
                self._committed.remove(header.producer_id)
                return False
            return True
        return False


class Chunk(NamedTuple):
    """Whole batches of a segment, their CRCs checked."""

    data: memoryview
    size: int
    batches: list[tuple[int, BatchHeader]]


def _read(segment: Segment, position: int) -> Generator[Step, None, Chunk]:
    """The batches from a position on, some hundred kilobytes of them. A thread first reads what is not in the page
    cache.
    """
    file = segment.file
    size = min(MAX_SEGMENT_READ, segment.size - position)
    while True:
        if not file.is_cached(position, size):
            yield _warm(file, position, size)
        data = memoryview(file.read(position, size))
        batches = split(data)
        if batches:
            break
        # Not one whole batch: it is larger than the read, or the segment does not end with a whole batch.
        if len(data) < max(size, 12):
            raise CorruptRecords(f"{segment.path} has no batch at {position}")
        needed = 12 + int.from_bytes(data[8:12], "big")
        if needed <= len(data) or needed > segment.size - position:
            raise CorruptRecords(f"{segment.path} has no whole batch at {position}")
        size = needed
    last_position, last = batches[-1]
    for at, header in batches:
        if not crc_ok(data, at, header.size):
            raise CorruptRecords(f"{segment.path} has a batch with a wrong CRC at {position + at}")
    return Chunk(data, last_position + last.size, batches)


async def _in_thread(work: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work)


async def _warm(file: File, position: int, size: int) -> None:
    file.hold()
    try:
        await asyncio.get_running_loop().run_in_executor(None, file.read, position, size)
    finally:
        file.release()


def group_segments(
    segments: list[Segment], max_bytes: int, max_index_bytes: int, first_uncleanable_offset: int
) -> list[list[Segment]]:
    """Groups neighbours that together fit into one segment, so that cleaning also joins small segments."""
    groups: list[list[Segment]] = []
    group: list[Segment] = []
    size = offset_entries = time_entries = 0
    for index, segment in enumerate(segments):
        following = segments[index + 1].base_offset if index + 1 < len(segments) else first_uncleanable_offset
        fits = (
            size + segment.size <= max_bytes
            and (offset_entries + len(segment.offset_index)) * 8 <= max_index_bytes
            and (time_entries + len(segment.time_index)) * 12 <= max_index_bytes
            and (segment.size == 0 or not group or following - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if group and not fits:
            groups.append(group)
            group, size, offset_entries, time_entries = [], 0, 0, 0
        group.append(segment)
        size += segment.size
        offset_entries += len(segment.offset_index)
        time_entries += len(segment.time_index)
    if group:
        groups.append(group)
    return groups


def _index_of(segments: list[Segment], offset: int) -> int:
    """The index of the segment with an offset; 0 for earlier offsets."""
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)


def _work(header: BatchHeader) -> int:
    """What a batch costs, in bytes of uncompressed records."""
    return max(4 * header.size if header.is_compressed else header.size, 100 * header.count)


def _compaction_delay_ms(dirty: list[Segment], timestamp: int, max_lag_ms: int) -> int:
    """By how much the oldest dirty batch exceeds max.compaction.lag.ms."""
    if max_lag_ms >= _NO_LAG_LIMIT:
        return 0  # the default; then no segment is read for its age
    earliest = None
    for segment in dirty:
        if segment.first_timestamp == UNKNOWN:
            segment.load_timestamps()
        if segment.first_timestamp > 0 and (earliest is None or segment.first_timestamp < earliest):
            earliest = segment.first_timestamp
    return max(0, timestamp - max_lag_ms - earliest) if earliest is not None else 0


def _holds_last_sequence(log: Log, header: BatchHeader) -> bool:
    """Whether a producer's state would be lost with this batch: its last data batch, or (if it has none) its last
    marker.
    """
    if not header.has_producer_id:
        return False
    entry = log.producers.producers.get(header.producer_id)
    if entry is None:
        return False
    if entry.last_offset >= 0:
        return header.last_offset == entry.last_offset
    return header.is_control and header.producer_epoch == entry.epoch


def _require_current(log: Log, segments: list[Segment]) -> None:
    """CleaningAborted if the segments are no longer neighbours in the log."""
    if log.is_offline:
        raise CleaningAborted("it is gone or offline")
    if "compact" not in log.config.cleanup_policy:
        raise CleaningAborted("it is no longer compacted")
    index = _index_of(log.segments, segments[0].base_offset)
    if log.segments[index : index + len(segments)] != segments or log.segments[-1] in segments:
        raise CleaningAborted("its segments changed")
