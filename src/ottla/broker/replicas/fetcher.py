"""Copying from one leader: the partitions that it leads, over one connection.

`replication.follower_session` decides what is fetched and when, `replication.follower` handles one partition. This
module has the sockets and the logs; a Driver runs the session. Ordinary answers go from the receive buffer to the logs
in compiled code, without an event per partition (`follower_frames.take_rows`); an answer that holds anything else is
decoded, and each of its partitions is an event.

Cython compiles this file (types in fetcher.pxd), and it runs as it stands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.replicas import follower_frames
from ottla.broker.replicas.follower_frames import Followed
from ottla.net import Driver, EncodedRequest, NoAnswer, Peer
from ottla.replication import follower_session as session
from ottla.replication.follower import (
    AdvanceStart,
    BoundsFound,
    BoundsUnknown,
    CopyFailed,
    Cut,
    Diverged,
    Event,
    Follower,
    Key,
    Refused,
    Restart,
    SyncCut,
    followed_high_watermark,
)
from ottla.replication.follower_session import FollowerSession, OfPartition
from ottla.wire import Message
from ottla.wire.errors import KafkaError
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_SESSION

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.peers.peers import Peers
    from ottla.broker.peers.presence import Presence
    from ottla.broker.replicas.partitions import Partition
    from ottla.replication.throttle import ReplicationThrottle

log = logging.getLogger("ottla.replicas")


class Fetcher:
    """Copies from one leader."""

    def __init__(
        self,
        leader_id: int,
        ground: Ground,
        peers: Peers,
        presence: Presence,
        throttle: ReplicationThrottle,
        controller: ControllerPort,
        sync_cut: Callable[[Partition], None],
    ) -> None:
        self._leader_id = leader_id
        self._ground = ground
        self._peers = peers
        self._presence = presence
        self._throttle = throttle
        self._controller = controller
        self._sync_cut = sync_cut
        self._session = FollowerSession(
            throttle,
            max_delay_ms=ground.config.replica_fetch_backoff_ms,
            max_wait_ms=ground.config.replica_fetch_wait_max_ms,
        )
        self._peer: Peer | None = None
        self._address = ("", 0)
        self._usual_answer = session.Answered(NO_SESSION)
        """The event of an answer: the same object as long as the session lasts."""
        label = f"follower node={ground.node_id} leader={leader_id}"
        self._driver = Driver(self._session, self._perform, loop=ground.loop, log=log, label=label)

    @property
    def is_idle(self) -> bool:
        return not self._session.followers

    def add(self, partition: Partition) -> None:
        known: Any = self._session.followers.get((partition.topic_id, partition.index))
        if known is None or known.epoch != partition.leader_epoch or known.partition is not partition:
            followed = Followed(partition, self._ground.config.replica_fetch_backoff_ms)
            self.handle(session.Added(followed.name, followed))

    def happened(self, partition: Partition, event: Event) -> None:
        """Handle an event of a partition, by its present follower."""
        follower = self._session.followers.get((partition.topic_id, partition.index))
        if follower is not None:
            self._handle_for(follower, event)

    def close(self) -> None:
        self.handle(session.Closed())
        self._driver.close()
        self._disconnect()

    # Running the session

    def handle(self, event: session.Event) -> None:
        self._driver.handle(event)

    def _handle_for(self, follower: Follower, event: Event) -> None:
        before = follower.state
        self.handle(OfPartition(follower.name, follower, event))
        if follower.state is not before and log.isEnabledFor(logging.DEBUG):
            log.debug("%s from broker %d: %s -> %s", follower.name, self._leader_id, before, follower.state)

    def _perform(self, effect: session.Effect) -> None:
        if isinstance(effect, session.Fetch):
            self._fetch(effect.wait_ms)
        elif isinstance(effect, session.ForPartition):
            assert isinstance(effect.follower, Followed)
            self._perform_for(effect.follower, effect.effect)
        elif isinstance(effect, session.CloseConnection):
            if self._peer is not None:
                self._peer.close()
        else:
            self._presence.connection_broke(self._leader_id)

    # Asking

    def _fetch(self, wait_ms: int) -> None:
        address = self._ground.broker_address(self._leader_id)
        if address is None:
            self.handle(session.Unanswered(is_closed=False))
            return
        if self._peer is not None and self._address == address:
            self._send(self._peer, wait_ms)
            return
        self._disconnect()
        self._address = address
        self._session.restart()
        self._peers.open(*address, partial(self._opened, wait_ms), self._ground.config.replica_socket_timeout_ms)

    def _opened(self, wait_ms: int, peer: Peer | None) -> None:
        if self._session.state is session.CLOSED:
            if peer is not None:
                peer.close()
        elif peer is None:
            self.handle(session.Unanswered(is_closed=False))
        else:
            self._peer = peer
            self._send(peer, wait_ms)

    def _send(self, peer: Peer, wait_ms: int) -> None:
        config = self._ground.config
        asked = self._session
        wanted = follower_frames.wanted_rows(asked.changed, asked.followers, config.replica_fetch_max_bytes)
        body = follower_frames.fetch_body(
            wanted,
            asked.begin_fetch(),
            (wait_ms, config.replica_fetch_min_bytes, config.replica_fetch_response_max_bytes),
            (asked.id, asked.epoch),
            (config.node_id, self._controller.broker_epoch),
        )
        request = EncodedRequest(FetchRequest, follower_frames.VERSION, body, self._take_frame)
        peer.send(request, self._answered, timeout_ms=config.replica_socket_timeout_ms)

    def _disconnect(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    # Answers

    def _take_frame(self, frame: memoryview) -> bool:
        """Take an ordinary answer: records and high watermarks."""
        if self._session.state is session.CLOSED:
            return False
        answer = follower_frames.answered_rows(frame)
        if answer is None:
            return False
        session_id, rows = answer
        is_throttled = self._throttle.is_set
        asked = self._session
        for row in follower_frames.take_rows(rows, asked.followers, asked.changed, is_throttled):
            self._copy(*row)
        if session_id != self._usual_answer.session_id:
            self._usual_answer = session.Answered(session_id)
        self.handle(self._usual_answer)
        return True

    def _answered(self, answer: Message | NoAnswer) -> None:
        if self._session.state is session.CLOSED:
            return
        if isinstance(answer, NoAnswer):
            self._disconnect()
            if self._session.state is not session.INTERRUPTING:
                self._peers.forget_address(self._address[0])
            self.handle(session.Unanswered(answer.is_closed))
            return
        assert isinstance(answer, FetchResponse)
        if answer.error_code:
            self.handle(session.Rejected(answer.error_code))
            return
        for topic in answer.responses:
            for row in topic.partitions:
                self._take((topic.topic_id, row.partition_index), row)
        self.handle(session.Answered(answer.session_id))

    def _take(self, key: Key, row: PartitionData) -> None:
        followed: Any = self._session.followers.get(key)
        if followed is None or not self._session.expects(key, followed.partition.log.log_end_offset):
            return
        diverging = row.diverging_epoch
        if row.error_code:
            self._handle_for(followed, Refused(row.error_code))
        elif diverging is not None:
            event = Diverged(diverging.epoch, diverging.end_offset, followed.partition.log)
            self._handle_for(followed, event)
        else:
            records = row.records if isinstance(row.records, memoryview) else memoryview(b"")
            self._copy(followed, row.high_watermark, row.log_start_offset, records)

    def _copy(
        self, followed: Followed, leaders_high_watermark: int, log_start_offset: int, records: memoryview
    ) -> None:
        partition = followed.partition
        replica = partition.log
        size = len(records)
        try:
            if size:
                if replica.log_start_offset == replica.log_end_offset:
                    first = int.from_bytes(records[:8], "big")
                    if first < replica.log_start_offset:
                        # The leader's log begins in the middle of a batch, and so does this log.
                        replica.truncate_fully(first, timestamp=self._ground.clock())
                replica.append_as_follower(records)
                if replica.is_flush_due:
                    replica.flush_now()
                self._session.changed[followed.key] = None
            high_watermark = followed_high_watermark(
                replica.high_watermark, leaders_high_watermark, replica.log_end_offset
            )
            if high_watermark > replica.high_watermark:
                replica.advance_high_watermark(high_watermark)
                if partition.delayed_fetches:
                    partition.wake_fetches(max(size, 1))
            if log_start_offset > replica.log_start_offset:
                replica.advance_log_start(min(log_start_offset, replica.high_watermark))
        except KafkaError as error:
            self._copy_failed(followed, error)
            return
        followed.delay_ms = 0
        if size and self._throttle.is_set:
            is_behind = replica.log_end_offset < leaders_high_watermark
            self._session.copied(followed, size, is_behind, self._ground.now())

    def _copy_failed(self, followed: Followed, error: KafkaError) -> None:
        replica = followed.partition.log
        if not replica.is_offline:
            log.warning("%s cannot be copied from broker %d: %s", replica.name, self._leader_id, error)
        self._handle_for(followed, CopyFailed(replica.is_offline))

    # One partition

    def _perform_for(self, followed: Followed, effect: object) -> None:
        partition = followed.partition
        replica = partition.log
        try:
            if isinstance(effect, Cut):
                self._log_cut(followed, effect.offset)
                replica.cut(effect.offset, timestamp=self._ground.clock())
                partition.wake_all()
            elif isinstance(effect, SyncCut):
                self._sync_cut(partition)
            elif isinstance(effect, Restart):
                log.warning(
                    "%s restarts empty at offset %d: its log end offset %d is before its leader's log start offset",
                    replica.name,
                    effect.offset,
                    replica.log_end_offset,
                )
                replica.truncate_fully(effect.offset, timestamp=self._ground.clock())
                partition.wake_all()
            elif isinstance(effect, AdvanceStart):
                replica.advance_log_start(effect.offset)
            else:
                self._ground.spawn(self._ask_bounds(followed))
        except KafkaError as error:
            self._copy_failed(followed, error)

    def _log_cut(self, followed: Followed, offset: int) -> None:
        replica = followed.partition.log
        if offset < replica.log_end_offset:
            log.log(
                logging.WARNING if offset < replica.high_watermark else logging.INFO,
                "%s is cut from %d to %d: broker %d has another history (high watermark %d)",
                replica.name,
                replica.log_end_offset,
                offset,
                self._leader_id,
                replica.high_watermark,
            )

    async def _ask_bounds(self, followed: Followed) -> None:
        start_offset = await self._leader_offset(followed, EARLIEST_TIMESTAMP)
        end_offset = await self._leader_offset(followed, LATEST_TIMESTAMP)
        if start_offset is None or end_offset is None:
            self._handle_for(followed, BoundsUnknown())
        else:
            self._handle_for(followed, BoundsFound(start_offset, end_offset, followed.partition.log))

    async def _leader_offset(self, followed: Followed, timestamp: int) -> int | None:
        partition = followed.partition
        told: asyncio.Future[int | None] = self._ground.loop.create_future()

        def take(answer: Message | NoAnswer) -> None:
            offset = None
            if isinstance(answer, ListOffsetsResponse) and answer.topics and answer.topics[0].partitions:
                row = answer.topics[0].partitions[0]
                offset = row.offset if not row.error_code and row.offset >= 0 else None
            if not told.done():
                told.set_result(offset)

        asked = ListOffsetsPartition(
            partition_index=partition.index, current_leader_epoch=followed.epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._ground.config.node_id,
            topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])],
        )
        host, port = self._address
        self._peers.send(host, port, request, take, self._ground.config.replica_socket_timeout_ms)
        return await told
