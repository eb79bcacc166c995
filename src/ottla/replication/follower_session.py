"""Everything that this node copies from one leader: its followers, and the fetch session towards the leader (KIP-227).

One Fetch is always in flight. Its answer is appended to the logs, and the offsets of the next Fetch acknowledge that.
In a session a Fetch names only partitions that changed, so its cost grows with what changed, not with the number of
partitions followed.

The session is a machine without network, disk or clock. Appending an ordinary answer puts its partitions into `changed`
directly, without an event for each; everything else is an event. States of the session, what moves between them, and
the effects:

    Unstarted      Started                                          -> Idle
    Idle           Tick, and there is something to ask for          -> Asking         Fetch
    Asking         Answered                                         -> Idle; goes on as with Tick
                   Rejected: the leader does not know the session   -> Idle, new session; goes on as with Tick
                   Rejected: anything else                          -> BackingOff, new session
                   Unanswered                                       -> BackingOff, new session   ReportBroken if closed
                   Tick: a partition that is new waits for long     -> Interrupting   CloseConnection
    Interrupting   Unanswered                                       -> Idle, new session; goes on as with Tick
                   Answered, Rejected                               as Asking
    BackingOff     Tick, when the delay is over                     -> Idle; goes on as with Tick
                   Added                                            -> Idle
    every state    Closed                                           -> Closed

An event of one partition is handed in as OfPartition, and the effects of its follower come out as ForPartition.

Invariants
  S1  a Fetch names followers that are Fetching and nothing else, so neither a log whose cut is not on disk (F1) nor a
      partition that is not followed any more
  S2  every follower that is Fetching is in the leader's session or in the next Fetch: it is in `named` or `changed`
  S3  what is followed no longer, or not Fetching, leaves the leader's session with the next Fetch: it is in
      `forgotten` if it is in `named`
  S4  `waiting` has the followers that are Delayed or HeldBack, and no others

Cython compiles this file (types in follower_session.pxd), and it runs as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.machine import Tick
from ottla.replication.follower import (
    FETCHING,
    NOT_ASKED,
    TRUNCATING,
    Delayed,
    Follower,
    HeldBack,
    Key,
    SyncCut,
    Throttled,
    longer_delay,
)
from ottla.replication.follower import Effect as FollowerEffect
from ottla.replication.follower import Event as FollowerEvent
from ottla.replication.throttle import ReplicationThrottle
from ottla.wire.errors import ErrorCode
from ottla.wire.sentinels import MAX_SESSION_EPOCH, NO_SESSION

INTERRUPT_MS = 5
"""How long a partition that is new waits for the answer to a request that does not name it. Without news the leader
answers only after half a second, and until then the new partition could commit nothing.
"""
MIN_INTERRUPT_INTERVAL_MS = 500
"""Limits the interrupts while thousands of new partitions arrive: after each, the Fetch names all partitions again."""
AT_ONCE = 0
NEVER = (1 << 63) - 1
_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


# States


@dataclass(frozen=True, slots=True)
class Unstarted:
    """This node has no broker epoch to fetch with yet."""


@dataclass(frozen=True, slots=True)
class Idle:
    """No Fetch is in flight: it is due at once, or there is nothing to fetch."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A Fetch is in flight."""


@dataclass(frozen=True, slots=True)
class Interrupting:
    """A Fetch is in flight, and its connection was closed so that the next one, which names more partitions, can be
    sent.
    """


@dataclass(frozen=True, slots=True)
class BackingOff:
    """The leader did not answer."""

    until: int


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing is copied from this leader any more. Also the name of the event that leads to this state."""


UNSTARTED, IDLE, ASKING, INTERRUPTING, CLOSED = Unstarted(), Idle(), Asking(), Interrupting(), Closed()
State = Unstarted | Idle | Asking | Interrupting | BackingOff | Closed


# Events


@dataclass(frozen=True, slots=True)
class Started:
    """This node is registered and has a broker epoch."""


@dataclass(frozen=True, slots=True)
class Added:
    """A partition is to be copied from this leader, or in a new leader epoch."""

    partition: str
    follower: Follower = field(repr=False)


@dataclass(frozen=True, slots=True)
class Removed:
    """A partition is not copied from this leader any more."""

    key: Key


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer came, and everything in it is dealt with."""

    session_id: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """The leader answered the whole Fetch with an error."""

    error_code: int


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No answer came. `is_closed`: the leader closed or refused the connection."""

    is_closed: bool


@dataclass(frozen=True, slots=True)
class OfPartition:
    """An event of one partition. It is ignored if the partition has another follower by now."""

    partition: str
    follower: Follower = field(repr=False)
    event: FollowerEvent


Event = Started | Added | Removed | Answered | Rejected | Unanswered | OfPartition | Closed | Tick


# Effects


@dataclass(frozen=True, slots=True)
class Fetch:
    """Send the next Fetch (`begin_fetch`); the leader may hold its answer for so long if it has no news; then
    Answered, Rejected or Unanswered."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Close the connection of the Fetch in flight; then Unanswered."""


@dataclass(frozen=True, slots=True)
class ReportBroken:
    """The leader may be gone."""


@dataclass(frozen=True, slots=True)
class ForPartition:
    """An effect of one partition's follower."""

    partition: str
    follower: Follower = field(repr=False)
    effect: FollowerEffect


Effect = Fetch | CloseConnection | ReportBroken | ForPartition


class FollowerSession:
    """The followers of partitions led by one broker, and what the leader's fetch session has of them. `max_delay_ms` is
    the longest pause after errors, `max_wait_ms` the longest that the leader may wait for news.
    """

    __slots__ = (
        "_interrupt_at",
        "_interrupted_at",
        "_max_delay_ms",
        "_max_wait_ms",
        "_throttle",
        "_usual_fetch",
        "changed",
        "delay_ms",
        "epoch",
        "followers",
        "forgotten",
        "id",
        "named",
        "state",
        "waiting",
    )

    def __init__(self, throttle: ReplicationThrottle, *, max_delay_ms: int, max_wait_ms: int) -> None:
        self._throttle = throttle
        self._max_delay_ms = max_delay_ms
        self._max_wait_ms = max_wait_ms
        self._usual_fetch = Fetch(max_wait_ms)
        self.state: State = UNSTARTED
        self.followers: dict[Key, Follower] = {}
        self.id, self.epoch = NO_SESSION, 0
        self.named: dict[Key, None] = {}
        """The partitions in the leader's fetch session."""
        self.changed: dict[Key, None] = {}
        """The partitions that the next Fetch names."""
        self.forgotten: dict[Key, None] = {}
        """The partitions that the next Fetch removes from the leader's session."""
        self.waiting: dict[Key, Follower] = {}
        self.delay_ms = 0
        """The delay after the last Fetch without an answer; 0 since there was one."""
        self._interrupt_at = NEVER
        self._interrupted_at = -MIN_INTERRUPT_INTERVAL_MS

    # Events

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take one event; the effects are performed in order."""
        if self.state is CLOSED:
            return []
        if isinstance(event, Answered):
            return self._answered(event.session_id, now)
        if isinstance(event, Tick):
            return self._tick(now)
        if isinstance(event, OfPartition):
            return self._of_partition(event.follower, event.event, now)
        if isinstance(event, Added):
            return self._follow(event.follower, now)
        if isinstance(event, Removed):
            self._unfollow(event.key)
        elif isinstance(event, Started):
            if self.state is UNSTARTED:
                self.state = IDLE
        elif isinstance(event, Rejected):
            return self._rejected(event.error_code, now)
        elif isinstance(event, Unanswered):
            return self._unanswered(event.is_closed, now)
        elif isinstance(event, Closed):
            self.state = CLOSED
        return []

    def deadline(self) -> int | None:
        """When the session next wants a Tick."""
        state = self.state
        if state is ASKING:
            return None if self._interrupt_at == NEVER else self._interrupt_at
        if state is IDLE:
            if self._has_something_to_ask():
                return AT_ONCE
            return self._next_due() if self.waiting else None
        return state.until if isinstance(state, BackingOff) else None

    def _tick(self, now: int) -> list[Effect]:
        state = self.state
        if state is ASKING:
            if now < self._interrupt_at:
                return []
            self._interrupt_at = NEVER
            if not self.changed:
                return []
            self._interrupted_at = now
            self.state = INTERRUPTING
            return [CloseConnection()]
        if isinstance(state, BackingOff) and state.until <= now:
            self.state = IDLE
        return self._next_fetch(now)

    def _answered(self, session_id: int, now: int) -> list[Effect]:
        assert self.state is ASKING or self.state is INTERRUPTING
        self.delay_ms = 0
        self.id = session_id
        if session_id == NO_SESSION:
            self.restart()  # the leader has no room for a session: each Fetch names all partitions
        else:
            self.epoch = 1 if self.epoch == MAX_SESSION_EPOCH else self.epoch + 1
        self.state = IDLE
        return self._next_fetch(now)

    def _rejected(self, error_code: int, now: int) -> list[Effect]:
        assert self.state is ASKING or self.state is INTERRUPTING
        if error_code not in _SESSION_ERRORS:
            return self._back_off(now)
        self.id = NO_SESSION
        self.restart()
        self.state = IDLE
        return self._next_fetch(now)

    def _unanswered(self, is_closed: bool, now: int) -> list[Effect]:
        assert self.state is ASKING or self.state is INTERRUPTING
        if self.state is INTERRUPTING:
            self.restart()
            self.state = IDLE
            return self._next_fetch(now)
        # A follower does not decide whether its leader is gone: the metadata will.
        return [ReportBroken(), *self._back_off(now)] if is_closed else self._back_off(now)

    def _back_off(self, now: int) -> list[Effect]:
        self.restart()
        self.delay_ms = longer_delay(self.delay_ms, self._max_delay_ms)
        self.state = BackingOff(now + self.delay_ms)
        return []

    # Partitions

    def _follow(self, follower: Follower, now: int) -> list[Effect]:
        key = follower.key
        self.followers[key] = follower
        self.waiting.pop(key, None)
        if isinstance(self.state, BackingOff):  # at once after a change of leaders
            self.delay_ms = 0
            self.state = IDLE
        if follower.state is FETCHING:
            self._ask_for(key, now)
            return []
        assert follower.state is TRUNCATING, "F1"
        self._leave_out(key)
        return [ForPartition(follower.name, follower, SyncCut())]

    def _unfollow(self, key: Key) -> None:
        if self.followers.pop(key, None) is not None:
            self.waiting.pop(key, None)
            self._leave_out(key)

    def _of_partition(self, follower: Follower, event: FollowerEvent, now: int) -> list[Effect]:
        key = follower.key
        if self.followers.get(key) is not follower:
            return []
        before = follower.state
        effects = follower.handle(event, now)
        state = follower.state
        if state is not before:
            if state is FETCHING:
                self._ask_for(key, now)
            elif before is FETCHING:
                self._leave_out(key)
            if isinstance(state, Delayed | HeldBack):
                self.waiting[key] = follower
            else:
                self.waiting.pop(key, None)
        return [ForPartition(follower.name, follower, effect) for effect in effects]

    def _ask_for(self, key: Key, now: int) -> None:
        self.followers[key].asked_offset = NOT_ASKED
        self.forgotten.pop(key, None)
        self.changed[key] = None
        if self.state is ASKING and self._interrupt_at == NEVER:
            self._interrupt_at = max(now + INTERRUPT_MS, self._interrupted_at + MIN_INTERRUPT_INTERVAL_MS)

    def _leave_out(self, key: Key) -> None:
        self.changed.pop(key, None)
        if key in self.named:
            self.forgotten[key] = None

    def copied(self, follower: Follower, size: int, is_behind: bool, now: int) -> None:
        """So many bytes were copied to a partition, which counts if the partition is throttled; while the limit is
        exceeded, a partition behind the high watermark is held back.
        """
        if self._throttle.is_throttled(follower.topic, follower.key[1]):
            self._throttle.record(size, now)
            if is_behind:
                self._of_partition(follower, Throttled(self._throttle.wait_ms(now)), now)

    def _resume_waiting(self, now: int) -> list[Effect]:
        """Ask again for followers whose wait is over; a throttle is checked again, since its limit may have changed."""
        effects: list[Effect] = []
        for follower in list(self.waiting.values()):
            state = follower.state
            assert isinstance(state, Delayed | HeldBack), "S4"
            if state.until <= now:
                event: FollowerEvent = Tick()
                if isinstance(state, HeldBack) and self._throttle.is_throttled(follower.topic, follower.key[1]):
                    event = Throttled(self._throttle.wait_ms(now))
                effects += self._of_partition(follower, event, now)
        return effects

    # Asking

    def expects(self, key: Key, log_end_offset: int) -> Follower | None:
        """The follower for a row of the answer; None if the partition is not followed any more, was not in this Fetch,
        or if its log no longer ends where the Fetch asked.
        """
        follower = self.followers.get(key)
        if follower is None or key in self.changed or follower.asked_offset == NOT_ASKED:
            return None
        if log_end_offset != follower.asked_offset:
            self.changed[key] = None
            return None
        return follower

    def _has_something_to_ask(self) -> bool:
        return bool(self.changed) or len(self.named) > len(self.forgotten)

    def _next_due(self) -> int:
        """When the first of the waiting followers is due."""
        due = NEVER
        for follower in self.waiting.values():
            state = follower.state
            assert isinstance(state, Delayed | HeldBack), "S4"
            due = min(due, state.until)
        return due

    def _next_fetch(self, now: int) -> list[Effect]:
        if self.state is not IDLE:
            return []
        effects: list[Effect] = []
        if self.waiting:
            effects = self._resume_waiting(now)
        if not self._has_something_to_ask():
            return effects
        self.state = ASKING
        self._interrupt_at = NEVER
        if not self.waiting and not effects:
            return [self._usual_fetch]
        wait_ms = self._max_wait_ms
        if self.waiting:
            wait_ms = min(wait_ms, self._next_due() - now)
        return [*effects, Fetch(wait_ms)]

    def begin_fetch(self) -> dict[bytes, list[int]]:
        """Begin the Fetch that names the partitions in `changed`. Returns the partitions to remove from the session, by
        topic.
        """
        forgotten: dict[bytes, list[int]] = {}
        self.named |= self.changed
        for key in self.forgotten:
            forgotten.setdefault(key[0], []).append(key[1])
            del self.named[key]
        self.changed.clear()
        self.forgotten.clear()
        return forgotten

    def restart(self) -> None:
        """Begin a new session with the next Fetch, which names all partitions."""
        self.epoch = 0
        self.named.clear()
        self.forgotten.clear()
        self.changed.clear()
        for key, follower in self.followers.items():
            if follower.state is FETCHING:
                self.changed[key] = None
