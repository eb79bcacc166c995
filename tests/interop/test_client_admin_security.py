"""ACLs and SCRAM passwords through Ottla's admin client, on a server with an authorizer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from ottla.client.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclResource,
    Admin,
    PatternType,
    Permission,
    ScramCredential,
    ScramMechanism,
)
from ottla.client.errors import ErrorCode, KafkaError
from tests.interop.conftest import new_server
from tests.interop.servers import Server

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
READS = Acl(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ)
WRITES = Acl(
    AclResource.TOPIC, "ord", "User:bob", AclOperation.WRITE, Permission.DENY, "10.0.0.5", PatternType.PREFIXED
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = new_server(tmp_path_factory.mktemp("guarded") / "data", SETTINGS)
    server.start()
    yield server
    server.stop()


async def until(asked: Callable[[], Awaitable[object]], expected: object) -> None:
    """Brokers learn a moment later what the controller has written."""
    for _ in range(1_200):
        if await asked() == expected:
            return
        await asyncio.sleep(0.1)
    assert await asked() == expected


def test_acls_are_created_found_and_deleted(guarded: Server) -> None:
    async def work() -> None:
        async with Admin(bootstrap_servers=guarded.bootstrap) as admin:
            await admin.create_acls([READS, WRITES])
            await until(admin.describe_acls, sorted([READS, WRITES]))
            concerning = AclFilter(AclResource.TOPIC, "orders", pattern=PatternType.MATCH)
            assert await admin.describe_acls(concerning) == sorted([READS, WRITES])
            assert await admin.describe_acls(AclFilter(principal="User:alice")) == [READS]
            deny = AclFilter(permission=Permission.DENY)
            assert await admin.delete_acls([deny]) == {deny: [WRITES]}
            await until(admin.describe_acls, [READS])

    asyncio.run(asyncio.wait_for(work(), 200))


def test_users_get_and_lose_passwords(guarded: Server) -> None:
    async def work() -> None:
        async with Admin(bootstrap_servers=guarded.bootstrap) as admin:
            await admin.set_scram_password("alice", "pencil", mechanism=ScramMechanism.SCRAM_SHA_256, iterations=4096)
            await admin.set_scram_password("alice", "pencil")

            async def described() -> dict[str, list[ScramCredential]]:
                """Kafka lists mechanisms in the order of a hash table, which differs from one start to the next."""
                users = await admin.describe_user_scram_credentials()
                return {user: sorted(credentials) for user, credentials in users.items()}

            await until(
                described,
                {
                    "alice": [
                        ScramCredential(ScramMechanism.SCRAM_SHA_256, 4096),
                        ScramCredential(ScramMechanism.SCRAM_SHA_512, 8192),
                    ]
                },
            )
            assert await admin.describe_user_scram_credentials(["nobody"]) == {}
            with pytest.raises(KafkaError) as weak:
                await admin.set_scram_password("alice", "x", iterations=1)
            assert weak.value.code is ErrorCode.UNACCEPTABLE_CREDENTIAL
            for mechanism in ScramMechanism:
                await admin.delete_scram_password("alice", mechanism)
            await until(admin.describe_user_scram_credentials, {})

    asyncio.run(asyncio.wait_for(work(), 200))
