"""Places in a log as people name them: an offset, the beginning or the end, a moment in time.

beginning  end  now           the first record, after the last one
120   -10   +10               an offset; 10 before the end; 10 after the beginning
@1700000000000                a time in milliseconds since 1970
2026-11-16  2026-11-16T09:30  a time (local, unless it has a zone: ...T09:30Z, ...+02:00)
'5m ago'  '1h30m ago'         ms, s, m, h, d, w
today  yesterday              midnight
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.quantities import parse_duration_ms
from ottla.cli.session import CommandError
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.core.isolation import IsolationLevel
    from ottla.client.core.partitions import TopicPartition

HELP = "an offset, beginning, end, -10 (before the end), +10, @MILLISECONDS, an ISO time, '5m ago', today"


class Anchor(Enum):
    OFFSET = "offset"
    BEGINNING = "beginning"
    END = "end"
    TIME = "time"


class Position(NamedTuple):
    """A place in every partition: an anchor, and how many records after it (before it, if negative)."""

    anchor: Anchor
    value: int = 0
    """The offset itself, the distance from the beginning or the end, or milliseconds since 1970."""


BEGINNING = Position(Anchor.BEGINNING)
END = Position(Anchor.END)


def parse_time_ms(text: str, now_ms: int | None = None) -> int:
    """A moment in milliseconds since 1970: @ms, an ISO date or time, `5m ago`, now, today, yesterday."""
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    given = text.strip()
    lower = given.lower()
    if lower == "now":
        return now_ms
    if lower in ("today", "yesterday"):
        midnight = datetime.fromtimestamp(now_ms / 1000).replace(hour=0, minute=0, second=0, microsecond=0)
        return round((midnight - timedelta(days=lower == "yesterday")).timestamp() * 1000)
    if lower.endswith("ago"):
        return now_ms - parse_duration_ms(lower[:-3])
    if given.startswith("@"):
        given = given[1:].strip()
        if given.lstrip("-").isdigit():
            return int(given)
    try:
        return round(datetime.fromisoformat(given).timestamp() * 1000)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: an ISO date or time (2026-11-16T09:30), @MILLISECONDS, '5m ago', today"
        ) from None


def parse_position(text: str, now_ms: int | None = None) -> Position:
    """A place in the form of --from and --to; ValueError lists the possible forms."""
    given = text.strip()
    lower = given.lower()
    if lower in ("beginning", "earliest", "start"):
        return BEGINNING
    if lower in ("end", "latest", "now"):
        return END
    if lower.isdigit():
        return Position(Anchor.OFFSET, int(lower))
    if lower[:1] in "+-" and lower[1:].isdigit():
        distance = int(lower)
        return Position(Anchor.BEGINNING if distance >= 0 and lower[0] == "+" else Anchor.END, distance)
    try:
        return Position(Anchor.TIME, parse_time_ms(given, now_ms))
    except ValueError:
        raise ValueError(f"{text!r} is no place in a log: {HELP}") from None


def position_option(text: str) -> Position:
    """`parse_position` for argparse, which only shows the text of its own error class."""
    import argparse

    try:
        return parse_position(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


async def bounds(
    admin: Admin, partitions: Iterable[TopicPartition], isolation_level: IsolationLevel
) -> dict[TopicPartition, tuple[int, int]]:
    """The first offset of each partition and the one after its last that can be read."""
    wanted = list(partitions)
    first = await admin.list_offsets(dict.fromkeys(wanted, EARLIEST_TIMESTAMP))
    last = await admin.list_offsets(dict.fromkeys(wanted, LATEST_TIMESTAMP), isolation_level=isolation_level)
    return {partition: (first[partition].offset, last[partition].offset) for partition in wanted}


async def resolve(
    admin: Admin, position: Position, within: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """The offset that `position` (a time, an offset, the beginning or the end) means in each partition."""
    if position.anchor is Anchor.TIME:
        if position.value < 0:
            raise CommandError(f"a time before 1970: {position.value}")
        found = await admin.list_offsets(dict.fromkeys(within, position.value))
        return {
            partition: min(found[partition].offset, end) if found[partition].offset >= 0 else end
            for partition, (_, end) in within.items()
        }
    return {partition: placed(position, first, end) for partition, (first, end) in within.items()}


def placed(position: Position, first: int, end: int) -> int:
    """The offset of a place that needs no look-up, kept within a partition's bounds."""
    base = {Anchor.BEGINNING: first, Anchor.END: end}.get(position.anchor, 0)
    return min(max(base + position.value, first), end)
