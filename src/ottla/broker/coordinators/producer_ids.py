"""The producer ids that this node gives out.

They come from blocks that the controller hands to brokers, so that not every producer costs a metadata record. The
unused ids of a block are lost when the node stops, so no id is given out twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort


class ProducerIds:
    """The block from which this node gives out producer ids."""

    def __init__(self, ground: Ground, controller: ControllerPort) -> None:
        self._ground = ground
        self._controller = controller
        self._next = self._end = 0
        self._allocating: asyncio.Task[None] | None = None

    @property
    def is_empty(self) -> bool:
        return self._next == self._end

    def take(self) -> int | None:
        if self._next == self._end:
            return None
        self._next += 1
        return self._next - 1

    async def allocate(self) -> None:
        """Get the next block; callers that come meanwhile wait for the same one."""
        if self._allocating is None:
            self._allocating = self._ground.spawn(self._allocate())
        await asyncio.shield(self._allocating)

    async def _allocate(self) -> None:
        try:
            broker = self._ground.image.brokers[self._ground.node_id]
            request = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)
            response: AllocateProducerIdsResponse = await self._controller.ask(request)
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code))
            self._next = response.producer_id_start
            self._end = response.producer_id_start + response.producer_id_len
        finally:
            self._allocating = None
