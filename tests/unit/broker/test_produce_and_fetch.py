"""Produce and Fetch on logs in a temporary folder, without a node around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.apis.fetch import fetch
from ottla.broker.apis.produce import produce
from ottla.broker.caller import Caller
from ottla.broker.serving.quotas import Quotas
from ottla.config import TopicConfig
from ottla.records import Compression, Record, build, read, split
from ottla.storage import Log
from ottla.wire.errors import ErrorCode
from ottla.wire.internal_topics import AUDIT_TOPIC, GROUP_METADATA_TOPIC
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.messages.records.register_broker_record import RegisterBrokerRecord
from tests.unit.broker.rooms import (
    CLIENT,
    CLOCK,
    Ground,
    NoMetadata,
    add_topic,
    make_groups,
    make_replicas,
    make_transactions,
)

ID = b"t" * 16
NOW = CLOCK


class World:
    """A topic of several partitions, led here, alone."""

    def __init__(self, path: Path, partitions: int = 2, **settings: Any) -> None:
        self.ground = Ground(path, fetch_max_bytes="1000000", max_incremental_fetch_session_cache_slots="10")
        self.replicas = make_replicas(self.ground)
        add_topic(self.replicas, "t", ID, partitions, TopicConfig(**settings), leader_epoch=3)
        self.transactions = make_transactions(self.ground, self.replicas, make_groups(self.ground, self.replicas))
        self.quotas = Quotas()
        self.metrics = self.ground.metrics
        self.partitions = self.replicas.partitions
        self.fetch_sessions = self.replicas.fetch_sessions
        self.client = CLIENT

    def log(self, index: int) -> Log:
        return self.partitions.by_name["t"][index].log

    def produce(self, *batches: tuple[int, bytes | bytearray | None], acks: int = 1, version: int = 13) -> Any:
        request = ProduceRequest(
            acks=acks,
            topic_data=[
                TopicProduceData(
                    name="t",
                    topic_id=ID,
                    partition_data=[
                        PartitionProduceData(
                            index=index, records=None if batch is None else memoryview(bytearray(batch))
                        )
                        for index, batch in batches
                    ],
                )
            ],
        )
        self.caller = Caller("app", self.client, 0, version)
        return produce(request, self.ground, self.replicas, self.transactions, self.quotas, self.caller)

    def fetch(self, *wanted: tuple[int, int], max_wait_ms: int = 0, version: int = 17, **settings: Any) -> Any:
        partition_max_bytes = settings.pop("partition_max_bytes", 1 << 20)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            session_epoch=settings.pop("session_epoch", -1),
            min_bytes=settings.pop("min_bytes", 1),
            topics=[
                FetchTopic(
                    topic="t",
                    topic_id=ID,
                    partitions=[
                        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
                        for index, offset in wanted
                    ],
                )
            ]
            if wanted
            else [],
            **settings,
        )
        caller = Caller("app", self.client, 1, version)
        return fetch(request, self.ground, NoMetadata(), self.replicas, self.quotas, caller)


def batch(*values: bytes, **fields: Any) -> bytearray:
    return build([Record(value=value, timestamp=NOW) for value in values], **fields)


def rows(response: ProduceResponse) -> list[tuple[int, int, int]]:
    return [
        (row.index, ErrorCode(row.error_code), row.base_offset)
        for topic in response.responses
        for row in topic.partition_responses
    ]


def values(response: FetchResponse) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {}
    for topic in response.responses:
        for row in topic.partitions:
            assert row.records is not None
            data = row.records if isinstance(row.records, bytes) else row.records.read()
            found[row.partition_index] = [
                record.value
                for position, header in split(data)
                for record in read(data[position : position + header.size])
            ]
    return found


def codes(response: FetchResponse) -> list[ErrorCode]:
    return [ErrorCode(row.error_code) for topic in response.responses for row in topic.partitions]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("topic", "client_id", "is_taken"),
    [
        (GROUP_METADATA_TOPIC, "app", False),
        (GROUP_METADATA_TOPIC, "1", False),
        (GROUP_METADATA_TOPIC, "__admin_client", True),
        (AUDIT_TOPIC, "app", False),
        (AUDIT_TOPIC, None, False),
        (AUDIT_TOPIC, "__admin_client", False),
        (AUDIT_TOPIC, "1", True),
    ],
)
def test_only_nodes_write_audit_events(tmp_path: Path, topic: str, client_id: str | None, is_taken: bool) -> None:
    world = World(tmp_path)
    world.ground.image.replay(RegisterBrokerRecord(broker_id=1))
    add_topic(world.replicas, topic, b"i" * 16)
    data = PartitionProduceData(index=0, records=memoryview(batch(b"event")))
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    caller = Caller(client_id, world.client, 0, 9)
    response = produce(request, world.ground, world.replicas, world.transactions, world.quotas, caller)
    assert isinstance(response, ProduceResponse)
    expected = ErrorCode.NONE if is_taken else ErrorCode.INVALID_TOPIC_EXCEPTION
    assert rows(response)[0][1] == expected


def test_what_was_produced_is_fetched(world: World) -> None:
    response = world.produce((0, batch(b"a", b"b")), (1, batch(b"c")))
    assert rows(response) == [(0, ErrorCode.NONE, 0), (1, ErrorCode.NONE, 0)]
    assert values(world.fetch((0, 0), (1, 0))) == {0: [b"a", b"b"], 1: [b"c"]}
    assert world.metrics.topic("t").messages_in == 3


def test_one_refused_partition_does_not_hinder_the_others(world: World) -> None:
    spoilt = batch(b"a")
    spoilt[-1] ^= 1
    response = world.produce((0, spoilt), (1, batch(b"b")), (7, batch(b"c")))
    assert rows(response) == [
        (0, ErrorCode.CORRUPT_MESSAGE, -1),
        (1, ErrorCode.NONE, 0),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert world.log(0).log_end_offset == 0


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(world: World, acks: int) -> None:
    assert rows(world.produce((0, batch(b"a")), acks=acks)) == [(0, ErrorCode.INVALID_REQUIRED_ACKS, -1)]
    assert world.log(0).log_end_offset == 0


def test_acks_zero_gets_no_answer_and_an_error_closes_the_connection(world: World) -> None:
    assert world.produce((0, batch(b"a")), acks=0) is None
    assert not world.caller.is_refused
    assert world.log(0).log_end_offset == 1
    assert world.produce((0, b"nonsense"), acks=0) is None
    assert world.caller.is_refused


def test_no_records_and_transactional_records_without_a_transactional_id_are_refused(world: World) -> None:
    transactional = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    response = world.produce((0, None), (1, transactional))
    assert rows(response) == [
        (0, ErrorCode.INVALID_RECORD, -1),
        (1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1),
    ]


def test_zstd_is_refused_in_versions_that_did_not_know_it(world: World) -> None:
    packed = batch(b"a" * 100, compression=Compression.ZSTD)
    assert rows(world.produce((0, packed), version=6)) == [(0, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1)]
    assert rows(world.produce((0, packed), version=7)) == [(0, ErrorCode.NONE, 0)]


def test_a_batch_sent_again_is_answered_with_its_first_offset(world: World) -> None:
    first = batch(b"a", producer_id=9, producer_epoch=0, base_sequence=0)
    again = bytes(first)
    world.produce((0, first), acks=-1)
    world.produce((0, batch(b"b", producer_id=9, producer_epoch=0, base_sequence=1)), acks=-1)
    assert rows(world.produce((0, again), acks=-1)) == [(0, ErrorCode.NONE, 0)]
    assert world.log(0).log_end_offset == 2


def test_with_flush_messages_the_answer_and_the_readers_wait_for_the_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, flush_messages=1)
        answer = world.produce((0, batch(b"a")), acks=1)
        assert values(world.fetch((0, 0))) == {0: []}
        assert rows(await answer) == [(0, ErrorCode.NONE, 0)]
        assert world.log(0).recovery_point == 1
        assert values(world.fetch((0, 0))) == {0: [b"a"]}

    asyncio.run(scenario())


def test_a_producer_that_leaves_does_not_keep_its_records_from_readers(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, flush_messages=1)
        answer = world.produce((0, batch(b"a")), acks=1)
        await asyncio.sleep(0)
        answer.cancel()
        for _ in range(60_000):
            if world.log(0).high_watermark:
                break
            await asyncio.sleep(0.001)
        assert values(world.fetch((0, 0))) == {0: [b"a"]}

    asyncio.run(scenario())


def test_a_fetch_waits_for_its_bytes(world: World) -> None:
    async def scenario() -> None:
        waiting = world.fetch((0, 0), (1, 0), max_wait_ms=60_000)
        assert not waiting.done()
        assert world.metrics.fetches_waiting == 1
        world.produce((1, batch(b"a")))
        assert values(await waiting) == {0: [], 1: [b"a"]}
        assert world.metrics.fetches_waiting == 0

    asyncio.run(scenario())


def test_a_fetch_that_wants_more_waits_for_more(world: World) -> None:
    async def scenario() -> None:
        size = len(batch(b"a"))
        waiting = world.fetch((0, 0), max_wait_ms=60_000, min_bytes=2 * size)
        world.produce((0, batch(b"a")))
        assert not waiting.done()
        world.produce((0, batch(b"b")))
        assert values(await waiting) == {0: [b"a", b"b"]}

    asyncio.run(scenario())


def test_a_fetch_that_waited_in_vain_is_answered_with_nothing(world: World) -> None:
    async def scenario() -> None:
        assert values(await world.fetch((0, 0), max_wait_ms=1)) == {0: []}

    asyncio.run(scenario())


def test_a_fetch_whose_client_left_waits_no_longer(world: World) -> None:
    async def scenario() -> None:
        waiting = world.fetch((0, 0), max_wait_ms=60_000)
        waiting.cancel()
        await asyncio.sleep(0)
        assert world.metrics.fetches_waiting == 0
        assert not world.partitions.by_name["t"][0].delayed_fetches

    asyncio.run(scenario())


def test_a_deleted_topic_ends_the_wait(world: World) -> None:
    async def scenario() -> None:
        waiting = world.fetch((0, 0), max_wait_ms=60_000)
        world.partitions.remove("t")
        assert codes(await waiting) == [ErrorCode.UNKNOWN_TOPIC_ID]

    asyncio.run(scenario())


@pytest.mark.parametrize("offset", [-1, 5, 1 << 40])
def test_an_offset_outside_the_log_is_told(world: World, offset: int) -> None:
    world.produce((0, batch(b"a")))
    assert codes(world.fetch((0, offset), max_wait_ms=1000)) == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_the_first_batch_comes_whole_even_if_it_is_larger_than_the_limit(world: World) -> None:
    world.produce((0, batch(b"x" * 1000)), (1, batch(b"y" * 1000)))
    response = world.fetch((0, 0), (1, 0), partition_max_bytes=10, max_bytes=20)
    assert values(response) == {0: [b"x" * 1000], 1: []}


def test_a_client_with_another_leader_epoch_learns_which_side_is_behind(world: World) -> None:
    def ask(epoch: int) -> Callable[[], FetchResponse]:
        request = FetchRequest(
            session_epoch=-1,
            topics=[FetchTopic(topic_id=ID, partitions=[FetchPartition(current_leader_epoch=epoch)])],
        )
        caller = Caller("app", CLIENT, 1, 17)
        return lambda: fetch(request, world.ground, NoMetadata(), world.replicas, world.quotas, caller)  # type: ignore[return-value]

    assert codes(ask(2)()) == [ErrorCode.FENCED_LEADER_EPOCH]
    assert codes(ask(4)()) == [ErrorCode.UNKNOWN_LEADER_EPOCH]
    assert codes(ask(3)()) == [ErrorCode.NONE]


def test_an_incremental_fetch_tells_only_what_changed(world: World) -> None:
    first = world.fetch((0, 0), (1, 0), session_epoch=0)
    assert first.session_id > 0
    assert values(first) == {0: [], 1: []}
    nothing = world.fetch(session_id=first.session_id, session_epoch=1)
    assert nothing.responses == []
    world.produce((1, batch(b"a")))
    assert values(world.fetch(session_id=first.session_id, session_epoch=2)) == {1: [b"a"]}
    # The answer had the new high watermark; the offset has not moved, so the data comes again.
    assert values(world.fetch((1, 1), session_id=first.session_id, session_epoch=3)) == {}


def test_a_session_that_is_unknown_is_told_at_the_top(world: World) -> None:
    response = world.fetch(session_id=12, session_epoch=4)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_old_versions_name_topics(world: World) -> None:
    assert rows(world.produce((0, batch(b"a")), version=12)) == [(0, ErrorCode.NONE, 0)]
    assert values(world.fetch((0, 0), version=4)) == {0: [b"a"]}


def test_a_consumer_beyond_its_quota_gets_nothing_and_is_told_when_to_come_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.quotas.replace({(("client-id", "app"),): {"consumer_byte_rate": 100.0}})
    world.produce((0, batch(bytes(900))))
    first = world.fetch((0, 0), session_epoch=0)
    assert values(first) == {0: [bytes(900)]} and first.session_id and not first.throttle_time_ms
    # 1,000 bytes are what ten seconds allow: the second fetch of as many is beyond them.
    opened = len(world.fetch_sessions)
    second = world.fetch((0, 0), session_epoch=0)
    assert second.throttle_time_ms > 0 and not second.responses
    assert not second.session_id and len(world.fetch_sessions) == opened
    # Nothing was sent, so nothing was counted, and a fetch within a session keeps it.
    third = world.fetch((0, 0), session_epoch=1, session_id=first.session_id)
    assert third.throttle_time_ms == second.throttle_time_ms and third.session_id == first.session_id


def test_a_fetch_asks_for_no_more_than_its_quota_will_ever_allow(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.quotas.replace({(("client-id", "app"),): {"consumer_byte_rate": 100.0}})
    for _ in range(5):
        world.produce((0, batch(bytes(400))))
    response = world.fetch((0, 0))
    assert not response.throttle_time_ms and len(values(response)[0]) == 2
