"""BrokerHeartbeat v0-v2: a broker is alive, has replayed the metadata up to here, and wants to serve, rest or stop.
Answered by the active controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def broker_heartbeat(request: BrokerHeartbeatRequest, node: Node, caller: Caller) -> BrokerHeartbeatResponse:
    controllership, broker_id = node.controllership, request.broker_id
    is_handover_known = request.want_shut_down and controllership.is_handover_known(broker_id)
    decision = node.controller.heartbeat(request, is_handover_known=is_handover_known)
    controllership.heard_from(broker_id, caller.peer)
    response = await node.commit(decision)
    if request.want_shut_down:
        controllership.hands_over(broker_id)
    if response.should_shut_down:
        controllership.let_go(broker_id)
    return response


api = Api(key=63, handler=broker_heartbeat)
