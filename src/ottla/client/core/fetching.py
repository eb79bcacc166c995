"""Fetching without the network: the client's half of a fetch session (KIP-227), and the records that a fetch brought.

A session names its partitions once and then only what changes. Its life, as (id, epoch) of the requests:

    (0, 0) everything is named; the answer's session id n > 0 opens the session
    (n, k) only changes, k = 1, 2, ...; after 2^31 - 1 comes 1
    (n, 0) after a failure: session n ends, everything is named again
    (0, 0) after FETCH_SESSION_ID_NOT_FOUND: the broker has none to end
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from ottla import records
from ottla.client.core.codes import error_code
from ottla.client.core.partitions import TopicPartition
from ottla.records import DEFAULT_MAX_SIZE, BatchHeader, ControlType, CorruptRecords, UnsupportedMagic
from ottla.records.batch import CONTROL_FLAG, CRC_START, LOG_APPEND_TIME_FLAG, LOG_OVERHEAD
from ottla.records.columns import BatchRecords, RecordColumns
from ottla.records.kernel import crc32c_range, read_partition
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.wire.primitives import ZERO_UUID
from ottla.wire.sentinels import INITIAL_SESSION_EPOCH, MAX_SESSION_EPOCH, NO_SESSION

LAST_VERSION_WITH_NAMES = 12


K = TypeVar("K")
V = TypeVar("V")


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """One record as the application gets it; key and value are bytes unless the consumer has deserializers."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970: when it was created, or when the broker wrote it (message.timestamp.type)."""
    key: K
    value: V
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def timestamp_type(self) -> str:
        """Whose the timestamp is: CreateTime is the producer's, LogAppendTime the broker's."""
        return "CreateTime"


class LogAppendTimeRecord(ConsumerRecord[K, V]):
    """A record of a topic with message.timestamp.type=LogAppendTime."""

    __slots__ = ()

    @property
    def timestamp_type(self) -> str:
        return "LogAppendTime"


RawRecord = ConsumerRecord[bytes | None, bytes | None]


class FetchTarget(NamedTuple):
    """The request for one partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class FetchSession:
    """The session with one broker. `plan` names what the next request carries, `handle` reads its answer; only one
    request is under way at a time."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_SESSION_EPOCH
        self._partitions: dict[TopicPartition, FetchTarget] = {}
        self._names: dict[bytes, str] = {}

    def plan(self, wanted: Mapping[TopicPartition, FetchTarget]) -> FetchRequest:
        """The session and partitions of a request; the caller adds sizes and isolation level."""
        names = {target.topic_id: partition.topic for partition, target in wanted.items()}
        if (ZERO_UUID in names) != (ZERO_UUID in self._names):
            self.epoch = INITIAL_SESSION_EPOCH  # a session speaks of its topics by id or by name, as it began
        if self.epoch == INITIAL_SESSION_EPOCH:
            named: Iterable[TopicPartition] = wanted
            forgotten: list[tuple[TopicPartition, FetchTarget]] = []
        else:
            before = self._partitions
            named = [partition for partition, target in wanted.items() if before.get(partition) != target]
            forgotten = [
                (partition, target)
                for partition, target in before.items()
                if partition not in wanted or wanted[partition].topic_id != target.topic_id
            ]
        self._partitions = dict(wanted)
        self._names = names
        return FetchRequest(
            session_id=self.id,
            session_epoch=self.epoch,
            topics=_named(named, wanted),
            forgotten_topics_data=_forgotten(forgotten),
        )

    @property
    def max_version(self) -> int | None:
        """Topics without an id can only be named; one request speaks either way for all of them."""
        return LAST_VERSION_WITH_NAMES if ZERO_UUID in self._names else None

    def handle(self, response: FetchResponse) -> list[tuple[TopicPartition, PartitionData]]:
        """The partitions of an answer. KafkaError if the session is void: the next request opens another one."""
        code = response.error_code
        if code:
            if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.id = NO_SESSION
            self.epoch = INITIAL_SESSION_EPOCH
            raise KafkaError(error_code(code))
        if self.epoch == INITIAL_SESSION_EPOCH:
            self.id = response.session_id
            self.epoch = 1 if self.id != NO_SESSION else INITIAL_SESSION_EPOCH
        else:
            self.epoch = self.epoch + 1 if self.epoch < MAX_SESSION_EPOCH else 1
        answered = []
        for topic in response.responses:
            name = topic.topic or self._names.get(topic.topic_id)
            if name is None:
                continue
            answered += [(TopicPartition(name, one.partition_index), one) for one in topic.partitions]
        return answered

    def fail(self) -> None:
        """No answer came: the broker may or may not have applied the request, so the next request ends the session."""
        self.epoch = INITIAL_SESSION_EPOCH


def _named(partitions: Iterable[TopicPartition], targets: Mapping[TopicPartition, FetchTarget]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for partition in partitions:
        target = targets[partition]
        topic = topics.get(partition.topic)
        if topic is None:
            topic = topics[partition.topic] = FetchTopic(topic=partition.topic, topic_id=target.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=target.leader_epoch,
                fetch_offset=target.offset,
                partition_max_bytes=target.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Iterable[tuple[TopicPartition, FetchTarget]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for partition, target in partitions:
        key = partition.topic, target.topic_id
        if key not in topics:
            topics[key] = ForgottenTopic(topic=partition.topic, topic_id=target.topic_id, partitions=[])
        topics[key].partitions.append(partition.partition)
    return list(topics.values())


class FetchedBatches:
    """The batches of one partition that one fetch brought, decoded one by one as they are consumed.

    For read_committed the broker names the aborted transactions of what it sent; their batches are passed over, from a
    transaction's first offset to the marker that aborts it.
    """

    __slots__ = (
        "_aborted",
        "_aborted_producer_ids",
        "_batches",
        "_checks_crcs",
        "_data",
        "_index",
        "_opened",
        "_records",
        "_records_index",
        "_sound_index",
        "end_epoch",
        "end_offset",
        "leader_epoch",
        "next_offset",
        "partition",
        "size",
    )

    def __init__(
        self,
        partition: TopicPartition,
        data: bytes | bytearray | memoryview,
        offset: int,
        aborted: Iterable[AbortedTransaction] | None = None,
        *,
        checks_crcs: bool = True,
    ) -> None:
        self.partition = partition
        self.next_offset = offset
        """The offset after the last record taken, or after what was passed over."""
        self.leader_epoch = -1
        """The epoch of the batch that was last taken from."""
        self.size = len(data)
        self._data = memoryview(data)
        self._checks_crcs = checks_crcs
        try:
            self._batches = records.split(data)
        except (CorruptRecords, UnsupportedMagic) as error:
            raise self._damaged(str(error)) from None
        if not self._batches and len(data):
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE, f"the batch of {partition} at offset {offset} did not fit into a fetch"
            )
        self.end_offset = self._batches[-1][1].next_offset if self._batches else offset
        """Where the next fetch of this partition begins."""
        self.end_epoch = self._batches[-1][1].leader_epoch if self._batches else -1
        """The epoch of the last batch."""
        self._index = 0
        self._sound_index = -1
        """The index of the batch whose CRC was checked."""
        self._records: list[RawRecord] = []
        self._records_index = 0
        self._opened: BatchRecords | None = None
        """The batch at `_index` while `take_columns` is in the middle of it."""
        self._aborted_producer_ids: set[int] = set()
        self._aborted = sorted(
            ((one.first_offset, one.producer_id) for one in aborted or ()), key=itemgetter(0), reverse=True
        )

    @property
    def is_empty(self) -> bool:
        return self._records_index >= len(self._records) and self._index >= len(self._batches)

    def take(self, max_count: int) -> list[RawRecord]:
        """The next records, at most so many, none only at the end. KafkaError for a damaged batch; a later call meets
        it again."""
        taken: list[RawRecord] = []
        self._opened = None
        while len(taken) < max_count:
            left = len(self._records) - self._records_index
            if left:
                count = min(left, max_count - len(taken))
                start = self._records_index
                piece = self._records if count == len(self._records) else self._records[start : start + count]
                if taken:
                    taken += piece
                else:
                    taken = piece
                if count == left:
                    self._records = []
                    self._records_index = 0
                    self.next_offset = self._batches[self._index - 1][1].next_offset
                else:
                    self._records_index += count
                    self.next_offset = piece[-1].offset + 1
                continue
            if self._index >= len(self._batches):
                break
            if taken and self._checks_crcs and not self._is_sound():
                break  # sound batches first; the next call raises
            self._decode_next()
        return taken

    def _is_sound(self) -> bool:
        """Whether the batch at `_index` has the CRC of its header; checked once."""
        if self._sound_index != self._index:
            position, header = self._batches[self._index]
            if header.crc != crc32c_range(self._data, position + CRC_START, position + LOG_OVERHEAD + header.length):
                return False
            self._sound_index = self._index
        return True

    def take_columns(self, columns: RecordColumns, topic: int, max_count: int, end_offset: int) -> None:
        """Like `take`, into columns, until these have max_count rows in all or end_offset is reached."""
        if self._records:
            self._index -= 1  # `take` is in the middle of this batch: read the rest of its records again
            self._records, self._records_index = [], 0
        count = columns.count
        try:
            while columns.count < max_count and self._index < len(self._batches) and self.next_offset < end_offset:
                batch = self._opened or self._open_batch()
                if batch is not None:
                    if not columns.fits(batch):
                        break
                    room = max_count - columns.count
                    columns.append(batch, topic, self.partition.partition, self.next_offset, end_offset, room)
                    self.next_offset = max(self.next_offset, batch.next_offset)
                    if not batch.is_empty():
                        if columns.count < max_count:
                            self.next_offset = end_offset  # the next record lies at or behind it
                        break
                self._opened = None
                self.next_offset = max(self.next_offset, self._batches[self._index][1].next_offset)
                self._index += 1
        except CorruptRecords as error:
            self._opened = None
            if columns.count == count:
                raise self._damaged(str(error)) from None

    def _open_batch(self) -> BatchRecords | None:
        """The batch at `_index`, for `take_columns`; None for a control batch or one of an aborted transaction."""
        header, batch = self._next_batch()
        if self._may_be_passed_over(header) and self._is_passed_over(header, batch):
            return None
        self._opened = BatchRecords(batch, DEFAULT_MAX_SIZE)
        return self._opened

    def _next_batch(self) -> tuple[BatchHeader, memoryview]:
        position, header = self._batches[self._index]
        if self._checks_crcs and not self._is_sound():
            raise CorruptRecords("the checksum does not fit")
        self.leader_epoch = header.leader_epoch
        return header, self._data[position : position + LOG_OVERHEAD + header.length]

    def _decode_next(self) -> None:
        try:
            header, batch = self._next_batch()
            if self._may_be_passed_over(header) and self._is_passed_over(header, batch):
                self._records = []
            else:
                kind = LogAppendTimeRecord if header.attributes & LOG_APPEND_TIME_FLAG else ConsumerRecord
                self._records = read_partition(batch, kind, *self.partition, self.next_offset, DEFAULT_MAX_SIZE)
        except CorruptRecords as error:
            raise self._damaged(str(error)) from None
        if not self._records:
            self.next_offset = max(self.next_offset, header.next_offset)
        self._index += 1

    def _may_be_passed_over(self, header: BatchHeader) -> bool:
        """Whether the batch needs the closer look of `_is_passed_over`; an ordinary batch does not."""
        return bool(header.attributes & CONTROL_FLAG or self._aborted or self._aborted_producer_ids)

    def _is_passed_over(self, header: BatchHeader, batch: memoryview) -> bool:
        """Control batches are never the application's; batches of aborted transactions are not, either."""
        if header.has_producer_id and (self._aborted or self._aborted_producer_ids):
            while self._aborted and self._aborted[-1][0] <= header.last_offset:
                self._aborted_producer_ids.add(self._aborted.pop()[1])
            if header.is_control:
                if records.control_type(batch) is ControlType.ABORT:
                    self._aborted_producer_ids.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in self._aborted_producer_ids:
                return True
        return header.is_control

    def _damaged(self, reason: str) -> KafkaError:
        return KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{self.partition} at offset {self.next_offset}: {reason}; seek past it to read on",
        )
