"""AlterPartition v2-v3: a leader proposes who is in sync with it. Answered by the active controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def alter_partition(request: AlterPartitionRequest, node: Node, caller: Caller) -> AlterPartitionResponse:
    try:
        return await node.commit(node.controller.alter_partition(request))
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        return AlterPartitionResponse(error_code=error.code)


api = Api(key=56, handler=alter_partition)
