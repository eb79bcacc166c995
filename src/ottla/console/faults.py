"""Why a request of the page is refused: a status, a code, what happened and what to do."""

from __future__ import annotations

from typing import Any

from ottla.client.admin import PartialFailure
from ottla.client.errors import AuthenticationError, ErrorCode, KafkaError, NetworkError

_STATUSES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.RESOURCE_NOT_FOUND: 404,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.REQUEST_TIMED_OUT: 504,
}
_HINTS = {
    ErrorCode.NON_EMPTY_GROUP: "stop the members of the group first",
    ErrorCode.INVALID_REPLICATION_FACTOR: "a topic has at most as many replicas as there are brokers",
    ErrorCode.SECURITY_DISABLED: "set authorizer.class.name on all nodes",
    ErrorCode.UNSUPPORTED_VERSION: "the brokers are too old for this",
    ErrorCode.TOPIC_DELETION_DISABLED: "the brokers have delete.topic.enable=false",
    ErrorCode.NOT_ENOUGH_REPLICAS: "too few replicas are in sync: see the overview",
    ErrorCode.REQUEST_TIMED_OUT: "the cluster may be without a leader or a controller: see the overview",
}


class Fault(Exception):
    """A request that is refused."""

    def __init__(self, status: int, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint

    def document(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


def invalid(message: str, hint: str | None = None) -> Fault:
    return Fault(400, "INVALID", message, hint)


def not_found(message: str, hint: str | None = None) -> Fault:
    return Fault(404, "NOT_FOUND", message, hint)


def not_available(message: str, hint: str | None = None) -> Fault:
    return Fault(501, "NOT_AVAILABLE", message, hint)


def of_kafka(error: KafkaError) -> Fault:
    """The fault for what the client raised."""
    if isinstance(error, PartialFailure) and error.errors:
        first = of_kafka(next(iter(error.errors.values())))
        item = next(iter(error.errors))
        more = f" (and {len(error.errors) - 1} more)" if len(error.errors) > 1 else ""
        return Fault(first.status, first.code, f"{item}: {first.message}{more}", first.hint)
    message = error.message or error.code.text
    if isinstance(error, AuthenticationError):
        return Fault(401, "LOGIN_REQUIRED", message, "log in again, or start the console with other credentials")
    if isinstance(error, NetworkError):
        return Fault(503, "BROKER_UNREACHABLE", message, "is the cluster running? the console tries again by itself")
    status = 403 if error.code.name.endswith("AUTHORIZATION_FAILED") else _STATUSES.get(error.code, 400)
    if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
        status = 500
    if error.code is ErrorCode.SECURITY_DISABLED or error.code is ErrorCode.UNSUPPORTED_VERSION:
        return Fault(501, "NOT_AVAILABLE", message, _HINTS[error.code])
    hint = _HINTS.get(error.code)
    if status == 403:
        hint = "an ACL has to allow it; under Access, 'Why denied?' says which"
    return Fault(status, error.code.name, message, hint)
