"""Payments to try the pipeline with: one JSON object a line, some of them suspicious, late, repeated or wrong.

python pipelines/fraud/generate.py --count 1000 | ottla produce payments
"""

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

COUNTRIES = ("GR", "DE", "FR", "IT")
STEP = timedelta(milliseconds=700)


def payments(count: int, seed: int, start: datetime) -> Iterator[dict[str, Any]]:
    """So many payments of cards that stay in one country, with a suspicious one every 50."""
    rng, made = Random(seed), 0
    for number in range(count):
        card = f"****{rng.randrange(1000):04d}"
        home = COUNTRIES[int(card[-2:]) % len(COUNTRIES)]
        late = timedelta(minutes=rng.randrange(9)) if rng.random() < 0.05 else timedelta(0)
        payment = {
            "payment_id": f"p{made}",
            "card": card,
            "amount": round(rng.uniform(6, 400), 2),
            "country": home,
            "paid_at": (start + number * STEP - late).isoformat(),
        }
        made += 1
        yield payment
        if number % 50 == 49:
            away = next(one for one in COUNTRIES if one != home)
            yield {**payment, "payment_id": f"p{made}", "country": away}
            made += 1
        if number % 200 == 199:
            yield payment
            yield {**payment, "payment_id": f"bad{number}", "amount": -1}


def main() -> None:
    parser = argparse.ArgumentParser(description="Payments for the pipeline fraud, as lines of JSON.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for payment in payments(options.count, options.seed, datetime.now(UTC)):
        sys.stdout.write(json.dumps(payment) + "\n")


if __name__ == "__main__":
    main()
