"""The records of one partition that a share group has in flight, and their states (KIP-932). The window of a share
partition extends from its start offset (SPSO: everything before is done) to its end offset (SPEO: nothing after was
ever handed out). Records in it are kept as runs of neighbours that have the same state:

    AVAILABLE     acquire                                       -> ACQUIRED, one delivery more, locked by the member
    ACQUIRED      ACCEPT                                        -> ACKNOWLEDGED
                  GAP                                           -> ARCHIVED
                  REJECT                                        -> ARCHIVED, or ARCHIVING with dead letters (KIP-1191)
                  RELEASE, the lock expires, the session ends   -> AVAILABLE; at the limit of deliveries as REJECT
                  RENEW                                         -> ACQUIRED, with a new lock
    ARCHIVING     the dead letter is written or given up        -> ARCHIVED
    ACKNOWLEDGED, ARCHIVED                                      final; the start offset passes over them

With a back-off (`backoff_ms`) a record that was released, or whose lock expired, is AVAILABLE but not handed out before
`expire` is called at the end of its pause: 2 ** (deliveries - 1) times `backoff_ms`, at most `backoff_max_ms`.

An acknowledgement counts when the share coordinator has written it. `acknowledge` therefore only decides: its records
are held by a `Change` until `finish` says whether it was written, and if it was not they are acquired as before. Locks
that end (`expire`, `release_member`) are changes, too: no member gets a record before the deliveries that it had are
written. So what was delivered for the n-th time is delivered for the n-th time or later after any crash.

Records that were delivered half as often as they may be (`throttle_count`) come in ever smaller portions, and the last
time each comes alone: one record that kills its members does not take its neighbours with it. The size of a portion is
a part of the original run (`whole_count`) and depends on the delivery count alone, as in Kafka.

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
from itertools import islice, pairwise
from typing import NamedTuple

from ottla.wire.errors import ErrorCode, KafkaError


class DeliveryState(IntEnum):
    """The state of a record, with the number that it has in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    """A member's acknowledgement of a record, with its number in ShareAcknowledge."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


FINAL = (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
NO_CHANGE = 0
RUNS_PER_RANGE = 8
"""With fewer runs for each range that changed, all runs are gone through once."""


class Acquired(NamedTuple):
    """Records that a member acquired, with their delivery count, this delivery included."""

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
    """A member's acknowledgement of a range: one type for all of it, or one for each record."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Change(NamedTuple):
    """A change that the share coordinator has to write, and its number for `finish`."""

    id: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    archived_count: int = 0
    """Records that it archives without a dead letter, gaps not counted."""


class LetterRange(NamedTuple):
    """Neighbouring records whose dead letters have not been written yet."""

    first_offset: int
    last_offset: int
    delivery_count: int
    is_rejected: bool
    """Rejected by a member; otherwise the limit of deliveries was reached. After a load this is a guess: the reason is
    not stored.
    """

    @property
    def record_count(self) -> int:
        return self.last_offset - self.first_offset + 1


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
    """The run's state once its change is written."""
    available_at: int = 0
    """When the back-off of an available run ends; 0: it is not waiting."""
    is_rejected: bool = False
    whole_count: int = 0
    """The length of the run when its records were first handed out in portions; 0: never."""

    @property
    def count(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def is_free(self) -> bool:
        return self.state is DeliveryState.AVAILABLE and self.available_at == 0

    def is_like(self, other: _Run) -> bool:
        """Whether both can be joined into one run."""
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.expires_at == other.expires_at
            and self.change_id == other.change_id
            and self.next_state is other.next_state
            and self.available_at == other.available_at
            and self.is_rejected == other.is_rejected
            and (self.whole_count == other.whole_count or self.state in FINAL)
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
        """Begin with the state stored by the share coordinator. Records between its rows have not been delivered."""
        self.start_offset = start_offset
        self.max_delivery_count = max_delivery_count
        self.max_in_flight = max_in_flight
        self.lock_duration_ms = lock_duration_ms
        self.has_dead_letters = False
        """Whether rejected records, and those delivered too often, become ARCHIVING."""
        self.may_have_letters = False
        """Whether `dead_letters` may find some: saves a scan of all runs."""
        self.backoff_ms = 0
        self.backoff_max_ms = 0
        self._runs: list[_Run] = []
        self._last_change_id = NO_CHANGE
        self._changed: dict[int, list[tuple[int, int]]] = {}
        """By change in flight: the first and last offsets of its runs."""
        self._free_from = start_offset
        """No run before it is free."""
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
            run = _Run(first, row.last_offset, state, row.delivery_count)
            run.is_rejected = state is DeliveryState.ARCHIVING and row.delivery_count < max_delivery_count
            self.may_have_letters |= state is DeliveryState.ARCHIVING
            self._runs.append(run)
            at = row.last_offset + 1
        self._tidy_all()

    # What there is

    @property
    def end_offset(self) -> int:
        """After the last record that was ever handed out; the start offset if the window is empty."""
        return self._runs[-1].last_offset + 1 if self._runs else self.start_offset

    @property
    def in_flight_count(self) -> int:
        """Records in the window, which `max_in_flight` limits."""
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
        """`delivery_complete_count` after all changes in flight are written. A write sends it to the coordinator."""
        return sum(
            run.count
            for run in self._runs
            if run.state in FINAL or (run.change_id != NO_CHANGE and run.next_state in FINAL)
        )

    @property
    def next_fetch_offset(self) -> int:
        """Where the next fetch begins: at the first available record, else after the window."""
        free = self._first_free()
        self._free_from = self._runs[free].first_offset if free < len(self._runs) else self.end_offset
        return self._free_from

    @property
    def can_acquire(self) -> bool:
        """Whether a fetch could acquire records: one is available, or the window may grow."""
        return self.in_flight_count < self.max_in_flight or self.next_fetch_offset < self.end_offset

    def reach_offset(self, max_records: int) -> int:
        """The last offset that a fetch of so many records from `next_fetch_offset` on may hand out; the batch with it
        is the last one to read.
        """
        left = max_records
        for run in islice(self._runs, self._first_free(), None):
            if run.is_free:
                left -= run.count
                if left <= 0:
                    return run.last_offset + left
        return self.end_offset + max(min(left, self.max_in_flight - self.in_flight_count), 0) - 1

    @property
    def throttle_count(self) -> int:
        """Records with at least this delivery count are handed out in small portions."""
        return max(2, (self.max_delivery_count + 1) // 2)

    @property
    def deadline(self) -> int | None:
        """When the next lock or back-off ends. Records whose acknowledgement is being written do not count."""
        found: int | None = None
        for run in self._runs:
            if run.state is DeliveryState.ACQUIRED:
                at = run.expires_at if run.change_id == NO_CHANGE else 0
            else:
                at = run.available_at
            if at and (found is None or at < found):
                found = at
        return found

    @property
    def letter_count(self) -> int:
        """Dead letters that are not written yet."""
        return sum(run.count for run in self._runs if self._has_letter(run))

    def state_batches(self) -> list[StateBatch]:
        """The window as a snapshot stores it: acquired records as available."""
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
        that, because the log tells it again. A portion of records that were delivered often (`throttle_count`) comes
        alone.
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
            if run.delivery_count >= self.throttle_count:
                left = 0
                if acquired:
                    break
                last = min(last, first + self._portion(run) - 1)
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
        self._tidy(first_offset, last_offset)
        return acquired

    def _portion(self, run: _Run) -> int:
        """How many records of a run that was delivered often are handed out at once: half of the whole, then a quarter
        and so on, the last time one. The rest of a run follows in portions of the same size."""
        if run.whole_count == 0:
            run.whole_count = run.count
        if run.delivery_count >= self.max_delivery_count - 1:
            return 1
        return max(run.whole_count >> (run.delivery_count - self.throttle_count + 1), 1)

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
        if first_offset <= last_offset:
            self._tidy(first_offset, last_offset)

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
        archived_count = 0
        for first, last, kind in planned:
            run = self._split(self._runs[self._index_at(first)], first, last)
            if kind is AcknowledgeType.RENEW:
                run.expires_at = now + self.lock_duration_ms
                continue
            run.change_id, run.next_state = change_id, self._after(run, kind)
            run.is_rejected = kind is AcknowledgeType.REJECT and run.next_state is DeliveryState.ARCHIVING
            if run.next_state is DeliveryState.AVAILABLE:
                run.available_at = self._available_at(run, now)
            elif run.next_state is DeliveryState.ARCHIVED and kind is not AcknowledgeType.GAP:
                archived_count += run.count
            batches.append(StateBatch(first, last, run.next_state, run.delivery_count))
        self._tidy_each(taken)
        if not batches:
            return None
        self._last_change_id = change_id
        self._changed[change_id] = [(row.first_offset, row.last_offset) for row in batches]
        return Change(change_id, self.start_offset, tuple(sorted(batches)), archived_count)

    def finish(self, *change_ids: int, is_written: bool) -> None:
        """Changes were written; or the write failed, and their records are acquired again under their previous
        locks.
        """
        finished: list[tuple[int, int]] = []
        for change_id in change_ids:
            changed = self._changed.pop(change_id, [])
            finished += changed
            for first, last in changed:
                for run in self._within(first, last):
                    if run.change_id == change_id:
                        self._finish(run, is_written=is_written)
        self._tidy_each(finished)

    def _finish(self, run: _Run, *, is_written: bool) -> None:
        run.change_id = NO_CHANGE
        if is_written:
            run.state, run.member_id, run.expires_at = run.next_state, "", 0
            self.may_have_letters |= run.state is DeliveryState.ARCHIVING
            if run.is_free:
                self._free_from = min(self._free_from, run.first_offset)
        else:
            run.available_at, run.is_rejected = 0, False
        run.next_state = DeliveryState.AVAILABLE

    def _acquired_by(self, member_id: str, first_offset: int, last_offset: int) -> Iterator[tuple[int, int]]:
        """A range as parts, one for each run; records before the start offset are done."""
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
        if kind is AcknowledgeType.GAP:
            return DeliveryState.ARCHIVED
        return self._after_release(run) if kind is AcknowledgeType.RELEASE else self._given_up

    def _after_release(self, run: _Run) -> DeliveryState:
        return self._given_up if run.delivery_count >= self.max_delivery_count else DeliveryState.AVAILABLE

    @property
    def _given_up(self) -> DeliveryState:
        return DeliveryState.ARCHIVING if self.has_dead_letters else DeliveryState.ARCHIVED

    def _available_at(self, run: _Run, now: int) -> int:
        """When a released record may be handed out again; 0: at once."""
        pause_ms = min(self.backoff_ms << max(run.delivery_count - 1, 0), self.backoff_max_ms)
        return now + pause_ms if pause_ms > 0 else 0

    # Dead letters

    def dead_letters(self, max_records: int) -> list[LetterRange]:
        """The first records whose dead letters are not written yet, at most so many."""
        found: list[LetterRange] = []
        for run in self._runs:
            if max_records <= 0:
                break
            if self._has_letter(run):
                last = min(run.last_offset, run.first_offset + max_records - 1)
                found.append(LetterRange(run.first_offset, last, run.delivery_count, run.is_rejected))
                max_records -= found[-1].record_count
        self.may_have_letters = bool(found)
        return found

    def archive(self, ranges: Iterable[LetterRange]) -> Change | None:
        """Begin to archive records whose dead letters are written or given up; None if the log has dropped them."""
        return self._change(
            [
                self._split(run, max(run.first_offset, one.first_offset), min(run.last_offset, one.last_offset))
                for one in ranges
                for run in list(self._within(one.first_offset, one.last_offset))
                if self._has_letter(run)
            ]
        )

    # Locks and back-offs that end

    def expire(self, now: int) -> Change | None:
        """Begin to release records whose locks have expired; None if there are none. Also ends back-offs."""
        ended = [run for run in self._runs if self._is_waiting(run) and run.available_at <= now]
        for run in ended:
            run.available_at = 0
            self._free_from = min(self._free_from, run.first_offset)
        if ended:
            self._tidy_all()
        runs = [run for run in self._runs if self._is_held(run) and run.expires_at <= now]
        for run in runs:
            run.available_at = self._available_at(run, now)
        return self._change(runs)

    def release_member(self, member_id: str) -> Change | None:
        """Begin to release the records of a member whose session ended, without a back-off; None if it has none."""
        return self._change([run for run in self._runs if self._is_held(run) and run.member_id == member_id])

    def _change(self, runs: list[_Run]) -> Change | None:
        """Release or, with their dead letters done, archive these runs."""
        if not runs:
            return None
        self._last_change_id = change_id = self._last_change_id + 1
        archived_count = 0
        for run in runs:
            is_done = run.state is DeliveryState.ARCHIVING
            run.change_id, run.next_state = change_id, DeliveryState.ARCHIVED if is_done else self._after_release(run)
            if run.next_state is not DeliveryState.AVAILABLE:
                run.available_at = 0
            archived_count += run.count if run.next_state is DeliveryState.ARCHIVED else 0
        batches = tuple(
            StateBatch(run.first_offset, run.last_offset, run.next_state, run.delivery_count) for run in runs
        )
        self._changed[change_id] = [(row.first_offset, row.last_offset) for row in batches]
        self._tidy_each(self._changed[change_id])
        return Change(change_id, self.start_offset, batches, archived_count)

    @staticmethod
    def _is_held(run: _Run) -> bool:
        """Whether a member may acknowledge it: no acknowledgement is being written."""
        return run.state is DeliveryState.ACQUIRED and run.change_id == NO_CHANGE

    @staticmethod
    def _has_letter(run: _Run) -> bool:
        """Whether the dead letters of these records have still to be written."""
        return run.state is DeliveryState.ARCHIVING and run.change_id == NO_CHANGE

    @staticmethod
    def _is_waiting(run: _Run) -> bool:
        """Whether the records wait for their redelivery backoff."""
        return run.state is DeliveryState.AVAILABLE and run.available_at > 0

    # The window moves

    def log_start_moved(self, log_start_offset: int) -> bool:
        """Records before the log's start no longer exist, whatever their state; True if the start offset moved."""
        if log_start_offset <= self.start_offset:
            return False
        self.start_offset = log_start_offset
        while self._runs and self._runs[0].last_offset < log_start_offset:
            del self._runs[0]
        if self._runs:
            self._runs[0].first_offset = log_start_offset
        self._skip_final()
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
        """A run of exactly this part; the rest remains as other runs."""
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

    def _first_free(self) -> int:
        """The index of the first free run; after all runs if there is none."""
        index = max(self._index_at(self._free_from), 0)
        while index < len(self._runs) and not self._runs[index].is_free:
            index += 1
        return index

    def _tidy(self, first_offset: int, last_offset: int) -> None:
        """Join neighbours of the same state where this range changed, and move the start offset past what is done."""
        low, high = max(self._index_at(first_offset) - 1, 0), self._index_at(last_offset) + 2
        self._join(low, high)
        self._skip_final()

    def _tidy_each(self, ranges: Sequence[tuple[int, int]]) -> None:
        if len(ranges) * RUNS_PER_RANGE > len(self._runs):
            self._tidy_all()
            return
        for first, last in ranges:
            self._join(max(self._index_at(first) - 1, 0), self._index_at(last) + 2)
        self._skip_final()

    def _tidy_all(self) -> None:
        self._join(0, len(self._runs))
        self._skip_final()

    def _join(self, low: int, high: int) -> None:
        joined: list[_Run] = []
        for run in self._runs[low:high]:
            if joined and joined[-1].is_like(run):
                joined[-1].last_offset = run.last_offset
            else:
                joined.append(run)
        self._runs[low:high] = joined

    def _skip_final(self) -> None:
        count = 0
        while count < len(self._runs) and self._runs[count].state in FINAL:
            self.start_offset = self._runs[count].last_offset + 1
            count += 1
        del self._runs[:count]

    def check(self) -> None:
        """Assert the invariants."""
        at = self.start_offset
        for run in self._runs:
            assert run.first_offset == at and run.last_offset >= at, "I1"
            at = run.last_offset + 1
            is_acquired = run.state is DeliveryState.ACQUIRED
            assert bool(run.member_id) == is_acquired and (run.delivery_count >= 1 or not is_acquired), "I3"
            assert is_acquired or run.change_id == NO_CHANGE or run.state is DeliveryState.ARCHIVING, "I3"
            assert not run.available_at or is_acquired or run.state is DeliveryState.AVAILABLE, "I3"
        assert not self._runs or self._runs[0].state not in FINAL, "I2"


def _cut(first_offset: int, count: int, fetched: Sequence[tuple[int, int]], *, is_strict: bool) -> int:
    """The last offset of an acquisition of so many records; if not strict, the end of the batch with it."""
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
    """Acknowledgements as ranges of one type each."""
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
