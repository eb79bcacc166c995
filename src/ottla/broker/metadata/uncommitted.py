"""The part of the metadata log that is not committed yet: its records wait, its voters count at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.cluster import decode_records, features
from ottla.raft import Voters
from ottla.records import BatchHeader, ControlType, parse_control_key, read
from ottla.wire import Message, decode
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.records.kraft_version_record import KraftVersionRecord
from ottla.wire.messages.records.voters_record import VotersRecord


class Written(NamedTuple):
    """Records of the log that are not known to be committed yet."""

    end_offset: int
    records: Sequence[Message]
    """Empty for what the quorum keeps in the log for itself."""


class Uncommitted:
    """The uncommitted end of the log."""

    def __init__(self, configured: Voters) -> None:
        self._voters: list[tuple[int, Voters]] = [(-1, configured)]
        """The offsets from which each set of voters counts."""
        self.written: deque[Written] = deque()
        self.metadata_version = features.MIN_METADATA_VERSION
        """The version that the next records are encoded in."""

    @property
    def voters(self) -> Voters:
        return self._voters[-1][1]

    @property
    def has_dynamic_voters(self) -> bool:
        return len(self._voters) > 1

    @property
    def are_voters_only_formatted(self) -> bool:
        return self.has_dynamic_voters and self._voters[-1][0] < 0

    def use_voters(self, offset: int, voters: Voters) -> None:
        if voters.kraft_version and voters.by_id:
            self._voters.append((offset, voters))

    def add(self, end_offset: int, records: Sequence[Message]) -> None:
        """The log has these records now, up to an offset."""
        self.use_metadata_version(records)
        self.written.append(Written(end_offset, records))

    def add_batch(self, header: BatchHeader, batch: memoryview, from_offset: int = 0) -> None:
        """The log has this batch now. Its voters count at once (KIP-853)."""
        records = [record for record in read(batch) if record.offset >= from_offset]
        if not header.is_control:
            self.add(header.next_offset, decode_records(record.value or b"" for record in records))
            return
        for record in records:
            value = memoryview(record.value or b"")
            control = parse_control_key(record.key)
            if control is ControlType.KRAFT_VERSION:
                kraft_version = decode(KraftVersionRecord, 0, value).kraft_version
                self.use_voters(record.offset, Voters(kraft_version, self.voters.by_id))
            elif control is ControlType.KRAFT_VOTERS:
                self.use_voters(record.offset, Voters.from_record(decode(VotersRecord, 0, value)))
        self.written.append(Written(header.next_offset, ()))

    def use_metadata_version(self, records: Sequence[Message]) -> None:
        for record in records:
            if isinstance(record, FeatureLevelRecord) and record.name == features.METADATA_VERSION:
                self.metadata_version = record.feature_level

    def truncate(self, end_offset: int) -> None:
        """The log was truncated to this offset."""
        while len(self._voters) > 1 and self._voters[-1][0] >= end_offset:
            self._voters.pop()
        while self.written and self.written[-1].end_offset > end_offset:
            self.written.pop()

    def commit(self, high_watermark: int) -> Iterator[Written]:
        """Takes what is before the high watermark out of the wait; returns it, one write after the other."""
        while self.written and self.written[0].end_offset <= high_watermark:
            yield self.written.popleft()

    def clear(self) -> None:
        """A snapshot of the leader replaces everything."""
        self.written.clear()
        del self._voters[1:]
