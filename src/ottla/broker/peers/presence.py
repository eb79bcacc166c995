"""Whether other brokers are there, seen by whether they answer; what clients are told of leaders waits for it.

`Suspicions` decides whom to look at and how long to wait; here are the sockets, the timers and those who wait.
"""

from __future__ import annotations

import asyncio

from ottla.broker.ground import Ground
from ottla.broker.peers.peers import Peers
from ottla.broker.peers.suspicions import Suspicions
from ottla.cluster import ImageChanges

SILENT_MS = 30
"""Who neither answers nor refuses a connection within this time is not waited for."""


class Presence:
    def __init__(self, ground: Ground, peers: Peers) -> None:
        self._ground = ground
        self._peers = peers
        self._suspicions = Suspicions(ground.node_id)
        self._settled: dict[int, asyncio.Future[None]] = {}
        """By suspected broker, done when it is known what becomes of it."""
        self._looks: dict[int, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether who asks for leaders now has to wait, if only for a look at them."""
        suspicions, ground = self._suspicions, self._ground
        return bool(suspicions.open_ids or self._looks or suspicions.to_look_at(ground.image.brokers, ground.now()))

    def connection_broke(self, broker_id: int) -> None:
        ground = self._ground
        if self._suspicions.connection_broke(broker_id, ground.image.brokers, ground.now()):
            self._update()
            self._look_at(broker_id)

    def image_changed(self, changes: ImageChanges) -> None:
        if not changes.brokers_changed:
            return
        self._suspicions.metadata_changed(self._ground.image.brokers)
        self._update()

    async def settled(self) -> None:
        """Until the brokers have been looked at, and what is suspected is known."""
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
            self._suspicions.looked_at(broker_id, look, ground.image.brokers, ground.now())
            self._update()

    def _update(self) -> None:
        """Let go who need not wait any more; see to it that nobody waits for longer than the suspicions last."""
        open_ids = self._suspicions.open_ids
        for broker_id in [id for id in self._settled if id not in open_ids]:
            self._settled.pop(broker_id).set_result(None)
        for broker_id in open_ids:
            if broker_id not in self._settled:
                self._settled[broker_id] = self._ground.loop.create_future()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._suspicions.deadline()
        if deadline is not None:
            wait_ms = max(deadline - self._ground.now(), 0)
            self._timer = self._ground.loop.call_later(wait_ms / 1000, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self._suspicions.tick(self._ground.now())
        self._update()
