"""The authorizer of a node: created from its settings, updated from the metadata; its decisions are logged and audited.

Without `authorizer.class.name` there is none, and every principal may do everything. A node's requests to itself
(`ApiTable.answer`) are never checked. Its requests to other nodes are: `super.users` must contain the principal with
which brokers and controllers log in to each other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.broker.access import Access
from ottla.broker.audit import AuditEvent
from ottla.broker.serving.denials import Denials
from ottla.security.authorizer import StandardAuthorizer
from ottla.security.principal import Principal
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.apis import APIS
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.cluster import ImageChanges
    from ottla.config import BrokerConfig

log = logging.getLogger("ottla.authorizer")


class Authorization:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.authorizer = _authorizer(ground.config)
        """None: every principal may do everything."""
        self.denied_count = 0
        self._denials = Denials(ground)

    def access(self, principal: Principal, host: str, listener: str = "") -> Access:
        """The permissions of a principal that connected from a host."""
        return Access(self.authorizer, principal, host, listener=listener, report=self._decided)

    @property
    def acls(self) -> Iterable[AccessControlEntryRecord]:
        """All ACLs of the cluster, as this node knows them."""
        return self._ground.image.acls.values()

    def use_image(self) -> None:
        """Take the ACLs of the image. Until then only super users may do anything."""
        if self.authorizer is not None:
            self.authorizer.replace(self._ground.image.acls.values())
            log.info("%d ACLs are in force", len(self.authorizer))

    def image_changed(self, changes: ImageChanges) -> bool:
        """Apply changes of the image; True if permissions changed."""
        authorizer = self.authorizer
        if authorizer is None or not authorizer.is_ready or not changes.acls_changed:
            return False
        acls = self._ground.image.acls
        for acl_id in changes.acls_changed:
            acl = acls.get(acl_id)
            if acl is None:
                authorizer.remove(acl_id)
            else:
                authorizer.add(acl)
        return True

    def _decided(
        self, access: Access, operation: AclOperation, resource: AclResource, name: str, api_key: int, is_allowed: bool
    ) -> None:
        """Log a decision as Kafka's authorizer log does: denials at INFO, the others at DEBUG. Audit denials."""
        level = logging.DEBUG if is_allowed else logging.INFO
        if self.authorizer is None or (is_allowed and not log.isEnabledFor(level)):
            return
        if not is_allowed:
            self.denied_count += 1
            if not self._denials.is_reported(access):
                return
        verdict = self.authorizer.explain(access.principal, access.host, operation, resource, name)
        request = APIS[api_key].name if api_key in APIS else "none"
        log.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s "
            "based on rule %s",
            access.principal,
            "Allowed" if is_allowed else "Denied",
            operation.name,
            access.host,
            _RESOURCE_NAMES[resource],
            name,
            request,
            verdict,
        )
        if not is_allowed:
            self._ground.audit.record(
                AuditEvent(
                    kind="denied",
                    principal=str(access.principal),
                    host=access.host,
                    listener=access.listener,
                    is_success=False,
                    operation=operation.name,
                    resource=f"{_RESOURCE_NAMES[resource]}:{name}",
                    reason=str(verdict),
                    details={"api": request},
                )
            )


_RESOURCE_NAMES = {resource: "".join(part.title() for part in resource.name.split("_")) for resource in AclResource}
"""`TransactionalId` for TRANSACTIONAL_ID."""


def _authorizer(config: BrokerConfig) -> StandardAuthorizer | None:
    if not config.has_authorizer:
        return None
    return StandardAuthorizer(
        super_users=config.super_users, allow_everyone_if_no_acl_found=config.allow_everyone_if_no_acl_found
    )
