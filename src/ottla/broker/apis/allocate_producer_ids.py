"""AllocateProducerIds v0: a broker gets the next block of producer ids. Answered by the active controller."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, metadata: Metadata, caller: Caller
) -> AllocateProducerIdsResponse:
    block = await metadata.commit(metadata.controller.allocate_producer_ids(request.broker_id, request.broker_epoch))
    return AllocateProducerIdsResponse(producer_id_start=block.first_id, producer_id_len=block.end_id - block.first_id)


api = Api(key=67, handler=allocate_producer_ids, needs=cluster_wide(AclOperation.CLUSTER_ACTION))
