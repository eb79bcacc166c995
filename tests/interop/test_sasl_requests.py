"""What a SASL listener answers to every kind of request, byte for byte as Apache Kafka 4.3.1 does.

OTTLA_TEST_KAFKA=1 runs the same scenes on an Apache Kafka with the same settings.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.admin import ConfigChange, ConfigResource, ResourceType
from ottla.client.blocking import Admin
from ottla.wire import Message, decode
from ottla.wire.apis import response_class
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.frames import decode_response_header, encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.interop.conftest import ON_KAFKA
from tests.interop.secured_ottla import KafkaTwin, SecuredOttla
from tests.interop.servers import Server, kafka_anchor, read_exactly

RIGHT = b"\0alice\0alice-secret"
WRONG = b"\0alice\0alice-wrong"
DELAY_SECONDS = 0.1
MAX_RECEIVE_SIZE = 524_288
LIFETIME_MS = 4_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    node = SecuredOttla(
        tmp_path_factory.mktemp("sasl") / "data",
        protocols=("SASL_PLAINTEXT", "SESSIONS"),
        plain_users={"alice": "alice-secret", "eve": "eve-secret"},
        properties={
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SESSIONS:SASL_PLAINTEXT",
            "listener.name.sessions.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sessions.plain.connections.max.reauth.ms": str(LIFETIME_MS),
            "listener.name.sessions.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
            'required user_alice="alice-secret" user_eve="eve-secret";',
        },
    )
    server: Server = node
    if ON_KAFKA:
        if kafka_anchor() is None:
            pytest.skip("Apache Kafka 4.3.1: no anchor script or no java")
        server = KafkaTwin(node)
    server.start()
    yield node
    still_runs = server.is_running()
    server.stop()
    assert still_runs


class Talk:
    """One connection, request by request."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *raised: object) -> None:
        self._socket.close()

    def send(self, frame: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> bytes:
        (size,) = struct.unpack(">i", read_exactly(self._socket, 4))
        return read_exactly(self._socket, size)

    def ask(self, request: Message, version: int) -> Any:
        """The response; None if the connection was closed without one."""
        key = type(request).__schema__.api_key
        assert key is not None
        try:
            self.send(b"".join(encode_request(key, version, 7, "tester", request))[4:])
            frame = self.receive()
        except OSError:
            return None
        _, position = decode_response_header(frame, key, version)
        return decode(response_class(key), version, frame, position)

    def versions(self, version: int = 4) -> Any:
        return self.ask(ApiVersionsRequest(client_software_name="tester", client_software_version="1"), version)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, token: bytes, version: int = 2) -> Any:
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version)

    def metadata(self) -> Any:
        return self.ask(MetadataRequest(topics=[]), 12)

    def is_closed(self) -> bool:
        try:
            return self._socket.recv(1) == b""
        except OSError:
            return True

    def log_in(self) -> Any:
        assert self.versions().error_code == 0
        assert self.handshake().error_code == 0
        return self.token(RIGHT)


@pytest.fixture
def talk(node: SecuredOttla) -> Iterator[Talk]:
    with Talk(node.ports["SASL_PLAINTEXT"]) as made:
        yield made


@pytest.fixture
def session(node: SecuredOttla) -> Iterator[Talk]:
    with Talk(node.ports["SESSIONS"]) as made:
        yield made


def test_a_listener_without_sasl_takes_no_login(node: SecuredOttla) -> None:
    with Talk(node.port) as talk:
        answer = talk.handshake()
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        answer = talk.token(RIGHT)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert answer.error_message == "SaslAuthenticate request received after successful authentication"
        assert talk.metadata() is not None


def test_a_login_by_plain(talk: Talk) -> None:
    answer = talk.log_in()
    assert (answer.error_code, answer.error_message, answer.auth_bytes, answer.session_lifetime_ms) == (0, "", b"", 0)
    assert talk.metadata() is not None
    assert talk.versions().error_code == 0
    assert talk.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert talk.token(RIGHT).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert talk.metadata() is not None


def test_a_login_without_api_versions(talk: Talk) -> None:
    answer = talk.handshake()
    assert answer.error_code == 0
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256"]
    assert talk.token(RIGHT, version=0).error_code == 0
    assert talk.metadata() is not None


def test_a_login_with_bare_tokens(talk: Talk) -> None:
    assert talk.handshake(version=0).error_code == 0
    talk.send(RIGHT)
    assert talk.receive() == b""
    assert talk.metadata() is not None


def test_a_wrong_bare_token_closes_the_connection(talk: Talk) -> None:
    assert talk.handshake(version=0).error_code == 0
    talk.send(WRONG)
    assert talk.is_closed()


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (WRONG, "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (
            b"eve\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_a_failed_login_is_answered_after_the_delay_and_closed(talk: Talk, token: bytes, message: str) -> None:
    assert talk.handshake().error_code == 0
    started = time.monotonic()
    answer = talk.token(token)
    assert time.monotonic() - started >= DELAY_SECONDS * 0.9
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, message)
    assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"", 0)
    assert talk.is_closed()


def test_a_mechanism_that_is_not_enabled_is_answered_with_the_list(talk: Talk) -> None:
    started = time.monotonic()
    answer = talk.handshake("GSSAPI")
    assert time.monotonic() - started >= DELAY_SECONDS * 0.9
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256"]
    assert talk.is_closed()


def test_a_scram_message_that_is_none_fails_without_a_reason(talk: Talk) -> None:
    assert talk.handshake("SCRAM-SHA-256").error_code == 0
    answer = talk.token(b"nonsense")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )
    assert talk.is_closed()


def test_a_token_before_the_handshake_closes_the_connection(talk: Talk) -> None:
    assert talk.token(RIGHT) is None


def test_a_request_before_the_login_closes_the_connection(talk: Talk) -> None:
    assert talk.versions().error_code == 0
    assert talk.metadata() is None


def test_a_second_api_versions_closes_the_connection(talk: Talk) -> None:
    assert talk.versions().error_code == 0
    assert talk.versions() is None


def test_an_unsupported_api_versions_may_be_followed_by_a_supported_one(talk: Talk) -> None:
    talk.send(struct.pack(">hhih", 18, 99, 7, -1) + b"\0\0\0\0")
    assert struct.unpack_from(">ih", talk.receive()) == (7, ErrorCode.UNSUPPORTED_VERSION)
    assert talk.log_in().error_code == 0


def test_a_second_handshake_is_refused(talk: Talk) -> None:
    assert talk.handshake().error_code == 0
    answer = talk.handshake()
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert talk.is_closed()


def test_api_versions_after_the_handshake_is_refused(talk: Talk) -> None:
    assert talk.handshake().error_code == 0
    answer = talk.versions()
    assert (answer.error_code, answer.api_keys) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert talk.is_closed()


def test_bytes_that_are_no_request_close_the_connection(talk: Talk) -> None:
    talk.send(b"\x60\x82\x01\x02" * 8)
    assert talk.is_closed()


def test_cve_2026_10142_a_frame_over_the_limit_before_the_login_closes_the_connection(talk: Talk) -> None:
    talk._socket.sendall(struct.pack(">i", MAX_RECEIVE_SIZE + 1))
    assert talk.is_closed()


def test_a_frame_below_the_limit_is_read_before_the_login(talk: Talk) -> None:
    assert talk.handshake().error_code == 0
    assert talk.token(b"\0alice\0" + b"x" * (MAX_RECEIVE_SIZE - 100)).error_code == 58


def test_a_session_ends_unless_the_client_authenticates_again(session: Talk) -> None:
    assert session.log_in().session_lifetime_ms == LIFETIME_MS
    time.sleep(LIFETIME_MS / 2000)
    assert session.handshake().error_code == 0
    assert session.token(RIGHT).session_lifetime_ms == LIFETIME_MS
    # Not twice in a second.
    assert session.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    time.sleep(LIFETIME_MS / 1000 - 0.5)
    assert session.metadata() is not None
    time.sleep(1)
    assert session.metadata() is None


def test_a_session_keeps_its_principal(session: Talk) -> None:
    session.log_in()
    assert session.handshake().error_code == 0
    answer = session.token(b"\0eve\0eve-secret")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.eve"
    assert session.is_closed()


def test_a_session_keeps_its_mechanism(session: Talk) -> None:
    session.log_in()
    assert session.handshake("SCRAM-SHA-256").error_code == 0
    assert session.token(b"n,,n=alice,r=abcdef") is None


def test_a_request_in_the_middle_of_a_re_authentication_is_not_answered(session: Talk) -> None:
    session.log_in()
    assert session.handshake().error_code == 0
    answer = session.metadata()
    assert answer is None or not answer.brokers
    assert session.is_closed()


@pytest.mark.skipif(ON_KAFKA, reason="Kafka takes any text, which is then in force for new listeners only")
@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_mallory="m-secret"',
        "org.apache.kafka.common.security.plain.PlainLoginModule required;",
        'org.apache.kafka.common.security.scram.ScramLoginModule required user_mallory="m-secret";',
        'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://evil.test";',
    ],
)
def test_users_that_cannot_be_read_are_refused_and_the_others_stay(node: SecuredOttla, text: str) -> None:
    setting = "listener.name.sessions.plain.sasl.jaas.config"
    this = ConfigResource(ResourceType.BROKER, "1")
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        with pytest.raises(KafkaError, match=setting) as refused:
            admin.alter_configs({this: [ConfigChange(setting, text)]})
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        assert "m-secret" not in str(refused.value)
    settings = node.client() | {"bootstrap.servers": f"127.0.0.1:{node.ports['SESSIONS']}"}
    with Admin(settings) as alice:
        alice.connect()
