"""Audit events in the shape of OCSF (Open Cybersecurity Schema Framework, ocsf.io), which log tools understand.

| event | class |
|---|---|
| a login | Authentication 3002 |
| a denial, and most changes | API Activity 6003 |
| a password set or removed | Account Change 3001 |
| an ACL created or deleted | User Access Management 3005 |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla import __version__

if TYPE_CHECKING:
    from ottla.broker.audit import AuditEvent

SCHEMA_VERSION: Final = "1.6.0"
ACCOUNT_CHANGE, AUTHENTICATION, ACCESS_MANAGEMENT, API_ACTIVITY = 3001, 3002, 3005, 6003
CLASS_NAMES: Final = {
    ACCOUNT_CHANGE: "Account Change",
    AUTHENTICATION: "Authentication",
    ACCESS_MANAGEMENT: "User Access Management",
    API_ACTIVITY: "API Activity",
}
CATEGORIES: Final = {3: "Identity & Access Management", 6: "Application Activity"}
LOGON = 1
CREATE, READ, UPDATE, DELETE, OTHER = 1, 2, 3, 4, 99
PASSWORD_CHANGE, ACCOUNT_DELETE = 3, 6
ASSIGN_PRIVILEGES, REVOKE_PRIVILEGES = 1, 2
UNKNOWN, SUCCESS, FAILURE = 0, 1, 2
INFORMATIONAL, LOW, MEDIUM = 1, 2, 3
ALLOWED, DENIED = 1, 2
_STATUS: Final = {UNKNOWN: "Unknown", SUCCESS: "Success", FAILURE: "Failure"}
_SEVERITY: Final = {INFORMATIONAL: "Informational", LOW: "Low", MEDIUM: "Medium"}
_ACTIVITY_NAMES: Final = {
    (AUTHENTICATION, LOGON): "Logon",
    (ACCOUNT_CHANGE, PASSWORD_CHANGE): "Password Change",
    (ACCOUNT_CHANGE, ACCOUNT_DELETE): "Delete",
    (ACCESS_MANAGEMENT, ASSIGN_PRIVILEGES): "Assign Privileges",
    (ACCESS_MANAGEMENT, REVOKE_PRIVILEGES): "Revoke Privileges",
    (API_ACTIVITY, CREATE): "Create",
    (API_ACTIVITY, READ): "Read",
    (API_ACTIVITY, UPDATE): "Update",
    (API_ACTIVITY, DELETE): "Delete",
    (API_ACTIVITY, OTHER): "Other",
}
_READING: Final = ("READ", "DESCRIBE", "DESCRIBE_CONFIGS", "DESCRIBE_TOKENS")
_BY_OPERATION: Final = {"CREATE": CREATE, "CREATE_TOKENS": CREATE, "DELETE": DELETE}


def ocsf(event: AuditEvent, *, timestamp: int, node_id: int, cluster_id: str, uid: str) -> dict[str, Any]:
    """One event in OCSF; `unmapped` has what OCSF has no field for."""
    class_uid, activity_id = _class_of(event)
    status_id = UNKNOWN if event.is_success is None else SUCCESS if event.is_success else FAILURE
    severity_id = INFORMATIONAL if event.is_success else MEDIUM if event.kind == "denied" else LOW
    category_uid = class_uid // 1000
    found: dict[str, Any] = {
        "time": timestamp,
        "class_uid": class_uid,
        "class_name": CLASS_NAMES[class_uid],
        "category_uid": category_uid,
        "category_name": CATEGORIES[category_uid],
        "activity_id": activity_id,
        "activity_name": _ACTIVITY_NAMES[class_uid, activity_id],
        "type_uid": class_uid * 100 + activity_id,
        "severity_id": severity_id,
        "severity": _SEVERITY[severity_id],
        "status_id": status_id,
        "status": _STATUS[status_id],
        "metadata": {
            "version": SCHEMA_VERSION,
            "uid": uid,
            "log_name": "ottla.audit",
            "product": {"name": "Ottla", "vendor_name": "Ottla", "version": __version__},
        },
        "src_endpoint": {"ip": event.host},
        "dst_endpoint": {"uid": str(node_id), "svc_name": event.listener},
    }
    if event.reason:
        found["status_detail"] = event.reason
    user = _user(event.principal)
    if class_uid == AUTHENTICATION:
        found |= {"user": user, "auth_protocol_id": 99, "auth_protocol": event.operation}
    else:
        found |= {"actor": {"user": user}, "api": _api(event)}
    kind, _, name = event.resource.partition(":")
    if class_uid == ACCOUNT_CHANGE:
        found["user"] = _user(event.resource)
    elif class_uid == ACCESS_MANAGEMENT:
        found["user"] = _user(event.details.get("acl_principal", ""))
        found["privileges"] = [event.details.get("acl_operation", "")]
    if event.resource and class_uid != ACCOUNT_CHANGE:
        found["resources"] = [{"type": kind, "name": name}]
    if event.kind == "denied":
        found |= {"action_id": DENIED, "action": "Denied", "disposition_id": 2, "disposition": "Blocked"}
    found["unmapped"] = {"cluster_id": cluster_id, **event.details}
    return found


def _class_of(event: AuditEvent) -> tuple[int, int]:
    """The class and its activity."""
    if event.kind == "login":
        return AUTHENTICATION, LOGON
    if event.kind == "denied":
        is_read = event.operation in _READING
        return API_ACTIVITY, READ if is_read else _BY_OPERATION.get(event.operation, UPDATE)
    if event.operation == "AlterUserScramCredentials":
        is_removal = event.details.get("password") == "removed"
        return ACCOUNT_CHANGE, ACCOUNT_DELETE if is_removal else PASSWORD_CHANGE
    if event.operation in ("CreateAcls", "DeleteAcls"):
        return ACCESS_MANAGEMENT, ASSIGN_PRIVILEGES if event.operation == "CreateAcls" else REVOKE_PRIVILEGES
    if event.operation.startswith(("Create", "Add")) and event.operation != "CreatePartitions":
        return API_ACTIVITY, CREATE
    if event.operation.startswith(("Delete", "Remove", "Expire", "Unregister")):
        return API_ACTIVITY, DELETE
    return API_ACTIVITY, UPDATE


def _user(principal: str) -> dict[str, Any]:
    kind, colon, name = principal.partition(":")
    return {"name": name if colon else principal, "uid": principal, "type": kind if colon else "User"}


def _api(event: AuditEvent) -> dict[str, Any]:
    """A denial's operation is an ACL operation; its request is in the details."""
    if event.kind == "denied":
        return {"operation": str(event.details.get("api", "")), "service": {"name": "kafka"}}
    response = {"error": event.reason} if event.reason else {}
    return {"operation": event.operation, "service": {"name": "kafka"}, **({"response": response} if response else {})}
