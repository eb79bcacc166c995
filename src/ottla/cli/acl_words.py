"""ACLs in words: what people type for resources, operations and principals, and how an entry is shown.

User:alice  read  topic orders          a principal, an operation, a resource
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.parser import near
from ottla.cli.session import MISUSED, CommandError
from ottla.security.principal import USER
from ottla.wire.acls import CLUSTER_RESOURCE_NAME, WILDCARD, AclOperation, AclResource, PatternType, Permission

if TYPE_CHECKING:
    from ottla.client.admin import Acl

EVERY_HOST: Final = WILDCARD
_PRINCIPAL: Final = re.compile(r"[A-Za-z]+:.+", re.DOTALL)
_TOPIC: Final = (
    AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.DELETE,
    AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS,
)  # fmt: skip
_GROUP: Final = (
    AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE, AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)  # fmt: skip
_CLUSTER: Final = (
    AclOperation.CREATE, AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE, AclOperation.ALTER, AclOperation.DESCRIBE,
)  # fmt: skip
OPERATIONS_OF: Final = {
    AclResource.TOPIC: _TOPIC,
    AclResource.GROUP: _GROUP,
    AclResource.CLUSTER: _CLUSTER,
    AclResource.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT),
    AclResource.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    AclResource.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""Which operations there are on a resource, in Kafka's order; ALL is every one of them."""


def word(one: AclResource | AclOperation | Permission | PatternType) -> str:
    """The name that commands take and show: `describe-configs`, `transactional-id`."""
    return one.name.lower().replace("_", "-")


OPERATIONS: Final = {word(one): one for one in AclOperation if one is not AclOperation.ANY}
RESOURCES: Final = {word(one): one for one in AclResource if one is not AclResource.ANY}


def principal_of(text: str) -> str:
    """`alice` is `User:alice`; what has a type stays as it is."""
    if not text or text.endswith(":"):
        raise CommandError(f"{text!r} is no user: a name such as alice, or a principal such as User:CN=alice", MISUSED)
    return text if _PRINCIPAL.fullmatch(text) else f"{USER}:{text}"


def operations_of(text: str) -> list[AclOperation]:
    """`read,write`, in any case, with dashes, underscores or Kafka's capitals."""
    return [_operation(one.strip()) for one in text.split(",") if one.strip()]


def _operation(text: str) -> AclOperation:
    plain = text.replace("-", "").replace("_", "").lower()
    for name, operation in OPERATIONS.items():
        if name.replace("-", "") == plain:
            return operation
    hint = near(text.lower(), OPERATIONS) or f"; there are {', '.join(OPERATIONS)}"
    raise CommandError(f"there is no operation {text!r}{hint}", MISUSED)


def resource_of(words: list[str]) -> tuple[AclResource, str]:
    """`topic orders`, `group '*'`, `cluster`."""
    kind, *names = words
    resource = RESOURCES.get(kind.lower().replace("_", "-"))
    if resource is None:
        hint = near(kind.lower(), RESOURCES) or f"; there are {', '.join(RESOURCES)}"
        raise CommandError(f"there is no kind of resource {kind!r}{hint}", MISUSED)
    if resource is AclResource.CLUSTER:
        if names and names != [CLUSTER_RESOURCE_NAME]:
            raise CommandError(f"the cluster has no other name: 'cluster' instead of 'cluster {names[0]}'", MISUSED)
        return resource, CLUSTER_RESOURCE_NAME
    if len(names) != 1 or not names[0]:
        raise CommandError(f"which {kind}? one name, or '*' for all: '{kind} NAME'", MISUSED)
    return resource, principal_of(names[0]) if resource is AclResource.USER and names[0] != WILDCARD else names[0]


def refuse_impossible(resource: AclResource, operations: list[AclOperation]) -> None:
    """An operation that this kind of resource does not have is an error before anything is sent."""
    for one in operations:
        if one is not AclOperation.ALL and one not in OPERATIONS_OF[resource]:
            there_are = ", ".join([*map(word, OPERATIONS_OF[resource]), word(AclOperation.ALL)])
            raise CommandError(f"a {word(resource)} has no operation {word(one)}; it has {there_are}", MISUSED)


def resource_text(resource: AclResource, name: str, pattern: PatternType = PatternType.LITERAL) -> str:
    """`topic orders`, `every topic`, `topics that begin with ord`, `the cluster`."""
    kind = word(resource)
    if resource is AclResource.CLUSTER:
        return "the cluster"
    if pattern is PatternType.PREFIXED:
        return f"{kind}s that begin with {name}"
    return f"every {kind}" if name == WILDCARD else f"{kind} {name}"


def entry_text(acl: Acl) -> str:
    """`User:alice may read topic orders`, one sentence per entry."""
    verb = "may" if acl.permission is Permission.ALLOW else "may not"
    operation = "do everything on" if acl.operation is AclOperation.ALL else word(acl.operation)
    where = "" if acl.host == EVERY_HOST else f" from {acl.host}"
    return f"{acl.principal} {verb} {operation} {resource_text(acl.resource, acl.name, acl.pattern)}{where}"


def entry_row(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "permission": word(acl.permission),
        "operation": word(acl.operation),
        "resource": word(acl.resource),
        "name": acl.name,
        "pattern": word(acl.pattern),
        "host": acl.host,
    }
