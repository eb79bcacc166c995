"""The runtime of coordinators on logs in a temporary folder, with a machine that is no more than a dict."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.coordinators.hosted_shard import RECORDS_PER_PIECE, HostedShard, coordinator_error
from ottla.broker.coordinators.runtime import RETRY_LOAD_MS, Coordinator, java_hash, partition_for
from ottla.broker.replicas.partitions import Partition
from ottla.cluster import ImageChanges, PartitionImage
from ottla.config import TopicConfig
from ottla.machine import Answer, Call, CoordinatorDecision
from ottla.records import Record, build, read, read_header, split
from ottla.replication.leader import Leader
from ottla.storage import Log
from ottla.wire import WireError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreatableTopic
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse
from tests.unit.broker.rooms import CLOCK, AskedController, Ground, add_topic, make_replicas

TOPIC = "__tested"
ID = b"i" * 16
SMALLEST = 50
"""Bytes of a name that make a record larger than half of max.message.bytes, where a test lowers that."""


class Counting:
    """Counts names. The count of a name is what its records say."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.pending: dict[int, list[tuple[str, int]]] = {}
        self.waiting: list[asyncio.Future[Any]] = []
        self.loaded_at: int | None = None
        self.due: list[tuple[int, str]] = []

    def replay(self, record: Any, producer_id: int = -1) -> None:
        if producer_id >= 0:
            self.pending.setdefault(producer_id, []).append(record)
        else:
            self.counts[record[0]] = record[1]

    def loaded(self, now: int, timestamp: int) -> None:
        self.loaded_at = now

    def deadline(self) -> int | None:
        return min(self.due)[0] if self.due else None

    def next_due(self, now: int, timestamp: int) -> CoordinatorDecision[Any] | None:
        if not self.due or min(self.due)[0] > now:
            return None
        first = min(self.due)
        self.due.remove(first)
        return self.add(first[1], Call(0, 0))

    def unload(self, call: Any) -> list[Any]:
        return [(waiter, HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)) for waiter in self.waiting]

    def add(self, name: str, call: Any) -> CoordinatorDecision[Any]:
        return CoordinatorDecision([(name, self.counts.get(name, 0) + 1)], self.counts.get(name, 0) + 1)

    def add_three(self, name: str, call: Any) -> CoordinatorDecision[Any]:
        count = self.counts.get(name, 0)
        return CoordinatorDecision([(name, count + 1), (name, count + 2), (name, count + 3)], count + 3)

    def get(self, name: str, call: Any) -> CoordinatorDecision[Any]:
        return CoordinatorDecision([], self.counts.get(name, 0))

    def wait(self, name: str, call: Call) -> CoordinatorDecision[Any]:
        assert call.waiter is not None
        self.waiting.append(call.waiter)
        return CoordinatorDecision([], None)

    def wake(self, name: str, call: Any) -> CoordinatorDecision[Any]:
        """Write a record that answers the waiting request."""
        answers = [Answer(waiter, JoinGroupResponse(member_id="m", generation_id=4)) for waiter in self.waiting]
        self.waiting = []
        return CoordinatorDecision([(name, 1)], "woken", answers=answers)

    def refusing(self, name: str, call: Any) -> CoordinatorDecision[Any]:
        return CoordinatorDecision(
            [(name, 1)], "done", refused=lambda error, _: CoordinatorDecision([], f"refused: {error.code.name}")
        )

    def broken(self, name: str, call: Any) -> CoordinatorDecision[Any]:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)


class Counts(Coordinator[Counting]):
    topic = TOPIC

    def new_machine(self, index: int) -> Counting:
        return Counting()

    def encode(self, record: tuple[str, int]) -> tuple[bytes, bytes | None]:
        return record[0].encode(), struct.pack(">i", record[1])

    def decode(self, key: bytes, value: bytes | None) -> Any:
        if key == b"later":
            return None
        if value is None or len(value) != 4:
            raise WireError("no count")
        return key.decode(), struct.unpack(">i", value)[0]

    def complete_transaction(self, machine: Counting, producer_id: int, is_commit: bool) -> None:
        records = machine.pending.pop(producer_id, [])
        for record in records if is_commit else ():
            machine.replay(record)

    def own_call(self, now: int, timestamp: int) -> Any:
        return Call(0, 0)

    def creatable_topic(self) -> CreatableTopic:
        return CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=1)

    @property
    def configured_partition_count(self) -> int:
        return 3


class World:
    """A coordinator of counts, and the partitions of its topic."""

    def __init__(self, path: Path, partition_count: int = 1, **settings: Any) -> None:
        self.ground = Ground(path)
        self.image = self.ground.image
        self.bugs = self.ground.bugs
        self.replicas = make_replicas(self.ground)
        add_topic(self.replicas, TOPIC, ID, partition_count, TopicConfig(**settings), leader_epoch=3)
        self.controller = AskedController()
        self.counts = Counts(self.ground, self.replicas, self.controller)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def partition(self, topic: str, index: int) -> Partition:
        return self.replicas.partition(topic, index)

    def log(self, index: int = 0) -> Log:
        return self.partition(TOPIC, index).log

    def batches(self, index: int = 0) -> list[list[tuple[bytes | None, bytes | None]]]:
        """What is in a partition's log: keys and values, by batch."""
        log = self.log(index)
        if log.log_end_offset == log.log_start_offset:
            return []
        found = log.read(log.log_start_offset, max_bytes=1 << 30, end_offset=log.log_end_offset)
        assert found is not None
        data = found.read()
        return [
            [(record.key, record.value) for record in read(data[position : position + header.size])]
            for position, header in split(data)
        ]

    def run(
        self, command: Callable[[Counting, str, Any], Any], name: str, call: Call | None = None, **more: Any
    ) -> Any:
        return self.counts.run(name, command, name, call or Call(0, 0), _refuse, **more)

    async def loaded(self) -> HostedShard[Counting]:
        await until(lambda: not self.counts.is_loading)
        return self.counts.shard(0)


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop turn until something is so. A sync of a file may take seconds: later turns leave the disk time."""
    for turn in range(40_000):
        if is_so():
            return
        await asyncio.sleep(0 if turn < 10_000 else 0.001)
    raise AssertionError("it never was")


def _led_by(leader: int, leader_epoch: int = 3) -> PartitionImage:
    return PartitionImage(
        replicas=(1,),
        isr=(1,),
        removing=(),
        adding=(),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=0,
        directories=(bytes(16),),
        leader_recovery_state=0,
        elr=(),
        last_known_elr=(),
    )


def _refuse(request: Any, error: KafkaError) -> str:
    return f"error: {error.code.name}"


def started(path: Path, **settings: Any) -> World:
    world = World(path, **settings)
    world.counts.start()
    return world


@pytest.mark.parametrize(
    ("text", "hashed"), [("", 0), ("a", 97), ("hello", 99_162_322), ("polygenelubricants", -(2**31))]
)
def test_java_hash_is_that_of_a_string_in_java(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed


def test_letters_beyond_the_basic_plane_count_as_two() -> None:
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00


def test_the_least_hash_of_all_goes_to_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("a", 50) == 47


def test_trouble_with_the_partition_is_told_in_codes_that_group_clients_know() -> None:
    assert coordinator_error(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)).code == ErrorCode.NOT_COORDINATOR
    assert coordinator_error(KafkaError(ErrorCode.REQUEST_TIMED_OUT)).code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator_error(KafkaError(ErrorCode.MESSAGE_TOO_LARGE)).code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator_error(KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)).code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_decision_of_a_turn_is_written_and_answered_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        assert world.run(Counting.add, "x") == 1
        assert world.batches() == [[(b"x", b"\0\0\0\1")]]

    asyncio.run(scenario())


def test_a_reply_leaves_when_its_records_are_in_the_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        world.run(Counting.add, "first")
        reply = world.run(Counting.add, "x")
        assert isinstance(reply, asyncio.Future) and not reply.done()
        assert len(world.batches()) == 1
        assert await reply == 1
        assert world.batches()[1:] == [[(b"x", b"\0\0\0\1")]]

    asyncio.run(scenario())


def test_what_else_is_decided_in_a_turn_becomes_one_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        assert world.run(Counting.add, "x") == 1
        replies = [world.run(Counting.add, name) for name in ("x", "y", "x")]
        assert await asyncio.gather(*replies) == [2, 1, 3]
        assert [len(batch) for batch in world.batches()] == [1, 3]
        assert world.run(Counting.add, "x") == 4, "a new turn"

    asyncio.run(scenario())


def test_a_decision_is_never_cut_over_two_batches(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path, max_message_bytes=61 + 300)
        replies = [world.run(Counting.add_three, name) for name in ("w", "x", "y", "z")]
        assert await asyncio.gather(*replies[1:]) == [3, 3, 3]
        assert [len(batch) for batch in world.batches()] == [3, 6, 3]

    asyncio.run(scenario())


def test_a_reply_without_records_waits_for_those_it_may_rest_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        assert world.run(Counting.get, "x") == 0
        world.run(Counting.add, "x")
        assert world.run(Counting.get, "x") == 1, "what it rests on is in the log"
        world.run(Counting.add, "x")
        reply = world.run(Counting.get, "x")
        assert isinstance(reply, asyncio.Future)
        assert await reply == 2
        assert world.run(Counting.get, "x") == 2

    asyncio.run(scenario())


def test_a_decision_too_large_for_a_batch_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path, max_message_bytes=100)
        name = "n" * SMALLEST
        assert world.run(Counting.add, name) == "error: UNKNOWN_SERVER_ERROR"
        assert world.run(Counting.get, name) == 0
        assert world.run(Counting.refusing, name) == "refused: UNKNOWN_SERVER_ERROR"

    asyncio.run(scenario())


def test_an_error_of_a_command_is_the_callers(tmp_path: Path) -> None:
    async def scenario() -> None:
        assert started(tmp_path).run(Counting.broken, "x") == "error: NOT_COORDINATOR"

    asyncio.run(scenario())


def test_a_response_may_be_made_of_the_reply(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        finish = lambda request, reply: f"{request}={reply}"  # noqa: E731
        assert world.run(Counting.get, "x", finish=finish) == "x=0"
        assert world.run(Counting.add, "x", finish=finish) == "x=1"
        assert await world.run(Counting.add, "x", finish=finish) == "x=2"

    asyncio.run(scenario())


def test_a_first_decision_that_cannot_be_written_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        waiter: asyncio.Future[Any] = world.loop.create_future()
        world.run(Counting.wait, "w", Call(0, 0, waiter=waiter))
        with monkeypatch.context() as patched:
            patched.setattr(Log, "append", _disk_full)
            assert world.run(Counting.add, "x") == "error: NOT_COORDINATOR"
            assert world.run(Counting.refusing, "x") == "refused: NOT_COORDINATOR"
        assert world.run(Counting.add, "x") == 1
        assert not waiter.done(), "other waiters are not disturbed"

    asyncio.run(scenario())


def test_a_failed_append_refuses_all_waiters_and_reloads_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        waiter: asyncio.Future[Any] = world.loop.create_future()
        assert world.run(Counting.wait, "w", Call(0, 0, waiter=waiter)) is waiter
        assert world.run(Counting.add, "x") == 1
        with monkeypatch.context() as patched:
            patched.setattr(Log, "append", _disk_full)
            added, read_after = world.run(Counting.add, "x"), world.run(Counting.get, "x")
            assert await added == "error: NOT_COORDINATOR"
            assert await read_after == "error: NOT_COORDINATOR"
        assert (await waiter).error_code == ErrorCode.NOT_COORDINATOR
        assert world.run(Counting.get, "x") == "error: COORDINATOR_LOAD_IN_PROGRESS"
        await asyncio.sleep(0)
        await world.loaded()
        assert world.run(Counting.get, "x") == 1
        assert world.run(Counting.add, "x") == 2

    asyncio.run(scenario())


def test_a_failed_decision_refuses_the_waiters_that_it_would_have_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        waiter: asyncio.Future[Any] = world.loop.create_future()
        world.run(Counting.wait, "w", Call(0, 0, waiter=waiter))
        world.run(Counting.add, "first")
        with monkeypatch.context() as patched:
            patched.setattr(Log, "append", _disk_full)
            world.run(Counting.wake, "w")
            response = await waiter
        assert (response.error_code, response.member_id, response.generation_id) == (16, "m", -1)

    asyncio.run(scenario())


def test_a_waiter_whose_connection_closed_does_not_disturb_other_waiters(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        gone, there = world.loop.create_future(), world.loop.create_future()
        world.run(Counting.wait, "w", Call(0, 0, waiter=gone))
        world.run(Counting.wait, "w", Call(0, 0, waiter=there))
        gone.cancel()
        assert world.run(Counting.wake, "w") == "woken"
        assert (await there).generation_id == 4

    asyncio.run(scenario())


def test_the_log_is_replayed_in_pieces(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = started(tmp_path)
        for _ in range(RECORDS_PER_PIECE + 1):
            first.run(Counting.add, "x")
            await asyncio.sleep(0)
        second = World(tmp_path / "never")
        second.replicas.partitions = first.replicas.partitions
        second.counts.start()
        assert second.run(Counting.get, "x") == "error: COORDINATOR_LOAD_IN_PROGRESS"
        await asyncio.sleep(0)
        assert second.counts.is_loading, "requests get their turn before the whole log is read"
        await second.loaded()
        assert second.run(Counting.get, "x") == RECORDS_PER_PIECE + 1
        assert second.counts.load_count == 1

    asyncio.run(scenario())


def _with_a_follower(world: World) -> Leader:
    """Node 2 has to have what node 1, which leads anew, finds in its log."""
    partition = world.partition(TOPIC, 0)
    image = _led_by(1, leader_epoch=5)._replace(replicas=(1, 2), isr=(1, 2), directories=(bytes(16),) * 2)
    end_offset = partition.log.log_end_offset
    leader = Leader(1, image, start_offset=end_offset, brokers={}, max_lag_ms=30_000, now=0)
    partition.log.begin_epoch(5)
    partition.lead(leader, 5, 1)
    world.image.topics_by_id[ID].partitions[0] = image
    return leader


def _with_an_uncommitted_record(path: Path) -> tuple[World, Leader]:
    """A shard about to be loaded by a leader that found one record more in its log than was ever committed."""
    first = started(path)
    assert first.run(Counting.add, "x") == 1
    leader = _with_a_follower(first)
    first.partition(TOPIC, 0).append(memoryview(build([Record(0, CLOCK, b"x", struct.pack(">i", 7))])), CLOCK, 0)
    second = World(path / "never")
    second.replicas.partitions = first.replicas.partitions
    second.image = second.ground.image = first.image
    second.counts.start()
    return second, leader


def test_no_request_is_answered_from_records_that_are_not_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, leader = _with_an_uncommitted_record(tmp_path)
        await until(lambda: world.counts.load_count == 1)
        await asyncio.sleep(0)
        assert world.run(Counting.get, "x") == "error: COORDINATOR_LOAD_IN_PROGRESS"
        partition = world.partition(TOPIC, 0)
        leader.fetched(
            2, partition.log.log_end_offset, partition.log.log_end_offset, 0, broker_epoch=-1, start_offset=0
        )
        partition.advance(0)
        await world.loaded()
        assert world.run(Counting.get, "x") == 7

    asyncio.run(scenario())


def test_a_shard_takes_no_commands_before_a_cut_of_its_log_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first record would be refused, and the shard loaded anew."""

    async def scenario() -> None:
        world = started(tmp_path)
        assert world.run(Counting.add, "x") == 1
        world.counts.stop()
        partition = world.partition(TOPIC, 0)
        may_end = asyncio.Event()
        sync_end = Log.sync_end

        async def sync(log: Log) -> None:
            await may_end.wait()
            await sync_end(log)

        monkeypatch.setattr(Log, "sync_end", sync)
        partition.log.cut(partition.log.log_end_offset, timestamp=CLOCK)
        world.replicas.fetchers.sync_cut(partition)
        world.counts.start()
        await until(lambda: world.counts.load_count == 1)
        await asyncio.sleep(0)
        assert world.run(Counting.add, "x") == "error: COORDINATOR_LOAD_IN_PROGRESS"
        may_end.set()
        await world.loaded()
        assert world.run(Counting.add, "x") == 2

    asyncio.run(scenario())


def test_a_shard_whose_leader_goes_before_its_log_is_committed_is_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, _ = _with_an_uncommitted_record(tmp_path)
        await until(lambda: world.counts.load_count == 1)
        before = world.image.topics_by_id[ID].partitions[0]
        world.image.topics_by_id[ID].partitions[0] = before._replace(leader=2, leader_epoch=6)
        world.partition(TOPIC, 0).follow(2, 6)
        world.counts.metadata_changed(ImageChanges(partitions_changed={(ID, 0): before}))
        await asyncio.gather(*world.ground.tasks)
        assert not world.counts.shards
        assert world.run(Counting.get, "x") == "error: NOT_COORDINATOR"

    asyncio.run(scenario())


def test_a_damaged_record_and_one_of_a_later_release_are_passed_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        records = [
            Record(0, CLOCK, key, value) for key, value in ((b"a", b"short"), (b"later", b""), (b"x", b"\0\0\0\5"))
        ]
        world.partition(TOPIC, 0).append(memoryview(build(records)), CLOCK, 0)
        world.counts.start()
        await world.loaded()
        assert world.run(Counting.get, "x") == 5

    asyncio.run(scenario())


def test_a_log_that_cannot_be_read_leaves_no_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        world.partition(TOPIC, 0).append(memoryview(build([Record(0, CLOCK, b"x", b"\0\0\0\5")])), CLOCK, 0)
        monkeypatch.setattr(Log, "read", _disk_full)
        world.counts.start()
        await until(lambda: not world.counts.shards)
        assert world.run(Counting.get, "x") == "error: NOT_COORDINATOR"
        assert not world.counts.shards, "it is not tried again and again"
        monkeypatch.undo()
        world.ground.ms += RETRY_LOAD_MS
        assert world.run(Counting.get, "x") == "error: COORDINATOR_LOAD_IN_PROGRESS"
        await world.loaded()
        assert world.run(Counting.get, "x") == 5

    asyncio.run(scenario())


def test_a_log_that_cannot_be_read_hinders_no_other_shard_when_leaders_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata goes on being applied, too: what `metadata_changed` raises would end that."""

    async def scenario() -> None:
        world = World(tmp_path, partition_count=2)
        world.partition(TOPIC, 0).append(memoryview(build([Record(0, CLOCK, b"x", b"\0\0\0\5")])), CLOCK, 0)
        monkeypatch.setattr(Log, "read", _disk_full)
        world.counts.start()
        await until(lambda: not world.counts.shards)
        monkeypatch.undo()
        world.partition(TOPIC, 1).append(memoryview(build([Record(0, CLOCK, b"x", b"\0\0\0\5")])), CLOCK, 0)
        partitions = world.image.topics_by_name[TOPIC].partitions
        changes = ImageChanges(partitions_changed={(ID, index): partitions[index] for index in range(2)})
        for index in range(2):
            partitions[index] = _led_by(1, leader_epoch=4)
        world.counts.metadata_changed(changes)
        assert list(world.counts.shards) == [1]
        world.ground.ms += RETRY_LOAD_MS
        assert world.counts.shard(0).machine is None
        await world.loaded()

    asyncio.run(scenario())


def test_a_mistake_in_a_machine_costs_no_other_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        world = World(tmp_path, partition_count=2)
        for index, name in enumerate((b"bad", b"good")):
            world.partition(TOPIC, index).append(memoryview(build([Record(0, CLOCK, name, b"\0\0\0\5")])), CLOCK, 0)
        world.counts.start()
        await until(lambda: not world.counts.is_loading)
        assert list(world.counts.shards) == [1]
        assert len(world.bugs) == 1

    monkeypatch.setattr(Counting, "replay", _stumble)
    asyncio.run(scenario())


def test_half_of_a_decision_is_worse_than_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        world.run(Counting.add, "x")
        with monkeypatch.context() as patched:
            patched.setattr(Counting, "replay", _stumble)
            with pytest.raises(ZeroDivisionError):
                world.run(Counting.add, "bad")
        await asyncio.sleep(0)
        await world.loaded()
        assert (world.run(Counting.get, "x"), world.run(Counting.get, "bad")) == (1, 0)

    asyncio.run(scenario())


def test_a_shard_with_a_waiting_request_is_loaded_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, partition_count=4)
        for index in range(4):
            batch = build([Record(0, CLOCK, b"x", b"\0\0\0\5")] * RECORDS_PER_PIECE)
            world.partition(TOPIC, index).append(memoryview(batch), CLOCK, 0)
        world.counts.start()
        assert world.counts.shard(3).machine is None
        await until(lambda: world.counts.shard(3).machine is not None)
        assert world.counts.shards[1].machine is None

    asyncio.run(scenario())


def test_records_of_a_transaction_count_when_its_marker_is_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        assert world.run(Counting.add, "x", producer=(7, 0)) == 1
        assert world.run(Counting.get, "x") == 0
        shard = world.counts.shard(0)
        await shard.end_transaction(7, 0, is_commit=True, coordinator_epoch=1)
        assert world.run(Counting.get, "x") == 1
        world.run(Counting.add, "y", producer=(7, 0))
        await shard.end_transaction(7, 0, is_commit=False, coordinator_epoch=1)
        world.counts.stop()
        world.counts.start()
        await world.loaded()
        assert (world.run(Counting.get, "x"), world.run(Counting.get, "y")) == (1, 0)

    asyncio.run(scenario())


def test_records_of_a_transaction_have_a_batch_of_their_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        world.run(Counting.add, "a")
        replies = [
            world.run(Counting.add, "b", producer=(7, 0)),
            world.run(Counting.add, "c", producer=(7, 0)),
            world.run(Counting.add, "d"),
        ]
        await asyncio.gather(*replies)
        assert [len(batch) for batch in world.batches()] == [1, 2, 1]
        found = world.log().read(1, max_bytes=1 << 20)
        assert found is not None
        header = read_header(found.read())
        assert (header.producer_id, header.producer_epoch, header.is_transactional) == (7, 0, True)

    asyncio.run(scenario())


def test_with_flush_messages_a_reply_leaves_when_its_records_are_on_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path, flush_messages=1)
        added = world.run(Counting.add, "x")
        assert not added.done() and world.log().log_end_offset == 1
        read_after = world.run(Counting.get, "x")
        assert not read_after.done(), "it rests on a record that is not on disk yet"
        assert await added == 1 and await read_after == 1
        assert world.log().recovery_point == world.log().high_watermark == 1

    asyncio.run(scenario())


def test_deadlines_are_acted_upon_without_being_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        shard = world.counts.shard(0)
        assert shard.machine is not None
        world.ground.ms = int(world.loop.time() * 1000)
        shard.machine.due = [(world.ground.ms, "x"), (world.ground.ms, "y"), (world.ground.ms + 60_000, "z")]
        shard.rearm()
        await until(lambda: bool(world.batches()))
        assert shard.machine.counts == {"x": 1, "y": 1}
        world.counts.stop()

    asyncio.run(scenario())


def test_a_deleted_topic_takes_its_shards_along(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        waiter: asyncio.Future[Any] = world.loop.create_future()
        world.run(Counting.wait, "w", Call(0, 0, waiter=waiter))
        topic = world.image.topics_by_name.pop(TOPIC)
        world.counts.metadata_changed(ImageChanges(topics_deleted={ID: topic}))
        assert (await waiter).error_code == ErrorCode.NOT_COORDINATOR
        assert world.run(Counting.get, "x") == "error: NOT_COORDINATOR"
        assert world.counts.partition_count == 3, "what it would be created with"

    asyncio.run(scenario())


def test_a_partition_that_another_broker_leads_is_not_coordinated_here(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        assert world.run(Counting.add, "x") == 1
        world.image.topics_by_id[ID].partitions[0] = _led_by(2, leader_epoch=4)
        world.counts.metadata_changed(ImageChanges(partitions_changed={(ID, 0): _led_by(1)}))
        assert world.run(Counting.get, "x") == "error: NOT_COORDINATOR"
        world.image.topics_by_id[ID].partitions[0] = _led_by(1, leader_epoch=5)
        world.counts.metadata_changed(ImageChanges(partitions_changed={(ID, 0): _led_by(2, 4)}))
        assert world.run(Counting.get, "x") == "error: COORDINATOR_LOAD_IN_PROGRESS"
        await world.loaded()
        assert world.run(Counting.get, "x") == 1

    asyncio.run(scenario())


def test_an_offline_log_dir_takes_its_shards_along(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        assert world.run(Counting.add, "x") == 1
        world.log().is_offline = True
        world.counts.log_dir_failed()
        assert not world.counts.shards

    asyncio.run(scenario())


def test_a_stop_writes_what_was_decided(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path)
        world.run(Counting.add, "x")
        reply = world.run(Counting.add, "x")
        world.counts.stop()
        assert await reply == 2
        assert len(world.batches()) == 2
        assert world.run(Counting.get, "x") == "error: NOT_COORDINATOR"

    asyncio.run(scenario())


def test_more_partitions_do_not_move_what_is_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = started(tmp_path, partition_count=2)
        before = world.counts.partition_for("a")
        world.image.topics_by_id[ID].partitions[2] = _led_by(1)
        assert world.counts.partition_for("a") == before

    asyncio.run(scenario())


def _stumble(machine: Counting, record: tuple[str, int], producer_id: int = -1) -> None:
    if record[0] == "bad":
        raise ZeroDivisionError
    machine.counts[record[0]] = record[1]


def _disk_full(*_: Any, **__: Any) -> Any:
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The disk is full")
