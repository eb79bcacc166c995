"""Does this node still lead? For answers that are wrong if another was elected meanwhile.

A leader that is cut off from the controller learns late that there is another. Its writes are safe all the same: they
are committed only when the followers that could have been elected have them, and an elected one no longer fetches here.
Its reads are not: a consumer that gets a committed offset which the next coordinator has already replaced processes
records twice.

So an answer of this kind waits until every replica that could lead in place of this node has sent a fetch to it after
the question arrived. A follower has one fetch in flight at a time. If that fetch is parked here when the question
arrives, it is answered, and the next fetch was certainly sent afterwards. If none is parked, the next fetch may have
been sent before the question, and only the one after it counts. (Kafka does not ask: its stale coordinators answer
OffsetFetch.)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.replicas.partitions import Partition
    from ottla.replication.fetch_sessions import FetchPartition, FetchSession

CONFIRMED_WITHIN_MS = 1_000
"""The longest wait. After it the caller has to look for the leader again: the leader or the ISR may have changed."""


class Leadership:
    """The partitions of a node whose leadership is being confirmed."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._running: dict[Partition, asyncio.Task[None]] = {}
        self._next: dict[Partition, asyncio.Task[None]] = {}
        """Confirmations that begin when the running one has ended, for questions that arrived after its start."""
        self._confirmations: dict[Partition, Confirmation] = {}

    def is_certain(self, partition: Partition) -> bool:
        """Whether no other replica can lead without this node's knowledge. Without fetch sessions it cannot be
        confirmed.
        """
        return partition.is_alone or self._ground.config.max_incremental_fetch_session_cache_slots == 0

    async def confirm(self, partition: Partition) -> None:
        """Wait until it is certain that this node led the partition at the time of the call. KafkaError
        NOT_LEADER_OR_FOLLOWER if it did not, or if that could not be found out.
        """
        if self.is_certain(partition):
            return
        asked = self._next.get(partition)
        if asked is None:
            running = self._running.get(partition)
            if running is None:
                asked = self._running[partition] = self._ground.spawn(self._confirm(partition))
            else:
                asked = self._next[partition] = self._ground.spawn(self._confirm_after(running, partition))
        await asyncio.shield(asked)

    def lost(self, partition: Partition) -> None:
        """Another leader is known: all confirmations fail now."""
        confirmation = self._confirmations.get(partition)
        if confirmation is not None and not confirmation.future.done():
            confirmation.future.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    async def _confirm_after(self, running: asyncio.Task[None], partition: Partition) -> None:
        await asyncio.wait([running])
        self._running[partition] = self._next.pop(partition)
        await self._confirm(partition)

    async def _confirm(self, partition: Partition) -> None:
        try:
            confirmation = self._confirmations[partition] = Confirmation(partition, self._ground.loop)
            async with asyncio.timeout(CONFIRMED_WITHIN_MS / 1000):
                await confirmation.future
        except TimeoutError:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from None
        finally:
            ended = self._confirmations.pop(partition, None)
            if ended is not None:
                ended.close()
            del self._running[partition]


class Confirmation:
    """One confirmation: it ends when all replicas that could lead have fetched again."""

    def __init__(self, partition: Partition, loop: asyncio.AbstractEventLoop) -> None:
        """KafkaError NOT_LEADER_OR_FOLLOWER if it is known already that another replica may lead."""
        partition.check_leader()
        leader = partition.leader
        electable = () if leader is None else leader.electable()  # no other replicas are left
        self._loop = loop
        self.future: asyncio.Future[None] = loop.create_future()
        self._unconfirmed: dict[FetchSession, tuple[FetchPartition, int]] = {}
        """Replicas that have not fetched again -> the fetch of their session that will count."""
        if not partition.has_enough_in_sync():
            # Replicas that were in the ISR before may be elected, too (KIP-966).
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for replica_id in electable:
            fetch = partition.fetches.get(replica_id)
            session = None if fetch is None else fetch.session
            if fetch is None or session is None:
                # It has not fetched yet, or has stopped fetching.
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._unconfirmed[session] = (
                fetch,
                session.epoch + (1 if session.parked_follower_fetch is not None else 2),
            )
        if not self._unconfirmed:
            self.future.set_result(None)
        for session, (fetch, _) in self._unconfirmed.items():
            session.watchers[self] = None
            fetch.grew()

    def asked(self, session: FetchSession) -> None:
        """A follower has sent its next fetch."""
        fetch, turn = self._unconfirmed[session]
        if fetch.session is not session:
            return  # its session no longer has this partition
        if session.epoch < turn:
            self._loop.call_soon(fetch.grew)  # once it is parked
            return
        del self._unconfirmed[session]
        session.watchers.pop(self, None)
        if not self._unconfirmed and not self.future.done():
            self.future.set_result(None)

    def close(self) -> None:
        for session in self._unconfirmed:
            session.watchers.pop(self, None)
        self._unconfirmed.clear()
