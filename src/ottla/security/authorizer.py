"""Which principal may do what: Kafka's StandardAuthorizer over the ACLs of the metadata log.

The rules, in this order: a super user may do everything; a DENY that matches wins over every ALLOW; an ALLOW that
matches is enough; a resource that has ACLs for others is closed; a resource without any ACL is open only if
`allow.everyone.if.no.acl.found` says so.

ACLs are found by resource type, pattern and principal, so a decision costs the same with ten ACLs and with 100,000:
one lookup for the name, one for `*`, and one for each length that a prefix of this resource type has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from ottla.security.principal import Principal
from ottla.wire.acls import WILDCARD, AclOperation, AclResource, PatternType, Permission, name_of
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord

WILDCARD_PRINCIPAL = "User:*"

_ALLOWED_BY: dict[int, frozenset[int]] = {
    AclOperation.DESCRIBE: frozenset(
        [AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER]
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset([AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS]),
}
"""Operations that an ALLOW of another operation implies. A DENY implies nothing."""
_HARD_CODED_NAME = "hardcode"
"""The name with which Kafka asks whether a principal may do something on any resource at all."""


class Rule(StrEnum):
    """The rule or ACL that decided, in the form of Kafka's authorizer log."""

    SUPER_USER = "SuperUser"
    ACL = "MatchingAcl"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"
    NOT_READY = "NotReady"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision and its reason."""

    is_allowed: bool
    rule: Rule
    acl: AccessControlEntryRecord | None = None
    """The ACL that decided, if one did."""
    has_acls: bool = False
    """Whether any ACL is about this resource: if so, a resource without a matching one is closed."""

    def __str__(self) -> str:
        return str(self.rule) if self.acl is None else f"{self.rule}(acl={acl_text(self.acl)})"


class _Acl:
    """An ACL of the log with its host parsed."""

    __slots__ = ("host", "network", "record")

    def __init__(self, record: AccessControlEntryRecord) -> None:
        self.record = record
        self.network = parse_network(record.host) if "/" in record.host else None
        self.host = None if record.host == WILDCARD else canonical_host(record.host)
        """None: every host."""

    def is_from(self, host: str) -> bool:
        """`host` is canonical."""
        if self.host is None or self.host == host:
            return True
        if self.network is None:
            return False
        address = _address(host)
        return address is not None and address in self.network

    def decision(self, operation: int, host: str) -> bool | None:
        """Whether it allows or denies an operation on its resource; None if it is about something else."""
        record = self.record
        is_allow = record.permission_type == Permission.ALLOW
        if record.operation != AclOperation.ALL and record.operation != operation:
            implied_by = _ALLOWED_BY.get(operation) if is_allow else None
            if implied_by is None or record.operation not in implied_by:
                return None
        return is_allow if self.is_from(host) else None


class _Pattern:
    """The ACLs of one resource pattern, by principal and id."""

    __slots__ = ("by_principal",)

    def __init__(self) -> None:
        self.by_principal: dict[str, dict[bytes, _Acl]] = {}


_PatternKey = tuple[int, bool, str]
"""Resource type, whether the pattern is a prefix, name."""


class StandardAuthorizer:
    """`is_ready` is False until the first `replace`: before that only super users may do anything."""

    def __init__(self, *, super_users: Iterable[str] = (), allow_everyone_if_no_acl_found: bool = False) -> None:
        self.super_users = frozenset(super_users)
        self.allow_everyone_if_no_acl_found = allow_everyone_if_no_acl_found
        self.is_ready = False
        self._acls: dict[bytes, _Acl] = {}
        self._patterns: dict[_PatternKey, _Pattern] = {}
        self._prefix_lengths: dict[int, dict[int, int]] = {}
        """By resource type: how many prefixed patterns have which length."""
        self._by_principal: dict[tuple[str, int], dict[bytes, _Acl]] = {}
        """By principal and resource type."""

    def __len__(self) -> int:
        return len(self._acls)

    # The ACLs

    def replace(self, records: Iterable[AccessControlEntryRecord]) -> None:
        """Have exactly these ACLs."""
        self._acls.clear()
        self._patterns.clear()
        self._prefix_lengths.clear()
        self._by_principal.clear()
        for record in records:
            self.add(record)
        self.is_ready = True

    def add(self, record: AccessControlEntryRecord) -> None:
        """Add an ACL; one that has the same id is replaced."""
        self.remove(record.id)
        acl = self._acls[record.id] = _Acl(record)
        key = _pattern_key(record)
        pattern = self._patterns.get(key)
        if pattern is None:
            pattern = self._patterns[key] = _Pattern()
            self._count_prefix(key, 1)
        pattern.by_principal.setdefault(record.principal, {})[record.id] = acl
        self._by_principal.setdefault((record.principal, record.resource_type), {})[record.id] = acl

    def remove(self, acl_id: bytes) -> None:
        """Remove an ACL, if it is there."""
        acl = self._acls.pop(acl_id, None)
        if acl is None:
            return
        record = acl.record
        key = _pattern_key(record)
        pattern = self._patterns[key]
        acls = pattern.by_principal[record.principal]
        del acls[acl_id]
        if not acls:
            del pattern.by_principal[record.principal]
        if not pattern.by_principal:
            del self._patterns[key]
            self._count_prefix(key, -1)
        of_principal = self._by_principal[record.principal, record.resource_type]
        del of_principal[acl_id]
        if not of_principal:
            del self._by_principal[record.principal, record.resource_type]

    def _count_prefix(self, key: _PatternKey, difference: int) -> None:
        resource, is_prefix, name = key
        if not is_prefix:
            return
        lengths = self._prefix_lengths.setdefault(resource, {})
        count = lengths.get(len(name), 0) + difference
        if count:
            lengths[len(name)] = count
        else:
            del lengths[len(name)]

    # Decisions

    def is_allowed(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource, name: str
    ) -> bool:
        if not self.allow_everyone_if_no_acl_found:
            user = str(principal)
            acls = self._by_principal
            if (user, resource) not in acls and (WILDCARD_PRINCIPAL, resource) not in acls:
                # Without a search of patterns: a request may name hundreds of thousands of resources.
                return user in self.super_users
        return self.explain(principal, host, operation, resource, name).is_allowed

    def explain(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource, name: str
    ) -> Verdict:
        """The decision with the ACL or rule that made it."""
        user = str(principal)
        if user in self.super_users:
            return _SUPER_USER
        if not self.is_ready:
            return _NOT_READY
        where = canonical_host(host)
        allowing: AccessControlEntryRecord | None = None
        has_acls = False
        for pattern in self._patterns_of(resource, name):
            has_acls = True
            for asked in (user, WILDCARD_PRINCIPAL):
                for acl in pattern.by_principal.get(asked, _NO_ACLS).values():
                    decision = acl.decision(operation, where)
                    if decision is False:
                        return Verdict(False, Rule.ACL, acl.record, has_acls=True)
                    if decision and allowing is None:
                        allowing = acl.record
        if allowing is not None:
            return Verdict(True, Rule.ACL, allowing, has_acls=True)
        if has_acls:
            return _NO_MATCH
        return _DEFAULT_ALLOW if self.allow_everyone_if_no_acl_found else _DEFAULT_DENY

    def is_allowed_on_any(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource
    ) -> bool:
        """Whether there is any resource of this type on which the principal may do this (KIP-679). As in Kafka an
        operation that is only implied by another one does not count here."""
        if self.is_allowed(principal, host, operation, resource, _HARD_CODED_NAME):
            return True
        if not self.is_ready:
            return False
        where = canonical_host(host)
        allowed: dict[tuple[bool, str], None] = {}
        denied: set[tuple[bool, str]] = set()
        for asked in (str(principal), WILDCARD_PRINCIPAL):
            for acl in self._by_principal.get((asked, int(resource)), _NO_ACLS).values():
                record = acl.record
                if record.operation not in (operation, AclOperation.ALL) or not acl.is_from(where):
                    continue
                pattern = (record.pattern_type != PatternType.LITERAL, record.resource_name)
                if record.permission_type == Permission.DENY:
                    denied.add(pattern)
                elif record.permission_type == Permission.ALLOW:
                    allowed[pattern] = None
        if (False, WILDCARD) in denied:
            return False
        return any(pattern == (False, WILDCARD) or not _is_dominated(pattern, denied) for pattern in allowed)

    def _patterns_of(self, resource: int, name: str) -> Iterator[_Pattern]:
        """The patterns that a resource matches: its name, then prefixes, then `*`."""
        patterns = self._patterns
        found = patterns.get((resource, False, name))
        if found is not None:
            yield found
        for length in self._prefix_lengths.get(resource, ()):
            if length <= len(name):
                found = patterns.get((resource, True, name[:length]))
                if found is not None:
                    yield found
        if name != WILDCARD:
            found = patterns.get((resource, False, WILDCARD))
            if found is not None:
                yield found


_NO_ACLS: dict[bytes, _Acl] = {}
_SUPER_USER = Verdict(True, Rule.SUPER_USER)
_NOT_READY = Verdict(False, Rule.NOT_READY)
_DEFAULT_ALLOW = Verdict(True, Rule.DEFAULT_ALLOW)
_DEFAULT_DENY = Verdict(False, Rule.DEFAULT_DENY)
_NO_MATCH = Verdict(False, Rule.DEFAULT_DENY, has_acls=True)


def _pattern_key(record: AccessControlEntryRecord) -> _PatternKey:
    return record.resource_type, record.pattern_type != PatternType.LITERAL, record.resource_name


def _is_dominated(pattern: tuple[bool, str], denied: set[tuple[bool, str]]) -> bool:
    """Whether everything that a pattern allows is denied by another."""
    is_prefix, name = pattern
    if not is_prefix and pattern in denied:
        return True
    return any((True, name[:length]) in denied for length in range(1, len(name) + 1))


# Hosts


@lru_cache(maxsize=4096)
def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


@lru_cache(maxsize=4096)
def canonical_host(host: str) -> str:
    """One spelling per address: Java writes `0:0:0:0:0:0:0:1`, others `::1`. A text that is no address stays as it
    is."""
    address = _address(host)
    return host if address is None else str(address)


@lru_cache(maxsize=4096)
def parse_network(host: str) -> IPv4Network | IPv6Network | None:
    """The addresses of a CIDR range such as `10.0.0.0/8` (KIP-1276); None if it is not one."""
    address, _, bits = host.partition("/")
    if not (bits.isascii() and bits.isdecimal() and len(bits) <= 3) or _address(address) is None:
        return None
    try:
        return ip_network(host, strict=False)
    except ValueError:
        return None


def acl_text(acl: AccessControlEntryRecord) -> str:
    """An ACL as Kafka's authorizer log writes it."""
    return (
        f"StandardAcl(resourceType={name_of(AclResource, acl.resource_type)}, resourceName={acl.resource_name}, "
        f"patternType={name_of(PatternType, acl.pattern_type)}, principal={acl.principal}, host={acl.host}, "
        f"operation={name_of(AclOperation, acl.operation)}, "
        f"permissionType={name_of(Permission, acl.permission_type)})"
    )
