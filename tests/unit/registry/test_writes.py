"""Writes of the leader: what shares a transaction, and what becomes of it."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

import pytest

from ottla.registry.election import Election
from ottla.registry.faults import Fault
from ottla.registry.records import Record
from ottla.registry.rest import Request, Rest
from ottla.registry.state import State
from ottla.registry.topic import SchemaTopic
from ottla.registry.writes import Writes
from tests.unit.registry.requests import Registry


class Topic(SchemaTopic):
    """Keeps transactions, and reads them back after `go_on`."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.transactions: list[list[Record]] = []
        self.trouble: Exception | None = None
        self.go_on = asyncio.Event()

    async def write(self, written: Sequence[Record]) -> None:
        self.transactions.append(list(written))
        await self.go_on.wait()
        if self.trouble is not None:
            raise self.trouble
        for one in written:
            assert self.state.replay(one.key, one.value)


class Leader(Election):
    def __init__(self) -> None:
        self.is_leader = True


class World:
    def __init__(self) -> None:
        self.state = State()
        self.topic = Topic(self.state)
        self.writes = Writes(self.state, Rest(self.state), self.topic)
        self.election = Leader()

    def ask(self, method: str, path: str, body: Any) -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.writes.answer(Request(method, path, {}, body), self.election))

    def register(self, subject: str, text: str) -> asyncio.Task[Any]:
        return self.ask("POST", f"/subjects/{subject}/versions", {"schema": text})


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def fixed(index: int) -> str:
    return json.dumps({"type": "fixed", "name": f"F{index}", "size": 1})


def test_registrations_that_wait_share_the_next_transaction() -> None:
    async def scenario() -> None:
        world = World()
        first = world.register("s0", fixed(0))
        await asyncio.sleep(0)
        others = [world.register(f"s{index}", fixed(index)) for index in range(1, 20)]
        same = world.register("again", fixed(5))
        wrong = world.register("s3", '"int"')
        await asyncio.sleep(0)
        assert not list(world.state.subjects()), "nothing is seen before it is read back"
        world.topic.go_on.set()
        assert [(await one)["id"] for one in (first, *others)] == list(range(1, 21))
        assert (await same)["id"] == 6
        with pytest.raises(Fault, match="incompatible"):
            await wrong
        assert [len(one) for one in world.topic.transactions] == [1, 20]
        assert len(list(world.state.subjects())) == 21

    run(scenario)


def test_other_writes_stand_alone_and_in_order() -> None:
    async def scenario() -> None:
        world = World()
        asked = [world.register("s", '"int"'), world.ask("PUT", "/config", {"compatibility": "NONE"})]
        asked += [world.register("s", '"string"'), world.ask("DELETE", "/subjects/s", None)]
        world.topic.go_on.set()
        assert [await one for one in asked][3] == [1, 2]
        assert len(world.topic.transactions) == 4

    run(scenario)


def test_a_transaction_that_fails_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        world = World()
        world.topic.trouble = TimeoutError("no answer")
        asked = [world.register(f"s{index}", fixed(index)) for index in range(3)]
        await asyncio.sleep(0)
        world.topic.go_on.set()
        for one in asked:
            with pytest.raises(TimeoutError):
                await one
        assert not world.election.is_leader
        assert not list(world.state.subjects()) and world.state.next_id(".") == 1
        with pytest.raises(Fault, match="does not lead"):
            await world.register("s", '"int"')

    run(scenario)


def test_a_client_that_leaves_takes_nothing_along() -> None:
    async def scenario() -> None:
        world = World()
        first, left, other = (world.register(f"s{index}", fixed(index)) for index in range(3))
        await asyncio.sleep(0)
        left.cancel()
        world.topic.go_on.set()
        assert (await first)["id"] == 1 and (await other)["id"] in (2, 3)

    run(scenario)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_tried_out_is_taken_back_as_a_whole(seed: int) -> None:
    rng = Random(seed)
    registry = Registry()
    registry.ask("PUT", "/config", {"compatibility": "NONE"})
    for _ in range(40):
        subject = rng.choice(["a", "b", ":.eu:a"])
        before = tables(registry.state)
        decision = registry.rest.answer(
            Request("POST", f"/subjects/{subject}/versions", {}, {"schema": fixed(rng.randrange(30))})
        )
        change_count = registry.state.change_count
        undo = registry.state.try_out(decision.records)
        tried_count = registry.state.change_count
        undo()
        assert tables(registry.state) == before
        assert registry.state.change_count > tried_count >= change_count, "no answer of the meantime is kept"
        assert tried_count > change_count or not decision.records
        registry.register(subject, fixed(rng.randrange(30)))
        if rng.random() < 0.2:
            registry.ask("DELETE", f"/subjects/{subject}")


def tables(state: State) -> dict[str, Any]:
    return {name: copy.deepcopy(value) for name, value in vars(state).items() if name != "change_count"}
