"""ElectLeaders v0-v2: the preferred replicas lead again, or any replica where there is no leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def elect_leaders(request: ElectLeadersRequest, node: Node, caller: Caller) -> ElectLeadersResponse:
    return await node.commit(node.controller.elect_leaders(request))


api = Api(key=43, handler=elect_leaders)
