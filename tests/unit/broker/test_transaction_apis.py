"""Transactions on coordinators whose partitions are logs in a temporary folder, without a node around them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.apis.add_offsets_to_txn import add_offsets_to_txn
from ottla.broker.apis.add_partitions_to_txn import add_partitions_to_txn
from ottla.broker.apis.describe_transactions import describe_transactions
from ottla.broker.apis.end_txn import end_txn
from ottla.broker.apis.fetch import fetch
from ottla.broker.apis.init_producer_id import init_producer_id
from ottla.broker.apis.list_transactions import list_transactions
from ottla.broker.apis.produce import produce
from ottla.broker.apis.txn_offset_commit import txn_offset_commit
from ottla.broker.apis.write_txn_markers import write_txn_markers
from ottla.broker.caller import Caller
from ottla.broker.coordinators.producer_ids import ProducerIds
from ottla.broker.coordinators.transaction_metrics import register_transaction_metrics
from ottla.broker.replicas.partitions import Partition
from ottla.broker.serving.quotas import Quotas
from ottla.config import TopicConfig
from ottla.records import ControlType, Record, build, control_type, read, split
from ottla.storage import Log
from ottla.transactions import TopicPartition
from ottla.wire import decoder, encoder
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.wire.primitives import ZERO_UUID
from tests.unit.broker.rooms import (
    CLIENT,
    CLOCK,
    AskedController,
    Ground,
    NoMetadata,
    add_topic,
    call,
    make_groups,
    make_replicas,
    make_transactions,
)

OFFSETS, STATE = "__consumer_offsets", "__transaction_state"

IDS = {OFFSETS: b"o" * 16, STATE: b"s" * 16, "t": b"t" * 16}
Producer = tuple[int, int]


class GivenIds(ProducerIds):
    def __init__(self, ground: Ground) -> None:
        super().__init__(ground, AskedController())
        self.next = 1000
        self.has_none = False

    @property
    def is_empty(self) -> bool:
        return self.has_none

    def take(self) -> int | None:
        if self.has_none:
            return None
        self.next += 1
        return self.next

    async def allocate(self) -> None:
        self.has_none = False


class RunningGround(Ground):
    """Monotonic time goes on, the wall clock stands still."""

    def now(self) -> int:
        return int(self.loop.time() * 1000)


class World:
    """Both coordinators: a topic of three partitions, and the internal ones."""

    def __init__(self, path: Path, *, state_topic: TopicConfig | None = None, **settings: str) -> None:
        self.ground = RunningGround(path, max_incremental_fetch_session_cache_slots="10", **settings)
        self.metrics = self.ground.metrics
        self.image = self.ground.image
        self.image.features["group.version"] = 1
        self.image.features["transaction.version"] = 2
        self.replicas = make_replicas(self.ground)
        self.partitions = self.replicas.partitions
        self.quotas = Quotas()
        self.producer_ids = GivenIds(self.ground)
        add_topic(self.replicas, "t", IDS["t"], 3)
        add_topic(self.replicas, OFFSETS, IDS[OFFSETS], 2)
        add_topic(self.replicas, STATE, IDS[STATE], 1, state_topic)
        self.make_coordinators()

    def make_coordinators(self) -> None:
        self.groups = make_groups(self.ground, self.replicas)
        self.transactions = make_transactions(self.ground, self.replicas, self.groups, self.producer_ids)

    def start(self) -> None:
        self.groups.start()
        self.transactions.start()

    def restart(self) -> None:
        """The coordinators forget everything and read their logs again."""
        self.groups.stop()
        self.transactions.stop()
        self.make_coordinators()
        self.start()

    def fetch(self, request: FetchRequest) -> Any:
        rooms = self.ground, NoMetadata(), self.replicas, self.quotas
        return fetch(request, *rooms, Caller("c", CLIENT, 1, 17))

    def log(self, index: int, topic: str = "t") -> Log:
        return self.partitions.by_name[topic][index].log

    async def ask(self, handler: Any, request: Any, version: int) -> Any:
        """The response as a client of that version gets it: whatever is asked and answered goes over the wire, and
        the buffer of the request is used for another one as soon as the handler returns."""
        pieces: list[Any] = []
        encoder(type(request), version)(request, pieces)
        frame = bytearray(b"".join(pieces))
        received, _ = decoder(type(request), version)(memoryview(frame), 0)
        rooms = self.ground, self.replicas, self.groups, self.transactions, self.producer_ids, self.quotas
        answer = call(handler, received, Caller("client", CLIENT, 0, version), *rooms)
        frame[:] = b"\xff" * len(frame)
        if asyncio.iscoroutine(answer) or isinstance(answer, asyncio.Future):
            answer = await answer
        pieces = []
        encoder(type(answer), version)(answer, pieces)
        return decoder(type(answer), version)(memoryview(b"".join(bytes(piece) for piece in pieces)), 0)[0]

    # --- requests

    async def begin(self, name: str = "x", **fields: Any) -> Producer:
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000, **fields)
        response = await self.ask(init_producer_id, request, 5)
        assert response.error_code == 0, ErrorCode(response.error_code)
        return response.producer_id, response.producer_epoch

    async def produce(
        self, producer: Producer, *indexes: int, version: int = 12, sequence: int = 0, name: str | None = "x"
    ) -> list[ErrorCode]:
        batch = build(
            [Record(0, CLOCK, b"k", b"v")],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        return await self.send([(index, bytes(batch)) for index in indexes], version, name)

    async def send(self, batches: list[tuple[int, bytes]], version: int, name: str | None = "x") -> list[ErrorCode]:
        request = ProduceRequest(
            transactional_id=name,
            acks=-1,
            topic_data=[
                TopicProduceData(
                    name="t",
                    topic_id=IDS["t"],
                    partition_data=[PartitionProduceData(index=index, records=batch) for index, batch in batches],
                )
            ],
        )
        response = await self.ask(produce, request, version)
        return [ErrorCode(row.error_code) for row in response.responses[0].partition_responses]

    async def end(self, producer: Producer, *, commit: bool, version: int = 5, name: str = "x") -> Producer:
        request = EndTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        response = await self.ask(end_txn, request, version)
        assert response.error_code == 0, ErrorCode(response.error_code)
        return response.producer_id, response.producer_epoch

    async def commit_offset(
        self, producer: Producer, offset: int, version: int = 5, group: str = "g", topic_id: bytes = ZERO_UUID
    ) -> list[ErrorCode]:
        """Of the topic t, or from version 6 on of the topic with this id."""
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[TxnOffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=[partition])],
        )
        response = await self.ask(txn_offset_commit, request, version)
        assert [topic.topic_id for topic in response.topics] == [topic_id]
        return [ErrorCode(row.error_code) for topic in response.topics for row in topic.partitions]

    async def state(self, name: str = "x") -> str:
        response = await self.ask(describe_transactions, DescribeTransactionsRequest(transactional_ids=[name]), 0)
        state = response.transaction_states[0]
        return str(state.transaction_state) or ErrorCode(state.error_code).name

    async def reaches(self, state: str) -> None:
        """Markers are tried again after a while: wait until the transaction is in this state."""
        async with asyncio.timeout(60):
            while await self.state() != state:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def committed_offset(self, group: str = "g") -> int | None:
        machine = self.groups.shard(self.groups.partition_for(group)).machine
        assert machine is not None
        found = machine.offsets.committed.of(group).get("t", {}).get(0)
        return None if found is None else found.offset

    def kinds(self, index: int, topic: str = "t") -> list[str]:
        """What is in a partition's log: `data`, `commit`, `abort`."""
        log = self.log(index, topic)
        found = log.read(log.log_start_offset, max_bytes=1 << 20, end_offset=log.log_end_offset)
        if found is None:
            return []
        data = memoryview(found.read())
        names = {ControlType.COMMIT: "commit", ControlType.ABORT: "abort"}
        kinds = []
        for position, header in split(data):
            kind = control_type(data[position : position + header.size]) if header.is_control else None
            kinds.append("data" if kind is None else names[kind])
        return kinds


def run(scenario: Any, path: Path, **settings: Any) -> None:
    async def whole() -> None:
        world = World(path, **settings)
        world.start()
        await scenario(world)
        world.groups.stop()
        world.transactions.stop()
        for task in world.ground.tasks:
            if not task.done():
                task.cancel()

    asyncio.run(whole())


@pytest.mark.parametrize(("commit", "kind"), [(True, "commit"), (False, "abort")])
def test_an_end_puts_a_marker_into_every_partition_and_lets_readers_go_on(
    tmp_path: Path, commit: bool, kind: str
) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        assert await world.produce(producer, 0, 2) == [0, 0]
        assert (world.log(0).last_stable_offset, world.log(0).high_watermark) == (0, 1)
        following = await world.end(producer, commit=commit)
        assert following == (producer[0], producer[1] + 1)
        for index in (0, 2):
            assert world.kinds(index) == ["data", kind]
            assert world.log(index).last_stable_offset == 2
        assert world.kinds(1) == []
        assert await world.state() == ("CompleteCommit" if commit else "CompleteAbort")
        assert await world.produce(following, 0) == [0]

    run(scenario, tmp_path)


@pytest.mark.parametrize("version", [12, 13])
def test_a_partition_that_produce_itself_opens_is_verified_as_well(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partitions of a new topic that has many are opened one after the other; Produce opens those it writes to."""

    async def scenario(world: World) -> None:
        unopened = world.partitions.by_name["t"].pop(1)
        del world.partitions.by_id[IDS["t"]][1]

        def find(topic: bytes | str, index: int) -> Partition:
            assert (topic, index) == ("t" if version < 13 else IDS["t"], 1)
            world.partitions.add(unopened)
            return unopened

        monkeypatch.setattr(world.replicas.hosting, "find", find)
        producer = await world.begin()
        assert await world.produce(producer, 1, version=version) == [ErrorCode.NONE]
        await world.end(producer, commit=True)
        assert world.kinds(1) == ["data", "commit"]

    run(scenario, tmp_path)


def test_when_the_answer_to_an_end_leaves_the_next_transaction_may_begin(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        for _ in range(20):
            assert await world.produce(producer, 0, 1, 2) == [0, 0, 0]
            producer = await world.end(producer, commit=True)
        assert producer[1] == 20

    run(scenario, tmp_path)


def test_a_batch_that_comes_after_its_transaction_ended_opens_no_new_one(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        await world.produce(producer, 0)
        await world.end(producer, commit=True)
        assert await world.produce(producer, 0, sequence=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert await world.produce(producer, 1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert world.kinds(1) == []
        assert not world.log(1).producers.verifications

    run(scenario, tmp_path)


@pytest.mark.parametrize("version", [9, 11])
def test_older_clients_must_have_added_the_partition(tmp_path: Path, version: int) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        refused = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
        assert await world.produce(producer, 0, version=version) == [refused]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        response = await world.ask(add_partitions_to_txn, request, 3)
        assert response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
        assert await world.produce(producer, 0, version=version) == [0]
        await world.end(producer, commit=True, version=4)
        assert world.kinds(0) == ["data", "commit"]
        assert await world.produce(producer, 0, version=version, sequence=1) == [refused]

    run(scenario, tmp_path)


def test_verification_may_be_switched_off_for_older_clients(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        assert await world.produce(producer, 0, version=9) == [0]

    run(scenario, tmp_path, transaction_partition_verification_enable="false")


def test_records_of_two_producers_are_refused(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        batches = [
            (index, bytes(build([Record(0, CLOCK, b"k", b"v")], producer_id=7 + index, producer_epoch=0,
                                base_sequence=0, is_transactional=True)))
            for index in (0, 1)
        ]  # fmt: skip
        assert await world.send(batches, 12) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2

    run(scenario, tmp_path)


def test_damaged_and_foreign_batches_are_refused_each_by_its_own_code(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        whole = bytes(
            build(
                [Record(0, CLOCK, b"k", b"v")],
                producer_id=producer[0],
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        )
        damaged = whole[:-2] + b"xx"
        codes = await world.send([(0, damaged), (1, b"short"), (2, whole), (77, whole)], 12)
        assert codes[:2] == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD]
        assert codes[2:] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await world.end(producer, commit=True)
        assert await world.state() == "CompleteCommit"

    run(scenario, tmp_path)


WAITS = TopicConfig(flush_messages=1)


def test_data_waits_until_the_coordinator_has_put_its_partition_on_disk(tmp_path: Path) -> None:
    """With flush.messages the coordinator answers later; the batch must outlive the buffer it came in."""

    async def scenario(world: World) -> None:
        producer = await world.begin()
        assert await world.produce(producer, 0, 1) == [0, 0]
        log = world.log(0)
        found = log.read(0, max_bytes=1000, end_offset=1)
        assert found is not None
        assert [record.value for record in read(found.read())] == [b"v"]
        producer = await world.end(producer, commit=True)
        assert await world.produce(producer, 0) == [0]

    run(scenario, tmp_path, state_topic=WAITS)


def test_what_the_coordinator_confirmed_no_longer_counts_after_a_marker(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        late = asyncio.ensure_future(world.produce(producer, 0))
        await asyncio.sleep(0)
        marker = WritableTxnMarker(
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        )
        response = await world.ask(write_txn_markers, WriteTxnMarkersRequest(markers=[marker]), 1)
        assert response.markers[0].topics[0].partitions[0].error_code == 0
        assert await late == [ErrorCode.NOT_ENOUGH_REPLICAS], "tried again, it learns how the transaction stands"
        assert world.kinds(0) == ["abort"]

    run(scenario, tmp_path, state_topic=WAITS)


def test_a_marker_that_cannot_be_written_is_tried_until_it_is(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        await world.produce(producer, 0, 1)
        world.log(1).is_offline = True
        following = await world.end(producer, commit=True)
        assert await world.state() == "PrepareCommit"
        assert await world.produce(following, 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        world.log(1).is_offline = False
        await world.reaches("CompleteCommit")
        assert [world.kinds(index) for index in (0, 1)] == [["data", "commit"]] * 2
        assert await world.produce(following, 0) == [0]

    run(scenario, tmp_path)


def test_a_batch_waits_a_little_for_the_markers_of_the_transaction_before(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        await world.produce(producer, 0, 1)
        world.log(1).is_offline = True
        following = await world.end(producer, commit=True)
        waiting = asyncio.ensure_future(world.produce(following, 0))
        await asyncio.sleep(0.01)
        world.log(1).is_offline = False
        assert await waiting == [0]

    run(scenario, tmp_path, add_partitions_to_txn_retry_backoff_max_ms="60000")


def test_batches_of_a_producer_that_wait_keep_their_order(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        await world.produce(producer, 0, 1)
        world.log(1).is_offline = True
        following = await world.end(producer, commit=True)
        first = asyncio.ensure_future(world.produce(following, 0))
        second = asyncio.ensure_future(world.produce(following, 0, sequence=1))
        await asyncio.sleep(0)
        world.log(1).is_offline = False
        await world.reaches("CompleteCommit")
        third = await world.produce(following, 0, sequence=2)
        assert [await first, await second, third] == [[0], [0], [0]]
        assert world.kinds(0) == ["data", "commit", "data", "data", "data"]
        assert not world.transactions.delayed_produces

    run(scenario, tmp_path, add_partitions_to_txn_retry_backoff_max_ms="60000")


def test_a_client_that_takes_over_keeps_a_prepared_transaction(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1, enable2_pc=True)
        begun = await world.ask(init_producer_id, request, 6)
        old = begun.producer_id, begun.producer_epoch
        await world.produce(old, 0, 1)
        world.restart()
        await asyncio.sleep(0.01)
        await world.reaches("Ongoing")
        request.keep_prepared_txn = True
        kept = await world.ask(init_producer_id, request, 6)
        assert (kept.error_code, kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == (0, *old)
        assert await world.produce(old, 2) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        following = await world.end((kept.producer_id, kept.producer_epoch), commit=True)
        assert [world.kinds(index) for index in (0, 1, 2)] == [["data", "commit"], ["data", "commit"], []]
        assert await world.produce(following, 2) == [0]

    run(scenario, tmp_path, transaction_two_phase_commit_enable="true")


def test_a_coordinator_that_reads_its_log_again_goes_on_with_its_markers(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        await world.produce(producer, 0, 1)
        world.log(1).is_offline = True
        await world.end(producer, commit=False)
        world.restart()
        world.log(1).is_offline = False
        await world.reaches("CompleteAbort")
        assert world.kinds(1) == ["data", "abort"]
        assert world.kinds(0)[:2] == ["data", "abort"]
        assert world.log(0).last_stable_offset == world.log(0).log_end_offset

    run(scenario, tmp_path)


def test_a_partition_that_was_deleted_meanwhile_counts_as_told(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        await world.produce(producer, 0, 1)
        del world.partitions.by_name["t"][1]
        del world.image.topics_by_name["t"].partitions[1]
        await world.end(producer, commit=True)
        assert await world.state() == "CompleteCommit"

    run(scenario, tmp_path)


@pytest.mark.parametrize("has_session", [False, True])
def test_a_reader_of_committed_records_is_woken_by_the_marker_and_not_by_the_data(
    tmp_path: Path, has_session: bool
) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        request = FetchRequest(
            max_wait_ms=5_000,
            min_bytes=1,
            isolation_level=1,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=IDS["t"], partitions=[FetchPartition(partition=0, partition_max_bytes=9999)])],
        )
        if has_session:
            request.max_wait_ms = request.session_epoch = 0
            opened = world.fetch(request)
            request = FetchRequest(isolation_level=1, session_id=opened.session_id, session_epoch=1)
            world.fetch(request)
            request.session_epoch, request.max_wait_ms, request.min_bytes = 2, 5_000, 1
        waiting = world.fetch(request)
        assert isinstance(waiting, asyncio.Future)
        await world.produce(producer, 0)
        await asyncio.sleep(0)
        assert not waiting.done()
        await world.end(producer, commit=True)
        row = (await waiting).responses[0].partitions[0]
        assert row.last_stable_offset == 2
        assert row.records is not None
        assert len(split(memoryview(row.records.read()))) == 2

    run(scenario, tmp_path)


def test_offsets_of_a_group_count_from_the_marker_on(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        assert await world.commit_offset(producer, 5) == [0]
        assert world.committed_offset() is None
        producer = await world.end(producer, commit=True)
        assert world.committed_offset() == 5
        assert await world.commit_offset(producer, 9) == [0]
        await world.end(producer, commit=False)
        assert world.committed_offset() == 5
        assert world.kinds(world.groups.partition_for("g"), OFFSETS) == ["data", "commit", "data", "abort"]

    run(scenario, tmp_path)


def test_offsets_are_committed_by_the_id_of_the_topic(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        assert await world.commit_offset(producer, 5, 6, topic_id=b"?" * 16) == [ErrorCode.UNKNOWN_TOPIC_ID]
        assert await world.commit_offset(producer, 5, 6, topic_id=IDS["t"]) == [0]
        await world.end(producer, commit=True)
        assert world.committed_offset() == 5

    run(scenario, tmp_path)


def test_offsets_of_an_old_producer_are_refused_and_leave_the_shard_as_it_is(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        old = await world.begin()
        await world.commit_offset(old, 5)
        new = await world.end(old, commit=True)
        shard = world.groups.shard(world.groups.partition_for("g"))
        for version in (3, 5):
            assert await world.commit_offset(old, 7, version) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert await world.commit_offset((-1, -1), 7) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert world.groups.shard(world.groups.partition_for("g")) is shard
        assert world.committed_offset() == 5
        assert await world.commit_offset(new, 8, version=3) == [ErrorCode.INVALID_TXN_STATE]
        request = AddOffsetsToTxnRequest(transactional_id="x", producer_id=new[0], producer_epoch=new[1], group_id="g")
        assert (await world.ask(add_offsets_to_txn, request, 3)).error_code == 0
        assert await world.commit_offset(new, 8, version=3) == [0]

    run(scenario, tmp_path)


def test_offsets_wait_for_a_coordinator_that_answers_later(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        assert await world.commit_offset(producer, 5) == [0]
        await world.end(producer, commit=True)
        assert world.committed_offset() == 5

    run(scenario, tmp_path, state_topic=WAITS)


def test_offsets_whose_coordinator_is_silent_are_to_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        place = TopicPartition(OFFSETS, world.groups.partition_for("g"))
        with monkeypatch.context() as patched:
            patched.setattr(world.transactions, "admit", lambda request: {place: ErrorCode.NETWORK_EXCEPTION})
            assert await world.commit_offset(producer, 5) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        assert await world.commit_offset(producer, 5) == [0]

    run(scenario, tmp_path)


def test_a_node_without_producer_ids_gets_some_first(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.producer_ids.has_none = True
        assert await world.begin() == (1001, 0)
        world.producer_ids.has_none = True
        request = InitProducerIdRequest(transactional_id=None)
        assert (await world.ask(init_producer_id, request, 1)).producer_id == 1002
        world.producer_ids.has_none = True
        await world.produce((1001, 0), 0)
        assert await world.end((1001, 0), commit=True) == (1001, 1)

    run(scenario, tmp_path)


def test_transactions_are_listed_by_pattern(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        for name in ("one", "two", "three"):
            await world.begin(name)

        async def listed(pattern: str | None) -> tuple[int, list[str]]:
            request = ListTransactionsRequest(transactional_id_pattern=pattern)
            response = await world.ask(list_transactions, request, 2)
            return response.error_code, [state.transactional_id for state in response.transaction_states]

        assert await listed(None) == (0, ["one", "two", "three"])
        assert await listed("t.*") == (0, ["two", "three"])
        assert await listed("t") == (0, [])
        assert await listed("(") == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])
        assert await world.state("nobody") == "TRANSACTIONAL_ID_NOT_FOUND"

    run(scenario, tmp_path)


def test_transactions_are_counted_by_state_and_outcome(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        register_transaction_metrics(world.transactions)
        producer = await world.begin()
        await world.produce(producer, 0)
        lines = world.metrics.render().splitlines()
        assert 'ottla_transactional_ids{state="Ongoing"} 1' in lines
        assert "kafka_server_replicamanager_partitionswithlatetransactionscount 0" in lines
        await world.end(producer, commit=True)
        await world.produce(producer, 0)
        world.transactions.stop()
        lines = world.metrics.render().splitlines()
        assert 'ottla_transactions_total{outcome="committed"} 1' in lines
        assert 'ottla_transactions_total{outcome="aborted"} 0' in lines
        assert "kafka_server_addpartitionstotxnmanager_verificationfailures_total 1" in lines

    run(scenario, tmp_path)


def test_a_marker_of_an_administrator_ends_a_hanging_transaction(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        producer = await world.begin()
        await world.produce(producer, 0)
        marker = WritableTxnMarker(
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 9])],
        )
        response = await world.ask(write_txn_markers, WriteTxnMarkersRequest(markers=[marker]), 1)
        rows = response.markers[0].topics[0].partitions
        assert [row.error_code for row in rows] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert world.log(0).last_stable_offset == 2

    run(scenario, tmp_path)
