"""Logins at the registry: the user and password of HTTP Basic log in at the Kafka cluster, whose users they are.

A login that succeeded counts for a minute; each further request with it costs nothing. One that failed is answered
later the more of them came from that address, and only so many wait at once, so that passwords cannot be tried fast.
ACLs are read from the cluster by the registry's own login, at most every few seconds; while they cannot be read, what
was read last counts for a minute, then nothing is allowed.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from ottla.client import Admin, KafkaError
from ottla.client.admin import Acl
from ottla.client.errors import AuthenticationError, ConfigError
from ottla.registry import faults
from ottla.registry.access import Caller, Credentials, credentials_of
from ottla.security.authorizer import StandardAuthorizer
from ottla.wire.acls import AclOperation
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord

LOGIN_FOR_S = 60.0
ACLS_FOR_S = 5.0
ACLS_AT_MOST_S = 60.0
FIRST_DELAY_S = 0.25
MAX_DELAY_S = 4.0
MAX_WAITING_COUNT = 64
MAX_WAITING_PER_ADDRESS = 8
MAX_KEPT_COUNT = 10_000
LOGIN_TIMEOUT_MS = 10_000
REALM = 'Basic realm="ottla registry", charset="UTF-8"'


class User(NamedTuple):
    """A user that has logged in."""

    name: str
    is_administrator: bool = False
    """Whether the registry's own login can change ACLs: a super user, or one that could grant itself every right."""


Login = Callable[[Credentials], Awaitable[User | None]]
_log = logging.getLogger("ottla.registry")


class Logins:
    """The verified logins of callers. `login` verifies with the cluster."""

    def __init__(self, login: Login, *, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep) -> None:
        self._login = login
        self._sleep = sleep
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, tuple[float, User]] = {}
        self._asked: dict[bytes, asyncio.Task[User | None]] = {}
        self._failure_counts: dict[str, int] = {}
        self._waiting: Counter[str] = Counter()

    async def user_of(self, headers: Sequence[str], address: str, now: float) -> User:
        """The user of a request. Fault 401 without credentials or with wrong ones, 429 if too many logins fail."""
        given = credentials_of(headers)
        if given is None:
            raise unauthorized()
        # of fixed length, and useless outside this process: passwords are not kept
        mark = hmac.digest(self._key, f"{given.user}\0{given.password}".encode(), sha256)
        expires_at, known = self._known.get(mark, (0.0, None))
        if known is not None and expires_at > now:
            return known
        self._known.pop(mark, None)
        if mark not in self._asked and (
            self._waiting.total() >= MAX_WAITING_COUNT or self._waiting[address] >= MAX_WAITING_PER_ADDRESS
        ):
            raise faults.Fault(429, 42901, "Too many logins are being checked; try again later")
        self._waiting[address] += 1
        try:
            user = await self._check(mark, given)
            if user is not None:
                _keep(self._known, mark, (now + LOGIN_FOR_S, user))
                self._failure_counts.pop(address, None)
                return user
            count = self._failure_counts.get(address, 0)
            _keep(self._failure_counts, address, count + 1)
            _log.warning("a login as %r from %s failed", given.user[:100], address)
            await self._sleep(min(FIRST_DELAY_S * 2 ** min(count, 10), MAX_DELAY_S))
        finally:
            self._waiting[address] -= 1
            self._waiting += Counter()  # addresses that wait for nothing go
        raise unauthorized()

    async def _check(self, mark: bytes, given: Credentials) -> User | None:
        """One login for all requests that come with the same credentials meanwhile."""
        task = self._asked.get(mark)
        if task is None:
            task = self._asked[mark] = asyncio.ensure_future(self._login(given))
            task.add_done_callback(lambda _: self._asked.pop(mark, None))
        return await asyncio.shield(task)


def _keep(kept: dict[Any, Any], key: object, value: object) -> None:
    """The oldest entry is removed."""
    if len(kept) >= MAX_KEPT_COUNT and key not in kept:
        del kept[next(iter(kept))]
    kept[key] = value


def unauthorized() -> faults.Fault:
    return faults.Fault(
        401, 401, "Unauthorized: the registry wants a user and password of the Kafka cluster (HTTP Basic)"
    )


def cluster_login(settings: Mapping[str, Any]) -> Login:
    """Logs in at the cluster with these settings and the caller's user and password."""
    base = {name: value for name, value in settings.items() if not name.startswith("sasl.")}
    mechanism = str(settings.get("sasl.mechanism") or "").upper()
    if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        mechanism = "SCRAM-SHA-512"

    async def login(given: Credentials) -> User | None:
        try:
            admin = Admin(
                {
                    **base,
                    "sasl.mechanism": mechanism,
                    "sasl.username": given.user,
                    "sasl.password": given.password,
                    "default.api.timeout.ms": LOGIN_TIMEOUT_MS,
                }
            )
        except ConfigError:  # characters that no user and no password has
            return None
        try:
            cluster = await admin.describe_cluster(include_authorized_operations=True)
        except AuthenticationError:
            return None
        finally:
            await admin.close()
        return User(given.user, AclOperation.ALTER in cluster.authorized_operations)

    return login


class Acls:
    """The ACLs of the cluster."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._admin: Admin | None = None
        self._authorizer = StandardAuthorizer()
        self._read_at = -ACLS_AT_MOST_S
        self._tried_at = -ACLS_FOR_S
        self._reading = asyncio.Lock()

    async def caller(self, user: User, host: str, now: float) -> Caller:
        """The permissions of a user. Fault 503: they are not known."""
        if user.is_administrator:
            return Caller(_everything(user), user.name, host)
        if now - self._tried_at >= ACLS_FOR_S:
            async with self._reading:
                if now - self._tried_at >= ACLS_FOR_S:
                    await self._read(now)
        if now - self._read_at > ACLS_AT_MOST_S:
            raise faults.Fault(503, 50301, "the ACLs of the Kafka cluster cannot be read: the registry's log says why")
        return Caller(self._authorizer, user.name, host)

    async def _read(self, now: float) -> None:
        self._tried_at = now
        is_open = False
        found: list[Acl] = []
        try:
            if self._admin is None:
                self._admin = Admin(self._settings)
            found = await self._admin.describe_acls()
        except KafkaError as error:
            # a cluster without an authorizer: each of its users may do everything there, and so here
            is_open = error.code == ErrorCode.SECURITY_DISABLED
            if not is_open:
                _log.warning("the ACLs of the cluster cannot be read: %s", error)
                return
        fresh = StandardAuthorizer(allow_everyone_if_no_acl_found=is_open)
        fresh.replace(_record(number, one) for number, one in enumerate(found))
        self._authorizer, self._read_at = fresh, now

    async def close(self) -> None:
        if self._admin is not None:
            await self._admin.close()


def _everything(user: User) -> StandardAuthorizer:
    return StandardAuthorizer(super_users=[f"User:{user.name}"])


def _record(number: int, one: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=number.to_bytes(16, "big"), resource_type=one.resource, resource_name=one.name, pattern_type=one.pattern,
        principal=one.principal, host=one.host, operation=one.operation, permission_type=one.permission,
    )  # fmt: skip
