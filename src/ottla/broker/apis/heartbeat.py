"""Heartbeat v0-v4: a member of a classic group is still there, and learns whether the group rebalances."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(request: HeartbeatRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, request.group_id):
        return _refused(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return _refused(request, KafkaError(ErrorCode.INVALID_GROUP_ID))
    return groups.run(request.group_id, GroupShard.heartbeat, request, groups.call(caller), _refused)


def _refused(request: HeartbeatRequest, error: KafkaError) -> HeartbeatResponse:
    # While the log is read the members are unknown; their sessions begin again after it, so the answer is success.
    is_loading = error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)


api = Api(key=12, handler=heartbeat, needs=(Need(AclOperation.READ, AclResource.GROUP),))
