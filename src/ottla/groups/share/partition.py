"""Which records of one partition a share group has in flight, and what may happen to them next (KIP-932).

The window of a share partition reaches from its start offset (SPSO: everything before is done) to its end offset (SPEO:
nothing behind was ever handed out). Records in it are kept as runs of neighbours that have the same state:

    AVAILABLE     acquire                                       -> ACQUIRED, one delivery more, locked by the member
    ACQUIRED      ACCEPT                                        -> ACKNOWLEDGED
                  REJECT, GAP                                   -> ARCHIVED
                  RELEASE, the lock expires                     -> AVAILABLE, or ARCHIVED at the limit of deliveries
                  the member's session ends                     -> AVAILABLE, this delivery does not count
                  RENEW                                         -> ACQUIRED, with a new lock
    ACKNOWLEDGED, ARCHIVED                                      final; the start offset passes over them

An acknowledgement counts when the share coordinator has written it. `acknowledge` therefore only decides: its records
are held by a `Change` until `finish` says whether it was written, and if it was not they are acquired as before. A lock
that expires takes effect at once: what is written of it is a hint, and losing it costs a delivery that is not counted.

Invariants:
    I1  runs are in order, touch each other and cover the window exactly
    I2  the first run is not final, unless the window is empty: the start offset has passed it
    I3  an acquired run has a member and a delivery count of one or more; no other run has a member
    I4  new records are acquired only while the window holds fewer than `max_in_flight` of them
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from ottla.wire.errors import ErrorCode, KafkaError


class DeliveryState(IntEnum):
    """The state of a record, with the number that it has in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    """What a member says of a record, with the number that it has in ShareAcknowledge."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


FINAL = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
NO_CHANGE = 0


class Acquired(NamedTuple):
    """Records that a member got: how often they have been delivered, this time included."""

    first_offset: int
    last_offset: int
    delivery_count: int


class StateBatch(NamedTuple):
    """A row of `__share_group_state`."""

    first_offset: int
    last_offset: int
    delivery_state: DeliveryState
    delivery_count: int


class Acknowledgement(NamedTuple):
    """What a member says of a range: one type for all of it, or one for each record."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Change(NamedTuple):
    """What the share coordinator has to write, and by which number `finish` knows it."""

    id: int
    start_offset: int
    batches: tuple[StateBatch, ...]


@dataclass(slots=True)
class _Run:
    """Neighbouring records of the same state."""

    first_offset: int
    last_offset: int
    state: DeliveryState
    delivery_count: int = 0
    member_id: str = ""
    expires_at: int = 0
    """When the lock of an acquired run ends, on the monotonic clock."""
    change_id: int = NO_CHANGE
    next_state: DeliveryState = DeliveryState.AVAILABLE
    """What the run becomes when its change is written."""

    @property
    def count(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def is_free(self) -> bool:
        return self.state is DeliveryState.AVAILABLE

    def is_like(self, other: _Run) -> bool:
        """Whether both are one run, but for their place."""
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.expires_at == other.expires_at
            and self.change_id == other.change_id
            and self.next_state is other.next_state
        )


def _first_offset(run: _Run) -> int:
    return run.first_offset


class SharePartition:
    def __init__(
        self,
        start_offset: int,
        batches: Iterable[StateBatch] = (),
        *,
        max_delivery_count: int,
        max_in_flight: int,
        lock_duration_ms: int,
    ) -> None:
        """With what the share coordinator has stored. Records between its rows have not been delivered."""
        self.start_offset = start_offset
        self.max_delivery_count = max_delivery_count
        self.max_in_flight = max_in_flight
        self.lock_duration_ms = lock_duration_ms
        self._runs: list[_Run] = []
        self._last_change_id = NO_CHANGE
        at = start_offset
        for row in sorted(batches):
            if row.last_offset < at:
                continue
            first = max(row.first_offset, at)
            if first > at:
                self._runs.append(_Run(at, first - 1, DeliveryState.AVAILABLE))
            state = DeliveryState(row.delivery_state)
            if state is DeliveryState.ACQUIRED:
                state = DeliveryState.AVAILABLE  # by a member of before a restart
            self._runs.append(_Run(first, row.last_offset, state, row.delivery_count))
            at = row.last_offset + 1
        self._tidy()

    # What there is

    @property
    def end_offset(self) -> int:
        """Behind the last record that was ever handed out; the start offset if the window is empty."""
        return self._runs[-1].last_offset + 1 if self._runs else self.start_offset

    @property
    def in_flight_count(self) -> int:
        """Records in the window: what `max_in_flight` bounds."""
        return self.end_offset - self.start_offset

    @property
    def acquired_count(self) -> int:
        return sum(run.count for run in self._runs if run.state is DeliveryState.ACQUIRED)

    @property
    def delivery_complete_count(self) -> int:
        """Records in the window that are done, and so not part of the group's lag (KIP-1226)."""
        return sum(run.count for run in self._runs if run.state in FINAL)

    @property
    def planned_complete_count(self) -> int:
        """The same once every change that is being written has been written: what a write tells the coordinator."""
        return sum(
            run.count
            for run in self._runs
            if run.state in FINAL or (run.change_id != NO_CHANGE and run.next_state in FINAL)
        )

    @property
    def next_fetch_offset(self) -> int:
        """Where the next fetch begins: the first record that is available, else behind the window."""
        return next((run.first_offset for run in self._runs if run.is_free), self.end_offset)

    @property
    def can_acquire(self) -> bool:
        """Whether a fetch would bring anything: a record is available, or the window may grow."""
        return self.in_flight_count < self.max_in_flight or self.next_fetch_offset < self.end_offset

    def reach_offset(self, max_records: int) -> int:
        """The last offset that a fetch of so many records from `next_fetch_offset` on may hand out; the batch around it
        is the last that has to be read."""
        left = max_records
        for run in self._runs:
            if run.is_free:
                left -= run.count
                if left <= 0:
                    return run.last_offset + left
        return self.end_offset + max(min(left, self.max_in_flight - self.in_flight_count), 0) - 1

    @property
    def deadline(self) -> int | None:
        """When the next lock expires. Records whose acknowledgement is being written are not waited for."""
        return min((run.expires_at for run in self._runs if self._is_held(run)), default=None)

    def state_batches(self) -> list[StateBatch]:
        """The window as a snapshot has it: what is acquired is stored as available."""
        return [
            StateBatch(
                run.first_offset,
                run.last_offset,
                DeliveryState.AVAILABLE if run.state is DeliveryState.ACQUIRED else run.state,
                run.delivery_count,
            )
            for run in self._runs
        ]

    # Acquiring

    def acquire(
        self,
        member_id: str,
        fetch_offset: int,
        fetched: Sequence[tuple[int, int]],
        max_records: int,
        *,
        is_strict: bool,
        now: int,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> list[Acquired]:
        """Hand out what was fetched from `fetch_offset` on (an earlier `next_fetch_offset`) and is available still.
        `fetched` has the first and last offset of each record batch.

        A strict member gets at most `max_records` (KIP-1206). Others get whole batches until they have that many: a
        batch that is shared between members is sent to each of them whole. Offsets before the first batch were
        compacted away and are archived; those between batches are handed out with the records around them, and the
        member answers GAP. Batches of `aborted` transactions are archived instead of handed out; nothing is written of
        that, because the log tells it again.
        """
        if not fetched or fetch_offset > self.end_offset:
            return []
        first_offset, last_offset = max(fetched[0][0], fetch_offset), fetched[-1][1]
        self._archive_gap(fetch_offset, first_offset - 1)
        left = max_records
        acquired: list[Acquired] = []
        for run in list(self._within(first_offset, last_offset)):
            if left <= 0:
                break
            if not run.is_free:
                continue
            first, last = max(run.first_offset, first_offset), min(run.last_offset, last_offset)
            last = min(last, _cut(first, left, fetched, is_strict=is_strict))
            acquired.append(self._lock(self._split(run, first, last), member_id, now))
            left -= last - first + 1
        room = min(left, self.max_in_flight - self.in_flight_count)
        first = self.end_offset
        if room > 0 and first <= last_offset:
            last = min(last_offset, _cut(first, room, fetched, is_strict=is_strict))
            run = _Run(first, last, DeliveryState.AVAILABLE)
            self._runs.append(run)
            acquired.append(self._lock(run, member_id, now))
        if aborted:
            acquired = [part for one in acquired for part in self._without_aborted(one, aborted)]
        self._tidy()
        return acquired

    def _without_aborted(self, acquired: Acquired, aborted: Sequence[tuple[int, int]]) -> Iterator[Acquired]:
        """The parts of an acquisition outside of aborted batches; those batches are archived."""
        at = acquired.first_offset
        for first, last in aborted:
            first, last = max(first, at), min(last, acquired.last_offset)
            if first > last:
                continue
            if first > at:
                yield acquired._replace(first_offset=at, last_offset=first - 1)
            part = self._split(self._runs[self._index_at(first)], first, last)
            part.state, part.member_id, part.expires_at = DeliveryState.ARCHIVED, "", 0
            at = last + 1
        if at <= acquired.last_offset:
            yield acquired._replace(first_offset=at)

    def _archive_gap(self, first_offset: int, last_offset: int) -> None:
        """The log no longer has the records of this range: those that no member has acquired are archived."""
        for run in list(self._within(first_offset, last_offset)):
            if run.is_free:
                part = self._split(run, max(run.first_offset, first_offset), min(run.last_offset, last_offset))
                part.state = DeliveryState.ARCHIVED
        if self.end_offset <= last_offset:
            self._runs.append(_Run(self.end_offset, last_offset, DeliveryState.ARCHIVED))
        self._tidy()

    def _lock(self, run: _Run, member_id: str, now: int) -> Acquired:
        run.state, run.member_id, run.expires_at = DeliveryState.ACQUIRED, member_id, now + self.lock_duration_ms
        run.delivery_count += 1
        return Acquired(run.first_offset, run.last_offset, run.delivery_count)

    # Acknowledging

    def acknowledge(self, member_id: str, given: Iterable[Acknowledgement], now: int) -> Change | None:
        """All of it or none: KafkaError if a record is not acquired by this member or the request makes no sense. None
        if nothing has to be written: all of it was RENEW, or is done since long."""
        planned = [
            (first, last, kind)
            for one in given
            for said_first, said_last, kind in _ranges(one)
            for first, last in self._acquired_by(member_id, said_first, said_last)
        ]
        taken = sorted((first, last) for first, last, _ in planned)
        if any(first <= before for (_, before), (first, _) in pairwise(taken)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A record is acknowledged twice in one request.")
        change_id = self._last_change_id + 1
        batches: list[StateBatch] = []
        for first, last, kind in planned:
            run = self._split(self._runs[self._index_at(first)], first, last)
            if kind is AcknowledgeType.RENEW:
                run.expires_at = now + self.lock_duration_ms
                continue
            run.change_id, run.next_state = change_id, self._after(run, kind)
            batches.append(StateBatch(first, last, run.next_state, run.delivery_count))
        self._tidy()
        if not batches:
            return None
        self._last_change_id = change_id
        return Change(change_id, self.start_offset, tuple(sorted(batches)))

    def finish(self, change_id: int, *, is_written: bool) -> None:
        """A change was written, or was not: then its records are acquired again, by the lock that they had."""
        for run in self._runs:
            if run.change_id == change_id:
                run.change_id = NO_CHANGE
                if is_written:
                    run.state, run.member_id, run.expires_at = run.next_state, "", 0
                run.next_state = DeliveryState.AVAILABLE
        self._tidy()

    def _acquired_by(self, member_id: str, first_offset: int, last_offset: int) -> Iterator[tuple[int, int]]:
        """A range in parts, one for each run; what is before the start offset is done."""
        if last_offset >= self.end_offset:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"Offset {last_offset} has not been acquired.")
        for run in self._within(first_offset, last_offset):
            if not self._is_held(run) or run.member_id != member_id:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"Offset {max(run.first_offset, first_offset)} is not acquired by member {member_id}.",
                )
            yield max(run.first_offset, first_offset), min(run.last_offset, last_offset)

    def _after(self, run: _Run, kind: AcknowledgeType) -> DeliveryState:
        if kind is AcknowledgeType.ACCEPT:
            return DeliveryState.ACKNOWLEDGED
        return self._after_release(run) if kind is AcknowledgeType.RELEASE else DeliveryState.ARCHIVED

    def _after_release(self, run: _Run) -> DeliveryState:
        return DeliveryState.ARCHIVED if run.delivery_count >= self.max_delivery_count else DeliveryState.AVAILABLE

    # Locks that end

    def expire(self, now: int) -> list[StateBatch]:
        """Release what is locked no longer; what of it is to be written."""
        return self._release([run for run in self._runs if self._is_held(run) and run.expires_at <= now])

    def release_member(self, member_id: str) -> list[StateBatch]:
        """Release what a member holds whose session ended; what of it is to be written. As in Kafka this delivery does
        not count: a member acknowledges what it worked on before it leaves."""
        runs = [run for run in self._runs if self._is_held(run) and run.member_id == member_id]
        for run in runs:
            run.delivery_count -= 1
        return self._release(runs, is_counted=False)

    def _release(self, runs: list[_Run], *, is_counted: bool = True) -> list[StateBatch]:
        for run in runs:
            run.state = self._after_release(run) if is_counted else DeliveryState.AVAILABLE
            run.member_id, run.expires_at = "", 0
        batches = [StateBatch(run.first_offset, run.last_offset, run.state, run.delivery_count) for run in runs]
        self._tidy()
        return batches

    def rows_within(self, first_offset: int, last_offset: int) -> Iterator[StateBatch]:
        """What is to be written now of a range whose locks ended a while ago. Records that were acquired again are
        written as before that; those of a change are left to it."""
        for run in self._within(first_offset, last_offset):
            if run.change_id != NO_CHANGE:
                continue
            first, last = max(run.first_offset, first_offset), min(run.last_offset, last_offset)
            if run.state is DeliveryState.ACQUIRED:
                yield StateBatch(first, last, DeliveryState.AVAILABLE, run.delivery_count - 1)
            else:
                yield StateBatch(first, last, run.state, run.delivery_count)

    @staticmethod
    def _is_held(run: _Run) -> bool:
        """Whether a member may acknowledge it: no acknowledgement is being written."""
        return run.state is DeliveryState.ACQUIRED and run.change_id == NO_CHANGE

    # The window moves

    def log_start_moved(self, log_start_offset: int) -> bool:
        """Records before the log's start are gone, whatever their state; whether the start offset moved."""
        if log_start_offset <= self.start_offset:
            return False
        self.start_offset = log_start_offset
        while self._runs and self._runs[0].last_offset < log_start_offset:
            del self._runs[0]
        if self._runs:
            self._runs[0].first_offset = log_start_offset
        self._tidy()
        return True

    # Runs

    def _index_at(self, offset: int) -> int:
        return bisect_right(self._runs, offset, key=_first_offset) - 1

    def _within(self, first_offset: int, last_offset: int) -> Iterator[_Run]:
        """The runs that have a record of this range."""
        index = max(self._index_at(first_offset), 0)
        while index < len(self._runs) and self._runs[index].first_offset <= last_offset:
            if self._runs[index].last_offset >= first_offset:
                yield self._runs[index]
            index += 1

    def _split(self, run: _Run, first_offset: int, last_offset: int) -> _Run:
        """A run of exactly this part; the rest stays as it is."""
        assert run.first_offset <= first_offset <= last_offset <= run.last_offset, "I1"
        index = self._index_at(run.first_offset)
        if first_offset > run.first_offset:
            self._runs.insert(index, replace(run, last_offset=first_offset - 1))
            run.first_offset = first_offset
            index += 1
        if last_offset < run.last_offset:
            self._runs.insert(index + 1, replace(run, first_offset=last_offset + 1))
            run.last_offset = last_offset
        return run

    def _tidy(self) -> None:
        """Join neighbours of the same state, and move the start offset past what is done."""
        joined: list[_Run] = []
        for run in self._runs:
            if not joined and run.state in FINAL:
                self.start_offset = run.last_offset + 1
            elif joined and joined[-1].is_like(run):
                joined[-1].last_offset = run.last_offset
            else:
                joined.append(run)
        self._runs = joined

    def check(self) -> None:
        """Assert the invariants."""
        at = self.start_offset
        for run in self._runs:
            assert run.first_offset == at and run.last_offset >= at, "I1"
            at = run.last_offset + 1
            is_acquired = run.state is DeliveryState.ACQUIRED
            assert bool(run.member_id) == is_acquired and (run.delivery_count >= 1 or not is_acquired), "I3"
            assert is_acquired or run.change_id == NO_CHANGE, "I3"
        assert not self._runs or self._runs[0].state not in FINAL, "I2"


def _cut(first_offset: int, count: int, fetched: Sequence[tuple[int, int]], *, is_strict: bool) -> int:
    """The last offset of an acquisition of so many records; if it is not strict, the end of the batch around that."""
    last_offset = first_offset + count - 1
    if is_strict:
        return last_offset
    return next((last for _, last in fetched if last >= last_offset), last_offset)


def in_batches(acquired: Acquired, fetched: Sequence[tuple[int, int]], batch_size: int) -> Iterator[Acquired]:
    """An acquisition as rows of an answer: about `batch_size` records each, divided where record batches end."""
    at = acquired.first_offset
    if batch_size > 0:
        for _, last in fetched:
            if last >= acquired.last_offset:
                break
            if last - at + 1 >= batch_size:
                yield acquired._replace(first_offset=at, last_offset=last)
                at = last + 1
    yield acquired._replace(first_offset=at)


def _ranges(given: Acknowledgement) -> Iterator[tuple[int, int, AcknowledgeType]]:
    """What was said as ranges of one type each."""
    count = given.last_offset - given.first_offset + 1
    if count < 1 or given.first_offset < 0 or len(given.types) not in (1, count):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{len(given.types)} acknowledge types for offsets {given.first_offset} to {given.last_offset}.",
        )
    try:
        kinds = [AcknowledgeType(kind) for kind in given.types]
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown acknowledge type: {error}.") from None
    if len(kinds) == 1:
        yield given.first_offset, given.last_offset, kinds[0]
        return
    start = 0
    for index in range(1, count + 1):
        if index == count or kinds[index] is not kinds[start]:
            yield given.first_offset + start, given.first_offset + index - 1, kinds[start]
            start = index
