"""What a request to the registry needs of Kafka's ACLs, and whether a principal has it.

A subject is protected by the ACLs of a topic: `orders-key` and `orders-value` by those of `orders`, any other subject
by those of a topic of its own name, in a context with the context before it (`:.eu:orders`). Reading needs DESCRIBE
(which READ and WRITE imply), registering WRITE, deleting DELETE, settings DESCRIBE_CONFIGS and ALTER_CONFIGS. What is
of no subject needs the same of the cluster.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.registry import faults, subjects
from ottla.registry.rest import Request, steps_of
from ottla.registry.state import State
from ottla.registry.subjects import Subject
from ottla.security.authorizer import StandardAuthorizer
from ottla.security.principal import Principal
from ottla.wire.acls import CLUSTER_RESOURCE_NAME, AclOperation, AclResource

MAX_HEADER_CHARS = 4_096
_SUFFIXES = ("-key", "-value")
_BASIC = "basic "


class Need(NamedTuple):
    """An operation on a resource."""

    operation: AclOperation
    resource: AclResource
    name: str


class Credentials(NamedTuple):
    """A user and a password; `repr` shows the user alone."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.user!r})"


def credentials_of(headers: Sequence[str]) -> Credentials | None:
    """User and password of the Authorization headers of a request; None unless there is exactly one, HTTP Basic's."""
    if len(headers) != 1 or len(headers[0]) > MAX_HEADER_CHARS or headers[0][: len(_BASIC)].lower() != _BASIC:
        return None
    try:
        user, colon, password = (
            base64.b64decode(headers[0][len(_BASIC) :].strip(), validate=True).decode().partition(":")
        )
    except (binascii.Error, ValueError):
        return None
    is_usable = colon and user and "\0" not in user + password
    return Credentials(user, password) if is_usable else None


def topic_of(subject: Subject) -> str:
    """The topic whose ACLs protect a subject."""
    key = subject.key
    for suffix in _SUFFIXES:
        if key.endswith(suffix) and len(subject.name) > len(suffix):
            return key.removesuffix(suffix)
    return key


def needs_of(state: State, request: Request) -> list[Need]:
    """The permissions that a request needs; none for a listing, since it shows only what the caller may see."""
    steps, context = steps_of(request.path)
    is_read = request.method == "GET"
    match steps:
        case ["subjects", name, *rest] | ["compatibility", "subjects", name, *rest]:
            subject = state.unaliased(subjects.parse(name, context))
            operation = AclOperation.DESCRIBE
            if request.method == "DELETE":
                operation = AclOperation.DELETE
            elif request.method == "POST" and steps[0] == "subjects" and rest[:1] == ["versions"]:
                operation = AclOperation.WRITE
            return [_on(subject, operation), *_references(request.body, subject.context)]
        case ["config" | "mode", name]:
            subject = subjects.parse(name, context)
            operation = AclOperation.DESCRIBE_CONFIGS if is_read else AclOperation.ALTER_CONFIGS
            return [_on(subject, operation) if subject.name else _cluster(operation)]
        case ["config" | "mode"]:
            return [_cluster(AclOperation.DESCRIBE_CONFIGS if is_read else AclOperation.ALTER_CONFIGS)]
        case ["associations" | "associations:batchGet" | "associations:batchMutate" as word, *_]:
            is_read = is_read or word == "associations:batchGet"
            return [_cluster(AclOperation.DESCRIBE if is_read else AclOperation.ALTER)]
        case ["contexts"] if not is_read:
            return [_cluster(AclOperation.ALTER)]
    return []


def _on(subject: Subject, operation: AclOperation) -> Need:
    return Need(operation, AclResource.TOPIC, topic_of(subject))


def _cluster(operation: AclOperation) -> Need:
    return Need(operation, AclResource.CLUSTER, CLUSTER_RESOURCE_NAME)


def _references(body: Any, context: str) -> list[Need]:
    """The caller that registers a schema must be able to read the schemas that it refers to."""
    given = body.get("references") if isinstance(body, Mapping) else None
    found = []
    for one in given if isinstance(given, list) else ():
        name = one.get("subject") if isinstance(one, dict) else None
        if isinstance(name, str):
            found.append(_on(subjects.parse(name, context), AclOperation.DESCRIBE))
    return found


class Caller:
    """A principal at a host, and what the ACLs allow it."""

    def __init__(self, authorizer: StandardAuthorizer, user: str, host: str) -> None:
        self._authorizer = authorizer
        self._principal = Principal("User", user)
        self._host = host

    def check(self, needs: Sequence[Need]) -> None:
        """Fault 403 for the first operation that is not allowed."""
        for one in dict.fromkeys(needs):
            if not self._is_allowed(one):
                kind = one.resource.name.capitalize()
                raise faults.Fault(
                    403,
                    40301,
                    f"User is denied operation {one.operation.name} on {kind}: {one.name[:200]}. An ACL of Kafka's for "
                    f"{self._principal} allows it",
                )

    def sees(self, subject: str) -> bool:
        return self._is_allowed(_on(subjects.parse(subject), AclOperation.DESCRIBE))

    def _is_allowed(self, need: Need) -> bool:
        return self._authorizer.is_allowed(self._principal, self._host, need.operation, need.resource, need.name)
