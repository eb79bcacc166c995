"""Audit events in OCSF's shape."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.audit import AuditEvent
from ottla.broker.ocsf import ocsf


def shaped(**given: Any) -> dict[str, Any]:
    event = AuditEvent(**{"principal": "User:alice", "host": "10.0.0.5", "listener": "SASL_SSL", **given})
    return ocsf(event, timestamp=1_700_000_000_000, node_id=3, cluster_id="c", uid="u")


def test_a_login_is_an_authentication() -> None:
    found = shaped(kind="login", operation="SCRAM-SHA-512")
    assert (found["class_uid"], found["class_name"], found["type_uid"]) == (3002, "Authentication", 300201)
    assert (found["status"], found["user"]["name"], found["auth_protocol"]) == ("Success", "alice", "SCRAM-SHA-512")
    assert (found["src_endpoint"], found["dst_endpoint"]) == ({"ip": "10.0.0.5"}, {"uid": "3", "svc_name": "SASL_SSL"})
    assert (found["time"], found["metadata"]["uid"]) == (1_700_000_000_000, "u")


def test_a_failed_login_says_why() -> None:
    found = shaped(kind="login", operation="PLAIN", is_success=False, reason="wrong", details={"claimed_user": "bob"})
    assert (found["status_id"], found["status_detail"], found["unmapped"]["claimed_user"]) == (2, "wrong", "bob")


def test_a_denial_is_blocked_api_activity() -> None:
    found = shaped(kind="denied", is_success=False, operation="WRITE", resource="Topic:a:b", details={"api": "Produce"})
    assert (found["class_uid"], found["activity_name"], found["action"]) == (6003, "Update", "Denied")
    assert (found["api"]["operation"], found["resources"]) == ("Produce", [{"type": "Topic", "name": "a:b"}])
    assert found["actor"]["user"]["uid"] == "User:alice"


@pytest.mark.parametrize(
    ("operation", "details", "expected"),
    [
        ("CreateTopics", {}, (6003, 1)),
        ("DeleteTopics", {}, (6003, 4)),
        ("CreatePartitions", {}, (6003, 3)),
        ("IncrementalAlterConfigs", {}, (6003, 3)),
        ("AlterUserScramCredentials", {"password": "set"}, (3001, 3)),
        ("AlterUserScramCredentials", {"password": "removed"}, (3001, 6)),
        ("CreateAcls", {"acl_principal": "User:bob", "acl_operation": "READ"}, (3005, 1)),
        ("DeleteAcls", {"acl_principal": "User:bob", "acl_operation": "READ"}, (3005, 2)),
    ],
)
def test_changes_have_classes_of_their_own(operation: str, details: dict[str, Any], expected: tuple[int, int]) -> None:
    found = shaped(kind="changed", operation=operation, resource="User:bob", details=details)
    assert (found["class_uid"], found["activity_id"]) == expected
    assert found["type_uid"] == expected[0] * 100 + expected[1]
    assert found["category_uid"] == expected[0] // 1000


def test_a_change_whose_client_left_has_an_unknown_status() -> None:
    assert shaped(kind="changed", operation="CreateTopics", is_success=None)["status"] == "Unknown"
