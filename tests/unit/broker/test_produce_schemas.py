"""Produce to a topic whose records have to name a registered schema: the real room, a registry made of a dict."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from ottla.broker.apis.produce import produce
from ottla.broker.apis.produce_frame import produce_frame
from ottla.broker.caller import Caller
from ottla.broker.replicas.schema_lookup import RegistryUnavailable
from ottla.broker.replicas.schema_validation import MAX_LOOKUPS, SchemaValidation
from ottla.broker.serving.quotas import Quotas
from ottla.config import TopicConfig
from ottla.records import Compression, Record, build
from ottla.validation import Facts, SchemaName
from ottla.wire import encode_bytes
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.unit.broker.rooms import (
    CLIENT,
    CLOCK,
    TimedGround,
    add_topic,
    make_groups,
    make_replicas,
    make_transactions,
    run_timed,
)

ID = bytes(range(16))
GUID = b"g" * 16
ORDERS = Facts(frozenset(["t-value"]), "Order")


class World:
    """A topic `t` of two partitions and `free`, without validation; `facts` is what the registry has."""

    def __init__(self, path: Path, settings: dict[str, Any] | None = None, **broker: str) -> None:
        self.ground = TimedGround(path, **broker)
        self.replicas = make_replicas(self.ground)
        self.facts: dict[SchemaName, Facts] = {7: ORDERS, GUID: ORDERS}
        self.asked: list[SchemaName] = []
        self.is_up = True
        self.delay_ms = 5
        self.at_once = self.most_at_once = 0
        config = TopicConfig(**(settings or {"confluent_value_schema_validation": True}))
        add_topic(self.replicas, "t", ID, 2, config)
        add_topic(self.replicas, "free", bytes(16), 1)
        self.replicas.schemas = SchemaValidation(self.ground, self.look_up)
        self.transactions = make_transactions(self.ground, self.replicas, make_groups(self.ground, self.replicas))
        self.quotas = Quotas()

    async def look_up(self, schema: SchemaName) -> Facts | None:
        self.asked.append(schema)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.delay_ms / 1000)
        self.at_once -= 1
        if not self.is_up:
            raise RegistryUnavailable("the registry http://127.0.0.1:8081 does not answer")
        return self.facts.get(schema)

    def start(self, *batches: bytes, topic: str = "t", acks: int = 1) -> tuple[Any, Caller]:
        """What the handler gives for these batches, one for each partition."""
        caller = Caller("app", CLIENT, 0, 12)
        message = request(*batches, topic=topic, acks=acks)
        answer = produce(message, self.ground, self.replicas, self.transactions, self.quotas, caller)
        return answer, caller

    async def produce(self, *batches: bytes, **settings: Any) -> list[PartitionProduceResponse]:
        answer, _ = self.start(*batches, **settings)
        if isinstance(answer, asyncio.Future):
            answer = await answer
        assert isinstance(answer, ProduceResponse)
        return answer.responses[0].partition_responses

    def by_frame(self, *batches: bytes) -> bytes | None:
        frame = memoryview(bytearray(encode_bytes(request(*batches), 12)))
        answer = produce_frame(frame, 0, 12, 1, (self.ground, self.replicas, self.quotas))
        assert answer is None or isinstance(answer, bytes)
        return answer

    def end(self, index: int = 0) -> int:
        return self.replicas.partitions.by_name["t"][index].log.log_end_offset


def request(*batches: bytes, topic: str = "t", acks: int = 1) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=memoryview(bytearray(one))) for index, one in enumerate(batches)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)


def framed(schema: int) -> bytes:
    return pack(">bI", 0, schema) + b"payload"


def batch(*values: bytes | None, key: bytes | None = None, **settings: Any) -> bytes:
    return bytes(build([Record(0, CLOCK, key, value, ()) for value in values], **settings))


def run(scenario: Coroutine[Any, Any, None]) -> None:
    run_timed(scenario)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_a_record_with_an_unknown_schema_is_refused_and_named(tmp_path: Path, codec: Compression) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        good = batch(framed(7), None, compression=codec)
        rows = await world.produce(batch(framed(7), framed(9), b"plain", framed(9), compression=codec), good)
        assert [row.error_code for row in rows] == [ErrorCode.INVALID_RECORD, ErrorCode.NONE]
        assert [one.batch_index for one in rows[0].record_errors] == [1, 2, 3]
        reasons = [one.batch_index_error_message or "" for one in rows[0].record_errors]
        assert "schema id 9, which is not registered under the subject t-value" in reasons[0]
        assert "names no schema" in reasons[1]
        assert "One or more records have been rejected due to 3 record errors" in (rows[0].error_message or "")
        assert (world.end(0), world.end(1)) == (0, 2)

    run(scenario())


def test_the_registry_is_asked_once_and_then_the_frame_is_enough(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        assert world.by_frame(batch(framed(7))) is None
        rows = await world.produce(batch(framed(7)))
        assert rows[0].error_code == 0 and world.end() == 1
        assert world.by_frame(batch(framed(7), None)) is not None
        assert world.by_frame(batch(framed(9))) is None
        assert world.asked == [7] and world.end() == 3

    run(scenario())


def test_a_topic_without_validation_asks_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        answer, caller = world.start(batch(b"anything"), topic="free")
        assert isinstance(answer, ProduceResponse) and caller.done_in_order is None
        assert world.asked == []

    run(scenario())


def test_the_connection_waits_for_the_registry_and_no_other_does(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        world.delay_ms = 1_000
        before = world.ground.now()
        answer, caller = world.start(batch(framed(7)))
        assert caller.done_in_order is not None and not caller.done_in_order.done()
        assert (await world.produce(batch(b"x"), topic="free"))[0].error_code == 0
        assert world.ground.now() == before, "the other request did not wait"
        response = await answer
        assert caller.done_in_order.done() and response.responses[0].partition_responses[0].error_code == 0

    run(scenario())


def test_a_missing_schema_is_asked_for_again_after_a_while(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, confluent_missing_id_cache_ttl_sec="2")
        del world.facts[7]
        for _ in range(3):
            assert (await world.produce(batch(framed(7))))[0].error_code == ErrorCode.INVALID_RECORD
        assert world.asked == [7]
        world.facts[7] = ORDERS
        await asyncio.sleep(2)
        assert (await world.produce(batch(framed(7))))[0].error_code == 0

    run(scenario())


def test_a_registry_that_does_not_answer_refuses_so_that_producers_try_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        assert (await world.produce(batch(framed(7))))[0].error_code == 0
        world.is_up = False
        rows = await world.produce(batch(framed(8)), batch(framed(7)))
        assert [row.error_code for row in rows] == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE]
        assert "http://127.0.0.1:8081 does not answer" in (rows[0].error_message or "")
        assert (await world.produce(batch(framed(8))))[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert world.asked == [7, 8], "not asked again at once"
        await asyncio.sleep(700)
        assert (await world.produce(batch(framed(7))))[0].error_code == 0, "what was known stays known"
        world.is_up = True
        world.facts[8] = ORDERS
        await asyncio.sleep(1)
        assert (await world.produce(batch(framed(8))))[0].error_code == 0
        rows = await world.produce(batch(b"no schema at all"))
        assert rows[0].error_code == ErrorCode.INVALID_RECORD, "what needs no registry is refused"

    run(scenario())


def test_a_registry_that_does_not_answer_accepts_if_the_setting_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, ottla_schema_registry_unavailable="accept")
        world.is_up = False
        assert (await world.produce(batch(framed(8))))[0].error_code == 0
        assert (await world.produce(batch(b"plain")))[0].error_code == ErrorCode.INVALID_RECORD

    run(scenario())


def test_a_registry_that_never_answers_costs_a_bounded_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        world.delay_ms = 1_000_000
        before = world.ground.now()
        rows = await world.produce(batch(framed(8)))
        assert rows[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert world.ground.now() - before == 10_000
        for task in world.ground.tasks:
            task.cancel()
        await asyncio.sleep(0)

    run(scenario())


def test_many_made_up_schemas_are_asked_for_few_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        rows = await world.produce(batch(*(framed(index) for index in range(100, 200))))
        assert rows[0].error_code == ErrorCode.INVALID_RECORD and len(rows[0].record_errors) == 100
        assert world.most_at_once == MAX_LOOKUPS and len(world.asked) == 100
        rows = await world.produce(batch(*(framed(index) for index in range(1_000, 2_000))))
        assert rows[0].error_code == ErrorCode.INVALID_RECORD
        assert "more than 100 schemas" in (rows[0].error_message or "")
        assert len(world.asked) == 100, "nothing was asked"

    run(scenario())


def test_requests_that_wait_for_one_schema_share_the_question(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        answers = await asyncio.gather(*(world.produce(batch(framed(7))) for _ in range(10)))
        assert all(rows[0].error_code == 0 for rows in answers) and world.asked == [7]

    run(scenario())


def test_a_client_that_leaves_takes_nothing_from_the_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        left, caller = world.start(batch(framed(7)))
        other = asyncio.ensure_future(world.produce(batch(framed(7))))
        await asyncio.sleep(0)
        left.cancel()
        assert (await other)[0].error_code == 0
        assert caller.done_in_order is not None and caller.done_in_order.done()
        assert world.end() == 1

    run(scenario())


def test_keys_and_guids(tmp_path: Path) -> None:
    async def scenario() -> None:
        both = {"confluent_value_schema_validation": True, "confluent_key_schema_validation": True}
        world = World(tmp_path, both)
        world.facts[3] = Facts(frozenset(["t-key"]), None)
        assert (await world.produce(batch(b"\1" + GUID, framed(7), key=framed(3))))[0].error_code == 0
        rows = await world.produce(batch(framed(7), key=framed(7)))
        assert "the key names schema id 7" in (rows[0].record_errors[0].batch_index_error_message or "")
        assert (await world.produce(batch(framed(7))))[0].error_code == 0, "a null key needs no schema"

    run(scenario())


def test_a_damaged_batch_is_answered_as_ever(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        good = batch(framed(7))
        await world.produce(good)
        flipped = bytearray(good)
        flipped[-8] ^= 1  # another id: the CRC tells
        assert (await world.produce(bytes(flipped)))[0].error_code == ErrorCode.CORRUPT_MESSAGE
        assert (await world.produce(good[:-1]))[0].error_code == ErrorCode.INVALID_RECORD
        assert (await world.produce(b""))[0].error_code == ErrorCode.INVALID_RECORD
        trailing = batch(framed(9)) + b"\0" * 5
        assert (await world.produce(trailing))[0].error_code == ErrorCode.INVALID_RECORD
        assert world.end() == 1

    run(scenario())


def test_without_a_registry_the_answer_says_which_setting_is_missing(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        world.replicas.schemas = SchemaValidation(world.ground)
        rows = await world.produce(batch(framed(7)))
        assert rows[0].error_code == ErrorCode.INVALID_RECORD
        assert "confluent.schema.registry.url is not set" in (rows[0].error_message or "")

    run(scenario())


def test_acks_0_waits_without_an_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        answer, caller = world.start(batch(framed(7)), acks=0)
        assert await answer is None and not caller.is_refused and world.end() == 1
        answer, caller = world.start(batch(framed(9)), acks=0)
        assert await answer is None and caller.is_refused

    run(scenario())


def test_a_schema_that_is_registered_under_a_second_subject_counts_there_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        both = {"confluent_value_schema_validation": True, "confluent_key_schema_validation": True}
        world = World(tmp_path, both)
        assert (await world.produce(batch(framed(7))))[0].error_code == 0
        world.facts[7] = Facts(frozenset(["t-value", "t-key"]), None)
        assert (await world.produce(batch(framed(7), key=framed(7))))[0].error_code == 0

    run(scenario())


def test_an_answer_that_was_on_its_way_does_not_refuse_what_was_registered_since(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        del world.facts[7]
        early = asyncio.ensure_future(world.produce(batch(framed(7))))
        await asyncio.sleep(0.004)
        late = asyncio.ensure_future(world.produce(batch(framed(7))))
        await asyncio.sleep(0.0015)
        world.facts[7] = ORDERS
        assert (await early)[0].error_code == ErrorCode.INVALID_RECORD
        assert (await late)[0].error_code == 0

    run(scenario())
