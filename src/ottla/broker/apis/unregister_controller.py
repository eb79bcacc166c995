"""UnregisterController v0: a controller that stopped is not expected back (KIP-1312; needs metadata.version 33)."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse


async def unregister_controller(
    request: UnregisterControllerRequest, metadata: Metadata, caller: Caller
) -> UnregisterControllerResponse:
    await metadata.commit(metadata.controller.unregister_controller(request.controller_id))
    return UnregisterControllerResponse(error_message=None)


api = Api(key=94, handler=unregister_controller, needs=cluster_wide(AclOperation.ALTER), is_forwarded=True)
