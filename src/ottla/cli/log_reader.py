"""Log files read without a broker: the batches and records of segments, and where a file is damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from ottla.records import BatchHeader, CorruptRecords, Record, UnsupportedMagic, crc_ok, read, read_header
from ottla.records.batch import HEADER_SIZE

LOG_SUFFIXES = (".log", ".checkpoint", ".log.deleted", ".log.cleaned", ".log.swap")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Damage(NamedTuple):
    """Where a file stops making sense, and why."""

    position: int
    reason: str


class Batch(NamedTuple):
    """A batch in its file."""

    position: int
    header: BatchHeader
    is_valid: bool
    """Whether its checksum is right."""
    data: memoryview

    def records(self) -> list[Record]:
        """CorruptRecords if they cannot be read."""
        return list(read(self.data))

    def document(self) -> dict[str, Any]:
        header = self.header
        codec = header.attributes & 7
        return {
            "position": self.position,
            "size": header.size,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "count": header.count,
            "compression": _CODECS[codec] if codec < len(_CODECS) else str(codec),
            "max_timestamp": header.max_timestamp,
            "timestamp_type": "LogAppendTime" if header.has_log_append_time else "CreateTime",
            "leader_epoch": header.leader_epoch,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "is_transactional": header.is_transactional,
            "is_control": header.is_control,
            "is_valid": self.is_valid,
        }


def log_files(path: str) -> list[str]:
    """The segments of a folder of one partition in the order of their offsets, or the one file."""
    if not os.path.isdir(path):
        return [path]
    names = sorted(name for name in os.listdir(path) if name.endswith(LOG_SUFFIXES))
    return [os.path.join(path, name) for name in names]


def read_batches(path: str) -> Iterator[Batch | Damage]:
    """The batches of a file; at most one Damage, at its end. Zeros at the end are space that a broker allocated
    ahead."""
    size = os.path.getsize(path)
    if size == 0:
        return
    with open(path, "rb") as file:
        data = memoryview(file.read())
    position = 0
    while position < size:
        if size - position < HEADER_SIZE:
            if any(data[position:]):
                yield Damage(position, f"{size - position} bytes at the end are no whole batch")
            return
        try:
            header = read_header(data, position)
        except (CorruptRecords, UnsupportedMagic) as error:
            if any(data[position : position + HEADER_SIZE]):
                yield Damage(position, str(error))
            return
        if header.size > size - position:
            yield Damage(position, f"a batch of {header.size} bytes where {size - position} are left")
            return
        batch = data[position : position + header.size]
        yield Batch(position, header, crc_ok(batch, 0, header.size), batch)
        position += header.size
