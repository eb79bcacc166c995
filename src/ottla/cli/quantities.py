"""Durations and sizes as people write them, exact: `7d`, `1h30m`, `10GiB`; and settings whose unit their name says."""

from __future__ import annotations

import re
from fractions import Fraction

_DURATION_UNITS = {
    "ms": 1, "millisecond": 1,
    "s": 1000, "sec": 1000, "second": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000,
    "h": 3_600_000, "hour": 3_600_000,
    "d": 86_400_000, "day": 86_400_000,
    "w": 604_800_000, "week": 604_800_000,
}  # fmt: skip
_SIZE_UNITS = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_AMBIGUOUS_UNITS = ("k", "m", "g", "t", "kb", "mb", "gb", "tb")
_PART = re.compile(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([a-zA-Z]+)\s*", re.ASCII)
MILLISECONDS, BYTES = (".ms", "_ms"), (".bytes", "_byte_rate")
"""How the names of settings and quotas end that are in milliseconds and in bytes."""


def parse_duration_ms(text: str) -> int:
    """`90s`, `1h30m`, `2 days`, `1.5h` in milliseconds."""
    total, at = Fraction(0), 0
    if not text.strip():
        raise ValueError("an empty duration")
    while at < len(text):
        found = _PART.match(text, at)
        unit = None if found is None else _duration_unit(found[2])
        if found is None or unit is None:
            raise ValueError(f"{text!r} is no duration such as 90s, 5m, 1h30m or 7d")
        total += Fraction(found[1]) * unit
        at = found.end()
    return _whole(text, total, "milliseconds")


def _duration_unit(name: str) -> int | None:
    lower = name.lower()
    found = _DURATION_UNITS.get(lower)
    return _DURATION_UNITS.get(lower.removesuffix("s")) if found is None and len(lower) > 3 else found


def parse_bytes(text: str) -> int:
    """`10GiB`, `1.5 MiB`, `512B` in bytes. GB and G are refused: they are 10^9 to some and 2^30 to others."""
    found = _PART.fullmatch(text)
    unit = None if found is None else _SIZE_UNITS.get(found[2].lower())
    if found is not None and found[2].lower() in _AMBIGUOUS_UNITS:
        raise ValueError(f"{text!r} has two meanings: write {found[1]}{found[2][0].upper()}iB for powers of 1024")
    if found is None or unit is None:
        raise ValueError(f"{text!r} is no size such as 512B, 64KiB, 100MiB or 10GiB")
    return _whole(text, Fraction(found[1]) * unit, "bytes")


def _whole(text: str, number: Fraction, unit: str) -> int:
    if number.denominator != 1:
        raise ValueError(f"{text!r} is no whole number of {unit}")
    return int(number)


def setting_value(name: str, value: str) -> str:
    """A setting's value as Kafka takes it: if the setting is in milliseconds or bytes, `7d` and `10GiB` are numbers.
    ValueError says why a value that begins as a number cannot be one of this setting."""
    given = value.strip()
    if not _PART.match(given):
        return value
    parse = parse_duration_ms if name.endswith(MILLISECONDS) else parse_bytes if name.endswith(BYTES) else None
    if parse is None:
        return value
    try:
        return str(parse(given))
    except ValueError as error:
        unit = "milliseconds" if parse is parse_duration_ms else "bytes"
        raise ValueError(f"{name} is in {unit}, and {error}") from None
