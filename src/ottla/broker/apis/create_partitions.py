"""CreatePartitions v0-v3: adds partitions to topics. Decided by the controller."""

from __future__ import annotations

from ottla.broker.apis.mutations import charge
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api
from ottla.broker.serving.quotas import Quotas
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

FIRST_STRICT_VERSION = 3


async def create_partitions(
    request: CreatePartitionsRequest, ground: Ground, metadata: Metadata, quotas: Quotas, caller: Caller
) -> CreatePartitionsResponse:
    counted = charge(ground, quotas, caller, first_strict_version=FIRST_STRICT_VERSION)
    response = await metadata.commit(metadata.controller.create_partitions(request, charge=counted))
    response.throttle_time_ms = caller.throttle_ms
    return response


api = Api(key=37, handler=create_partitions, is_forwarded=True)
