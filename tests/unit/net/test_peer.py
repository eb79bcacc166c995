"""A connection to another node, whose answers a test writes."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.net import EncodedRequest, NoAnswer, Peer, peer
from ottla.wire import Message, decoder, encode_bytes, frames
from ottla.wire.apis import APIS, request_class
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState

HEARTBEAT, FETCH, API_VERSIONS = 63, 1, 18


class OtherNode:
    """The other end of a peer's channels, and the loop that the peer runs on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.received: list[tuple[int, int, int, Message]] = []
        """API, version, correlation id and body of each request."""
        self.answers: list[Any] = []
        self.is_closed = self.is_refusing = False
        self.error: Exception | None = None
        self.receiver: Any = None
        self.time = 0.0
        self.timers: list[Callable[[], None]] = []
        monkeypatch.setattr(peer, "Channel", lambda *_, **__: self)
        self.connect_error: OSError | None = None
        self.peer = self.new_peer()

    def new_peer(self) -> Peer:
        nothing: Any = None
        sockets: Any = SimpleNamespace(connect=self._connect, supports_sendfile=False)
        loop: Any = SimpleNamespace(
            call_soon=lambda act, *given: act(*given), call_later=self._call_later, time=lambda: self.time
        )
        return Peer(loop, sockets, nothing, "127.0.0.1", 9093, client_id="1")

    def _connect(self, host: str, port: int) -> None:
        if self.connect_error is not None:
            raise self.connect_error

    def _call_later(self, delay: float, act: Callable[..., None], *given: Any) -> Any:
        def fire() -> None:
            act(*given)

        self.timers.append(fire)
        return SimpleNamespace(cancel=lambda: self.timers.remove(fire) if fire in self.timers else None)

    def let_time_pass(self) -> None:
        """Longer than any request of these tests may take."""
        self.time += 60.0
        timers, self.timers = self.timers, []
        for fire in timers:
            fire()

    def start(self, receiver: Any) -> None:
        self.receiver = receiver

    def send(self, parts: list[bytes]) -> None:
        if self.is_refusing:
            self.close()
            return
        frame = b"".join(map(bytes, parts))[4:]
        header, position = frames.decode_request_header(frame)
        body = decoder(request_class(header.api_key), header.api_version)(memoryview(frame), position)[0]
        self.received.append((header.api_key, header.api_version, header.correlation_id, body))

    def close(self) -> None:
        self.is_closed = True
        self.receiver.channel_closed()

    def ask(self, request: Message) -> None:
        self.peer.send(request, self.answers.append, timeout_ms=1000)

    def answer(self, response: Message, position: int = -1) -> None:
        """Answer a request, the last one if nothing else is said."""
        api_key, version, correlation_id, _ = self.received[position]
        frame = b"".join(map(bytes, frames.encode_response(api_key, version, correlation_id, response)))[4:]
        self.receiver.frame_received(memoryview(frame))

    def knows(self, **versions: tuple[int, int]) -> None:
        """Answer what a new connection asks first."""
        keys = {"heartbeat": HEARTBEAT, "fetch": FETCH, "unheard_of": 9999}
        self.answer(
            ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=keys[name], min_version=low, max_version=high)
                    for name, (low, high) in versions.items()
                ]
            )
        )


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> OtherNode:
    return OtherNode(monkeypatch)


def test_requests_wait_until_the_other_side_has_said_what_it_knows(other: OtherNode) -> None:
    other.ask(BrokerHeartbeatRequest(broker_id=1))
    other.ask(BrokerHeartbeatRequest(broker_id=2))
    assert [one[0] for one in other.received] == [API_VERSIONS]
    other.knows(heartbeat=(0, 0), unheard_of=(0, 3))
    assert [(one[0], one[1]) for one in other.received[1:]] == [(HEARTBEAT, 0)] * 2
    other.answer(BrokerHeartbeatResponse(is_fenced=False), 1)
    other.ask(BrokerHeartbeatRequest(broker_id=3))
    assert [one[3].broker_id for one in other.received[1:]] == [1, 2, 3]  # type: ignore[attr-defined]
    assert [answer.is_fenced for answer in other.answers] == [False]


@pytest.mark.parametrize(("told", "used"), [((0, 1), 1), ((0, 99), APIS[HEARTBEAT].max_version), ((1, 1), 1)])
def test_the_newest_version_that_both_know_is_used(other: OtherNode, told: tuple[int, int], used: int) -> None:
    other.ask(BrokerHeartbeatRequest())
    other.knows(heartbeat=told)
    assert other.received[-1][:2] == (HEARTBEAT, used)


@pytest.mark.parametrize("versions", [{}, {"heartbeat": (98, 99)}])
def test_what_the_other_side_does_not_know_is_not_sent(
    other: OtherNode, versions: dict[str, tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    other.ask(BrokerHeartbeatRequest())
    other.knows(**versions)
    assert len(other.received) == 1
    assert other.answers == [NoAnswer(is_closed=False)]
    assert "BrokerHeartbeatRequest is not sent to 127.0.0.1:9093" in caplog.text
    other.let_time_pass()
    assert len(other.answers) <= 1, "no deadline is left"


def test_what_an_older_version_cannot_say_is_not_sent(other: OtherNode, caplog: pytest.LogCaptureFixture) -> None:
    other.ask(FetchRequest(replica_state=ReplicaState(replica_id=1)))
    other.knows(fetch=(4, 11))
    assert len(other.received) == 1
    assert other.answers == [NoAnswer(is_closed=False)]
    assert "FetchRequest is not sent" in caplog.text


@pytest.mark.parametrize(("version", "is_taken"), [(18, True), (18, False), (17, True)])
def test_a_request_that_is_encoded_goes_as_it_is_where_its_version_is_known(
    other: OtherNode, version: int, is_taken: bool
) -> None:
    request = FetchRequest(replica_state=ReplicaState(replica_id=1), max_wait_ms=5)
    seen: list[bytes] = []

    def on_frame(frame: memoryview) -> bool:
        seen.append(bytes(frame))
        return is_taken

    encoded = EncodedRequest(FetchRequest, 18, encode_bytes(request, 18), on_frame)
    other.peer.send(encoded, other.answers.append, timeout_ms=1000)
    other.knows(fetch=(4, version))
    assert other.received[-1][:2] == (FETCH, version)
    assert other.received[-1][3] == request
    other.answer(FetchResponse(session_id=7))
    assert len(seen) == (version == 18), "an answer of another version is a message as always"
    is_told = version != 18 or not is_taken
    assert [answer.session_id for answer in other.answers] == ([7] if is_told else [])
    other.let_time_pass()
    assert len(other.answers) <= 1, "no deadline is left"


def test_a_connection_that_is_refused_is_told_at_once(other: OtherNode) -> None:
    other.is_refusing = True
    other.ask(BrokerHeartbeatRequest())
    assert other.answers == [NoAnswer(is_closed=True)]
    other.let_time_pass()
    assert len(other.answers) <= 1, "no deadline is left"


@pytest.mark.parametrize(
    ("error", "is_closed"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), True),
        (socket.gaierror(socket.EAI_AGAIN, "no name server"), False),
        (OSError(errno.EMFILE, "too many open files"), False),
        (OSError(errno.ENETUNREACH, "no route"), False),
    ],
)
def test_a_peer_that_cannot_be_connected_need_not_be_gone(other: OtherNode, error: OSError, is_closed: bool) -> None:
    other.connect_error = error
    other.ask(BrokerHeartbeatRequest())
    assert other.answers == [NoAnswer(is_closed=is_closed)]


def test_a_connection_that_refuses_to_say_its_versions_is_given_up(other: OtherNode) -> None:
    other.ask(BrokerHeartbeatRequest())
    other.answer(ApiVersionsResponse(error_code=42))
    assert other.is_closed
    assert other.answers == [NoAnswer(is_closed=True)]


def test_a_peer_that_never_sends_its_versions_has_not_answered(other: OtherNode) -> None:
    other.ask(BrokerHeartbeatRequest())
    other.let_time_pass()
    assert other.is_closed
    assert other.answers == [NoAnswer(is_closed=False)]


def test_a_look_reports_a_peer_that_refuses_or_is_silent(other: OtherNode) -> None:
    other.is_refusing = True
    other.peer.look(other.answers.append, timeout_ms=1000)
    other.peer.close()
    other.peer = other.new_peer()
    other.is_refusing = False
    other.peer.look(other.answers.append, timeout_ms=1000)
    other.let_time_pass()
    assert other.answers == [NoAnswer(is_closed=True), NoAnswer(is_closed=False)]
    assert other.is_closed
