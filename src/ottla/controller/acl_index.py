"""The ACLs of the image by their content, so that the controller writes no ACL twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord

AclContent = tuple[int, str, int, str, str, int, int]
"""Everything of an ACL but its id: resource type, name, pattern type, principal, host, operation, permission."""


class AclIndex:
    __slots__ = ("_contents", "_ids")

    def __init__(self, acls: Mapping[bytes, AccessControlEntryRecord]) -> None:
        self._ids: dict[AclContent, bytes] = {}
        self._contents: dict[bytes, AclContent] = {}
        self.changed(acls, acls)

    def __contains__(self, content: AclContent) -> bool:
        return content in self._ids

    def changed(self, ids: Iterable[bytes], acls: Mapping[bytes, AccessControlEntryRecord]) -> None:
        """Apply ACLs that were added to the image or removed from it."""
        for acl_id in ids:
            before = self._contents.pop(acl_id, None)
            if before is not None and self._ids.get(before) == acl_id:
                del self._ids[before]
            acl = acls.get(acl_id)
            if acl is not None:
                content = self._contents[acl_id] = (
                    acl.resource_type,
                    acl.resource_name,
                    acl.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                )
                self._ids[content] = acl_id
