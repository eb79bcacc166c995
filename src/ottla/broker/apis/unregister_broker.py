"""UnregisterBroker v0: a broker that stopped is not expected back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def unregister_broker(request: UnregisterBrokerRequest, node: Node, caller: Caller) -> UnregisterBrokerResponse:
    await node.commit(node.controller.unregister_broker(request.broker_id))
    node.controllership.let_go(request.broker_id)
    return UnregisterBrokerResponse(error_message=None)


api = Api(key=64, handler=unregister_broker)
