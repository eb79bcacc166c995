"""The order of SASL's requests, stepped without a connection."""

from __future__ import annotations

from random import Random

import pytest

from ottla.client.errors import AuthenticationError, is_retriable
from ottla.security.authentication import MAX_ROUND_COUNT, Authentication, Credentials
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

ALICE = Credentials("PLAIN", "alice", "hush")


def begun(credentials: Credentials = ALICE, token: str = "") -> Authentication:
    exchange = Authentication(credentials, Random(7), token)
    assert exchange.begin() == SaslHandshakeRequest(mechanism=credentials.mechanism)
    return exchange


def test_plain_is_one_token_and_the_brokers_consent() -> None:
    exchange = begun()
    request = exchange.handle(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    assert request == SaslAuthenticateRequest(auth_bytes=b"\0alice\0hush")
    assert exchange.handle(SaslAuthenticateResponse(session_lifetime_ms=0)) is None
    assert exchange.reauthenticate_after_ms() is None


def test_a_bearer_token_travels_with_its_extensions() -> None:
    exchange = begun(Credentials("OAUTHBEARER", extensions={"logicalCluster": "lkc"}), "abc.def")
    request = exchange.handle(SaslHandshakeResponse())
    assert request == SaslAuthenticateRequest(auth_bytes=b"n,,\x01auth=Bearer abc.def\x01logicalCluster=lkc\x01\x01")
    assert exchange.handle(SaslAuthenticateResponse()) is None


def test_a_refused_token_is_acknowledged_so_that_the_broker_can_say_so() -> None:
    exchange = begun(Credentials("OAUTHBEARER"), "abc")
    exchange.handle(SaslHandshakeResponse())
    again = exchange.handle(SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}'))
    assert again == SaslAuthenticateRequest(auth_bytes=b"\x01")
    refusal = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="invalid_token")
    with pytest.raises(AuthenticationError, match=r"the OAUTHBEARER token \(invalid_token\): is it expired"):
        exchange.handle(refusal)


def test_a_session_that_ends_is_renewed_some_time_before() -> None:
    exchange = begun()
    exchange.handle(SaslHandshakeResponse())
    exchange.handle(SaslAuthenticateResponse(session_lifetime_ms=10_000))
    for _ in range(50):
        after_ms = exchange.reauthenticate_after_ms()
        assert after_ms is not None
        assert 8_500 <= after_ms <= 9_500


def test_a_mechanism_that_is_not_enabled_names_those_that_are() -> None:
    refusal = SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-256", "SCRAM-SHA-512"])
    with pytest.raises(
        AuthenticationError, match=r"PLAIN is not enabled.*offers SCRAM-SHA-256, SCRAM-SHA-512"
    ) as failed:
        begun().handle(refusal)
    assert failed.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_a_listener_without_sasl_is_named_as_such() -> None:
    with pytest.raises(
        AuthenticationError, match=r"does not authenticate by SASL: set security\.protocol to PLAINTEXT"
    ):
        begun().handle(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


@pytest.mark.parametrize(("code", "shown"), [(58, "'alice'"), (-1, "has no code for"), (4711, "has no code for")])
def test_a_refusal_is_final_and_shows_no_password(code: int, shown: str) -> None:
    exchange = begun()
    exchange.handle(SaslHandshakeResponse())
    with pytest.raises(AuthenticationError, match=shown) as failed:
        exchange.handle(SaslAuthenticateResponse(error_code=code, error_message=None))
    assert "hush" not in str(failed.value)
    assert not is_retriable(failed.value)


def test_a_broker_that_never_stops_asking_is_given_up() -> None:
    exchange = begun(Credentials("OAUTHBEARER"), "abc")
    exchange.handle(SaslHandshakeResponse())
    for _ in range(MAX_ROUND_COUNT):
        exchange.handle(SaslAuthenticateResponse(auth_bytes=b"more"))
    with pytest.raises(AuthenticationError, match="did not come to an end"):
        exchange.handle(SaslAuthenticateResponse(auth_bytes=b"more"))


def test_credentials_are_not_shown() -> None:
    assert "hush" not in repr(ALICE)
