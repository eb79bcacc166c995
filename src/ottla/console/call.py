"""One request in the form for handlers, without HTTP: its user, its cluster, its parameters."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from ottla.console.faults import Fault, invalid
from ottla.wire.acls import AclOperation

if TYPE_CHECKING:
    from ottla.client import Admin
    from ottla.console.connection import Connection
    from ottla.console.console import Console


@dataclass(slots=True)
class Call:
    console: Console
    connection: Connection
    names: Mapping[str, str] = field(default_factory=dict)
    """The parameters in the path, decoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    user: str | None = None
    remote: str = ""

    async def admin(self) -> Admin:
        return await self.connection.admin()

    async def is_administrator(self) -> bool:
        """Whether the user may have what the console reaches as itself, past Kafka's ACLs: there are no logins, or the
        user may ALTER the cluster and so give itself every right."""
        if self.user is None:
            return True
        cluster = await (await self.admin()).describe_cluster(include_authorized_operations=True)
        return AclOperation.ALTER in cluster.authorized_operations

    async def check_administrator(self, what: str) -> None:
        if not await self.is_administrator():
            raise Fault(
                403,
                "FORBIDDEN",
                f"{what} as this console, not as {self.user}",
                "an ACL for ALTER on the cluster allows it",
            )

    def asked(self) -> dict[str, Any]:
        """The body, an object."""
        if not isinstance(self.body, dict):
            raise invalid("the body is a JSON object")
        return self.body

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A number of the query."""
        given = self.query.get(name) or str(default)
        if not given.isascii() or not given.isdecimal() or len(given) > 18:
            raise invalid(f"{name} is a whole number")
        return min(max(int(given), low), high)

    def is_preview(self) -> bool:
        return self.asked().get("preview") is True

    def confirm(self, word: str) -> None:
        """Fault unless the word that the preview named was typed."""
        if self.asked().get("confirm") != word:
            raise Fault(
                409, "CONFIRM", f"this cannot be undone: {word!r} has to be typed", 'ask with "preview": true first'
            )


class Handler(Protocol):
    __module__: str
    __name__: str

    def __call__(self, call: Call, /) -> Awaitable[Any]: ...


@dataclass(frozen=True, slots=True)
class Route:
    """The handler of a request."""

    method: str
    path: str
    """Steps below the cluster; a step in braces is a name."""
    handler: Handler
    is_change: bool = False
    """Refused in read-only mode, and an audit event."""

    @property
    def operation(self) -> str:
        """Its name in audit events: `topics.create`."""
        return f"{self.handler.__module__.rpartition('.')[2]}.{self.handler.__name__}"


@dataclass(frozen=True, slots=True)
class Download:
    """Bytes to keep, never to show."""

    data: bytes
    name: str


class Routes:
    """Finds the route of a path. Paths are split before they are decoded: an encoded slash is part of a name."""

    def __init__(self, routes: list[Route]) -> None:
        self._routes = [(route, route.path.split("/")) for route in routes]
        self.routes = routes

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        steps = path.split("/")
        is_known = False
        for route, pattern in self._routes:
            names = _match(pattern, steps)
            if names is not None:
                if route.method == method:
                    return route, names
                is_known = True
        if is_known:
            raise Fault(405, "INVALID", f"{method} is not what this path takes")
        raise Fault(404, "NOT_FOUND", f"there is nothing at {path[:200]}")


def _match(pattern: list[str], steps: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(steps):
        return None
    names = {}
    for wanted, given in zip(pattern, steps, strict=True):
        if wanted.startswith("{"):
            names[wanted[1:-1]] = unquote(given)
        elif wanted != given:
            return None
    return names
