"""Long work that lets others have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ottla.broker.pieces import PIECE_MS, in_pieces


def test_others_have_their_turn_after_each_piece() -> None:
    seconds = 0.0
    seen: list[str] = []

    def work() -> Iterator[None]:
        nonlocal seconds
        for number in range(4):
            seen.append(f"step {number}")
            seconds += PIECE_MS / 2000
            yield

    async def other() -> None:
        seen.append("other")

    async def scenario() -> None:
        waiting = asyncio.create_task(other())
        await in_pieces(work(), lambda: seconds)
        await waiting

    asyncio.run(scenario())
    assert seen == ["step 0", "step 1", "other", "step 2", "step 3"]
