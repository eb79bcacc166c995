"""ControllerRegistration v0: a controller of the quorum says where it listens. Answered by the active one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def controller_registration(
    request: ControllerRegistrationRequest, node: Node, caller: Caller
) -> ControllerRegistrationResponse:
    await node.commit(node.controller.register_controller(request))
    return ControllerRegistrationResponse(error_message=None)


api = Api(key=70, handler=controller_registration)
