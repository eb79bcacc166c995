"""BrokerHeartbeat v0-v2: a broker reports the metadata offset that it has replayed, and asks to be unfenced, fenced or
shut down. Answered by the active controller.
"""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


async def broker_heartbeat(
    request: BrokerHeartbeatRequest, metadata: Metadata, caller: Caller
) -> BrokerHeartbeatResponse:
    controllership, broker_id = metadata.controllership, request.broker_id
    is_handover_known = request.want_shut_down and controllership.is_handover_known(broker_id)
    decision = metadata.controller.heartbeat(request, is_handover_known=is_handover_known)
    controllership.heard_from(broker_id, caller.client)
    response = await metadata.commit(decision)
    if request.want_shut_down:
        controllership.hands_over(broker_id)
    if response.should_shut_down:
        controllership.let_go(broker_id)
    return response


api = Api(key=63, handler=broker_heartbeat, needs=cluster_wide(AclOperation.CLUSTER_ACTION))
