"""AlterPartitionReassignments v0-v1: partitions get other replicas, or keep those they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, node: Node, caller: Caller
) -> AlterPartitionReassignmentsResponse:
    return await node.commit(node.controller.alter_partition_reassignments(request))


api = Api(key=45, handler=alter_partition_reassignments)
