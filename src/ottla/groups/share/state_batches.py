"""The batches of a share partition's state, as `__share_group_state` keeps them: which offsets are in which delivery
state, in order and without overlap.

Of two batches that overlap, every offset goes by the greater delivery count, and at equal counts by the greater
delivery state: deliveries only grow, and a record that is done does not become available again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

NO_START_OFFSET = -1


class StoredBatch(NamedTuple):
    """Neighbouring offsets of one delivery state; the number of the state is that of `DeliveryState`."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def combine(stored: list[StoredBatch], written: Iterable[StoredBatch], start_offset: int) -> list[StoredBatch]:
    """The stored batches (in order) overlaid with the written ones, from the start offset on. A start offset of -1
    keeps all.
    """
    new = [batch for batch in written if batch.first_offset <= batch.last_offset]
    if new:
        first = min(batch.first_offset for batch in new)
        last = max(batch.last_offset for batch in new)
        low = bisect_left(stored, first - 1, key=_last_offset)
        high = bisect_right(stored, last + 1, key=_first_offset)
        combined = [*stored[:low], *_swept([*stored[low:high], *new]), *stored[high:]]
    else:
        combined = list(stored)
    return combined if start_offset == NO_START_OFFSET else _from_offset(combined, start_offset)


def _first_offset(batch: StoredBatch) -> int:
    return batch.first_offset


def _last_offset(batch: StoredBatch) -> int:
    return batch.last_offset


def _from_offset(batches: list[StoredBatch], start_offset: int) -> list[StoredBatch]:
    low = bisect_left(batches, start_offset, key=_last_offset)
    kept = batches[low:]
    if kept and kept[0].first_offset < start_offset:
        kept[0] = kept[0]._replace(first_offset=start_offset)
    return kept


def _swept(batches: list[StoredBatch]) -> list[StoredBatch]:
    """Batches in any order, some of them over each other, as batches in order without overlap."""
    batches.sort(key=_first_offset)
    result: list[StoredBatch] = []
    open_batches: list[tuple[int, int, int]] = []
    """The batches that cover `offset`, the one that counts first: (-delivery count, -delivery state, last offset)."""
    position = 0
    offset = batches[0].first_offset
    while open_batches or position < len(batches):
        if not open_batches:
            offset = max(offset, batches[position].first_offset)
        while position < len(batches) and batches[position].first_offset <= offset:
            batch = batches[position]
            heappush(open_batches, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            position += 1
        count, state, last_offset = open_batches[0]
        if last_offset < offset:
            heappop(open_batches)
            continue
        if position < len(batches):
            last_offset = min(last_offset, batches[position].first_offset - 1)
        _append(result, StoredBatch(offset, last_offset, -state, -count))
        offset = last_offset + 1
    return result


def _append(batches: list[StoredBatch], batch: StoredBatch) -> None:
    before = batches[-1] if batches else None
    if before is not None and before.last_offset + 1 == batch.first_offset and before[2:] == batch[2:]:
        batches[-1] = before._replace(last_offset=batch.last_offset)
    else:
        batches.append(batch)
