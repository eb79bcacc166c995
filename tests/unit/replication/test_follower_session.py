"""The fetch session of a follower towards one leader: what each request names, and when it goes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from ottla.machine import Tick
from ottla.replication import LeaderEpochs
from ottla.replication.follower import (
    FETCHING,
    FIRST_BACKOFF_MS,
    NOT_ASKED,
    STOPPED,
    TRUNCATING,
    AskBounds,
    BoundsFound,
    BoundsUnknown,
    CopyFailed,
    Cut,
    CutSynced,
    Delayed,
    Diverged,
    Follower,
    HeldBack,
    Key,
    Refused,
    SyncCut,
)
from ottla.replication.follower import Event as FollowerEvent
from ottla.replication.follower_session import (
    ASKING,
    AT_ONCE,
    CLOSED,
    IDLE,
    INTERRUPT_MS,
    INTERRUPTING,
    MIN_INTERRUPT_INTERVAL_MS,
    UNSTARTED,
    Added,
    Answered,
    BackingOff,
    CloseConnection,
    Closed,
    Effect,
    Event,
    Fetch,
    FollowerSession,
    ForPartition,
    OfPartition,
    Rejected,
    Removed,
    ReportBroken,
    Started,
    Unanswered,
)
from ottla.replication.throttle import ReplicationThrottle
from ottla.wire.errors import ErrorCode
from ottla.wire.sentinels import MAX_SESSION_EPOCH, NO_SESSION

TOPIC = b"t" * 16
MAX_DELAY_MS = 1_000
MAX_WAIT_MS = 500
SESSION_ID = 17


@dataclass
class SomeLog:
    epochs: LeaderEpochs = field(default_factory=lambda: LeaderEpochs([(1, 0)]))
    log_start_offset: int = 0
    log_end_offset: int = 100
    high_watermark: int = 20


class Stage:
    """A session, and what its requests named."""

    def __init__(self, *, is_started: bool = True) -> None:
        self.throttle = ReplicationThrottle(11, 1000)
        self.session = FollowerSession(self.throttle, max_delay_ms=MAX_DELAY_MS, max_wait_ms=MAX_WAIT_MS)
        self.now = 10_000
        self.named: list[list[int]] = []
        self.forgotten: list[list[int]] = []
        if is_started:
            self.handle(Started())

    def follower(self, index: int, *, is_cut: bool = False) -> Follower:
        return Follower((TOPIC, index), "t", 7, is_cut=is_cut, max_delay_ms=MAX_DELAY_MS)

    def add(self, index: int, *, is_cut: bool = False) -> Follower:
        follower = self.follower(index, is_cut=is_cut)
        self.handle(Added(follower.name, follower))
        return follower

    def handle(self, event: Event) -> list[Effect]:
        effects = self.session.handle(event, self.now)
        if any(isinstance(effect, Fetch) for effect in effects):
            self._send()
        return effects

    def _send(self) -> None:
        session = self.session
        for key in session.changed:
            session.followers[key].asked_offset = 100
        self.named.append([index for _, index in session.changed])
        self.forgotten.append([index for indexes in session.begin_fetch().values() for index in indexes])

    def tick(self) -> list[Effect]:
        """Let the time pass until the session wants a Tick."""
        deadline = self.session.deadline()
        assert deadline is not None
        self.now = max(self.now, deadline)
        return self.handle(Tick())

    def of(self, follower: Follower, event: FollowerEvent) -> list[Effect]:
        return self.handle(OfPartition(follower.name, follower, event))

    def check(self) -> None:
        """The invariants."""
        session = self.session
        fetching = {key for key, one in session.followers.items() if one.state is FETCHING}
        assert set(session.changed) <= fetching, "S1"
        assert fetching <= session.changed.keys() | session.named.keys(), "S2"
        assert not session.changed.keys() & session.forgotten.keys(), "S3"
        assert session.named.keys() - fetching == set(session.forgotten), "S3"
        waiting = {key for key, one in session.followers.items() if isinstance(one.state, Delayed | HeldBack)}
        assert set(session.waiting) == waiting, "S4"


@pytest.fixture
def stage() -> Stage:
    """Partitions 0 and 1 are in the leader's session, and a Fetch is on its way."""
    stage = Stage()
    stage.add(0)
    stage.add(1)
    assert stage.tick() == [Fetch(MAX_WAIT_MS)]
    stage.handle(Answered(SESSION_ID))
    assert (stage.named, stage.forgotten) == ([[0, 1], []], [[], []])
    return stage


def one(stage: Stage, index: int) -> Follower:
    return stage.session.followers[TOPIC, index]


def test_nothing_is_asked_for_before_the_node_has_a_broker_epoch() -> None:
    stage = Stage(is_started=False)
    stage.add(0)
    assert stage.session.state is UNSTARTED and stage.session.deadline() is None
    assert stage.handle(Tick()) == []
    stage.handle(Started())
    assert stage.session.deadline() == AT_ONCE
    assert stage.tick() == [Fetch(MAX_WAIT_MS)]


def test_without_partitions_nothing_is_asked_for() -> None:
    stage = Stage()
    assert stage.session.deadline() is None
    assert stage.handle(Tick()) == []


def test_partitions_that_come_in_one_turn_are_named_in_one_request() -> None:
    stage = Stage()
    for index in range(5):
        stage.add(index)
    assert stage.tick() == [Fetch(MAX_WAIT_MS)]
    assert stage.named == [[0, 1, 2, 3, 4]]


def test_a_request_names_only_what_changed(stage: Stage) -> None:
    stage.session.changed[TOPIC, 1] = None  # as the copying of an ordinary answer does
    assert stage.handle(Answered(SESSION_ID)) == [Fetch(MAX_WAIT_MS)]
    assert stage.named[-1] == [1]
    assert (stage.session.id, stage.session.epoch) == (SESSION_ID, 2)


def test_the_epoch_of_a_session_begins_anew_after_the_largest(stage: Stage) -> None:
    stage.session.epoch = MAX_SESSION_EPOCH
    stage.handle(Answered(SESSION_ID))
    assert stage.session.epoch == 1


def test_a_leader_without_room_for_a_session_is_asked_for_everything_each_time(stage: Stage) -> None:
    stage.handle(Answered(NO_SESSION))
    assert (stage.named[-1], stage.session.epoch) == ([0, 1], 0)


@pytest.mark.parametrize("error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_leader_that_does_not_know_the_session_is_asked_again_at_once(stage: Stage, error: ErrorCode) -> None:
    assert stage.handle(Rejected(error)) == [Fetch(MAX_WAIT_MS)]
    assert (stage.named[-1], stage.session.id, stage.session.epoch) == ([0, 1], NO_SESSION, 0)


def test_a_leader_that_refuses_a_request_is_asked_again_later(stage: Stage) -> None:
    assert stage.handle(Rejected(ErrorCode.NOT_CONTROLLER)) == []
    assert stage.session.state == BackingOff(stage.now + FIRST_BACKOFF_MS)


def test_a_leader_that_does_not_answer_is_asked_later_and_later_and_for_everything(stage: Stage) -> None:
    for delay_ms in (FIRST_BACKOFF_MS, 2 * FIRST_BACKOFF_MS, 4 * FIRST_BACKOFF_MS):
        assert stage.handle(Unanswered(is_closed=False)) == []
        assert stage.session.deadline() == stage.now + delay_ms
        assert stage.handle(Tick()) == []
        assert stage.tick() == [Fetch(MAX_WAIT_MS)]
        assert stage.named[-1] == [0, 1]
    stage.handle(Answered(SESSION_ID))
    stage.handle(Unanswered(is_closed=False))
    assert stage.session.deadline() == stage.now + FIRST_BACKOFF_MS


def test_a_connection_that_breaks_is_reported(stage: Stage) -> None:
    assert stage.handle(Unanswered(is_closed=True)) == [ReportBroken()]


def test_a_new_partition_ends_the_wait_for_a_leader_that_did_not_answer(stage: Stage) -> None:
    stage.handle(Unanswered(is_closed=False))
    stage.add(2)
    assert stage.session.deadline() == AT_ONCE
    assert stage.tick() == [Fetch(MAX_WAIT_MS)]
    assert stage.named[-1] == [0, 1, 2]


def test_a_new_partition_interrupts_a_request_that_waits_for_news(stage: Stage) -> None:
    stage.add(2)
    before = stage.now
    assert stage.handle(Tick()) == []
    assert stage.tick() == [CloseConnection()]
    assert (stage.now - before, stage.session.state) == (INTERRUPT_MS, INTERRUPTING)
    assert stage.handle(Unanswered(is_closed=True)) == [Fetch(MAX_WAIT_MS)], "closed by this side: nothing to report"
    assert stage.named[-1] == [0, 1, 2]


def test_requests_are_not_interrupted_again_and_again(stage: Stage) -> None:
    stage.add(2)
    stage.tick()
    interrupted_at = stage.now
    stage.handle(Unanswered(is_closed=True))
    stage.add(3)
    assert stage.tick() == [CloseConnection()]
    assert stage.now == interrupted_at + MIN_INTERRUPT_INTERVAL_MS


def test_an_answer_in_time_makes_an_interruption_needless(stage: Stage) -> None:
    stage.add(2)
    stage.handle(Answered(SESSION_ID))
    assert stage.named[-1] == [2]
    assert stage.session.deadline() is None


def test_an_answer_may_still_come_while_a_request_is_interrupted(stage: Stage) -> None:
    stage.add(2)
    stage.tick()
    assert stage.handle(Answered(SESSION_ID)) == [Fetch(MAX_WAIT_MS)]
    assert (stage.named[-1], stage.session.state) == ([2], ASKING)


def test_a_partition_that_is_led_elsewhere_leaves_the_leaders_session(stage: Stage) -> None:
    stage.handle(Removed((TOPIC, 0)))
    stage.handle(Answered(SESSION_ID))
    assert (stage.named[-1], stage.forgotten[-1]) == ([], [0])
    stage.handle(Removed((TOPIC, 1)))
    assert stage.handle(Answered(SESSION_ID)) == [], "nothing is left to ask for"
    assert stage.session.state is IDLE and stage.session.deadline() is None


def test_a_partition_that_comes_back_before_it_was_forgotten_stays_in_the_session(stage: Stage) -> None:
    stage.handle(Removed((TOPIC, 0)))
    stage.add(0)
    stage.handle(Answered(SESSION_ID))
    assert (stage.named[-1], stage.forgotten[-1]) == ([0], [])


def test_rows_of_a_follower_that_was_replaced_are_not_taken(stage: Stage) -> None:
    key = (TOPIC, 0)
    assert stage.session.expects(key, 100) is one(stage, 0)
    stage.add(0)
    assert stage.session.expects(key, 100) is None, "it is asked for anew"
    assert stage.session.expects((TOPIC, 9), 100) is None, "it is not followed"
    assert stage.session.expects((TOPIC, 1), 99) is None, "its log is not what it was"
    assert (TOPIC, 1) in stage.session.changed


def test_events_of_a_follower_that_was_replaced_change_nothing(stage: Stage) -> None:
    old = one(stage, 0)
    stage.add(0)
    assert stage.of(old, Refused(ErrorCode.OFFSET_OUT_OF_RANGE)) == []
    assert one(stage, 0).state is FETCHING
    stage.check()


def test_a_log_that_is_cut_is_not_asked_for_before_the_cut_is_on_disk(stage: Stage) -> None:
    cut = one(stage, 0)
    assert stage.of(cut, Diverged(1, 40, SomeLog())) == [
        ForPartition(cut.name, cut, Cut(40)),
        ForPartition(cut.name, cut, SyncCut()),
    ]
    stage.handle(Answered(SESSION_ID))
    assert (stage.named[-1], stage.forgotten[-1]) == ([], [0])
    stage.handle(Unanswered(is_closed=True))
    stage.tick()
    assert stage.named[-1] == [1], "nor when everything is named anew"
    stage.of(cut, CutSynced())
    stage.handle(Answered(SESSION_ID))
    assert stage.named[-1] == [0]


def test_a_log_that_was_cut_under_another_leader_is_synced_first() -> None:
    stage = Stage()
    cut = stage.follower(0, is_cut=True)
    assert stage.handle(Added(cut.name, cut)) == [ForPartition(cut.name, cut, SyncCut())]
    assert stage.session.deadline() is None
    stage.of(cut, CutSynced())
    assert stage.tick() == [Fetch(MAX_WAIT_MS)]


def test_a_partition_with_an_error_is_asked_for_again_after_a_while(stage: Stage) -> None:
    stage.of(one(stage, 0), Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert stage.handle(Answered(SESSION_ID)) == [Fetch(FIRST_BACKOFF_MS)], "the leader answers when the delay is over"
    assert stage.forgotten[-1] == [0]
    stage.now += FIRST_BACKOFF_MS
    assert stage.handle(Answered(SESSION_ID)) == [Fetch(MAX_WAIT_MS)]
    assert stage.named[-1] == [0]


def test_a_lone_partition_with_an_error_is_asked_for_again_after_a_while() -> None:
    stage = Stage()
    only = stage.add(0)
    stage.tick()
    stage.of(only, Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert stage.handle(Answered(SESSION_ID)) == []
    assert stage.session.deadline() == stage.now + FIRST_BACKOFF_MS
    assert stage.tick() == [Fetch(MAX_WAIT_MS)]
    assert stage.named[-1] == [0]


def test_a_stopped_partition_is_not_asked_for_even_in_a_new_session(stage: Stage) -> None:
    stage.of(one(stage, 0), Refused(ErrorCode.FENCED_LEADER_EPOCH))
    stage.handle(Unanswered(is_closed=False))
    stage.tick()
    assert stage.named[-1] == [1]
    stage.add(0)
    stage.handle(Answered(SESSION_ID))
    assert stage.named[-1] == [0], "a new epoch"


def test_a_throttled_partition_that_lags_is_held_back_until_more_may_be_copied(stage: Stage) -> None:
    stage.throttle.mark_all("t")
    stage.throttle.limit(1_000)
    slow, other = one(stage, 0), one(stage, 1)
    stage.session.copied(other, 10, False, stage.now)
    assert other.state is FETCHING
    stage.session.copied(slow, 2_000, True, stage.now)
    assert slow.state == HeldBack(stage.now + MAX_DELAY_MS)
    stage.handle(Answered(SESSION_ID))
    assert stage.forgotten[-1] == [0]
    stage.now += MAX_DELAY_MS
    stage.handle(Answered(SESSION_ID))
    assert isinstance(slow.state, HeldBack) and slow.state.until > stage.now, "2 s' worth was copied"
    stage.throttle.unmark("t")
    stage.now = slow.state.until
    stage.handle(Answered(SESSION_ID))
    assert one(stage, 0).state is FETCHING and stage.named[-1] == [0]


def test_what_is_not_throttled_does_not_count(stage: Stage) -> None:
    stage.throttle.mark_all("other")
    stage.throttle.limit(1)
    stage.session.copied(one(stage, 0), 1_000_000, True, stage.now)
    assert one(stage, 0).state is FETCHING


def test_bounds_are_asked_for_once(stage: Stage) -> None:
    lost = one(stage, 0)
    event = Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert stage.of(lost, event) == [ForPartition(lost.name, lost, AskBounds())]
    assert stage.of(lost, event) == []


def test_a_closed_session_does_nothing(stage: Stage) -> None:
    stage.handle(Closed())
    assert stage.session.state is CLOSED and stage.session.deadline() is None
    for event in (Tick(), Answered(SESSION_ID), Unanswered(is_closed=True), Added("t-5", stage.follower(5))):
        assert stage.handle(event) == []


class Leader:
    """Plays the rest of the world at random: a leader, logs, their disks, and the metadata."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.stage = Stage()
        self.session = self.stage.session
        self.session_keys: set[Key] = set()
        """What the leader's session holds."""
        self.unsynced: set[Key] = set()
        """Logs whose cut is not on disk; that outlives their followers."""
        self.is_asked = False
        self.is_closing = False

    def handle(self, event: Event) -> None:
        effects = self.session.handle(event, self.stage.now)
        for effect in effects:
            if isinstance(effect, Fetch):
                assert not self.is_asked, "one request at a time"
                assert 0 < effect.wait_ms <= MAX_WAIT_MS
                self.is_asked = True
                self._take_request()
            elif isinstance(effect, CloseConnection):
                assert self.is_asked
                self.is_closing = True
            elif isinstance(effect, ForPartition) and isinstance(effect.effect, Cut):
                self.unsynced.add(effect.follower.key)
        self.stage.check()

    def of(self, key: Key, event: FollowerEvent) -> None:
        follower = self.session.followers[key]
        self.handle(OfPartition(follower.name, follower, event))

    def _take_request(self) -> None:
        session = self.session
        for key in session.changed:
            follower = session.followers[key]
            assert follower.state is FETCHING and key not in self.unsynced, "F1, S1"
            follower.asked_offset = 100
        if session.epoch == 0:
            self.session_keys.clear()
        self.session_keys |= set(session.changed)
        for topic_id, indexes in session.begin_fetch().items():
            for index in indexes:
                self.session_keys.remove((topic_id, index))
        fetching = {key for key, follower in session.followers.items() if follower.state is FETCHING}
        assert self.session_keys == fetching, "S2, S3: the leader is asked for all that is Fetching, and nothing else"

    def step(self) -> None:
        rng, stage, session = self.rng, self.stage, self.session
        stage.now += rng.choice((0, 0, 1, 20, 600))
        key = (TOPIC, rng.randrange(6))
        chance = rng.random()
        if chance < 0.15:
            follower = stage.follower(key[1], is_cut=key in self.unsynced)
            self.handle(Added(follower.name, follower))
        elif chance < 0.2:
            self.handle(Removed(key))
        elif chance < 0.3:
            self.unsynced.discard(key)
            if key in session.followers:
                self.of(key, CutSynced())
        elif chance < 0.4:
            if key in session.followers:
                bounds = BoundsFound(rng.randrange(150), rng.randrange(150), SomeLog())
                self.of(key, rng.choice((bounds, BoundsUnknown())))
        elif chance < 0.5 or not self.is_asked:
            self.handle(Tick())
        else:
            self._answer()

    def _answer(self) -> None:
        rng, session = self.rng, self.session
        self.is_asked = self.is_closing = False
        chance = rng.random()
        if chance < 0.1:
            self.session_keys.clear()
            self.handle(Unanswered(is_closed=rng.random() < 0.5))
        elif chance < 0.2:
            self.session_keys.clear()
            self.handle(Rejected(rng.choice((3, 70, 71))))
        else:
            self.is_asked = True
            for key in list(self.session_keys):
                follower = session.expects(key, 100)
                if follower is None:
                    continue
                what = rng.random()
                if what < 0.5:
                    session.changed[key] = None
                elif what < 0.9:
                    diverged = Diverged(1, rng.randrange(100), SomeLog())
                    failed = CopyFailed(is_offline=rng.random() < 0.05)
                    self.of(key, rng.choice((diverged, failed, Refused(1), Refused(6), Refused(74))))
            self.is_asked = False
            self.handle(Answered(rng.choice((SESSION_ID, SESSION_ID, SESSION_ID, NO_SESSION))))

    def settle(self) -> None:
        """From now on everything succeeds."""
        stage, session = self.stage, self.session
        for _ in range(50):
            for key, follower in list(session.followers.items()):
                self.unsynced.discard(key)
                self.of(follower.key, CutSynced())
                self.of(follower.key, BoundsFound(0, 100, SomeLog()))
            stage.now += MAX_DELAY_MS
            if self.is_asked:
                self.is_asked = False
                self.handle(Answered(SESSION_ID))
            else:
                self.handle(Tick())


@pytest.mark.parametrize("seed", range(150))
def test_no_sequence_of_events_breaks_the_invariants(seed: int) -> None:
    leader = Leader(seed)
    for _ in range(200):
        leader.step()
    leader.settle()
    for key, follower in leader.session.followers.items():
        assert follower.state is STOPPED or key in leader.session_keys, "everything is asked for in the end"
        assert follower.state is not TRUNCATING
        assert (follower.asked_offset == NOT_ASKED) == (follower.state is STOPPED)
