"""Access control lists in the metadata log: one record with an id of its own for each entry."""

from __future__ import annotations

from ottla.controller.acl_index import AclContent
from ottla.controller.view import MAX_RECORDS_PER_COMMAND, View
from ottla.machine import Decision
from ottla.security.acl_filter import AclFilter, AclSearch
from ottla.security.authorizer import parse_network
from ottla.wire import Message
from ottla.wire.acls import (
    CLUSTER_RESOURCE_NAME,
    AclOperation,
    AclResource,
    PatternType,
    Permission,
    name_of,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.wire.primitives import ZERO_UUID

MAX_COMPARISONS = 10_000_000
"""ACLs times filters in one request: comparing so many takes about three seconds, in which the controller does nothing
else.
"""
MAX_MATCHES = 100_000
"""ACLs in one answer to DeleteAcls. An ACL that two filters match counts twice."""


def create_acls(view: View, request: CreateAclsRequest) -> Decision[CreateAclsResponse]:
    """Add entries. An entry that is there already, or twice in the request, is accepted and changes nothing."""
    records: dict[AclContent, Message] = {}
    results = []
    for creation in request.creations:
        result = AclCreationResult(error_message=None)
        try:
            _check_new(creation)
            content = (
                creation.resource_type,
                creation.resource_name,
                creation.resource_pattern_type,
                creation.principal,
                creation.host,
                creation.operation,
                creation.permission_type,
            )
            if content not in view.acls and content not in records:
                records[content] = _record(_new_id(view), content)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    if len(records) > MAX_RECORDS_PER_COMMAND:
        message = "Unable to perform excessively large batch operation."
        for result in results:
            if result.error_code == ErrorCode.NONE:
                result.error_code, result.error_message = ErrorCode.POLICY_VIOLATION, message
        records.clear()
    return Decision(list(records.values()), CreateAclsResponse(results=results))


def _record(acl_id: bytes, content: AclContent) -> AccessControlEntryRecord:
    resource, name, pattern, principal, host, operation, permission = content
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=resource,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def _check_new(acl: AclCreation) -> None:
    """KafkaError INVALID_REQUEST if the ACL is invalid; Kafka's messages, in Kafka's order."""
    if acl.resource_type == AclResource.CLUSTER and acl.resource_name != CLUSTER_RESOURCE_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_RESOURCE_NAME}")
    if not acl.resource_name:
        raise _invalid("Invalid empty resource name")
    resource = name_of(AclResource, acl.resource_type)
    if resource in ("UNKNOWN", "ANY"):
        raise _invalid(f"Invalid resourceType {resource}")
    if acl.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {name_of(PatternType, acl.resource_pattern_type)}")
    operation = name_of(AclOperation, acl.operation)
    if operation in ("UNKNOWN", "ANY"):
        raise _invalid(f"Invalid operation {operation}")
    if acl.permission_type not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {name_of(Permission, acl.permission_type)}")
    if ":" not in acl.principal:
        raise _invalid(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from "
            "the principal name)"
        )
    if "/" in acl.host and parse_network(acl.host) is None:
        raise _invalid(f"Invalid CIDR range {acl.host}: expected an address and a prefix length, such as 10.0.0.0/8")


def delete_acls(view: View, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
    """Remove the ACLs that match the filters. KafkaError INVALID_REQUEST if that is too much for one request."""
    search = AclSearch(view.image.acls.values())
    removed: dict[bytes, Message] = {}
    results = []
    match_count = 0
    for given in request.filters:
        result = DeleteAclsFilterResult(error_message=None)
        try:
            _check_filter(given)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            for acl in search.find(_filter(given)):
                removed[acl.id] = RemoveAccessControlEntryRecord(id=acl.id)
                result.matching_acls.append(_matching(acl))
                match_count += 1
                if len(removed) > MAX_RECORDS_PER_COMMAND or match_count > MAX_MATCHES:
                    limit = MAX_RECORDS_PER_COMMAND if len(removed) > MAX_RECORDS_PER_COMMAND else MAX_MATCHES
                    raise _invalid(f"Cannot remove more than {limit} acls in a single delete operation.")
        if search.compared_count > MAX_COMPARISONS:
            raise _invalid("Too many filters for the number of ACLs: use several requests, or filters with names.")
        results.append(result)
    return Decision(list(removed.values()), DeleteAclsResponse(filter_results=results))


def _check_filter(given: DeleteAclsFilter) -> None:
    kinds = (given.resource_type_filter, AclResource), (given.pattern_type_filter, PatternType)
    if any(name_of(kind, code) == "UNKNOWN" for code, kind in kinds):
        raise _invalid("Unknown patternFilter.")
    entries = (given.operation, AclOperation), (given.permission_type, Permission)
    if any(name_of(kind, code) == "UNKNOWN" for code, kind in entries):
        raise _invalid("Unknown entryFilter.")


def _filter(given: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        given.resource_type_filter,
        given.resource_name_filter,
        given.pattern_type_filter,
        given.principal_filter,
        given.host_filter,
        given.operation,
        given.permission_type,
    )


def _matching(acl: AccessControlEntryRecord) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _new_id(view: View) -> bytes:
    while True:
        value = bytearray(view.rng.randbytes(16))
        value[6] = value[6] & 0x0F | 0x40
        value[8] = value[8] & 0x3F | 0x80
        acl_id = bytes(value)
        if acl_id != ZERO_UUID and acl_id not in view.image.acls:
            return acl_id


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
