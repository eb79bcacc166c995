"""Brokers whose connections broke just now: what the metadata says of them may be about to change.

A client that loses its connection to a broker asks another one at once who leads now. A killed broker's partitions have
new leaders some hundredths of a second later; whoever asked before is told the old one, and librdkafka then waits for a
whole second, or two, before it asks again. So a broker that saw the same connection break holds its answer back until
the active controller has decided, or it turns out that there is nothing to decide.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.node import Node

HOLD_MS = 400
"""An answer is held back no longer."""
REST_MS = 10_000
"""Nor for the same broker again soon: one that is cut off, and not gone, must not make everybody wait."""


class Suspicions:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._open: dict[int, asyncio.Future[None]] = {}
        """By broker, done when it is known what becomes of it."""
        self._not_before: dict[int, tuple[int, int]] = {}
        """By broker, which of its epochs is not suspected again before when."""

    @property
    def are_open(self) -> bool:
        return bool(self._open)

    def connection_broke(self, broker_id: int) -> None:
        """A broker closed or refused a connection."""
        node, now = self._node, self._node.now()
        broker = node.image.brokers.get(broker_id)
        if broker is None or broker.is_fenced:
            return
        epoch, not_before = self._not_before.get(broker_id, (-1, 0))
        if epoch == broker.epoch and now < not_before:
            return
        self._not_before[broker_id] = broker.epoch, now + REST_MS
        if broker_id in self._open:
            return
        self._open[broker_id] = node.loop.create_future()
        node.loop.call_later(HOLD_MS / 1000, self._settle, broker_id)

    def metadata_changed(self) -> None:
        for broker_id in list(self._open):
            broker = self._node.image.brokers.get(broker_id)
            if broker is None or broker.is_fenced:
                self._settle(broker_id)

    def _settle(self, broker_id: int) -> None:
        settled = self._open.pop(broker_id, None)
        if settled is not None:
            settled.set_result(None)

    async def settled(self) -> None:
        """Until what is suspected now is known."""
        if self._open:
            await asyncio.wait(list(self._open.values()))
