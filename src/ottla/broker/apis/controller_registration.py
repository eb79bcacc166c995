"""ControllerRegistration v0: a controller of the quorum says where it listens. Answered by the active one."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse


async def controller_registration(
    request: ControllerRegistrationRequest, metadata: Metadata, caller: Caller
) -> ControllerRegistrationResponse:
    await metadata.commit(metadata.controller.register_controller(request))
    return ControllerRegistrationResponse(error_message=None)


api = Api(key=70, handler=controller_registration, needs=cluster_wide(AclOperation.CLUSTER_ACTION))
