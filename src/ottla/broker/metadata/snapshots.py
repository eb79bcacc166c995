"""Snapshots of the metadata log: `<end offset>-<epoch>.checkpoint`, and `bootstrap.checkpoint`, in Kafka's format.

A snapshot is a file of record batches: a control batch with the SnapshotHeader (and, where voters are dynamic, the
KRaftVersion and the Voters), batches of metadata records that build the image from nothing, and a control batch with
the SnapshotFooter. Offsets in it count from 0 and mean nothing. It is written under another name and renamed when it is
whole and on the disk, so a file with the right name but without its footer is damaged and is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from ottla import raft
from ottla.cluster import decode_records, encode_record
from ottla.raft import Voters
from ottla.records import (
    ControlType,
    CorruptRecords,
    Record,
    build,
    control_key,
    crc_ok,
    parse_control_key,
    read,
    split,
)
from ottla.wire import Message, decode, encode_bytes
from ottla.wire.messages.records.kraft_version_record import KraftVersionRecord
from ottla.wire.messages.records.snapshot_footer_record import SnapshotFooterRecord
from ottla.wire.messages.records.snapshot_header_record import SnapshotHeaderRecord
from ottla.wire.messages.records.voters_record import VotersRecord

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
RECORDS_PER_BATCH = 1_000
"""Few enough that building one batch does not hold up the loop."""


class SnapshotId(raft.SnapshotId):
    """The prefix of the log that a snapshot replaces: everything before `end_offset`; the last record's epoch is
    `epoch`.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"

    @classmethod
    def parse(cls, name: str) -> SnapshotId | None:
        match = _NAME.fullmatch(name)
        return None if match is None else cls(int(match[1]), int(match[2]))


class Snapshot(NamedTuple):
    """The decoded content of a snapshot."""

    records: list[Message]
    last_contained_timestamp: int
    voters: Voters | None
    """None if the log does not list the voters: they are static."""


def encode_snapshot(
    records: Iterable[Message],
    *,
    metadata_version: int,
    epoch: int,
    timestamp: int,
    last_contained_timestamp: int,
    voters: Voters | None = None,
) -> Iterator[bytearray]:
    """The batches of a snapshot one after the other, each a bounded piece of work."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_timestamp)
    control = [Record(0, timestamp, control_key(ControlType.SNAPSHOT_HEADER), encode_bytes(header, 0))]
    if voters is not None:
        control += voters_records(voters, timestamp)
    yield build(control, base_offset=0, leader_epoch=epoch, is_control=True)
    offset = len(control)
    remaining = iter(records)
    while chunk := [
        Record(0, timestamp, None, encode_record(record, metadata_version))
        for record in islice(remaining, RECORDS_PER_BATCH)
    ]:
        yield build(chunk, base_offset=offset, leader_epoch=epoch)
        offset += len(chunk)
    footer = Record(
        0, timestamp, control_key(ControlType.SNAPSHOT_FOOTER), encode_bytes(SnapshotFooterRecord(version=0), 0)
    )
    yield build([footer], base_offset=offset, leader_epoch=epoch, is_control=True)


def voters_records(voters: Voters, timestamp: int) -> list[Record]:
    """The control records that list the voters, for the log or a snapshot."""
    kraft_version = KraftVersionRecord(version=0, kraft_version=voters.kraft_version)
    return [
        Record(0, timestamp, control_key(ControlType.KRAFT_VERSION), encode_bytes(kraft_version, 0)),
        Record(0, timestamp, control_key(ControlType.KRAFT_VOTERS), encode_bytes(voters.to_record(), 0)),
    ]


def decode_snapshot(data: bytes) -> Snapshot:
    """CorruptRecords if it is damaged or was not finished; WireError if its records are beyond this release."""
    view = memoryview(data)
    records: list[Message] = []
    voters: Voters | None = None
    timestamp = -1
    is_begun = is_finished = False
    position = 0
    for position, header in split(view):
        batch = view[position : position + header.size]
        if not crc_ok(view, position, header.size):
            raise CorruptRecords(f"the snapshot's batch at {position} fails its CRC")
        if is_finished:
            raise CorruptRecords("the snapshot goes on behind its footer")
        position += header.size
        if not header.is_control:
            records += decode_records(record.value or b"" for record in read(batch))
            continue
        for record in read(batch):
            control = parse_control_key(record.key)
            value = record.value or b""
            if control is ControlType.SNAPSHOT_HEADER:
                is_begun = True
                timestamp = decode(SnapshotHeaderRecord, 0, memoryview(value)).last_contained_log_timestamp
            elif control is ControlType.SNAPSHOT_FOOTER:
                is_finished = True
            elif control is ControlType.KRAFT_VERSION:
                kraft_version = decode(KraftVersionRecord, 0, memoryview(value)).kraft_version
                voters = Voters(kraft_version, {} if voters is None else voters.by_id)
            elif control is ControlType.KRAFT_VOTERS:
                voters = Voters.from_record(decode(VotersRecord, 0, memoryview(value)))
    if not is_begun or not is_finished or position != len(view):
        raise CorruptRecords("the snapshot is incomplete")
    return Snapshot(records, timestamp, voters)
