"""OAUTHBEARER on an Ottla: tokens that librdkafka, aiokafka, Java's and our own clients carry, right and forged."""

from __future__ import annotations

import asyncio
import http.server
import os
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError as AiokafkaError

from ottla.broker.serving.jwks import JwksError, read_keys
from ottla.client import blocking
from ottla.client.errors import AuthenticationError
from tests.interop.secured_kafka import FILES
from tests.interop.secured_ottla import SecuredOttla, running_ottla
from tests.interop.servers import kafka_anchor
from tests.serving import served
from tests.signed_tokens import SigningKey, key_set

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(180)]
KEY = SigningKey("one")
NEXT = SigningKey("two", "ES256")
STRANGER = SigningKey("one")


def claims(seconds: float = 600, **more: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"sub": "carol", "iss": "https://issuer", "aud": "kafka", "iat": now, "exp": now + seconds, **more}


@pytest.fixture(scope="module")
def jwks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "jwks.json"
    file.write_bytes(key_set(KEY.entry()))
    return file


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, jwks: Path) -> Iterator[SecuredOttla]:
    prefix = "listener.name.sasl_plaintext.oauthbearer."
    with running_ottla(
        tmp_path_factory.mktemp("oauth") / "data",
        mechanisms="OAUTHBEARER",
        properties={
            prefix
            + "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            prefix + "sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
            "OAuthBearerValidatorCallbackHandler",
            prefix + "sasl.oauthbearer.jwks.endpoint.url": f"file://{jwks}",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": "300",
            "sasl.oauthbearer.expected.issuer": "https://issuer",
            "sasl.oauthbearer.expected.audience": "kafka",
        },
    ) as running:
        yield running
        assert "a bug" not in running.output()
        for token in _GIVEN_OUT:
            assert token not in running.log.read_text()


_GIVEN_OUT: list[str] = []


def token_of(key: SigningKey = KEY, **more: Any) -> str:
    token = key.token(claims(**more))
    _GIVEN_OUT.append(token)
    return token


def own(node: SecuredOttla, token: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.address(),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_provider": lambda: token,
    }


def logs_in(node: SecuredOttla, token: str) -> bool:
    try:
        with blocking.Admin(own(node, token)) as admin:
            admin.list_topics()
    except AuthenticationError:
        return False
    return True


def test_our_own_client_logs_in(node: SecuredOttla, topic: str) -> None:
    with blocking.Producer(own(node, token_of())) as producer:
        producer.send(topic, b"own").result()


def test_a_forged_token_is_refused_and_counted(node: SecuredOttla) -> None:
    before = node.count("failed_authentication_total")
    assert not logs_in(node, token_of(STRANGER))
    assert not logs_in(node, token_of(aud="other"))
    assert not logs_in(node, token_of(seconds=-60))
    assert node.count("failed_authentication_total") == before + 3


@pytest.mark.parametrize("is_right", [True, False])
def test_librdkafka_logs_in(node: SecuredOttla, topic: str, is_right: bool) -> None:
    token = token_of() if is_right else token_of(STRANGER)
    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": node.address(),
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda config: (token, time.time() + 600),
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    producer.produce(topic, b"x")
    end = time.monotonic() + 30
    while producer.flush(0.2) and not errors and time.monotonic() < end:
        pass
    producer.purge()
    assert bool(errors) is not is_right


@pytest.mark.parametrize("is_right", [True, False])
def test_aiokafka_logs_in(node: SecuredOttla, topic: str, is_right: bool) -> None:
    token = token_of() if is_right else token_of(STRANGER)

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return token

    async def work() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=node.address(),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
        )
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"aiokafka")
        finally:
            await producer.stop()

    if is_right:
        asyncio.run(work())
    else:
        with pytest.raises(AiokafkaError):
            asyncio.run(work())


@pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="long: OTTLA_INTEROP_ALL=1 runs it")
@pytest.mark.skipif(kafka_anchor() is None, reason="Kafka's command line tools: no anchor script or no java")
def test_javas_client_logs_in_with_a_token_from_a_file(node: SecuredOttla, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(token_of())
    config = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.oauthbearer"
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file://{token}\n"
        f"sasl.jaas.config={module}.OAuthBearerLoginModule required;\n"
        f"sasl.login.callback.handler.class={module}.OAuthBearerLoginCallbackHandler\n"
    )
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{token}"
    done = subprocess.run(
        [
            str(kafka_anchor()),
            "topics",
            "--bootstrap-server",
            node.address(),
            "--command-config",
            str(config),
            "--list",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "JAVA_TOOL_OPTIONS": allowed},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_session_ends_with_its_token_unless_the_client_brings_another(node: SecuredOttla, topic: str) -> None:
    before = node.count("successful_reauthentication_total")
    settings = {**own(node, ""), "sasl_oauthbearer_token_provider": lambda: token_of(seconds=3)}
    with blocking.Producer(settings) as producer:
        end = time.monotonic() + 60
        while node.count("successful_reauthentication_total") < before + 1:
            assert time.monotonic() < end, "the client did not bring another token"
            producer.send(topic, b"x").result()
    assert node.count("failed_reauthentication_total") == 0


def test_keys_that_change_are_read_again(node: SecuredOttla, jwks: Path) -> None:
    assert not logs_in(node, token_of(NEXT))
    jwks.write_text("half a file")  # the keys stay as they are
    time.sleep(0.5)
    assert logs_in(node, token_of())
    jwks.write_bytes(key_set(KEY.entry(), NEXT.entry()))
    end = time.monotonic() + 30
    while not logs_in(node, token_of(NEXT)):
        assert time.monotonic() < end, "the new key is not known"
    assert logs_in(node, token_of())


class Keys(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        self.send_response(200 if self.path in ("/keys", "/large") else 404)
        self.end_headers()
        self.wfile.write(key_set(KEY.entry()) + (b" " * (2 << 20) if self.path == "/large" else b""))

    def log_message(self, *given: Any) -> None:
        pass


@pytest.fixture(scope="module")
def https() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keys)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "broker.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with served(server):
        yield f"https://localhost:{server.server_address[1]}"


def test_keys_are_fetched_by_https_from_a_server_that_is_trusted(https: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JwksError, match="certificate"):
        read_keys(https + "/keys")
    monkeypatch.setenv("SSL_CERT_FILE", str(FILES / "ca.pem"))
    assert len(read_keys(https + "/keys")) == 1


def test_keys_are_fetched_from_a_server_that_the_login_module_trusts(https: str) -> None:
    trust = {"ssl.truststore.location": str(FILES / "ca.pem"), "ssl.truststore.type": "PEM"}
    assert len(read_keys(https + "/keys", trust)) == 1
    with pytest.raises(JwksError, match="certificate"):
        read_keys(https + "/keys", {"ssl.truststore.location": str(FILES / "client-of-another.pem")})
    with pytest.raises(JwksError, match="No such file"):
        read_keys(https + "/keys", {"ssl.truststore.location": "/nowhere.pem"})


@pytest.mark.parametrize(("path", "reason"), [("/moved", "302"), ("/nowhere", "404"), ("/large", "larger than")])
def test_keys_come_from_one_address_and_are_bounded(
    https: str, monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(FILES / "ca.pem"))
    with pytest.raises(JwksError, match=reason):
        read_keys(https + path)
