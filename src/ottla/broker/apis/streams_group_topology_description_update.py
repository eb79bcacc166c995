"""StreamsGroupTopologyDescriptionUpdate v0 (KIP-1331): a member sends the description of its topology, which a
heartbeat asked for.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)


def streams_group_topology_description_update(
    request: StreamsGroupTopologyDescriptionUpdateRequest, groups: GroupCoordinator, caller: Caller
) -> Any:
    if not groups.is_streams_protocol_enabled:
        return _refused(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, request.group_id):
        return _refused(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return groups.run(
        request.group_id, GroupShard.streams_group_topology_description_update, request, groups.call(caller), _refused
    )


def _refused(
    request: StreamsGroupTopologyDescriptionUpdateRequest, error: KafkaError
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=error.code, error_message=error.message or None)


api = Api(
    key=93,
    handler=streams_group_topology_description_update,
    needs=(Need(AclOperation.READ, AclResource.GROUP),),
)
