"""The pipeline `fraud`: its decisions and its generator, without Spark."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FRAUD = Path(__file__).parents[3] / "pipelines" / "fraud"
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def module(path: str) -> ModuleType:
    pytest.importorskip("pyspark")
    pytest.importorskip("pandas")
    found = importlib.util.spec_from_file_location(Path(path).stem, FRAUD / path)
    assert found is not None
    assert found.loader is not None
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made


def paid(number: int, seconds: int, amount: float = 20.0, country: str = "GR") -> tuple[Any, ...]:
    return NOON + timedelta(seconds=seconds), f"p{number}", amount, country


def reasons(known: list[Any], new: list[Any]) -> list[tuple[str, str]]:
    alerts, _ = module("transformations/alerts.py").judged(known, new)
    return [(payment[1], reason) for payment, reason in alerts]


def test_the_fifth_payment_within_a_minute_is_one_alert_in_any_order() -> None:
    payments = [paid(number, number * 10) for number in range(6)]
    expected = [("p4", "5 payments within a minute")]
    assert reasons([], payments) == expected
    assert reasons([], payments[::-1]) == expected
    assert reasons([], [paid(number, number * 20) for number in range(6)]) == []


def test_a_payment_that_comes_twice_counts_once() -> None:
    payments = [paid(number, number) for number in range(4)]
    assert reasons(payments, [payments[0], payments[3], payments[3]]) == []


def test_a_card_that_is_tried_out_is_an_alert() -> None:
    assert reasons([paid(1, 0, 1.0)], [paid(2, 60, 500.0)]) == [
        ("p2", "a payment of at most 5.00 and then one of 500.00")
    ]
    assert reasons([paid(1, 0, 1.0)], [paid(2, 601, 500.0)]) == []


def test_the_state_of_a_card_is_bounded() -> None:
    judge = module("transformations/alerts.py")
    _, kept = judge.judged([], [paid(number, 0) for number in range(2 * judge.MAX_PAYMENTS)])
    assert len(kept) == judge.MAX_PAYMENTS
    _, kept = judge.judged([paid(1, 0)], [paid(2, 3600)])
    assert [payment[1] for payment in kept] == ["p2"]


def test_generated_payments_are_the_same_for_a_seed_and_hold_what_is_looked_for() -> None:
    payments = module("generate.py").payments
    found = list(payments(400, 7, NOON))
    assert found == list(payments(400, 7, NOON))
    assert sum(one["amount"] < 0 for one in found) == 2
    assert len({one["payment_id"] for one in found}) == len(found) - 2
