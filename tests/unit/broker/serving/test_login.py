"""The gate of a connection on a SASL listener: what passes, what is delayed, what is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from ottla.broker.audit import AuditEvent
from ottla.broker.caller import Client
from ottla.broker.serving.api_table import ApiTable
from ottla.broker.serving.connection import Connection
from ottla.broker.serving.login import LOGIN_TIMEOUT_MS, ConnectionLogin, ListenerLogins
from ottla.broker.serving.serving import Serving
from ottla.net import OsSockets, ReceiveBuffers
from ottla.security.exchange import Exchange
from ottla.security.scram import Scram
from ottla.wire import Message, decode
from ottla.wire.apis import APIS, response_class
from ottla.wire.errors import ErrorCode
from ottla.wire.frames import decode_response_header, encode_request
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.records.user_scram_credential_record import UserScramCredentialRecord
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.unit.broker.rooms import TimedGround, run_timed
from tests.unit.broker.serving.test_connection import Channel
from tests.unit.security.test_scram_server import stored

PLAIN_RIGHT = b"\0alice\0alice-secret"
PLAIN_WRONG = b"\0alice\0wrong"
MAX_RECEIVE_SIZE = 524_288
LISTENER = "listener.name.sasl."
JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret" user_eve="eve-secret";'
)


class GatedChannel(Channel):
    def __init__(self) -> None:
        super().__init__()
        self.max_frame_bytes = 0
        self.on_close: Callable[[], None] = lambda: None

    def limit_frames(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes

    def close(self) -> None:
        if not self.is_closed:
            super().close()
            self.on_close()


class World:
    """A connection to a SASL listener of a node whose APIs, but for the login, are not bound to rooms."""

    def __init__(self, **settings: str) -> None:
        self.ground = TimedGround()
        self.ground.config = self.ground.static_config = type(self.ground.config).parse(
            {
                **self.ground.config.static,
                "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                LISTENER + "plain.sasl.jaas.config": JAAS,
                **settings,
            }
        )
        self.events: list[AuditEvent] = []
        self.ground.audit.sink = self.events.append
        self.serving = Serving(self.ground, OsSockets(), ReceiveBuffers(), ApiTable(self.ground), lambda broker: None)
        self.channel = GatedChannel()
        self.client = Client("10.0.0.9", 5555, "SASL", "broker")
        self.connection = Connection(self.serving, self.channel, self.client)
        self.channel.on_close = self.connection.channel_closed
        self.logins = ListenerLogins(self.ground, "SASL", self.serving.scram_credentials, self.serving.access)
        self.gate = ConnectionLogin(self.logins, self.connection, self.channel)
        self.connection.gate = self.client.login = self.gate
        self.meter = self.ground.metrics.logins("SASL")

    def send(self, request: Message, version: int) -> None:
        key = type(request).__schema__.api_key
        assert key is not None
        self.frame(b"".join(encode_request(key, version, 1, "tester", request))[4:])

    def frame(self, frame: bytes) -> None:
        self.connection.frame_received(memoryview(frame))

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> None:
        self.send(SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, token: bytes, version: int = 2) -> None:
        self.send(SaslAuthenticateRequest(auth_bytes=token), version)

    def answer(self, key: int, version: int) -> Any:
        frame = self.channel.sent.pop(0)[4:]
        _, position = decode_response_header(frame, key, version)
        return decode(response_class(key), version, frame, position)

    def handshaken(self) -> Any:
        return self.answer(17, 1)

    def authenticated(self, version: int = 2) -> Any:
        return self.answer(36, version)

    def log_in(self) -> Any:
        self.handshake()
        assert self.handshaken().error_code == 0
        self.token(PLAIN_RIGHT)
        return self.authenticated()

    @property
    def has_passed(self) -> bool:
        """Whether an ordinary request passes the gate."""
        frame = memoryview(b"".join(encode_request(16, 5, 1, "tester", ListGroupsRequest()))[4:])
        gate = self.connection.gate
        return not self.channel.is_closed and (gate is None or not gate.takes(frame))


async def after(milliseconds: int) -> None:
    await asyncio.sleep(milliseconds / 1000)


def timed(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        run_timed(test())  # type: ignore[arg-type]

    run.__name__ = test.__name__
    return run


@timed
async def test_a_login_opens_the_gate_and_gives_the_connection_its_principal() -> None:
    world = World()
    assert world.channel.max_frame_bytes == MAX_RECEIVE_SIZE
    assert world.log_in().error_code == 0
    assert str(world.client.access.principal) == "User:alice"
    assert world.connection.gate is None and world.client.login is None
    assert world.channel.max_frame_bytes == world.ground.config.socket_request_max_bytes
    assert world.has_passed
    assert world.meter.successful_authentication == 1
    await after(2 * LOGIN_TIMEOUT_MS)
    assert not world.channel.is_closed


@timed
async def test_a_request_before_the_login_is_not_answered_and_closes_the_connection_after_the_delay() -> None:
    for steps in (0, 1):
        world = World()
        if steps:
            world.handshake()
            world.handshaken()
        world.send(ListGroupsRequest(), 5)
        world.token(PLAIN_RIGHT)  # nothing counts after it
        await after(99)
        assert not world.channel.is_closed
        await after(2)
        assert world.channel.is_closed
        assert world.channel.sent == []
        assert world.meter.failed_authentication == 1
        assert str(world.client.access.principal) == "User:ANONYMOUS"


@timed
async def test_a_frame_that_is_no_request_closes_the_connection() -> None:
    for frame in (b"", b"\0", b"\x60\x82\x02\x0f" * 9, b"\xff" * 20):
        world = World()
        world.frame(frame)
        await after(101)
        assert world.channel.is_closed and world.channel.sent == []


@timed
async def test_a_failed_login_is_answered_after_the_delay_and_then_closed() -> None:
    world = World()
    world.handshake()
    world.handshaken()
    world.token(PLAIN_WRONG)
    assert world.channel.is_paused
    await after(99)
    assert world.channel.sent == []
    await after(2)
    answer = world.authenticated()
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert world.channel.is_closed
    assert (world.meter.successful_authentication, world.meter.failed_authentication) == (0, 1)


@timed
async def test_the_delay_of_a_failed_login_can_be_set() -> None:
    world = World(**{"connection.failed.authentication.delay.ms": "3000"})
    world.handshake("GSSAPI")
    await after(2_999)
    assert world.channel.sent == []
    await after(2)
    answer = world.handshaken()
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert sorted(answer.mechanisms) == ["PLAIN", "SCRAM-SHA-256"]
    assert world.channel.is_closed


@timed
async def test_a_login_that_does_not_end_is_closed_in_time() -> None:
    world = World()
    world.handshake()
    await after(LOGIN_TIMEOUT_MS - 1)
    assert not world.channel.is_closed
    await after(2)
    assert world.channel.is_closed
    assert world.meter.failed_authentication == 1
    assert world.events[-1].reason == f"the login did not end within {LOGIN_TIMEOUT_MS} ms"


@timed
async def test_a_connection_that_closes_during_its_login_leaves_no_timer() -> None:
    world = World()
    world.channel.close()
    await after(2 * LOGIN_TIMEOUT_MS)
    assert world.meter.failed_authentication == 0


@timed
async def test_an_old_client_sends_tokens_without_requests() -> None:
    world = World()
    world.handshake(version=0)
    assert world.answer(17, 0).error_code == 0
    world.frame(PLAIN_RIGHT)
    assert world.channel.sent == [b"\0\0\0\0"]
    assert world.has_passed
    assert world.meter.successful_authentication_no_reauth == 1


@timed
async def test_a_bare_token_that_is_wrong_closes_the_connection_after_the_delay() -> None:
    world = World()
    world.handshake(version=0)
    world.channel.sent.clear()
    world.frame(PLAIN_WRONG)
    await after(101)
    assert world.channel.is_closed and world.channel.sent == []


@timed
async def test_a_session_without_end_takes_no_further_login() -> None:
    world = World()
    world.log_in()
    world.handshake()
    assert world.handshaken().error_code == ErrorCode.ILLEGAL_SASL_STATE
    world.token(PLAIN_RIGHT)
    answer = world.authenticated()
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
    assert not world.channel.is_closed


@timed
async def test_the_first_request_after_the_end_of_a_session_closes_the_connection() -> None:
    world = World(**{LISTENER + "plain.connections.max.reauth.ms": "5000"})
    assert world.log_in().session_lifetime_ms == 5_000
    assert world.connection.gate is None  # until then a request costs nothing
    await after(5_000)
    assert world.has_passed
    await after(2)
    assert not world.has_passed
    assert world.channel.is_closed
    assert world.meter.expired_connections_killed == 1


@timed
async def test_a_connection_that_closes_during_its_session_leaves_no_timer() -> None:
    world = World(**{"connections.max.reauth.ms": "5000"})
    world.log_in()
    world.channel.close()
    await after(6_000)
    assert world.connection.gate is None


@timed
async def test_a_client_that_authenticates_again_goes_on() -> None:
    world = World(**{LISTENER + "connections.max.reauth.ms": "5000"})
    world.log_in()
    access = world.client.access
    for _ in range(3):
        await after(4_000)
        assert world.log_in().session_lifetime_ms == 5_000
        assert world.has_passed
    assert world.client.access is access
    assert (world.meter.successful_authentication, world.meter.successful_reauthentication) == (1, 3)
    await after(6_000)
    assert world.log_in().error_code == 0  # also when the session is over already
    assert world.meter.expired_connections_killed == 0


@timed
async def test_a_client_cannot_authenticate_again_twice_in_a_second() -> None:
    world = World(**{"connections.max.reauth.ms": "5000"})
    world.log_in()
    world.log_in()
    await after(999)
    world.handshake()
    assert world.handshaken().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert world.has_passed
    await after(1)
    assert world.log_in().error_code == 0


@timed
async def test_between_the_handshake_and_the_last_token_nothing_else_passes() -> None:
    world = World(**{"connections.max.reauth.ms": "5000"})
    world.log_in()
    world.handshake()
    assert world.channel.max_frame_bytes == MAX_RECEIVE_SIZE
    assert not world.has_passed
    await after(101)
    assert world.channel.is_closed
    assert world.meter.failed_reauthentication == 1


@timed
async def test_a_re_authentication_that_does_not_end_is_closed_in_time() -> None:
    world = World(**{"connections.max.reauth.ms": "500000"})
    world.log_in()
    world.handshake()
    await after(LOGIN_TIMEOUT_MS + 1)
    assert world.channel.is_closed
    assert world.meter.failed_reauthentication == 1


@timed
async def test_another_principal_cannot_take_over_a_session() -> None:
    world = World(**{"connections.max.reauth.ms": "5000"})
    world.log_in()
    world.handshake()
    world.handshaken()
    world.token(b"\0eve\0eve-secret")
    await after(101)
    assert world.authenticated().error_message.startswith("Cannot change principals during re-authentication")
    assert world.channel.is_closed
    assert str(world.client.access.principal) == "User:alice"


@timed
async def test_logins_are_audited_without_secrets() -> None:
    world = World()
    world.log_in()
    other = World()
    other.handshake()
    other.token(PLAIN_WRONG)
    (success,), (failure,) = world.events, other.events
    assert (success.kind, success.principal, success.is_success) == ("login", "User:alice", True)
    assert (success.host, success.listener, success.operation) == ("10.0.0.9", "SASL", "PLAIN")
    assert (failure.principal, failure.is_success, failure.reason) == ("User:ANONYMOUS", False, "the password is wrong")
    assert failure.details == {"claimed_user": "alice"}
    assert "secret" not in repr(success) and "wrong'" not in repr(failure.details)
    await after(101)


@timed
async def test_a_user_of_the_metadata_log_logs_in_by_scram() -> None:
    world = World()
    credential = stored("SCRAM-SHA-256", world.client.access.principal, "bob-secret")
    world.ground.image.scram["bob", 1] = UserScramCredentialRecord(
        name="bob",
        mechanism=1,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
    client = Scram("SCRAM-SHA-256", "bob", "bob-secret", Random(1))
    world.handshake("SCRAM-SHA-256")
    world.handshaken()
    world.token(client.initial())
    final = client.respond(bytes(world.authenticated().auth_bytes))
    assert final is not None
    world.token(final)
    assert client.respond(bytes(world.authenticated().auth_bytes)) is None
    assert str(world.client.access.principal) == "User:bob"


@timed
async def test_a_password_of_plain_that_is_changed_counts_for_the_next_login() -> None:
    world = World()
    world.ground.config = world.ground.config.rebuilt(
        {}, {LISTENER + "plain.sasl.jaas.config": JAAS.replace("alice-secret", "changed")}
    )
    world.gate = ConnectionLogin(world.logins, world.connection, world.channel)
    world.connection.gate = world.client.login = world.gate
    world.handshake()
    world.handshaken()
    world.token(b"\0alice\0changed")
    assert world.authenticated().error_code == 0


@timed
async def test_settings_that_are_wrong_while_the_node_runs_leave_the_previous_ones() -> None:
    world = World()
    world.ground.config = world.ground.config.rebuilt({}, {LISTENER + "plain.sasl.jaas.config": "nonsense"})
    assert world.log_in().error_code == 0


@timed
async def test_a_node_starts_with_its_files_settings_if_those_in_the_metadata_log_are_wrong() -> None:
    world = World()
    world.ground.config = world.ground.config.rebuilt({}, {LISTENER + "plain.sasl.jaas.config": "nonsense"})
    logins = ListenerLogins(world.ground, "SASL", world.serving.scram_credentials, world.serving.access)
    world.gate = ConnectionLogin(logins, world.connection, world.channel)
    world.connection.gate = world.client.login = world.gate
    assert world.log_in().error_code == 0


@pytest.mark.parametrize("key", sorted(APIS))
def test_no_api_but_three_passes_before_the_login(key: int) -> None:
    async def ask() -> None:
        world = World()
        info = APIS[key]
        frame = bytes([key >> 8, key & 255, 0, info.min_version]) + bytes(20)
        assert world.gate.takes(memoryview(frame)) is (key not in (17, 18, 36))
        world.channel.close()

    run_timed(ask())


@timed
async def test_a_client_that_hangs_up_when_its_token_is_refused_has_failed_to_log_in() -> None:
    class Refusing:
        identity = None
        claimed = ""
        failure: str | None = None

        def respond(self, token: bytes, timestamp: int) -> bytes:
            if token == b"forged":
                self.failure = "the signature is wrong"
            return b"a challenge"

    for token, reasons in ((b"forged", ["the signature is wrong"]), (b"unfinished", [])):
        world = World()
        world.logins._new_server = lambda mechanism, settings: Refusing()  # type: ignore[method-assign]
        world.gate._exchange = Exchange(world.logins.terms())
        world.handshake()
        world.token(token)
        world.channel.close()
        assert world.meter.failed_authentication == len(reasons)
        assert [event.reason for event in world.events] == reasons
