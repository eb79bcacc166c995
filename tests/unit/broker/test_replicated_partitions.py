"""Produce and Fetch on a partition with three replicas, of which this node leads one and follows another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis.fetch import fetch
from ottla.broker.apis.list_offsets import list_offsets
from ottla.broker.apis.produce import produce
from ottla.broker.apis.produce_frame import produce_frame
from ottla.broker.caller import Caller
from ottla.broker.replicas.partitions import Partition
from ottla.broker.replicas.purgatory import DelayedProduceFrame
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.quotas import Quotas
from ottla.cluster import BrokerImage, ImageChanges, PartitionImage
from ottla.cluster.image import TOPIC_RESOURCE
from ottla.cluster.registration import Endpoint
from ottla.config import TopicConfig
from ottla.records import Record, build
from ottla.replication.leader import Leader
from ottla.storage import Log
from ottla.wire import decode, encode_bytes
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.unit.broker.rooms import CLIENT, Ground, NoMetadata, make_groups, make_replicas, make_transactions

ID = b"t" * 16
PRODUCE_VERSION = 13
RESPONSE_HEADER_SIZE = 9
"""Its size, the correlation id, no tagged fields."""
NOW = 1_700_000_000_000
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class World:
    """Node 1 with a topic of two partitions: 0 is led here, 1 by node 2."""

    client = CLIENT

    def __init__(self, path: Path, isr: tuple[int, ...] = (1, 2, 3), **settings: Any) -> None:
        self.is_by_frame = False
        self.waiting: list[DelayedProduceFrame] = []
        self.ground = Ground(
            path,
            fetch_max_bytes="1000000",
            max_incremental_fetch_session_cache_slots="10",
            broker_rack="a",
            replica_selector_class=RACK_AWARE,
        )
        self.image = self.ground.image
        for id in (1, 2, 3):
            endpoints = {"PLAINTEXT": Endpoint("PLAINTEXT", f"host{id}", 9092, 0)}
            self.image.brokers[id] = BrokerImage(id, id * 10, bytes(16), endpoints, rack="abc"[id - 1], is_fenced=False)
        self.replicas = make_replicas(self.ground)
        self.transactions = make_transactions(self.ground, self.replicas, make_groups(self.ground, self.replicas))
        self.quotas = Quotas()
        self.metrics = self.ground.metrics
        self.partitions, self.hosting = self.replicas.partitions, self.replicas.hosting
        self.fetch_sessions, self.replication_throttles = self.replicas.fetch_sessions, self.replicas.throttles
        for index in range(2):
            log = Log.create(
                self.ground.disk, f"{path}/t-{index}", "t", index, TopicConfig(**settings), topic_id=ID, timestamp=NOW
            )
            self.partitions.add(Partition("t", ID, index, log, 0))
        self.led, self.followed = self.partitions.by_name["t"].values()
        image = PartitionImage((1, 2, 3), isr, (), (), 1, 5, 0, (bytes(16),) * 3)
        self.led.log.begin_epoch(5)
        self.leader = Leader(1, image, start_offset=0, brokers=self.image.brokers, max_lag_ms=30_000, now=0)
        self.led.lead(self.leader, 5, 1)
        self.followed.follow(2, 7)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    @property
    def frame_rooms(self) -> tuple[Ground, Replicas, Quotas]:
        return self.ground, self.replicas, self.quotas

    def produce(self, index: int = 0, *, acks: int = -1, timeout_ms: int = 10_000, count: int = 3) -> Any:
        batch = memoryview(build([Record(0, NOW, None, b"v")] * count))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(topic_id=ID, partition_data=[PartitionProduceData(index=index, records=batch)])
            ],
        )
        if self.is_by_frame:
            frame = memoryview(bytearray(encode_bytes(request, PRODUCE_VERSION)))
            answer = produce_frame(frame, 0, PRODUCE_VERSION, 7, self.frame_rooms)
            if answer is not None:
                return self._from_frame(answer)
        caller = Caller("app", CLIENT, 0, PRODUCE_VERSION)
        return produce(request, self.ground, self.replicas, self.transactions, self.quotas, caller)

    def _from_frame(self, answer: bytes | DelayedProduceFrame) -> Any:
        """What the long way would have returned."""
        if isinstance(answer, bytes):
            return decode(ProduceResponse, PRODUCE_VERSION, answer, RESPONSE_HEADER_SIZE)
        future = self.loop.create_future()
        answer.on_answer = lambda response: future.set_result(
            decode(ProduceResponse, PRODUCE_VERSION, bytes(response), RESPONSE_HEADER_SIZE)
        )
        self.waiting.append(answer)
        return future

    def fetch(self, offset: int, index: int = 0, replica: int = -1, **settings: Any) -> Any:
        wanted = FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
            current_leader_epoch=settings.pop("epoch", -1),
            last_fetched_epoch=settings.pop("last_epoch", -1),
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=replica, replica_epoch=replica * 10) if replica >= 0 else None,
            min_bytes=1,
            topics=[FetchTopic(topic_id=ID, partitions=[wanted])],
            **settings,
        )
        caller = Caller("app", self.client, 1, 18)
        return fetch(request, self.ground, NoMetadata(), self.replicas, self.quotas, caller)

    def follow(self, offset: int, *replicas: int) -> None:
        for replica in replicas:
            self.fetch(offset, replica=replica, epoch=5)


def row(answer: Any) -> PartitionProduceResponse:
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


def fetched(answer: Any) -> PartitionData:
    found: PartitionData = answer.responses[0].partitions[0]
    return found


@pytest.fixture(params=["by the long way", "by frame"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    world = World(tmp_path, min_insync_replicas=2)
    world.is_by_frame = request.param == "by frame"
    return world


Scene = Callable[[World], Coroutine[Any, Any, None]]


def played(world: World, scene: Scene) -> None:
    asyncio.run(scene(world))


def test_acks_all_is_answered_when_every_in_sync_replica_has_it(world: World) -> None:
    async def scene(world: World) -> None:
        answer = world.produce()
        assert world.led.log.high_watermark == 0
        world.follow(3, 2)
        assert not answer.done()
        world.follow(3, 3)
        assert row(answer.result()).error_code == ErrorCode.NONE
        assert row(answer.result()).base_offset == 0
        assert world.led.log.high_watermark == 3

    played(world, scene)


def test_a_request_is_answered_when_all_its_partitions_are_committed(world: World) -> None:
    async def scene(world: World) -> None:
        first, second = world.produce(), world.produce()
        world.follow(3, 2, 3)
        assert first.done() and not second.done()
        world.follow(6, 3)
        assert not second.done()
        world.follow(6, 2)
        assert row(second.result()).base_offset == 3

    played(world, scene)


def test_an_isr_that_shrank_below_the_minimum_after_the_append_is_told(world: World) -> None:
    async def scene(world: World) -> None:
        answer = world.produce()
        world.leader.isr = (1,)
        world.led.log.config = TopicConfig(min_insync_replicas=1)
        world.led.log.advance_high_watermark(3)
        world.led.log.config = TopicConfig(min_insync_replicas=2)
        world.led._complete_commits()
        assert row(answer.result()).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert row(answer.result()).base_offset == -1
        assert row(answer.result()).log_start_offset == -1

    played(world, scene)


def test_a_producer_that_left_is_not_told(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        world.is_by_frame = True
        answer = world.produce()
        world.waiting[0].cancel()
        world.follow(3, 2, 3)
        assert not answer.done() and world.waiting[0].is_over

    played(World(tmp_path, min_insync_replicas=2), scene)


def test_acks_1_does_not_wait(world: World) -> None:
    assert row(world.produce(acks=1)).base_offset == 0
    assert world.led.log.high_watermark == 0


def test_what_is_not_committed_in_time_is_told_so_and_stays(world: World) -> None:
    async def scene(world: World) -> None:
        answer = await world.produce(timeout_ms=1)
        assert row(answer).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert world.led.log.log_end_offset == 3

    played(world, scene)


def test_too_few_in_sync_replicas_refuse_acks_all_only(tmp_path: Path) -> None:
    world = World(tmp_path, isr=(1,), min_insync_replicas=2)
    assert row(world.produce()).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert row(world.produce(acks=1)).error_code == ErrorCode.NONE
    assert world.led.log.high_watermark == 0, "nothing is committed meanwhile"


def test_waiting_requests_are_refused_when_the_leader_changes(world: World) -> None:
    async def scene(world: World) -> None:
        answer = world.produce()
        reading = world.fetch(0, max_wait_ms=10_000)
        commit = world.ground.spawn(world.led.commit())
        await asyncio.sleep(0)
        world.led.follow(2, 6)
        assert row(await answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert reading.done()
        with pytest.raises(KafkaError) as caught:
            await commit
        assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    played(world, scene)


def test_a_producer_at_the_wrong_node_is_told_the_right_one(world: World) -> None:
    answer = world.produce(index=1)
    assert row(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = row(answer).current_leader
    assert leader is not None
    assert (leader.leader_id, leader.leader_epoch) == (2, 7)
    assert [(one.node_id, one.host) for one in answer.node_endpoints] == [(2, "host2")]


def test_consumers_read_what_is_committed_and_followers_everything(world: World) -> None:
    async def scene(world: World) -> None:
        world.produce()
        assert not len(fetched(world.fetch(0)).records or b"")
        reading = world.fetch(0, max_wait_ms=10_000)
        assert len(fetched(world.fetch(0, replica=2, epoch=5)).records or b"")
        world.follow(3, 2, 3)
        assert len(fetched(reading.result()).records or b"")

    played(world, scene)


def test_a_follower_that_waits_is_answered_when_the_log_grows(world: World) -> None:
    async def scene(world: World) -> None:
        waiting = world.fetch(0, replica=2, epoch=5, max_wait_ms=600_000)
        world.produce(acks=1)
        answer = await asyncio.wait_for(waiting, 60)
        assert len(fetched(answer).records or b"")
        assert world.leader.replicas[2].end_offset == 0, "that it was sent does not mean that it arrived"

    played(world, scene)


def test_a_follower_whose_older_request_came_late_names_its_offsets_again(tmp_path: Path) -> None:
    """Without news it named none: the leader kept the older offsets, and the follower stayed out of the ISR. The
    simulator found it (`replicas-streams`, seed 71050)."""

    async def scene(world: World) -> None:
        world.produce(acks=1)
        present = world.fetch(3, replica=2, epoch=5, session_epoch=0)
        assert present.session_id and world.leader.replicas[2].end_offset == 3
        world.fetch(0, replica=2, epoch=5, session_epoch=0)  # sent earlier, over a connection that was given up
        assert world.leader.replicas[2].end_offset == 0
        going_on = FetchRequest(
            replica_state=ReplicaState(replica_id=2, replica_epoch=20), session_id=present.session_id, session_epoch=1
        )
        caller = Caller("app", world.client, 1, 18)
        answer: Any = fetch(going_on, world.ground, NoMetadata(), world.replicas, world.quotas, caller)
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        again = world.fetch(3, replica=2, epoch=5, session_epoch=0)
        assert again.session_id and world.leader.replicas[2].end_offset == 3
        assert len(world.fetch_sessions) == 1

    played(World(tmp_path, min_insync_replicas=2), scene)


@pytest.mark.parametrize(
    ("epoch", "replica", "error"),
    [
        (4, 2, ErrorCode.FENCED_LEADER_EPOCH),
        (6, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (5, 9, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_fetches_of_another_epoch_or_of_strangers_count_for_nothing(
    world: World, epoch: int, replica: int, error: ErrorCode
) -> None:
    world.produce(acks=1)
    assert fetched(world.fetch(3, replica=replica, epoch=epoch)).error_code == error
    assert world.leader.replicas[2].end_offset == -1


def test_a_follower_with_another_history_learns_where_they_part(world: World) -> None:
    world.produce(acks=1)
    answer = fetched(world.fetch(9, replica=2, epoch=5, last_epoch=4))
    assert answer.diverging_epoch is not None
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (4, 0)
    assert world.leader.replicas[2].end_offset == -1


def test_a_throttle_holds_back_only_followers_that_are_not_in_sync(tmp_path: Path) -> None:
    async def body() -> None:
        world = World(tmp_path, isr=(1, 2))
        throttle = world.replication_throttles.leader
        throttle.limit(50)
        throttle.mark("t", ["0:1"], 1)
        world.produce(acks=1)
        world.follow(3, 2)
        assert fetched(world.fetch(0, replica=3, epoch=5)).records, "nothing was copied yet"
        assert throttle.wait_ms(0) > 0
        assert not fetched(world.fetch(0, replica=3, epoch=5)).records
        assert fetched(world.fetch(0, replica=2, epoch=5)).records
        assert not fetched(world.fetch(0, replica=3, epoch=5)).records
        waiting = world.fetch(0, replica=3, epoch=5, max_wait_ms=60_000)
        world.produce(acks=1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done(), "what it does not get does not wake it"
        waiting.cancel()
        throttle.unmark("t")
        assert fetched(world.fetch(0, replica=3, epoch=5)).records

    asyncio.run(body())


def test_a_consumer_reads_from_a_follower_what_that_knows_to_be_committed(world: World) -> None:
    batch = build([Record(0, NOW, None, b"v")] * 2, leader_epoch=7)
    world.followed.log.append_as_follower(memoryview(batch))
    assert not len(fetched(world.fetch(0, index=1)).records or b"")
    world.followed.log.advance_high_watermark(2)
    assert len(fetched(world.fetch(0, index=1)).records or b"")


@pytest.mark.parametrize(("rack", "expected"), [("a", -1), ("b", 2), ("c", 3), ("d", -1)])
def test_a_consumer_is_sent_to_the_replica_in_its_rack(world: World, rack: str, expected: int) -> None:
    world.follow(0, 2, 3)
    assert fetched(world.fetch(0, rack_id=rack)).preferred_read_replica == expected


def test_a_new_leader_names_no_end_before_it_has_committed_what_it_found(world: World) -> None:
    world.produce(acks=1)
    world.leader.start_offset = 3
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)

    def ask(replica_id: int) -> Any:
        request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
        answer: Any = list_offsets(request, world.replicas, Caller("app", CLIENT, 2, 10))
        return answer.topics[0].partitions[0]

    assert ask(-1).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(2).offset == 3, "a follower asks for the log's end"
    world.follow(3, 2, 3)
    assert ask(-1).offset == 3


@pytest.mark.parametrize(("isr", "looked_at"), [((1, 2), [3]), ((1, 2, 3), [])])
def test_followers_that_are_not_in_sync_are_looked_at_again(
    tmp_path: Path, isr: tuple[int, ...], looked_at: list[int]
) -> None:
    """Whatever kept them out may be over, and no news would have their fetches looked at."""
    world = World(tmp_path, isr=isr)
    moved: list[int] = []
    for id in (2, 3):
        fetch: Any = SimpleNamespace(moved=partial(moved.append, id))
        world.led.fetches[id] = fetch

    async def scene() -> None:
        world.hosting._look_again()
        world.hosting.stop()

    asyncio.run(scene())
    assert moved == looked_at


def test_what_waits_is_committed_also_if_flush_messages_is_set_meanwhile(tmp_path: Path) -> None:
    """The high watermark then waits for the disk, and nothing put there what was appended before: seen in a simulated
    world, where a share coordinator answered no more."""

    async def main() -> None:
        world = World(tmp_path)
        batch = build([Record(value=b"x", timestamp=NOW)])
        world.led.append(memoryview(batch), NOW, world.ground.now())
        waiting = asyncio.create_task(world.led.commit())
        await asyncio.sleep(0)
        world.image.configs[(TOPIC_RESOURCE, "t")] = {"flush.messages": "1"}
        changes = ImageChanges()
        changes.configs_changed[(TOPIC_RESOURCE, "t")] = {}
        world.replicas.image_changed(changes)
        for replica in (2, 3):
            world.led.fetched(replica, replica * 10, 1, 0, world.ground.now())
        async with asyncio.timeout(10):
            await waiting
        assert world.led.log.high_watermark == 1

    asyncio.run(main())
