"""`ottla acls explain`: which rule allows or denies something, by the authorizer that the brokers run.

The rules come from the cluster (DescribeAcls) and are evaluated here. `super.users` and
`allow.everyone.if.no.acl.found` are in the files of the brokers and cannot be seen from outside: the answer says so if
they could change it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ottla.cli.acl_words import (
    EVERY_HOST,
    entry_row,
    entry_text,
    operations_of,
    principal_of,
    refuse_impossible,
    resource_of,
    resource_text,
    word,
)
from ottla.cli.output import TABLE, notice, write_document
from ottla.cli.session import FAILED, Session, misuse
from ottla.security.authorizer import Rule, StandardAuthorizer, Verdict
from ottla.security.principal import Principal
from ottla.wire.acls import AclOperation, AclResource, PatternType, Permission
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord

if TYPE_CHECKING:
    from ottla.client.admin import Acl

COMMAND = "ottla acls explain"
NOT_SEEN = (
    "super.users and allow.everyone.if.no.acl.found of the brokers' own files cannot be seen from here: a super user "
    "may do everything"
)


async def explain(session: Session, options: argparse.Namespace) -> int:
    """0 if it is allowed, 1 if it is denied."""
    if len(options.words) < 2:
        misuse(COMMAND, "explain what? OPERATION KIND NAME, for example: write topic orders")
    operations = operations_of(options.words[0])
    resource, name = resource_of(options.words[1:])
    refuse_impossible(resource, operations)
    principal = principal_of(options.user)
    rules = await _rules(session, resource, name)
    documents = [_explained(rules, principal, options.host, one, resource, name) for one in operations]
    if options.output != TABLE:
        write_document(options.output, documents)
    else:
        for document in documents:
            print(document["answer"])
            for line in document["notes"]:
                notice(f"  {line}")
    return 0 if all(document["allowed"] for document in documents) else FAILED


async def _rules(session: Session, resource: AclResource, name: str) -> list[Acl]:
    """Everything that may decide: rules on this resource, and for IdempotentWrite those on topics (KIP-679)."""
    from ottla.client.admin import AclFilter

    admin = await session.admin()
    found = await admin.describe_acls(AclFilter(resource, name, pattern=PatternType.MATCH))
    if resource is AclResource.CLUSTER:
        found += await admin.describe_acls(AclFilter(AclResource.TOPIC))
    return found


_Question = tuple[Principal, AclOperation, AclResource, str]


def explained_by(
    rules: list[Acl], principal: str, host: str | None, operation: AclOperation, resource: AclResource, name: str
) -> tuple[bool, str, Acl | None, list[str]]:
    """Whether it is allowed, why, by which rule, and what else there is to say."""
    authorizer, by_id = _authorizer(rules)
    kind, _, user = principal.partition(":")
    who = Principal(kind, user)
    verdict = authorizer.explain(who, host or "", operation, resource, name)
    decided = None if verdict.acl is None else by_id[verdict.acl.id]
    is_allowed = verdict.is_allowed
    reason = _reason(verdict, decided, operation)
    notes = []
    if (
        not is_allowed
        and decided is None
        and operation is AclOperation.IDEMPOTENT_WRITE
        and authorizer.is_allowed_on_any(who, host or "", AclOperation.WRITE, AclResource.TOPIC)
    ):
        is_allowed = True
        reason = "it may write some topic, which is enough for an idempotent producer"
    elsewhere = _for_other_hosts(rules, is_allowed, host, (who, operation, resource, name))
    if elsewhere:
        notes.append(f"from some hosts it may be otherwise (--host ADDRESS): {entry_text(elsewhere[0])}")
    if not is_allowed:
        notes.append(NOT_SEEN)
        if decided is None:
            words = "cluster" if resource is AclResource.CLUSTER else f"{word(resource)} {name}"
            notes.append(f"to allow it: ottla acls grant {principal} {word(operation)} {words}")
    return is_allowed, reason, decided, notes


def _explained(
    rules: list[Acl], principal: str, host: str | None, operation: AclOperation, resource: AclResource, name: str
) -> dict[str, Any]:
    is_allowed, reason, decided, notes = explained_by(rules, principal, host, operation, resource, name)
    verb = "may" if is_allowed else "may not"
    where = f" from {host}" if host else ""
    return {
        "principal": principal,
        "operation": word(operation),
        "resource": word(resource),
        "name": name,
        "host": host,
        "allowed": is_allowed,
        "rule": None if decided is None else entry_row(decided),
        "answer": f"{principal} {verb} {word(operation)} {resource_text(resource, name)}{where}: {reason}",
        "notes": notes,
    }


def _reason(verdict: Verdict, decided: Acl | None, operation: AclOperation) -> str:
    if decided is not None:
        implied = ""
        if decided.operation not in (operation, AclOperation.ALL):
            implied = f", and {word(decided.operation)} includes {word(operation)}"
        kind = "the rule" if decided.permission is Permission.ALLOW else "the rule (a denial counts over all others)"
        return f"{kind} '{entry_text(decided)}'{implied}"
    if verdict.rule is Rule.DEFAULT_ALLOW:
        return "there is no rule for this resource, and the brokers allow that"
    if verdict.has_acls:
        return "there are rules for this resource, but none for this"
    return "there is no rule for this resource"


def _authorizer(rules: list[Acl]) -> tuple[StandardAuthorizer, dict[bytes, Acl]]:
    by_id = {number.to_bytes(16, "big"): one for number, one in enumerate(rules, 1)}
    authorizer = StandardAuthorizer()
    authorizer.replace(
        AccessControlEntryRecord(
            id=id,
            resource_type=one.resource,
            resource_name=one.name,
            pattern_type=one.pattern,
            principal=one.principal,
            host=one.host,
            operation=one.operation,
            permission_type=one.permission,
        )
        for id, one in by_id.items()
    )
    return authorizer, by_id


def _for_other_hosts(rules: list[Acl], is_allowed: bool, host: str | None, asked: _Question) -> list[Acl]:
    """Rules that count only from certain hosts and would there change the answer, if no host was named."""
    if host is not None:
        return []
    changing = Permission.DENY if is_allowed else Permission.ALLOW
    return [one for one in rules if one.host != EVERY_HOST and one.permission is changing and _decides(one, asked)]


def _decides(rule: Acl, asked: _Question) -> bool:
    """Whether a rule is about this, from whichever host."""
    authorizer, _ = _authorizer([rule._replace(host=EVERY_HOST)])
    return authorizer.explain(asked[0], "", *asked[1:]).acl is not None
