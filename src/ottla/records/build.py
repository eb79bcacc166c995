"""Whole batches out of records, and the changes a broker makes to a batch that change its CRC."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING

from ottla.records import kernel
from ottla.records.batch import (
    CONTROL_FLAG,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Compression,
    Record,
    Validated,
    read_header,
)
from ottla.records.compression import DEFAULT_MAX_SIZE, compress

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")
_MAX_INT64 = 0x7FFFFFFFFFFFFFFF


def build(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time: int | None = None,
) -> bytearray:
    """One batch. The records get consecutive offsets from base_offset on, whatever their own `offset` says."""
    if not records:
        raise ValueError("a batch has at least one record")
    base_timestamp = records[0].timestamp
    batch = bytearray(HEADER_SIZE)
    if compression is Compression.NONE:
        count, max_timestamp = kernel.encode(records, base_timestamp, batch)
    else:
        content = bytearray()
        count, max_timestamp = kernel.encode(records, base_timestamp, content)
        batch += compress(compression, content, level)
    seal(
        batch,
        count=count,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp if log_append_time is None else log_append_time,
        base_offset=base_offset,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
        is_transactional=is_transactional,
        is_control=is_control,
        has_log_append_time=log_append_time is not None,
    )
    return batch


def seal(
    batch: bytearray | memoryview,
    *,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    has_log_append_time: bool = False,
    records_crc: int | None = None,
) -> None:
    """Write the header in front of a batch's records, which begin at HEADER_SIZE, and the CRC of all of it. A caller
    that passes the CRC of the records saves a second pass over them."""
    attributes = int(compression)
    if has_log_append_time:
        attributes |= LOG_APPEND_TIME_FLAG
    if is_transactional:
        attributes |= TRANSACTIONAL_FLAG
    if is_control:
        attributes |= CONTROL_FLAG
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    if records_crc is None:
        crc = kernel.crc32c_range(batch, CRC_START, len(batch))
    else:
        header_crc = kernel.crc32c_range(batch, CRC_START, HEADER_SIZE)
        crc = kernel.crc32c_joined(header_crc, records_crc, len(batch) - HEADER_SIZE)
    _CRC.pack_into(batch, 17, crc)


def read(batch: Buffer, *, max_decompressed: int = DEFAULT_MAX_SIZE) -> list[Record]:
    """Every record of one whole batch. The CRC is the caller's business (`crc_ok`)."""
    return kernel.read(batch, max_decompressed)


def crc_ok(buffer: Buffer, position: int, size: int) -> bool:
    """Whether the batch of `size` bytes at a position has the CRC of its header."""
    crc: int = _CRC.unpack_from(buffer, position + 17)[0]
    return crc == kernel.crc32c_range(buffer, position + CRC_START, position + size)


def check(
    batch: Buffer,
    *,
    timestamp: int,
    log_append_time: bool,
    before_max_ms: int,
    after_max_ms: int,
    requires_key: bool,
    max_decompressed: int = DEFAULT_MAX_SIZE,
    max_record: int = DEFAULT_MAX_SIZE,
    is_client: bool = True,
) -> Validated:
    """CRC and LogValidator's checks of one produced batch, in one call: what Log.append does before it stamps.

    Never raises for what the bytes hold. `is_client` is False for batches that brokers make (control batches).
    """
    return kernel.check(
        batch,
        True,
        timestamp,
        timestamp - before_max_ms,
        min(timestamp + after_max_ms, _MAX_INT64),
        log_append_time,
        requires_key,
        is_client,
        max_decompressed,
        max_record,
    )


def validate(
    batch: Buffer,
    header: BatchHeader,
    *,
    timestamp: int,
    log_append_time: bool,
    before_max_ms: int,
    after_max_ms: int,
    requires_key: bool,
    max_decompressed: int = DEFAULT_MAX_SIZE,
    max_record: int = DEFAULT_MAX_SIZE,
    is_client: bool = True,
) -> Validated:
    """`check` without the CRC, for a batch whose CRC was checked before."""
    return kernel.check(
        batch,
        False,
        timestamp,
        timestamp - before_max_ms,
        min(timestamp + after_max_ms, _MAX_INT64),
        log_append_time,
        requires_key,
        is_client,
        max_decompressed,
        max_record,
    )


def set_max_timestamp(batch: bytearray | memoryview, timestamp: int, log_append_time: bool) -> None:
    """Write the largest timestamp and its kind into a batch; its CRC is computed anew only if that changes anything."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, CRC_START)
    (present,) = _MAX_TIMESTAMP.unpack_from(batch, 35)
    wanted = attributes | LOG_APPEND_TIME_FLAG if log_append_time else attributes & ~LOG_APPEND_TIME_FLAG
    if wanted == attributes and present == timestamp:
        return
    _ATTRIBUTES.pack_into(batch, CRC_START, wanted)
    _MAX_TIMESTAMP.pack_into(batch, 35, timestamp)
    _CRC.pack_into(batch, 17, kernel.crc32c_range(batch, CRC_START, len(batch)))


def recompress(
    batch: Buffer, compression: Compression, level: int | None = None, *, max_decompressed: int = DEFAULT_MAX_SIZE
) -> bytearray:
    """The same records under another codec and with offset deltas 0, 1, 2, ...: for a topic whose compression.type is
    not the producer's, and for clients that number records wrongly. Timestamps and the producer's fields stay."""
    header = read_header(batch)
    records = kernel.read(batch, max_decompressed)
    if not records:
        raise ValueError("a batch has at least one record")
    rebuilt = build(
        records,
        base_offset=header.base_offset,
        compression=compression,
        level=level,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.leader_epoch,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        log_append_time=header.max_timestamp if header.has_log_append_time else None,
    )
    return rebuilt


def find_timestamp(
    batch: Buffer, timestamp: int, *, start_offset: int = 0, max_decompressed: int = DEFAULT_MAX_SIZE
) -> tuple[int, int] | None:
    """Offset and timestamp of the first record at or after a timestamp (and an offset), as ListOffsets asks."""
    return kernel.find_timestamp(batch, timestamp, start_offset, max_decompressed)


def find_max_timestamp(batch: Buffer, *, max_decompressed: int = DEFAULT_MAX_SIZE) -> tuple[int, int]:
    """Offset and timestamp of the first record that has the batch's largest timestamp (ListOffsets' -3)."""
    header = read_header(batch)
    found = kernel.find_timestamp(batch, header.max_timestamp, 0, max_decompressed)
    return found if found is not None else (header.last_offset, header.max_timestamp)
