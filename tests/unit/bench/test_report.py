from __future__ import annotations

import argparse

import pytest
from bench.__main__ import ALL_ROWS, SUITES, parse_rows
from bench.perf_tools import parse_produced
from bench.report import LINES, Line, table

WHOLE = (
    "20000 records sent, 998.5 records/sec (0.95 MB/sec), 1.25 ms avg latency, 196.00 ms max latency, "
    "1 ms 50th, 2 ms 95th, 31 ms 99th, 63 ms 99.9th.\n"
)
STEADY = (
    "15000 steady state records sent, 1000.1 records/sec (0.95 MB/sec), 0.75 ms avg latency, 96.00 ms max latency, "
    "0 ms 50th, 1 ms 95th, 8 ms 99th, 47 ms 99.9th.\n"
)
PROGRESS = "4995 records sent, 998.6 records/sec (0.95 MB/sec), 2.3 ms avg latency, 196.0 ms max latency.\n"


def test_summaries_are_told_from_progress() -> None:
    whole, steady = parse_produced(f"Warmup first 5000 records.\n{PROGRESS}{PROGRESS}{WHOLE}{STEADY}")
    assert (whole.records, whole.records_per_second, whole.p99_ms) == (20000, 998.5, 31)
    assert (steady.records, steady.average_ms, steady.p99_ms, steady.p999_ms) == (15000, 0.75, 8, 47)


def test_rows_are_numbers_and_ranges() -> None:
    assert parse_rows("1-4,9") == {1, 2, 3, 4, 9}
    for wrong in ("0", str(max(ALL_ROWS) + 1), "a", "3-", "1-99"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse_rows(wrong)


def test_a_bar_is_a_ratio_or_a_limit() -> None:
    faster = Line(1, "", "x", at_least=1.3)
    assert [faster.verdict(ottla, 100) for ottla in (130, 129)] == ["met", "MISSED"]
    cheaper = Line(2, "", "x", at_most=0.45)
    assert [cheaper.verdict(ottla, 100) for ottla in (45, 46)] == ["met", "MISSED"]
    small = Line(6, "", "x", "MB", limit=60)
    assert [small.verdict(ottla, None) for ottla in (60, 61)] == ["met", "MISSED"]
    assert faster.verdict(130, None) == Line(8, "", "x").verdict(1, 2) == ""


def test_the_table_has_medians_of_the_wanted_rows() -> None:
    name = "produce_16k.records_per_s"
    rounds = {"ottla": [{name: 200.0}, {name: 150.0}, {name: 100.0}], "kafka": [{name: 100.0}]}
    head, line = table(rounds, frozenset({1}))
    assert len(head) == len(line)
    assert line[3:] == ["150 (100 to 200)", "100", "1.50x", ">= 1.3x", "met"]
    assert {one.row for one in LINES} == ALL_ROWS - SUITES["client"], "clients have a table of their own"
