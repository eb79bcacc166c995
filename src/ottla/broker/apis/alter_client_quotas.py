"""AlterClientQuotas v0-v1: the controller decides, every broker enforces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def alter_client_quotas(
    request: AlterClientQuotasRequest, node: Node, caller: Caller
) -> AlterClientQuotasResponse:
    return await node.commit(node.controller.alter_client_quotas(request))


api = Api(key=49, handler=alter_client_quotas)
