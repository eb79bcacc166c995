"""Prints changes of customers as Debezium's connector for PostgreSQL writes them, one JSON value a line.

    python generate.py --changes 1000 | ottla produce shop.public.customers

Customers are inserted, updated and deleted at random, always the same for one --seed; some changes are late: they are
printed after newer ones.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from typing import Any

NAMES = ("Ann", "Bob", "Chloé", "Dimitris", "Eve", "Franta", "Gül", "Hana")
COUNTRIES = ("CZ", "DE", "FR", "GR", "TR")
FIRST_MS = 1_760_000_000_000


def changes(count: int, customers: int, seed: int) -> Iterator[dict[str, Any]]:
    """Envelopes in the order of the database's log."""
    rng = random.Random(seed)
    known: dict[int, dict[str, Any]] = {}
    for number in range(count):
        at_ms = FIRST_MS + number * 1000
        customer = rng.randrange(1, customers + 1)
        before = known.get(customer)
        if before is not None and rng.random() < 0.1:
            yield envelope("d", before, None, number, at_ms)
            del known[customer]
            continue
        name = rng.choice(NAMES)
        row = {
            "id": customer,
            "name": name,
            "country": rng.choice(COUNTRIES),
            "email": f"{name}.{customer}@example.org",
            "credit": f"{rng.randrange(1_000_000) / 100:.2f}",
            "updated_at": at_ms * 1000,
        }
        yield envelope("c" if before is None else "u", None, row, number, at_ms)
        known[customer] = row


def envelope(
    operation: str, before: dict[str, Any] | None, after: dict[str, Any] | None, number: int, at_ms: int
) -> dict[str, Any]:
    key_only = None if before is None else dict.fromkeys(before, None) | {"id": before["id"]}
    source = {
        "version": "3.0.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": at_ms,
        "snapshot": "false",
        "db": "shop",
        "schema": "public",
        "table": "customers",
        "txId": 700 + number,
        "lsn": 24_000_000 + 64 * number,
    }
    return {"before": key_only, "after": after, "source": source, "op": operation, "ts_ms": at_ms + 40}


def with_late_ones(given: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """The same changes, one in ten up to twenty places later."""
    rng = random.Random(seed)
    places = [index + (rng.randrange(2, 20) if rng.random() < 0.1 else 0) for index in range(len(given))]
    return [change for _, change in sorted(zip(places, given, strict=True), key=lambda pair: pair[0])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--customers", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for change in with_late_ones(list(changes(options.changes, options.customers, options.seed)), options.seed):
        print(json.dumps(change, ensure_ascii=False))


if __name__ == "__main__":
    main()
