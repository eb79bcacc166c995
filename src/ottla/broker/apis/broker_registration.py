"""BrokerRegistration v0-v4: a process says that it is a broker of the cluster. Answered by the active controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def broker_registration(
    request: BrokerRegistrationRequest, node: Node, caller: Caller
) -> BrokerRegistrationResponse:
    existing = node.controller.image.brokers.get(request.broker_id)
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and existing.is_active
        and node.controllership.is_certainly_alive(existing.id)
    ):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session.",
        )
    decision = node.controller.register_broker(request, broker_epoch=node.metadata_log.end_offset)
    broker_epoch = await node.commit(decision)
    node.controllership.heard_from(request.broker_id)
    return BrokerRegistrationResponse(broker_epoch=broker_epoch)


api = Api(key=62, handler=broker_registration)
