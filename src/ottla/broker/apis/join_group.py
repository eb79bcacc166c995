"""JoinGroup v0-v9: a consumer of a classic group asks to be a member of its next generation.

The answer waits until all members have joined, or until the rebalance timeout.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITHOUT_PROTOCOL_NAME = 7
"""From this version on a refusal names no protocol; older versions have the empty name."""


def join_group(request: JoinGroupRequest, ground: Ground, groups: GroupCoordinator, caller: Caller) -> Any:
    refused = _refused if caller.api_version >= FIRST_VERSION_WITHOUT_PROTOCOL_NAME else _old_refused
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, request.group_id):
        return refused(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return refused(request, KafkaError(ErrorCode.INVALID_GROUP_ID))
    config = ground.config
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        return refused(request, KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT))
    call = groups.call(caller, ground.loop.create_future())
    return groups.run(request.group_id, GroupShard.join_group, request, call, refused)


def _refused(request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error.code, member_id=request.member_id, protocol_name=None)


def _old_refused(request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error.code, member_id=request.member_id)


api = Api(key=11, handler=join_group, needs=(Need(AclOperation.READ, AclResource.GROUP),))
