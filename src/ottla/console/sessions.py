"""Sessions by cookie, the CSRF token of each, how long a failed login makes the next one wait, and how many wait.

Pure: moments come as `now` (seconds, monotonic), tokens from the caller's `new_token`.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.console.oidc import Attempt

MAX_SESSIONS = 1_000
MAX_SESSIONS_PER_USER = 100
IDLE_S = 8 * 3600.0
FIRST_DELAY_S, MAX_DELAY_S = 1.0, 30.0
FORGET_FAILURES_S = 600.0
MAX_FAILURES = 10_000
MAX_WAITING, MAX_WAITING_PER_HOST = 64, 8


@dataclass(slots=True)
class Session:
    """One browser, or one assistant."""

    id: str
    csrf: str
    used_at: float
    host: str = ""
    """The address that opened it; of IPv6 its network, since one machine has all addresses of that."""
    user: str | None = None
    credentials: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Settings of the client that log this user in; empty: the console's own."""
    attempt: Attempt | None = field(default=None, repr=False)
    """A login by OpenID Connect that began here."""

    @property
    def owner(self) -> str:
        """Sessions of one owner make room for each other."""
        return f"host {self.host}" if self.user is None else f"user {self.user}"

    def is_csrf(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(self.csrf.encode(), given.encode())


class Sessions:
    """Every open session. When there are too many, one without a login is closed for a new one, if there is any; of the
    owner that has the most; the one that was idle longest. So no user and no address closes another's."""

    def __init__(self, new_token: Callable[[], str]) -> None:
        self._new_token = new_token
        self._by_id: dict[str, Session] = {}

    def find(self, id: str | None, now: float) -> Session | None:
        found = None if id is None else self._by_id.get(id)
        if found is None:
            return None
        if now - found.used_at > IDLE_S:
            del self._by_id[found.id]
            return None
        found.used_at = now
        return found

    def open(self, now: float, host: str = "") -> Session:
        if len(self._by_id) >= MAX_SESSIONS:
            # sessions without a login cost nothing to open, so they are closed first
            counts = Counter(one.owner for one in self._by_id.values())
            self._drop(
                min(self._by_id.values(), key=lambda one: (one.user is not None, -counts[one.owner], one.used_at))
            )
        made = Session(self._new_token(), self._new_token(), now, _network(host))
        self._by_id[made.id] = made
        return made

    def _drop(self, session: Session) -> None:
        del self._by_id[session.id]

    def logged_in(self, session: Session, user: str, credentials: Mapping[str, Any], now: float) -> Session:
        """A new session that replaces the one without a user: a session id from before the login is no longer valid."""
        self._by_id.pop(session.id, None)
        own = [one for one in self._by_id.values() if one.user == user]
        if len(own) >= MAX_SESSIONS_PER_USER:
            self._drop(min(own, key=lambda one: one.used_at))
        made = self.open(now, session.host)
        made.user, made.credentials = user, dict(credentials)
        return made

    def end(self, session: Session) -> None:
        self._by_id.pop(session.id, None)

    def is_open(self, session: Session, now: float) -> bool:
        return session.id in self._by_id and now - session.used_at <= IDLE_S


def _network(host: str) -> str:
    """An address, or the /64 network of an IPv6 address."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return host if address.version == 4 else str(ip_network((int(address) >> 64 << 64, 64)))


class LoginDelays:
    """How long logins from an address, and of a user, have to wait: twice as long after every failure."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}
        self._waiting: Counter[str] = Counter()

    def begin(self, host: str) -> bool:
        """Whether one more login of an address may wait: delays bound nothing if logins can wait side by side. After
        True comes `end`."""
        if self._waiting.total() >= MAX_WAITING or self._waiting[host] >= MAX_WAITING_PER_HOST:
            return False
        self._waiting[host] += 1
        return True

    def end(self, host: str) -> None:
        self._waiting[host] -= 1
        self._waiting += Counter()  # addresses that wait for nothing go

    def delay_s(self, names: tuple[str, ...], now: float) -> float:
        """Of the next answer."""
        counts = [self._count(name, now) for name in names]
        return min(FIRST_DELAY_S * 2 ** (max(counts) - 1), MAX_DELAY_S) if max(counts) else 0.0

    def failed(self, names: tuple[str, ...], now: float) -> None:
        if len(self._failures) > MAX_FAILURES:
            self._failures = {one: found for one, found in self._failures.items() if now - found[1] < FORGET_FAILURES_S}
            while len(self._failures) > MAX_FAILURES:
                self._failures.pop(next(iter(self._failures)))
        for name in names:
            self._failures[name] = (min(self._count(name, now) + 1, 30), now)

    def succeeded(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._failures.pop(name, None)

    def _count(self, name: str, now: float) -> int:
        count, at = self._failures.get(name, (0, now))
        return count if now - at < FORGET_FAILURES_S else 0
