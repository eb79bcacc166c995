"""ShareGroupHeartbeat v1 (KIP-932): a member joins, stays, reports its subscription, gets its assignment, leaves."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def share_group_heartbeat(request: ShareGroupHeartbeatRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    if not groups.is_share_protocol_enabled:
        return _refused(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, request.group_id):
        return _refused(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not all(map(caller.may_describe_topic, request.subscribed_topic_names or ())):
        return _refused(request, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return groups.run(request.group_id, GroupShard.share_group_heartbeat, request, groups.call(caller), _refused)


def _refused(request: ShareGroupHeartbeatRequest, error: KafkaError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


api = Api(
    key=76,
    handler=share_group_heartbeat,
    needs=(
        Need(AclOperation.READ, AclResource.GROUP),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
    ),
)
