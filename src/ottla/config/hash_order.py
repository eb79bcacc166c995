"""The order in which Kafka lists things that it keeps in a java.util.HashMap, so that clients see the same lists.

A HashMap is a table of 2^n places; a key's place is its hash, folded, modulo the table's size. Keys that share a place
stand in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

K = TypeVar("K")

USUAL_TABLE_SIZE = 16
MASK_32 = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """String.hashCode: over UTF-16 code units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & MASK_32
    return value


def entity_hash(entity: Iterable[tuple[str, str | None]]) -> int:
    """ClientQuotaEntity.hashCode: of its types and names, whatever their order is."""
    return (31 + sum(string_hash(kind) ^ string_hash(name or "") for kind, name in entity)) & MASK_32


def hash_order(keys: Iterable[K], hash_of: Callable[[K], int], *, least_table_size: int = USUAL_TABLE_SIZE) -> list[K]:
    """The keys in the order in which a HashMap lists them after they were put into it one by one."""
    found = list(keys)
    size = least_table_size
    while 4 * len(found) > 3 * size:
        size *= 2

    def place(key: K) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & (size - 1)

    return sorted(found, key=place)
