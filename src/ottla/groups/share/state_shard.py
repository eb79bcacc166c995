"""The share coordinator: one shard is one partition of `__share_group_state`, and has the position of each share
partition in it: its start offset, and the delivery states of later records (KIP-932).

    absent  -> known     initialize: a snapshot without batches
    known   -> known     write: an update; after `share.coordinator.snapshot.update.records.per.snapshot` of them a
                         snapshot. read by a leader of a later epoch: the same, with that epoch
    known   -> absent    delete: a snapshot without a value

Two epochs fence. The state epoch is the group's: it grows when an administrator sets offsets anew, and a leader that
writes with an older one is refused with FENCED_STATE_EPOCH. The leader epoch is that of the partition: its leader names
it when it reads the state, and a leader of an earlier epoch is refused with FENCED_LEADER_EPOCH from then on. An epoch
of -1 is not supplied and not compared.

 S1  the batches of a state are in order, do not overlap and begin at its start offset or behind it
 S2 every record before `redundant_offset` is replaced by a later one of the same share partition
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.config import BrokerConfig
from ottla.groups.share.state_batches import NO_START_OFFSET, StoredBatch, combine
from ottla.groups.share.state_records import SharePartitionKey, ShareStateRecord
from ottla.machine import Call, CoordinatorDecision
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.records.share_snapshot_value import ShareSnapshotValue
from ottla.wire.messages.records.share_snapshot_value import StateBatch as SnapshotBatch
from ottla.wire.messages.records.share_update_value import ShareUpdateValue
from ottla.wire.messages.records.share_update_value import StateBatch as UpdateBatch

NO_EPOCH = -1
UNKNOWN_COUNT = -1
"""The delivery complete count of a share partition whose start offset is not known yet."""
NEGATIVE_PARTITION = "The partition id cannot be a negative number."
WRITE_UNINITIALIZED = "Write operation on uninitialized share partition not allowed."
READ_UNINITIALIZED = "Read operation on uninitialized share partition not allowed."


class ShareWrite(NamedTuple):
    """What the leader of a share partition writes."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    """-1 leaves it unchanged."""
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: tuple[StoredBatch, ...] = ()


@dataclass(slots=True)
class ShareState:
    """The state of one share partition."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp: int
    write_timestamp: int
    batches: list[StoredBatch] = field(default_factory=list)
    update_count: int = 0
    """Updates since the last snapshot."""
    snapshot_at_offset: int = 0
    """The last snapshot's record is at this offset of the log or later."""


class ShareOutcome(NamedTuple):
    """The result of a command; `state` is what a read found."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: ShareState | None = None


IsPartition = Callable[[bytes, int], bool]
"""Whether the cluster has this partition of the topic of this id."""
Decided = CoordinatorDecision[ShareOutcome]


class ShareStateShard:
    def __init__(self, config: Callable[[], BrokerConfig], is_partition: IsPartition) -> None:
        self._config = config
        self._is_partition = is_partition
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.log_offset = 0
        """At most the offset of the record that is replayed next; the coordinator sets it."""
        self.write_count = 0

    # Commands

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, call: Call) -> Decided:
        if key.partition < 0:
            return _refused(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
        state = self.states.get(key)
        if state is not None and state_epoch != NO_EPOCH and state.state_epoch > state_epoch:
            return _refused(ErrorCode.FENCED_STATE_EPOCH)
        if not self._is_partition(key.topic_id, key.partition):
            return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        value = ShareSnapshotValue(
            snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN_COUNT if start_offset == NO_START_OFFSET else 0,
            create_timestamp=call.timestamp,
            write_timestamp=call.timestamp,
        )
        return CoordinatorDecision([ShareStateRecord(key, value)], ShareOutcome())

    def write(self, key: SharePartitionKey, write: ShareWrite, call: Call) -> Decided:
        if key.partition < 0:
            return _refused(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
        state = self.states.get(key)
        if state is None:
            return _refused(ErrorCode.INVALID_REQUEST, WRITE_UNINITIALIZED)
        if write.leader_epoch != NO_EPOCH and state.leader_epoch > write.leader_epoch:
            return _refused(ErrorCode.FENCED_LEADER_EPOCH)
        if write.state_epoch != NO_EPOCH and state.state_epoch > write.state_epoch:
            return _refused(ErrorCode.FENCED_STATE_EPOCH)
        if not self._is_partition(key.topic_id, key.partition):
            return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.write_count += 1
        # The leader epoch stays as it is: only a read raises it.
        record = self._next_record(key, state, write._replace(leader_epoch=state.leader_epoch), call)
        return CoordinatorDecision([record], ShareOutcome())

    def read(self, key: SharePartitionKey, leader_epoch: int, call: Call) -> Decided:
        """The state before this read; the leader epoch is written if it is later."""
        if key.partition < 0:
            return _refused(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
        state = self.states.get(key)
        if state is None:
            return _refused(ErrorCode.INVALID_REQUEST, READ_UNINITIALIZED)
        if leader_epoch != NO_EPOCH and state.leader_epoch > leader_epoch:
            return _refused(ErrorCode.FENCED_LEADER_EPOCH)
        if not self._is_partition(key.topic_id, key.partition):
            return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        found = ShareOutcome(state=_copy(state))
        if leader_epoch in (NO_EPOCH, state.leader_epoch):
            return CoordinatorDecision([], found)
        write = ShareWrite(state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count)
        return CoordinatorDecision([self._next_record(key, state, write, call)], found)

    def summary(self, key: SharePartitionKey) -> Decided:
        """The state, None in the outcome for a share partition that was not initialized."""
        if key.partition < 0:
            return _refused(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
        if not self._is_partition(key.topic_id, key.partition):
            return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        state = self.states.get(key)
        return CoordinatorDecision([], ShareOutcome(state=None if state is None else _copy(state)))

    def delete(self, key: SharePartitionKey) -> Decided:
        if key.partition < 0:
            return _refused(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
        if not self._is_partition(key.topic_id, key.partition):
            return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        records = [ShareStateRecord(key, None)] if key in self.states else []
        return CoordinatorDecision(records, ShareOutcome())

    def forget_topics(self, topic_ids: Iterable[bytes]) -> Decided:
        """Delete the states of topics that were deleted: no request can name them any more."""
        gone = set(topic_ids)
        records = [ShareStateRecord(key, None) for key in self.states if key.topic_id in gone]
        return CoordinatorDecision(records, ShareOutcome())

    def snapshot_cold(self, call: Call, limit: int) -> Decided:
        """New snapshots of share partitions that were not written for a while: their old ones prevent the pruning of
        the log. None if the log has no more records than states. At most `limit` of them; the next call takes the
        others.
        """
        if self.log_offset - self.redundant_offset <= len(self.states):
            return CoordinatorDecision([], ShareOutcome())
        before = call.timestamp - self._config().share_coordinator_cold_partition_snapshot_interval_ms
        records: list[Any] = []
        for key, state in self.states.items():
            if len(records) >= limit:
                break
            if state.write_timestamp <= before:
                records.append(ShareStateRecord(key, _snapshot(state, state.batches, call)))
        return CoordinatorDecision(records, ShareOutcome())

    @property
    def redundant_offset(self) -> int:
        """The records before this offset of the log are not needed any more (S2)."""
        return min((state.snapshot_at_offset for state in self.states.values()), default=self.log_offset)

    def _next_record(
        self, key: SharePartitionKey, state: ShareState, write: ShareWrite, call: Call
    ) -> ShareStateRecord:
        if state.update_count < self._config().share_coordinator_snapshot_update_records_per_snapshot:
            update = ShareUpdateValue(
                snapshot_epoch=state.snapshot_epoch,
                leader_epoch=write.leader_epoch,
                start_offset=write.start_offset,
                delivery_complete_count=write.delivery_complete_count,
                state_batches=[
                    UpdateBatch(**batch._asdict()) for batch in combine([], write.batches, write.start_offset)
                ],
            )
            return ShareStateRecord(key, update)
        start_offset = state.start_offset if write.start_offset == NO_START_OFFSET else write.start_offset
        snapshot = _snapshot(state, combine(state.batches, write.batches, start_offset), call)
        snapshot.leader_epoch = write.leader_epoch
        snapshot.start_offset = start_offset
        snapshot.delivery_complete_count = write.delivery_complete_count
        return ShareStateRecord(key, snapshot)

    # Replay

    def replay(self, record: ShareStateRecord, producer_id: int = -1) -> None:
        key, value = record
        if value is None:
            self.states.pop(key, None)
            return
        state = self.states.get(key)
        written = [
            StoredBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in value.state_batches
        ]
        if isinstance(value, ShareSnapshotValue):
            self.states[key] = ShareState(
                snapshot_epoch=value.snapshot_epoch,
                state_epoch=value.state_epoch,
                leader_epoch=value.leader_epoch,
                start_offset=value.start_offset,
                delivery_complete_count=value.delivery_complete_count,
                create_timestamp=value.create_timestamp,
                write_timestamp=value.write_timestamp,
                batches=combine([], written, value.start_offset),
                snapshot_at_offset=self.log_offset,
            )
            return
        if state is None:
            return  # its snapshot was deleted after this update was written, and the tombstone comes later
        if value.start_offset != NO_START_OFFSET:
            state.start_offset = value.start_offset
        if value.leader_epoch != NO_EPOCH:
            state.leader_epoch = value.leader_epoch
        state.delivery_complete_count = value.delivery_complete_count
        state.batches = combine(state.batches, written, state.start_offset)
        state.update_count += 1

    # What every shard answers

    def loaded(self, now: int, timestamp: int) -> None: ...

    def deadline(self) -> int | None:
        return None

    def next_due(self, now: int, timestamp: int) -> CoordinatorDecision[Any] | None:
        return None

    def unload(self, call: Call) -> list[Any]:
        return []


def _refused(code: ErrorCode, message: str | None = None) -> Decided:
    return CoordinatorDecision([], ShareOutcome(code, code.text if message is None else message))


def _copy(state: ShareState) -> ShareState:
    """A copy for a reply, which later writes must not change."""
    return ShareState(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_timestamp,
        write_timestamp=state.write_timestamp,
        batches=state.batches,
    )


def _snapshot(state: ShareState, batches: list[StoredBatch], call: Call) -> ShareSnapshotValue:
    return ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch + 1,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=call.timestamp,
        write_timestamp=call.timestamp,
        state_batches=[SnapshotBatch(**batch._asdict()) for batch in batches],
    )
