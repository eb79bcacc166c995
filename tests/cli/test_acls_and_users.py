"""`ottla acls` and `ottla users` on a cluster with an authorizer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Ottla
from tests.interop.conftest import new_server
from tests.interop.servers import Server

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = new_server(tmp_path_factory.mktemp("acls") / "data", SETTINGS)
    server.start()
    yield server
    server.stop()


def rules(ottla: Ottla, *arguments: str) -> list[str]:
    """Rules as `permission operation resource:name pattern host`, read again until the broker knows them."""
    rows = json.loads(ottla("acls", "list", *arguments, "-o", "json").out)
    return [
        " ".join([row["permission"], row["operation"], f"{row['resource']}:{row['name']}", row["pattern"], row["host"]])
        for row in rows
    ]


def eventually(ottla: Ottla, expected: list[str], *arguments: str) -> None:
    """Apache Kafka's brokers learn a moment later what the controller has written."""
    import time

    ends_at = time.monotonic() + 30
    while rules(ottla, *arguments) != expected and time.monotonic() < ends_at:
        time.sleep(0.1)
    assert rules(ottla, *arguments) == expected


def test_a_rule_is_granted_listed_and_revoked(ottla: Ottla) -> None:
    said = ottla("acls", "grant", "alice", "read,write", "topic", "orders")
    assert (said.code, said.err) == (0, "User:alice may read topic orders\nUser:alice may write topic orders\n")
    eventually(ottla, ["allow read topic:orders literal *", "allow write topic:orders literal *"], "alice")
    assert ["User:alice", "allow", "read", "topic", "orders", "literal", "*"] in [
        line.split() for line in ottla("acls", "list").lines
    ]
    asked = ottla("acls", "revoke", "alice", "read", "topic", "orders")
    assert (asked.code, "--yes" in asked.err, "User:alice may read topic orders" in asked.err) == (2, True, True)
    assert ottla("acls", "revoke", "alice", "read", "topic", "orders", "--yes").code == 0
    eventually(ottla, ["allow write topic:orders literal *"], "alice")
    again = ottla("acls", "revoke", "alice", "read", "topic", "orders", "--yes")
    assert (again.code, "User:alice may write topic orders" in again.err) == (1, True)
    assert ottla("acls", "revoke", "alice", "all", "topic", "orders", "--yes").code == 0
    eventually(ottla, [], "alice")


def test_prefixes_hosts_denials_and_other_principals(ottla: Ottla) -> None:
    ottla("acls", "grant", "bob", "all", "topic", "shop-", "--prefix")
    ottla("acls", "grant", "bob", "delete", "topic", "shop-orders", "--deny", "--host", "10.0.0.5")
    ottla("acls", "grant", "User:CN=bob,O=shop", "alter-configs", "cluster")
    eventually(
        ottla,
        ["allow all topic:shop- prefixed *", "deny delete topic:shop-orders literal 10.0.0.5"],
        "bob",
    )
    concerning = rules(ottla, "--on", "topic", "shop-orders")
    assert concerning == ["allow all topic:shop- prefixed *", "deny delete topic:shop-orders literal 10.0.0.5"]
    assert rules(ottla, "User:CN=bob,O=shop") == ["allow alter-configs cluster:kafka-cluster literal *"]
    gone = ottla("acls", "revoke", "bob", "--yes", "-o", "json")
    assert [row["permission"] for row in json.loads(gone.out)] == ["allow", "deny"]
    eventually(ottla, [], "bob")
    ottla("acls", "revoke", "User:CN=bob,O=shop", "--yes")


def test_presets_give_what_kafkas_tool_gives(ottla: Ottla) -> None:
    ottla("acls", "grant", "carol", "--producer", "topic", "orders", "--transactional-id", "writer")
    ottla("acls", "grant", "carol", "--consumer", "orders", "--group", "readers")
    expected = [
        "allow read topic:orders literal *",
        "allow write topic:orders literal *",
        "allow create topic:orders literal *",
        "allow describe topic:orders literal *",
        "allow read group:readers literal *",
        "allow write transactional-id:writer literal *",
        "allow describe transactional-id:writer literal *",
    ]
    eventually(ottla, expected, "carol")
    ottla("acls", "revoke", "carol", "--producer", "orders", "--transactional-id", "writer", "--yes")
    eventually(ottla, ["allow read topic:orders literal *", "allow read group:readers literal *"], "carol")
    ottla("acls", "revoke", "carol", "--yes")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["grant", "alice", "raed", "topic", "orders"], "did you mean 'read'?"),
        (["grant", "alice", "read", "topc", "orders"], "did you mean 'topic'?"),
        (["grant", "alice", "read", "topic"], "which topic?"),
        (["grant", "alice", "write", "group", "g"], "a group has no operation write"),
        (["grant", "alice"], "what may alice do?"),
        (["grant", "", "read", "topic", "orders"], "is no user"),
        (["grant", "alice", "read", "topic", "*", "--prefix"], "cannot be the beginning of a name"),
        (["grant", "alice", "--consumer", "topic", "orders"], "--consumer needs --group"),
        (["grant", "alice", "--producer", "topic", "orders", "--deny"], "--deny needs an operation"),
        (["grant", "alice", "read", "topic", "orders", "--group", "g"], "belongs to --producer or --consumer"),
        (["grant", "alice", "alter", "cluster", "prod"], "has no other name"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_nearest_word(
    ottla: Ottla, arguments: list[str], expected: str
) -> None:
    said = ottla("acls", *arguments)
    assert (said.code, expected in said.err) == (2, True), said.err


def test_a_user_is_added_listed_changed_and_removed(ottla: Ottla, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("wonderland\n")
    said = ottla("users", "add", "alice", "--password-file", str(secret))
    assert (said.code, said.err, said.out) == (0, "alice added (SCRAM-SHA-512)\n", "")
    again = ottla("users", "add", "alice", "--password-file", str(secret))
    assert (again.code, "ottla users password alice" in again.err) == (1, True)
    changed = ottla("users", "password", "alice", "--password-file", "-", stdin=b"looking-glass\n")
    assert (changed.code, "alice has a new password (SCRAM-SHA-512)" in changed.err) == (0, True)
    made = ottla("users", "add", "robot", "--generate", "--mechanism", "SCRAM-SHA-256", "--iterations", "4096")
    assert (made.code, len(made.out.strip())) == (0, 32)
    listed = ottla("users", "list").out
    assert [line.split() for line in listed.splitlines()[1:]] == [
        ["alice", "SCRAM-SHA-512", "8192"],
        ["robot", "SCRAM-SHA-256", "4096"],
    ]
    assert not {"wonderland", "looking-glass", made.out.strip()} & set(listed.split())
    wrong = ottla("users", "remove", "alcie", "--yes")
    assert (wrong.code, "did you mean 'alice'?" in wrong.err) == (1, True)
    assert ottla("users", "remove", "alice").code == 2
    for user in ("alice", "robot"):
        assert ottla("users", "remove", user, "--yes").code == 0
    assert ottla("users", "list").err == "no users with passwords; add one: ottla users add NAME\n"


@pytest.mark.parametrize(
    ("arguments", "stdin", "expected"),
    [
        (["add", "alice"], b"", "no terminal to ask for the password"),
        (["add", "alice", "--password-file", "-"], b"\n", "the password is empty"),
        (["add", "alice", "--password-file", "/nowhere"], b"", "cannot be read"),
        (["add", "alice", "--generate", "--iterations", "100"], b"", "from 4096 to 16384"),
        (["add", "alice", "--password", "x"], b"", "there is no option --password"),
        (["add", "alice", "--mechanism", "SCRAM-SHA-1"], b"", "is unknown"),
    ],
)
def test_a_password_that_cannot_be_used_changes_nothing(
    ottla: Ottla, arguments: list[str], stdin: bytes, expected: str
) -> None:
    said = ottla("users", *arguments, stdin=stdin)
    assert (said.code, expected in said.err) == (2, True), said.err


def test_kafkas_tool_asks_before_it_removes(ottla: Ottla, cluster: Server) -> None:
    tool = ("kafka-acls", "--bootstrap-server", cluster.bootstrap)
    rule = ("--topic", "asked", "--allow-principal", "User:dora", "--operation", "Read")
    ottla(*tool, "--add", *rule)
    eventually(ottla, ["allow read topic:asked literal *"], "dora")
    said = ottla(*tool, "--remove", *rule, stdin=b"n\n")
    assert (said.code, "(y/n)" in said.out) == (0, True)
    assert rules(ottla, "dora") == ["allow read topic:asked literal *"]
    ottla(*tool, "--remove", *rule, stdin=b"y\n")
    eventually(ottla, [], "dora")


def test_the_rule_that_allows_or_denies_is_named(ottla: Ottla) -> None:
    ottla("acls", "grant", "eve", "write", "topic", "ev-", "--prefix")
    ottla("acls", "grant", "eve", "write", "topic", "ev-secret", "--deny")
    ottla("acls", "grant", "eve", "delete", "topic", "ev-1", "--host", "10.0.0.5")
    eventually(
        ottla,
        ["allow write topic:ev- prefixed *", "allow delete topic:ev-1 literal 10.0.0.5",
         "deny write topic:ev-secret literal *"],
        "eve",
    )  # fmt: skip
    cases = [
        (["write", "topic", "ev-1"], 0, "'User:eve may write topics that begin with ev-'"),
        (["describe", "topic", "ev-1"], 0, "and write includes describe"),
        (["write", "topic", "ev-secret"], 1, "a denial counts over all others"),
        (["delete", "topic", "ev-1"], 1, "from some hosts it may be otherwise"),
        (["delete", "topic", "ev-1", "--host", "10.0.0.5"], 0, "from 10.0.0.5"),
        (["read", "topic", "ev-1"], 1, "to allow it: ottla acls grant User:eve read topic ev-1"),
        (["read", "group", "g"], 1, "there is no rule for this resource"),
        (["idempotent-write", "cluster"], 0, "enough for an idempotent producer"),
    ]
    for arguments, code, expected in cases:
        said = ottla("acls", "explain", "eve", *arguments)
        assert (arguments, said.code, expected in said.out + said.err) == (arguments, code, True), said
    assert "super.users" in ottla("acls", "explain", "eve", "read", "group", "g").err
    assert "some hosts" not in ottla("acls", "explain", "eve", "alter", "topic", "ev-1").err
    (document,) = json.loads(ottla("acls", "explain", "eve", "write", "topic", "ev-1", "-o", "json").out)
    assert (document["allowed"], document["rule"]["name"], document["rule"]["pattern"]) == (True, "ev-", "prefixed")
    ottla("acls", "revoke", "eve", "--yes")
