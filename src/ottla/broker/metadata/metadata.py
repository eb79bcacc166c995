"""The room of metadata: its log, this node's place in the quorum, the active controller, the broker's registration.

It owns the metadata log, the Raft machine, the controller while it is active here, and the broker epoch. The other
rooms learn of changes through `feed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.metadata.controllership import Controllership, Reply
from ottla.broker.metadata.feed import Feed
from ottla.broker.metadata.lifecycle import Lifecycle
from ottla.broker.metadata.ports import ANSWER_TIMEOUT_MS, LocalApis, LocalBroker
from ottla.broker.metadata.quorum import Quorum

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.log import MetadataLog
    from ottla.broker.peers.peers import Peers
    from ottla.controller import Controller
    from ottla.machine import Decision
    from ottla.wire import Message

SNAPSHOT_CHECK_INTERVAL_MS = 1_000


class Metadata:
    def __init__(
        self, ground: Ground, peers: Peers, metadata_log: MetadataLog, broker: LocalBroker, apis: LocalApis
    ) -> None:
        config = ground.config
        self.ground = ground
        self.log = metadata_log
        endpoints = tuple(
            (listener.name, listener.host or broker.host_name, listener.port)
            for listener in config.advertised_controller_listeners
            if listener.port
        )
        self.feed = Feed(ground)
        self.quorum = Quorum(metadata_log, config, send=peers.send_in_quorum, rng=ground.rng, endpoints=endpoints)
        self.quorum.on_commit = self.feed.committed
        self.quorum.on_snapshot = self.feed.snapshot
        self.quorum.on_leader = self._leader_changed
        self.controllership = Controllership(
            ground, peers, metadata_log, self.quorum, apis, lambda: self.lifecycle.broker_epoch >= 0
        )
        self.lifecycle = Lifecycle(ground, self.quorum, self.controllership, broker, metadata_log.cluster_id)

    @property
    def cluster_id(self) -> str:
        return self.log.cluster_id

    @property
    def controller(self) -> Controller:
        """The active controller; KafkaError NOT_CONTROLLER if it is another node's."""
        return self.controllership.controller

    @property
    def broker_epoch(self) -> int:
        return self.lifecycle.broker_epoch

    async def commit(self, decision: Decision[Reply]) -> Reply:
        """Write a decision of the controller; returns its reply once its records are committed."""
        return await self.controllership.commit(decision)

    async def ask(self, request: Message, *, timeout_ms: int = ANSWER_TIMEOUT_MS) -> Any:
        return await self.controllership.ask(request, timeout_ms=timeout_ms)

    async def caught_up(self) -> None:
        """Wait until this node has all metadata that is committed now, and knows the active controller."""
        await self.quorum.caught_up()
        await self.controllership.active()

    def schedule(self) -> None:
        """Start the periodic work: snapshots."""
        self.ground.every(SNAPSHOT_CHECK_INTERVAL_MS, self._snapshot_if_due)

    def _snapshot_if_due(self) -> None:
        if self.log.is_snapshot_due():
            self.ground.spawn(self.log.snapshot(self.ground.image))

    def _leader_changed(self, leader_id: int, epoch: int) -> None:
        if leader_id >= 0:
            self.lifecycle.beat_soon()
        self.controllership.leader_changed(leader_id, epoch)
