"""CVE-2026-33558: a node at DEBUG is given every kind of secret there is, right and wrong ones, and none of them is
found again: not in its log, its metrics, its described settings, its topics, nor anywhere else in its data folder. The
same holds for what a registry and a console with logins say."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.admin import Acl, AclOperation, AclResource
from ottla.client.admin.configs import ConfigChange, ConfigResource
from ottla.client.blocking import Admin, Consumer, Producer
from ottla.client.errors import KafkaError
from ottla.wire.config_resources import ResourceType
from tests.interop.secured_kafka import FILES, STORE_PASSWORD
from tests.interop.secured_ottla import SecuredOttla
from tests.signed_tokens import SigningKey, key_set

KEY = SigningKey("one")
BEARER = "listener.name.sasl_plaintext.oauthbearer."
SECRETS = {
    "of a PLAIN user": "hush-plain",
    "of a SCRAM user": "hush-scram",
    "of a SCRAM user, changed": "hush-changed",
    "that is wrong for PLAIN": "hush-wrong-plain",
    "that is wrong for SCRAM": "hush-wrong-scram",
    "of the trust store": STORE_PASSWORD,
    "that delegation tokens are made with": "hush-token-key",
}


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    folder = tmp_path_factory.mktemp("secrets")
    keys = folder / "jwks.json"
    keys.write_bytes(key_set(KEY.entry()))
    server = SecuredOttla(
        folder / "data",
        protocols=("SASL_PLAINTEXT", "SASL_SSL"),
        users={"sue": SECRETS["of a SCRAM user"]},
        plain_users={"paul": SECRETS["of a PLAIN user"]},
        mechanisms="PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:paul;User:ANONYMOUS",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(FILES / "broker.pem"),
            "ssl.truststore.location": str(FILES / "trust.jks"),
            "ssl.truststore.password": STORE_PASSWORD,
            "delegation.token.secret.key": SECRETS["that delegation tokens are made with"],
            BEARER + "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
            "required;",
            BEARER + "sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
            "OAuthBearerValidatorCallbackHandler",
            BEARER + "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "ottla.audit.topic.enable": "true",
            "log.level": "debug",
        },
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


def test_a_registry_and_a_console_say_nothing_of_passwords(node: SecuredOttla, tmp_path: Path) -> None:
    """Both get right and wrong passwords of users; their own are in the settings that they are started with."""
    own = {**node.client("SASL_PLAINTEXT", "paul", SECRETS["of a PLAIN user"], "PLAIN")}
    bootstrap = str(own.pop("bootstrap.servers"))
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in own.items()))
    start = [sys.executable, "-m", "ottla"]
    ends = ["--port", "0", "-b", bootstrap, "--command-config", str(config), "--login"]
    said = ""
    for command, path, user, kind in (("registry", "/subjects", "paul", "PLAIN"), ("console", "/mcp", "sue", "SCRAM")):
        log = tmp_path / f"{command}.log"
        with (
            log.open("w") as output,
            subprocess.Popen(
                [*start, command, *ends], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            ) as process,
        ):
            try:
                url = None
                while url is None and process.poll() is None:
                    url = re.search(r"http://\S+", log.read_text())
                    time.sleep(0.05)
                assert url is not None, log.read_text()
                statuses = [
                    _asked(url.group() + path, user, SECRETS[what])
                    for what in (f"of a {kind} user", f"that is wrong for {kind}")
                ]
            finally:
                process.terminate()
        assert statuses == [200, 401], log.read_text()
        said += log.read_text()
    assert "LOGIN_FAILED" in said, "both say that a login failed"
    for what, secret in SECRETS.items():
        for text in (secret, f"paul:{secret}", f"sue:{secret}"):
            is_said = text in said or b64encode(text.encode()).decode().rstrip("=") in said
            assert not is_said, f"a secret {what} is in a log"


def test_no_secret_is_found_again(node: SecuredOttla) -> None:
    tokens = use_everything(node)
    seen = {
        "the log": node.log.read_bytes(),
        "the metrics": node.metrics().encode(),
        "the settings": described(node),
    }
    node.stop()
    seen |= {str(file): file.read_bytes() for file in sorted(node.data.rglob("*")) if file.is_file()}
    for what, secret in {**SECRETS, **tokens}.items():
        for form in (secret.encode(), b64encode(secret.encode()).rstrip(b"=")):
            found = [place for place, content in seen.items() if form in content and not is_kept(what, place)]
            assert not found, f"a secret {what} is in {found}"
    assert b"SCRAM-SHA-512" in seen["the log"], "the node logged logins at DEBUG"
    assert any(place.endswith(".log") and "__ottla_audit" in place for place in seen)


def _asked(url: str, user: str, password: str) -> int:
    basic = b64encode(f"{user}:{password}".encode()).decode()
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}' if url.endswith("/mcp") else None
    headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def is_kept(what: str, place: str) -> bool:
    """As in Kafka, a password that is set while the cluster runs is a record of the metadata log, which every node
    needs to open the store with."""
    return what == "of the trust store" and "__cluster_metadata-0" in place


def use_everything(node: SecuredOttla) -> dict[str, str]:
    """Log in by every mechanism, with right and wrong secrets, and change what holds secrets."""
    tokens: dict[str, str] = {}
    paul = node.client("SASL_SSL", "paul", SECRETS["of a PLAIN user"], "PLAIN")
    with Admin(paul) as admin:
        admin.create_topic("orders", partition_count=1)
        admin.create_acls(
            [Acl(AclResource.TOPIC, "orders", user, AclOperation.ALL) for user in ("User:sue", "User:carol")]
        )
        token = admin.create_delegation_token()
        tokens["of a delegation token"] = token.password
        admin.renew_delegation_token(token.hmac)
        admin.set_scram_password("sue", SECRETS["of a SCRAM user, changed"])
        admin.alter_configs(
            {
                ConfigResource(ResourceType.BROKER, "1"): [
                    ConfigChange("listener.name.sasl_ssl.ssl.truststore.location", str(FILES / "trust.jks")),
                    ConfigChange("listener.name.sasl_ssl.ssl.truststore.password", STORE_PASSWORD),
                ]
            }
        )
    bearer = KEY.token({"sub": "carol", "iat": int(time.time()), "exp": int(time.time()) + 600})
    tokens["of OAUTHBEARER"] = bearer
    sue = node.client("SASL_SSL", "sue", SECRETS["of a SCRAM user, changed"], "SCRAM-SHA-512")
    carol = {
        "bootstrap.servers": node.address(),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": lambda: bearer,
    }
    by_token = node.client("SASL_PLAINTEXT", token.token_id, token.password, "SCRAM-SHA-256")
    by_token["sasl.jaas.config"] = by_token["sasl.jaas.config"].rstrip(";") + ' tokenauth="true";'
    for settings in (sue, carol, by_token):
        with Producer(settings) as producer:
            producer.send("orders", value=b"row").result()
        with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([("orders", 0)])
            assert consumer.poll(60_000)
    wrong = (
        node.client("SASL_SSL", "paul", SECRETS["that is wrong for PLAIN"], "PLAIN"),
        node.client("SASL_PLAINTEXT", "sue", SECRETS["that is wrong for SCRAM"], "SCRAM-SHA-256"),
        {**carol, "sasl.oauthbearer.token.provider": lambda: bearer + "x"},
    )
    for settings in wrong:
        with pytest.raises(KafkaError), Admin(settings) as admin:
            admin.list_topics()
    return tokens


def described(node: SecuredOttla) -> bytes:
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        return repr(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")])).encode()
