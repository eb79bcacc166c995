"""Schemas that take long to parse or to compare, beside the loop: one thread, and a bounded number that waits for it.

The loop answers other requests meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ottla.registry import faults
from ottla.registry.limits import NeedsTime

MAX_WAITING = 32
Answer = TypeVar("Answer")


class Beside:
    """Runs what requests need time for."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._thread = ThreadPoolExecutor(1, "ottla-schemas")
        self._waiting = 0

    async def answer(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Call `ask` until it gives an answer. If it raises NeedsTime, the work is done on a thread and `ask` called
        again. Raises Fault if too many requests wait, or if this one takes longer than the timeout."""
        loop = asyncio.get_running_loop()
        expires_at = loop.time() + self._timeout_s
        while True:
            try:
                return await ask()
            except NeedsTime as needed:
                if loop.time() >= expires_at:
                    raise faults.timed_out("the schemas take too long to compare") from None
                work = needed.work
            await self._run(work)

    async def _run(self, work: Callable[[], object]) -> None:
        if self._waiting >= MAX_WAITING:
            raise faults.too_many(f"{MAX_WAITING} requests wait for schemas that take long to compare")
        self._waiting += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
