"""Logs in a temporary folder and batches to put into them, for the tests of storage."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from ottla.config import TopicConfig
from ottla.records import Compression, Record, build, read
from ottla.storage import Appended, LastStop, Log, OsDisk, load_log
from ottla.storage.disk import Buffer, OsFile

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


def batch(
    count: int = 1,
    *,
    value: bytes = b"value",
    timestamp: int = NOW,
    producer: tuple[int, int] | None = None,
    sequence: int = -1,
    compression: Compression = Compression.NONE,
    is_transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
    key: bytes | None = b"key",
) -> bytearray:
    """A batch as a producer sends it."""
    producer_id, producer_epoch = producer if producer is not None else (-1, -1)
    return build(
        [Record(offset=base_offset + n, timestamp=timestamp, key=key, value=value) for n in range(count)],
        base_offset=base_offset,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
        leader_epoch=leader_epoch,
    )


def new_log(folder: Path, disk: OsDisk | None = None, **config: object) -> Log:
    return Log.create(
        disk or OsDisk(), f"{folder}/topic-0", "topic", 0, TopicConfig(**config), topic_id=TOPIC_ID, timestamp=NOW
    )


def open_log(
    folder: Path,
    *,
    is_clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    disk: OsDisk | None = None,
    timestamp: int = NOW,
    **config: object,
) -> Log:
    log = load_log(
        disk or OsDisk(),
        f"{folder}/topic-0",
        "topic",
        0,
        TopicConfig(**config),
        LastStop(is_clean, recovery_point, log_start_offset),
        timestamp=timestamp,
    )
    log.advance_high_watermark(log.log_end_offset)
    return log


def append(log: Log, data: bytearray | None = None, *, leader_epoch: int = 0, timestamp: int = NOW) -> Appended:
    """Append and commit."""
    appended = log.append(data if data is not None else batch(), leader_epoch=leader_epoch, timestamp=timestamp)
    log.advance_high_watermark(log.log_end_offset)
    return appended


def offsets(log: Log) -> list[int]:
    """The offsets of everything that a consumer can read, in order."""
    found: list[int] = []
    offset = log.log_start_offset
    while (part := log.read(offset, max_bytes=1 << 20, end_offset=log.log_end_offset)) is not None:
        data = part.read()
        position = 0
        while position + 12 <= len(data):
            size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
            if position + size > len(data):
                break
            found += [record.offset for record in read(data[position : position + size]) if record.offset >= offset]
            position += size
        assert found
        offset = found[-1] + 1
    return found


class FailingDisk(OsDisk):
    """A disk whose writes, syncs or reads fail when told to; a failing write leaves half of its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: Callable[[str, str], int | None] = lambda action, path: None
        self.synced: list[str] = []

    def open(self, path: str, *, create: bool = False) -> OsFile:
        if create:
            self.check("create", path)
        plain = super().open(path, create=create)
        plain.close()
        return FailingFile(self, path)

    def check(self, action: str, path: str) -> None:
        code = self.fails(action, path)
        if code is not None:
            raise OSError(code, errno.errorcode[code], path)


class FailingFile(OsFile):
    __slots__ = ("_failing",)

    def __init__(self, disk: FailingDisk, path: str) -> None:
        super().__init__(disk, path, -1)
        self._failing = disk

    def write(self, position: int, data: Buffer) -> None:
        try:
            self._failing.check("write", self.path)
        except OSError:
            super().write(position, memoryview(data)[: len(data) // 2])
            raise
        super().write(position, data)

    def read(self, position: int, size: int) -> bytes:
        self._failing.check("read", self.path)
        return super().read(position, size)

    async def sync(self) -> None:
        self._failing.check("sync", self.path)
        await super().sync()
        self._failing.synced.append(self.path.rpartition("/")[2])

    def sync_now(self) -> None:
        self._failing.check("sync", self.path)
        super().sync_now()
