"""Ottla's authorizer decides as Kafka's StandardAuthorizer does: both are asked the same questions on the same ACLs."""

from __future__ import annotations

import subprocess
from random import Random

import pytest

from ottla.security.authorizer import StandardAuthorizer
from ottla.security.principal import Principal
from ottla.wire.acls import AclOperation, AclResource, PatternType, Permission
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord
from tests.interop.servers import kafka_anchor
from tests.interop.toolbox import JAVA_SOURCES

pytestmark = pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java")
SEEDS = 200
STEPS = 60
NAMES = ["a", "ab", "abc", "b", "ba", "hardcode", "hard", "*", "é", "éa", "(", "~"]
"""No longer name begins with a star: Kafka applies no ACL of the resource `*` to it, not even a DENY. Ottla does."""
HOSTS = ["*", "10.1.2.3", "10.1.2.4"]
OPERATIONS = [one for one in AclOperation if one is not AclOperation.ANY]
COMMON = [AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DELETE]
RESOURCES = [AclResource.TOPIC, AclResource.TOPIC, AclResource.GROUP, AclResource.TRANSACTIONAL_ID]


class Sameness:
    """Plays ACLs and questions to Ottla's authorizer, and writes them down for Kafka's."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.questions: list[str] = []
        self.answers = ""

    def play(self, seed: int) -> None:
        rng = Random(seed)
        everyone = rng.random() < 0.4
        rules = StandardAuthorizer(super_users=["User:admin"], allow_everyone_if_no_acl_found=everyone)
        rules.replace([])
        self._write("new", str(everyone).lower())
        present: list[int] = []
        self._written: dict[tuple[object, ...], int] = {}
        for number in range(STEPS):
            if present and rng.random() < 0.3:
                removed = present.pop(rng.randrange(len(present)))
                rules.remove(removed.to_bytes(16, "big"))
                self._write("remove", removed)
                self._written = {fields: one for fields, one in self._written.items() if one != removed}
            elif self._add(rules, number, rng):
                present.append(number)
            for _ in range(8):
                self._ask(rules, rng)

    def _add(self, rules: StandardAuthorizer, number: int, rng: Random) -> bool:
        """False if there is the same ACL already: the controller never writes one twice."""
        acl = AccessControlEntryRecord(
            id=number.to_bytes(16, "big"),
            resource_type=rng.choice(RESOURCES),
            resource_name=rng.choice(NAMES),
            pattern_type=rng.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            principal=rng.choice(["User:alice", "User:bob", "User:*", "Group:alice"]),
            host=rng.choice(HOSTS),
            operation=rng.choice(COMMON if rng.random() < 0.7 else OPERATIONS),
            permission_type=rng.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
        )
        pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
        fields = (*pattern, acl.principal, acl.host, acl.operation, acl.permission_type)
        if fields in self._written:
            return False
        self._written[fields] = number
        rules.add(acl)
        self._write("add", number, *fields)
        return True

    def _ask(self, rules: StandardAuthorizer, rng: Random) -> None:
        user, host = rng.choice(["alice", "bob", "carol", "admin"]), rng.choice(HOSTS[1:])
        operation, resource, name = rng.choice(OPERATIONS[1:]), rng.choice(RESOURCES), rng.choice(NAMES)
        if rng.random() < 0.7:
            is_allowed = rules.is_allowed(Principal("User", user), host, operation, resource, name)
            question = self._write("ask", user, host, operation.value, resource.value, name)
        else:
            is_allowed = rules.is_allowed_on_any(Principal("User", user), host, operation, resource)
            question = self._write("any", user, host, operation.value, resource.value)
        self.questions.append(f"line {len(self.lines)}: {question}")
        self.answers += str(int(is_allowed))

    def _write(self, *words: object) -> str:
        line = "\t".join(str(int(word)) if isinstance(word, int) else str(word) for word in words)
        self.lines.append(line)
        return line


def test_random_acls_decide_as_in_kafka() -> None:
    script = kafka_anchor()
    assert script is not None
    played = Sameness()
    for seed in range(SEEDS):
        played.play(seed)
    kafka = subprocess.run(
        [str(script), str(JAVA_SOURCES / "Authorizer.java")],
        input="\n".join(played.lines).encode() + b"\n",
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert kafka.returncode == 0, kafka.stderr.decode()[-2000:]
    theirs = kafka.stdout.decode()
    assert len(theirs) == len(played.answers)
    assert 0.1 < theirs.count("1") / len(theirs) < 0.9
    different = [
        f"{question}: Kafka {theirs[index]}, Ottla {played.answers[index]}"
        for index, question in enumerate(played.questions)
        if theirs[index] != played.answers[index]
    ]
    assert not different, different[:10]
