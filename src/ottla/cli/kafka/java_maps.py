"""In which order Java's HashMap gives its keys back: what Kafka's tools print from one comes in no other order."""

from __future__ import annotations

from collections.abc import Iterable

DEFAULT_CAPACITY = 16
LOAD_FACTOR = 0.75


def string_hash(text: str) -> int:
    """Java's String.hashCode, spread as HashMap does it; of the UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for index in range(0, len(units), 2):
        code = (code * 31 + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return code ^ code >> 16


def hash_order(names: Iterable[str], capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """Names in the order of a HashMap they were put into one after the other."""
    distinct = list(dict.fromkeys(names))
    size = 1
    while size < capacity:
        size *= 2
    while len(distinct) > size * LOAD_FACTOR:
        size *= 2
    return sorted(distinct, key=lambda name: string_hash(name) & size - 1)
