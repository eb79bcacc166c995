"""UnregisterBroker v0: a broker that stopped is not expected back."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def unregister_broker(
    request: UnregisterBrokerRequest, metadata: Metadata, caller: Caller
) -> UnregisterBrokerResponse:
    await metadata.commit(metadata.controller.unregister_broker(request.broker_id))
    metadata.controllership.let_go(request.broker_id)
    return UnregisterBrokerResponse(error_message=None)


api = Api(key=64, handler=unregister_broker, needs=cluster_wide(AclOperation.ALTER), is_forwarded=True)
