"""SyncGroup v0-v5: a member of a classic group asks for its assignment; the leader's request has the assignments of all
members.
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
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_PROTOCOL = 5


def sync_group(request: SyncGroupRequest, ground: Ground, groups: GroupCoordinator, caller: Caller) -> Any:
    if caller.api_version >= FIRST_VERSION_WITH_PROTOCOL and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return _refused(request, KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, request.group_id):
        return _refused(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return _refused(request, KafkaError(ErrorCode.INVALID_GROUP_ID))
    call = groups.call(caller, ground.loop.create_future())
    return groups.run(request.group_id, GroupShard.sync_group, request, call, _refused)


def _refused(request: SyncGroupRequest, error: KafkaError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error.code)


api = Api(key=14, handler=sync_group, needs=(Need(AclOperation.READ, AclResource.GROUP),))
