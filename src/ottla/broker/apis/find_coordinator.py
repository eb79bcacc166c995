"""FindCoordinator v0-v6: which broker coordinates a group, a transactional id or, from v6 on, a share partition;
several at once from v4 on.

The internal topic is created when the first client looks for a coordinator, and the answer waits for it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

from ottla.broker.caller import Caller
from ottla.broker.coordinators.coordinators import Coordinators
from ottla.broker.coordinators.runtime import Coordinator as CoordinatorOfType
from ottla.broker.ground import Ground
from ottla.broker.peers.presence import Presence
from ottla.broker.serving.api import Api, Need
from ottla.groups.share.state_records import SharePartitionKey
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_BATCHED_VERSION = 4
FIRST_SHARE_VERSION = 6
GROUP_COORDINATOR, TRANSACTION_COORDINATOR, SHARE_COORDINATOR = range(3)
SUCCESS_MESSAGE = "NONE"
"""Kafka's message for success in versions whose response has one even without an error."""


class Found(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1
    message: str = ""
    """Set only for an unknown type; Kafka leaves the message of its other refusals empty if several keys are answered.
    """


def find_coordinator(
    request: FindCoordinatorRequest, ground: Ground, presence: Presence, coordinators: Coordinators, caller: Caller
) -> FindCoordinatorResponse | Coroutine[Any, Any, FindCoordinatorResponse]:
    if request.key_type == SHARE_COORDINATOR and not caller.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if presence.is_doubtful or _is_topic_missing(request, ground, coordinators, caller):
        return _answer_when_settled(request, ground, presence, coordinators, caller)
    return _answer(request, ground, coordinators, caller)


def _is_topic_missing(
    request: FindCoordinatorRequest, ground: Ground, coordinators: Coordinators, caller: Caller
) -> bool:
    """Whether an answer to this caller needs an internal topic that does not exist yet."""
    coordinator = _coordinator(request.key_type, coordinators, caller)
    if coordinator is None or coordinator.topic in ground.image.topics_by_name:
        return False
    keys = [request.key] if caller.api_version < FIRST_BATCHED_VERSION else request.coordinator_keys
    return any(_denial(request.key_type, key, caller) is None for key in keys)


async def _answer_when_settled(
    request: FindCoordinatorRequest, ground: Ground, presence: Presence, coordinators: Coordinators, caller: Caller
) -> FindCoordinatorResponse:
    """Wait for the new coordinator after a broker was killed: it is elected in a moment, and clients that get the dead
    one give up.
    """
    await presence.settled()
    if _is_topic_missing(request, ground, coordinators, caller):
        with suppress(KafkaError):  # the answer then finds no topic and says that there is no coordinator
            await coordinators.by_type[request.key_type].create_topic()
    return _answer(request, ground, coordinators, caller)


def _answer(
    request: FindCoordinatorRequest, ground: Ground, coordinators: Coordinators, caller: Caller
) -> FindCoordinatorResponse:
    if caller.api_version < FIRST_BATCHED_VERSION:
        found = _find(request.key_type, request.key, ground, coordinators, caller)
        return FindCoordinatorResponse(
            error_code=found.error,
            error_message=SUCCESS_MESSAGE if found.error == ErrorCode.NONE else found.error.text,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    rows = []
    for key in request.coordinator_keys:
        found = _find(request.key_type, key, ground, coordinators, caller)
        rows.append(
            Coordinator(
                key=key,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
                error_code=found.error,
                error_message=found.message,
            )
        )
    return FindCoordinatorResponse(coordinators=rows)


def _coordinator(key_type: int, coordinators: Coordinators, caller: Caller) -> CoordinatorOfType[Any] | None:
    """The coordinator's broker; None if this version of the API does not have the type."""
    if key_type == SHARE_COORDINATOR and caller.api_version < FIRST_SHARE_VERSION:
        return None
    return coordinators.by_type.get(key_type)


def _denial(key_type: int, key: str, caller: Caller) -> ErrorCode | None:
    """The error for a caller that may not use this group, transactional id or share partition."""
    if key_type == SHARE_COORDINATOR:
        return _share_key_error(key)
    resource = {GROUP_COORDINATOR: AclResource.GROUP, TRANSACTION_COORDINATOR: AclResource.TRANSACTIONAL_ID}.get(
        key_type
    )
    if resource is None or caller.is_allowed(AclOperation.DESCRIBE, resource, key):
        return None
    if resource == AclResource.GROUP:
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _share_key_error(key: str) -> ErrorCode | None:
    try:
        SharePartitionKey.parse(key)
    except KafkaError as error:
        return error.code
    return None


def _find(key_type: int, key: str, ground: Ground, coordinators: Coordinators, caller: Caller) -> Found:
    denied = _denial(key_type, key, caller)
    if denied is not None:
        return Found(denied)
    coordinator = _coordinator(key_type, coordinators, caller)
    if coordinator is None:
        message = "" if key_type == SHARE_COORDINATOR else f"Unknown coordinator type: {key_type}"
        return Found(ErrorCode.INVALID_REQUEST, message=message)
    partition = ground.image.partition(coordinator.topic, coordinator.partition_for(key))
    if partition is not None:
        for node_id, host, port, _ in ground.brokers(caller.client.listener):
            if node_id == partition.leader:
                return Found(ErrorCode.NONE, node_id, host, port)
    return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)


api = Api(
    key=10,
    handler=find_coordinator,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.GROUP),
        Need(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID),
        Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),
    ),
)
