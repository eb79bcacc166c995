"""AlterPartition v2-v3: a leader proposes a new ISR. Answered by the active controller."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


async def alter_partition(request: AlterPartitionRequest, metadata: Metadata, caller: Caller) -> AlterPartitionResponse:
    try:
        return await metadata.commit(metadata.controller.alter_partition(request))
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        return AlterPartitionResponse(error_code=error.code)


api = Api(key=56, handler=alter_partition, needs=cluster_wide(AclOperation.CLUSTER_ACTION))
