"""What the principal of one connection may do.

Handlers ask through `Caller.is_allowed`. Each answer is kept until ACLs change, when `Serving` calls `forget` for every
open connection: so a change takes effect with the next request, and a repeated question costs one lookup.
"""

from __future__ import annotations

from collections.abc import Callable
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


Report = Callable[["Access", AclOperation, AclResource, str, int, bool], None]
"""Called with each new decision, not with remembered ones: the operation, the resource, its name, the key of the API
that asked (-1 if none did), and whether it was allowed.
"""


class Access:
    """`authorizer` None: a node without one allows everything."""

    __slots__ = (
        "_answers",
        "_report",
        "authorizer",
        "generation",
        "groups",
        "host",
        "is_follower_allowed",
        "listener",
        "principal",
        "readable",
        "writable",
    )

    def __init__(
        self,
        authorizer: Authorizer | None,
        principal: Principal,
        host: str,
        *,
        listener: str = "",
        report: Report | None = None,
    ) -> None:
        self.authorizer = authorizer
        self.principal = principal
        self.host = host
        self.listener = listener
        self._report = report
        self._answers: dict[tuple[AclOperation, AclResource, str | None, bool], bool] = {}
        self.writable: set[Any] = set()
        """Topics that Produce was allowed on, by name and by id: frame handlers look only here."""
        self.readable: set[Any] = set()
        """Topics that Fetch and OffsetCommit were allowed on, by name and by id."""
        self.groups: set[bytes] = set()
        """Groups that OffsetCommit was allowed on, their ids in bytes."""
        self.is_follower_allowed = False
        """Whether Fetch of a follower was allowed."""
        self.generation = 0
        """The generation of the ACLs. A fetch session that was checked under another generation is checked again."""

    def is_allowed(
        self,
        operation: AclOperation,
        resource: AclResource,
        name: str,
        *,
        api_key: int = -1,
        is_logged: bool = True,
    ) -> bool:
        """`is_logged` False: the client did not ask for this resource, as when a list is filtered; a denial is then
        neither logged nor audited."""
        if self.authorizer is None:
            return True
        question = (operation, resource, name, is_logged)
        answer = self._answers.get(question)
        if answer is None:
            answer = self.authorizer.is_allowed(self.principal, self.host, operation, resource, name)
            self._keep(question, answer)
            if self._report is not None and is_logged:
                self._report(self, operation, resource, name, api_key, answer)
        return answer

    def is_allowed_on_any(self, operation: AclOperation, resource: AclResource) -> bool:
        if self.authorizer is None:
            return True
        question = (operation, resource, None, False)
        answer = self._answers.get(question)
        if answer is None:
            answer = self.authorizer.is_allowed_on_any(self.principal, self.host, operation, resource)
            self._keep(question, answer)
        return answer

    def _keep(self, question: tuple[AclOperation, AclResource, str | None, bool], answer: bool) -> None:
        if len(self._answers) >= MAX_ANSWERS:
            self._answers.clear()
        self._answers[question] = answer

    # Permissions that the complete handlers found, for frame handlers

    def note_writable(self, topic: str, topic_id: bytes) -> None:
        if self.authorizer is not None:
            self.writable.update((topic, topic_id))

    def note_readable(self, topic: str, topic_id: bytes) -> None:
        if self.authorizer is not None:
            self.readable.update((topic, topic_id))

    def note_group(self, group_id: str) -> None:
        if self.authorizer is not None:
            if len(self.groups) >= MAX_ANSWERS:
                self.groups.clear()
            self.groups.add(group_id.encode())

    def forget(self) -> None:
        """ACLs changed: ask the authorizer again."""
        self._answers.clear()
        self.writable.clear()
        self.readable.clear()
        self.groups.clear()
        self.is_follower_allowed = False
        self.generation += 1


MAX_ANSWERS = 10_000
"""Answers kept for one connection: a client chooses the names that it asks about."""

EVERYTHING = Access(None, ANONYMOUS, "")
"""The access of a node without an authorizer, and of a node's own requests."""
