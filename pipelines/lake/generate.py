"""Prints measurements of sensors over some days, one JSON value a line; a few of them are bad.

python generate.py --rows 10000 --days 3 | ottla produce measurements
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

SITES = ("Athens", "Brno", "Prague")
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def measurements(count: int, days: int, seed: int) -> Iterator[str]:
    """Values in the order of their times, which reach from the first day to the last."""
    rng = random.Random(seed)
    for number in range(count):
        site = rng.choice(SITES)
        at = FIRST + timedelta(days=days) * (number / count)
        row = {"sensor": f"{site[:2]}-{rng.randrange(5)}", "site": site, "at": at.isoformat(timespec="milliseconds")}
        if rng.random() < 0.01:
            del row["sensor"]
        yield json.dumps({**row, "value": round(rng.gauss(20, 5), 3)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for value in measurements(options.rows, options.days, options.seed):
        print(value)


if __name__ == "__main__":
    main()
