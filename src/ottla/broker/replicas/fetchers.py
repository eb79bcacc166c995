"""Following: what other nodes lead is copied from them, over one connection and one fetch session for each leader.

A fetcher always has one Fetch on its way. What its answer holds goes from the receive buffer to the logs, and the next
request tells, by the offsets it asks for, that it is there. In a session only what changed is told (KIP-227), so a
request costs what moved, however many partitions are followed.

Cython compiles this file (types in fetchers.pxd), and it runs as it stands.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.replicas import follower_frames
from ottla.broker.replicas.follower_frames import Followed, Key
from ottla.net import EncodedRequest, NoAnswer, Peer
from ottla.replication.follower import (
    Backoff,
    Bounds,
    Step,
    compare_bounds,
    followed_high_watermark,
    next_step,
    truncation_offset,
)
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_SESSION_EPOCH, NO_SESSION

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.peers.peers import Peers
    from ottla.broker.peers.presence import Presence
    from ottla.broker.replicas.partitions import Partition
    from ottla.broker.replicas.throttles import ReplicationThrottles
    from ottla.storage import Logs

log = logging.getLogger("ottla.replicas")

INTERRUPT_MS = 5
"""How long a partition that is new waits for the answer to a request that does not name it. The leader may have nothing
to answer for half a second, in which the new partition's leader could commit nothing."""
MIN_INTERRUPT_INTERVAL_MS = 500
_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class Fetchers:
    """One for each leader that something is followed of."""

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
        self.peers = peers
        self.presence = presence
        self._logs = logs
        self.throttles = throttles
        self.controller = controller
        self._by_leader: dict[int, Fetcher] = {}
        self._leaders: dict[Partition, int] = {}
        self._cuts: dict[Partition, bool] = {}
        """Logs that were cut, which is not on disk yet; whether below their recovery point."""
        self._checkpoint: asyncio.Future[None] | None = None
        self.is_started = False

    def start(self) -> None:
        """From here on this node has a broker epoch to fetch with."""
        self.is_started = True
        for fetcher in self._by_leader.values():
            fetcher.fetch_soon()

    def follow(self, partition: Partition) -> None:
        """Copy a partition from the leader that it now has, in the epoch that it now has."""
        leader_id = partition.leader_id
        if self._leaders.get(partition, leader_id) != leader_id or leader_id < 0:
            self.forget(partition)
        if leader_id < 0:
            return
        fetcher = self._by_leader.get(leader_id)
        if fetcher is None:
            fetcher = self._by_leader[leader_id] = Fetcher(self._ground, self, leader_id)
        self._leaders[partition] = leader_id
        fetcher.add(partition)

    def forget(self, partition: Partition) -> None:
        leader_id = self._leaders.pop(partition, None)
        if leader_id is not None:
            fetcher = self._by_leader[leader_id]
            fetcher.remove(partition)
            if fetcher.is_idle:
                fetcher.close()
                del self._by_leader[leader_id]

    # Logs that are cut

    def is_cut(self, partition: Partition) -> bool:
        """Whether nothing may be copied yet, from whatever leader."""
        return partition in self._cuts

    def begin_cut(self, partition: Partition, *, is_below_recovery_point: bool) -> None:
        self._cuts[partition] = is_below_recovery_point or self._cuts.get(partition, False)

    async def sync_cut(self, partition: Partition) -> None:
        """Put a cut on disk, before anything is copied: after a power loss pages of what was cut off could otherwise
        stand among those of what came after it, and nothing would tell them apart."""
        try:
            if self._cuts[partition]:
                await self._checkpointed()  # or recovery would trust what is written there from now on
            await partition.log.sync_end()
        finally:
            del self._cuts[partition]

    def _checkpointed(self) -> asyncio.Future[None]:
        """Checkpoints hold all logs, and to replace their files may take a while: all that are cut in a turn share one
        time."""
        if self._checkpoint is None:
            self._checkpoint = self._ground.loop.create_future()
            self._ground.loop.call_soon(self._write_checkpoint, self._checkpoint)
        return self._checkpoint

    def _write_checkpoint(self, written: asyncio.Future[None]) -> None:
        self._checkpoint = None
        self._logs.checkpoint()
        if not written.done():
            written.set_result(None)

    def resume(self, partition: Partition) -> None:
        """Copy again what was left out for a while, from the leader that it now has."""
        leader_id = self._leaders.get(partition)
        if leader_id is not None:
            self._by_leader[leader_id].resume(partition)

    def close(self) -> None:
        self.is_started = False
        for fetcher in self._by_leader.values():
            fetcher.close()
        self._by_leader.clear()
        self._leaders.clear()


class Fetcher:
    """Copies from one leader."""

    def __init__(self, ground: Ground, fetchers: Fetchers, leader_id: int) -> None:
        self._ground = ground
        self._fetchers = fetchers
        self._peers = fetchers.peers
        self._throttles = fetchers.throttles
        self._leader_id = leader_id
        self._followed: dict[Key, Followed] = {}
        self._changed: dict[Key, None] = {}
        """What the leader's session does not know yet."""
        self._told: dict[Key, None] = {}
        """What the leader's session knows."""
        self._forgotten: dict[Key, None] = {}
        self._delayed: dict[Key, Followed] = {}
        self._held_back: dict[Key, None] = {}
        """Those of them that a throttle lets wait, and no error."""
        self._mending: dict[Key, Followed] = {}
        """Those that are not asked for before their logs are in line with the leader's, which takes a while."""
        self._session_id, self._session_epoch = NO_SESSION, 0
        self._peer: Peer | None = None
        self._address = ("", 0)
        self._backoff = Backoff()
        self._is_asking = self._is_due = self._is_closed = self._is_interrupted = self._is_interrupt_due = False
        self._interrupted_at = -MIN_INTERRUPT_INTERVAL_MS
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        return not self._followed

    # What is followed

    def add(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        known = self._followed.get(key)
        if known is not None and known.epoch == partition.leader_epoch and known.partition is partition:
            return
        followed = self._followed[key] = Followed(partition)
        self._delayed.pop(key, None)
        self._held_back.pop(key, None)
        self._mending.pop(key, None)
        if self._fetchers.is_cut(partition):
            self._mending[key] = followed
        self._ask_for(key)

    def resume(self, partition: Partition) -> None:
        """Ask again for a partition that was mended."""
        key = (partition.topic_id, partition.index)
        if self._mending.pop(key, None) is not None:
            self._ask_for(key)
        else:
            self.fetch_soon()

    def _ask_for(self, key: Key) -> None:
        self._forgotten.pop(key, None)
        self._changed[key] = None
        if self._is_asking:
            self._interrupt_soon()
        else:
            self._backoff.succeeded()
            self.fetch_soon()

    def remove(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        if self._followed.pop(key, None) is not None:
            self._leave_out(key)
            self._delayed.pop(key, None)
            self._held_back.pop(key, None)
            self._mending.pop(key, None)

    def _leave_out(self, key: Key) -> None:
        self._changed.pop(key, None)
        if key in self._told:
            self._forgotten[key] = None

    def _delay(self, key: Key, followed: Followed) -> None:
        """Leave a partition out for a while after an error."""
        followed.backoff.failed(self._ground.now(), self._ground.config.replica_fetch_backoff_ms)
        self._leave_out(key)
        self._delayed[key] = followed
        self._held_back.pop(key, None)
        self._mending.pop(key, None)

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._peer is not None:
            self._peer.close()

    # Asking

    def fetch_soon(self) -> None:
        if not self._is_due and not self._is_asking:
            self._is_due = True
            self._ground.loop.call_soon(self._fetch)

    def _interrupt_soon(self) -> None:
        """Not again and again while thousands of new partitions come in: each time all are named anew."""
        if not self._is_interrupt_due:
            self._is_interrupt_due = True
            wait_ms = max(INTERRUPT_MS, self._interrupted_at + MIN_INTERRUPT_INTERVAL_MS - self._ground.now())
            self._ground.loop.call_later(wait_ms / 1000, self._interrupt)

    def _interrupt(self) -> None:
        """Something new is to be asked for, and the leader still waits with the last answer: begin anew."""
        self._is_interrupt_due = False
        if self._is_asking and self._changed and self._peer is not None and not self._is_closed:
            self._is_interrupted = True
            self._interrupted_at = self._ground.now()
            self._peer.close()

    def _fetch(self) -> None:
        self._is_due = False
        ground = self._ground
        if self._is_asking or self._is_closed or not self._fetchers.is_started or ground.is_stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = ground.now()
        if self._backoff.until > now:
            self._wake_at(self._backoff.until)
            return
        wait_ms = ground.config.replica_fetch_wait_max_ms
        if self._delayed:
            self._resume_delayed(now)
        if self._delayed:
            due = self._next_due()
            wait_ms = min(wait_ms, due - now)
        for key in self._mending:
            self._leave_out(key)
        if not self._changed and len(self._told) <= len(self._forgotten):
            if self._delayed:
                self._wake_at(due)
            return
        peer = self._connect()
        if peer is None:
            self._failed()
            return
        self._is_asking = True
        request = EncodedRequest(FetchRequest, follower_frames.VERSION, self._request(wait_ms), self._take_frame)
        peer.send(request, self._answered, timeout_ms=ground.config.replica_socket_timeout_ms)

    def _resume_delayed(self, now: int) -> None:
        for key, followed in list(self._delayed.items()):
            if followed.backoff.until <= now and not (key in self._held_back and self._holds_back(followed, now)):
                del self._delayed[key]
                self._held_back.pop(key, None)
                self._forgotten.pop(key, None)
                self._changed[key] = None

    def _next_due(self) -> int:
        """When the first of those that were left out is asked for again."""
        return min(followed.backoff.until for followed in self._delayed.values())

    def _wake_at(self, time: int) -> None:
        self._timer = self._ground.loop.call_later(max(1, time - self._ground.now()) / 1000, self._timed)

    def _timed(self) -> None:
        self._timer = None
        self.fetch_soon()

    def _connect(self) -> Peer | None:
        ground = self._ground
        broker = ground.image.brokers.get(self._leader_id)
        endpoint = broker.endpoints.get(ground.config.inter_broker_listener) if broker is not None else None
        if endpoint is None:
            return None
        if self._peer is None or self._address != (endpoint.host, endpoint.port):
            if self._peer is not None:
                self._peer.close()
            self._address = (endpoint.host, endpoint.port)
            self._peer = self._peers.new_peer(endpoint.host, endpoint.port)
            self._begin_session()
        return self._peer

    def _begin_session(self) -> None:
        """The next request names everything again."""
        self._session_epoch = 0
        self._told.clear()
        self._forgotten.clear()
        for key in self._followed:
            if key not in self._delayed:
                self._changed[key] = None

    def _request(self, wait_ms: int) -> bytes:
        config = self._ground.config
        wanted = follower_frames.wanted_rows(self._changed, self._followed, config.replica_fetch_max_bytes)
        self._told |= self._changed
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in self._forgotten:
            forgotten.setdefault(topic_id, []).append(index)
            self._told.pop((topic_id, index), None)
        self._changed.clear()
        self._forgotten.clear()
        return follower_frames.fetch_body(
            wanted,
            forgotten,
            (wait_ms, config.replica_fetch_min_bytes, config.replica_fetch_response_max_bytes),
            (self._session_id, self._session_epoch),
            (config.node_id, self._fetchers.controller.broker_epoch),
        )

    # Answers

    def _answered(self, answer: Message | NoAnswer) -> None:
        self._is_asking = False
        if self._is_closed:
            return
        if isinstance(answer, NoAnswer):
            self._begin_session()
            if self._is_interrupted:
                self._is_interrupted = False
                self._fetch()
                return
            if answer.is_closed:
                self._fetchers.presence.connection_broke(self._leader_id)
            self._failed()
            return
        self._is_interrupted = False
        assert isinstance(answer, FetchResponse)
        if answer.error_code in _SESSION_ERRORS:
            self._session_id = NO_SESSION
            self._begin_session()
            self._fetch()
            return
        if answer.error_code:
            self._begin_session()
            self._failed()
            return
        for topic in answer.responses:
            for row in topic.partitions:
                self._take((topic.topic_id, row.partition_index), row)
        self._go_on(answer.session_id)

    def _take_frame(self, frame: memoryview) -> bool:
        """An answer as it comes all day: records, and how far they are committed."""
        if self._is_closed:
            return False
        answer = follower_frames.answered_rows(frame)
        if answer is None:
            return False
        self._is_asking = self._is_interrupted = False
        session_id, rows = answer
        is_throttled = self._throttles.follower.is_set
        for row in follower_frames.take_rows(rows, self._followed, self._changed, is_throttled):
            key, followed, _, _, _ = row
            try:
                self._append(*row)
            except KafkaError as error:
                self._cannot_copy(key, followed, error)
        self._go_on(session_id)
        return True

    def _go_on(self, session_id: int) -> None:
        """Everything an answer held is dealt with: ask for what comes next."""
        self._backoff.succeeded()
        self._session_id = session_id
        if self._session_id == NO_SESSION:
            self._begin_session()  # the leader has no room for one: everything is told each time
        else:
            self._session_epoch = 1 if self._session_epoch == MAX_SESSION_EPOCH else self._session_epoch + 1
        self._fetch()

    def _failed(self) -> None:
        """The leader does not answer. Whether it is gone is not for us to say: the metadata will."""
        self._backoff.failed(self._ground.now(), self._ground.config.replica_fetch_backoff_ms)
        self._fetch()

    def _take(self, key: Key, row: PartitionData) -> None:
        followed = self._followed.get(key)
        if followed is None or key in self._changed:
            return  # it is led elsewhere, or asked for anew
        replica = followed.partition.log
        if replica.log_end_offset != followed.asked_offset:
            self._changed[key] = None
            return
        diverging = row.diverging_epoch
        step = next_step(row.error_code, is_diverging=diverging is not None)
        try:
            if step is Step.APPEND:
                records = row.records if isinstance(row.records, memoryview) else memoryview(b"")
                self._append(key, followed, row.high_watermark, row.log_start_offset, records)
            elif step is Step.TRUNCATE:
                assert diverging is not None
                offset = truncation_offset(
                    replica.epochs,
                    replica.log_end_offset,
                    replica.high_watermark,
                    diverging.epoch,
                    diverging.end_offset,
                )
                self._truncate(followed.partition, offset)
                self._mending[key] = followed
                self._ground.spawn(self._go_on_when_cut(key, followed))
            elif step is Step.FIND_START:
                self._mending[key] = followed
                self._ground.spawn(self._find_bounds(key, followed))
            elif step is Step.WAIT:
                self._delay(key, followed)
            else:
                self._leave_out(key)
        except KafkaError as error:
            self._cannot_copy(key, followed, error)

    def _cannot_copy(self, key: Key, followed: Followed, error: KafkaError) -> None:
        replica = followed.partition.log
        if replica.is_offline:
            self._leave_out(key)
            return
        log.warning("%s cannot be copied from broker %d: %s", replica.name, self._leader_id, error)
        self._delay(key, followed)

    def _append(
        self, key: Key, followed: Followed, leaders_high_watermark: int, log_start_offset: int, records: memoryview
    ) -> None:
        partition = followed.partition
        replica = partition.log
        size = len(records)
        if size:
            if replica.log_start_offset == replica.log_end_offset:
                first = int.from_bytes(records[:8], "big")
                if first < replica.log_start_offset:
                    # The leader's log begins in the middle of a batch: so does this one.
                    replica.truncate_fully(first, timestamp=self._ground.clock())
            replica.append_as_follower(records)
            if replica.is_flush_due:
                replica.flush_now()
            self._changed[key] = None
        high_watermark = followed_high_watermark(replica.high_watermark, leaders_high_watermark, replica.log_end_offset)
        if high_watermark > replica.high_watermark:
            replica.advance_high_watermark(high_watermark)
            if partition.waiters:
                partition.notify(max(size, 1))
        if log_start_offset > replica.log_start_offset:
            replica.advance_log_start(min(log_start_offset, replica.high_watermark))
        followed.backoff.succeeded()
        if size and self._throttles.follower.is_set:
            self._throttle(key, followed, size, leaders_high_watermark)

    def _throttle(self, key: Key, followed: Followed, size: int, high_watermark: int) -> None:
        """Leave a throttled partition that lags out until more may be copied (KIP-73)."""
        throttle = self._throttles.follower
        partition = followed.partition
        if throttle.is_throttled(partition.topic, partition.index):
            now = self._ground.now()
            throttle.record(size, now)
            if partition.log.log_end_offset < high_watermark and self._holds_back(followed, now):
                self._leave_out(key)
                self._delayed[key] = followed
                self._held_back[key] = None

    def _holds_back(self, followed: Followed, now: int) -> bool:
        """Whether a throttle lets a partition wait; it is looked at again after a while, the limit may have changed."""
        throttle = self._throttles.follower
        partition = followed.partition
        if not throttle.is_set or not throttle.is_throttled(partition.topic, partition.index):
            return False
        wait_ms = throttle.wait_ms(now)
        if wait_ms:
            followed.backoff.until = now + min(wait_ms, self._ground.config.replica_fetch_backoff_ms)
        return wait_ms > 0

    def _truncate(self, partition: Partition, offset: int) -> None:
        replica = partition.log
        if offset < replica.log_end_offset:
            level = logging.WARNING if offset < replica.high_watermark else logging.INFO
            log.log(
                level,
                "%s is cut from %d to %d: broker %d has another history (high watermark %d)",
                replica.name,
                replica.log_end_offset,
                offset,
                self._leader_id,
                replica.high_watermark,
            )
        is_below = offset < replica.recovery_point
        replica.truncate(offset, timestamp=self._ground.clock())
        self._fetchers.begin_cut(partition, is_below_recovery_point=is_below)
        partition.wake_all()

    async def _go_on_when_cut(self, key: Key, followed: Followed) -> None:
        """Copy again once the cut is on disk."""
        try:
            await self._fetchers.sync_cut(followed.partition)
        except KafkaError as error:
            if self._followed.get(key) is followed:
                self._cannot_copy(key, followed, error)
        self._fetchers.resume(followed.partition)

    # A log that ends outside of its leader's

    async def _find_bounds(self, key: Key, followed: Followed) -> None:
        partition = followed.partition
        start_offset = await self._leader_offset(followed, EARLIEST_TIMESTAMP)
        end_offset = await self._leader_offset(followed, LATEST_TIMESTAMP)
        if self._followed.get(key) is not followed:
            return
        if start_offset is None or end_offset is None:
            self._delay(key, followed)
            self.fetch_soon()
            return
        replica = partition.log
        try:
            bounds = compare_bounds(replica.log_end_offset, start_offset, end_offset)
            if bounds is Bounds.TRUNCATE:
                self._truncate(partition, end_offset)
                await self._fetchers.sync_cut(partition)
            elif bounds is Bounds.RESTART:
                log.warning(
                    "%s begins anew at %d: its end %d is before its leader's start",
                    replica.name,
                    start_offset,
                    replica.log_end_offset,
                )
                replica.truncate_fully(start_offset, timestamp=self._ground.clock())
                partition.wake_all()
            elif replica.log_start_offset < start_offset:
                replica.advance_log_start(start_offset)
        except KafkaError as error:
            log.warning("%s cannot be brought in line with its leader: %s", replica.name, error)
            if self._followed.get(key) is followed:
                self._delay(key, followed)
        self._fetchers.resume(partition)

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
            replica_id=self._ground.node_id,
            topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])],
        )
        host, port = self._address
        self._peers.send(host, port, request, take, self._ground.config.replica_socket_timeout_ms)
        return await told
