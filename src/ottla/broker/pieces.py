"""Long work in pieces, so that a node with thousands of partitions keeps answering."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

PIECE_MS = 5
"""How long a piece takes before other work runs."""


async def in_pieces(steps: Iterator[None], timer: Callable[[], float]) -> None:
    """Take all steps of some work. `timer` gives seconds."""
    end = timer() + PIECE_MS / 1000
    for _ in steps:
        if timer() >= end:
            await asyncio.sleep(0)
            end = timer() + PIECE_MS / 1000
