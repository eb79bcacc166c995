"""Tables as Kafka's newer tools print them: cells as wide as the widest of their column, each with a tab behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))
