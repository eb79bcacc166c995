"""Record batch v2, Kafka's unit of storage and replication: headers, CRC, records, codecs, control batches."""

from ottla.records.batch import (
    HEADER_SIZE,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Compression,
    Record,
    RecordError,
    Validated,
    read_header,
    split,
    stamp,
)
from ottla.records.build import (
    build,
    check,
    crc_ok,
    find_max_timestamp,
    find_timestamp,
    read,
    recompress,
    set_max_timestamp,
    validate,
)
from ottla.records.compaction import OFFSET_MAP_SLOT_SIZE, Compacted, compact, map_keys
from ottla.records.compression import DEFAULT_MAX_SIZE, compress, decompress
from ottla.records.control import (
    ControlType,
    EndTxnMarker,
    control_batch,
    control_key,
    control_type,
    end_txn_marker,
    parse_control_key,
    read_end_txn_marker,
)
from ottla.records.errors import CorruptRecords, UnsupportedMagic
from ottla.records.kernel import WITHOUT_KEY, OffsetMap, crc32c, is_compiled

RECORDS_COMPILED: bool = is_compiled()

__all__ = [
    "DEFAULT_MAX_SIZE",
    "HEADER_SIZE",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "OFFSET_MAP_SLOT_SIZE",
    "RECORDS_COMPILED",
    "WITHOUT_KEY",
    "BatchHeader",
    "Compacted",
    "Compression",
    "ControlType",
    "CorruptRecords",
    "EndTxnMarker",
    "OffsetMap",
    "Record",
    "RecordError",
    "UnsupportedMagic",
    "Validated",
    "build",
    "check",
    "compact",
    "compress",
    "control_batch",
    "control_key",
    "control_type",
    "crc32c",
    "crc_ok",
    "decompress",
    "end_txn_marker",
    "find_max_timestamp",
    "find_timestamp",
    "map_keys",
    "parse_control_key",
    "read",
    "read_end_txn_marker",
    "read_header",
    "recompress",
    "set_max_timestamp",
    "split",
    "stamp",
    "validate",
]
