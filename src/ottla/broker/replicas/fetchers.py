"""Following: the leader that each partition is copied from, and the syncs of truncated logs."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.replicas.fetcher import Fetcher
from ottla.replication.follower import CopyFailed, CutSynced
from ottla.replication.follower_session import Removed, Started
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.peers.peers import Peers
    from ottla.broker.peers.presence import Presence
    from ottla.broker.replicas.partitions import Partition
    from ottla.broker.replicas.throttles import ReplicationThrottles
    from ottla.storage import Logs

log = logging.getLogger("ottla.replicas")


class Fetchers:
    """One fetcher for each leader that this node copies from."""

    def __init__(
        self,
        ground: Ground,
        peers: Peers,
        presence: Presence,
        logs: Logs,
        throttles: ReplicationThrottles,
        controller: ControllerPort,
    ) -> None:
        self._ground = ground
        self._peers = peers
        self._presence = presence
        self._logs = logs
        self._throttle = throttles.follower
        self._controller = controller
        self._by_leader: dict[int, Fetcher] = {}
        self._leaders: dict[Partition, int] = {}
        self._syncs: dict[Partition, asyncio.Task[None]] = {}
        """Running syncs of truncations. They continue when the leader changes, and when this node becomes the leader.
        """
        self._checkpoint: asyncio.Future[None] | None = None
        self._is_started = False

    def start(self) -> None:
        """This node has a broker epoch now and can fetch."""
        self._is_started = True
        for fetcher in self._by_leader.values():
            fetcher.handle(Started())

    def follow(self, partition: Partition) -> None:
        """Copy a partition from its present leader, in its present epoch."""
        leader_id = partition.leader_id
        if self._leaders.get(partition, leader_id) != leader_id or leader_id < 0:
            self.forget(partition)
        if leader_id < 0:
            return
        fetcher = self._by_leader.get(leader_id)
        if fetcher is None:
            fetcher = self._by_leader[leader_id] = self._new_fetcher(leader_id)
        self._leaders[partition] = leader_id
        fetcher.add(partition)

    def _new_fetcher(self, leader_id: int) -> Fetcher:
        fetcher = Fetcher(
            leader_id, self._ground, self._peers, self._presence, self._throttle, self._controller, self.sync_cut
        )
        if self._is_started:
            fetcher.handle(Started())
        return fetcher

    def forget(self, partition: Partition) -> None:
        leader_id = self._leaders.pop(partition, None)
        if leader_id is not None:
            fetcher = self._by_leader[leader_id]
            fetcher.handle(Removed((partition.topic_id, partition.index)))
            if fetcher.is_idle:
                fetcher.close()
                del self._by_leader[leader_id]

    def close(self) -> None:
        self._is_started = False
        for fetcher in self._by_leader.values():
            fetcher.close()
        self._by_leader.clear()
        self._leaders.clear()

    # --- Truncated logs

    def sync_cut(self, partition: Partition) -> None:
        """Put a truncation of a partition's log on disk; then the partition's follower at that time continues."""
        if partition not in self._syncs:
            self._syncs[partition] = self._ground.spawn(self._sync_cut(partition))

    async def cut_synced(self, partition: Partition) -> None:
        """Wait until a truncation of a partition's log is on disk, or its log is offline."""
        sync = self._syncs.get(partition)
        if sync is not None:
            await asyncio.wait([sync])

    async def _sync_cut(self, partition: Partition) -> None:
        try:
            await self._put_on_disk(partition)
        finally:
            del self._syncs[partition]
        leader_id = self._leaders.get(partition)
        if leader_id is not None:
            event = CopyFailed(is_offline=True) if partition.log.is_offline else CutSynced()
            self._by_leader[leader_id].happened(partition, event)

    async def _put_on_disk(self, partition: Partition) -> None:
        """Retry until it succeeds or the log is offline, whether the partition is led or followed meanwhile: a leader
        with a cut that is not on disk cannot append anything.
        """
        while partition.log.is_cut and not partition.log.is_offline:
            try:
                if partition.log.is_cut_below_recovery_point:
                    await self._checkpointed()
                await partition.log.sync_end()
            except KafkaError as error:
                if not partition.log.is_offline:
                    log.warning("a truncation of %s cannot be flushed: %s", partition.log.name, error)
                    await asyncio.sleep(self._ground.config.replica_fetch_backoff_ms / 1000)

    def _checkpointed(self) -> asyncio.Future[None]:
        """Write one checkpoint for all logs truncated in one turn: its files contain all logs, and replacing them may
        take a while.
        """
        if self._checkpoint is None:
            self._checkpoint = self._ground.loop.create_future()
            self._ground.loop.call_soon(self._write_checkpoint, self._checkpoint)
        return self._checkpoint

    def _write_checkpoint(self, written: asyncio.Future[None]) -> None:
        self._checkpoint = None
        self._logs.checkpoint()
        if not written.done():
            written.set_result(None)
