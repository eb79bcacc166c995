"""Clients in Go (franz-go, sarama) and Node (kafkajs) on secured listeners: TLS with passwords, tokens, certificates.

Like test_other_languages.py, from whose cache the programs come: OTTLA_INTEROP_ALL=1 (`make interop`) runs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.secured_kafka import FILES
from tests.interop.secured_ottla import MECHANISMS, SecuredOttla, running_ottla
from tests.interop.test_other_languages import HERE, go_programs, node_folder
from tests.signed_tokens import SigningKey, key_set

__all__ = ["go_programs", "node_folder"]
pytestmark = [
    pytest.mark.skipif(
        os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="Go and Node clients: only with `make interop`"
    ),
    pytest.mark.timeout(900),
]
KEY = SigningKey("one")
STRANGER = SigningKey("one")
LOGINS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "CERTIFICATE"]
CLIENTS = ["franzsecured", "saramasecured", "kafkajs_secured"]
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CERTIFIED = "CN=client"


class ProgramFailed(Exception):
    """A client's program ended with an error; what it printed."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    keys = tmp_path_factory.mktemp("keys") / "jwks.json"
    keys.write_bytes(key_set(KEY.entry()))
    prefix = "listener.name.sasl_ssl.oauthbearer."
    oauth = "org.apache.kafka.common.security.oauthbearer."
    with running_ottla(
        tmp_path_factory.mktemp("secured") / "data",
        protocols=("SASL_SSL", "SSL"),
        users={"bob": "bob-secret"},
        plain_users={"bob": "bob-secret"},
        mechanisms=f"{MECHANISMS},OAUTHBEARER",
        properties={
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:ANONYMOUS;User:bob;User:carol;User:{CERTIFIED}",
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^(CN=[^,]*).*$/$1/",
            prefix + "sasl.jaas.config": oauth + "OAuthBearerLoginModule required;",
            prefix + "sasl.server.callback.handler.class": oauth + "OAuthBearerValidatorCallbackHandler",
            prefix + "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
            "sasl.oauthbearer.expected.audience": "kafka",
        },
    ) as running:
        yield running
        assert "a bug" not in running.log.read_text()


@pytest.fixture(params=CLIENTS)
def run(request: pytest.FixtureRequest, node: SecuredOttla) -> Callable[[str, str], str]:
    """(login, secret) -> what the program says: ok or refused."""
    client: str = request.param
    if client == "kafkajs_secured":
        folder: Path = request.getfixturevalue("node_folder")
        shutil.copy(HERE / "node" / f"{client}.js", folder)
        command = ["node", f"{client}.js"]
    else:
        folder = request.getfixturevalue("go_programs")
        command = [str(folder / client)]

    def run(login: str, secret: str) -> str:
        address = node.address("SSL" if login == "CERTIFICATE" else "SASL_SSL")
        named = login.lower() if client == "kafkajs_secured" else login
        ended = subprocess.run(
            [*command, address, str(FILES / "ca.pem"), named, "bob", secret],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if ended.returncode:
            raise ProgramFailed(ended.stdout[-2000:] + ended.stderr[-2000:])
        return ended.stdout.strip()

    return run


def secret(login: str, *, is_right: bool = True) -> str:
    if login == "CERTIFICATE":
        return str(FILES / "client.pem")
    if login == "OAUTHBEARER":
        now = int(time.time())
        return (KEY if is_right else STRANGER).token({"sub": "carol", "aud": "kafka", "iat": now, "exp": now + 600})
    return "bob-secret" if is_right else "wrong"


@pytest.mark.parametrize("login", LOGINS)
def test_a_record_goes_there_and_back(run: Callable[[str, str], str], login: str) -> None:
    assert run(login, secret(login)) == "ok"


@pytest.mark.parametrize("login", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused(run: Callable[[str, str], str], login: str) -> None:
    assert run(login, secret(login, is_right=False)) == "refused"


def test_a_forged_token_is_refused(node: SecuredOttla, run: Callable[[str, str], str]) -> None:
    """franz-go and kafkajs take the broker's first answer, which says why (RFC 7628), for an error of their own."""
    before = node.count("failed_authentication_total", "SASL_SSL")
    try:
        said = run("OAUTHBEARER", secret("OAUTHBEARER", is_right=False))
    except ProgramFailed as failure:
        said = str(failure)
    assert "refused" in said or "unexpected data in oauth response" in said or "Closed connection" in said
    until = time.monotonic() + 30
    while node.count("failed_authentication_total", "SASL_SSL") == before and time.monotonic() < until:
        time.sleep(0.05)  # a login that the client left ends a moment later
    assert node.count("failed_authentication_total", "SASL_SSL") > before
