"""How long closing may take, and how unsent records are counted in words."""

from __future__ import annotations

import asyncio

from ottla.client.lifetimes import FAILED_MS, INTERRUPTED_MS, close_limit_ms, in_words, unwinding_error


async def limit_in_a_cancelled_task() -> int | None:
    try:
        await asyncio.sleep(60)
    finally:
        return close_limit_ms(None, is_out=False)  # noqa: B012


async def cancelled() -> int | None:
    task = asyncio.create_task(limit_in_a_cancelled_task())
    await asyncio.sleep(0)
    task.cancel()
    return await task


def test_closing_takes_no_longer_than_the_way_out_allows() -> None:
    assert close_limit_ms(None, is_out=True) is None
    assert close_limit_ms(ValueError(), is_out=True) == FAILED_MS
    assert close_limit_ms(SystemExit(), is_out=False) == FAILED_MS
    assert close_limit_ms(KeyboardInterrupt(), is_out=False) == INTERRUPTED_MS
    assert close_limit_ms(asyncio.CancelledError(), is_out=False) == INTERRUPTED_MS
    assert close_limit_ms(asyncio.CancelledError(), is_out=True) == 0


def test_close_in_a_finally_of_a_cancelled_task_is_quick_too() -> None:
    assert asyncio.run(cancelled()) == INTERRUPTED_MS


def test_close_in_a_finally_after_ctrl_c_is_quick_too() -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert isinstance(unwinding_error(), KeyboardInterrupt)
    assert unwinding_error() is None
    try:
        raise ValueError
    except ValueError:
        assert unwinding_error() is None  # an ordinary error that is being handled takes nothing from a close()


def test_unsent_records_in_words() -> None:
    assert in_words({"orders": 1}) == "1 record was not sent (orders: 1)"
    assert in_words({"b": 2, "a": 1}) == "3 records were not sent (a: 1, b: 2)"
    assert in_words(dict.fromkeys("abcdefg", 1)) == "7 records were not sent (a: 1, b: 1, c: 1, d: 1, e: 1, ...)"
