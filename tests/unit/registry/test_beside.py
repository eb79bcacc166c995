"""Requests whose schemas take long to parse or to compare: other requests are answered meanwhile."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from typing import Any

import pytest

from ottla.registry.beside import MAX_WAITING, Beside
from ottla.registry.faults import Fault
from ottla.registry.limits import INLINE_CHARS, NeedsTime
from ottla.registry.rest import Request, Rest
from ottla.registry.state import State
from tests.unit.registry.test_writes import World


def choices(count: int, type_: str) -> str:
    """A schema whose comparison with another one takes `count` times `count` steps."""
    return json.dumps({"anyOf": [{"type": type_, "title": str(index)} for index in range(count)]})


def check(rest: Rest, text: str) -> Any:
    body = {"schema": text, "schemaType": "JSON"}
    return rest.answer(Request("POST", "/compatibility/subjects/s/versions/latest", {}, body)).reply


def timed() -> tuple[State, Rest]:
    """A timed interface, and a subject that has a schema."""
    state = State()
    body = {"schema": choices(100, "string"), "schemaType": "JSON"}
    for one in Rest(state).answer(Request("POST", "/subjects/s/versions", {}, body)).records:
        state.replay(one.key, one.value)
    return state, Rest(state, is_timed=True)


def test_a_long_comparison_is_left_for_later_and_then_known() -> None:
    _, rest = timed()
    with pytest.raises(NeedsTime) as caught:
        check(rest, choices(100, "integer"))
    caught.value.work()
    assert check(rest, choices(100, "integer")) == {"is_compatible": False}
    assert check(rest, choices(2, "string")) == {"is_compatible": True}, "a short one is decided at once"


def test_a_long_text_is_parsed_later_and_its_trouble_is_told() -> None:
    _, rest = timed()
    for text, is_good in ((json.dumps({"title": "x" * INLINE_CHARS}), True), ("[" * 2 * INLINE_CHARS, False)):
        with pytest.raises(NeedsTime) as caught:
            check(rest, text)
        caught.value.work()
        if is_good:
            assert check(rest, text) == {"is_compatible": True}
        else:
            with pytest.raises(Fault, match="Invalid schema"):
                check(rest, text)


def test_a_follower_leaves_a_long_registration_to_the_leader() -> None:
    _, rest = timed()
    body = {"schema": choices(100, "integer"), "schemaType": "JSON"}
    assert rest.is_write(Request("POST", "/subjects/s/versions", {}, body))


async def slow(is_done: threading.Event) -> str:
    """A request that needs time until the event is set."""
    if not is_done.is_set():
        raise NeedsTime(lambda: is_done.wait(30))
    return "slow"


def test_the_loop_answers_while_work_is_done_beside_it() -> None:
    async def scenario() -> None:
        beside, is_done = Beside(30), threading.Event()

        async def quick() -> str:
            return "quick"

        waiting = asyncio.create_task(beside.answer(partial(slow, is_done)))
        await asyncio.sleep(0)
        assert await beside.answer(quick) == "quick" and not waiting.done()
        is_done.set()
        assert await waiting == "slow"
        beside.stop()

    asyncio.run(scenario())


def test_only_so_many_requests_wait_for_the_thread() -> None:
    async def scenario() -> None:
        beside, is_done = Beside(30), threading.Event()

        waiting = [asyncio.create_task(beside.answer(partial(slow, is_done))) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(Fault) as caught:
            await beside.answer(partial(slow, is_done))
        assert caught.value.status == 429
        is_done.set()
        assert set(await asyncio.gather(*waiting)) == {"slow"}
        beside.stop()

    asyncio.run(scenario())


def test_a_request_that_needs_time_again_and_again_ends() -> None:
    async def scenario() -> None:
        beside = Beside(0.0)

        async def endless() -> None:
            raise NeedsTime(lambda: None)

        with pytest.raises(Fault) as caught:
            await beside.answer(endless)
        assert caught.value.status == 500
        beside.stop()

    asyncio.run(scenario())


def test_a_registration_that_needs_time_is_decided_after_it() -> None:
    async def scenario() -> None:
        world = World()
        world.topic.go_on.set()
        world.writes = type(world.writes)(world.state, Rest(world.state, is_timed=True), world.topic)
        beside = Beside(30)
        body = {"schema": json.dumps({"title": "x" * INLINE_CHARS}), "schemaType": "JSON"}
        asked = Request("POST", "/subjects/s/versions", {}, body)
        answer = await beside.answer(lambda: world.writes.answer(asked, world.election))
        assert (answer["id"], answer["version"]) == (1, 1)
        beside.stop()

    asyncio.run(scenario())
