"""Logins of the console by OpenID Connect: a token logs in to the brokers, so the user's principal does the work."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ottla.client.admin import Acl, AclOperation, AclResource
from ottla.client.blocking import Admin
from tests.interop.console_process import Browser, console
from tests.interop.oidc_issuer import CLIENT, Issuer
from tests.interop.secured_ottla import SecuredOttla
from tests.signed_tokens import SigningKey, key_set

pytestmark = pytest.mark.interop
KEY = SigningKey("one")
_OAUTH = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    folder = tmp_path_factory.mktemp("console-oidc")
    jwks = folder / "jwks.json"
    jwks.write_bytes(key_set(KEY.entry()))
    prefix = "listener.name.sasl_plaintext.oauthbearer."
    properties = {
        prefix + "sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        prefix + "sasl.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        prefix + "sasl.oauthbearer.jwks.endpoint.url": f"file://{jwks}",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.expected.audience": "kafka",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    made = SecuredOttla(folder / "data", mechanisms="OAUTHBEARER", properties=properties)
    made.start()
    with Admin(bootstrap_servers=made.bootstrap) as admin:
        for name in ("orders", "secrets"):
            admin.create_topic(name, 1)
        admin.create_acls([Acl(AclResource.TOPIC, "orders", "User:carol", AclOperation.DESCRIBE)])
    yield made
    made.stop()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer(KEY)
    yield made
    made.close()


@pytest.fixture
def url(node: SecuredOttla, issuer: Issuer, tmp_path: Path) -> Iterator[str]:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n")
    arguments = ["--oidc-issuer", issuer.url, "--oidc-client-id", CLIENT, "--command-config", str(config)]
    with console(node.address(), *arguments) as found:
        yield found


class Stays(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def way_back(location: str) -> dict[str, str]:
    """What the issuer sends the browser back with."""
    with pytest.raises(urllib.error.HTTPError) as answer:
        urllib.request.build_opener(Stays).open(location, timeout=30)
    assert answer.value.code == 302
    back = urlsplit(answer.value.headers["Location"])
    answer.value.close()
    assert back.path == "/login/callback"
    return {name: values[0] for name, values in parse_qs(back.query).items()}


def begun(browser: Browser) -> dict[str, str]:
    status, found = browser.ask("POST", "/api/login", {"oidc": True})
    assert status == 200, found
    return way_back(found["location"])


def logged_in(url: str) -> Browser:
    browser = Browser(url)
    status, browser.session = browser.ask("POST", "/api/login", begun(browser))
    assert (status, browser.session["user"]) == (200, "User:carol"), browser.session
    return browser


def test_a_token_of_the_issuer_is_the_users_principal(url: str) -> None:
    fresh = Browser(url)
    assert (fresh.session["login"], fresh.session["oidc"], fresh.session["mechanisms"]) == ("required", True, [])
    assert fresh.refused("GET", "topics") == (401, "LOGIN_REQUIRED")
    assert fresh.ask("POST", "/api/login", {"username": "carol", "password": "x"})[0] == 400
    browser = logged_in(url)
    assert [one["name"] for one in browser.get("topics")["topics"]] == ["orders"]
    assert browser.refused("POST", "topics", {"name": "new"})[0] == 403
    assert logged_in(url).get("topics")["topics"]
    assert browser.get("topics")["topics"], "a second login of the same user leaves the first one as it is"


def test_an_answer_that_this_session_did_not_ask_for_is_refused(url: str) -> None:
    browser, other = Browser(url), Browser(url)
    answer = begun(browser)
    for body in (answer | {"state": "x"}, answer | {"state": ""}, {"code": answer["code"]}):
        assert browser.ask("POST", "/api/login", body)[1]["error"]["code"] == "LOGIN_FAILED"
    answer = begun(browser)
    assert other.ask("POST", "/api/login", answer)[1]["error"]["code"] == "LOGIN_FAILED"
    assert browser.ask("POST", "/api/login", answer | {"code": "guess"})[1]["error"]["code"] == "LOGIN_FAILED"
    assert browser.ask("POST", "/api/login", answer)[1]["error"]["code"] == "LOGIN_FAILED", "an answer counts once"
    assert browser.ask("POST", "/api/login", {"code": 5})[0] == 400
    assert browser.refused("GET", "topics") == (401, "LOGIN_REQUIRED")


def test_tokens_are_renewed_until_the_issuer_refuses(url: str, issuer: Issuer) -> None:
    issuer.lifetime_s = 0.2
    browser = logged_in(url)
    while issuer.refresh_count < 3:
        assert browser.get("topics")["topics"]
        time.sleep(0.1)
    issuer.is_revoked = True
    while browser.ask("GET", "/api/clusters/local/topics")[0] == 200:
        time.sleep(0.1)
    assert browser.refused("GET", "topics") == (401, "LOGIN_REQUIRED")


def test_a_token_that_the_brokers_refuse_opens_no_session(url: str, issuer: Issuer) -> None:
    issuer.key = SigningKey("one")
    browser = Browser(url)
    status, found = browser.ask("POST", "/api/login", begun(browser))
    assert (status, found["error"]["code"]) == (401, "LOGIN_FAILED")
    assert "eyJ" not in str(found)


def test_assistants_carry_tokens_of_their_own(url: str, issuer: Issuer) -> None:
    browser = Browser(url)
    call = {"name": "list_topics", "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    for _ in range(2):
        status, found = browser.ask("POST", "/mcp", message, {"Authorization": f"Bearer {issuer.token()}"})
        assert status == 200 and "orders" in str(found) and "secrets" not in str(found), found
    forged = SigningKey("one").token({"sub": "carol", "iss": "https://issuer", "aud": "kafka", "exp": 2**33})
    for token in (forged, issuer.token(aud="other"), "a.b.c", "", "x" * 100_000):
        status, found = browser.ask("POST", "/mcp", message, {"Authorization": f"Bearer {token[:4_000]}"})
        assert status == 401, found
