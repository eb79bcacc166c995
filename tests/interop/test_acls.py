"""ACLs on a server with an authorizer: by Kafka's tool and other clients' admins, over restarts, and in force at once.

Every test holds on Apache Kafka 4.3.1 as well (OTTLA_TEST_KAFKA=1).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import Acl, AclFilter, AclOperation, AclResource, PatternType, Permission
from ottla.client.blocking import Admin
from ottla.client.errors import KafkaError
from ottla.wire.errors import ErrorCode
from tests.interop.conftest import ON_KAFKA, StartServer, new_server
from tests.interop.contents import eventually
from tests.interop.servers import Kafka, Ottla, Server, free_port, kafka_anchor
from tests.interop.toolbox import Toolbox

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = (AUTHORIZER, "super.users=User:ANONYMOUS;User:admin")
PLAIN_LOGIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="admin-secret" '
    'user_alice="alice-secret";'
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = new_server(tmp_path_factory.mktemp("acls") / "data", SETTINGS)
    server.start()
    yield server
    server.stop()


def acls_of(server: Server, wanted: AclFilter | None = None) -> list[Acl]:
    with Admin(bootstrap_servers=server.bootstrap) as admin:
        return admin.describe_acls(wanted)


def test_kafka_acls_adds_lists_and_removes(guarded: Server, tools: Toolbox) -> None:
    at = ("--bootstrap-server", guarded.bootstrap)
    added = tools("acls", *at, "--add", "--allow-principal", "User:tool", "--producer", "--topic", "tool-orders").out
    for operation in ("CREATE", "DESCRIBE", "WRITE"):
        entry = f"(principal=User:tool, host=*, operation={operation}, permissionType=ALLOW)"
        assert entry in added
    denied = ("--deny-principal", "User:tool", "--deny-host", "10.0.0.9", "--operation", "Read")
    tools("acls", *at, "--add", *denied, "--topic", "tool-", "--resource-pattern-type", "prefixed")
    about = ("--topic", "tool-orders", "--resource-pattern-type", "match")
    eventually(lambda: "PREFIXED" in tools("acls", *at, "--list", *about).out)
    listed = tools("acls", *at, "--list", *about).out
    assert "ResourcePattern(resourceType=TOPIC, name=tool-, patternType=PREFIXED)" in listed
    assert "(principal=User:tool, host=10.0.0.9, operation=READ, permissionType=DENY)" in listed
    assert "ResourcePattern(resourceType=TOPIC, name=tool-orders, patternType=LITERAL)" in listed
    tools("acls", *at, "--remove", "--force", "--topic", "tool-orders")
    tools("acls", *at, "--remove", "--force", *denied, "--topic", "tool-", "--resource-pattern-type", "prefixed")
    eventually(lambda: not acls_of(guarded, AclFilter(principal="User:tool")))


@pytest.mark.parametrize(
    ("acl", "message"),
    [
        (
            Acl(AclResource.CLUSTER, "other", "User:a", AclOperation.ALTER),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (Acl(AclResource.TOPIC, "", "User:a", AclOperation.READ), "Invalid empty resource name"),
        (
            Acl(AclResource.TOPIC, "t", "nobody", AclOperation.READ),
            "Could not parse principal from `nobody` (no colon is present separating the principal type from the "
            "principal name)",
        ),
    ],
)
def test_an_acl_that_cannot_be_is_refused_with_kafkas_words(guarded: Server, acl: Acl, message: str) -> None:
    with Admin(bootstrap_servers=guarded.bootstrap) as admin:
        with pytest.raises(KafkaError) as refused:
            admin.create_acls([acl])
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        assert message in str(refused.value)


@pytest.mark.parametrize(
    ("acl", "message"),
    [
        (Acl(AclResource.ANY, "t", "User:a", AclOperation.READ), "Invalid resourceType ANY"),
        (
            Acl(AclResource.TOPIC, "t", "User:a", AclOperation.READ, pattern=PatternType.MATCH),
            "Invalid patternType MATCH",
        ),
        (Acl(AclResource.TOPIC, "t", "User:a", AclOperation.ANY), "Invalid operation ANY"),
        (Acl(AclResource.TOPIC, "t", "User:a", AclOperation.READ, Permission.ANY), "Invalid permissionType ANY"),
    ],
)
def test_what_is_meant_for_filters_is_refused(guarded: Server, acl: Acl, message: str) -> None:
    """With the message that Kafka's controller has for it: Kafka's broker fails before with UNKNOWN_SERVER_ERROR."""
    with Admin(bootstrap_servers=guarded.bootstrap) as admin, pytest.raises(KafkaError) as refused:
        admin.create_acls([acl])
    assert ON_KAFKA or (refused.value.code is ErrorCode.INVALID_REQUEST and message in str(refused.value))


def test_librdkafkas_admin_creates_finds_and_deletes(guarded: Server) -> None:
    admins = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed")
    kinds, patterns = admins.ResourceType, admins.ResourcePatternType
    admin = admins.AdminClient({"bootstrap.servers": guarded.bootstrap})

    def result(futures: dict[Any, Any]) -> list[Any]:
        return [future.result(60) for future in futures.values()]

    read = admins.AclBinding(
        kinds.TOPIC,
        "rd-orders",
        patterns.LITERAL,
        "User:rd",
        "*",
        admins.AclOperation.READ,
        admins.AclPermissionType.ALLOW,
    )
    deny = admins.AclBinding(
        kinds.GROUP,
        "rd-",
        patterns.PREFIXED,
        "User:rd",
        "10.0.0.9",
        admins.AclOperation.ALL,
        admins.AclPermissionType.DENY,
    )
    result(admin.create_acls([read, deny]))
    every = admins.AclBindingFilter(
        kinds.ANY, None, patterns.ANY, "User:rd", None, admins.AclOperation.ANY, admins.AclPermissionType.ANY
    )
    eventually(lambda: set(admin.describe_acls(every).result(60)) == {read, deny})
    ((deleted,),) = [result(admin.delete_acls([every]))]
    assert set(deleted) == {read, deny}
    eventually(lambda: admin.describe_acls(every).result(60) == [])


def test_kafka_pythons_admin_creates_finds_and_deletes(guarded: Server) -> None:
    admins = pytest.importorskip("kafka.admin", reason="kafka-python is not installed")
    pattern = admins.ResourcePattern(admins.ResourceType.TOPIC, "kp-orders", admins.ACLResourcePatternType.PREFIXED)
    acl = admins.ACL("User:kp", "*", admins.ACLOperation.WRITE, admins.ACLPermissionType.ALLOW, pattern)
    every = admins.ACLFilter(
        principal="User:kp",
        host=None,
        operation=admins.ACLOperation.ANY,
        permission_type=admins.ACLPermissionType.ANY,
        resource_pattern=admins.ResourcePatternFilter(admins.ResourceType.ANY, None, admins.ACLResourcePatternType.ANY),
    )
    with closing(admins.KafkaAdminClient(bootstrap_servers=guarded.bootstrap)) as admin:
        admin.create_acls([acl])
        eventually(lambda: len(acls_of(guarded, AclFilter(principal="User:kp"))) == 1)
        found = admin.describe_acls(every)
        (described,) = found[0] if isinstance(found, tuple) else found
        assert described == acl
        admin.delete_acls([every])
    eventually(lambda: not acls_of(guarded, AclFilter(principal="User:kp")))


class OttlaWithListeners(Ottla):
    """Its listeners are those of the settings."""

    def _listening(self) -> list[str]:
        return []


@pytest.fixture
def with_logins(tmp_path: Path) -> Iterator[Callable[[str], dict[str, Any]]]:
    """The settings of a user on a server with a SASL listener beside the plain one."""
    port, plain = free_port(), free_port()
    named = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{port}"
    settings = [
        *SETTINGS,
        f"listeners={named},CONTROLLER://127.0.0.1:{plain + 1}",
        f"advertised.listeners={named}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names=CONTROLLER",
        "process.roles=broker,controller",
        f"controller.quorum.voters=1@127.0.0.1:{plain + 1}",
        "sasl.enabled.mechanisms=PLAIN",
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN_LOGIN}",
    ]
    server = (Kafka if ON_KAFKA else OttlaWithListeners)(tmp_path / "data", settings, plain)
    server.start()

    def settings_of(user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
        }

    yield settings_of
    server.stop()


def refusal(asked: Callable[[], object]) -> ErrorCode | None:
    try:
        asked()
    except KafkaError as error:
        return error.code
    return None


def test_a_permission_takes_effect_on_open_connections_and_so_does_its_end(
    with_logins: Callable[[str], dict[str, Any]],
) -> None:
    describe = Acl(AclResource.CLUSTER, "kafka-cluster", "User:alice", AclOperation.DESCRIBE)
    here = describe._replace(operation=AclOperation.ALTER, host="127.0.0.1")
    elsewhere = here._replace(host="127.0.0.2")
    with Admin(with_logins("admin")) as admin, Admin(with_logins("alice")) as alice:
        assert refusal(alice.describe_acls) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        admin.create_acls([describe, elsewhere])
        eventually(lambda: refusal(alice.describe_acls) is None)
        assert sorted(alice.describe_acls()) == sorted([describe, elsewhere])
        denied = refusal(lambda: alice.create_acls([here]))
        assert denied is ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "the ACL names another host"
        admin.create_acls([here])
        eventually(lambda: refusal(lambda: alice.create_acls([describe])) is None)
        admin.delete_acls([AclFilter(principal="User:alice")])
        eventually(lambda: refusal(alice.describe_acls) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        assert admin.describe_acls() == []


FOLDER_ACLS = [
    Acl(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ),
    Acl(AclResource.GROUP, "g-", "User:*", AclOperation.ALL, Permission.DENY, "10.0.0.9", PatternType.PREFIXED),
    Acl(AclResource.USER, "alice", "User:bob", AclOperation.CREATE_TOKENS),
]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_acls_survive_restarts_with_and_without_snapshots(start_server: StartServer, tmp_path: Path, how: str) -> None:
    folder = tmp_path / "data"
    often = "metadata.log.max.record.bytes.between.snapshots=500"
    server = start_server(*SETTINGS, often, data=folder)
    with Admin(bootstrap_servers=server.bootstrap) as admin:
        admin.create_acls([*FOLDER_ACLS, FOLDER_ACLS[0]._replace(name="removed")])
        eventually(lambda: len(admin.describe_acls()) == 4)
        admin.delete_acls([AclFilter(name="removed")])
    if how == "stop":
        eventually(lambda: bool(list((folder / "__cluster_metadata-0").glob("*.checkpoint"))))
    getattr(server, how)()
    again = start_server(*SETTINGS, often, data=folder)
    assert acls_of(again) == sorted(FOLDER_ACLS)


@pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java")
@pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="long: OTTLA_INTEROP_ALL=1 runs it")
@pytest.mark.parametrize("first_is_kafka", [False, True])
def test_the_other_server_finds_the_acls_of_a_folder(
    start_server: StartServer, tmp_path: Path, first_is_kafka: bool
) -> None:
    folder = tmp_path / "data"
    first = start_server(*SETTINGS, data=folder, on_kafka=first_is_kafka)
    with Admin(bootstrap_servers=first.bootstrap) as admin:
        admin.create_acls(FOLDER_ACLS[:2])
        eventually(lambda: len(admin.describe_acls()) == 2)
    first.stop()
    second = start_server(*SETTINGS, data=folder, on_kafka=not first_is_kafka)
    with Admin(bootstrap_servers=second.bootstrap) as admin:
        eventually(lambda: admin.describe_acls() == sorted(FOLDER_ACLS[:2]))
        admin.create_acls(FOLDER_ACLS)
        admin.delete_acls([AclFilter(resource=AclResource.GROUP)])
        left = sorted([FOLDER_ACLS[0], FOLDER_ACLS[2]])
        eventually(lambda: admin.describe_acls() == left)
    second.stop()
    assert acls_of(start_server(*SETTINGS, data=folder, on_kafka=first_is_kafka)) == left
