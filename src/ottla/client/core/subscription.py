"""What a consumer reads, and how far it is: the topics asked for, the partitions assigned, position and data of each.

A partition has two offsets: `position`, the next record the application gets, and `fetch_offset`, the next that is
fetched. Data between the two waits in `fetched`. A seek moves both and drops the data; an answer to a fetch of before
is known by its `seek_count` and thrown away. Damaged data is dropped, too, and fetched again: a later answer may be
sound, because another replica leads or the damaged one was repaired.

S1: fetched data of a partition is contiguous: each piece begins where the one before ends.
S2: a partition without a position is not fetched.
S3: a position whose epoch is known is fetched under a leader epoch only after that leader has been asked whether its
    log still has what was read (`compare`).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.client.core.fetching import FetchedBatches, RawRecord
from ottla.client.core.isolation import IsolationLevel as IsolationLevel
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import LogTruncated
from ottla.records.columns import RecordColumns
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

NO_END = 0x7FFFFFFFFFFFFFFF
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


class ResetKind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """auto.offset.reset: where to begin when there is no committed offset, or it lies outside the log."""

    kind: ResetKind
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> OffsetReset:
        name, colon, duration = text.partition(":")
        try:
            kind = ResetKind(name.lower())
        except ValueError:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"auto.offset.reset cannot be {text!r}") from None
        if (kind is ResetKind.BY_DURATION) != bool(colon):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"auto.offset.reset cannot be {text!r}")
        return cls(kind, parse_duration_ms(duration) if colon else 0)

    def timestamp(self, timestamp: int) -> int:
        """The timestamp for ListOffsets, at this wall-clock time."""
        match self.kind:
            case ResetKind.EARLIEST:
                return EARLIEST_TIMESTAMP
            case ResetKind.LATEST:
                return LATEST_TIMESTAMP
            case ResetKind.BY_DURATION:
                return max(timestamp - self.duration_ms, 0)
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "there is no offset to begin at, and auto.offset.reset is none")


EARLIEST = OffsetReset(ResetKind.EARLIEST)
LATEST = OffsetReset(ResetKind.LATEST)


def parse_duration_ms(text: str) -> int:
    """An ISO 8601 duration such as P3D or PT1H30M (KIP-1106)."""
    matched = _DURATION.fullmatch(text)
    if matched is None or not any(matched.groups()):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{text!r} is no duration such as PT1H30M")
    days, hours, minutes, seconds = matched.groups()
    return (
        int(days or 0) * _DAY_MS
        + int(hours or 0) * _HOUR_MS
        + int(minutes or 0) * _MINUTE_MS
        + int(float(seconds or 0) * _SECOND_MS)
    )


class AssignedPartition:
    """One partition this consumer reads."""

    __slots__ = (
        "fetch_offset",
        "fetched",
        "fetched_size",
        "high_watermark",
        "is_damaged",
        "is_fetching",
        "is_paused",
        "is_taken",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "partition",
        "position",
        "preferred_replica",
        "preferred_until",
        "readable_end",
        "reset",
        "retry_at",
        "seek_count",
        "validated_epoch",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position: int | None = None
        self.leader_epoch = -1
        """The epoch of the record before the position; a commit carries it."""
        self.reset: OffsetReset | None = None
        """Where to begin, while that is being looked up."""
        self.is_paused = False
        self.is_taken = True
        """False until the rebalance listener has run for the partition: it may seek before anything is fetched."""
        self.is_fetching = False
        self.is_damaged = False
        """Whether damaged data was dropped, and the pause before the next fetch has not begun."""
        self.retry_at = 0
        self.seek_count = 0
        self.fetch_offset = -1
        self.fetched: deque[FetchedBatches] = deque()
        self.fetched_size = 0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.readable_end = -1
        """Where the last answer ended for lack of records: at the high watermark, or the last stable offset."""
        self.preferred_replica = -1
        self.preferred_until = 0
        self.validated_epoch = -1
        """The leader epoch under which the position has been found to be in the log."""

    def seek(self, offset: int, leader_epoch: int = -1, *, validated_epoch: int = -1) -> None:
        self.position = self.fetch_offset = offset
        self.leader_epoch = leader_epoch
        self.validated_epoch = validated_epoch
        self.reset = None
        self._drop()

    def begin_reset(self, reset: OffsetReset) -> None:
        """Forget the position until the broker has answered where the log begins or ends."""
        self.position = None
        self.fetch_offset = -1
        self.reset = reset
        self.retry_at = 0
        self._drop()

    def _drop(self) -> None:
        self.seek_count += 1
        self.is_damaged = False
        self.fetched.clear()
        self.fetched_size = 0

    def wants_data(self, max_buffered_bytes: int, now: int) -> bool:
        """Whether to fetch more of it now (S2)."""
        return (
            self.position is not None
            and self.is_taken
            and not self.is_paused
            and not self.is_fetching
            and self.fetched_size < max_buffered_bytes
            and now >= self.retry_at
        )

    @property
    def is_behind(self) -> bool:
        """Whether the log goes on beyond the fetched records, by the high watermark of the last answer."""
        return self.readable_end < 0 or self.fetch_offset < self.readable_end

    # Truncation (KIP-320)

    @property
    def fetched_epoch(self) -> int:
        """The epoch of the record before `fetch_offset`; -1 if it is not known."""
        return self.fetched[-1].end_epoch if self.fetched else self.leader_epoch

    def needs_validation(self, leader_epoch: int) -> bool:
        """Whether the leader of this epoch has to be asked before it is fetched from (S3)."""
        return leader_epoch > self.validated_epoch and self.fetched_epoch >= 0

    def compare(self, leader_epoch: int, end_offset: int, end_epoch: int, reset: OffsetReset) -> KafkaError | None:
        """The leader says where `fetched_epoch`, or the last one before it that it has, ends: go on, or begin again
        where the logs part. An error if that is behind what the application has got, and no setting says what to do
        (auto.offset.reset is none); -1 is an epoch it knows nothing of."""
        assert self.position is not None
        is_known = end_offset >= 0 and end_epoch >= 0
        if is_known and end_offset >= self.fetch_offset:
            self.validated_epoch = leader_epoch
        elif is_known and end_offset >= self.position:
            self.seek(self.position, self.leader_epoch, validated_epoch=leader_epoch)
        elif reset.kind is ResetKind.NONE:
            return LogTruncated(self.partition, self.position, end_offset if is_known else None)
        elif is_known:
            self.seek(end_offset, end_epoch, validated_epoch=leader_epoch)
        else:
            self.begin_reset(reset)
        return None

    def add(self, batches: FetchedBatches) -> None:
        assert self.position is not None
        assert batches.next_offset == self.fetch_offset, "S1"
        self.fetch_offset = batches.end_offset
        self.fetched.append(batches)
        self.fetched_size += batches.size

    def take(self, max_count: int) -> list[RawRecord]:
        """The next records the application gets, of as many answers as it takes to fill max_count; the position moves
        behind them. KafkaError for a damaged batch, which is fetched again."""
        taken: list[RawRecord] = []
        while self.fetched and len(taken) < max_count:
            batches = self.fetched[0]
            try:
                piece = batches.take(max_count - len(taken))
            except KafkaError:
                if taken:
                    break  # sound records first; the next call raises
                self._drop_damaged()
                raise
            self._taken_from(batches)
            if taken:
                taken += piece
            else:
                taken = piece
        return taken

    def take_columns(self, columns: RecordColumns, topic: int, max_count: int, end_offset: int) -> None:
        """Like `take`, into columns, until these have max_count rows in all or end_offset is reached."""
        is_empty = True
        while is_empty and self.fetched and columns.count < max_count:
            batches = self.fetched[0]
            try:
                batches.take_columns(columns, topic, max_count, end_offset)
            except KafkaError:
                self._drop_damaged()
                raise
            is_empty = batches.is_empty
            self._taken_from(batches)

    def _drop_damaged(self) -> None:
        assert self.position is not None
        self.seek(self.position, self.leader_epoch, validated_epoch=self.validated_epoch)
        self.is_damaged = True

    def _taken_from(self, batches: FetchedBatches) -> None:
        self.position = batches.next_offset
        self.leader_epoch = batches.leader_epoch
        if batches.is_empty:
            self.fetched.popleft()
            self.fetched_size -= batches.size

    @property
    def lag(self) -> int | None:
        """Records between the position and the end, as of the last fetch."""
        if self.position is None or self.high_watermark < 0:
            return None
        return max(self.high_watermark - self.position, 0)


class Subscription:
    """Which partitions a consumer reads and why: it was given topics or a pattern, or partitions by hand."""

    def __init__(self, reset: OffsetReset) -> None:
        self.default_reset = reset
        self.topics: tuple[str, ...] = ()
        self.pattern: re.Pattern[str] | None = None
        self.regex: str | None = None
        """A pattern that the broker matches (RE2, group.protocol=consumer)."""
        self.is_manual = False
        self.assigned: dict[TopicPartition, AssignedPartition] = {}

    @property
    def is_subscribed(self) -> bool:
        return bool(self.topics) or self.pattern is not None or self.regex is not None

    def subscribe(self, topics: Iterable[str]) -> None:
        self._by_group()
        self.topics = tuple(sorted(set(topics)))
        self.pattern = self.regex = None

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Topics are chosen here, whenever metadata comes (`match`)."""
        self._by_group()
        self.topics = ()
        self.pattern, self.regex = pattern, None

    def subscribe_regex(self, regex: str) -> None:
        self._by_group()
        self.topics = ()
        self.pattern, self.regex = None, regex

    def _by_group(self) -> None:
        if self.is_manual:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "partitions are assigned by hand; unsubscribe first")

    def match(self, names: Iterable[str]) -> bool:
        """Subscribe to the topics whose whole name matches the pattern; True if that changed them."""
        assert self.pattern is not None
        topics = tuple(sorted(name for name in names if self.pattern.fullmatch(name)))
        is_changed, self.topics = topics != self.topics, topics
        return is_changed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that were read before keep their position."""
        if self.is_subscribed:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "topics are subscribed to; unsubscribe first")
        wanted = dict.fromkeys(partitions)
        self.is_manual = bool(wanted)
        self.assigned = {
            partition: self.assigned.get(partition) or AssignedPartition(partition) for partition in wanted
        }

    def unsubscribe(self) -> None:
        self.topics, self.pattern, self.regex = (), None, None
        self.is_manual = False
        self.assigned = {}

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """The group assigned these. They are read after the rebalance listener has run."""
        for partition in partitions:
            if partition not in self.assigned:
                self.assigned[partition] = taken = AssignedPartition(partition)
                taken.is_taken = False

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.assigned.pop(partition, None)

    def state_of(self, partition: TopicPartition) -> AssignedPartition:
        state = self.assigned.get(partition)
        if state is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{partition} is not assigned to this consumer")
        return state

    def collect(self, max_count: int) -> list[RawRecord]:
        """The next records of all partitions, at most so many, each partition's together and in order. A partition
        that gave records goes to the end of the line."""
        collected: list[RawRecord] = []
        served = []
        error: KafkaError | None = None
        for partition, state in self.assigned.items():
            if not state.fetched or state.is_paused:
                continue
            try:
                taken = state.take(max_count - len(collected))
            except KafkaError as failed:
                error = error or failed
                continue
            if taken:
                served.append(partition)
                collected = collected + taken if collected else taken
                if len(collected) >= max_count:
                    break
        if error is not None and not collected:
            raise error
        self._to_the_end(served)
        return collected

    def collect_columns(
        self,
        columns: RecordColumns,
        max_count: int,
        end_offsets: Mapping[TopicPartition, int],
    ) -> list[str]:
        """Like `collect`, into columns, until these are full or have so many rows. Returns the topics that the columns
        index."""
        topics: dict[str, int] = {}
        served = []
        error: KafkaError | None = None
        for partition, state in self.assigned.items():
            if not state.fetched or state.is_paused:
                continue
            count = columns.count
            topic = topics.setdefault(partition.topic, len(topics))
            try:
                state.take_columns(columns, topic, max_count, end_offsets.get(partition, NO_END))
            except KafkaError as failed:
                error = error or failed
            if columns.count > count:
                served.append(partition)
            if columns.count >= max_count:
                break
        if error is not None and not columns.count:
            raise error
        self._to_the_end(served)
        return list(topics)

    def _to_the_end(self, served: list[TopicPartition]) -> None:
        if len(self.assigned) > 1:
            for partition in served:
                self.assigned[partition] = self.assigned.pop(partition)
