"""Places in a log, in words."""

from __future__ import annotations

from datetime import datetime

import pytest

from ottla.cli.positions import BEGINNING, END, Anchor, Position, parse_position, placed

NOW = 1_794_800_000_000
LOCAL = round(datetime(2026, 11, 16, 9, 30).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", BEGINNING),
        ("Earliest", BEGINNING),
        ("end", END),
        ("now", END),
        ("120", Position(Anchor.OFFSET, 120)),
        ("-10", Position(Anchor.END, -10)),
        ("+10", Position(Anchor.BEGINNING, 10)),
        ("@1700000000000", Position(Anchor.TIME, 1_700_000_000_000)),
        ("2026-11-16T09:30", Position(Anchor.TIME, LOCAL)),
        ("2026-11-16 09:30", Position(Anchor.TIME, LOCAL)),
        ("@2026-11-16T09:30", Position(Anchor.TIME, LOCAL)),
        ("1970-01-01T00:00:01Z", Position(Anchor.TIME, 1_000)),
        ("1970-01-01T02:00:01+02:00", Position(Anchor.TIME, 1_000)),
        ("5m ago", Position(Anchor.TIME, NOW - 300_000)),
        ("1h30m ago", Position(Anchor.TIME, NOW - 5_400_000)),
        ("2 days ago", Position(Anchor.TIME, NOW - 172_800_000)),
    ],
)
def test_a_place_is_named_in_many_ways(text: str, position: Position) -> None:
    assert parse_position(text, NOW) == position


def test_days_begin_at_midnight() -> None:
    today, yesterday = (parse_position(text, NOW).value for text in ("today", "yesterday"))
    assert 0 <= NOW - today < 25 * 3_600_000
    assert datetime.fromtimestamp(today / 1000).hour == datetime.fromtimestamp(yesterday / 1000).hour == 0
    assert yesterday < today


@pytest.mark.parametrize("text", ["soon", "", "5x ago", "12.5", "2026-13-01", "ago", "--5", "@"])
def test_what_is_no_place_is_refused_with_what_can_stand_there(text: str) -> None:
    with pytest.raises(ValueError, match="an offset, beginning, end"):
        parse_position(text, NOW)


@pytest.mark.parametrize(
    ("position", "offset"),
    [
        (BEGINNING, 100),
        (END, 200),
        (Position(Anchor.END, -10), 190),
        (Position(Anchor.END, -1000), 100),
        (Position(Anchor.BEGINNING, 5), 105),
        (Position(Anchor.OFFSET, 150), 150),
        (Position(Anchor.OFFSET, 7), 100),
        (Position(Anchor.OFFSET, 900), 200),
    ],
)
def test_a_place_is_never_outside_the_partition(position: Position, offset: int) -> None:
    assert placed(position, 100, 200) == offset
