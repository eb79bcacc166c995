"""Which ACLs a filter of DescribeAcls or DeleteAcls means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.wire.acls import WILDCARD, AclOperation, AclResource, PatternType, Permission
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord


class AclFilter(NamedTuple):
    """None and ANY mean all; MATCH finds every pattern that a resource of this name matches."""

    resource: int = AclResource.ANY
    name: str | None = None
    pattern: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = Permission.ANY

    def matches(self, acl: AccessControlEntryRecord) -> bool:
        return (
            (self.resource == AclResource.ANY or self.resource == acl.resource_type)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and (self.operation == AclOperation.ANY or self.operation == acl.operation)
            and (self.permission == Permission.ANY or self.permission == acl.permission_type)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: AccessControlEntryRecord) -> bool:
        if self.pattern == PatternType.MATCH:
            if self.name is None:
                return True
            if acl.pattern_type == PatternType.LITERAL:
                return acl.resource_name in (self.name, WILDCARD)
            return self.name.startswith(acl.resource_name)
        if self.pattern not in (PatternType.ANY, acl.pattern_type):
            return False
        return self.name is None or self.name == acl.resource_name


class AclSearch:
    """Filters applied to the same ACLs. Those with a name are looked up by it, so that many filters stay cheap."""

    def __init__(self, acls: Iterable[AccessControlEntryRecord]) -> None:
        self._acls = acls if isinstance(acls, list) else list(acls)
        self._by_name: dict[str, list[AccessControlEntryRecord]] | None = None
        self.compared_count = 0
        """How many ACLs were looked at."""

    def find(self, wanted: AclFilter) -> Iterator[AccessControlEntryRecord]:
        for acl in self._candidates(wanted):
            self.compared_count += 1
            if wanted.matches(acl):
                yield acl

    def _candidates(self, wanted: AclFilter) -> list[AccessControlEntryRecord]:
        if wanted.name is None or wanted.pattern == PatternType.MATCH:
            return self._acls
        if self._by_name is None:
            self._by_name = {}
            for acl in self._acls:
                self._by_name.setdefault(acl.resource_name, []).append(acl)
        return self._by_name.get(wanted.name, [])
