"""A share partition on the broker that leads its partition: the machine of its records, and its driver.

    Loading   the share coordinator is asked for its state; fetches wait
    Active records are handed out and acknowledged; at most one write to the share coordinator is in flight, and
    acknowledgements and releases meanwhile are sent with the next Fenced    the leader, the group or the topic changed,
    or the coordinator refused a write because of that; it is dropped

Fetches that found nothing wait here, in the order of their arrival: new records, released ones and locks that expire
wake the first of them, and the next if there is more. So one append wakes one member, not all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.broker.replicas.partitions import EVERYTHING
from ottla.broker.share.batch_places import aborted_ranges, batch_places, slice_of
from ottla.broker.share.letter_writer import LetterWriter
from ottla.broker.share.state_store import UNINITIALIZED_OFFSET, StateStore
from ottla.config.keys import duration_ms
from ottla.groups.share.partition import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    Change,
    DeliveryState,
    LetterRange,
    SharePartition,
    StateBatch,
    in_batches,
)
from ottla.groups.share.state_batches import StoredBatch
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareState, ShareWrite
from ottla.records import CorruptRecords
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.replicas.partitions import Partition
    from ottla.broker.share.dead_letters import DeadLetterQueues
    from ottla.broker.share.meter import ShareMeter
    from ottla.config import GroupConfig
    from ottla.net import Deadline
    from ottla.storage.disk import FileSlice

MAX_EMPTY_READS = 64
"""Pieces of the log without a record to hand out (aborted transactions) that one fetch looks at in a row."""
WRITE_PAUSE_S = 1.0
"""The pause between attempts to write expired locks while the share coordinator is unavailable."""
READ_COMMITTED = "read_committed"

_CLIENT_ERRORS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""The coordinator's error -> the member's; all others are UNKNOWN_SERVER_ERROR."""
_PASSING = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
)
"""The coordinator is unavailable now: the expired lock is written later, and its records wait."""
_FENCING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class WaitingFetch(Protocol):
    """A ShareFetch that is parked until there are records for it."""

    def retry(self) -> None: ...


class Taken(NamedTuple):
    """The records that a fetch acquired of one partition."""

    records: FileSlice
    acquired: list[Acquired]
    record_count: int


class HostedSharePartition:
    def __init__(
        self,
        key: SharePartitionKey,
        partition: Partition,
        ground: Ground,
        store: StateStore,
        settings: Callable[[], GroupConfig],
        meter: ShareMeter,
        on_fenced: Callable[[HostedSharePartition], None],
        queues: DeadLetterQueues | None = None,
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.machine: SharePartition | None = None
        """None while it is loading."""
        self.error: KafkaError | None = None
        """Why it is fenced, or could not be loaded."""
        self._state_epoch = -1
        self._ground = ground
        self._store = store
        self._settings = settings
        self._meter = meter
        self._on_fenced = on_fenced
        self._waiting: dict[WaitingFetch, None] = {}
        self._is_waking = False
        self._timer: Deadline | None = None
        self._timer_at = 0
        self._unwritten: list[tuple[Change, asyncio.Future[KafkaError | None] | None]] = []
        """Acknowledgements, with the future of their request, and expired locks (None)."""
        self._is_writing = False
        self._is_closing = False
        self._letters: LetterWriter | None = None
        if queues is not None:
            self._letters = LetterWriter(
                key,
                partition,
                ground,
                queues,
                settings,
                meter,
                lambda: self.error is None,
                self._confirm,
                self._archive,
            )
        ground.spawn(self._load())

    # Loading

    async def _load(self) -> None:
        started_at = self._ground.now()
        try:
            state = await self._store.read(self.key, self.leader_epoch)
            if self.error is None:
                self._use(state)
        except KafkaError as error:
            self.fence(_as_client_sees(error))
            return
        if self.error is None:
            self._meter.load_ms.observe(self._ground.now() - started_at)
            self.wake()
            self._write_letters()

    def _use(self, state: ShareState) -> None:
        start_offset = state.start_offset
        if start_offset == UNINITIALIZED_OFFSET:
            start_offset = self._initial_offset()
        settings = self._settings()
        self._state_epoch = state.state_epoch
        self.machine = SharePartition(
            start_offset,
            [StateBatch(first, last, DeliveryState(kind), count) for first, last, kind, count in state.batches],
            max_delivery_count=settings.share_delivery_count_limit,
            max_in_flight=settings.share_partition_max_record_locks,
            lock_duration_ms=settings.share_record_lock_duration_ms,
        )
        if self._letters is not None:
            self._letters.loaded(self.machine, state.state_epoch)

    async def _confirm(self) -> None:
        """KafkaError if a later leader has loaded the state."""
        await self._store.read(self.key, self.leader_epoch)

    def _initial_offset(self) -> int:
        """Where a new group begins: `share.auto.offset.reset`."""
        log = self.partition.log
        reset = self._settings().share_auto_offset_reset
        if reset == "earliest":
            return log.log_start_offset
        kind, _, duration = reset.partition(":")
        if kind == "by_duration":
            found = log.offset_for_timestamp(self._ground.clock() - int(duration_ms(duration) or 0))
            if found is not None and found.offset < log.high_watermark:
                return found.offset
        return log.high_watermark

    # Fetching

    @property
    def _end_offset(self) -> int:
        """The offset up to which the group may read."""
        log = self.partition.log
        return (
            log.last_stable_offset if self._settings().share_isolation_level == READ_COMMITTED else log.high_watermark
        )

    @property
    def is_ready(self) -> bool:
        """Whether a fetch would find a record to hand out."""
        machine = self.machine
        return machine is not None and machine.can_acquire and machine.next_fetch_offset < self._end_offset

    def readable_bytes(self, max_bytes: int) -> int:
        """Bytes that a fetch would find, at most `max_bytes` of them."""
        machine = self.machine
        if machine is None or not self.is_ready:
            return 0
        found = self._read(machine, max_bytes)
        return min(found.size, max_bytes) if found is not None else 0

    def take(
        self, member_id: str, *, max_records: int, batch_size: int, max_bytes: int, is_strict: bool
    ) -> Taken | None:
        """Hand out available records to a member; None if there are none now."""
        machine = self.machine
        if machine is None:
            return None
        self._use_settings(machine)
        taken = None
        for _ in range(MAX_EMPTY_READS):
            if not self.is_ready:
                break
            before = machine.next_fetch_offset
            taken = self._take_once(machine, member_id, max_records, batch_size, max_bytes, is_strict)
            if taken is not None or machine.next_fetch_offset == before:
                break
        else:
            self.wake()  # more of an aborted transaction than one turn of the loop should scan
        self._arm()
        return taken

    def _take_once(
        self,
        machine: SharePartition,
        member_id: str,
        max_records: int,
        batch_size: int,
        max_bytes: int,
        is_strict: bool,
    ) -> Taken | None:
        found = self._read(machine, max_bytes)
        if found is None:
            return None
        try:
            places = batch_places(found, machine.reach_offset(max_records))
        except CorruptRecords as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        if not places:
            return None
        aborted: list[tuple[int, int]] = []
        if self._settings().share_isolation_level == READ_COMMITTED:
            aborted = aborted_ranges(
                places,
                self.partition.log.aborted_transactions(places[0].base_offset, places[-1].last_offset + 1),
            )
        fetched = [(place.base_offset, place.last_offset) for place in places]
        acquired = machine.acquire(
            member_id,
            machine.next_fetch_offset,
            fetched,
            max_records,
            is_strict=is_strict,
            now=self._ground.now(),
            aborted=aborted,
        )
        if not acquired:
            return None
        self._meter.redelivered += sum(
            one.last_offset - one.first_offset + 1 for one in acquired if one.delivery_count > 1
        )
        rows = [row for one in acquired for row in in_batches(one, fetched, batch_size)]
        records = slice_of(found, places, acquired[0].first_offset, acquired[-1].last_offset)
        return Taken(records, rows, sum(one.last_offset - one.first_offset + 1 for one in acquired))

    def _read(self, machine: SharePartition, max_bytes: int) -> FileSlice | None:
        log = self.partition.log
        if log.log_start_offset > machine.start_offset:
            machine.log_start_moved(log.log_start_offset)
        try:
            return log.read(machine.next_fetch_offset, max_bytes=max_bytes, end_offset=self._end_offset)
        except KafkaError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                return None  # after the end of a truncated log: wait until it has grown again
            raise

    def _use_settings(self, machine: SharePartition) -> None:
        """Apply settings of the group, which may change while it is in use."""
        settings = self._settings()
        machine.max_delivery_count = settings.share_delivery_count_limit
        machine.max_in_flight = settings.share_partition_max_record_locks
        machine.lock_duration_ms = settings.share_record_lock_duration_ms
        machine.backoff_ms = settings.ottla_share_redelivery_backoff_ms
        machine.backoff_max_ms = settings.ottla_share_redelivery_backoff_max_ms
        machine.has_dead_letters = self._letters is not None and self._letters.is_wanted(settings)

    # Waiting

    def park(self, fetch: WaitingFetch) -> None:
        if not self._waiting:
            self.partition.park(self)
        self._waiting[fetch] = None

    def unpark(self, fetch: WaitingFetch) -> None:
        self._waiting.pop(fetch, None)
        if not self._waiting:
            self.partition.unpark(self)

    def grew(self, partition: Partition, size: int) -> None:
        """The log can be read further, or (EVERYTHING) the partition's place in the cluster changed."""
        if size >= EVERYTHING and not self.is_current:
            self.fence(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        else:
            self.wake()

    def wake(self) -> None:
        """Let parked fetches read again, once in a turn of the loop."""
        if self._waiting and not self._is_waking:
            self._is_waking = True
            self._ground.loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        for fetch in list(self._waiting):
            if self.error is None and not self.is_ready:
                return
            if fetch in self._waiting:
                fetch.retry()

    # Acknowledging

    def acknowledge(self, member_id: str, given: Sequence[Acknowledgement]) -> asyncio.Future[KafkaError | None] | None:
        """Acknowledge records that a member holds; KafkaError if it may not. The future is done once the share
        coordinator has written it: with None, or with the error. No future if there is nothing to write.
        """
        machine = self.machine
        if machine is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        settings = self._settings()
        self._use_settings(machine)
        if not settings.share_renew_acknowledge_enable and any(AcknowledgeType.RENEW in one.types for one in given):
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "The group does not allow locks to be renewed.")
        change = machine.acknowledge(member_id, given, self._ground.now())
        self._meter.count_acknowledgements(given)
        self._arm()
        if change is None:
            return None
        written: asyncio.Future[KafkaError | None] = self._ground.loop.create_future()
        self._unwritten.append((change, written))
        self._write()
        return written

    def release_member(self, member_id: str) -> None:
        """A member's session ended: other members may get its records."""
        if self.machine is not None:
            self._release(self.machine.release_member(member_id))

    def _expire(self) -> None:
        self._timer = None
        if self.machine is not None and self.error is None:
            self._use_settings(self.machine)
            change = self.machine.expire(self._ground.now())
            if change is not None:
                self._meter.lock_timeouts += sum(row.last_offset - row.first_offset + 1 for row in change.batches)
            self._release(change)
            self.wake()  # back-offs may have ended

    def _release(self, change: Change | None) -> None:
        if change is not None:
            self._unwritten.append((change, None))
            self._write()
        self._arm()

    def _write_letters(self) -> None:
        if self._letters is not None and self.machine is not None and self.error is None:
            self._letters.wake(self.machine)

    def _archive(self, ranges: Sequence[LetterRange]) -> None:
        """Dead letters were written, or given up."""
        if self.machine is not None:
            self._release(self.machine.archive(ranges))
            self._close_if_idle()

    def _arm(self) -> None:
        """Set the timer for the next lock that expires. A running timer that fires before all new locks end is early
        enough, because it sets itself again; only back-offs may be shorter.
        """
        machine = self.machine
        if machine is None or self.error is not None:
            deadline = None
        elif (
            self._timer is not None
            and not machine.backoff_ms
            and self._timer_at <= self._ground.now() + machine.lock_duration_ms
        ):
            return
        else:
            deadline = machine.deadline
        if self._timer is not None and (deadline is None or deadline < self._timer_at):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and deadline is not None:
            self._timer_at = deadline
            delay_s = max(deadline - self._ground.now(), 0) / 1000
            self._timer = self._ground.deadlines.call_later(delay_s, self._expire)

    # Writing

    def _write(self) -> None:
        if not self._is_writing and self.error is None:
            self._is_writing = True
            self._ground.spawn(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._unwritten and self.error is None:
                if not await self._write_once():
                    await asyncio.sleep(WRITE_PAUSE_S)
        finally:
            self._is_writing = False
        self._close_if_idle()

    async def _write_once(self) -> bool:
        """Write all waiting changes; False if some of them must be retried later."""
        machine = self.machine
        assert machine is not None
        changes, self._unwritten = self._unwritten, []
        rows = [row for change, _ in changes for row in change.batches]
        failure: KafkaError | None = None
        is_passing = False
        write = ShareWrite(
            self._state_epoch,
            self.leader_epoch,
            machine.start_offset,
            machine.planned_complete_count,
            tuple(sorted(StoredBatch(*row) for row in rows)),
        )
        try:
            await self._store.write(self.key, write)
        except KafkaError as error:
            failure = _as_client_sees(error)
            is_passing = error.code in _PASSING
        again: list[tuple[Change, asyncio.Future[KafkaError | None] | None]] = []
        done: list[int] = []
        refused: list[int] = []
        for change, written in changes:
            if written is None and is_passing and not self._ground.is_stopping:
                again.append((change, None))
            elif failure is None or written is None:
                done.append(change.id)
                self._meter.archived += change.archived_count
            else:
                refused.append(change.id)
        machine.finish(*done, is_written=True)
        machine.finish(*refused, is_written=False)
        for _, written in changes:
            if written is not None and not written.done():
                written.set_result(failure)
        self._unwritten[:0] = again
        if failure is not None and failure.code in _FENCING:
            self.fence(failure)
        elif self.error is None:
            if refused and self._timer is not None:
                self._timer.cancel()  # locks that expired during the write are handled now
                self._timer = None
            self.wake()
            self._arm()
            self._write_letters()
        return not again

    # --- Closing

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads the partition, in the same epoch."""
        partition = self.partition
        return partition.is_leader and partition.leader_epoch == self.leader_epoch

    def close_when_idle(self) -> None:
        """No member of the group has a session here: close it once everything is written, dead letters too."""
        self._is_closing = True
        self._close_if_idle()

    def keep(self) -> None:
        """A member fetches from it again: do not close it."""
        self._is_closing = False

    def _close_if_idle(self) -> None:
        machine = self.machine
        if not self._is_closing or self._is_writing or self.error is not None or machine is None:
            return
        if machine.letter_count == 0 or self._letters is None:
            self.fence(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def fence(self, error: KafkaError) -> None:
        """Stop handing out records: waiting fetches and acknowledgements get this error."""
        if self.error is not None:
            return
        self.error = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        unwritten, self._unwritten = self._unwritten, []
        for _, written in unwritten:
            if written is not None and not written.done():
                written.set_result(error)
        self._on_fenced(self)
        waiting, self._waiting = self._waiting, {}
        self.partition.unpark(self)
        for fetch in waiting:
            fetch.retry()


def _as_client_sees(error: KafkaError) -> KafkaError:
    code = _CLIENT_ERRORS.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR)
    return KafkaError(code, error.message if code is error.code else f"{error.code.name}: {error.message}")
