"""Other brokers by name: looked up beside the loop, and not each time somebody looks at them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker import peers
from ottla.broker.peers.peers import Peers
from ottla.broker.peers.suspicions import Look
from ottla.net import NoAnswer
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

TIMEOUT_MS = 20


class Names:
    """A name server, and brokers that answer at once; which addresses were asked."""

    def __init__(self) -> None:
        self.lookup_count = 0
        self.asked: list[str] = []
        self.answer: asyncio.Future[str] | None = None
        self.error: OSError | None = None
        self.time = 1_000.0
        running = asyncio.get_running_loop()
        loop: Any = SimpleNamespace(
            create_task=running.create_task, create_future=running.create_future, time=lambda: self.time
        )
        nothing: Any = None
        sockets: Any = self
        self.peers = Peers(loop, sockets, nothing, client_id="1")
        self.peers.ask_once = self._ask_once  # type: ignore[method-assign]

    def is_name(self, host: str) -> bool:
        return not host[0].isdigit()

    async def look_up(self, host: str) -> str:
        self.lookup_count += 1
        if self.error is not None:
            raise self.error
        return "10.0.0.1" if self.answer is None else await self.answer

    def _ask_once(self, host: str, port: int, request: Any, on_answer: Any, timeout_ms: int) -> None:
        self.asked.append(host)
        on_answer(ApiVersionsResponse())

    async def look(self, host: str = "broker-1") -> Look:
        return await self.peers.look_at(host, 9092, TIMEOUT_MS)


def test_an_address_is_not_looked_up() -> None:
    async def scenario() -> None:
        names = Names()
        assert await names.look("10.0.0.7") is Look.ANSWERED
        assert (names.asked, names.lookup_count) == (["10.0.0.7"], 0)

    asyncio.run(scenario())


def test_a_name_is_looked_up_once_in_a_while_and_nobody_waits_for_it_again() -> None:
    async def scenario() -> None:
        names = Names()
        for _ in range(3):
            assert await names.look() is Look.ANSWERED
        assert (names.asked, names.lookup_count) == (["10.0.0.1"] * 3, 1)
        names.time += peers.NAME_S
        names.answer = asyncio.get_running_loop().create_future()
        for _ in range(3):
            assert await names.look() is Look.ANSWERED
            await asyncio.sleep(0)
        assert names.lookup_count == 2, "one at a time"
        names.answer.set_result("10.0.0.2")
        await asyncio.wait(names.peers._looking_up.values())
        assert await names.look() is Look.ANSWERED
        assert names.asked[-1] == "10.0.0.2"

    asyncio.run(scenario())


def test_who_has_no_address_is_not_gone(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        names = Names()
        names.error = OSError("no name server answers")
        assert await names.look() is Look.SILENT
        names.error = None
        names.answer = asyncio.get_running_loop().create_future()
        assert await names.look() is Look.SILENT
        assert names.asked == []
        names.peers.close()
        await asyncio.sleep(0)
        assert names.answer.cancelled()

    asyncio.run(scenario())
    assert caplog.messages == ["the name broker-1 cannot be looked up: no name server answers"]


def test_a_request_to_a_name_waits_for_the_name_server_and_not_the_loop() -> None:
    async def scenario() -> None:
        names = Names()
        names.answer = asyncio.get_running_loop().create_future()
        sent: list[str] = []
        answers: list[object] = []
        names.peers._send = lambda host, *_: sent.append(host)  # type: ignore[method-assign]
        names.peers.send("controller-2", 9093, ApiVersionsRequest(), answers.append, 60_000)
        await asyncio.sleep(0)
        assert (sent, answers) == ([], [])
        names.answer.set_result("10.0.0.2")
        await asyncio.wait(list(names.peers._sending))
        assert sent == ["10.0.0.2"]

    asyncio.run(scenario())


def test_a_request_to_a_name_that_is_not_found_is_not_answered() -> None:
    async def scenario() -> None:
        names = Names()
        names.error = OSError("Name or service not known")
        answers: list[object] = []
        names.peers.send("controller-2", 9093, ApiVersionsRequest(), answers.append, 60_000)
        await asyncio.wait(list(names.peers._sending))
        assert answers == [NoAnswer(is_closed=False)]

    asyncio.run(scenario())


def test_the_address_of_a_node_that_does_not_answer_is_looked_up_again() -> None:
    async def scenario() -> None:
        names = Names()
        answers: list[object] = []

        def answer(host: str, port: int, request: Any, on_answer: Any, timeout_ms: int, purpose: str) -> None:
            on_answer(NoAnswer(is_closed=True) if len(answers) < 2 else ApiVersionsResponse())

        names.peers._send = answer  # type: ignore[method-assign]
        for _ in range(4):
            names.peers.send("controller-2", 9093, ApiVersionsRequest(), answers.append, 60_000)
            await asyncio.wait(list(names.peers._sending))
        assert names.lookup_count == 3, "after each of the two requests without an answer"

    asyncio.run(scenario())
