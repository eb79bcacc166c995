"""Access control lists in the metadata log."""

from __future__ import annotations

from random import Random

import pytest

from ottla.controller import Controller
from ottla.controller import acls as controller_acls
from ottla.security.acl_filter import AclFilter
from ottla.wire.acls import AclOperation, AclResource, PatternType, Permission
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord

from .clusters import Cluster, config


def entry(**changes: object) -> AclCreation:
    fields: dict[str, object] = {
        "resource_type": AclResource.TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**(fields | changes))  # type: ignore[arg-type]


def wanted(**changes: object) -> DeleteAclsFilter:
    fields: dict[str, object] = {
        "resource_type_filter": AclResource.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": Permission.ANY,
    }
    return DeleteAclsFilter(**(fields | changes))  # type: ignore[arg-type]


def create(cluster: Cluster, *entries: AclCreation) -> list[tuple[ErrorCode, str | None]]:
    reply = cluster.commit(cluster.controller.create_acls(CreateAclsRequest(creations=list(entries))))
    return [(ErrorCode(result.error_code), result.error_message) for result in reply.results]


def delete(cluster: Cluster, *filters: DeleteAclsFilter) -> list[list[str]]:
    reply = cluster.commit(cluster.controller.delete_acls(DeleteAclsRequest(filters=list(filters))))
    return [sorted(acl.resource_name for acl in result.matching_acls) for result in reply.filter_results]


OK = (ErrorCode.NONE, None)


def test_an_entry_is_written_once_however_often_it_is_created() -> None:
    cluster = Cluster(1)
    assert create(cluster, entry(), entry(), entry(host="10.0.0.1")) == [OK, OK, OK]
    assert create(cluster, entry()) == [OK]
    acls = cluster.image.acls
    assert [(acl.resource_name, acl.host) for acl in acls.values()] == [("orders", "*"), ("orders", "10.0.0.1")]
    assert all(acl_id == acl.id and acl_id[6] >> 4 == 4 for acl_id, acl in acls.items())
    assert delete(cluster, wanted(host_filter="*")) == [["orders"]]
    assert create(cluster, entry()) == [OK]
    assert len(acls) == 2


def test_a_new_controller_knows_the_entries_of_the_one_before() -> None:
    cluster = Cluster(1)
    create(cluster, entry())
    successor = Controller(cluster.image.copy(), rng=Random(1), config=config())
    assert successor.create_acls(CreateAclsRequest(creations=[entry()])).records == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource_type": AclResource.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"resource_pattern_type": PatternType.ANY}, "Invalid patternType ANY"),
        ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"permission_type": Permission.ANY}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": AclResource.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal type from the "
            "principal name)",
        ),
        (
            {"host": "10.0.0.0/33"},
            "Invalid CIDR range 10.0.0.0/33: expected an address and a prefix length, such as 10.0.0.0/8",
        ),
    ],
)
def test_an_entry_that_cannot_be_is_refused_and_the_others_are_written(
    changes: dict[str, object], message: str
) -> None:
    cluster = Cluster(1)
    assert create(cluster, entry(**changes), entry(host="10.0.0.0/8")) == [(ErrorCode.INVALID_REQUEST, message), OK]
    assert [acl.host for acl in cluster.image.acls.values()] == ["10.0.0.0/8"]


def test_filters_find_by_each_field_and_by_what_concerns_a_name() -> None:
    cluster = Cluster(1)
    create(
        cluster,
        entry(),
        entry(resource_name="ord", resource_pattern_type=PatternType.PREFIXED),
        entry(resource_name="*"),
        entry(resource_name="payments", principal="User:bob", permission_type=Permission.DENY),
        entry(resource_name="orders", resource_type=AclResource.GROUP),
    )
    matching = wanted(
        resource_type_filter=AclResource.TOPIC,
        resource_name_filter="orders",
        pattern_type_filter=PatternType.MATCH,
        operation=AclOperation.WRITE,
    )
    assert delete(cluster, matching) == [[]]
    deny = wanted(permission_type=Permission.DENY)
    group = wanted(resource_type_filter=AclResource.GROUP, resource_name_filter="orders")
    assert delete(cluster, deny, group, deny) == [["payments"], ["orders"], ["payments"]]
    matching.operation = AclOperation.READ
    assert delete(cluster, matching) == [["*", "ord", "orders"]]
    assert not cluster.image.acls


def test_a_filter_with_unknown_numbers_is_refused_and_the_others_delete() -> None:
    cluster = Cluster(1)
    create(cluster, entry())
    request = DeleteAclsRequest(filters=[wanted(pattern_type_filter=0), wanted(operation=77), wanted()])
    reply = cluster.commit(cluster.controller.delete_acls(request))
    assert [(result.error_code, result.error_message) for result in reply.filter_results] == [
        (ErrorCode.INVALID_REQUEST, "Unknown patternFilter."),
        (ErrorCode.INVALID_REQUEST, "Unknown entryFilter."),
        (ErrorCode.NONE, None),
    ]
    assert not cluster.image.acls


def test_more_than_one_batch_of_records_is_refused_as_a_whole() -> None:
    cluster = Cluster(1)
    many = [entry(resource_name=f"t{number}") for number in range(10_001)]
    assert {code for code, _ in create(cluster, *many)} == {ErrorCode.POLICY_VIOLATION}
    assert not cluster.image.acls
    create(cluster, *many[:6_000])
    create(cluster, *many[6_000:])
    with pytest.raises(KafkaError, match="Cannot remove more than 10000 acls in a single delete operation"):
        cluster.controller.delete_acls(DeleteAclsRequest(filters=[wanted()]))
    named = [wanted(resource_name_filter=f"t{number}") for number in range(9_000)]
    assert all(len(found) == 1 for found in delete(cluster, *named))


def test_filters_that_would_hold_up_the_controller_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(1)
    create(cluster, *(entry(resource_name=f"t{number}") for number in range(100)))
    monkeypatch.setattr(controller_acls, "MAX_COMPARISONS", 1_000)
    with pytest.raises(KafkaError, match="Too many filters"):
        cluster.controller.delete_acls(DeleteAclsRequest(filters=[wanted(principal_filter="User:bob")] * 11))
    monkeypatch.setattr(controller_acls, "MAX_MATCHES", 150)
    with pytest.raises(KafkaError, match="more than 150 acls"):
        cluster.controller.delete_acls(DeleteAclsRequest(filters=[wanted()] * 2))


def test_a_filter_that_asks_for_any_pattern_means_the_very_name() -> None:
    acl = AccessControlEntryRecord(
        resource_type=AclResource.TOPIC, resource_name="ord", pattern_type=PatternType.PREFIXED
    )
    assert AclFilter(name="ord").matches(acl)
    assert not AclFilter(name="orders").matches(acl)
    assert AclFilter(name="orders", pattern=PatternType.MATCH).matches(acl)
    assert not AclFilter(name="ord", pattern=PatternType.LITERAL).matches(acl)
