"""Alerts of cards: too many payments within a minute, two countries within ten minutes, a small payment that is
followed by a large one (a card that is tried out).

Each card has a state of its own: the payments of the last ten minutes, in the order of their time, whatever order they
come in. A payment is held against those before it. The state is bounded (MAX_PAYMENTS) and is dropped by a timer once
the watermark is an hour past the last payment.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from ottla.spark.pipelines import view

KEPT = timedelta(minutes=10)
FORGOTTEN = timedelta(hours=1)
BURST = timedelta(minutes=1)
BURST_COUNT = 5
SMALL, LARGE = 5.0, 500.0
MAX_PAYMENTS = 500

Payment = tuple[datetime, str, float, str]
"""When, which, how much, where."""
ALERT = "card string, payment_id string, paid_at timestamp, amount double, country string, reason string"
_STATE = "at array<timestamp>, id array<string>, amount array<double>, country array<string>"


def reasons(payment: Payment, before: list[Payment]) -> list[str]:
    """Why a payment is suspicious, held against those of the same card in the ten minutes before it."""
    at, _, amount, country = payment
    found = []
    if sum(at - one[0] <= BURST for one in before) + 1 == BURST_COUNT:
        found.append(f"{BURST_COUNT} payments within a minute")
    others = sorted({one[3] for one in before if one[3] != country})
    if others:
        found.append(f"paid in {', '.join(others)} and {country} within ten minutes")
    if amount >= LARGE and any(one[2] <= SMALL for one in before):
        found.append(f"a payment of at most {SMALL:.2f} and then one of {amount:.2f}")
    return found


def judged(known: list[Payment], new: list[Payment]) -> tuple[list[tuple[Payment, str]], list[Payment]]:
    """The alerts of new payments, and the payments to keep. A payment that is known is none: it came twice."""
    alerts = []
    ids = {one[1] for one in known}
    every = list(known)
    for payment in sorted(new):
        if payment[1] in ids:
            continue
        ids.add(payment[1])
        before = [one for one in every if timedelta(0) <= payment[0] - one[0] <= KEPT]
        alerts += [(payment, reason) for reason in reasons(payment, before)]
        every.append(payment)
    every.sort()
    newest = every[-1][0] if every else None
    kept = [one for one in every if newest is not None and newest - one[0] <= 2 * KEPT]
    return alerts, kept[-MAX_PAYMENTS:]


class Cards(StatefulProcessor):
    """Spark's side of it: the state of a card, and its timer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._payments = handle.getValueState("payments", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        new = [
            (_utc(row.paid_at), str(row.payment_id), float(row.amount), str(row.country))
            for batch in rows
            for row in batch.itertuples()
        ]
        alerts, kept = judged(self._known(), new)
        self._payments.update(tuple(map(list, zip(*kept, strict=True))))
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(int((kept[-1][0] + FORGOTTEN).timestamp() * 1000))
        yield pd.DataFrame(
            [(key[0], one[1], one[0], one[2], one[3], reason) for one, reason in alerts],
            columns=["card", "payment_id", "paid_at", "amount", "country", "reason"],
        )

    def _known(self) -> list[Payment]:
        if not self._payments.exists():
            return []
        found = self._payments.get()
        return [(_utc(at), *rest) for at, *rest in zip(*found, strict=True)]  # type: ignore[misc]

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        self._payments.clear()
        yield from ()

    def close(self) -> None:
        pass


def _utc(moment: Any) -> datetime:
    made = pd.Timestamp(moment).to_pydatetime()
    return made.replace(tzinfo=UTC) if made.tzinfo is None else made.astimezone(UTC)


@view
def alerts(spark: SparkSession) -> DataFrame:
    payments = spark.table("payments").selectExpr(
        "card", "payment_id", "paid_at", "double(amount) as amount", "country"
    )
    return payments.groupBy("card").transformWithStateInPandas(Cards(), ALERT, "Append", "EventTime")
