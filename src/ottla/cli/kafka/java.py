"""Java where it shows in what Kafka's tools print: the order of its hash maps, and how it writes numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from decimal import Decimal
from math import isfinite
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

DEFAULT_CAPACITY = 16
LOAD_FACTOR = 0.75


def string_hash(text: str) -> int:
    """Java's String.hashCode: of the UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for index in range(0, len(units), 2):
        code = (code * 31 + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return code


def partition_hash(partition: tuple[str, int]) -> int:
    """The hash of Java's TopicPartition."""
    topic, number = partition
    return 31 * (31 + number) + string_hash(topic)


def hash_order(names: Iterable[T], capacity: int = DEFAULT_CAPACITY, code: Callable[[T], int] | None = None) -> list[T]:
    """Keys in the order of a HashMap they were put into one after the other; texts, unless `code` is their hash."""
    distinct = list(dict.fromkeys(names))
    size = 1
    while size < capacity:
        size *= 2
    while len(distinct) > size * LOAD_FACTOR:
        size *= 2

    def bucket(name: T) -> int:
        hashed = string_hash(str(name)) if code is None else code(name) & 0xFFFFFFFF
        return (hashed ^ hashed >> 16) & size - 1

    return sorted(distinct, key=bucket)


def java_double(value: float) -> str:
    """A number as Java's Double.toString writes it: 2048.0, 1.0E7, 1.0E-4, NaN, -Infinity."""
    if not isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(float(value))).as_tuple()
    assert isinstance(exponent, int)
    texts = "".join(map(str, digits)).rstrip("0") or "0"
    return f"{'-' if sign else ''}{texts[0]}.{texts[1:] or '0'}E{exponent + len(digits) - 1}"
