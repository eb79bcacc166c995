"""Other brokers by name: names are resolved beside the loop, and not anew for each look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.broker.peers import peers
from ottla.broker.peers.peers import NAME_S, Peers
from ottla.broker.peers.suspicions import Look
from ottla.net import NoAnswer, Peer, ReceiveBuffers
from ottla.net.peer import PeerSecurity
from ottla.net.sockets import ListenSocket, Socket
from ottla.wire import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.unit.broker.rooms import run_timed

TIMEOUT_MS = 20


class NameServer:
    """Sockets that only look up names."""

    supports_sendfile = False

    def __init__(self) -> None:
        self.lookup_count = 0
        self.answer: asyncio.Future[str] | None = None
        self.error: OSError | None = None

    def is_name(self, host: str) -> bool:
        return not host[0].isdigit()

    async def look_up(self, host: str) -> str:
        self.lookup_count += 1
        if self.error is not None:
            raise self.error
        return "10.0.0.1" if self.answer is None else await self.answer

    async def addresses(self, host: str) -> list[str]:
        raise AssertionError("a node takes one address")

    def listen(self, host: str, port: int, backlog: int) -> ListenSocket:
        raise AssertionError("only names are looked up")

    def connect(self, host: str, port: int) -> Socket:
        raise AssertionError("only names are looked up")


class Names(Peers):
    """Brokers that answer at once; which addresses were asked."""

    def __init__(self) -> None:
        self.server = NameServer()
        super().__init__(asyncio.get_running_loop(), self.server, ReceiveBuffers(), client_id="1")
        self.asked: list[str] = []
        self.unanswered_count = 0
        """So many requests from here on get no answer."""

    def _new_peer(self, host: str, port: int, name: str, security: PeerSecurity | None) -> Peer:
        def look(on_answer: Callable[[Message | NoAnswer], None], *, timeout_ms: int) -> None:
            self.asked.append(host)
            on_answer(ApiVersionsResponse())

        peer = super()._new_peer(host, port, name, security)
        peer.look = look  # type: ignore[method-assign]
        return peer

    def _send(
        self,
        host: str,
        port: int,
        request: Message,
        on_answer: Callable[[Message | NoAnswer], None],
        timeout_ms: int,
        purpose: str,
        role: str,
        name: str,
    ) -> None:
        self.asked.append(host)
        if self.unanswered_count:
            self.unanswered_count -= 1
            on_answer(NoAnswer(is_closed=True))
        else:
            on_answer(ApiVersionsResponse())

    async def look(self, host: str = "broker-1") -> Look:
        return await self.look_at(host, 9092, TIMEOUT_MS)


def test_an_address_is_not_looked_up() -> None:
    async def scenario() -> None:
        names = Names()
        assert await names.look("10.0.0.7") is Look.ANSWERED
        assert (names.asked, names.server.lookup_count) == (["10.0.0.7"], 0)

    run_timed(scenario())


def test_a_name_is_looked_up_again_in_the_background() -> None:
    async def scenario() -> None:
        names = Names()
        for _ in range(3):
            assert await names.look() is Look.ANSWERED
        assert (names.asked, names.server.lookup_count) == (["10.0.0.1"] * 3, 1)
        await asyncio.sleep(NAME_S)
        names.server.answer = asyncio.get_running_loop().create_future()
        for _ in range(3):
            assert await names.look() is Look.ANSWERED
            await asyncio.sleep(0)
        assert names.server.lookup_count == 2, "one at a time"
        names.server.answer.set_result("10.0.0.2")
        await asyncio.wait(names._looking_up.values())
        assert await names.look() is Look.ANSWERED
        assert names.asked[-1] == "10.0.0.2"

    run_timed(scenario())


def test_a_broker_without_an_address_is_not_gone(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        names = Names()
        names.server.error = OSError("no name server answers")
        assert await names.look() is Look.SILENT
        names.server.error = None
        names.server.answer = asyncio.get_running_loop().create_future()
        assert await names.look() is Look.SILENT
        assert names.asked == []
        names.close()
        await asyncio.sleep(0)
        assert names.server.answer.cancelled()

    run_timed(scenario())
    assert caplog.messages == ["the name broker-1 cannot be looked up: no name server answers"]


def test_a_request_to_a_name_waits_for_the_name_server_and_not_the_loop() -> None:
    async def scenario() -> None:
        names = Names()
        names.server.answer = asyncio.get_running_loop().create_future()
        answers: list[object] = []
        names.send("controller-2", 9093, ApiVersionsRequest(), answers.append, 60_000)
        await asyncio.sleep(0)
        assert (names.asked, answers) == ([], [])
        names.server.answer.set_result("10.0.0.2")
        await asyncio.wait(list(names._sending))
        assert (names.asked, answers) == (["10.0.0.2"], [ApiVersionsResponse()])

    run_timed(scenario())


def test_a_request_to_a_name_that_is_not_found_is_not_answered() -> None:
    async def scenario() -> None:
        names = Names()
        names.server.error = OSError("Name or service not known")
        answers: list[object] = []
        names.send("controller-2", 9093, ApiVersionsRequest(), answers.append, 60_000)
        await asyncio.wait(list(names._sending))
        assert answers == [NoAnswer(is_closed=False)]

    run_timed(scenario())


def test_the_address_of_a_node_that_does_not_answer_is_looked_up_again() -> None:
    async def scenario() -> None:
        names = Names()
        names.unanswered_count = 2
        answers: list[object] = []
        for _ in range(4):
            names.send("controller-2", 9093, ApiVersionsRequest(), answers.append, 60_000)
            await asyncio.wait(list(names._sending))
        assert names.server.lookup_count == 3, "after each of the two requests without an answer"

    run_timed(scenario())


def test_the_metadata_log_has_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers come in order: one that waits for a commit must not hold back what the commit waits for."""
    made: list[Recorder] = []
    sent: list[int] = []

    class Recorder:
        """A connection, which has a number."""

        def __init__(self, *_: object, client_id: str, **__: object) -> None:
            made.append(self)
            self.number = len(made)

        def send(self, request: Message, on_answer: object, *, timeout_ms: int) -> None:
            sent.append(self.number)

    async def scenario() -> None:
        others = Peers(asyncio.get_running_loop(), NameServer(), ReceiveBuffers(), client_id="1")
        answers: list[object] = []
        for _ in range(2):
            others.send("127.0.0.1", 9093, ApiVersionsRequest(), answers.append, 1)
            others.send_in_quorum("127.0.0.1", 9093, ApiVersionsRequest(), answers.append, 1)

    monkeypatch.setattr(peers, "Peer", Recorder)
    run_timed(scenario())
    assert sent == [1, 2, 1, 2]


def test_connections_to_one_listener_end_when_the_node_hangs_up() -> None:
    made: list[Recorder] = []

    class Recorder(Peer):
        """A connection that is only told what to do."""

        def __init__(self, host: str, port: int) -> None:
            made.append(self)
            self.at = host, port
            self.is_closed = False

        def send(self, request: object, on_answer: object, *, timeout_ms: int) -> None:
            pass

        def close(self) -> None:
            self.is_closed = True

    class Recorded(Peers):
        def _new_peer(self, host: str, port: int, name: str, security: PeerSecurity | None) -> Peer:
            return Recorder(host, port)

    async def scenario() -> None:
        others = Recorded(asyncio.get_running_loop(), NameServer(), ReceiveBuffers(), client_id="1")

        def ask() -> None:
            others.send("10.0.0.2", 9092, ApiVersionsRequest(), lambda _: None, 1)
            others.send("10.0.0.2", 9092, ApiVersionsRequest(), lambda _: None, 1, purpose="another")
            others.send("10.0.0.3", 9092, ApiVersionsRequest(), lambda _: None, 1)
            others.send("10.0.0.2", 9093, ApiVersionsRequest(), lambda _: None, 1)
            others.send_in_quorum("10.0.0.2", 9092, ApiVersionsRequest(), lambda _: None, 1)

        ask()
        others.hang_up("10.0.0.2", 9092)
        assert [one.is_closed for one in made] == [True, True, False, False, False]
        ask()
        assert [one.at for one in made[5:]] == [("10.0.0.2", 9092)] * 2, "the next request makes a new connection"
        assert not any(one.is_closed for one in made[5:])

    run_timed(scenario())


def test_a_connection_of_the_callers_own_is_opened_at_an_address_at_once() -> None:
    async def scenario() -> None:
        names = Names()
        opened: list[Peer | None] = []
        names.open("10.0.0.7", 9092, opened.append, TIMEOUT_MS)
        assert [peer is not None and peer._host for peer in opened] == ["10.0.0.7"]
        assert names.server.lookup_count == 0

    asyncio.run(scenario())


def test_a_connection_of_the_callers_own_waits_for_the_name_server_and_not_the_loop() -> None:
    async def scenario() -> None:
        names = Names()
        names.server.answer = asyncio.get_running_loop().create_future()
        opened: list[Peer | None] = []
        names.open("broker-1", 9092, opened.append, 60_000)
        await asyncio.sleep(0)
        assert opened == []
        names.server.answer.set_result("10.0.0.2")
        await asyncio.wait(list(names._sending))
        names.forget_address("broker-1")
        names.server.answer = None
        names.open("broker-1", 9092, opened.append, 60_000)
        await asyncio.wait(list(names._sending))
        assert [peer is not None and peer._host for peer in opened] == ["10.0.0.2", "10.0.0.1"]

    asyncio.run(scenario())


def test_a_connection_to_a_name_that_is_not_found_is_not_opened() -> None:
    async def scenario() -> None:
        names = Names()
        names.server.error = OSError("Name or service not known")
        opened: list[Peer | None] = []
        names.open("broker-1", 9092, opened.append, 60_000)
        await asyncio.wait(list(names._sending))
        assert opened == [None]

    asyncio.run(scenario())
