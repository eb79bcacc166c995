"""Users, ACLs and quotas: which principals may do what, and why something was denied."""

from __future__ import annotations

from typing import Any

from ottla.cli.acl_explanation import NOT_SEEN, explained_by
from ottla.cli.acl_words import entry_text
from ottla.client.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclResource,
    PatternType,
    Permission,
    ScramMechanism,
)
from ottla.client.errors import ErrorCode, KafkaError
from ottla.console.call import Call
from ottla.console.faults import invalid, not_available, not_found
from ottla.console.search_request import document, text
from ottla.wire.acls import CLUSTER_RESOURCE_NAME

MAX_ACLS = 1_000
MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
OF_TOPICS = ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
OF_OTHERS = {
    AclResource.TOPIC: OF_TOPICS,
    AclResource.GROUP: ("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    AclResource.CLUSTER: (
        "CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE",
    ),
    AclResource.TRANSACTIONAL_ID: ("WRITE", "DESCRIBE", "TWO_PHASE_COMMIT"),
    AclResource.DELEGATION_TOKEN: ("DESCRIBE",),
    AclResource.USER: ("CREATE_TOKENS", "DESCRIBE_TOKENS"),
}  # fmt: skip


# Users


async def users(call: Call) -> dict[str, Any]:
    admin = await call.admin()
    scram = await admin.describe_user_scram_credentials()
    try:
        acls = await admin.describe_acls()
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        acls = []
    limited = {name for entity in await admin.describe_client_quotas() for kind, name in entity if kind == "user"}
    counts: dict[str, int] = {}
    for one in acls:
        kind, _, name = one.principal.partition(":")
        if kind == "User" and name != "*":
            counts[name] = counts.get(name, 0) + 1
    return {
        "users": [
            {
                "user": name,
                "mechanisms": [
                    {"mechanism": _mechanism(one.mechanism), "iterations": one.iterations}
                    for one in scram.get(name, ())
                ],
                "acl_count": counts.get(name, 0),
                "has_quota": name in limited,
            }
            for name in sorted({*scram, *counts})
        ]
    }


def _mechanism(one: ScramMechanism) -> str:
    return next(name for name, known in MECHANISMS.items() if known is one)


def _asked_mechanism(call: Call) -> ScramMechanism:
    given = call.asked().get("mechanism") or "SCRAM-SHA-512"
    if given not in MECHANISMS:
        raise invalid(f"mechanism is one of {', '.join(MECHANISMS)}")
    return MECHANISMS[given]


async def create_user(call: Call) -> dict[str, Any]:
    asked = call.asked()
    user, password = text(asked.get("user"), "user"), text(asked.get("password"), "password")
    await (await call.admin()).set_scram_password(user, password, mechanism=_asked_mechanism(call))
    return {"ok": True}


async def delete_user(call: Call) -> dict[str, Any]:
    user, mechanism = call.names["user"], _asked_mechanism(call)
    admin = await call.admin()
    if call.is_preview():
        known = (await admin.describe_user_scram_credentials([user])).get(user)
        if not known:
            raise not_found(f"there is no user {user!r} with a password")
        left = [_mechanism(one.mechanism) for one in known if one.mechanism is not mechanism]
        return {"preview": {"user": user, "mechanisms_left": left}, "confirm": user}
    call.confirm(user)
    await admin.delete_scram_password(user, mechanism)
    return {"ok": True}


# ACLs


def acl_row(one: Acl) -> dict[str, Any]:
    return {
        "principal": one.principal,
        "host": one.host,
        "operation": one.operation.name,
        "permission": one.permission.name,
        "resource": one.resource.name,
        "name": one.name,
        "pattern": one.pattern.name,
    }


def _named(kind: type[Any], given: Any, name: str) -> Any:
    known = {one.name: one for one in kind if one.name not in ("ANY", "MATCH")}
    if given not in known:
        raise invalid(f"{name} is one of {', '.join(known)}")
    return known[given]


def parse_acl(given: Any) -> Acl:
    one = document(given)
    return Acl(
        _named(AclResource, one.get("resource"), "resource"),
        text(one.get("name"), "name"),
        text(one.get("principal"), "principal"),
        _named(AclOperation, one.get("operation"), "operation"),
        _named(Permission, one.get("permission") or "ALLOW", "permission"),
        text(one.get("host") or "*", "host"),
        _named(PatternType, one.get("pattern") or "LITERAL", "pattern"),
    )


def _asked_acls(call: Call) -> list[Acl]:
    given = call.asked().get("acls")
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_ACLS:
        raise invalid(f"acls is a list of 1 to {MAX_ACLS}")
    return [parse_acl(one) for one in given]


async def _acls(call: Call, wanted: AclFilter | None = None) -> list[Acl]:
    try:
        return await (await call.admin()).describe_acls(wanted)
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        raise not_available(
            "the cluster has no authorizer: every user may do everything", "set authorizer.class.name on all nodes"
        ) from None


async def acls(call: Call) -> dict[str, Any]:
    return {"acls": [acl_row(one) for one in sorted(await _acls(call), key=str)]}


async def create_acls(call: Call) -> dict[str, Any]:
    await (await call.admin()).create_acls(_asked_acls(call))
    return {"ok": True}


async def delete_acls(call: Call) -> dict[str, Any]:
    wanted = _asked_acls(call)
    if call.is_preview():
        known = set(await _acls(call))
        found = [acl_row(one) for one in wanted if one in known]
        return {"preview": {"acls": found, "missing": len(wanted) - len(found)}, "confirm": "delete"}
    call.confirm("delete")
    filters = [
        AclFilter(one.resource, one.name, one.principal, one.operation, one.permission, one.host, one.pattern)
        for one in wanted
    ]
    await (await call.admin()).delete_acls(filters)
    return {"ok": True}


async def access(call: Call) -> dict[str, Any]:
    """Which principals may do what on a resource, as far as ACLs say."""
    resource = _named(AclResource, (call.query.get("resource") or "TOPIC").upper(), "resource")
    name = CLUSTER_RESOURCE_NAME if resource is AclResource.CLUSTER else text(call.query.get("name"), "name")
    rules = await _acls(call, AclFilter(resource, name, pattern=PatternType.MATCH))
    rows = []
    for principal in sorted({one.principal for one in rules}):
        operations = []
        for operation in OF_OTHERS.get(resource, OF_TOPICS):
            if operation not in AclOperation.__members__:
                continue
            is_allowed, _, decided, _ = explained_by(rules, principal, "*", AclOperation[operation], resource, name)
            permission = "ALLOW" if is_allowed else "DENY"
            operations.append(
                {"operation": operation, "permission": permission, "acl": None if decided is None else acl_row(decided)}
            )
        rows.append({"principal": principal, "operations": operations})
    return {"principals": rows}


async def explain(call: Call) -> dict[str, Any]:
    asked = call.asked()
    principal = text(asked.get("principal"), "principal")
    if ":" not in principal:
        principal = f"User:{principal}"
    resource = _named(AclResource, str(asked.get("resource")).upper(), "resource")
    operation = _named(AclOperation, str(asked.get("operation")).upper(), "operation")
    name = CLUSTER_RESOURCE_NAME if resource is AclResource.CLUSTER else text(asked.get("name"), "name")
    host = text(asked.get("host") or "*", "host")
    rules = await _acls(call, AclFilter(resource, name, pattern=PatternType.MATCH))
    if resource is AclResource.CLUSTER:
        rules += await _acls(call, AclFilter(AclResource.TOPIC))
    is_allowed, reason, decided, notes = explained_by(rules, principal, host, operation, resource, name)
    return {
        "is_allowed": is_allowed,
        "reason": reason if is_allowed else f"{reason}. {NOT_SEEN}",
        "notes": notes,
        "acls": [
            {"acl": acl_row(one), "effect": "decides" if one == decided else entry_text(one)}
            for one in rules
            if one.principal in (principal, "User:*")
        ],
    }


# Quotas


async def quotas(call: Call) -> dict[str, Any]:
    found = await (await call.admin()).describe_client_quotas()
    return {
        "quotas": [
            {"entity": dict(entity), "values": dict(values)} for entity, values in sorted(found.items(), key=str)
        ]
    }


async def change_quotas(call: Call) -> dict[str, Any]:
    asked = call.asked()
    entity = document(asked.get("entity"))
    values = document(asked.get("values"))
    if not entity or any(kind not in ("user", "client-id", "ip") for kind in entity):
        raise invalid("entity names user, client-id or ip; null is the default")
    if any(name is not None and not isinstance(name, str) for name in entity.values()):
        raise invalid("entity has names, or null for the default")
    for name, value in values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and (not is_number or value <= 0):
            raise invalid(f"{name} is a number above 0, or null to remove it")
    changes = {tuple(entity.items()): {name: None if v is None else float(v) for name, v in values.items()}}
    await (await call.admin()).alter_client_quotas(changes)
    return {"ok": True}
