"""BrokerRegistration v0-v4: a process registers as a broker of the cluster. Answered by the active controller."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


async def broker_registration(
    request: BrokerRegistrationRequest, metadata: Metadata, caller: Caller
) -> BrokerRegistrationResponse:
    existing = metadata.controller.image.brokers.get(request.broker_id)
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and existing.is_active
        and metadata.controllership.is_certainly_alive(existing.id)
    ):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session.",
        )
    decision = metadata.controller.register_broker(request, broker_epoch=metadata.log.end_offset)
    broker_epoch = await metadata.commit(decision)
    metadata.controllership.heard_from(request.broker_id)
    return BrokerRegistrationResponse(broker_epoch=broker_epoch)


api = Api(key=62, handler=broker_registration, needs=cluster_wide(AclOperation.CLUSTER_ACTION))
