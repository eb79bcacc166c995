"""The positions of the record batches in a piece of a log file, from their headers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.records import HEADER_SIZE, CorruptRecords, read_header
from ottla.records.batch import LOG_OVERHEAD
from ottla.storage.disk import FileSlice
from ottla.storage.index import AbortedTransaction

CHUNK_BYTES = 4096
"""Bytes read at a time: headers of small batches come together, of a large batch only the header is read."""


class BatchPlace(NamedTuple):
    position: int
    """In the file."""
    size: int
    base_offset: int
    last_offset: int
    producer_id: int
    """-1 unless the batch has records of a transaction."""


def batch_places(found: FileSlice, last_offset: int) -> list[BatchPlace]:
    """The whole batches of a slice up to the one that holds `last_offset`. CorruptRecords if one is broken."""
    places: list[BatchPlace] = []
    position, end = found.position, found.position + found.size
    chunk, chunk_position = b"", position
    while end - position >= HEADER_SIZE:
        at = position - chunk_position
        if len(chunk) - at < HEADER_SIZE:
            chunk, chunk_position, at = found.file.read(position, min(CHUNK_BYTES, end - position)), position, 0
            if len(chunk) < HEADER_SIZE:
                raise CorruptRecords(f"the file ends at {position + len(chunk)}, before {end}")
        header = read_header(chunk, at)
        size = LOG_OVERHEAD + header.length
        if size > end - position:
            break
        is_data = header.is_transactional and not header.is_control
        places.append(
            BatchPlace(position, size, header.base_offset, header.last_offset, header.producer_id if is_data else -1)
        )
        if header.last_offset >= last_offset:
            break
        position += size
    return places


def aborted_ranges(places: Sequence[BatchPlace], aborted: Sequence[AbortedTransaction]) -> list[tuple[int, int]]:
    """First and last offsets of the batches that belong to aborted transactions."""
    by_producer: dict[int, list[tuple[int, int]]] = {}
    for one in aborted:
        by_producer.setdefault(one.producer_id, []).append((one.first_offset, one.last_offset))
    return [
        (place.base_offset, place.last_offset)
        for place in places
        if place.producer_id >= 0
        and any(first <= place.base_offset <= last for first, last in by_producer.get(place.producer_id, ()))
    ]


def slice_of(found: FileSlice, places: Sequence[BatchPlace], first_offset: int, last_offset: int) -> FileSlice:
    """The part of a slice with the batches that hold a record of this range."""
    wanted = [place for place in places if place.last_offset >= first_offset and place.base_offset <= last_offset]
    position, last = wanted[0].position, wanted[-1]
    return FileSlice(found.file, position, last.position + last.size - position, found.segment_base_offset)
