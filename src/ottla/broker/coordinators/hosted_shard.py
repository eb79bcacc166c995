"""One shard of a coordinator on this node: its machine, its partition, and the decisions that are not written or
committed yet.

A command decides and returns records and a reply. The records are replayed at once, so that the next command sees them.
The first decision of a turn of the loop is appended right away, before it is replayed; what the shard decides after it
in the same turn is appended together at the turn's end, in one batch where it fits. The reply is sent when the records
are committed. A reply without records waits for the uncommitted records that it may depend on.

 C1 if an append fails after its records were replayed, the shard is dropped and reloaded before anything else runs; C2
    every waiter is answered: by a decision, or by an error when the shard is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.machine import CoordinatorDecision, Tick
from ottla.net import DeadlineTimer, log_step
from ottla.records import ControlType, CorruptRecords, Record, build, control_type, end_txn_marker, read, split
from ottla.records.batch import HEADER_SIZE
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.coordinators.runtime import Coordinator
    from ottla.broker.replicas.partitions import Partition

log = logging.getLogger("ottla.coordinators")

RECORDS_PER_PIECE = 1_000
"""How many records are replayed before other requests run: a few milliseconds."""
LOAD_CHUNK_BYTES = 1024 * 1024
DUE_PER_PIECE = 50
"""How many overdue deadlines are handled before other requests run."""
RECORD_OVERHEAD_BYTES = 30
"""More than the lengths and deltas around a record's key and value can take."""


class Shard(Protocol):
    """The interface of every shard; its commands differ."""

    def replay(self, record: Any, producer_id: int = -1) -> None: ...

    def loaded(self, now: int, timestamp: int) -> None: ...

    def deadline(self) -> int | None: ...

    def next_due(self, now: int, timestamp: int) -> CoordinatorDecision[Any] | None: ...

    def unload(self, call: Any) -> list[Any]: ...


S = TypeVar("S", bound=Shard)
Request = TypeVar("Request")
Refuse = Callable[[Any, KafkaError], Any]
"""The response to a request that was refused."""
Finish = Callable[[Any, Any], Any]
"""The response to a request, from what the machine replied."""


_NAMES = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(error: KafkaError) -> KafkaError:
    """The error for a coordinator's clients when its partition has an error: they know these codes, not those of
    partitions.
    """
    code = _NAMES.get(error.code)
    return error if code is None else KafkaError(code)


class _Pending:
    """A decision whose records are not committed yet, and the future that waits for them."""

    __slots__ = ("answers", "future", "producer", "records", "refuse", "reply", "request", "size", "then")

    def __init__(
        self,
        records: list[Record],
        size: int,
        producer: tuple[int, int],
        future: asyncio.Future[Any] | None,
        reply: Any,
        answers: list[Any],
        request: Any,
        refuse: Refuse | None,
        then: Callable[[], None] | None = None,
    ) -> None:
        self.records = records
        self.size = size
        self.producer = producer
        self.future = future
        self.reply = reply
        self.answers = answers
        self.request = request
        self.refuse = refuse
        self.then = then

    def release(self) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(self.reply)
        _answer(self.answers)
        if self.then is not None:
            self.then()

    def fail(self, error: KafkaError) -> None:
        future = self.future
        if future is not None and not future.done():
            if self.refuse is None:
                future.set_exception(error)
            else:
                future.set_result(self.refuse(self.request, error))
        for waiter, response in self.answers:
            if not waiter.done():
                refusal = type(response)(error_code=error.code)
                if hasattr(response, "member_id"):
                    refusal.member_id = response.member_id
                waiter.set_result(refusal)


def _answer(answers: Iterable[Any]) -> None:
    """Answer a waiter. If its connection was closed, its future is done already."""
    for waiter, response in answers:
        if not waiter.done():
            waiter.set_result(response)


NO_PRODUCER = (-1, -1)


class HostedShard(Generic[S]):
    """One shard on this node: its machine, its partition, and the decisions that are not written or committed yet."""

    __slots__ = (
        "_coordinator",
        "_ground",
        "_is_append_due",
        "_loop",
        "_parked",
        "_queue",
        "_timer",
        "index",
        "is_gone",
        "machine",
        "partition",
    )

    def __init__(self, coordinator: Coordinator[S], index: int, partition: Partition) -> None:
        self._coordinator = coordinator
        self._ground = coordinator.ground
        self._loop = coordinator.ground.loop
        self.index = index
        self.partition = partition
        self.machine: S | None = None
        """None while the log is being read."""
        self.is_gone = False
        self._queue: list[_Pending] = []
        """Decided in this turn of the loop and not appended yet."""
        self._parked: deque[tuple[int, list[_Pending]]] = deque()
        """Appended up to an offset and not committed yet."""
        self._is_append_due = False
        """Whether this turn of the loop has had its first decision with records."""
        self._timer: DeadlineTimer | None = None
        """For the machine's next deadline, once it is loaded."""

    # Commands

    def run(
        self,
        command: Callable[[S, Request, Any], CoordinatorDecision[Any]],
        request: Request,
        call: Any,
        refuse: Refuse,
        finish: Finish | None = None,
        producer: tuple[int, int] = NO_PRODUCER,
    ) -> Any:
        """Call the machine; returns the response, or a future for it. `producer` is the id and epoch of a transaction
        that the records belong to."""
        machine = self.machine
        if machine is None:
            return refuse(request, KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        try:
            decision = command(machine, request, call)
        except KafkaError as error:
            answer = refuse(request, coordinator_error(error))
        else:
            answer = self._carry_out(decision, call, request, refuse, finish, producer)
        return self._coordinator.confirmed(self, answer, request, refuse)

    def carry_out(self, decision: CoordinatorDecision[Any], call: Any) -> None:
        """Write a decision that the machine made by itself, without a request."""
        self._carry_out(decision, call, None, None, None, NO_PRODUCER)

    def _carry_out(
        self,
        decision: CoordinatorDecision[Any],
        call: Any,
        request: Any,
        refuse: Refuse | None,
        finish: Finish | None,
        producer: tuple[int, int],
    ) -> Any:
        if log.isEnabledFor(logging.DEBUG):
            self._log_decision(decision, request)
        records: list[Record] = []
        size = 0
        reply, answers = decision.reply, decision.answers
        is_written = False
        if decision.records:
            # The first decision of a turn is written at once: it does not wait for the turn's end, and if the write
            # fails nothing has changed. Later decisions of the turn are written together.
            is_written = not self._is_append_due and not self._parked
            try:
                records, size = self._encode(decision.records)
                if is_written:
                    self._write(records, producer)
            except KafkaError as error:
                return self._refused(decision, error, call, request, refuse, finish)
            self._replay(decision.records, producer[0])
            self._coordinator.written(decision.records, is_due=request is None)
            if not self._is_append_due:
                self._is_append_due = True
                self._loop.call_soon(self._append)
        self.rearm()
        then = partial(self._coordinator.perform, self, decision.effects) if decision.effects else None
        if finish is not None and reply is not None:
            reply = finish(request, reply)
        is_committed = not is_written or self._is_all_committed
        if (is_written or not records) and is_committed and not self._queue and not self._parked:
            if answers:
                _answer(answers)
            if then is not None:
                then()
            return reply if reply is not None else call.waiter
        future = call.waiter
        if reply is not None and future is None and request is not None:
            future = self._loop.create_future()
        pending = _Pending(
            records, size, producer, future if reply is not None else None, reply, answers, request, refuse, then
        )
        if is_written:
            self._park([pending])
        elif not records and not self._queue:
            self._parked[-1][1].append(pending)
        else:
            self._queue.append(pending)
        return future

    def _log_decision(self, decision: CoordinatorDecision[Any], request: Any) -> None:
        """One line in the format of `ottla.net.driver`. The event of a decision that no request led to is a Tick."""
        wanted = [*decision.records, *decision.effects, *decision.answers]
        if decision.reply is not None:
            wanted.append(decision.reply)
        label = f"shard node={self._ground.node_id} partition={self._coordinator.topic}-{self.index}"
        log_step(log, label, Tick() if request is None else request, wanted)

    def _refused(
        self,
        decision: CoordinatorDecision[Any],
        error: KafkaError,
        call: Any,
        request: Any,
        refuse: Refuse | None,
        finish: Finish | None,
    ) -> Any:
        """The write failed before the decision had any effect."""
        error = coordinator_error(error)
        if self.is_gone:
            # The write took the log dir offline, and so the shard was dropped: its waiters have been answered already.
            _Pending([], 0, NO_PRODUCER, None, None, decision.answers, None, None).fail(error)
            return None if refuse is None else refuse(request, error)
        if decision.refused is not None:
            instead = decision.refused(error, call)
            assert not instead.records
            return self._carry_out(instead, call, request, refuse, finish, NO_PRODUCER)
        self.rearm()
        _Pending([], 0, NO_PRODUCER, None, None, decision.answers, None, None).fail(error)
        return None if refuse is None else refuse(request, error)

    def _encode(self, decided: list[Any]) -> tuple[list[Record], int]:
        timestamp = self._ground.clock()
        encode = self._coordinator.encode
        records = []
        size = 0
        for record in decided:
            key, value = encode(record)
            records.append(Record(0, timestamp, key, value))
            size += RECORD_OVERHEAD_BYTES + len(key) + (0 if value is None else len(value))
        if size > self._max_batch_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return records, size

    def _replay(self, records: list[Any], producer_id: int) -> None:
        machine = self.machine
        assert machine is not None
        try:
            for record in records:
                machine.replay(record, producer_id)
        except Exception as error:
            # A bug. Half of a decision must not stay in memory: reload from the log (C1).
            self._fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error)))
            raise

    @property
    def _max_batch_bytes(self) -> int:
        return self.partition.log.config.max_message_bytes - HEADER_SIZE

    # Writing

    def _append(self) -> None:
        """Called at the end of a turn: write its other decisions, in as few batches as possible."""
        self._is_append_due = False
        queue, self._queue = self._queue, []
        limit = self._max_batch_bytes
        start = 0
        while start < len(queue):
            producer, size = queue[start].producer, queue[start].size
            end = start + 1
            while end < len(queue) and (
                not queue[end].records or (queue[end].producer == producer and size + queue[end].size <= limit)
            ):
                size += queue[end].size
                end += 1
            try:
                self._append_batch(queue[start:end], producer)
            except KafkaError as error:
                for pending in queue[start:]:
                    pending.fail(coordinator_error(error))
                self._fail(error)
                return
            start = end

    def _append_batch(self, decided: list[_Pending], producer: tuple[int, int]) -> None:
        records = decided[0].records if len(decided) == 1 else [record for one in decided for record in one.records]
        if records:
            self._write(records, producer)
        self._park(decided)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is pending, so that a record written now is committed at once: the condition for
        `write_now`.
        """
        partition = self.partition
        return not self._queue and not self._parked and partition.is_alone and not partition.log.flushes_by_count

    def write_now(self, batch: bytearray, count: int, timestamp: int) -> None:
        """Write a batch of so many records that the caller replays itself, if this does not raise."""
        partition = self.partition
        if partition.log.place_made(batch, count, partition.leader_epoch, timestamp) < 0:
            partition.append(memoryview(batch), timestamp, self._ground.now())
            return
        partition.log.advance_high_watermark(partition.log.log_end_offset)
        if partition.delayed_fetches:
            partition.wake_fetches(len(batch))

    def _write(self, records: list[Record], producer: tuple[int, int]) -> None:
        timestamp, now = self._ground.clock(), self._ground.now()
        if producer[0] < 0:
            batch = build(records, compression=self._coordinator.compression)
            self.partition.check_in_sync()
            self.partition.append(memoryview(batch), timestamp, now)
        else:
            batch = build(
                records,
                compression=self._coordinator.compression,
                producer_id=producer[0],
                producer_epoch=producer[1],
                is_transactional=True,
            )
            self.partition.append_as_coordinator(batch, timestamp, now)

    @property
    def _is_all_committed(self) -> bool:
        log = self.partition.log
        return log.high_watermark >= log.log_end_offset

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        coordinator_epoch: int,
        transaction_version: int = 0,
    ) -> asyncio.Future[None]:
        """Write the marker that ends a transaction in this partition; its records take effect or are forgotten.
        KafkaError when it cannot be written; the future is done when it is committed."""
        if self.machine is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self._queue:
            self._append()  # the transaction's records come before its end
            if self.machine is None:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
        timestamp = self._ground.clock()
        marker = end_txn_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_commit=is_commit,
            coordinator_epoch=coordinator_epoch,
            timestamp=timestamp,
        )
        self.partition.append_as_coordinator(marker, timestamp, self._ground.now(), transaction_version)
        self._coordinator.complete_transaction(self.machine, producer_id, is_commit)
        self.rearm()
        done: asyncio.Future[None] = self._loop.create_future()
        self._park([_Pending([], 0, NO_PRODUCER, done, None, [], None, None)])
        return done

    def _park(self, decided: list[_Pending]) -> None:
        """Answer what is committed; the rest waits for the high watermark."""
        partition = self.partition
        end_offset = partition.log.log_end_offset
        if self._is_all_committed and not self._parked:
            for pending in decided:
                pending.release()
            return
        if not self._parked:
            partition.park(self)
            self._ground.spawn(self._flush())
        self._parked.append((end_offset, decided))

    async def _flush(self) -> None:
        """Answer when the in-sync replicas have the parked records (on disk if `flush.messages` demands it)."""
        try:
            while self._parked:
                await self.partition.commit()
                self._release()
        except (OSError, KafkaError) as error:
            self._fail(error if isinstance(error, KafkaError) else KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))

    def grew(self, partition: Partition, size: int) -> None:
        self._release()

    def _release(self) -> None:
        """The high watermark moved."""
        high_watermark = self.partition.log.high_watermark
        while self._parked and self._parked[0][0] <= high_watermark:
            for pending in self._parked.popleft()[1]:
                pending.release()
        if not self._parked:
            self.partition.unpark(self)

    # Time

    def rearm(self) -> None:
        """The machine's next deadline may have changed."""
        if self._timer is not None:
            self._timer.rearm()

    def _wake(self) -> None:
        try:
            for _ in range(DUE_PER_PIECE):
                if self.machine is None:
                    return
                now, timestamp = self._ground.now(), self._ground.clock()
                decision = self.machine.next_due(now, timestamp)
                if decision is None:
                    return
                self.carry_out(decision, self._coordinator.own_call(now, timestamp))
        finally:
            self.rearm()

    # Life

    async def load(self) -> None:
        """Replay the log. CorruptRecords, KafkaError or OSError when that cannot be done."""
        coordinator = self._coordinator
        machine = coordinator.new_machine(self.index)
        partition_log = self.partition.log
        started = self._ground.timer()
        offset = partition_log.log_start_offset
        replayed = 0
        while offset < partition_log.log_end_offset:
            found = partition_log.read(
                offset,
                max_bytes=min(self._ground.config.offsets_load_buffer_size, LOAD_CHUNK_BYTES),
                end_offset=partition_log.log_end_offset,
            )
            if found is None:
                break  # only offsets whose records compaction removed
            data = memoryview(found.read())
            batches = split(data)
            if not batches:
                raise CorruptRecords(f"no whole batch at offset {offset}")
            for position, header in batches:
                batch = data[position : position + header.size]
                if header.is_control:
                    # An empty control batch only keeps the offset of a marker that compaction removed.
                    kind = control_type(batch) if header.count else ControlType.UNKNOWN
                    if kind in (ControlType.COMMIT, ControlType.ABORT):
                        coordinator.complete_transaction(machine, header.producer_id, kind == ControlType.COMMIT)
                else:
                    producer_id = header.producer_id if header.is_transactional else -1
                    coordinator.replay(machine, self.index, read(batch), offset, producer_id)
                offset = header.next_offset
                replayed += header.count
                if replayed >= RECORDS_PER_PIECE:
                    replayed = 0
                    await asyncio.sleep(0)
                    if self.is_gone:
                        return
        load_ms = (self._ground.timer() - started) * 1000
        coordinator.note_load(load_ms)
        start_offset = partition_log.log_start_offset
        log.info(
            "%s-%d: loaded offsets %d to %d in %.0f ms", coordinator.topic, self.index, start_offset, offset, load_ms
        )
        if self._is_all_committed and not partition_log.is_cut:
            self.begin(machine)
        else:
            self._ground.spawn(self._begin_once_committed(machine))

    async def _begin_once_committed(self, machine: S) -> None:
        """A new leader's log may have records that its predecessor never committed. Until they are committed, no answer
        may depend on them and no markers may be sent: another leader could still be elected without them.
        """
        try:
            await self.partition.commit()
            await self._coordinator.replicas.fetchers.cut_synced(self.partition)  # it appends nothing before
        except (OSError, KafkaError) as error:
            if not self.is_gone:
                self._coordinator.load_failed(self, error)
            return
        if not self.is_gone:
            self.begin(machine)

    def begin(self, machine: S) -> None:
        machine.loaded(self._ground.now(), self._ground.clock())
        self.machine = machine
        self._timer = DeadlineTimer(self._loop, machine.deadline, self._wake)
        self._timer.rearm()

    def _fail(self, error: KafkaError) -> None:
        """Memory and log differ: drop the shard (C1)."""
        if not self.is_gone:
            log.error("%s-%d: %s; reloading its shard", self._coordinator.topic, self.index, error)
            self._coordinator.reload(self)

    def stop(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Drop the shard: all waiters get an error (C2)."""
        self.is_gone = True
        machine, self.machine = self.machine, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.partition.unpark(self)
        error = KafkaError(code)
        parked, self._parked = self._parked, deque()
        queue, self._queue = self._queue, []
        for pending in [*(one for _, decided in parked for one in decided), *queue]:
            pending.fail(error)
        if machine is not None:
            call = self._coordinator.own_call(self._ground.now(), self._ground.clock())
            _answer(machine.unload(call))

    def append_now(self) -> None:
        """Write the decisions made so far: before a stop, or before something that must follow them in the log."""
        if self._queue:
            self._append()
