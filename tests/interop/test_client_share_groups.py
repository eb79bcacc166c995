"""Our share consumer (KIP-932) and the share part of our admin client, against a real broker.

The same tests run against Apache Kafka and against an Ottla node.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ottla.client import AcknowledgeType, Producer, ShareConsumer, ShareRecord, TopicPartition, blocking
from ottla.client.admin import Admin, ConfigChange, ConfigResource, NewTopic, ResourceType
from ottla.client.errors import DeserializationFailed, KafkaError
from tests.interop.servers import Kafka, Ottla, Server, kafka_anchor

ALL = os.environ.get("OTTLA_INTEROP_ALL") == "1"
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType

pytestmark = pytest.mark.skipif(not ALL, reason="starts a JVM: OTTLA_INTEROP_ALL=1")


@pytest.fixture(scope="module", params=["kafka", "ottla"])
def share_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(request.param) / "data"
    server: Server
    if request.param == "kafka":
        if kafka_anchor() is None:
            pytest.skip("no Apache Kafka at hand")
        server = Kafka(folder)
    else:
        server = Ottla(folder)
    server.start()
    try:
        if not asyncio.run(serves_share_groups(server.bootstrap)):
            pytest.skip("this broker does not serve share groups")
        yield server
    finally:
        server.stop()


@pytest.fixture
def offsets_broker(share_broker: Server) -> Server:
    """A broker that also serves the offsets of share groups."""

    async def is_serving() -> bool:
        async with Admin(bootstrap_servers=share_broker.bootstrap) as admin:
            try:
                await admin.list_share_group_offsets("none")
            except KafkaError as error:
                return error.code.name != "UNSUPPORTED_VERSION"
        return True

    if not asyncio.run(is_serving()):
        pytest.skip("this broker does not serve the offsets of share groups")
    return share_broker


async def serves_share_groups(bootstrap: str) -> bool:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        try:
            await admin.describe_share_groups(["none"])
        except KafkaError as error:
            return error.code.name not in ("UNSUPPORTED_VERSION", "NETWORK_EXCEPTION")
    return True


def run(test: Callable[[Server, str], Coroutine[Any, Any, None]]) -> Callable[[Server, str], None]:
    """A test that is a coroutine, on an event loop of its own."""

    def wrapped(share_broker: Server, topic: str) -> None:
        asyncio.run(test(share_broker, topic))

    wrapped.__name__ = test.__name__
    return wrapped


@asynccontextmanager
async def queue(bootstrap: str, name: str, values: list[bytes], partitions: int = 1) -> AsyncIterator[Admin]:
    """A topic and a share group of one name that reads it from the beginning."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics([NewTopic(name, partitions)])
        change = ConfigChange("share.auto.offset.reset", "earliest")
        await admin.alter_configs({ConfigResource(ResourceType.GROUP, name): [change]})
        await produce(bootstrap, name, values)
        yield admin


async def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send(topic, value)
        await producer.flush()


def consumer(bootstrap: str, group: str, **settings: Any) -> ShareConsumer[Any, Any]:
    made: ShareConsumer[Any, Any] = ShareConsumer(bootstrap_servers=bootstrap, group_id=group, **settings)
    made.subscribe([group])
    return made


async def polled(
    one: ShareConsumer[Any, Any], is_done: Callable[[list[ShareRecord[Any, Any]]], bool], seconds: float = 60
) -> list[ShareRecord[Any, Any]]:
    """Records until there are enough of them."""
    records: list[ShareRecord[Any, Any]] = []
    ends_at = time.monotonic() + seconds
    while not is_done(records):
        assert time.monotonic() < ends_at, f"only {len(records)} records came"
        records += await one.poll(1_000)
    return records


def enough(count: int) -> Callable[[list[Any]], bool]:
    return lambda records: len(records) >= count


VALUES = [b"%d" % number for number in range(100)]


@pytest.mark.usefixtures("offsets_broker")
@run
async def test_implicit_acknowledgement_accepts_with_the_next_poll(share_broker: Server, topic: str) -> None:
    bootstrap = share_broker.bootstrap
    async with queue(bootstrap, topic, VALUES, partitions=3) as admin:
        async with consumer(bootstrap, topic, max_poll_records=7) as one:
            records = await polled(one, enough(100))
            assert sorted(record.value for record in records) == sorted(VALUES)
            assert {record.delivery_count for record in records} == {1}
            assert one.acquisition_lock_timeout_ms() == 30_000
            assert not any((await one.commit_sync()).values())
            described = (await admin.describe_share_groups([topic]))[topic]
            assert (described.type, described.state) == ("share", "Stable")
            assert described.members[0].subscribed_topics == (topic,)
            assert len(described.members[0].assignment) == 3
        offsets = await admin.list_share_group_offsets(topic)
        assert {at.lag for at in offsets.values()} <= {0, None}
        listed = await admin.list_groups(types=["share"])
        assert topic in [group.group_id for group in listed if group.type.lower() == "share"]
        described = (await admin.describe_share_groups([topic]))[topic]
        assert (described.state, described.members) == ("Empty", ())


@run
async def test_what_is_not_acknowledged_is_released_by_close(share_broker: Server, topic: str) -> None:
    bootstrap = share_broker.bootstrap
    async with queue(bootstrap, topic, VALUES):
        async with consumer(bootstrap, topic) as one:
            await polled(one, enough(100))
        async with consumer(bootstrap, topic) as two:
            records = await polled(two, enough(100))
            assert {record.delivery_count for record in records} == {2}


@run
async def test_explicit_acknowledgement_of_every_kind(share_broker: Server, topic: str) -> None:
    bootstrap = share_broker.bootstrap
    async with queue(bootstrap, topic, VALUES):
        answered: list[int] = []
        async with consumer(bootstrap, topic, share_acknowledgement_mode="explicit") as one:
            one.set_acknowledgement_commit_callback(
                lambda offsets, error: answered.extend(*offsets.values()) if error is None else None
            )
            for record in await polled(one, enough(100)):
                one.acknowledge(record, (ACCEPT, RELEASE, REJECT, RENEW)[record.offset % 4])
            assert await one.commit_sync() == {TopicPartition(topic, 0): None}
            assert len(answered) == 100
            renewed = await one.poll(5_000)
            assert [record.offset % 4 for record in renewed] == [3] * 25
            for record in renewed:
                one.acknowledge(record)
            released = await polled(one, enough(25))
            assert [(record.offset % 4, record.delivery_count) for record in released] == [(1, 2)] * 25
            for record in released:
                one.acknowledge(record)
            assert not any((await one.commit_sync()).values())
            await produce(bootstrap, topic, [b"last"])
            (last,) = await polled(one, enough(1))
            assert last.value == b"last"
            one.acknowledge(last)


@run
async def test_misuse_is_an_error(share_broker: Server, topic: str) -> None:
    bootstrap = share_broker.bootstrap
    async with queue(bootstrap, topic, VALUES[:2]):
        async with consumer(bootstrap, topic) as one:
            records = await polled(one, enough(2))
            with pytest.raises(RuntimeError, match="Implicit acknowledgement"):
                one.acknowledge(records[0])
        async with consumer(bootstrap, topic, share_acknowledgement_mode="explicit") as one:
            records = await polled(one, enough(2))
            with pytest.raises(RuntimeError, match="All records must be acknowledged"):
                await one.poll(10)
            for record in records:
                one.acknowledge(record)
            await one.commit_sync()
            with pytest.raises(KafkaError, match="cannot be acknowledged"):
                one.acknowledge(records[0])


@run
async def test_a_record_that_is_released_too_often_is_not_delivered_again(share_broker: Server, topic: str) -> None:
    bootstrap = share_broker.bootstrap
    async with (
        queue(bootstrap, topic, [b"poison"]),
        consumer(bootstrap, topic, share_acknowledgement_mode="explicit") as one,
    ):
        counts = []
        for _ in range(5):
            (record,) = await polled(one, enough(1))
            counts.append(record.delivery_count)
            one.acknowledge(record, RELEASE)
        assert counts == [1, 2, 3, 4, 5]
        assert await one.poll(2_000) == []


@run
async def test_record_limit_is_strict(share_broker: Server, topic: str) -> None:
    bootstrap = share_broker.bootstrap
    async with (
        queue(bootstrap, topic, VALUES),
        consumer(bootstrap, topic, share_acquire_mode="record_limit", max_poll_records=9) as one,
    ):
        seen = 0
        ends_at = time.monotonic() + 60
        while seen < 100 and time.monotonic() < ends_at:
            records = await one.poll(1_000)
            assert len(records) <= 9
            seen += len(records)
        assert seen == 100


@run
async def test_two_members_share_one_partition(share_broker: Server, topic: str) -> None:
    bootstrap = share_broker.bootstrap
    async with (
        queue(bootstrap, topic, []),
        consumer(bootstrap, topic, share_acquire_mode="record_limit", max_poll_records=5) as one,
        consumer(bootstrap, topic, share_acquire_mode="record_limit", max_poll_records=5) as two,
    ):
        await asyncio.gather(one.poll(3_000), two.poll(3_000))
        await produce(bootstrap, topic, VALUES)
        seen: dict[int, list[bytes]] = {1: [], 2: []}

        async def work(number: int, member: ShareConsumer[Any, Any]) -> None:
            ends_at = time.monotonic() + 60
            while len(seen[1]) + len(seen[2]) < 100 and time.monotonic() < ends_at:
                seen[number] += [record.value for record in await member.poll(500)]

        await asyncio.gather(work(1, one), work(2, two))
        assert sorted(seen[1] + seen[2]) == sorted(VALUES)
        assert seen[1] and seen[2]


@run
async def test_a_record_that_cannot_be_deserialized_is_released_or_what_is_said_of_it(
    share_broker: Server, topic: str
) -> None:
    bootstrap = share_broker.bootstrap
    async with (
        queue(bootstrap, topic, [b"1", b"x", b"3"]),
        consumer(
            bootstrap, topic, value_deserializer=int, share_acknowledgement_mode="explicit", max_poll_records=10
        ) as one,
    ):
        (first,) = await polled(one, enough(1))
        one.acknowledge(first)
        with pytest.raises(DeserializationFailed) as raised:
            await one.poll(1_000)
        assert raised.value.offset == 1
        one.acknowledge_offset(*raised.value.partition, raised.value.offset, REJECT)
        (third,) = await one.poll(1_000)
        assert (first.value, third.value) == (1, 3)
        one.acknowledge(third)
        assert await one.poll(1_500) == []


@pytest.mark.usefixtures("offsets_broker")
@run
async def test_offsets_of_a_group_are_altered_and_deleted(share_broker: Server, topic: str) -> None:
    bootstrap = share_broker.bootstrap
    place = TopicPartition(topic, 0)
    async with queue(bootstrap, topic, VALUES) as admin:
        async with consumer(bootstrap, topic) as one:
            await polled(one, enough(100))
            await one.commit_sync()
        await admin.alter_share_group_offsets(topic, {place: 90})
        assert (await admin.list_share_group_offsets(topic, [place]))[place].start_offset == 90
        async with consumer(bootstrap, topic) as one:
            assert [record.offset for record in await polled(one, enough(10))] == list(range(90, 100))
        await admin.delete_share_group_offsets(topic, [topic])
        assert place not in await admin.list_share_group_offsets(topic)
        await admin.delete_share_groups([topic])
        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            await admin.describe_share_groups([topic])


def test_the_blocking_twin(share_broker: Server, topic: str) -> None:
    bootstrap = share_broker.bootstrap

    async def prepare() -> None:
        async with queue(bootstrap, topic, VALUES[:3]):
            pass

    asyncio.run(prepare())
    with blocking.ShareConsumer(
        bootstrap_servers=bootstrap, group_id=topic, share_acknowledgement_mode="explicit"
    ) as one:
        one.subscribe([topic])
        values = []
        for record in one:
            one.acknowledge(record, ACCEPT)
            values.append(record.value)
            if len(values) == 3:
                break
        assert values == VALUES[:3]
        assert not any(one.commit_sync().values())
