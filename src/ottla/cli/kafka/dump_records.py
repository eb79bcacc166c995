"""Batches and records of a log file, as kafka-dump-log shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ottla.cli.kafka.coordinator_records import (
    GROUP_METADATA,
    GROUPS,
    SHARES,
    TRANSACTIONS,
    Schemas,
    UnknownType,
    open_consumer_protocol,
    read_record,
)
from ottla.cli.kafka.exceptions import java_class
from ottla.cli.kafka.message_json import format_json, to_json
from ottla.cli.kafka.options import Options, ToolError
from ottla.records import BatchHeader, ControlType, CorruptRecords, Record, crc_ok, parse_control_key, read, read_header
from ottla.records.batch import LOG_OVERHEAD, MAX_SEQUENCE
from ottla.wire import Message, WireError, decode
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.records import METADATA, REMOTE_LOG, record_class
from ottla.wire.primitives import decode_unsigned_varint

CORRUPT_RECORD = "org.apache.kafka.common.errors.CorruptRecordException"
_UP_TO_MAGIC = 17
_SMALLEST = 14
_START = Struct(">qiib")
_LEGACY = Struct(">qiIbb")
_LEGACY_TIMESTAMP = Struct(">q")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_CONTROLS = {
    ControlType.LEADER_CHANGE: ("LeaderChange: ", "leader_change_message", "LeaderChangeMessage"),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader ", "snapshot_header_record", "SnapshotHeaderRecord"),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter ", "snapshot_footer_record", "SnapshotFooterRecord"),
    ControlType.KRAFT_VERSION: ("KRaftVersion ", "kraft_version_record", "KraftVersionRecord"),
    ControlType.KRAFT_VOTERS: ("KRaftVoters ", "voters_record", "VotersRecord"),
}
"""What a control record of the metadata log is called, and its message."""


class Contents(NamedTuple):
    """A record's key and value as text; None is not shown."""

    key: str | None
    value: str | None


class Shown(NamedTuple):
    """What is wanted of every batch."""

    is_deep: bool
    shows_contents: bool
    shows_metadata: bool
    decode: Callable[[Record], Contents]


def shown_as(options: Options, *, is_deep: bool, shows_contents: bool) -> Shown:
    """What the options of kafka-dump-log ask for."""
    decode: Callable[[Record], Contents]
    if options.has("offsets-decoder"):
        decode = _of_coordinator(GROUPS)
    elif options.has("transaction-log-decoder"):
        decode = _of_coordinator(TRANSACTIONS)
    elif options.has("cluster-metadata-decoder"):
        decode = _of_frames(METADATA, "Error at ")
    elif options.has("remote-log-metadata-decoder"):
        decode = _of_frames(REMOTE_LOG, "Error at offset ")
    elif options.has("share-group-state-decoder"):
        decode = _of_coordinator(SHARES)
    else:
        key, value = _decoder(options.value("key-decoder-class")), _decoder(options.value("value-decoder-class"))

        def decode(record: Record) -> Contents:
            return Contents(
                None if record.key is None else key(record.key), None if record.value is None else value(record.value)
            )

    return Shown(is_deep, shows_contents, not options.has("skip-record-metadata"), decode)


def batches(data: memoryview, path: Path) -> Iterator[tuple[int, memoryview]]:
    """Position and bytes of every whole batch of a file."""
    position, end = 0, len(data)
    while position < end - _UP_TO_MAGIC:
        _, length, _, _ = _START.unpack_from(data, position)
        if length < _SMALLEST:
            raise CorruptRecords(
                f"Found record size {length} smaller than minimum record overhead ({_SMALLEST}) in file {path}."
            )
        if position > end - LOG_OVERHEAD - length:
            return
        yield position, data[position : position + LOG_OVERHEAD + length]
        position += LOG_OVERHEAD + length


@dataclass(slots=True)
class RecordDump:
    """Shows the batches of one file; `gaps` are the offsets that do not follow each other."""

    shown: Shown
    gaps: list[tuple[int, int]] = field(default_factory=list)
    _last_offset: int = -1

    def show(self, position: int, batch: memoryview) -> None:
        if _START.unpack_from(batch)[3] < 2:
            self._show_legacy(position, batch)
            return
        header = read_header(batch)
        print(_batch_line(position, batch, header))
        if not self.shown.is_deep:
            return
        kind = _timestamp_type(header)
        for record in read(batch):
            if record.offset != self._last_offset + 1:
                self.gaps.append((self._last_offset, record.offset))
            self._last_offset = record.offset
            line = self._metadata(header, kind, record) if self.shown.shows_metadata else ""
            if self.shown.shows_contents and not header.is_control:
                line += self._contents(record, " " if line else "| ")
            print(line)

    def _metadata(self, header: BatchHeader, kind: str, record: Record) -> str:
        sequence = -1
        if header.base_sequence >= 0:
            sequence = (header.base_sequence + record.offset - header.base_offset) & MAX_SEQUENCE
        keys = ",".join(name for name, _ in record.headers)
        line = (
            f"| offset: {record.offset} {kind}: {record.timestamp} keySize: {_size(record.key)} "
            f"valueSize: {_size(record.value)} sequence: {sequence} headerKeys: [{keys}]"
        )
        return line + _control(record) if header.is_control else line

    def _contents(self, record: Record, prefix: str) -> str:
        key, value = self.shown.decode(record)
        text = ""
        if key is not None:
            text, prefix = f"{prefix}key: {key}", " "
        if value is not None:
            text += f"{prefix}payload: {value}"
        return text

    def _show_legacy(self, position: int, batch: memoryview) -> None:
        """A message of the formats before Kafka 0.11; what a compressed one holds is not unpacked."""
        from zlib import crc32

        offset, length, crc, magic, attributes = _LEGACY.unpack_from(batch)
        timestamp = _LEGACY_TIMESTAMP.unpack_from(batch, 18)[0] if magic == 1 else -1
        kind = "NoTimestampType" if magic == 0 else "LogAppendTime" if attributes & 8 else "CreateTime"
        codec = attributes & 7
        print(
            f"offset: {offset} position: {position} {kind}: {timestamp} size: {LOG_OVERHEAD + length} magic: {magic} "
            f"compresscodec: {_CODECS[codec] if codec < len(_CODECS) else codec} crc: {crc} "
            f"isvalid: {_java(crc32(batch[16:]) == crc)}"
        )
        if self.shown.is_deep:
            raise ToolError(
                f"records of message format v{magic} are not unpacked; leave --deep-iteration and --print-data-log out",
                "org.apache.kafka.common.errors.UnsupportedForMessageFormatException",
            )


def _batch_line(position: int, batch: memoryview, header: BatchHeader) -> str:
    horizon = header.delete_horizon
    codec = header.attributes & 7
    if codec >= len(_CODECS):
        raise ToolError(f"Unknown compression type id: {codec}")
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.leader_epoch} isTransactional: {_java(header.is_transactional)} "
        f"isControl: {_java(header.is_control)} "
        f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
        f"position: {position} {_timestamp_type(header)}: {header.max_timestamp} size: {header.size} "
        f"magic: {header.magic} compresscodec: {_CODECS[codec]} crc: {header.crc} "
        f"isvalid: {_java(crc_ok(batch, 0, header.size))}"
    )


def _timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.has_log_append_time else "CreateTime"


def _java(value: bool) -> str:
    return "true" if value else "false"


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _control(record: Record) -> str:
    """The content of a control record."""
    kind = parse_control_key(record.key)
    value = record.value or b""
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        return f" endTxnMarker: {kind.name} coordinatorEpoch: {int.from_bytes(value[2:6], 'big', signed=True)}"
    if kind in _CONTROLS:
        from importlib import import_module

        title, module, name = _CONTROLS[kind]
        cls: type[Message] = getattr(import_module(f"ottla.wire.messages.records.{module}"), name)
        version = int.from_bytes(value[:2], "big", signed=True)
        try:
            return f" {title}{format_json(to_json(decode(cls, version, value), version))}"
        except WireError as error:
            raise CorruptRecords(f"the {name} at offset {record.offset}: {error}") from None
    number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    return f" controlType: UNKNOWN({number})"


def _of_coordinator(schemas: Schemas) -> Callable[[Record], Contents]:
    def decode_record(record: Record) -> Contents:
        if record.key is None:
            raise ToolError(
                f"Failed to decode message at offset {record.offset} using the specified decoder "
                "(message had a missing key)",
                "java.lang.RuntimeException",
            )
        try:
            found = read_record(schemas, record.key, record.value)
        except UnknownType as error:
            return Contents(f"Unknown record type {error.number} at offset {record.offset}, skipping.", None)
        except WireError as error:
            return Contents(f"Error at offset {record.offset}, skipping. {error}", None)
        key = format_json({"type": str(found.type), "data": found.key})
        if found.value is None:
            return Contents(key, "<DELETE>")
        if schemas is GROUPS and found.type == GROUP_METADATA:
            open_consumer_protocol(found.value)
        return Contents(key, format_json({"version": str(found.version), "data": found.value}))

    return decode_record


def _of_frames(table: dict[int, tuple[str, str]], trouble: str) -> Callable[[Record], Contents]:
    """Records whose value begins with three numbers: the frame's version, the type, the version of its schema."""

    def decode_record(record: Record) -> Contents:
        try:
            data = record.value or b""
            frame_version, position = decode_unsigned_varint(data, 0)
            if frame_version != 1:
                raise WireError(
                    f"Could not deserialize metadata record due to unknown frame version {frame_version}(only frame "
                    "version 1 is supported)"
                )
            number, position = decode_unsigned_varint(data, position)
            version, position = decode_unsigned_varint(data, position)
            if number not in table:
                unsupported = java_class(ErrorCode.UNSUPPORTED_VERSION)
                raise WireError(f"{unsupported}: Unknown metadata id {number}")
            message = decode(record_class(table, number), version, data, position)
        except (WireError, IndexError) as error:
            return Contents(None, f"{trouble}{record.offset}, skipping. {error}")
        shown = {"type": table[number][0].upper(), "version": version, "data": to_json(message, version)}
        return Contents(None, format_json(shown))

    return decode_record


def _decoder(class_name: str) -> Callable[[bytes], str]:
    """The replacement for one of Kafka's decoder classes."""
    decoders: dict[str, Callable[[bytes], str]] = {
        "StringDecoder": lambda data: data.decode(errors="replace"),
        "IntegerDecoder": lambda data: str(_whole(data, 4)),
        "LongDecoder": lambda data: str(_whole(data, 8)),
        "DefaultDecoder": lambda data: "".join(f"{byte:02x}" for byte in data),
    }
    package, _, name = class_name.rpartition(".")
    if package not in ("org.apache.kafka.tools.api", "kafka.serializer", "") or name not in decoders:
        cause = ToolError(class_name, "java.lang.ClassNotFoundException")
        raise ToolError("Failed to load decoder class", "java.lang.RuntimeException", cause)
    return decoders[name]


def _whole(data: bytes, size: int) -> int:
    if len(data) < size:
        raise ToolError(f"{len(data)} bytes are no number of {size}", "java.nio.BufferUnderflowException")
    return int.from_bytes(data[:size], "big", signed=True)
