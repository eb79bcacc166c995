"""ConsumerGroupHeartbeat v0-v1 (KIP-848): a member joins, is there, tells what it reads, learns its part, leaves."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api
from ottla.groups.shard import GroupShard
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


def consumer_group_heartbeat(request: ConsumerGroupHeartbeatRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    if not groups.is_consumer_protocol_enabled:
        return _refused(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    return groups.run(request.group_id, GroupShard.consumer_group_heartbeat, request, groups.call(caller), _refused)


def _refused(request: ConsumerGroupHeartbeatRequest, error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


api = Api(key=68, handler=consumer_group_heartbeat)
