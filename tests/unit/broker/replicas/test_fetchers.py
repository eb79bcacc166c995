"""Followers at work: requests to leaders, connections by name, and logs that are cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.peers.peers import Peers
from ottla.broker.replicas.fetchers import Fetchers
from ottla.broker.replicas.partitions import Partition
from ottla.broker.replicas.throttles import ReplicationThrottles
from ottla.cluster import BrokerImage, Endpoint
from ottla.config import TopicConfig
from ottla.net import EncodedRequest, NoAnswer
from ottla.records import Record, build
from ottla.storage import Log
from ottla.wire import decode, frames
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.unit.broker.rooms import CLOCK, AskedController, Ground

ID = b"t" * 16
FETCH_KEY = 1
SESSION_ID = 17


class FakePeer:
    """A connection to a leader that the test answers for."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.requests: list[FetchRequest] = []
        self.is_closed = False
        self._asked: EncodedRequest | None = None
        self._on_answer: Callable[[Any], None] | None = None

    def send(self, request: EncodedRequest, on_answer: Callable[[Any], None], *, timeout_ms: int) -> None:
        self.requests.append(decode(FetchRequest, request.version, request.body))
        self._asked, self._on_answer = request, on_answer

    def named(self) -> list[int]:
        """The partitions that the last request names."""
        return [row.partition for topic in self.requests[-1].topics for row in topic.partitions]

    def forgotten(self) -> list[int]:
        return [index for topic in self.requests[-1].forgotten_topics_data for index in topic.partitions]

    def answer(self, *rows: PartitionData) -> None:
        response = FetchResponse(
            session_id=SESSION_ID, responses=[FetchableTopicResponse(topic_id=ID, partitions=list(rows))]
        )
        assert self._asked is not None and self._on_answer is not None
        parts = frames.encode_response(FETCH_KEY, self._asked.version, 1, response)
        if not self._asked.on_frame(memoryview(b"".join(bytes(part) for part in parts)[4:])):
            self._on_answer(response)

    def break_off(self, *, is_closed: bool = True) -> None:
        assert self._on_answer is not None
        self._on_answer(NoAnswer(is_closed))

    def close(self) -> None:
        self.is_closed = True


class FakePeers(Peers):
    """Leaders by name; `addresses` is what the name server knows."""

    def __init__(self) -> None:
        sockets: Any = SimpleNamespace(is_name=lambda host: not host[0].isdigit(), look_up=self._look_it_up)
        nothing: Any = None
        super().__init__(asyncio.get_running_loop(), sockets, nothing, client_id="1")
        self.opened: list[FakePeer] = []
        self.addresses: dict[str, str] = {}
        self.asked: list[tuple[ListOffsetsRequest, Callable[[Any], None]]] = []

    async def _look_it_up(self, host: str) -> str:
        if host not in self.addresses:
            raise OSError("name not found")
        return self.addresses[host]

    def _new_peer(self, host: str, port: int, name: str, security: Any) -> Any:
        self.opened.append(FakePeer(host, port))
        return self.opened[-1]

    def send(self, host: str, port: int, request: Any, on_answer: Any, timeout_ms: int, **_: Any) -> None:
        self.asked.append((request, on_answer))


class World:
    """Node 1, which follows partitions of topic t; brokers 2 and 3 lead."""

    def __init__(self, path: Path, host: str = "10.0.0.2") -> None:
        self.ground = Ground(path)
        for id, name in ((2, host), (3, "10.0.0.3")):
            endpoint = Endpoint("PLAINTEXT", name, 9092, 0)
            self.ground.image.brokers[id] = BrokerImage(id, id * 10, bytes(16), endpoints={"PLAINTEXT": endpoint})
        self.peers = FakePeers()
        self.broken: list[int] = []
        self.checkpoint_count = 0
        presence: Any = SimpleNamespace(connection_broke=self.broken.append)
        logs: Any = SimpleNamespace(checkpoint=self._checkpoint)
        throttles = ReplicationThrottles(self.ground.config)
        self.fetchers = Fetchers(self.ground, self.peers, presence, logs, throttles, AskedController())
        self.fetchers.start()
        self.path = path

    def _checkpoint(self) -> None:
        self.checkpoint_count += 1

    def partition(self, index: int = 0, record_count: int = 4, *, leader_id: int = 2) -> Partition:
        log = Log.create(
            self.ground.disk, f"{self.path}/t-{index}", "t", index, TopicConfig(), topic_id=ID, timestamp=CLOCK
        )
        if record_count:
            log.append_as_follower(sent(0, record_count))
        partition = Partition("t", ID, index, log, 0)
        self.follow(partition, leader_id)
        return partition

    def follow(self, partition: Partition, leader_id: int, leader_epoch: int = 7) -> None:
        partition.follow(leader_id, leader_epoch)
        self.fetchers.follow(partition)

    @property
    def leader(self) -> FakePeer:
        """The newest connection."""
        return self.peers.opened[-1]

    async def turn(self) -> None:
        """Let everything happen that is due now."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def synced(self) -> None:
        """Until cuts are on disk."""
        await asyncio.gather(*self.fetchers._syncs.values())
        await self.turn()

    async def later(self, ms: int) -> None:
        """Timers ring: the ground's time stands still otherwise, the loop's does not."""
        self.ground.ms += ms
        await asyncio.sleep(ms / 1000)
        await self.turn()


def sent(base_offset: int, count: int = 1, epoch: int = 5) -> memoryview:
    records = [Record(base_offset + n, CLOCK, None, b"v") for n in range(count)]
    return memoryview(build(records, base_offset=base_offset, leader_epoch=epoch))


def row(index: int = 0, records: memoryview | bytes | bytearray = b"", **fields: Any) -> PartitionData:
    given = {"high_watermark": 0, "log_start_offset": 0, "last_stable_offset": -1, "aborted_transactions": None}
    return PartitionData(partition_index=index, records=memoryview(records), **{**given, **fields})


def diverging(index: int, epoch: int, end_offset: int) -> PartitionData:
    return row(index, diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset))


class SlowSync:
    """Syncs of cuts that end when the test says so, or fail first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_end = asyncio.Event()
        self.failure_count = 0
        sync_end = Log.sync_end

        async def sync(log: Log) -> None:
            await self.may_end.wait()
            if self.failure_count:
                self.failure_count -= 1
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The disk is full")
            await sync_end(log)

        monkeypatch.setattr(Log, "sync_end", sync)

    async def end(self, world: World) -> None:
        self.may_end.set()
        await world.synced()


def test_records_are_copied_and_the_next_request_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        partition = world.partition()
        world.partition(1)
        await world.turn()
        assert world.leader.named() == [0, 1]
        world.leader.answer(row(0, sent(4), high_watermark=5))
        assert (partition.log.log_end_offset, partition.log.high_watermark) == (5, 5)
        assert world.leader.named() == [0]
        (asked,) = world.leader.requests[-1].topics[0].partitions
        assert (asked.fetch_offset, asked.current_leader_epoch, asked.last_fetched_epoch) == (5, 7, 5)
        assert (world.leader.requests[-1].session_id, world.leader.requests[-1].session_epoch) == (SESSION_ID, 1)

    asyncio.run(scenario())


def test_a_leader_is_reached_by_name_without_a_lookup_in_the_loop(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, host="broker-2")
        world.peers.addresses["broker-2"] = "10.0.0.9"
        world.partition()
        await world.turn()
        assert [peer.host for peer in world.peers.opened] == ["10.0.0.9"]
        world.leader.answer()
        assert len(world.leader.requests) == 2, "on the same connection"

    asyncio.run(scenario())


def test_the_name_of_a_leader_is_looked_up_again_after_its_connection_broke(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, host="broker-2")
        world.peers.addresses["broker-2"] = "10.0.0.9"
        world.partition()
        await world.turn()
        old = world.leader
        world.peers.addresses["broker-2"] = "10.0.0.10"
        old.break_off()
        assert old.is_closed and world.broken == [2]
        await world.later(15)
        assert world.leader.host == "10.0.0.10"
        assert (world.leader.named(), world.leader.requests[-1].session_epoch) == ([0], 0)

    asyncio.run(scenario())


def test_a_leader_whose_name_is_not_found_is_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, host="broker-2")
        world.partition()
        await world.turn()
        assert world.peers.opened == [] and world.broken == []
        world.peers.addresses["broker-2"] = "10.0.0.9"
        await world.later(15)
        assert world.leader.host == "10.0.0.9"

    asyncio.run(scenario())


def test_a_connection_that_is_opened_after_the_fetcher_was_closed_is_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, host="broker-2")
        world.peers.addresses["broker-2"] = "10.0.0.9"
        partition = world.partition()
        await asyncio.sleep(0)
        world.fetchers.forget(partition)
        await world.turn()
        assert all(peer.is_closed and not peer.requests for peer in world.peers.opened)

    asyncio.run(scenario())


def test_a_log_that_is_cut_is_asked_for_again_when_the_cut_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        sync = SlowSync(monkeypatch)
        world = World(tmp_path)
        partition = world.partition()
        world.partition(1)
        await world.turn()
        world.leader.answer(diverging(0, 5, 2))
        assert partition.log.log_end_offset == 2 and partition.log.is_cut
        assert world.leader.forgotten() == [0]
        world.leader.answer(row(1))
        assert world.leader.named() == []
        world.leader.break_off()
        await world.later(15)
        assert world.leader.named() == [1], "nor when everything is named anew"
        await sync.end(world)
        world.leader.answer(row(1))
        assert world.leader.named() == [0]

    asyncio.run(scenario())


def test_a_cut_is_synced_before_anything_is_copied_from_the_next_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        sync = SlowSync(monkeypatch)
        world = World(tmp_path)
        partition = world.partition()
        await world.turn()
        world.leader.answer(diverging(0, 5, 2))
        world.follow(partition, 3, 8)
        await world.turn()
        assert len(world.peers.opened) == 1, "nothing is asked for"
        await sync.end(world)
        await world.later(2)
        assert (world.leader.host, world.leader.named()) == ("10.0.0.3", [0])

    asyncio.run(scenario())


def test_a_new_leader_appends_when_its_cut_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if the disk was full at first and the partition's role changed meanwhile: nothing else would sync it."""

    async def scenario() -> None:
        sync = SlowSync(monkeypatch)
        sync.failure_count = 1
        world = World(tmp_path)
        partition = world.partition()
        await world.turn()
        world.leader.answer(diverging(0, 5, 2))
        world.fetchers.forget(partition)
        partition.log.begin_epoch(8)
        partition.lead(None, 8, 1)
        batch = bytes(build([Record(0, CLOCK, None, b"new")]))
        with pytest.raises(KafkaError) as refused:
            partition.append(memoryview(bytearray(batch)), CLOCK, 0)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.log.log_end_offset == 2
        monkeypatch.setattr(asyncio, "sleep", _sleep_shortly(asyncio.sleep))
        await sync.end(world)
        assert partition.append(memoryview(bytearray(batch)), CLOCK, 0).base_offset == 2

    asyncio.run(scenario())
    assert "a truncation of t-0 cannot be flushed" in caplog.text


def _sleep_shortly(sleep: Any) -> Any:
    return lambda seconds: sleep(min(seconds, 0.001))


def test_a_log_that_was_cut_below_its_recovery_point_has_a_checkpoint_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        partitions = [world.partition(index) for index in range(3)]
        for partition in partitions[:2]:
            await partition.log.flush()
        await world.turn()
        world.leader.answer(*(diverging(index, 5, 2) for index in range(3)))
        await world.synced()
        assert not any(partition.log.is_cut for partition in partitions)
        assert world.checkpoint_count == 1, "one for both"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 2, (0, 2)), (9, 12, (9, 9)), (3, 12, (3, 4))],
    ids=["it ends earlier", "it starts later", "it has what is next"],
)
def test_a_log_that_ends_outside_of_its_leaders_is_brought_in_line(
    tmp_path: Path, start: int, end: int, expected: tuple[int, int]
) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        partition = world.partition()
        await world.turn()
        world.leader.answer(row(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE)))
        for offset in (start, end):
            await world.turn()
            request, on_answer = world.peers.asked[-1]
            assert request.topics[0].partitions[0].current_leader_epoch == 7
            found = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
            on_answer(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])]))
        await world.turn()
        await world.synced()
        await world.later(2)
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == expected
        assert world.leader.named() == [0]
        assert world.leader.requests[-1].topics[0].partitions[0].fetch_offset == expected[1]

    asyncio.run(scenario())


def test_records_that_cannot_be_copied_are_asked_for_again_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        partition = world.partition()
        world.partition(1)
        await world.turn()
        corrupt = bytearray(sent(4))
        corrupt[-1] ^= 1
        world.leader.answer(row(0, corrupt))
        assert partition.log.log_end_offset == 4
        assert world.leader.forgotten() == [0] and world.leader.requests[-1].max_wait_ms <= 10
        await world.later(11)
        world.leader.answer()
        assert world.leader.named() == [0]

    asyncio.run(scenario())
    assert "t-0 cannot be copied from broker 2" in caplog.text


def test_nothing_is_asked_for_after_a_stop(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        partition = world.partition()
        await world.turn()
        peer = world.leader
        world.fetchers.close()
        assert peer.is_closed
        peer.answer(row(0, sent(4)))
        assert partition.log.log_end_offset == 4 and len(peer.requests) == 1

    asyncio.run(scenario())
