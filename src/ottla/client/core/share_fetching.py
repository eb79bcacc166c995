"""Acquired records: what one ShareFetch brought of one partition. The broker sends whole batches and names the offsets
in them that this member has acquired, each range with its delivery count."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from ottla import records
from ottla.client.core.fetching import ConsumerRecord, LogAppendTimeRecord
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.share_session import TopicIdPartition
from ottla.records import DEFAULT_MAX_SIZE, CorruptRecords, UnsupportedMagic
from ottla.records.batch import CRC_START, LOG_APPEND_TIME_FLAG, LOG_OVERHEAD
from ottla.records.kernel import crc32c_range, read_partition
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_fetch import AcquiredRecords

K = TypeVar("K")
V = TypeVar("V")

MAX_ACQUIRED_COUNT = 1_000_000
"""No broker lets one member acquire so many records of a partition at once (group.share.partition.max.record.locks)."""
_offset = attrgetter("offset")


class ShareRecord(NamedTuple, Generic[K, V]):
    """One record as a share consumer hands it out: a ConsumerRecord with its delivery count."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970: when it was created, or when the broker wrote it (message.timestamp.type)."""
    key: K
    value: V
    headers: tuple[tuple[str, bytes | None], ...]
    delivery_count: int
    """How often the record has been delivered to members of the group, this delivery included."""

    @property
    def timestamp_type(self) -> str:
        """Whose the timestamp is: CreateTime is the producer's, LogAppendTime the broker's."""
        return "CreateTime"


class LogAppendTimeShareRecord(ShareRecord[K, V]):
    """A record of a topic with message.timestamp.type=LogAppendTime."""

    __slots__ = ()

    @property
    def timestamp_type(self) -> str:
        return "LogAppendTime"


RawShareRecord = ShareRecord[bytes | None, bytes | None]


class TakenRecords(NamedTuple):
    records: list[RawShareRecord]
    gaps: list[int]
    """Acquired offsets without a record."""
    rejected: list[int]
    """Acquired offsets in a batch that is damaged: they are rejected, as Kafka's share consumer does."""
    error: KafkaError | None = None
    """Why they are rejected."""


class AcquiredBatches:
    """The batches of one partition that one ShareFetch brought, decoded one by one as they are handed out."""

    def __init__(
        self,
        partition: TopicPartition,
        topic_id: bytes,
        node_id: int,
        data: bytes | bytearray | memoryview,
        acquired: Iterable[AcquiredRecords],
        *,
        expires_at: int,
        checks_crcs: bool = True,
    ) -> None:
        self.partition = partition
        self.id = TopicIdPartition(topic_id, partition.partition)
        self.node_id = node_id
        self.expires_at = expires_at
        """When the acquisition locks end."""
        self._data = memoryview(data)
        self._checks_crcs = checks_crcs
        self._ranges = deque(
            (one.first_offset, one.last_offset, one.delivery_count)
            for one in sorted(acquired, key=lambda one: one.first_offset)
        )
        if sum(max(0, last - first) + 1 for first, last, _ in self._ranges) > MAX_ACQUIRED_COUNT:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{partition}: more records acquired than can be")
        try:
            self._batches = deque(records.split(data))
            self._error: str | None = None
        except (CorruptRecords, UnsupportedMagic) as error:
            self._batches = deque()
            self._error = str(error)

    @property
    def is_empty(self) -> bool:
        return not self._ranges

    def take(self, max_count: int) -> TakenRecords:
        """The records of whole batches until there are max_count or more; offsets without records on the way."""
        taken = TakenRecords([], [], [])
        if self._error is not None:
            return self._damaged(taken, 2**63 - 1, self._error)
        while self._ranges and len(taken.records) < max_count:
            if not self._batches:
                taken.gaps.extend(offset for offset, _ in self._until(2**63 - 1))
                break
            position, header = self._batches.popleft()
            if header.last_offset < self._ranges[0][0]:
                continue
            batch = self._data[position : position + LOG_OVERHEAD + header.length]
            try:
                if self._checks_crcs and header.crc != crc32c_range(batch, CRC_START, len(batch)):
                    raise CorruptRecords("the checksum does not fit")
                if header.is_control:
                    found: list[Any] = []
                else:
                    kind = LogAppendTimeRecord if header.attributes & LOG_APPEND_TIME_FLAG else ConsumerRecord
                    found = read_partition(batch, kind, *self.partition, self._ranges[0][0], DEFAULT_MAX_SIZE)
            except CorruptRecords as error:
                return self._damaged(taken, header.last_offset, str(error))
            self._deliver(found, header.last_offset, taken)
        return taken

    def _deliver(self, found: list[Any], last_offset: int, taken: TakenRecords) -> None:
        """Move the acquired ones of a batch's records to `taken`, and name the acquired offsets without a record."""
        new = tuple.__new__
        while self._ranges and self._ranges[0][0] <= last_offset:
            first, last, count = self._ranges[0]
            end = min(last, last_offset)
            index = bisect_left(found, first, key=_offset)
            stop = bisect_right(found, end, key=_offset)
            piece = found[index:stop] if index or stop < len(found) else found
            if piece:
                cls = LogAppendTimeShareRecord if isinstance(piece[0], LogAppendTimeRecord) else ShareRecord
                taken.records.extend([new(cls, (*record, count)) for record in piece])
            if len(piece) != end - first + 1:
                present = {record.offset for record in piece}
                taken.gaps.extend(offset for offset in range(first, end + 1) if offset not in present)
            found = found[stop:]
            if end == last:
                self._ranges.popleft()
            else:
                self._ranges[0] = (end + 1, last, count)

    def _until(self, last_offset: int) -> list[tuple[int, int]]:
        """Take the acquired offsets up to this one, with their delivery counts."""
        taken: list[tuple[int, int]] = []
        while self._ranges and self._ranges[0][0] <= last_offset:
            first, last, count = self._ranges.popleft()
            end = min(last, last_offset)
            taken += [(offset, count) for offset in range(first, end + 1)]
            if end < last:
                self._ranges.appendleft((end + 1, last, count))
        return taken

    def _damaged(self, taken: TakenRecords, last_offset: int, reason: str) -> TakenRecords:
        rejected = [offset for offset, _ in self._until(last_offset)]
        where = f"{self.partition} at offset {rejected[0]}" if rejected else str(self.partition)
        error = KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{where}: {reason}; its records were rejected")
        return TakenRecords(taken.records, taken.gaps, rejected, error)
