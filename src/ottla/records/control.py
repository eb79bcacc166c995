"""Control batches: markers that brokers write between records and clients never see."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct, error
from typing import TYPE_CHECKING, NamedTuple

from ottla.records.batch import CONTROL_FLAG, Record, read_header
from ottla.records.build import build
from ottla.records.errors import CorruptRecords
from ottla.records.kernel import read

if TYPE_CHECKING:
    from typing_extensions import Buffer

_KEY = Struct(">hh")
_END_TXN_VALUE = Struct(">hi")


class ControlType(IntEnum):
    """The type in a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class EndTxnMarker(NamedTuple):
    """The end of a producer's transaction on one partition."""

    control_type: ControlType
    coordinator_epoch: int


def control_batch(
    control_type: ControlType,
    value: bytes,
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    is_transactional: bool = False,
) -> bytearray:
    """A batch of one control record; its value is the encoded message that belongs to the type."""
    return build(
        [Record(timestamp=timestamp, key=control_key(control_type), value=value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=is_transactional,
        is_control=True,
    )


def control_key(control_type: ControlType) -> bytes:
    """Key of a control record: version 0 and the type."""
    return _KEY.pack(0, control_type)


def end_txn_marker(
    *,
    producer_id: int,
    producer_epoch: int,
    is_commit: bool,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The batch that ends a transaction. Version 0 of the value, as Kafka writes it."""
    return control_batch(
        ControlType.COMMIT if is_commit else ControlType.ABORT,
        _END_TXN_VALUE.pack(0, coordinator_epoch),
        timestamp=timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
    )


def control_type(batch: Buffer) -> ControlType:
    """The type of a control batch, from its first record; UNKNOWN for types of newer versions."""
    return parse_control_key(_only_record(batch).key)


def read_end_txn_marker(batch: Buffer) -> EndTxnMarker:
    """The marker in a control batch of type ABORT or COMMIT."""
    record = _only_record(batch)
    kind = parse_control_key(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise CorruptRecords(f"{kind.name} does not end a transaction")
    try:
        version, coordinator_epoch = _END_TXN_VALUE.unpack_from(record.value or b"")
    except error:
        raise CorruptRecords("the marker's value is cut off") from None
    if version < 0:
        raise CorruptRecords(f"marker version {version}")
    return EndTxnMarker(kind, coordinator_epoch)


def parse_control_key(key: bytes | None) -> ControlType:
    """The type that a control record's key names."""
    if key is None or len(key) < _KEY.size:
        raise CorruptRecords("a control record without a whole key")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecords(f"control record key version {version}")
    try:
        return ControlType(number)
    except ValueError:
        return ControlType.UNKNOWN


def _only_record(batch: Buffer) -> Record:
    if not read_header(batch).attributes & CONTROL_FLAG:
        raise CorruptRecords("not a control batch")
    records = read(batch, memoryview(batch).nbytes * 4)
    if not records:
        raise CorruptRecords("a control batch without a record")
    return records[0]
