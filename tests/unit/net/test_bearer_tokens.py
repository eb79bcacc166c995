"""Tokens from an authorization server whose answers are given here."""

from __future__ import annotations

import io
import json
import ssl
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs
from urllib.request import BaseHandler, OpenerDirector, Request
from urllib.response import addinfourl

import pytest

from ottla.client.config import ClientConfig
from ottla.client.errors import AuthenticationError, ConfigError, is_retriable
from ottla.client.logins import new_token
from ottla.net.bearer_tokens import NoToken, SignedAssertion, TokenEndpoint, TokenFile
from ottla.security.assertion import AssertionRules

URL = "https://user:pw@login.test/token?tenant=1"
Answer = Callable[[], addinfourl]


def answer(body: object, status: int = 200) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda: addinfourl(io.BytesIO(content), Message(), URL, status)


def silent() -> addinfourl:
    raise ConnectionRefusedError("no server there")


def refused() -> addinfourl:
    raise HTTPError(URL, 401, "hush", Message(), io.BytesIO(b"hush"))


class Login(BaseHandler):
    """The server; it notes what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[Request] = []
        self._answers = list(answers)

    def https_open(self, request: Request) -> addinfourl:
        self.requests.append(request)
        return self._answers.pop(0)()


def endpoint(
    monkeypatch: pytest.MonkeyPatch, login: Login, clock: Callable[[], float], **settings: Any
) -> TokenEndpoint:
    def opener(_: TokenEndpoint) -> OpenerDirector:
        made = OpenerDirector()
        made.add_handler(login)
        return made

    monkeypatch.setattr(TokenEndpoint, "_opener", opener)
    return TokenEndpoint(URL, "client 1", "hush+/", "kafka", ssl.create_default_context, clock=clock, **settings)


def basic_pair(request: Request) -> bytes:
    kind, _, pair = str(request.get_header("Authorization")).partition(" ")
    assert kind == "Basic"
    return b64decode(pair)


def test_a_token_is_asked_for_once_and_again_when_most_of_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    login = Login(
        answer({"access_token": "one", "expires_in": 100}), answer({"access_token": "two", "expires_in": "100"})
    )
    tokens = endpoint(monkeypatch, login, lambda: now[0])
    assert [tokens(), tokens()] == ["one", "one"]
    now[0] = 79.0
    assert tokens() == "one"
    now[0] = 80.0
    assert [tokens(), tokens()] == ["two", "two"]
    request = login.requests[0]
    assert request.data == b"grant_type=client_credentials&scope=kafka"
    assert basic_pair(request) == b"client 1:hush+/"


def test_id_and_secret_are_encoded_if_the_server_wants_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """As java.net.URLEncoder does it, and not by default: as Kafka's clients."""
    login = Login(answer({"access_token": "one"}))
    assert endpoint(monkeypatch, login, lambda: 0.0, is_url_encoded=True)() == "one"
    assert basic_pair(login.requests[0]) == b"client+1:hush%2B%2F"


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        (refused, AuthenticationError, r"gives client 'client 1' no token \(HTTP 401\)"),
        (answer({}, 302), AuthenticationError, "HTTP 302"),
        (answer({}, 503), NoToken, "HTTP 503"),
        (silent, NoToken, "no server there"),
        (answer(b"<html>"), AuthenticationError, "holds no access_token"),
        (answer([1]), AuthenticationError, "holds no access_token"),
        (answer({"access_token": 5}), AuthenticationError, "holds no access_token"),
        (answer({"access_token": "a\x01b"}), AuthenticationError, "holds no access_token"),
        (answer({"access_token": "a", "expires_in": "soon"}), AuthenticationError, "holds no access_token"),
        (answer({"access_token": "a", "expires_in": "NaN"}), AuthenticationError, "holds no access_token"),
        (answer(b'{"access_token": "a", "expires_in": Infinity}'), AuthenticationError, "holds no access_token"),
    ],
)
def test_a_server_that_gives_none(
    monkeypatch: pytest.MonkeyPatch, given: Answer, kind: type[Exception], expected: str
) -> None:
    with pytest.raises(kind, match=expected) as failed:
        endpoint(monkeypatch, Login(given), lambda: 0.0)()
    assert "hush" not in str(failed.value)
    assert "pw@" not in str(failed.value)
    assert is_retriable(failed.value) == (kind is NoToken)


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        (lambda: 1 / 0, "raised ZeroDivisionError"),
        (lambda: None, "returned a NoneType"),
        (lambda: "", "returned a str"),
    ],
)
def test_a_function_that_gives_no_token(provider: Any, expected: str) -> None:
    config = ClientConfig.parse(
        {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
        {"sasl_oauthbearer_token_provider": provider},
    )
    with pytest.raises(AuthenticationError, match=expected):
        new_token(config.credentials())


def test_a_token_from_a_file_is_read_before_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = TokenFile(str(file))
    with pytest.raises(NoToken, match="No such file"):
        token()
    file.write_text("one\n")
    assert token() == "one"
    file.write_text("two")
    assert token() == "two"
    file.write_bytes(b"hush\x00")
    with pytest.raises(AuthenticationError, match="holds no token") as failed:
        token()
    assert "hush" not in str(failed.value)


# Assertions

RETRIEVER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"


def form_of(request: Request) -> dict[str, list[str]]:
    assert isinstance(request.data, bytes)
    return parse_qs(request.data.decode())


def decoded(part: str) -> Any:
    return json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_token_is_got_for_an_assertion_that_the_client_signs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, algorithm: str
) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    from ottla.security import asymmetric

    key = rsa.generate_private_key(65537, 2048) if algorithm == "RS256" else asymmetric.new_key()
    key_file, template = tmp_path / "key.pem", tmp_path / "template.json"
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hush")))
    template.write_text(json.dumps({"header": {"kid": "k1"}, "payload": {"tenant": 7, "iss": "elsewhere"}}))
    config = ClientConfig.parse(
        {
            "bootstrap.servers": "broker.test:9092",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": URL,
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.jwt.retriever.class": RETRIEVER,
            "sasl.oauthbearer.assertion.algorithm": algorithm,
            "sasl.oauthbearer.assertion.private.key.file": str(key_file),
            "sasl.oauthbearer.assertion.private.key.passphrase": "hush",
            "sasl.oauthbearer.assertion.template.file": str(template),
            "sasl.oauthbearer.assertion.claim.iss": "me",
            "sasl.oauthbearer.assertion.claim.jti.include": "true",
        }
    )
    login = Login(answer({"access_token": "one"}))
    endpoint(monkeypatch, login, lambda: 0.0)
    assert new_token(config.credentials()) == "one"
    (request,) = login.requests
    assert request.get_header("Authorization") is None and "hush" not in repr(config)
    form = form_of(request)
    assert (form["grant_type"], form["scope"]) == (["urn:ietf:params:oauth:grant-type:jwt-bearer"], ["kafka"])
    header, payload, signature = form["assertion"][0].split(".")
    assert decoded(header) == {"kid": "k1", "alg": algorithm, "typ": "JWT"}
    claims = decoded(payload)
    assert (claims["iss"], claims["tenant"], bool(claims["jti"])) == ("me", 7, True)
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (300, 60)
    signed = urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    assert asymmetric.is_signed(key.public_key(), algorithm, f"{header}.{payload}".encode(), signed)


def test_an_assertion_may_come_from_a_file_and_a_refusal_says_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "assertion"
    file.write_text("hush.hush.hush\n")
    login = Login(answer({"access_token": "one"}), refused)
    tokens = endpoint(monkeypatch, login, lambda: 0.0, assertion=TokenFile(str(file)))
    assert tokens() == "one" and form_of(login.requests[0])["assertion"] == ["hush.hush.hush"]
    with pytest.raises(AuthenticationError, match="no token for the assertion") as failed:
        endpoint(monkeypatch, login, lambda: 0.0, assertion=TokenFile(str(file)))()
    assert "hush" not in str(failed.value)


def test_keys_and_templates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    from ottla.security import asymmetric

    key, template = tmp_path / "key.pem", tmp_path / "template.json"
    key.write_text(asymmetric.key_text(asymmetric.new_key()))
    for rules, template_text, message in (
        (AssertionRules("RS256"), "{}", "key.pem: RS256 needs an RSA key"),
        (AssertionRules("ES256"), "[]", "template.json: it is not"),
        (AssertionRules("ES256"), "{", "template.json: it is not JSON"),
    ):
        template.write_text(template_text)
        with pytest.raises(AuthenticationError, match=message):
            SignedAssertion(rules, str(key), None, str(template))()
    with pytest.raises(NoToken, match=r"other\.pem"):
        SignedAssertion(AssertionRules(), str(tmp_path / "other.pem"))()
    key.write_text("hush")
    with pytest.raises(AuthenticationError, match="holds no private key") as failed:
        SignedAssertion(AssertionRules(), str(key))()
    assert "hush" not in str(failed.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl.oauthbearer.jwt.retriever.class": RETRIEVER}, "needs sasl.oauthbearer.assertion.file"),
        ({"sasl.oauthbearer.assertion.file": "/a"}, "sasl.oauthbearer.jwt.retriever.class="),
        (
            {"sasl.oauthbearer.jwt.retriever.class": RETRIEVER, "sasl.oauthbearer.assertion.file": "/a"},
            "needs sasl.oauthbearer.token.endpoint.url",
        ),
        ({"sasl.oauthbearer.jwt.retriever.class": "com.example.Mine"}, "jwt.retriever.class"),
    ],
)
def test_settings_of_assertions_that_do_not_go_together_are_refused(settings: dict[str, str], message: str) -> None:
    secured = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    with pytest.raises(ConfigError, match=message):
        ClientConfig.parse({"bootstrap.servers": "broker.test:9092", **secured, **settings})
