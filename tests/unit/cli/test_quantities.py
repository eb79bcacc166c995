"""Durations, sizes and settings as people write them."""

from __future__ import annotations

import pytest

from ottla.cli.quantities import parse_bytes, parse_duration_ms, setting_value


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("7d", 604_800_000),
        ("1.5h", 5_400_000),
        ("1h30m", 5_400_000),
        ("2 days", 172_800_000),
        ("90 sec 5ms", 90_005),
        ("0.5s", 500),
        ("1w", 604_800_000),
        ("10 minutes", 600_000),
    ],
)
def test_a_duration_is_exact(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["5", "", "5mo", "5 months", "1y", "d", "5m x", "-5m", "٣d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration_ms(text)


def test_part_of_a_millisecond_is_refused() -> None:
    with pytest.raises(ValueError, match="no whole number of milliseconds"):
        parse_duration_ms("0.0001s")


@pytest.mark.parametrize(
    ("text", "size"), [("10GiB", 10 << 30), ("1.5 MiB", 3 << 19), ("64kib", 65_536), ("512B", 512), ("1TiB", 1 << 40)]
)
def test_a_size_is_exact(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["10GB", "10G", "5k"])
def test_a_unit_with_two_meanings_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="two meanings"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "86400000", "86400000"),
        ("segment.bytes", "10GiB", "10737418240"),
        ("producer_byte_rate", "1MiB", "1048576"),
        ("cleanup.policy", "compact", "compact"),
        ("min.insync.replicas", "2x", "2x"),
    ],
)
def test_a_setting_in_milliseconds_or_bytes_takes_units(name: str, given: str, value: str) -> None:
    assert setting_value(name, given) == value


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("retention.ms", "10GiB", "retention.ms is in milliseconds, and '10GiB' is no duration"),
        ("segment.bytes", "7d", "segment.bytes is in bytes, and '7d' is no size"),
        ("segment.bytes", "10GB", "two meanings: write 10GiB"),
        ("retention.ms", "1.0001s", "no whole number of milliseconds"),
    ],
)
def test_a_unit_that_is_not_the_settings_own_is_refused(name: str, given: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        setting_value(name, given)
