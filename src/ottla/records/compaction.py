"""Log compaction of one batch: notes its keys, and drops the records that are not the latest of their key."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.records import kernel
from ottla.records.compression import DEFAULT_MAX_SIZE
from ottla.records.kernel import OffsetMap

if TYPE_CHECKING:
    from typing_extensions import Buffer

OFFSET_MAP_SLOT_SIZE = 24


class Compacted(NamedTuple):
    """A batch as compaction leaves it: the same buffer when nothing changes, None when nothing is left."""

    batch: Buffer | None
    read_count: int
    kept_count: int


def map_keys(
    offset_map: OffsetMap, batch: Buffer, *, start_offset: int, max_keys: int, max_decompressed: int = DEFAULT_MAX_SIZE
) -> bool:
    """Note the offset of every key from start_offset on; False if the map held max_keys before the batch's end."""
    return kernel.fill(offset_map, batch, start_offset, max_keys, max_decompressed)


def compact(
    batch: Buffer,
    offset_map: OffsetMap,
    *,
    timestamp: int,
    delete_horizon: int,
    is_discarded: bool = False,
    marks_empty_transaction: bool = False,
    keeps_empty: bool = False,
    max_decompressed: int = DEFAULT_MAX_SIZE,
) -> Compacted:
    """The batch without records that have a later one of their key, nor tombstones past their time (KIP-534).

    `timestamp` is the cleaner's wall clock; `delete_horizon` is given to a batch with tombstones that has none yet.
    `is_discarded` drops every record (an aborted transaction's); `keeps_empty` leaves a header when all are gone;
    `marks_empty_transaction` says that a marker's transaction has no records left, so its time runs out as well.
    """
    return Compacted(
        *kernel.retain(
            batch,
            offset_map,
            timestamp,
            delete_horizon,
            is_discarded,
            marks_empty_transaction,
            keeps_empty,
            max_decompressed,
        )
    )
