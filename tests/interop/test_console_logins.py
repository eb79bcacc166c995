"""Logins of the console with the cluster's own users: the user's principal does the work, so ACLs are the roles."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ottla.client.admin import Acl, AclOperation, AclResource
from ottla.client.blocking import Admin, Producer
from tests.interop.console_process import Browser, console
from tests.interop.secured_ottla import SecuredOttla

pytestmark = pytest.mark.interop
USERS = {"ada": "ada-secret", "bob": "bob-secret"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    folder = tmp_path_factory.mktemp("console-logins")
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    made = SecuredOttla(folder / "data", users=USERS, properties=properties)
    made.start()
    with Admin(bootstrap_servers=made.bootstrap) as admin:
        for name in ("orders", "secrets"):
            admin.create_topic(name, 1)
        rules = [
            Acl(AclResource.TOPIC, "orders", "User:ada", operation)
            for operation in (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.WRITE)
        ]
        admin.create_acls([*rules, Acl(AclResource.CLUSTER, "kafka-cluster", "User:ada", AclOperation.DESCRIBE)])
    with Producer(bootstrap_servers=made.bootstrap) as producer:
        producer.send("orders", b"seen").result()
        producer.send("secrets", b"not seen").result()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def login_config(tmp_path_factory: pytest.TempPathFactory) -> str:
    config = tmp_path_factory.mktemp("console-config") / "client.properties"
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(config)


@pytest.fixture(scope="module")
def url(node: SecuredOttla, login_config: str) -> Iterator[str]:
    bootstrap = f"127.0.0.1:{node.ports['SASL_PLAINTEXT']}"
    with console(bootstrap, "--login", "--command-config", login_config) as found:
        yield found


def logged_in(url: str, user: str) -> Browser:
    browser = Browser(url)
    status, browser.session = browser.ask("POST", "/api/login", {"username": user, "password": USERS[user]})
    assert (status, browser.session["login"], browser.session["user"]) == (200, "done", f"User:{user}")
    return browser


def test_nothing_without_login(url: str) -> None:
    browser = Browser(url)
    assert (browser.session["login"], browser.session["clusters"]) == ("required", [])
    assert browser.refused("GET", "topics") == (401, "LOGIN_REQUIRED")
    assert browser.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})[0] == 401


def test_acls_are_the_roles(url: str) -> None:
    ada, bob = logged_in(url, "ada"), logged_in(url, "bob")
    assert [one["name"] for one in ada.get("topics")["topics"]] == ["orders"]
    assert [one["value"]["text"] for one in ada.records(topic="orders")] == ["seen"]
    assert ada.refused("POST", "search", {"topic": "secrets"})[0] == 403
    assert ada.refused("POST", "topics", {"name": "new"})[0] == 403
    ada.post("topics/orders/produce", {"records": [{"value": {"text": "of ada"}}]})
    assert bob.refused("POST", "search", {"topic": "orders"})[0] == 403
    assert bob.refused("POST", "topics/orders/produce", {"records": [{"value": {"text": "of bob"}}]})[0] == 403
    # what one user's jobs and cookies are is not the other's
    assert ada.get("jobs") == {"jobs": []}
    ada.ask("POST", "/api/logout", {})
    assert ada.refused("GET", "topics")[0] == 401


def test_a_session_of_before_the_login_is_worth_nothing(url: str) -> None:
    browser = Browser(url)
    before = dict(browser.cookies)
    browser.ask("POST", "/api/login", {"username": "ada", "password": USERS["ada"]})
    assert browser.cookies != before
    browser.cookies = before
    assert browser.refused("GET", "topics")[0] == 401


def test_failed_logins_wait(url: str) -> None:
    browser = Browser(url)
    began = time.monotonic()
    for _ in range(2):
        status, found = browser.ask("POST", "/api/login", {"username": "eve", "password": "guess"})
        assert (status, found["error"]["code"]) == (401, "LOGIN_FAILED")
        assert "guess" not in str(found)
    assert time.monotonic() - began > 3


def test_assistants_log_in_too(url: str) -> None:
    browser = Browser(url)
    basic = base64.b64encode(f"ada:{USERS['ada']}".encode()).decode()
    call = {"name": "search_messages", "arguments": {"topic": "secrets"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    status, found = browser.ask("POST", "/mcp", message, {"Authorization": f"Basic {basic}"})
    assert status == 200 and found["result"]["isError"]
    assert "AUTHORIZATION_FAILED" in found["result"]["content"][0]["text"]


def test_a_page_that_was_logged_out_learns_nothing_more(url: str) -> None:
    browser = logged_in(url, "ada")

    async def run() -> None:
        async with browser.live() as socket:
            await socket.send_json({"type": "hello", "csrf": browser.session["csrf"]})
            await socket.send_json({"type": "watch", "id": "w", "what": "topics", "every_ms": 1000})
            assert (await socket.receive_json(timeout=30))["type"] == "data"
            await asyncio.to_thread(browser.ask, "POST", "/api/logout", {})
            while (message := await socket.receive(timeout=30)).type is aiohttp.WSMsgType.TEXT:
                pass
            assert message.data == 1008, message

    asyncio.run(run())


def test_a_login_is_small(url: str) -> None:
    browser = Browser(url)
    asked = {"username": "ada", "password": "x" * 20_000}
    assert browser.ask("POST", "/api/login", asked)[0] == 413


def test_users_reach_a_registry_as_the_acls_of_topics_say(node: SecuredOttla, login_config: str) -> None:
    """The registry knows the console alone: without these checks every user could do what the console can."""
    command = [sys.executable, "-m", "ottla", "registry", "--port", "0", "-b", node.bootstrap]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as registry:
        try:
            assert registry.stderr is not None
            found = next(one for line in registry.stderr if (one := re.search(r"http://\S+", line)))
            post(found.group(), "orders-value")
            post(found.group(), "secrets-value")
            bootstrap = f"127.0.0.1:{node.ports['SASL_PLAINTEXT']}"
            arguments = ("--login", "--command-config", login_config, "--registry", found.group())
            with console(bootstrap, *arguments) as url:
                ada = logged_in(url, "ada")
                assert [one["subject"] for one in ada.get("schemas")["subjects"]] == ["orders-value"]
                assert ada.get("schemas/orders-value")["versions"][0]["version"] == 1
                assert ada.refused("GET", "schemas/secrets-value")[0] == 404
                body = {"schema": '"string"', "type": "AVRO"}
                assert ada.refused("POST", "schemas/secrets-value/check", body)[0] == 404
                assert ada.refused("POST", "schemas/orders-value", body) == (403, "FORBIDDEN")
                gone = {"confirm": "orders-value"}
                assert ada.refused("POST", "schemas/orders-value/delete", gone) == (403, "FORBIDDEN")
                level = {"level": "NONE"}
                assert ada.refused("POST", "schemas/orders-value/compatibility", level) == (403, "FORBIDDEN")
        finally:
            registry.terminate()
            registry.communicate(timeout=30)


def post(registry: str, subject: str) -> None:
    body = json.dumps({"schema": '"long"'}).encode()
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{registry}/subjects/{subject}/versions", body, headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert answer.status == 200


def test_a_console_beyond_this_machine_needs_logins(tmp_path: Path, node: SecuredOttla) -> None:
    refused = pytest.raises(AssertionError, match="logins are the cluster's own")
    with refused, console(node.bootstrap, "--host", "0.0.0.0"):
        pass


def test_acls_users_and_why_something_is_denied(node: SecuredOttla) -> None:
    with console(node.bootstrap) as url:
        browser = Browser(url)
        rows = browser.get("access?resource=TOPIC&name=orders")["principals"]
        ada = next(one for one in rows if one["principal"] == "User:ada")
        allowed = {one["operation"] for one in ada["operations"] if one["permission"] == "ALLOW"}
        assert allowed == {"READ", "WRITE", "DESCRIBE"}
        question = {"principal": "User:bob", "operation": "READ", "resource": "TOPIC", "name": "orders"}
        assert not browser.post("explain", question)["is_allowed"]
        acl = {**question, "permission": "ALLOW", "host": "*", "pattern": "LITERAL"}
        browser.post("acls", {"acls": [acl]})
        found = browser.post("explain", question)
        assert found["is_allowed"] and found["acls"][0]["acl"] == acl
        assert acl in browser.get("acls")["acls"]
        assert browser.refused("POST", "acls/delete", {"acls": [acl]}) == (409, "CONFIRM")
        assert browser.post("acls/delete", {"acls": [acl], "preview": True})["preview"]["acls"] == [acl]
        browser.post("acls/delete", {"acls": [acl], "confirm": "delete"})
        assert acl not in browser.get("acls")["acls"]
        browser.post("users", {"user": "carl", "password": "carl-secret"})
        users = {one["user"]: one for one in browser.get("users")["users"]}
        assert users["carl"]["mechanisms"][0]["mechanism"] == "SCRAM-SHA-512"
        assert users["ada"]["acl_count"] == 4
        browser.post("users/carl/delete", {"confirm": "carl"})
        assert "carl" not in [one["user"] for one in browser.get("users")["users"]]
        wrong: Any
        for wrong in ({"acls": []}, {"acls": [{**acl, "operation": "FLY"}]}, {"acls": [{**acl, "resource": "ANY"}]}):
            assert browser.refused("POST", "acls", wrong) == (400, "INVALID")
