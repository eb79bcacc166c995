"""Connections to other nodes that log in: what is sent in which order, and what a refused login ends."""

from __future__ import annotations

from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.net import NoAnswer, Peer
from ottla.security.authentication import PLAIN, Authentication, Credentials
from ottla.security.errors import AuthenticationError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.unit.net.test_peer import API_VERSIONS, HEARTBEAT, OtherNode

HANDSHAKE, AUTHENTICATE = 17, 36


class Security:
    def __init__(self) -> None:
        self.failures: list[tuple[str, Exception]] = []
        self.opened_at: list[str] = []
        self.error: KafkaError | None = None

    def context(self) -> None:
        return None

    def authentication(self, host: str) -> Authentication:
        if self.error is not None:
            raise self.error
        return Authentication(Credentials(PLAIN, "node", "secret"), Random(1))

    def failed(self, address: str, error: Exception) -> None:
        self.failures.append((address, error))

    def opened(self, address: str) -> None:
        self.opened_at.append(address)


class Secured(OtherNode):
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.security = Security()
        self.is_slow = False
        self.unfinished: list[Any] = []
        self.retrieved: list[Exception | None] = []
        loop: Any = SimpleNamespace(
            call_soon=lambda act, *given: act(*given),
            call_later=self._call_later,
            time=lambda: self.time,
            run_in_executor=self._run,
        )
        sockets: Any = SimpleNamespace(connect=self._connect, supports_sendfile=False)
        nothing: Any = None
        self.peer = Peer(
            loop, sockets, nothing, "10.0.0.1", 9093, client_id="1", name="broker.test", security=self.security
        )

    def _run(self, pool: object, work: Any, *given: Any) -> Any:
        """A thread whose work is done at once, or when the test calls `finish`."""
        error, result = None, None
        try:
            result = work(*given)
        except Exception as raised:
            error = raised

        def exception() -> Exception | None:
            self.retrieved.append(error)
            return error

        done = SimpleNamespace(cancelled=lambda: False, exception=exception, result=lambda: result)
        return SimpleNamespace(
            add_done_callback=lambda act: self.unfinished.append(partial(act, done)) if self.is_slow else act(done)
        )

    def finish(self) -> None:
        while self.unfinished:
            self.unfinished.pop(0)()

    def greet(self) -> None:
        keys = ((HEARTBEAT, 0, 1), (HANDSHAKE, 0, 1), (AUTHENTICATE, 0, 2))
        self.answer(
            ApiVersionsResponse(api_keys=[ApiVersion(api_key=key, min_version=a, max_version=b) for key, a, b in keys])
        )

    @property
    def asked(self) -> list[tuple[int, int]]:
        return [one[:2] for one in self.received]


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Secured:
    return Secured(monkeypatch)


def test_requests_wait_until_the_login_is_accepted(other: Secured) -> None:
    other.ask(BrokerHeartbeatRequest(broker_id=1))
    other.greet()
    assert other.asked == [(API_VERSIONS, 3), (HANDSHAKE, 1)]
    other.answer(SaslHandshakeResponse(mechanisms=[PLAIN]))
    assert other.asked[2:] == [(AUTHENTICATE, 2)]
    assert other.received[-1][3].auth_bytes == b"\0node\0secret"  # type: ignore[attr-defined]
    other.ask(BrokerHeartbeatRequest(broker_id=2))
    assert len(other.asked) == 3
    other.answer(SaslAuthenticateResponse())
    assert other.asked[3:] == [(HEARTBEAT, 1)] * 2
    assert other.security.opened_at == ["broker.test:9093"]
    other.answer(BrokerHeartbeatResponse(is_fenced=False), 3)
    assert len(other.answers) == 1


def test_a_look_is_answered_by_the_first_answer_and_does_not_log_in(other: Secured) -> None:
    """A second ApiVersions before the login counted as a failed login, and the node closed the connection."""
    other.peer.look(other.answers.append, timeout_ms=1000)
    other.greet()
    (answer,) = other.answers
    assert isinstance(answer, ApiVersionsResponse) and other.asked == [(API_VERSIONS, 3)]
    assert not other.security.opened_at, "whether this node may log in was not tried"
    other.let_time_pass()
    other.close()
    assert len(other.answers) == 1


def test_a_refused_login_ends_the_connection_and_does_not_look_like_a_node_that_is_gone(other: Secured) -> None:
    other.ask(BrokerHeartbeatRequest())
    other.greet()
    other.answer(SaslHandshakeResponse(mechanisms=[PLAIN]))
    other.answer(SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED))
    assert other.answers == [NoAnswer(is_closed=False, is_there=True)]
    ((address, error),) = other.security.failures
    assert address == "broker.test:9093" and isinstance(error, AuthenticationError)
    assert "secret" not in str(error)


def test_a_refusal_counts_although_the_other_side_closes_the_connection_behind_it(other: Secured) -> None:
    """The answer was handled in a thread; under load the end of the connection came first, and the node looked gone."""
    other.ask(BrokerHeartbeatRequest())
    other.greet()
    other.answer(SaslHandshakeResponse(mechanisms=[PLAIN]))
    other.is_slow = True
    other.answer(SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED))
    other.close()
    other.finish()
    assert other.answers == [NoAnswer(is_closed=False, is_there=True)]
    assert len(other.security.failures) == 1


def test_an_error_of_a_step_whose_connection_was_closed_is_retrieved(other: Secured) -> None:
    """asyncio logs an exception that nothing has asked for."""
    other.ask(BrokerHeartbeatRequest())
    other.greet()
    other.answer(SaslHandshakeResponse(mechanisms=[PLAIN]))
    other.is_slow = True
    other.answer(SaslAuthenticateResponse(auth_bytes=b"PLAIN has no second step"))
    other.close()
    other.finish()
    assert len(other.retrieved) == 2 and other.retrieved[-1] is not None
    assert not other.security.failures


def test_a_mechanism_that_is_not_enabled_is_a_refused_login(other: Secured) -> None:
    other.ask(BrokerHeartbeatRequest())
    other.greet()
    other.answer(SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["SCRAM-SHA-256"]))
    assert other.answers == [NoAnswer(is_closed=False, is_there=True)]
    assert "SCRAM-SHA-256" in str(other.security.failures[0][1])


def test_settings_without_credentials_fail_the_request(other: Secured) -> None:
    other.security.error = AuthenticationError("no credentials")
    other.ask(BrokerHeartbeatRequest())
    other.greet()
    assert other.answers == [NoAnswer(is_closed=False, is_there=True)]


def test_a_session_with_an_end_is_renewed_and_requests_wait_meanwhile(other: Secured) -> None:
    other.ask(BrokerHeartbeatRequest())
    other.greet()
    other.answer(SaslHandshakeResponse(mechanisms=[PLAIN]))
    other.answer(SaslAuthenticateResponse(session_lifetime_ms=2_000))
    other.answer(BrokerHeartbeatResponse())
    (renew,) = other.timers[-1:]
    renew()
    assert other.asked[4:] == [(HANDSHAKE, 1)]
    other.ask(BrokerHeartbeatRequest(broker_id=7))
    other.answer(SaslHandshakeResponse(mechanisms=[PLAIN]), 4)
    assert other.asked[5:] == [(AUTHENTICATE, 2)]
    other.answer(SaslAuthenticateResponse(session_lifetime_ms=2_000))
    assert other.asked[6:] == [(HEARTBEAT, 1)]
    other.answer(BrokerHeartbeatResponse())
    assert [type(one) for one in other.answers] == [BrokerHeartbeatResponse] * 2
    assert not other.is_closed


def test_a_renewal_that_is_not_answered_closes_the_connection(other: Secured) -> None:
    other.ask(BrokerHeartbeatRequest())
    other.greet()
    other.answer(SaslHandshakeResponse(mechanisms=[PLAIN]))
    other.answer(SaslAuthenticateResponse(session_lifetime_ms=2_000))
    other.answer(BrokerHeartbeatResponse())
    other.timers[-1]()
    other.let_time_pass()
    assert other.is_closed
