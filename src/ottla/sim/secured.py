"""Users whose passwords and permissions change while they write, in a cluster that breaks.

`Permissions` makes users, lets them write through listeners with SASL by Ottla's own producer, and takes it from them
again. What it checks, by virtual time and with what every running node knows:

    P1  a record is not acknowledged before its user is granted WRITE, nor handed to it before it is granted READ
    P2  a record that is sent after every node knows that WRITE was revoked is not acknowledged, on open connections
        too, and a consumer that is made after every node knows that READ was revoked gets none
    P3  a producer or consumer that is made after every node knows the grant is not refused before the revocation begins
    P4  a login with a password that every node knows succeeds; one with a password that every node knows to be replaced
        does not
    P5  a user that may only write cannot add an ACL, whichever broker passes the request on

A change that got no answer may take effect later: a user whose grant was in such doubt is not held to P2, and one whose
first password was keeps it.
"""

from __future__ import annotations

import asyncio
import hmac
import random
from collections.abc import Awaitable, Callable
from hashlib import pbkdf2_hmac
from typing import Any

from ottla.broker import Node
from ottla.client import Admin, Consumer, KafkaError, Producer
from ottla.client.admin import Acl
from ottla.security.errors import AuthenticationError
from ottla.sim.checkers import Content, check
from ottla.sim.client import NoAnswer
from ottla.sim.own_clients import Applications, is_passing
from ottla.sim.programs import Program, Surroundings
from ottla.sim.replicas import RETRY_S, Cluster
from ottla.sim.router import PASSING
from ottla.sim.shape import SASL_PORT
from ottla.wire.acls import CLUSTER_RESOURCE_NAME, AclOperation, AclResource, PatternType, Permission
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse

TOPIC = "guarded-topic"
SCRAM_SHA_256 = 1
ITERATIONS = 4096
SALT = b"a salt of sixteen"
DENIED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
DELIVERY_TIMEOUT_MS = 4_000
NEVER = float("inf")
PATIENCE = {"request_timeout_ms": 1_500, "default_api_timeout_ms": 6_000}
"""Of administrative requests of users."""


class User:
    """One life: made, granted, revoked. Times are those of the loop; NEVER for what has not happened."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.password = f"{name}-first"
        self.old_password: str | None = None
        self.login_known_at = NEVER
        """The time at which every node had the present password."""
        self.grant_began_at = self.grant_known_at = NEVER
        self.revoke_began_at = self.revoke_known_at = NEVER
        self.is_grant_doubtful = self.is_password_doubtful = False
        """Whether a request for the grant, or for the first password, got no answer and may be done later."""
        self.acknowledged_count = self.handed_count = 0

    def acknowledged(self, sent_at: float, now: float) -> None:
        self.acknowledged_count += 1
        check(self.grant_began_at <= now, "P1", f"{self.name} wrote before it was granted that")
        check(
            sent_at <= self.revoke_known_at or self.is_grant_doubtful,
            "P2",
            f"{self.name} wrote what it sent at {sent_at:.3f}, though every node knew the revocation at "
            f"{self.revoke_known_at:.3f}",
        )

    def handed(self, made_at: float, now: float) -> None:
        self.handed_count += 1
        check(self.grant_began_at <= now, "P1", f"{self.name} read before it was granted that")
        check(
            made_at <= self.revoke_known_at or self.is_grant_doubtful,
            "P2",
            f"{self.name} reads by a consumer of {made_at:.3f}, though every node knew the revocation at "
            f"{self.revoke_known_at:.3f}",
        )

    def refused(self, made_at: float, now: float) -> None:
        check(
            not self.grant_known_at < made_at <= now < self.revoke_began_at,
            "P3",
            f"{self.name} is refused at {now:.3f}, though every node knew the grant at {self.grant_known_at:.3f}",
        )


class Permissions(Applications):
    _sim: Cluster
    name = "permissions"

    def __init__(self, sim: Cluster, rng: random.Random) -> None:
        super().__init__(sim, rng)
        self._client = sim.client(self.name)
        self._count = 0
        self._awaited: User | None = None
        self._history = sim.history(TOPIC, 0)
        self._settings |= {"linger_ms": rng.choice((0, 5)), "delivery_timeout_ms": DELIVERY_TIMEOUT_MS}
        self._settings["request_timeout_ms"] = rng.choice((1_500, 3_000))
        self._user = User("user-0")
        self._program("guarded-writer-0")
        self._program("guarded-writer-1")
        reader = Program(sim, "guarded-reader", sim.names, self._read)
        self.programs.append(reader)

    def _now(self) -> float:
        return self._sim.loop.time()

    # The administrator

    async def set_up(self) -> None:
        await self._client.create_topic(TOPIC, 1)
        await self._new_user()
        await super().set_up()

    async def step(self) -> None:
        """One turn of fate for the programs, one change for the user."""
        await super().step()
        user = self._user
        if user.revoke_known_at != NEVER:
            await self._new_user()
        elif user.grant_known_at == NEVER:
            await self._grant(user)
        elif user.old_password is None and not user.is_password_doubtful and self._rng.random() < 0.5:
            await self._change_password(user)
        elif user.acknowledged_count >= 3:
            await self._revoke(user)
        await asyncio.sleep(self._rng.uniform(0.0, 0.5))

    async def _new_user(self) -> None:
        self._count += 1
        user = User(f"user-{self._count}")
        user.is_password_doubtful = not await self._done(lambda: self._set_password(user.name, user.password))
        await self._known(lambda scram, acls: (user.name, SCRAM_SHA_256) in scram)
        user.login_known_at = self._now()
        self._user = user

    async def _change_password(self, user: User) -> None:
        old, new = user.password, f"{user.name}-second"
        user.login_known_at, user.old_password, user.password = NEVER, old, new
        await self._done(lambda: self._set_password(user.name, new))
        server_key = hmac.digest(_salted(new), b"Server Key", "sha256")
        await self._known(lambda scram, acls: scram[user.name, SCRAM_SHA_256].server_key == server_key)
        user.login_known_at = self._now()
        await self._try_old_password(user)

    async def _grant(self, user: User) -> None:
        user.grant_began_at = self._now()
        name, pattern = self._rng.choice(((TOPIC, PatternType.LITERAL), ("guarded", PatternType.PREFIXED)))
        allowed = [
            _entry(user, name, pattern, Permission.ALLOW, one) for one in (AclOperation.WRITE, AclOperation.READ)
        ]
        user.is_grant_doubtful = not await self._done(lambda: self._create(allowed))
        await self._known(lambda scram, acls: any(acl.principal == f"User:{user.name}" for acl in acls.values()))
        user.grant_known_at = self._now()
        self._sim.loop.trace.note(user.name, "granted")

    async def _revoke(self, user: User) -> None:
        """By a DENY, or by taking the ALLOW away."""
        user.revoke_began_at = self._now()
        principal = f"User:{user.name}"
        if self._rng.random() < 0.4:
            denial = _entry(user, TOPIC, PatternType.LITERAL, Permission.DENY, AclOperation.ALL)
            await self._done(lambda: self._create([denial]))
            await self._known(
                lambda scram, acls: any(
                    acl.principal == principal and acl.permission_type == Permission.DENY for acl in acls.values()
                )
            )
        else:
            await self._done(lambda: self._delete(principal))
            if user.is_grant_doubtful:
                await asyncio.sleep(RETRY_S)
            else:
                await self._known(lambda scram, acls: all(acl.principal != principal for acl in acls.values()))
        user.revoke_known_at = self._now()
        self._sim.loop.trace.note(
            user.name, f"revoked after {user.acknowledged_count} records written, {user.handed_count} read"
        )

    async def _done(self, request: Callable[[], Awaitable[ErrorCode]]) -> bool:
        """Ask until the answer confirms it; False if an earlier request got no answer, or a failed one."""
        is_first = True
        while True:
            try:
                code = await request()
            except NoAnswer:
                code = ErrorCode.REQUEST_TIMED_OUT
            except KafkaError as error:
                code = error.code
            if code is ErrorCode.NONE:
                return is_first
            check(code in PASSING, "permissions", f"an administrator's request is refused with {code!r}")
            is_first = False
            await asyncio.sleep(RETRY_S)

    async def _known(self, holds: Callable[[Any, Any], bool]) -> None:
        """Until every node that runs has it in its image. A node that starts later catches up before it serves."""
        while True:
            if all(_holds(holds, node) for node in self._sim.live()):
                return
            await asyncio.sleep(RETRY_S)

    async def _set_password(self, user: str, password: str) -> ErrorCode:
        upsertion = ScramCredentialUpsertion(
            name=user, mechanism=SCRAM_SHA_256, iterations=ITERATIONS, salt=SALT, salted_password=_salted(password)
        )
        request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
        response = await self._client.request(request, AlterUserScramCredentialsResponse)
        return ErrorCode(response.results[0].error_code)

    async def _create(self, creations: list[AclCreation]) -> ErrorCode:
        response = await self._client.request(CreateAclsRequest(creations=creations), CreateAclsResponse)
        return ErrorCode(max(response.results, key=lambda result: result.error_code).error_code)

    async def _delete(self, principal: str) -> ErrorCode:
        wanted = DeleteAclsFilter(
            resource_type_filter=AclResource.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=principal,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=Permission.ANY,
        )
        response = await self._client.request(DeleteAclsRequest(filters=[wanted]), DeleteAclsResponse)
        return ErrorCode(response.filter_results[0].error_code)

    # The users' applications

    def _logging_in(self, program: Program, user: User, password: str) -> dict[str, Any]:
        place: Surroundings = program.surroundings()
        return {
            **place,
            "bootstrap_servers": ",".join(f"{broker}:{SASL_PORT}" for broker in self._sim.names),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_username": user.name,
            "sasl_password": password,
        }

    async def _live(self, program: Program) -> None:
        number = 0
        while not program.is_asked_to_end:
            user, password, made_at = self._user, self._user.password, self._now()
            settings = {**self._settings, **self._logging_in(program, user, password)}
            try:
                async with program.using(Producer(**settings)) as producer:
                    while not program.is_asked_to_end and user is self._user:
                        number += 1
                        await self._send(program, producer, user, number, made_at)
                        await asyncio.sleep(0.05)
                        if number % 20 == 1:
                            await self._reach_for_more(program, user, password)
            except KafkaError as error:
                self._failed(program, user, password, made_at, error)
            await asyncio.sleep(RETRY_S)

    async def _read(self, program: Program) -> None:
        while not program.is_asked_to_end:
            user, password, made_at = self._user, self._user.password, self._now()
            settings = self._logging_in(program, user, password)
            settings |= {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 200, "request_timeout_ms": 3_000}
            try:
                async with program.using(Consumer(**settings)) as consumer:
                    consumer.assign([(TOPIC, 0)])
                    while not program.is_asked_to_end and user is self._user:
                        for _ in await consumer.poll(300):
                            user.handed(made_at, self._now())
            except KafkaError as error:
                self._failed(program, user, password, made_at, error)
            await asyncio.sleep(RETRY_S)

    def _failed(self, program: Program, user: User, password: str, made_at: float, error: KafkaError) -> None:
        if isinstance(error, AuthenticationError):
            is_known = user.login_known_at < made_at and password == user.password
            check(not is_known, "P4", f"{user.name} cannot log in: {error}")
            return
        check(error.code in DENIED or is_passing(error), "permissions", f"{program.name}: {error!r}")
        if error.code in DENIED:
            user.refused(made_at, self._now())

    async def _send(self, program: Program, producer: Producer, user: User, number: int, made_at: float) -> None:
        """Sends one record. Raises a final refusal, so that the next record gets a new producer."""
        content: Content = (user.name.encode(), f"{program.name}.{program.incarnation}.{number}".encode())
        sent_at = self._now()
        self._history.doubt([content])
        try:
            written = await producer.send(TOPIC, content[1], content[0], partition=0, timestamp=self._sim.clock())
        except AuthenticationError:
            raise
        except KafkaError as error:
            if error.code in DENIED or not is_passing(error):
                raise
            return
        user.acknowledged(sent_at, self._now())
        if written.offset >= 0:
            self._history.acknowledge(written.offset, [content])

    async def _reach_for_more(self, program: Program, user: User, password: str) -> None:
        """An ACL that the user may not add: the controller must refuse it, so the broker must forward the user's
        name."""
        settings = {**self._logging_in(program, user, password), **PATIENCE}
        creation = Acl(AclResource.CLUSTER, CLUSTER_RESOURCE_NAME, f"User:{user.name}", AclOperation.ALL)
        try:
            async with program.using(Admin(**settings)) as admin:
                await admin.create_acls([creation])
        except AuthenticationError:
            raise
        except KafkaError as error:
            self._sim.loop.trace.note(user.name, f"may not add an ACL: {error.code.name}")
            check(error.code in DENIED or is_passing(error), "P5", f"{user.name} adding an ACL: {error!r}")
        else:
            check(False, "P5", f"{user.name} added an ACL")

    async def _try_old_password(self, user: User) -> None:
        """A new connection with the replaced password is not let in, whichever broker answers."""

        async def look(program: Program) -> None:
            assert user.old_password is not None
            settings = {**self._logging_in(program, user, user.old_password), **PATIENCE}
            try:
                async with program.using(Admin(**settings)) as admin:
                    await admin.list_topics()
            except KafkaError as error:
                self._sim.loop.trace.note(user.name, f"is not let in with the old password: {error.code.name}")
                return
            check(False, "P4", f"{user.name} is let in with the password that was replaced")

        program = Program(self._sim, "guarded-thief", self._sim.names, look)
        program.start()
        await program.ended()

    # The end

    def _missing(self) -> str:
        assert self._awaited is not None
        written, read = self._awaited.acknowledged_count, self._awaited.handed_count
        return "" if written >= 3 and read >= 3 else f"{written} of 3 records are acknowledged, {read} read"

    async def settle(self) -> None:
        """A new user is let in, granted, and writes."""
        await self._new_user()
        self._awaited = self._user
        await self._grant(self._user)
        await self._until_done("a granted user writes")
        await self._end_all()

    async def verify(self) -> None:
        for node in self._sim.live():
            taken = [acl for acl in node.ground.image.acls.values() if acl.resource_type == AclResource.CLUSTER]
            check(not taken, "P5", f"ACLs that users made: {taken}")
        await self._sim.verified(TOPIC, 0)


def _entry(user: User, name: str, pattern: PatternType, permission: Permission, operation: AclOperation) -> AclCreation:
    return AclCreation(
        resource_type=AclResource.TOPIC,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=f"User:{user.name}",
        host="*",
        operation=operation,
        permission_type=permission,
    )


def _salted(password: str) -> bytes:
    return pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS)


def _holds(asked: Callable[[Any, Any], bool], node: Node) -> bool:
    """Whether `asked` is true of a node's image. False if the image does not have the user."""
    try:
        return asked(node.ground.image.scram, node.ground.image.acls)
    except KeyError:
        return False
