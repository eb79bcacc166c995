"""AlterClientQuotas v0-v1: the controller decides, every broker enforces."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse


async def alter_client_quotas(
    request: AlterClientQuotasRequest, metadata: Metadata, caller: Caller
) -> AlterClientQuotasResponse:
    return await metadata.commit(metadata.controller.alter_client_quotas(request))


api = Api(key=49, handler=alter_client_quotas, is_forwarded=True)
