"""The reads of a log: slices of its files by offset, offsets by timestamp and epoch, aborted transactions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from ottla.records import BatchHeader, CorruptRecords, find_max_timestamp, find_timestamp
from ottla.storage.disk import FileSlice
from ottla.storage.index import AbortedTransaction
from ottla.storage.log_segments import LogSegments
from ottla.storage.segment import Segment
from ottla.wire.errors import ErrorCode, KafkaError


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


class LogReads(LogSegments):
    """The part of a log that reads and changes nothing."""

    __slots__ = ()

    def read(
        self, start_offset: int, *, max_bytes: int, end_offset: int | None = None, min_one_batch: bool = True
    ) -> FileSlice | None:
        """Bytes of batches from the batch with `start_offset` (so they may begin before it) up to `end_offset`, the
        high watermark if not given. At most `max_bytes`, so the last batch may be cut; but with `min_one_batch` at
        least the whole first one, and without it nothing if that does not fit. None when there is nothing."""
        if end_offset is None:
            end_offset = self.high_watermark
        log_end_offset = self.log_end_offset
        if start_offset < self.log_start_offset or start_offset > log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {start_offset} of {self.topic}-{self.partition} is outside"
                f" {self.log_start_offset}..{log_end_offset}",
            )
        segments = self.segments
        index = len(segments) - 1
        segment = segments[index]
        if start_offset >= end_offset:
            if start_offset == log_end_offset:
                # Remember where this reader will continue: its next read then needs neither the index nor the file to
                # find its place.
                self._tail_offset, self._tail_position = start_offset, segment.size
            return None
        if self.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        try:
            if start_offset == self._tail_offset and start_offset >= segment.base_offset:
                position = self._tail_position
            else:
                if start_offset < segment.base_offset:
                    index = bisect_right(segments, start_offset, key=base_offset_of) - 1
                    segment = segments[index]
                position = segment.locate(start_offset)
            while position < 0:
                index += 1
                if index == len(segments):
                    return None
                segment = segments[index]
                position = segment.locate(start_offset)
            end = segment.size
            if end_offset < log_end_offset and (
                index + 1 == len(segments) or end_offset < segments[index + 1].base_offset
            ):
                found = segment.locate(end_offset)
                if found >= 0:
                    end = found
            size = end - position
            if size > max_bytes:
                size = max_bytes
                if max_bytes < segment.largest_batch_size:
                    first = segment.batch_size(position)
                    if max_bytes < first:
                        size = first if min_one_batch else 0
            return segment.slice(position, size) if size > 0 else None
        except OSError as trouble:
            self._failed(trouble)
        except CorruptRecords as trouble:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(trouble)) from None

    def batches(self, start_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Whole batches from the batch with `start_offset` to the log's end; the bytes are valid until the next step.
        For a reader that replays the log: the log must not change meanwhile.
        """
        first = max(0, bisect_right(self.segments, start_offset, key=base_offset_of) - 1)
        try:
            for segment in self.segments[first:]:
                position = segment.locate(max(start_offset, segment.base_offset))
                if position >= 0:
                    for _, header, batch in segment.batches(position):
                        yield header, batch
        except OSError as trouble:
            self._failed(trouble)
        except CorruptRecords as trouble:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(trouble)) from None

    @property
    def earliest(self) -> TimestampOffset:
        """ListOffsets' -2 (and -4: all of the log is local)."""
        first = self.epochs.earliest
        epoch = first[0] if first is not None and first[1] <= self.log_start_offset else -1
        return TimestampOffset(-1, self.log_start_offset, epoch)

    @property
    def latest(self) -> TimestampOffset:
        """ListOffsets' -1, before the caller limits it to the high watermark or last stable offset."""
        return TimestampOffset(-1, self.log_end_offset, self.epochs.latest)

    def max_timestamp(self) -> TimestampOffset | None:
        """ListOffsets' -3: the first record with the largest timestamp."""
        try:
            segment = max(self.segments, key=lambda segment: _known_max_timestamp(segment))
            if segment.max_timestamp < 0:
                return None
            start = segment.locate(segment.offset_of_max_timestamp)
            for _, header, batch in segment.batches(max(start, 0)):
                if header.max_timestamp == segment.max_timestamp:
                    offset, timestamp = find_max_timestamp(batch)
                    return TimestampOffset(timestamp, offset, header.leader_epoch)
        except OSError as trouble:
            self._failed(trouble)
        except CorruptRecords as trouble:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(trouble)) from None
        return None

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after a timestamp."""
        try:
            for segment in self.segments:
                if segment.largest_timestamp >= timestamp:
                    found = self._find_timestamp(segment, timestamp)
                    if found is not None:
                        return found
        except OSError as trouble:
            self._failed(trouble)
        except CorruptRecords as trouble:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(trouble)) from None
        return None

    def _find_timestamp(self, segment: Segment, timestamp: int) -> TimestampOffset | None:
        start_offset = self.log_start_offset
        offset = max(segment.time_index.lookup(timestamp), start_offset)
        position = segment.locate(offset)
        if position < 0:
            return None
        for _, header, batch in segment.batches(position):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                found = find_timestamp(batch, timestamp, start_offset=start_offset)
                if found is not None:
                    return TimestampOffset(found[1], found[0], header.leader_epoch)
        return None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above the asked one; (-1, -1) if unknown (KIP-101)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with batches in [start, end): a read_committed fetch carries them."""
        aborted: list[AbortedTransaction] = []
        index = max(0, bisect_right(self.segments, start_offset, key=base_offset_of) - 1)
        try:
            for segment in self.segments[index:]:
                if segment.transaction_index.collect(start_offset, end_offset, aborted):
                    break
        except OSError as trouble:
            self._failed(trouble)
        return aborted

    def upper_bound_offset(self, slice: FileSlice) -> int:
        """An offset after all batches of a slice: it limits the aborted transactions sent with it."""
        index = bisect_right(self.segments, slice.segment_base_offset, key=base_offset_of) - 1
        segment = self.segments[max(index, 0)]
        if segment.base_offset == slice.segment_base_offset:
            bound = segment.offset_index.upper_bound(slice.position + slice.size)
            if bound is not None:
                return bound
        return self.segments[index + 1].base_offset if index + 1 < len(self.segments) else self.log_end_offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of an open transaction, not below the log's start."""
        offset = self.producers.first_unstable_offset
        return None if offset is None else max(offset, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed consumers may read."""
        producers = self.producers
        if not producers.ongoing and not producers.unreplicated:
            return self.high_watermark
        offset = self.first_unstable_offset
        return self.high_watermark if offset is None or offset > self.high_watermark else offset


def base_offset_of(segment: Segment) -> int:
    return segment.base_offset


def _known_max_timestamp(segment: Segment) -> int:
    segment.prepare_append()
    return segment.max_timestamp
