"""Dead letters on real logs: a share group whose queue is led here, or by a broker that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis.share_fetch import RECORD_LIMIT
from ottla.broker.coordinators.producer_ids import ProducerIds
from ottla.broker.share import letter_writer
from ottla.broker.share.dead_letters import DeadLetterQueues
from ottla.broker.share.letter_producers import LetterProducers
from ottla.broker.share.share import Share
from ottla.cluster.features import SHARE_VERSION
from ottla.cluster.image import TOPIC_RESOURCE
from ottla.config import GroupConfig, TopicConfig
from ottla.groups.share.dead_letters import DELIVERED_TOO_OFTEN, REJECTED
from ottla.groups.share.partition import FINAL, DeliveryState
from ottla.groups.share.state_batches import StoredBatch
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareState
from ottla.net import NoAnswer
from ottla.records import Compression, Record, build, end_txn_marker, read, read_header, split
from ottla.wire.dead_letter_headers import PREFIX
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import TRANSACTION_STATE_TOPIC
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.broker.rooms import CLOCK, AskedController, add_topic, run_timed
from tests.unit.broker.share.test_share_fetch import ACCEPT, ID, LOCK_MS, REJECT, RELEASE, World

QUEUE, QUEUE_ID = "dlq.t", b"d" * 16
ENABLED = {"errors.deadletterqueue.group.enable": "true"}


class Controller(AskedController):
    """Gives out producer ids, and creates topics when it is asked to."""

    def __init__(self, world: Any) -> None:
        super().__init__()
        self.world = world
        self.next_id = 1000

    async def ask(self, request: Any, *, timeout_ms: int = 0) -> Any:
        self.asked.append(request)
        if isinstance(request, CreateTopicsRequest):
            wanted = request.topics[0]
            self.world.add_queue({row.name: row.value for row in wanted.configs})
            return CreateTopicsResponse(topics=[CreatableTopicResult(name=wanted.name)])
        self.next_id += 10
        return AllocateProducerIdsResponse(producer_id_start=self.next_id, producer_id_len=10)


class Leader:
    """The broker that leads the queue: the next of `codes` for each request, None for no answer."""

    def __init__(self, *codes: ErrorCode | None) -> None:
        self.codes = list(codes)
        self.batches: list[bytes] = []

    def send(self, host: str, port: int, request: Any, take: Any, timeout_ms: int, *, purpose: str) -> None:
        assert isinstance(request, ProduceRequest) and request.acks == -1
        row = request.topic_data[0].partition_data[0]
        assert row.records is not None
        self.batches.append(bytes(row.records))
        code = self.codes.pop(0)
        if code is None:
            take(NoAnswer(True))
            return
        answer = PartitionProduceResponse(index=row.index, error_code=code)
        take(ProduceResponse(responses=[TopicProduceResponse(name=QUEUE, partition_responses=[answer])]))


class Coordinator:
    """A transaction coordinator on this broker: each question for a transactional id gets the next epoch."""

    topic = TRANSACTION_STATE_TOPIC

    def __init__(self, world: Any) -> None:
        self.world = world
        self.epochs: dict[str, int] = {}
        self.markers = self
        add_topic(world.replicas, self.topic, b"x" * 16, 1, TopicConfig())

    async def create_topic(self) -> None: ...

    async def reserve_producer_id(self) -> None: ...

    def partition_for(self, name: str) -> int:
        return 0

    def own_call(self, now: int, timestamp: int) -> None: ...

    def run(self, name: str, command: Any, request: Any, call: Any, refuse: Any) -> InitProducerIdResponse:
        self.epochs[name] = self.epochs.get(name, -1) + 1
        return InitProducerIdResponse(producer_id=50 + list(self.epochs).index(name), producer_epoch=self.epochs[name])

    def write(self, at: Any, producer_id: int, epoch: int, **fields: Any) -> None:
        assert fields.pop("transaction_version") == 0
        marker = end_txn_marker(producer_id=producer_id, producer_epoch=epoch, timestamp=CLOCK, **fields)
        self.world.replicas.partition(*at).append_as_coordinator(marker, CLOCK, self.world.ground.now())


class QueueWorld(World):
    """The group has a dead-letter queue: a topic of one partition, led here, or by `leader`."""

    def __init__(self, path: Path, *, has_topic: bool = True, leader: Leader | None = None, **settings: str) -> None:
        settings = {"errors.deadletterqueue.topic.name": QUEUE, **settings}
        super().__init__(path, **settings)
        self.ground.image.features[SHARE_VERSION] = 2
        self.controller = Controller(self)
        if has_topic:
            self.add_queue(ENABLED)
        if leader is not None:
            self.ground.image.topics_by_name[QUEUE].partitions[0] = (
                self.ground.image.topics_by_name[QUEUE].partitions[0]._replace(leader=2)
            )
            ground: Any = self.ground
            ground.broker_address = lambda broker_id: ("other", 9092)
        brokers: Any = self.ground.image.brokers
        brokers[1] = SimpleNamespace(id=1, epoch=1)
        names = {"share.auto.offset.reset": "earliest", **settings}
        ids = ProducerIds(self.ground, self.controller)
        peers: Any = leader
        self.coordinator = Coordinator(self)
        transactions: Any = self.coordinator
        producers = LetterProducers(self.ground, self.replicas, peers, transactions)
        queues = DeadLetterQueues(self.ground, self.replicas, peers, self.controller, ids, producers)
        self.share = Share(
            self.ground,
            self.replicas,
            self.store,
            lambda group_id: GroupConfig.parse(names, self.ground.config),
            queues,
        )
        self.names = names

    def add_queue(self, configs: dict[str, str]) -> None:
        self.ground.image.configs[(TOPIC_RESOURCE, QUEUE)] = configs
        add_topic(self.replicas, QUEUE, QUEUE_ID, 1, TopicConfig.parse(configs))

    @property
    def letters(self) -> list[Record]:
        log = self.replicas.partitions.by_name[QUEUE][0].log
        found = log.read(0, max_bytes=1_000_000)
        if found is None:
            return []
        data = found.read()
        return [
            one
            for at, header in split(data)
            if not header.is_control
            for one in read(memoryview(data)[at : at + header.size])
        ]

    def done_up_to(self, index: int = 0) -> int:
        """Where records begin that are stored as neither acknowledged nor archived."""
        at, rows = self.stored(index)
        for row in rows:
            if row.first_offset == at and row.delivery_state in FINAL:
                at = row.last_offset + 1
        return at

    async def until(self, is_true: Callable[[], bool], ms: int = 120_000) -> None:
        ends_at = self.ground.now() + ms
        while not is_true():
            assert self.ground.now() < ends_at, "it did not happen"
            await asyncio.sleep(0.01)


def headers(record: Record) -> dict[str, bytes | None]:
    return {name.removeprefix(PREFIX): value for name, value in record.headers}


Scenario = Callable[[QueueWorld], Coroutine[Any, Any, None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    def run(scenario: Scenario, *, has_topic: bool = True, leader: Leader | None = None, **settings: str) -> None:
        async def main() -> None:
            names = {name.replace("_", "."): value for name, value in settings.items()}
            world = QueueWorld(tmp_path, has_topic=has_topic, leader=leader, **names)
            await scenario(world)
            assert not world.ground.bugs
            await world.ground.close()

        run_timed(main())

    return run


def test_a_rejected_record_becomes_a_letter_and_is_archived_afterwards(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.produce(b"a", b"b", b"c")
        one = world.member("one")
        assert await one.fetch() == [(0, 2, 1)]
        assert await one.say((1, 1, REJECT)) is ErrorCode.NONE
        assert world.stored()[1] == [StoredBatch(1, 1, DeliveryState.ARCHIVING, 1)]
        await world.until(lambda: world.stored()[1] == [StoredBatch(1, 1, DeliveryState.ARCHIVED, 1)])
        (letter,) = world.letters
        assert (letter.key, letter.value) == (None, None), "copies are not asked for"
        assert headers(letter) == {
            "topic": b"t",
            "partition": b"0",
            "offset": b"1",
            "group": b"g",
            "delivery.count": b"1",
            "message": REJECTED,
        }
        counts = world.share.meter.letters["g"]
        assert (counts.written, counts.requests, counts.failed, counts.lost) == (1, 1, 0, 0)
        assert world.share.meter.archived == 1

    play(scenario)


def test_a_record_that_is_delivered_too_often_becomes_a_letter_with_its_copy(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        partition = world.replicas.partitions.by_name["t"][1]
        records = [Record(0, CLOCK, b"k%d" % n, b"v%d" % n, (("trace", b"x"),)) for n in range(4)]
        for at in (0, 2):
            batch = build(records[at : at + 2], compression=Compression.ZSTD)
            partition.append(memoryview(batch), CLOCK, world.ground.now())
        one = world.member("one")
        assert await one.fetch(indexes=(1,)) == [(0, 3, 1)]
        await asyncio.sleep(LOCK_MS / 1000 + 1)
        assert await one.fetch(indexes=(1,)) == [(0, 3, 2)]
        await asyncio.sleep(LOCK_MS / 1000 + 1)
        await world.until(lambda: world.done_up_to(1) == 4)
        assert [(one.key, one.value, one.headers[0]) for one in world.letters] == [
            (b"k%d" % n, b"v%d" % n, ("trace", b"x")) for n in range(4)
        ]
        assert {headers(one)["message"] for one in world.letters} == {DELIVERED_TOO_OFTEN}
        assert [headers(one)["offset"] for one in world.letters] == [b"0", b"1", b"2", b"3"]
        assert headers(world.letters[0])["partition"] == b"1"
        assert world.share.meter.redelivered == 4

    play(scenario, errors_deadletterqueue_copy_record_enable="true", share_delivery_count_limit="2")


def test_without_share_version_2_there_are_no_letters(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.ground.image.features[SHARE_VERSION] = 1
        world.produce(b"a")
        one = world.member("one")
        await one.fetch()
        await one.say((0, 0, REJECT))
        assert world.stored() == (0, [StoredBatch(0, 0, DeliveryState.ARCHIVED, 1)])
        assert world.letters == [] and world.share.meter.archived == 1

    play(scenario)


@pytest.mark.parametrize(
    ("settings", "has_topic"),
    [
        ({}, False),
        ({"errors_deadletterqueue_topic_name": "orders"}, True),
        ({"errors_deadletterqueue_topic_name": "__share_group_state"}, True),
    ],
)
def test_as_in_kafka_a_record_is_archived_without_a_letter_if_the_queue_cannot_be_used(
    settings: dict[str, str], has_topic: bool, play: Callable[..., None]
) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.produce(b"a")
        one = world.member("one")
        await one.fetch()
        assert await one.say((0, 0, REJECT)) is ErrorCode.NONE
        await world.until(lambda: world.done_up_to() == 1)
        assert world.share.meter.letters["g"].lost == 1

    play(scenario, has_topic=has_topic, **settings)


def test_a_required_letter_waits_until_the_queue_can_be_used(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.ground.image.configs[(TOPIC_RESOURCE, QUEUE)] = {}
        world.produce(b"a")
        one = world.member("one")
        await one.fetch()
        await one.say((0, 0, REJECT))
        await asyncio.sleep(600)
        assert world.stored() == (0, [StoredBatch(0, 0, DeliveryState.ARCHIVING, 1)])
        assert world.share.meter.letters["g"].failed > 5
        world.share.connection_closed(one.client)
        assert len(list(world.share)) == 1, "it is not forgotten while letters wait"
        world.ground.image.configs[(TOPIC_RESOURCE, QUEUE)] = ENABLED
        await world.until(lambda: world.done_up_to() == 1)
        assert len(world.letters) == 1 and world.share.meter.letters["g"].lost == 0
        await world.until(lambda: not list(world.share))

    play(scenario, ottla_errors_deadletterqueue_required_enable="true")


def test_letters_that_were_not_archived_are_written_after_the_next_load(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.produce(b"a", b"b", b"c")
        stored = [StoredBatch(0, 1, DeliveryState.ARCHIVING, 5)]
        world.store.states[SharePartitionKey("g", ID, 0)] = ShareState(0, 0, 3, 0, 0, 0, 0, stored)
        assert await world.member("one").fetch() == [(2, 2, 1)]
        await world.until(lambda: world.done_up_to() == 2)
        assert [(headers(one)["offset"], headers(one)["message"]) for one in world.letters] == [
            (b"0", DELIVERED_TOO_OFTEN),
            (b"1", DELIVERED_TOO_OFTEN),
        ]

    play(scenario)


def test_a_queue_is_created_when_the_broker_may(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        config = world.ground.config.with_dynamic({"errors.deadletterqueue.auto.create.topics.enable": "true"}, {})
        world.ground.config = config
        world.produce(b"a", b"b")
        one = world.member("one")
        await one.fetch()
        await one.say((0, 1, REJECT))
        await world.until(lambda: world.done_up_to() == 2)
        assert [headers(one)["offset"] for one in world.letters] == [b"0", b"1"]
        created = [one for one in world.controller.asked if isinstance(one, CreateTopicsRequest)]
        assert [(one.topics[0].name, one.topics[0].num_partitions) for one in created] == [(QUEUE, -1)]

    play(scenario, has_topic=False)


def test_the_leader_of_the_queue_gets_the_same_batch_again_until_it_answers(play: Callable[..., None]) -> None:
    leader = Leader(None, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.NONE)

    async def scenario(world: QueueWorld) -> None:
        world.produce(b"a", b"b", b"c")
        one = world.member("one")
        await one.fetch()
        await one.say((0, 1, REJECT))
        await world.until(lambda: world.done_up_to() == 2)
        await one.say((2, 2, REJECT))
        await world.until(lambda: world.done_up_to() == 3)
        sent = [read_header(batch) for batch in leader.batches]
        assert len({one.producer_id for one in sent}) == 1 and sent[0].producer_id >= 1000
        assert [one.base_sequence for one in sent] == [0, 0, 0, 2]
        assert [len(read(memoryview(batch))) for batch in leader.batches] == [2, 2, 2, 1]
        counts = world.share.meter.letters["g"]
        assert (counts.written, counts.requests, counts.failed) == (3, 4, 2)

    play(scenario, leader=leader)


def test_letters_fit_into_the_queues_batches_and_a_large_copy_is_left_out(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        limits = {**ENABLED, "max.message.bytes": "4000"}
        world.ground.image.configs[(TOPIC_RESOURCE, QUEUE)] = limits
        world.replicas.partitions.by_name[QUEUE][0].log.config = TopicConfig.parse(limits)
        for size in (1000, 9000, *[1000] * 9):
            world.produce(bytes(size))
        one = world.member("one")
        await one.fetch()
        await one.say((0, 10, REJECT))
        await world.until(lambda: world.done_up_to() == 11)
        assert [len(one.value) if one.value is not None else None for one in world.letters] == [1000, None, *[1000] * 9]
        assert world.share.meter.letters["g"].requests >= 4

    play(scenario, errors_deadletterqueue_copy_record_enable="true")


def test_a_released_record_is_delivered_again_after_its_back_off(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.produce(b"a")
        one, two = world.member("one"), world.member("two")
        await one.fetch()
        released_at = world.ground.now()
        await one.say((0, 0, RELEASE))
        assert await two.fetch(max_wait_ms=1_000) == []
        assert await two.fetch(max_wait_ms=10_000) == [(0, 0, 2)]
        assert 3_000 <= world.ground.now() - released_at < 3_100

    play(scenario, ottla_share_redelivery_backoff_ms="3000")


def test_a_record_is_archived_if_the_group_loses_its_queue_before_the_letter(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.produce(b"a", b"b")
        one, two = world.member("one"), world.member("two")
        await one.fetch(max_records=1, share_acquire_mode=RECORD_LIMIT)
        world.store.gate = asyncio.Event()
        said = asyncio.create_task(one.say((0, 0, REJECT)))
        await asyncio.sleep(0.1)
        world.names["errors.deadletterqueue.topic.name"] = ""
        assert await two.fetch() == [(1, 1, 1)]
        world.store.gate.set()
        assert await said is ErrorCode.NONE
        await world.until(lambda: world.done_up_to() == 1)
        assert world.letters == [] and world.share.meter.letters["g"].lost == 1

    play(scenario)


def test_letters_are_counted_in_the_metrics(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.produce(b"a", b"b")
        one = world.member("one")
        await one.fetch()
        await one.say((0, 1, REJECT))
        await world.until(lambda: world.done_up_to() == 2)
        lines = world.ground.metrics.render().splitlines()
        assert 'kafka_server_sharegroupmetrics_deadletterqueuerecordcount{group="g"} 2' in lines
        assert 'kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests{group="g"} 1' in lines
        assert 'kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests{group="g"} 0' in lines
        assert 'ottla_share_lost_dead_letters_total{group="g"} 0' in lines
        assert 'ottla_share_waiting_dead_letters{group="g",topic="t",partition="0"} 0' in lines
        assert "ottla_share_archived_records_total 2" in lines

    play(scenario)


def test_a_batch_is_read_once_for_all_of_its_letters(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0

    def counted(*arguments: Any, **options: Any) -> list[Record]:
        nonlocal reads
        reads += 1
        return read(*arguments, **options)

    monkeypatch.setattr(letter_writer, "read", counted)

    async def scenario(world: QueueWorld) -> None:
        for _ in range(2):
            world.produce(*[b"x%d" % number for number in range(50)])
        one = world.member("one")
        await one.fetch()
        await one.say((0, 99, *[REJECT, ACCEPT] * 50))
        await world.until(lambda: world.done_up_to() == 100)
        assert [letter.value for letter in world.letters] == [b"x%d" % number for number in range(0, 50, 2)] * 2
        assert reads == 2

    play(scenario, errors_deadletterqueue_copy_record_enable="true")


def test_a_letter_of_a_record_that_the_log_has_no_more_has_its_headers_only(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.produce(b"a", b"b")
        world.produce(b"c")
        one = world.member("one")
        await one.fetch()
        world.ground.image.configs[(TOPIC_RESOURCE, QUEUE)] = {}
        await one.say((0, 2, REJECT))
        await asyncio.sleep(1)
        world.replicas.partitions.by_name["t"][0].log.delete_records(2)
        world.ground.image.configs[(TOPIC_RESOURCE, QUEUE)] = ENABLED
        await world.until(lambda: len(world.letters) == 3)
        assert [letter.value for letter in world.letters] == [None, None, b"c"]

    play(
        scenario,
        errors_deadletterqueue_copy_record_enable="true",
        ottla_errors_deadletterqueue_required_enable="true",
    )


# Written once: `ottla.errors.deadletterqueue.once.enable`

ONCE = {"ottla_errors_deadletterqueue_once_enable": "true"}


def change_leader(world: QueueWorld) -> None:
    """What this broker knew of the share partitions is gone, as after a crash or a change of the leader."""
    for hosted in world.share:
        hosted.fence(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))


def letters_of(world: QueueWorld) -> list[int]:
    return [int(headers(one)["offset"] or b"") for one in world.letters]


@pytest.mark.parametrize("settings", [ONCE, {}])
def test_a_leader_that_died_before_its_letters_were_stored_as_archived_has_written_them_once(
    settings: dict[str, str], play: Callable[..., None]
) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.produce(b"a", b"b", b"c", b"d")
        one = world.member("one")
        await one.fetch()
        await one.say((1, 1, REJECT))
        await world.until(lambda: world.stored()[1] == [StoredBatch(1, 1, DeliveryState.ARCHIVED, 1)])
        await one.say((0, 0, REJECT), (2, 2, REJECT))
        world.store.gate = asyncio.Event()
        await world.until(lambda: len(world.letters) == 3)
        await world.until(lambda: any(row.first_offset == 0 for row in world.store.writes[-1].batches))
        # The share coordinator does not answer.
        change_leader(world)
        world.store.gate = None
        assert await world.member("two").fetch() == [(3, 3, 1)]
        await world.until(lambda: world.done_up_to() == 3)
        counts = world.share.meter.letters["g"]
        if settings:
            assert letters_of(world) == [1, 0, 2] and (counts.written, counts.found) == (3, 2)
        else:
            assert letters_of(world) == [1, 0, 2, 0, 2], "as in Kafka the next leader writes them again"

    play(scenario, **settings)


def test_a_leader_that_died_before_its_letters_were_written_has_a_successor_that_writes_them(
    play: Callable[..., None],
) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.ground.image.configs[(TOPIC_RESOURCE, QUEUE)] = {}
        world.produce(b"a", b"b")
        one = world.member("one")
        await one.fetch()
        await one.say((0, 1, REJECT))
        await world.until(lambda: world.share.meter.letters_of("g").failed > 0)
        change_leader(world)
        world.ground.image.configs[(TOPIC_RESOURCE, QUEUE)] = ENABLED
        await world.member("two").fetch()
        await world.until(lambda: world.done_up_to() == 2)
        assert letters_of(world) == [0, 1]

    play(scenario, **ONCE)


def test_a_batch_of_an_earlier_leader_cannot_arrive_after_the_search(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.produce(b"a")
        one = world.member("one")
        await one.fetch()
        await one.say((0, 0, REJECT))
        await world.until(lambda: world.done_up_to() == 1)
        queue = world.replicas.partitions.by_name[QUEUE][0]
        late = build([Record(value=b"late")], producer_id=50, producer_epoch=0, base_sequence=1)
        state = world.store.states[SharePartitionKey("g", ID, 0)]
        state.batches, state.start_offset = [StoredBatch(0, 0, DeliveryState.ARCHIVING, 1)], 0
        change_leader(world)
        await world.member("two").fetch()
        await world.until(lambda: world.done_up_to() == 1)
        with pytest.raises(KafkaError) as refused:
            queue.append(memoryview(late), CLOCK, world.ground.now())
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert letters_of(world) == [0]

    play(scenario, **ONCE)


def test_a_leader_that_was_replaced_writes_no_letters(play: Callable[..., None]) -> None:
    async def scenario(world: QueueWorld) -> None:
        world.produce(b"a")
        one = world.member("one")
        await one.fetch()
        await one.say((0, 0, REJECT))
        world.store.error = ErrorCode.FENCED_LEADER_EPOCH  # the successor has loaded the state by now
        await asyncio.sleep(600)
        assert world.letters == [] and world.share.meter.letters["g"].failed > 5
        change_leader(world)
        await asyncio.sleep(60)

    play(scenario, **ONCE)


def test_a_producer_id_is_renewed_before_its_coordinator_forgets_it(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LetterProducers, "lifetime_ms", 300_000)

    async def scenario(world: QueueWorld) -> None:
        def is_done_up_to(offset: int) -> bool:
            return world.done_up_to() == offset

        world.produce(b"a", b"b", b"c")
        one = world.member("one")
        for offset in (0, 1):
            await one.fetch()
            await one.say((offset, offset, REJECT))
            await world.until(partial(is_done_up_to, offset + 1))
        assert list(world.coordinator.epochs.values()) == [0], "one epoch serves a leader"
        await asyncio.sleep(600)
        one = world.member("later")
        await one.fetch()
        await one.say((2, 2, REJECT))
        await world.until(lambda: world.done_up_to() == 3)
        assert list(world.coordinator.epochs.values()) == [1] and letters_of(world) == [0, 1, 2]

    play(scenario, **ONCE)
