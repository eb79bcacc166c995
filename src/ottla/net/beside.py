"""Calls that may block for long, on a thread beside the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

Result = TypeVar("Result")


async def beside_loop(work: Callable[[], Result]) -> Result:
    """What `work` returns, or the exception that it raises.

    It runs on a thread outside of the loop's pool: pool threads are joined when the process ends, and a name server
    that does not answer would delay the end for many seconds.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: Exception | None) -> None:
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(cast(Result, result))

    def run() -> None:
        result: Result | None = None
        error: Exception | None = None
        try:
            result = work()
        except Exception as raised:  # any exception: without an outcome the caller would wait for ever
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nothing waits for the outcome any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, daemon=True).start()
    return await outcome
