"""The authorizer's rules one by one, and all of them together against a reading of every ACL in turn."""

from __future__ import annotations

import ipaddress
from random import Random

import pytest

from ottla.security.authorizer import Rule, StandardAuthorizer, canonical_host, parse_network
from ottla.security.principal import Principal
from ottla.wire.acls import AclOperation, AclResource, PatternType, Permission
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
HOST = "10.1.2.3"
TOPIC, GROUP = AclResource.TOPIC, AclResource.GROUP
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def acl(
    number: int,
    name: str,
    operation: AclOperation,
    permission: Permission = ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    pattern: PatternType = LITERAL,
    resource: AclResource = TOPIC,
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=number.to_bytes(16, "big"),
        resource_type=resource,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def authorizer(*acls: AccessControlEntryRecord, everyone: bool = False) -> StandardAuthorizer:
    made = StandardAuthorizer(super_users=["User:admin"], allow_everyone_if_no_acl_found=everyone)
    made.replace(acls)
    return made


def test_a_super_user_may_do_everything_even_what_is_denied() -> None:
    rules = authorizer(acl(1, "*", ALL, DENY, principal="User:admin"))
    admin = Principal("User", "admin")
    assert rules.explain(admin, HOST, READ, TOPIC, "orders").rule is Rule.SUPER_USER
    assert rules.is_allowed_on_any(admin, HOST, READ, TOPIC)
    assert not rules.is_allowed(Principal("Group", "admin"), HOST, READ, TOPIC, "orders")


def test_before_the_acls_are_loaded_only_super_users_are_allowed() -> None:
    rules = StandardAuthorizer(super_users=["User:admin"], allow_everyone_if_no_acl_found=True)
    assert rules.is_allowed(Principal("User", "admin"), HOST, READ, TOPIC, "orders")
    assert rules.explain(ALICE, HOST, READ, TOPIC, "orders").rule is Rule.NOT_READY
    assert not rules.is_allowed_on_any(ALICE, HOST, READ, TOPIC)
    rules.replace([])
    assert rules.is_allowed(ALICE, HOST, READ, TOPIC, "orders")


def test_a_denial_wins_over_any_number_of_permissions() -> None:
    rules = authorizer(
        acl(1, "orders", READ), acl(2, "*", ALL), acl(3, "ord", READ, DENY, principal="User:*", pattern=PREFIXED)
    )
    verdict = rules.explain(ALICE, HOST, READ, TOPIC, "orders")
    assert (verdict.is_allowed, verdict.acl) == (False, acl(3, "ord", READ, DENY, principal="User:*", pattern=PREFIXED))
    assert "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=ord, patternType=PREFIXED" in str(verdict)
    assert rules.is_allowed(ALICE, HOST, READ, TOPIC, "payments")


@pytest.mark.parametrize(
    ("pattern", "name", "matched", "other"),
    [
        (LITERAL, "orders", "orders", "orders2"),
        (PREFIXED, "ord", "orders", "or"),
        (PREFIXED, "*", "*x", "x"),
        (LITERAL, "*", "anything", None),
    ],
)
def test_names_match_literally_by_prefix_or_all_by_a_star(
    pattern: PatternType, name: str, matched: str, other: str | None
) -> None:
    rules = authorizer(acl(1, name, READ, pattern=pattern))
    assert rules.is_allowed(ALICE, HOST, READ, TOPIC, matched)
    assert other is None or not rules.is_allowed(ALICE, HOST, READ, TOPIC, other)
    assert not rules.is_allowed(ALICE, HOST, READ, GROUP, matched)
    assert not rules.is_allowed(BOB, HOST, READ, TOPIC, matched)


def test_a_star_is_about_names_that_begin_with_a_star_too() -> None:
    """Apache Kafka 4.3.1 passes over such an ACL, even a DENY, when it looks for prefixes of the name."""
    rules = authorizer(acl(1, "*", READ, DENY, resource=GROUP), everyone=True)
    assert not rules.is_allowed(ALICE, HOST, READ, GROUP, "*a")


def test_an_allowed_operation_implies_describing_but_a_denied_one_does_not_deny_it() -> None:
    for operation in (READ, WRITE, AclOperation.DELETE, AclOperation.ALTER):
        assert authorizer(acl(1, "t", operation)).is_allowed(ALICE, HOST, DESCRIBE, TOPIC, "t")
        rules = authorizer(acl(1, "t", DESCRIBE), acl(2, "t", operation, DENY))
        assert rules.is_allowed(ALICE, HOST, DESCRIBE, TOPIC, "t")
    assert not authorizer(acl(1, "t", AclOperation.CREATE)).is_allowed(ALICE, HOST, DESCRIBE, TOPIC, "t")
    altering = authorizer(acl(1, "t", AclOperation.ALTER_CONFIGS))
    assert altering.is_allowed(ALICE, HOST, AclOperation.DESCRIBE_CONFIGS, TOPIC, "t")
    assert not altering.is_allowed(ALICE, HOST, DESCRIBE, TOPIC, "t")


def test_a_resource_without_acls_is_open_only_if_the_setting_says_so() -> None:
    others = acl(1, "orders", READ, principal="User:bob")
    assert not authorizer(others).is_allowed(ALICE, HOST, READ, TOPIC, "payments")
    opened = authorizer(others, everyone=True)
    assert opened.explain(ALICE, HOST, READ, TOPIC, "payments").rule is Rule.DEFAULT_ALLOW
    verdict = opened.explain(ALICE, HOST, READ, TOPIC, "orders")
    assert (verdict.is_allowed, verdict.rule, verdict.has_acls) == (False, Rule.DEFAULT_DENY, True)


@pytest.mark.parametrize(
    ("rule", "host", "is_matched"),
    [
        ("*", HOST, True),
        (HOST, HOST, True),
        ("10.1.2.4", HOST, False),
        ("10.0.0.0/8", HOST, True),
        ("10.1.2.200/24", HOST, True),
        ("10.1.3.0/24", HOST, False),
        ("10.1.2.3/32", HOST, True),
        ("10.1.2.0/33", HOST, False),
        ("10.1.2.0/255.255.255.0", HOST, False),
        ("0.0.0.0/0", HOST, True),
        ("0.0.0.0/0", "::1", False),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("2001:db8::/32", "2001:db8:1::5", True),
        ("2001:db8::/32", "2001:db9::5", False),
        ("10.1.2.3", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("client.example", "client.example", True),
    ],
)
def test_a_host_is_an_address_a_range_or_any(rule: str, host: str, is_matched: bool) -> None:
    rules = authorizer(acl(1, "t", READ, host=rule))
    assert rules.is_allowed(ALICE, host, READ, TOPIC, "t") is is_matched
    assert rules.is_allowed_on_any(ALICE, host, READ, TOPIC) is is_matched


def test_networks_and_addresses_have_one_spelling() -> None:
    assert canonical_host("2001:DB8:0:0:0:0:0:1") == "2001:db8::1"
    assert canonical_host("example.org") == "example.org"
    assert parse_network("10.1.2.3/8") == ipaddress.ip_network("10.0.0.0/8")
    assert parse_network("ten/8") is None
    assert parse_network("10.0.0.0/ 8") is None


def test_removed_acls_leave_nothing_behind() -> None:
    rules = authorizer()
    acls = [acl(number, f"t{number % 3}", READ, pattern=PREFIXED) for number in range(9)]
    for one in acls:
        rules.add(one)
    rules.add(acl(0, "elsewhere", READ))  # the same id: replaced
    assert len(rules) == 9
    assert rules.is_allowed(ALICE, HOST, READ, TOPIC, "elsewhere")
    for one in acls:
        rules.remove(one.id)
        rules.remove(one.id)
    assert len(rules) == 0
    assert not rules._patterns and not rules._by_principal
    assert not any(rules._prefix_lengths.values())


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        ([acl(1, "a", WRITE)], True),
        ([acl(1, "a", WRITE), acl(2, "a", WRITE, DENY)], False),
        ([acl(1, "a", WRITE, pattern=PREFIXED), acl(2, "a", WRITE, DENY)], True),
        ([acl(1, "ab", WRITE), acl(2, "a", ALL, DENY, pattern=PREFIXED)], False),
        ([acl(1, "a", WRITE, pattern=PREFIXED), acl(2, "ab", ALL, DENY, pattern=PREFIXED)], True),
        ([acl(1, "*", WRITE), acl(2, "a", ALL, DENY, pattern=PREFIXED)], True),
        ([acl(1, "a", WRITE), acl(2, "*", WRITE, DENY, principal="User:*")], False),
        ([acl(1, "a", READ)], False),
        ([acl(1, "a", WRITE, principal="User:*")], True),
    ],
)
def test_a_permission_on_any_resource_counts_unless_a_denial_covers_it(
    acls: list[AccessControlEntryRecord], is_allowed: bool
) -> None:
    assert authorizer(*acls).is_allowed_on_any(ALICE, HOST, WRITE, TOPIC) is is_allowed


# Against every ACL read in turn

NAMES = ["a", "ab", "abc", "b", "ba", "hardcode", "*", "h"]
HOSTS = ["*", "10.1.2.3", "10.1.2.4", "10.1.2.0/24", "10.0.0.0/8"]
CLIENT_HOSTS = ["10.1.2.3", "10.1.2.4", "10.9.9.9", "192.168.0.1"]
OPERATIONS = [one for one in AclOperation if one is not AclOperation.ANY]


def naive(
    acls: list[AccessControlEntryRecord], user: str, host: str, operation: int, resource: int, name: str, everyone: bool
) -> bool:
    about = [
        one
        for one in acls
        if one.resource_type == resource
        and (name.startswith(one.resource_name) if one.pattern_type == PREFIXED else one.resource_name in (name, "*"))
    ]
    implied = {DESCRIBE: {READ, WRITE, AclOperation.DELETE, AclOperation.ALTER}}
    implied[AclOperation.DESCRIBE_CONFIGS] = {AclOperation.ALTER_CONFIGS}
    hits = [
        one
        for one in about
        if one.principal in (user, "User:*")
        and matches_host(one.host, host)
        and (
            one.operation in (ALL, operation)
            or (one.permission_type == ALLOW and one.operation in implied.get(AclOperation(operation), ()))
        )
    ]
    if hits:
        return all(one.permission_type == ALLOW for one in hits)
    return everyone and not about


def naive_any(
    acls: list[AccessControlEntryRecord], user: str, host: str, operation: int, resource: int, everyone: bool
) -> bool:
    if naive(acls, user, host, operation, resource, "hardcode", everyone):
        return True
    about = [
        one
        for one in acls
        if one.resource_type == resource
        and one.principal in (user, "User:*")
        and one.operation in (operation, ALL)
        and matches_host(one.host, host)
    ]
    denied = [one for one in about if one.permission_type == DENY]
    if any(one.resource_name == "*" and one.pattern_type == LITERAL for one in denied):
        return False
    for one in about:
        if one.permission_type == ALLOW:
            if one.pattern_type == LITERAL and one.resource_name == "*":
                return True
            covered = any(
                one.resource_name.startswith(deny.resource_name)
                if deny.pattern_type == PREFIXED
                else one.pattern_type == LITERAL and one.resource_name == deny.resource_name
                for deny in denied
            )
            if not covered:
                return True
    return False


def matches_host(rule: str, host: str) -> bool:
    return rule in ("*", host) or ("/" in rule and ipaddress.ip_address(host) in ipaddress.ip_network(rule))


@pytest.mark.parametrize("seed", range(60))
def test_the_index_decides_as_a_reading_of_every_acl_does(seed: int) -> None:
    rng = Random(seed)
    everyone = rng.random() < 0.3
    rules = authorizer(everyone=everyone)
    present: dict[int, AccessControlEntryRecord] = {}
    for step in range(120):
        if present and rng.random() < 0.35:
            number = rng.choice(list(present))
            rules.remove(present.pop(number).id)
        else:
            operations = [ALL, READ, WRITE, DESCRIBE] if rng.random() < 0.7 else OPERATIONS
            present[step] = acl(
                step,
                rng.choice(NAMES),
                rng.choice(operations),
                rng.choice([ALLOW, ALLOW, DENY]),
                principal=rng.choice(["User:alice", "User:bob", "User:*"]),
                host=rng.choice(HOSTS),
                pattern=rng.choice([LITERAL, PREFIXED]),
                resource=rng.choice([TOPIC, TOPIC, GROUP]),
            )
            rules.add(present[step])
        acls = list(present.values())
        for _ in range(12):
            who, host = rng.choice([ALICE, BOB]), rng.choice(CLIENT_HOSTS)
            operation, resource, name = rng.choice(OPERATIONS), rng.choice([TOPIC, GROUP]), rng.choice(NAMES)
            wanted = naive(acls, str(who), host, operation, resource, name, everyone)
            assert rules.is_allowed(who, host, operation, resource, name) is wanted
            wanted = naive_any(acls, str(who), host, operation, resource, everyone)
            assert rules.is_allowed_on_any(who, host, operation, resource) is wanted
