"""What the principal of one connection may do.

Handlers ask through `Caller.is_allowed`. Each answer is kept until ACLs change, when `Serving` calls `forget` for every
open connection: so a change takes effect with the next request, and a repeated question costs one lookup.
"""

from __future__ import annotations

from typing import Any, Protocol

from ottla.security.principal import ANONYMOUS, Principal
from ottla.wire.acls import AclOperation, AclResource


class Authorizer(Protocol):
    """The rules of a node: ACLs, super users, and what holds for a resource without ACLs."""

    def is_allowed(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource, name: str
    ) -> bool: ...

    def is_allowed_on_any(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Whether there is any resource of this type on which the principal may do this."""
        ...


class Access:
    """`authorizer` None: a node without one allows everything."""

    __slots__ = ("_answers", "authorizer", "host", "principal", "readable", "writable")

    def __init__(self, authorizer: Authorizer | None, principal: Principal, host: str) -> None:
        self.authorizer = authorizer
        self.principal = principal
        self.host = host
        self._answers: dict[tuple[AclOperation, AclResource, str], bool] = {}
        self.writable: set[Any] = set()
        """Topics that Produce was allowed on, by name and by id: frame handlers look only here."""
        self.readable: set[Any] = set()
        """The same for Fetch."""

    def is_allowed(self, operation: AclOperation, resource: AclResource, name: str) -> bool:
        if self.authorizer is None:
            return True
        question = (operation, resource, name)
        answer = self._answers.get(question)
        if answer is None:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            answer = self._answers[question] = self.authorizer.is_allowed(
                self.principal, self.host, operation, resource, name
            )
        return answer

    def is_allowed_on_any(self, operation: AclOperation, resource: AclResource) -> bool:
        if self.authorizer is None:
            return True
        return self.authorizer.is_allowed_on_any(self.principal, self.host, operation, resource)

    def forget(self) -> None:
        """ACLs changed: ask the authorizer again."""
        self._answers.clear()
        self.writable.clear()
        self.readable.clear()


MAX_ANSWERS = 10_000
"""Kept for one connection: a client chooses the names that it asks about."""

EVERYTHING = Access(None, ANONYMOUS, "")
"""Of a node without an authorizer."""
