"""What each CVE of Kafka and its clients teaches, as a test that Ottla passes.

Those about JWTs (CVE-2026-110985, CVE-2026-33557) are in test_jwt.py and test_bearer_server.py; those about permissions
(CVE-2026-41115, CVE-2018-1288) in the matrix of permissions. CVE-2026-33558 has a full run at DEBUG as well:
tests/interop/test_no_secret_leaves.py.
"""

from __future__ import annotations

import asyncio
import hmac
import tracemalloc
import zlib
from base64 import b64encode
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ottla.broker.apis.push_telemetry import push_telemetry
from ottla.broker.caller import Caller
from ottla.broker.serving.sasl_settings import read_sasl_settings
from ottla.broker.serving.telemetry import Telemetry, client_labels
from ottla.client.config import ClientConfig
from ottla.client.connection import MAX_LOGIN_FRAME_BYTES
from ottla.client.errors import AuthenticationError, ConfigError, NetworkError
from ottla.config import BrokerConfig
from ottla.config import ConfigError as BrokerConfigError
from ottla.converters.framing import frames as schema_frames
from ottla.net import event_text
from ottla.raft.effects import Received
from ottla.security import scram
from ottla.security.authentication import Authentication, Credentials
from ottla.security.login import LoginRefused
from ottla.security.plain_server import PlainServer
from ottla.security.scram import MAX_ITERATIONS, Scram
from ottla.security.scram_server import ScramServer, decoys_like
from ottla.wire import Message, WireError, compiler, decode, encode_bytes, schema
from ottla.wire.errors import ErrorCode
from ottla.wire.frames import decode_request_header
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochRequestTopicData
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotRequestTopicSnapshot
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.push_telemetry import PushTelemetryRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse
from ottla.wire.messages.vote import VoteRequest, VoteRequestTopicData
from tests.unit.broker.rooms import CLIENT, Ground
from tests.unit.client.test_connection import connected, receive
from tests.unit.raft.test_raft import elect, quorum
from tests.unit.wire.values import all_messages

MIB = 1024 * 1024


def peak_of(work: Callable[[], object]) -> int:
    """The most memory that work held, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Bytes from the network


def test_cve_2026_111108_an_array_has_no_more_elements_than_the_bytes_left_allow() -> None:
    def read() -> None:
        with pytest.raises(WireError, match="more elements than the bytes left"):
            decode(MetadataRequest, 9, b"\xff\xff\xff\xff\x07" + b"\0" * 100)

    read()
    assert peak_of(read) < 100_000


def test_cve_2026_111108_a_request_has_a_million_elements_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiler.MAX_REQUEST_ELEMENTS == 1_000_000
    monkeypatch.setattr(compiler, "MAX_REQUEST_ELEMENTS", 10)
    read = compiler.compile_decoder(schema(DeleteTopicsRequest), 5)
    fits = encode_bytes(DeleteTopicsRequest(topic_names=["t"] * 10), 5)
    assert read(fits, 0)[0].topic_names == ["t"] * 10
    with pytest.raises(WireError, match="topic_names"):
        read(encode_bytes(DeleteTopicsRequest(topic_names=["t"] * 11), 5), 0)


def test_cve_2026_111108_arrays_inside_of_arrays_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "MAX_REQUEST_ELEMENTS", 10)
    read = compiler.compile_decoder(schema(FetchRequest), 12)
    topics = [FetchTopic(topic="t", partitions=[FetchPartition() for _ in range(4)]) for _ in range(3)]
    assert len(read(encode_bytes(FetchRequest(topics=topics[:2]), 12), 0)[0].topics) == 2
    with pytest.raises(WireError, match="partitions"):
        read(encode_bytes(FetchRequest(topics=topics), 12), 0)


@pytest.mark.parametrize(
    "cls",
    [cls for cls in all_messages() if cls.__name__.endswith("Request") and schema(cls).api_key is not None],
    ids=lambda cls: cls.__name__,
)
def test_cve_2026_111115_unknown_tagged_fields_are_counted_and_mostly_not_kept(cls: type[Message]) -> None:
    declared = schema(cls)
    if not declared.is_flexible(declared.last_version):
        return
    version = declared.last_version
    plain = encode_bytes(cls(), version)

    def tagged(count: int) -> bytes:
        return encode_bytes(cls(unknown_tagged_fields={1_000 + tag: b"" for tag in range(count)}), version)

    assert len(decode(cls, version, tagged(10_000)).unknown_tagged_fields) == 10_000
    with pytest.raises(WireError, match="more than 10000 tagged fields"):
        decode(cls, version, tagged(10_001))
    assert decode(cls, version, plain) == cls()


def test_cve_2026_111115_a_request_keeps_ten_thousand_unknown_tagged_fields_of_all_its_parts() -> None:
    tags = {1_000 + tag: b"" for tag in range(6_000)}
    topics = [MetadataRequestTopic(name="t", unknown_tagged_fields=tags) for _ in range(3)]
    request = decode(MetadataRequest, 12, encode_bytes(MetadataRequest(topics=topics), 12))
    assert [len(topic.unknown_tagged_fields) for topic in request.topics or ()] == [6_000, 0, 0]


def test_cve_2026_111115_a_header_has_ten_thousand_tagged_fields_at_most() -> None:
    head = b"\0\x03\0\x0c" + b"\0\0\0\x01" + b"\xff\xff"
    assert decode_request_header(head + b"\x90\x4e" + b"\x07\0" * 10_000)[1] == len(head) + 2 + 20_000
    with pytest.raises(WireError, match="10001 tagged fields"):
        decode_request_header(head + b"\x91\x4e" + b"\x07\0" * 10_001)


def test_cve_2026_111073_pushed_metrics_are_not_decompressed_and_their_size_is_bounded() -> None:
    ground, telemetry, caller = Ground(), Telemetry(), Caller("app", CLIENT, 72, 0)
    telemetry.replace([("all", {"metrics": "*"})])
    client_id, client = telemetry.subscribe(bytes(16), client_labels(caller), 0, Random(1))
    bomb = zlib.compress(b"\0" * (64 * MIB), 9)
    request = PushTelemetryRequest(
        client_instance_id=client_id, subscription_id=client.subscription_id, compression_type=1, metrics=bomb
    )
    assert len(bomb) < ground.config.telemetry_max_bytes
    answers: list[Any] = []
    assert peak_of(lambda: answers.append(push_telemetry(request, ground, telemetry, caller))) < MIB
    assert answers[0].error_code == ErrorCode.NONE
    ground.ms = 10_000_000
    request.metrics = b"x" * (ground.config.telemetry_max_bytes + 1)
    assert push_telemetry(request, ground, telemetry, caller).error_code == ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize(
    "request_",
    [
        FetchSnapshotRequest(),
        FetchSnapshotRequest(topics=[FetchSnapshotRequestTopicSnapshot(name="__cluster_metadata")]),
        FetchRequest(),
        FetchRequest(topics=[FetchTopic(topic="__cluster_metadata")]),
        VoteRequest(),
        VoteRequest(topics=[VoteRequestTopicData(topic_name="__cluster_metadata")]),
        BeginQuorumEpochRequest(),
        BeginQuorumEpochRequest(topics=[BeginQuorumEpochRequestTopicData(topic_name="__cluster_metadata")]),
        EndQuorumEpochRequest(),
    ],
    ids=lambda request: f"{type(request).__name__}-{len(request.topics)}",
)
def test_cve_2026_83525_empty_arrays_do_not_end_a_controller(request_: Message) -> None:
    made = quorum()
    leader = elect(made)
    (reply,) = made.nodes[leader].raft.handle(Received(request_, "token"), made.now)
    response: Any = reply.response  # type: ignore[attr-defined]
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert made.nodes[leader].raft.is_leader


def test_cve_2026_10142_a_client_that_is_not_logged_in_takes_small_frames_only() -> None:
    async def work() -> None:
        for size in (MAX_LOGIN_FRAME_BYTES + 1, 0x48545450, 2**31 - 1, -1):
            connection, pipe = connected(MAX_LOGIN_FRAME_BYTES)
            waiting = connection.request(MetadataRequest(topics=[]))
            receive(pipe, size.to_bytes(4, "big", signed=True))
            assert connection.is_closed
            with pytest.raises(NetworkError, match="sent what cannot be read"):
                await waiting

    asyncio.run(work())


def test_cve_2026_10142_a_client_takes_memory_for_bytes_that_came_not_for_those_that_were_announced() -> None:
    async def work() -> None:
        connection, pipe = connected()
        connection.request(MetadataRequest(topics=[]))
        assert peak_of(lambda: receive(pipe, (2**31 - 1).to_bytes(4, "big") + b"x" * 1_000)) < MIB
        connection.close()

    asyncio.run(work())


# Logins


@pytest.mark.parametrize("iterations", [MAX_ITERATIONS + 1, 2**31, 10**30, 4095, 0, -1])
def test_cve_2026_10143_a_client_hashes_only_so_often_whatever_a_broker_asks_for(
    monkeypatch: pytest.MonkeyPatch, iterations: int
) -> None:
    monkeypatch.setattr(scram, "_salted", lambda *given: pytest.fail("it hashes"))
    client = Scram("SCRAM-SHA-512", "alice", "secret", Random(1))
    nonce = client.initial().decode().partition("r=")[2]
    with pytest.raises(AuthenticationError, match="iterations"):
        client.respond(f"r={nonce}x,s={b64encode(b'salt').decode()},i={iterations}".encode())


def test_cve_2026_10143_a_client_hashes_beside_its_event_loop_and_ends_after_some_rounds() -> None:
    login = Authentication(Credentials("SCRAM-SHA-256", "alice", "secret"), Random(1))
    assert login.is_slow
    plain = Authentication(Credentials("PLAIN", "alice", "secret"), Random(1))
    assert not plain.is_slow
    first = login.handle(SaslHandshakeResponse())
    assert isinstance(first, SaslAuthenticateRequest)
    nonce = bytes(first.auth_bytes).decode().partition("r=")[2]
    challenge = f"r={nonce}x,s={b64encode(b'salt').decode()},i=4096".encode()
    assert login.handle(SaslAuthenticateResponse(auth_bytes=challenge)) is not None
    with pytest.raises(AuthenticationError):
        for _ in range(100):
            login.handle(SaslAuthenticateResponse(auth_bytes=b"v=AAAA"))


@pytest.mark.parametrize("nonce", ["", "mine", "minex", "theirs", "x" * 40])
def test_cve_2024_56128_a_broker_checks_the_whole_nonce(nonce: str) -> None:
    server = ScramServer("SCRAM-SHA-256", lambda name, is_token: None, decoys_like([]), Random(1))
    server.respond(b"n,,n=alice,r=mine", 0)
    with pytest.raises(LoginRefused):
        server.respond(f"c=biws,r={nonce},p={b64encode(bytes(32)).decode()}".encode(), 0)
    assert server.identity is None


@pytest.mark.parametrize("token", [b"admin\0alice\0alices-secret", b"admin\0alice\0alices-secret\0"])
def test_cve_2017_12610_the_identity_is_the_one_that_was_proved_by_plain(token: bytes) -> None:
    server = PlainServer({"alice": "alices-secret", "admin": "admins-secret"})
    with pytest.raises(LoginRefused):
        server.respond(token, 0)
    assert server.identity is None


def test_cve_2017_12610_the_identity_is_the_one_that_was_proved_by_scram() -> None:
    server = ScramServer("SCRAM-SHA-256", lambda name, is_token: None, decoys_like([]), Random(1))
    with pytest.raises(LoginRefused):
        server.respond(b"n,a=admin,n=alice,r=mine", 0)
    assert server.identity is None


def test_cve_2021_38153_passwords_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[Any, Any]] = []

    def compare(one: Any, other: Any) -> bool:
        compared.append((one, other))
        return hmac_compare(one, other)

    hmac_compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    for user in ("alice", "nobody"):
        with pytest.raises(LoginRefused):
            PlainServer({"alice": "alices-secret"}).respond(f"\0{user}\0wrong".encode(), 0)
    assert len(compared) == 2


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "jar:file:///x.jar!/y",
        "ftp://login.test/token",
        "ldap://login.test/token",
        "http://login.test/token",
        "/etc/passwd",
        "",
    ],
)
def test_cve_2025_27817_tokens_come_by_https_only(url: str) -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.credentials.client.id": "id",
        "sasl.oauthbearer.client.credentials.client.secret": "secret",
    }
    with pytest.raises(ConfigError, match="https"):
        ClientConfig.parse({"bootstrap.servers": "h:1", **settings})


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.LdapLoginModule",
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.UnixLoginModule",
        "evil.LoginModule",
    ],
)
def test_cve_2025_27818_and_2023_25194_no_login_module_but_kafkas_own(module: str) -> None:
    config = f'{module} required user.provider.url="ldap://evil.test/x" username="a" password="b";'
    with pytest.raises(ConfigError):
        ClientConfig.parse(
            {
                "bootstrap.servers": "h:1",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": config,
            }
        ).credentials()
    with pytest.raises(BrokerConfigError):
        broker = BrokerConfig.parse(
            {
                "node.id": "1",
                "process.roles": "broker,controller",
                "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.listener.names": "CONTROLLER",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl.plain.sasl.jaas.config": config,
            }
        )
        read_sasl_settings(broker, "SASL")


# Secrets and addresses


def test_cve_2026_33558_what_is_logged_of_a_request_has_no_secret() -> None:
    upsertion = ScramCredentialUpsertion(name="alice", salt=b"the-salt", salted_password=b"the-salted-password")
    token = CreateDelegationTokenResponse(token_id="id", hmac=b"the-hmac")
    login = SaslAuthenticateRequest(auth_bytes=b"\0alice\0the-password")
    for message in (AlterUserScramCredentialsRequest(upsertions=[upsertion]), token, login):
        assert "the-" not in event_text(message)


def test_cve_2026_105941_bytes_of_a_record_choose_a_schema_by_number_and_no_address() -> None:
    (frame,) = schema_frames([b"\0" + b"http"])
    assert frame.schema_id == int.from_bytes(b"http", "big")
    (frame,) = schema_frames([b"http://evil.test/"])
    assert frame.schema_id == -1 and frame.error is not None
