"""Tokens from an authorization server whose answers are given here."""

from __future__ import annotations

import io
import json
import ssl
from base64 import b64decode
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import BaseHandler, OpenerDirector, Request
from urllib.response import addinfourl

import pytest

from ottla.client.config import ClientConfig
from ottla.client.errors import AuthenticationError, is_retriable
from ottla.client.logins import new_token
from ottla.net.bearer_tokens import NoToken, TokenEndpoint, TokenFile

URL = "https://user:pw@login.test/token?tenant=1"
Answer = Callable[[], addinfourl]


def answer(body: object, status: int = 200) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda: addinfourl(io.BytesIO(content), Message(), URL, status)


def silent() -> addinfourl:
    raise ConnectionRefusedError("nobody there")


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
        (silent, NoToken, "nobody there"),
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
