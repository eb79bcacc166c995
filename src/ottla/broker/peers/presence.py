"""Checks whether other brokers answer; answers to clients about leaders wait for that. `Suspicions` decides which
brokers to check and how long to wait; this module has the connections and the waiting answers.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cached_property

from ottla.broker.ground import Ground
from ottla.broker.peers.peers import Peers
from ottla.broker.peers.suspicions import (
    BrokersChanged,
    ConnectionBroke,
    Effect,
    Hold,
    LookAt,
    LookedAt,
    Release,
    Suspicions,
)
from ottla.cluster import BrokerImage, ImageChanges
from ottla.net import Driver

log = logging.getLogger("ottla.peers")

SILENT_MS = 30
"""A broker that neither answers nor refuses a connection within this time is not waited for."""


class Presence:
    def __init__(self, ground: Ground, peers: Peers) -> None:
        self._ground = ground
        self._peers = peers
        self._suspicions = Suspicions(ground.node_id)
        self._settled: dict[int, asyncio.Future[None]] = {}
        """Suspected broker -> a future that is done when the suspicion is settled."""
        self._looks: dict[int, asyncio.Task[None]] = {}

    @cached_property
    def _driver(self) -> Driver:
        ground = self._ground
        label = f"suspicions node={ground.node_id}"
        return Driver(self._suspicions, self._perform, loop=ground.loop, log=log, label=label)

    @property
    def is_doubtful(self) -> bool:
        """Whether an answer about leaders has to wait, if only for the check of a broker."""
        suspicions, ground = self._suspicions, self._ground
        return bool(suspicions.open_ids or self._looks or suspicions.to_look_at(ground.image.brokers, ground.now()))

    def connection_broke(self, broker_id: int) -> None:
        self._driver.handle(ConnectionBroke(broker_id, self._epoch(broker_id)))

    def image_changed(self, changes: ImageChanges) -> None:
        if changes.brokers_changed:
            brokers = self._ground.image.brokers.values()
            self._driver.handle(BrokersChanged({broker.id: broker.epoch for broker in brokers if not broker.is_fenced}))
        for broker_id, before in changes.brokers_changed.items():
            if before is not None and not before.is_fenced and self._epoch(broker_id) != before.epoch:
                self._hang_up(before)

    def _hang_up(self, fenced: BrokerImage) -> None:
        """Close connections to a dead broker, so that pending requests fail now and not at their timeout: its
        partitions have other leaders, and a pending transaction marker blocks all read_committed consumers.
        """
        endpoint = fenced.endpoints.get(self._ground.config.inter_broker_listener)
        if endpoint is not None:
            self._peers.hang_up(endpoint.host, endpoint.port)

    async def settled(self) -> None:
        """Wait until the brokers were checked and no suspicion is open."""
        ground = self._ground
        for broker_id in self._suspicions.to_look_at(ground.image.brokers, ground.now()):
            self._look_at(broker_id)
        if self._looks:
            await asyncio.wait(list(self._looks.values()))
        if self._settled:
            await asyncio.wait(list(self._settled.values()))

    def _look_at(self, broker_id: int) -> None:
        if broker_id not in self._looks and not self._ground.is_stopping:
            look = self._looks[broker_id] = self._ground.spawn(self._look(broker_id))
            look.add_done_callback(lambda _: self._looks.pop(broker_id))

    async def _look(self, broker_id: int) -> None:
        ground = self._ground
        address = ground.broker_address(broker_id)
        if address is not None:
            look = await self._peers.look_at(*address, SILENT_MS)
            self._driver.handle(LookedAt(broker_id, self._epoch(broker_id), look))

    def _epoch(self, broker_id: int) -> int | None:
        broker = self._ground.image.brokers.get(broker_id)
        return None if broker is None or broker.is_fenced else broker.epoch

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Hold(broker_id):
                self._settled[broker_id] = self._ground.loop.create_future()
            case Release(broker_id):
                self._settled.pop(broker_id).set_result(None)
            case LookAt(broker_id):
                self._look_at(broker_id)
