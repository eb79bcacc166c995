"""Who may do what: access control lists, and the SCRAM credentials of users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.client.admin.calls import AdminCalls, outcome
from ottla.client.errors import ErrorCode, KafkaError, error_of
from ottla.wire.acls import AclOperation, AclResource, PatternType, Permission
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

SALT_BYTES = 16


class Acl(NamedTuple):
    """One entry: a principal (`User:alice`) on a host (`*`: any) is allowed or denied an operation on a resource."""

    resource: AclResource
    name: str
    principal: str
    operation: AclOperation
    permission: Permission = Permission.ALLOW
    host: str = "*"
    pattern: PatternType = PatternType.LITERAL


class AclFilter(NamedTuple):
    """Which entries are meant; None and ANY mean all."""

    resource: AclResource = AclResource.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY
    host: str | None = None
    pattern: PatternType = PatternType.ANY


class ScramMechanism(IntEnum):
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredential(NamedTuple):
    mechanism: ScramMechanism
    iterations: int


class SecurityCalls(AdminCalls):
    async def describe_acls(self, matching: AclFilter | None = None) -> list[Acl]:
        """The entries that match, or all.

        Example:

            for acl in await admin.describe_acls(AclFilter(principal="User:alice")):
                print(acl)
        """
        wanted = matching or AclFilter()

        async def ask() -> list[Acl]:
            request = DescribeAclsRequest(
                resource_type_filter=wanted.resource,
                resource_name_filter=wanted.name,
                pattern_type_filter=wanted.pattern,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )
            response: DescribeAclsResponse = await self._ask_any(request)
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            return sorted(
                Acl(
                    AclResource(resource.resource_type),
                    resource.resource_name,
                    one.principal,
                    AclOperation(one.operation),
                    Permission(one.permission_type),
                    one.host,
                    PatternType(resource.pattern_type),
                )
                for resource in response.resources
                for one in resource.acls
            )

        return await self._one(ask)

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        """Add entries to the access control lists; an entry that is there already is no error.

        Example:

            await admin.create_acls([Acl(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ)])
        """

        async def ask(left: dict[Acl, None]) -> dict[Acl, KafkaError | None]:
            request = CreateAclsRequest(
                creations=[
                    AclCreation(
                        resource_type=one.resource,
                        resource_name=one.name,
                        resource_pattern_type=one.pattern,
                        principal=one.principal,
                        host=one.host,
                        operation=one.operation,
                        permission_type=one.permission,
                    )
                    for one in left
                ]
            )
            response: CreateAclsResponse = await self._ask_controller(request)
            return {
                acl: outcome(result.error_code, result.error_message, None)
                for acl, result in zip(left, response.results, strict=False)
            }

        await self._each(dict.fromkeys(acls), ask)

    async def delete_acls(self, filters: Iterable[AclFilter]) -> dict[AclFilter, list[Acl]]:
        """Delete what matches; what that was, by filter.

        Example:

            await admin.delete_acls([AclFilter(AclResource.TOPIC, "orders", principal="User:alice")])
        """

        async def ask(left: dict[AclFilter, None]) -> dict[AclFilter, list[Acl] | KafkaError]:
            request = DeleteAclsRequest(
                filters=[
                    DeleteAclsFilter(
                        resource_type_filter=one.resource,
                        resource_name_filter=one.name,
                        pattern_type_filter=one.pattern,
                        principal_filter=one.principal,
                        host_filter=one.host,
                        operation=one.operation,
                        permission_type=one.permission,
                    )
                    for one in left
                ]
            )
            response: DeleteAclsResponse = await self._ask_controller(request)
            answers: dict[AclFilter, list[Acl] | KafkaError] = {}
            for wanted, result in zip(left, response.filter_results, strict=False):
                failed = next((one for one in result.matching_acls if one.error_code), None)
                deleted = [
                    Acl(
                        AclResource(one.resource_type),
                        one.resource_name,
                        one.principal,
                        AclOperation(one.operation),
                        Permission(one.permission_type),
                        one.host,
                        PatternType(one.pattern_type),
                    )
                    for one in result.matching_acls
                    if not one.error_code
                ]
                worst = failed if failed is not None and not result.error_code else result
                answers[wanted] = outcome(worst.error_code, worst.error_message, sorted(deleted))
            return answers

        return await self._each(dict.fromkeys(filters), ask)

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, list[ScramCredential]]:
        """Which mechanisms users have passwords for; of all users if none is named. One without any is not in it.

        Example:

            print(await admin.describe_user_scram_credentials(["alice"]))
        """
        named = None if users is None else [UserName(name=name) for name in users]

        async def ask() -> dict[str, list[ScramCredential]]:
            response: DescribeUserScramCredentialsResponse = await self._ask_any(
                DescribeUserScramCredentialsRequest(users=named)
            )
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            found = {}
            for result in response.results:
                if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                    continue
                if result.error_code:
                    raise error_of(result.error_code, result.error_message)
                found[result.user] = [
                    ScramCredential(ScramMechanism(one.mechanism), one.iterations) for one in result.credential_infos
                ]
            return found

        return await self._one(ask)

    async def set_scram_password(
        self,
        user: str,
        password: str,
        *,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512,
        iterations: int = 8192,
    ) -> None:
        """Give a user a password. What leaves this machine is salted: the password itself does not.

        Example:

            await admin.set_scram_password("alice", getpass.getpass())
        """
        from hashlib import pbkdf2_hmac

        salt = self._cluster.rng.randbytes(SALT_BYTES)
        digest = mechanism.name.removeprefix("SCRAM_").replace("_", "").lower()
        salted = pbkdf2_hmac(digest, password.encode(), salt, iterations)
        upsertion = ScramCredentialUpsertion(
            name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
        )
        await self._alter_scram({user: AlterUserScramCredentialsRequest(upsertions=[upsertion])})

    async def delete_scram_password(self, user: str, mechanism: ScramMechanism) -> None:
        """Take a user's password for one mechanism away.

        Example:

            await admin.delete_scram_password("alice", ScramMechanism.SCRAM_SHA_512)
        """
        deletion = ScramCredentialDeletion(name=user, mechanism=mechanism)
        await self._alter_scram({user: AlterUserScramCredentialsRequest(deletions=[deletion])})

    async def _alter_scram(self, requests: Mapping[str, AlterUserScramCredentialsRequest]) -> None:
        async def ask(left: dict[str, AlterUserScramCredentialsRequest]) -> dict[str, KafkaError | None]:
            answers: dict[str, KafkaError | None] = {}
            for request in left.values():
                response: AlterUserScramCredentialsResponse = await self._ask_controller(request)
                for one in response.results:
                    answers[one.user] = outcome(one.error_code, one.error_message, None)
            return answers

        await self._each(requests, ask)
