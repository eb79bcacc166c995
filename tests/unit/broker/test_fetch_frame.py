"""Fetches of followers answered from the frame: what the long way would answer, when there is news and not before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.broker.apis.fetch_frame import FollowerFetch, fetch_frame
from ottla.broker.replicas.follower_frames import _WANTED, VERSION, fetch_body
from ottla.replication.fetch_sessions import FetchSession
from ottla.wire import decode
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchResponse, PartitionData
from tests.unit.broker.test_replicated_partitions import ID, RESPONSE_HEADER_SIZE, World

EPOCH = 5
GATHERED_BYTES = 256 * 1024
MOST = 1 << 20


class Follower:
    """One of a partition's followers, by its session with the leader."""

    def __init__(self, world: FollowedWorld, id: int) -> None:
        self.world = world
        self.id = id
        self.end_offset = 0
        answer = world.fetch(0, replica=id, epoch=EPOCH, session_epoch=0, max_wait_ms=0)
        self.session_id, self.epoch = answer.session_id, 1

    def body(self, *, is_named: bool = True, max_bytes: int = MOST, wait_ms: int = 10_000, epoch: int = EPOCH) -> bytes:
        last_epoch = self.world.led.log.epochs.latest if self.end_offset else -1
        wanted = _WANTED.pack(0, epoch, self.end_offset, last_epoch, 0, MOST, 1, 1, 8, 0)
        rows = {ID: [wanted]} if is_named else {}
        return fetch_body(rows, {}, (wait_ms, 1, max_bytes), (self.session_id, self.epoch), (self.id, self.id * 10))

    def was_just_answered(self, pause_ms: int) -> None:
        """Longer ago than the shortest pause, if it is a longer one; and time stands still from here on, but for
        timers."""
        stopped: Any = StoppedClock()
        self.world.ground.loop = stopped
        self.session.answered_at = stopped.time() - (0.002 if pause_ms > 2 else 0.0)
        self.session.pause_s = pause_ms / 1000

    def fetch(self, **settings: Any) -> Any:
        """None, the answer, or what waits; long after the last answer."""
        self.session.answered_at = -1.0
        return self.fetch_at_once(**settings)

    def fetch_at_once(self, **settings: Any) -> Any:
        answer = fetch_frame(memoryview(self.body(**settings)), 0, VERSION, 7, self.world.frame_rooms)
        if answer is None:
            return None
        self.epoch += 1
        if isinstance(answer, FollowerFetch):
            answer.on_answer = self.world.take
            return answer
        return decoded(answer)

    @property
    def session(self) -> FetchSession:
        return self.world.fetch_sessions._sessions[self.session_id]


class StoppedClock:
    """The running loop, but for its clock."""

    def time(self) -> float:
        return 5.0

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio.get_running_loop(), name)


class FollowedWorld(World):
    def __init__(self, path: Path, **settings: Any) -> None:
        super().__init__(path, **settings)
        self.answers: list[list[Any]] = []
        self.queue: asyncio.Queue[list[Any]] = asyncio.Queue()

    def take(self, answer: list[Any]) -> None:
        self.answers.append(answer)
        self.queue.put_nowait(answer)


def decoded(parts: list[Any]) -> FetchResponse:
    frame = b"".join(part if isinstance(part, bytes) else part.read() for part in parts)
    assert len(frame) == 4 + int.from_bytes(frame[:4], "big")
    assert int.from_bytes(frame[4:8], "big") == 7
    return decode(FetchResponse, VERSION, frame, RESPONSE_HEADER_SIZE)


def rows(answer: FetchResponse) -> list[PartitionData]:
    return [row for topic in answer.responses for row in topic.partitions]


Scene = Callable[[FollowedWorld], Awaitable[None]]


def played(path: Path, scene: Scene, **settings: Any) -> None:
    async def play() -> None:
        await scene(FollowedWorld(path, min_insync_replicas=2, **settings))

    asyncio.run(play())


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_records_are_answered_at_once_and_as_by_the_long_way(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        for _ in range(3):
            world.produce(acks=1)
            (row,) = rows(follower.fetch())
            (other,) = rows(world.fetch(follower.end_offset, replica=2, epoch=EPOCH, last_epoch=-1))
            found: Any = other.records
            assert bytes(row.records or b"") == found.read()
            row.records = other.records = None
            assert row == other
            follower.end_offset = world.led.log.log_end_offset

    played(tmp_path, scene)


def test_what_a_follower_asks_for_tells_what_it_has(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        one, other = Follower(world, 2), Follower(world, 3)
        produced = world.produce()
        one.fetch()
        assert world.leader.replicas[2].end_offset == 0, "that it was sent does not mean that it arrived"
        one.end_offset = other.end_offset = 3
        one.fetch()
        assert not produced.done()
        other.fetch()
        assert produced.done() and world.led.log.high_watermark == 3

    played(tmp_path, scene)


def test_a_fetch_waits_until_the_log_grows(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        assert isinstance(follower.fetch(is_named=False), FollowerFetch)
        assert world.metrics.fetches_waiting == 1
        world.produce(acks=1)
        world.produce(acks=1)
        assert not world.answers, "what comes in the same turn goes with it"
        await turns()
        (answer,) = world.answers
        (row,) = rows(decoded(answer))
        assert len(row.records or b"") == world.led.log.size
        assert world.metrics.fetches_waiting == 0

    played(tmp_path, scene)


def test_what_comes_right_after_an_answer_is_gathered_for_a_moment(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        world.produce(acks=1)
        follower.end_offset = 3
        world.produce(acks=1)
        follower.was_just_answered(1)
        size = world.led.log.size
        assert isinstance(follower.fetch_at_once(), FollowerFetch)
        world.produce(acks=1)
        (row,) = rows(decoded(await asyncio.wait_for(world.queue.get(), 60)))
        assert len(row.records or b"") == size, "both of them"

    played(tmp_path, scene)


class Producing(Enum):
    """How the next records come, as the leader sees it."""

    WAITING = "right after the last were committed"
    STREAMING = "before the last are committed"
    STEADY = "long after the last were committed"


@pytest.mark.parametrize("producing", Producing)
def test_the_pause_after_a_large_answer_is_for_producers_that_send_ahead(tmp_path: Path, producing: Producing) -> None:
    async def scene(world: FollowedWorld) -> None:
        one, other = Follower(world, 2), Follower(world, 3)
        world.produce(acks=1)
        one.end_offset = other.end_offset = 3
        one.fetch()
        if producing is not Producing.STREAMING:
            other.fetch()
            assert world.led.log.high_watermark == 3
        if producing is Producing.STEADY:
            world.led._committed_at = -3
        world.produce(acks=1)
        one.was_just_answered(6)
        assert isinstance(one.fetch_at_once(), FollowerFetch) == (producing is not Producing.WAITING)

    played(tmp_path, scene)


def test_a_pause_is_over_when_there_is_enough_to_send(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        world.produce(acks=1)
        follower.fetch()
        follower.end_offset = 3
        world.produce(acks=1)
        follower.was_just_answered(6)
        waiting = follower.fetch_at_once()
        assert isinstance(waiting, FollowerFetch)
        for _ in range(4):
            world.produce(acks=1, count=10_000)
        assert waiting.pause() == 0.0
        (row,) = rows(decoded(await asyncio.wait_for(world.queue.get(), 60)))
        assert len(row.records or b"") > GATHERED_BYTES

    played(tmp_path, scene)


def test_a_high_watermark_is_told_a_little_later_without_records(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        one, other = Follower(world, 2), Follower(world, 3)
        world.produce(acks=1)
        one.end_offset = other.end_offset = 3
        waiting = one.fetch()
        assert isinstance(waiting, FollowerFetch)
        assert isinstance(other.fetch(), FollowerFetch)
        assert not world.answers
        for _ in range(2):
            (row,) = rows(decoded(await asyncio.wait_for(world.queue.get(), 60)))
            assert (row.high_watermark, len(row.records or b"")) == (3, 0)

    played(tmp_path, scene)


def test_only_partitions_with_news_are_looked_at(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        follower.fetch(wait_ms=0)
        assert not follower.session.ready
        world.produce(acks=1)
        assert [one.index for one in follower.session.ready] == [0]
        follower.fetch(wait_ms=0)
        assert follower.session.ready, "that it was sent does not mean that it arrived"
        follower.end_offset = 3
        follower.fetch(wait_ms=0)
        assert not follower.session.ready

    played(tmp_path, scene)


def test_a_follower_that_does_not_name_what_it_was_sent_is_sent_it_again(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        world.produce(acks=1)
        first = rows(follower.fetch(is_named=False))[0].records
        assert bytes(first or b"") == bytes(rows(follower.fetch(is_named=False))[0].records or b"") != b""

    played(tmp_path, scene)


def test_another_epoch_goes_the_long_way_and_ends_what_waits(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        assert follower.fetch(epoch=4) is None
        assert isinstance(follower.fetch(), FollowerFetch)
        world.led.follow(2, 6)
        await turns()
        (answer,) = world.answers
        assert rows(decoded(answer)) == []
        assert follower.fetch(is_named=False) is None
        (row,) = rows(world.fetch(0, replica=2, epoch=EPOCH))
        assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH

    played(tmp_path, scene)


@pytest.mark.parametrize("change", ["isr", "offset", "history", "error", "offline"])
def test_what_is_out_of_the_ordinary_changes_nothing(tmp_path: Path, change: str) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        world.produce(acks=1)
        follower.end_offset = 3
        if change == "isr":
            world.leader.isr = (1, 3)
        elif change == "offset":
            follower.end_offset = 9
        elif change == "history":
            world.led.log.begin_epoch(6)
            world.led.log.begin_epoch(7)
            world.led.log.epochs.latest = 8
        elif change == "error":
            next(iter(follower.session.partitions.values())).sent_error = True
        else:
            world.led.log.is_offline = True
        body = follower.body() if change != "history" else follower.body().replace(b"\0\0\0\x08", b"\0\0\0\x07", 1)
        assert fetch_frame(memoryview(body), 0, VERSION, 7, world.frame_rooms) is None
        assert world.leader.replicas[2].end_offset == 0
        assert follower.session.epoch == 1

    played(tmp_path, scene)


def test_a_fetch_of_a_connection_that_is_gone_is_not_answered(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        waiting = follower.fetch()
        waiting.cancel()
        assert follower.session.parked_follower_fetch is None
        world.produce(acks=1)
        await turns()
        assert not world.answers and world.metrics.fetches_waiting == 0

    played(tmp_path, scene)


def test_a_second_fetch_ends_the_first(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        follower.fetch()
        second = follower.fetch()
        await turns()
        assert len(world.answers) == 1 and follower.session.parked_follower_fetch is second

    played(tmp_path, scene)


def test_no_more_than_the_follower_takes_is_sent_but_one_batch(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        world.produce(acks=1)
        size = world.led.log.size
        world.produce(acks=1)
        assert len(rows(follower.fetch(max_bytes=1))[0].records or b"") == size
        assert len(rows(follower.fetch(max_bytes=size + 5))[0].records or b"") == size + 5
        assert len(rows(follower.fetch())[0].records or b"") == 2 * size

    played(tmp_path, scene)


@pytest.mark.parametrize(
    ("batches", "count", "expected"),
    [(1, 1_000, [True]), (1, 10_000, [True, True, True]), (8, 10_000, [True, False, True])],
    ids=["small ones leave together", "a log's last bytes are copied", "what lies further back leaves as a file"],
)
def test_how_pieces_leave(tmp_path: Path, batches: int, count: int, expected: list[bool]) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        for _ in range(batches):
            world.produce(acks=1, count=count)
        follower.session.answered_at = -1.0
        parts = fetch_frame(memoryview(follower.body()), 0, VERSION, 7, world.frame_rooms)
        assert isinstance(parts, list)
        assert [isinstance(part, bytes) for part in parts] == expected
        (row,) = rows(decoded(parts))
        assert (row.records or b"")[:8] == bytes(8)

    played(tmp_path, scene)


def test_bytes_that_are_cut_or_wrong_are_refused_or_taken_for_what_they_say(tmp_path: Path) -> None:
    async def scene(world: FollowedWorld) -> None:
        follower = Follower(world, 2)
        body = follower.body(wait_ms=0)
        for size in range(len(body)):
            assert fetch_frame(memoryview(body[:size]), 0, VERSION, 7, world.frame_rooms) is None
        rng = Random(1)
        for _ in range(2000):
            wrong = bytearray(follower.body(wait_ms=0))
            wrong[rng.randrange(len(wrong))] = rng.randrange(256)
            answer = fetch_frame(memoryview(bytes(wrong)), 0, VERSION, 7, world.frame_rooms)
            if isinstance(answer, FollowerFetch):
                answer.cancel()
            follower.epoch = follower.session.epoch

    played(tmp_path, scene)
