"""Logins at the registry and what Kafka's ACLs allow there."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable
from typing import Any

import pytest

from ottla.registry.access import Caller, Credentials, Need, credentials_of, needs_of
from ottla.registry.faults import Fault
from ottla.registry.logins import MAX_WAITING_PER_ADDRESS, Logins, User
from ottla.registry.rest import Request
from ottla.registry.server import may_forward
from ottla.security.authorizer import StandardAuthorizer
from ottla.wire.acls import AclOperation, AclResource, PatternType, Permission
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord
from tests.unit.registry.requests import Registry

DESCRIBE, WRITE, DELETE = AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.DELETE
READ_CONFIGS, WRITE_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
CLUSTER = "kafka-cluster"


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    "headers",
    [[], ["Basic"], ["Bearer abc"], [basic("alice")], [basic(":x")], ["Basic !"], [basic("a:b"), basic("a:b")],
     [basic("a:" + "x" * 5000)], ["Basic /////w=="], [basic("a\0:b")]],
)  # fmt: skip
def test_anything_but_one_header_with_user_and_password_is_no_login(headers: list[str]) -> None:
    assert credentials_of(headers) is None


def test_a_password_may_have_colons_and_is_not_shown() -> None:
    found = credentials_of([basic("alice:a:b")])
    assert found == Credentials("alice", "a:b")
    assert "a:b" not in repr(found)


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/subjects/orders-value/versions", None, [(DESCRIBE, "orders")]),
        ("GET", "//subjects//orders-value/versions/1/schema", None, [(DESCRIBE, "orders")]),
        ("GET", "/subjects/%6frders-key", None, [(DESCRIBE, "orders")]),
        ("POST", "/subjects/orders-value", {}, [(DESCRIBE, "orders")]),
        ("POST", "/subjects/orders-value/versions", {}, [(WRITE, "orders")]),
        ("POST", "/compatibility/subjects/com.shop.Order/versions", {}, [(DESCRIBE, "com.shop.Order")]),
        ("DELETE", "/subjects/orders-value/versions/1", None, [(DELETE, "orders")]),
        ("DELETE", "/contexts/eu/subjects/orders-value", None, [(DELETE, ":.eu:orders")]),
        ("POST", "/subjects/a-value/versions", {"references": [{"subject": "b-value"}, 7]},
         [(WRITE, "a"), (DESCRIBE, "b")]),
        ("POST", "/subjects/-value/versions", {}, [(WRITE, "-value")]),
        ("GET", "/config/orders-value", None, [(READ_CONFIGS, "orders")]),
        ("PUT", "/mode/orders-value", None, [(WRITE_CONFIGS, "orders")]),
        ("PUT", "/config", None, [(WRITE_CONFIGS, CLUSTER)]),
        ("PUT", "/config/:.eu:", None, [(WRITE_CONFIGS, CLUSTER)]),
        ("DELETE", "/contexts/eu", None, [(AclOperation.ALTER, CLUSTER)]),
        ("POST", "/associations", {}, [(AclOperation.ALTER, CLUSTER)]),
        ("GET", "/subjects", None, []),
        ("GET", "/schemas/ids/1", None, []),
        ("POST", "/subjects/alias/versions", {}, [(WRITE, "orders")]),
    ],
)  # fmt: skip
def test_requests_need_acls_of_the_topic(method: str, path: str, body: Any, expected: list[Any]) -> None:
    registry = Registry()
    registry.ask("PUT", "/config/alias", {"alias": "orders-value"})
    found = needs_of(registry.state, Request(method, path, {}, body))
    assert [(one.operation, one.name) for one in found] == expected


@pytest.mark.parametrize("path", ["/subjects/../config", "/subjects/%2e%2e/config", "/./config"])
def test_a_path_with_dots_is_not_found(path: str) -> None:
    with pytest.raises(Fault) as caught:
        needs_of(Registry().state, Request("PUT", path))
    assert caught.value.status == 404


def caller(*acls: tuple[str, AclOperation, str]) -> Caller:
    authorizer = StandardAuthorizer()
    authorizer.replace(
        AccessControlEntryRecord(
            id=number.to_bytes(16, "big"), resource_type=AclResource.TOPIC, resource_name=name,
            pattern_type=PatternType.LITERAL, principal=f"User:{user}", host="*", operation=operation,
            permission_type=Permission.ALLOW,
        )
        for number, (user, operation, name) in enumerate(acls)
    )  # fmt: skip
    return Caller(authorizer, "alice", "127.0.0.1")


def test_reading_and_writing_are_apart() -> None:
    found = caller(("alice", AclOperation.READ, "orders"), ("bob", WRITE, "orders"))
    found.check([Need(DESCRIBE, AclResource.TOPIC, "orders")])
    with pytest.raises(Fault, match="WRITE on Topic: orders"):
        found.check([Need(WRITE, AclResource.TOPIC, "orders")])


def test_listings_and_ids_show_what_the_caller_may_read() -> None:
    registry = Registry()
    registry.register("orders-value", '"int"')
    registry.register("secret-value", '"string"')
    sees = caller(("alice", WRITE, "orders")).sees

    def ask(path: str) -> Any:
        return registry.rest.answer(Request("GET", path, sees=sees)).reply

    assert ask("/subjects") == ["orders-value"]
    assert [one["subject"] for one in ask("/schemas")] == ["orders-value"]
    assert ask("/schemas/ids/1")["schema"] == '"int"'
    for path in ("/schemas/ids/2", "/schemas/ids/2/schema", "/schemas/ids/2/subjects"):
        with pytest.raises(Fault) as caught:
            ask(path)
        assert caught.value.status == 403


class Cluster:
    """A cluster that has the password `right`, and counts logins."""

    def __init__(self) -> None:
        self.login_count = 0
        self.delays: list[float] = []

    async def login(self, given: Credentials) -> User | None:
        self.login_count += 1
        await asyncio.sleep(0)
        return User(given.user) if given.password == "right" else None

    def sleep(self, seconds: float) -> Awaitable[None]:
        self.delays.append(seconds)
        return asyncio.sleep(0)


def test_a_login_counts_for_a_minute_and_failures_wait_longer_and_longer() -> None:
    async def run() -> None:
        cluster = Cluster()
        logins = Logins(cluster.login, sleep=cluster.sleep)
        right, wrong = [basic("alice:right")], [basic("alice:wrong")]
        assert await asyncio.gather(*(logins.user_of(right, "a", 0.0) for _ in range(20))) == [User("alice")] * 20
        assert await logins.user_of(right, "a", 59.0) == User("alice")
        assert cluster.login_count == 1
        assert await logins.user_of(right, "a", 61.0) == User("alice")
        assert cluster.login_count == 2
        for _ in range(7):
            with pytest.raises(Fault) as caught:
                await logins.user_of(wrong, "a", 61.0)
            assert caught.value.status == 401
        assert cluster.delays == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]

    asyncio.run(run())


def test_few_logins_of_an_address_are_checked_at_once() -> None:
    async def run() -> None:
        cluster = Cluster()
        logins = Logins(cluster.login, sleep=cluster.sleep)
        asked = [logins.user_of([basic(f"alice:{number}")], "a", 0.0) for number in range(MAX_WAITING_PER_ADDRESS + 3)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert (
            sorted(one.status for one in found if isinstance(one, Fault)) == [401] * MAX_WAITING_PER_ADDRESS + [429] * 3
        )
        assert await logins.user_of([basic("bob:right")], "a", 0.0) == User("bob")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("leader", "own", "may"),
    [
        ("https://other:8081", "https://this:8081", True),
        ("http://evil:8081", "https://this:8081", False),
        ("HTTP://evil:8081", "https://this:8081", False),
        ("file:///etc/passwd", "http://this:8081", False),
        ("http://other:8081", "http://this:8081", True),
    ],
)
def test_cve_2026_105941_passwords_go_to_no_address_that_a_member_of_the_group_made_up(
    leader: str, own: str, may: bool
) -> None:
    assert may_forward(leader, own) is may
