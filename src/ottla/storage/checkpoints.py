"""The small text files of a log dir and of a partition's folder, as Kafka writes them.

A log dir:     meta.properties, .kafka_cleanshutdown, .lock, and four maps of partition to offset
               (recovery-point-, log-start-, replication- and cleaner-offset-checkpoint)
A partition:   leader-epoch-checkpoint, partition.metadata

Each is written under another name and then renamed, so that a crash leaves the old or the new file. An unreadable file
counts as absent: the content of each can be rebuilt, only slower.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.config import parse_properties
from ottla.storage.disk import Disk, File
from ottla.wire.primitives import parse_uuid, uuid_text

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

Partition = tuple[str, int]


class CorruptCheckpoint(ValueError):
    """A checkpoint file that is incomplete, or that no broker wrote."""


def read_text(disk: Disk, path: str) -> str | None:
    """A whole small file; None when it is absent."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        return file.read(0, file.size()).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from None
    finally:
        file.close()


def replace_text(disk: Disk, path: str, text: str, *, sync: bool = True) -> None:
    """Replace a file in one step; with `sync` the new one is also on the disk."""
    temporary = f"{path}.tmp"
    file = _write(disk, temporary, text)
    try:
        if sync:
            file.sync_now()
    finally:
        file.close()
    disk.rename(temporary, path)


def _write(disk: Disk, path: str, text: str) -> File:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write(0, text.encode("utf-8"))
    except OSError:
        file.close()
        raise
    return file


# --- offsets of partitions


def format_offsets(offsets: Mapping[Partition, int]) -> str:
    lines = [
        "0",
        str(len(offsets)),
        *(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()),
    ]
    return "\n".join(lines) + "\n"


def parse_offsets(text: str) -> dict[Partition, int]:
    offsets: dict[Partition, int] = {}
    for line in _entries(text):
        try:
            topic, partition, offset = line.split()
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            raise CorruptCheckpoint(f"line {line!r}") from None
    return offsets


def read_offsets(disk: Disk, directory: str, name: str) -> dict[Partition, int]:
    """Reads one of the four maps; CorruptCheckpoint if the file exists and is damaged."""
    text = read_text(disk, f"{directory}/{name}")
    return {} if text is None else parse_offsets(text)


def write_offsets(
    disk: Disk, directory: str, name: str, offsets: Mapping[Partition, int], *, sync: bool = True
) -> None:
    replace_text(disk, f"{directory}/{name}", format_offsets(offsets), sync=sync)


def _entries(text: str) -> list[str]:
    """The lines after a checkpoint's version and count; an empty file is an empty checkpoint."""
    lines = text.splitlines()
    if not lines:
        return []
    if lines[0] != "0":
        raise CorruptCheckpoint(f"version {lines[0]!r}")
    if len(lines) < 2:
        return []
    if not lines[1].isdigit() or int(lines[1]) != len(lines) - 2:
        raise CorruptCheckpoint(f"{len(lines) - 2} lines where {lines[1]!r} are announced")
    return lines[2:]


# --- a partition's own


def format_epochs(entries: Iterable[tuple[int, int]]) -> str:
    lines = [f"{epoch} {start_offset}" for epoch, start_offset in entries]
    return "\n".join(["0", str(len(lines)), *lines]) + "\n"


def parse_epochs(text: str) -> list[tuple[int, int]]:
    entries = []
    for line in _entries(text):
        try:
            epoch, start_offset = line.split()
            entry = (int(epoch), int(start_offset))
        except ValueError:
            raise CorruptCheckpoint(f"line {line!r}") from None
        if min(entry) < 0:
            raise CorruptCheckpoint(f"line {line!r}")
        entries.append(entry)
    return entries


def read_epochs(disk: Disk, directory: str) -> list[tuple[int, int]]:
    text = read_text(disk, f"{directory}/{LEADER_EPOCHS}")
    return [] if text is None else parse_epochs(text)


def write_epochs(disk: Disk, directory: str, entries: Iterable[tuple[int, int]], *, sync: bool) -> None:
    replace_text(disk, f"{directory}/{LEADER_EPOCHS}", format_epochs(entries), sync=sync)


async def sync_epochs(disk: Disk, directory: str, entries: Iterable[tuple[int, int]]) -> None:
    """`write_epochs` with `sync`, for many logs at once; the caller makes sure that no other call writes this log's
    file.
    """
    path = f"{directory}/{LEADER_EPOCHS}"
    file = _write(disk, f"{path}.tmp", format_epochs(entries))
    try:
        await file.sync()
    finally:
        file.close()
    disk.rename(f"{path}.tmp", path)


def read_topic_id(disk: Disk, directory: str) -> bytes | None:
    """The topic id in partition.metadata; None if the file is absent or damaged."""
    try:
        text = read_text(disk, f"{directory}/{PARTITION_METADATA}")
    except CorruptCheckpoint:
        return None
    fields = dict(line.split(": ", 1) for line in (text or "").splitlines() if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        return None
    try:
        return parse_uuid(fields["topic_id"].strip())
    except ValueError:
        return None


def write_topic_id(disk: Disk, directory: str, topic_id: bytes, *, is_new: bool = False) -> None:
    """Write the topic id without a sync: the cluster's metadata has it too, and a thousand new partitions must not wait
    for a sync each.
    """
    file = disk.open(f"{directory}/{PARTITION_METADATA}", create=True)
    data = f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()
    try:
        file.write(0, data)
        if not is_new:
            file.truncate(len(data))
    finally:
        file.close()


# --- the log dir's own


class MetaProperties(NamedTuple):
    """meta.properties: whose log dir this is."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None = None
    """None in a folder of a release without log dir ids."""


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """The log dir's meta.properties, None if it has not been formatted. CorruptCheckpoint if the file is damaged: of
    all small files, only this one cannot be rebuilt.
    """
    path = f"{directory}/{META_PROPERTIES}"
    text = read_text(disk, path)
    if text is None:
        return None
    fields = parse_properties(text)
    version = fields.get("version")
    if version not in ("0", "1"):
        raise CorruptCheckpoint(f"{path} has version {version}; this release knows 0 and 1")
    try:
        node_id = int(fields["node.id" if version == "1" or "node.id" in fields else "broker.id"])
        directory_id = fields.get("directory.id")
        return MetaProperties(fields["cluster.id"], node_id, None if directory_id is None else parse_uuid(directory_id))
    except (KeyError, ValueError) as error:
        raise CorruptCheckpoint(f"{path} is damaged: {error}") from None


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties) -> None:
    lines = ["#", f"cluster.id={properties.cluster_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={uuid_text(properties.directory_id)}")
    lines += [f"node.id={properties.node_id}", "version=1"]
    replace_text(disk, f"{directory}/{META_PROPERTIES}", "\n".join(lines) + "\n")
    disk.sync_directory(directory)


def take_clean_shutdown(disk: Disk, directory: str) -> tuple[bool, int]:
    """Whether the last stop was clean, and its broker epoch (-1: unknown). Removes the marker, so that a later crash is
    recognised.
    """
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    try:
        text = read_text(disk, path)
    except CorruptCheckpoint:
        text = ""
    if text is None:
        return False, -1
    try:
        broker_epoch = int(json.loads(text)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        broker_epoch = -1
    disk.remove(path)
    disk.sync_directory(directory)
    return True, broker_epoch


def write_clean_shutdown(disk: Disk, directory: str, broker_epoch: int) -> None:
    file = disk.open(f"{directory}/{CLEAN_SHUTDOWN}", create=True)
    data = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
    try:
        file.truncate(0)
        file.write(0, data)
        file.sync_now()
    finally:
        file.close()
    disk.sync_directory(directory)
