"""aiokafka's transactional producer: a client of the first version of the protocol, which adds partitions itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.interop.servers import Server

aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed")
aiokafka_admin = pytest.importorskip("aiokafka.admin", reason="aiokafka is not installed")
aiokafka_errors = pytest.importorskip("aiokafka.errors", reason="aiokafka is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # the client's own deprecations

TopicPartition = aiokafka.TopicPartition


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 200))


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    await client.start()
    try:
        yield client
    finally:
        await (client.close() if hasattr(client, "close") else client.stop())


def producer(broker: Server, name: str, **settings: Any) -> Any:
    return started(
        aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=name, linger_ms=1, **settings)
    )


def consumer(broker: Server, *topics: str, committed: bool = True, **settings: Any) -> Any:
    return started(
        aiokafka.AIOKafkaConsumer(
            *topics,
            bootstrap_servers=broker.bootstrap,
            isolation_level="read_committed" if committed else "read_uncommitted",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        )
    )


async def eventually(ask: Callable[[], Awaitable[Any]], expected: Any) -> None:
    for _ in range(1_200):
        if (answer := await ask()) == expected:
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"still {answer}")


async def create(broker: Server, topic: str, partitions: int = 1) -> str:
    async with started(aiokafka_admin.AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)) as client:
        await client.create_topics([aiokafka_admin.NewTopic(topic, partitions, 1)])
    return topic


async def read(broker: Server, topic: str, partition: int = 0, *, committed: bool = True) -> list[str]:
    """All values up to the end that this isolation sees."""
    place = TopicPartition(topic, partition)
    async with consumer(broker, committed=committed) as client:
        client.assign([place])
        await client.seek_to_beginning(place)
        (end,) = (await client.end_offsets([place])).values()
        values: list[str] = []
        while await client.position(place) < end:
            for messages in (await client.getmany(timeout_ms=200)).values():
                values += [message.value.decode() for message in messages]
        return values


def test_commits_and_aborts_are_told_apart_by_readers(transaction_broker: Server, topic: str) -> None:
    async def work() -> None:
        await create(transaction_broker, topic, 2)
        async with producer(transaction_broker, topic) as client:
            for number in range(6):
                await client.begin_transaction()
                for partition in range(2):
                    await client.send_and_wait(topic, b"%d" % number, partition=partition)
                await (client.abort_transaction() if number % 2 else client.commit_transaction())
            await client.begin_transaction()
            await client.send_and_wait(topic, b"open", partition=0)
            assert await read(transaction_broker, topic) == ["0", "2", "4"]
            assert await read(transaction_broker, topic, committed=False) == [*map(str, range(6)), "open"]
            await client.commit_transaction()
        assert await read(transaction_broker, topic, 1) == ["0", "2", "4"]
        assert await read(transaction_broker, topic) == ["0", "2", "4", "open"]

    run(work())


def test_a_zombie_is_fenced(transaction_broker: Server, topic: str) -> None:
    async def work() -> None:
        await create(transaction_broker, topic)
        old = aiokafka.AIOKafkaProducer(bootstrap_servers=transaction_broker.bootstrap, transactional_id=topic)
        await old.start()
        try:
            await old.begin_transaction()
            await old.send_and_wait(topic, b"of the old one")
            async with producer(transaction_broker, topic) as new:
                with pytest.raises(aiokafka_errors.ProducerFenced):
                    await old.send_and_wait(topic, b"too late")
                    await old.commit_transaction()
                async with new.transaction():
                    await new.send(topic, b"of the new one")
        finally:
            await old.stop()
        assert await read(transaction_broker, topic) == ["of the new one"]

    run(work())


def test_offsets_are_committed_with_the_records(transaction_broker: Server, topic: str) -> None:
    async def work() -> None:
        source = await create(transaction_broker, f"{topic}-in")
        sink = await create(transaction_broker, f"{topic}-out")
        place, group = TopicPartition(source, 0), f"{topic}-group"
        async with producer(transaction_broker, f"{topic}-filler") as filler, filler.transaction():
            for number in range(40):
                await filler.send(source, b"%d" % number)
        async with (
            producer(transaction_broker, topic) as client,
            consumer(transaction_broker, source, group_id=group) as reader,
        ):
            copied, rounds = 0, 0  # the filler's records have the offsets 0 to 39
            while copied < 40:
                messages = [
                    each for batch in (await reader.getmany(timeout_ms=1000, max_records=10)).values() for each in batch
                ]
                if not messages:
                    continue
                rounds += 1
                await client.begin_transaction()
                for message in messages:
                    await client.send(sink, message.value)
                await client.send_offsets_to_transaction({place: messages[-1].offset + 1}, group)
                if rounds % 3 == 2:
                    await client.abort_transaction()
                    reader.seek(place, copied)
                else:
                    await client.commit_transaction()
                    copied += len(messages)
            await eventually(lambda: reader.committed(place), 40)  # the marker may come after the answer
            assert rounds > 4
        assert await read(transaction_broker, sink) == [str(number) for number in range(40)]

    run(work())


def test_a_transaction_that_takes_too_long_is_aborted(transaction_broker: Server, topic: str) -> None:
    async def was_written(name: str, transaction_timeout_ms: int) -> bool:
        """Whether the record came before its transaction was over; then everything is as it should be."""
        await create(transaction_broker, name)
        client = aiokafka.AIOKafkaProducer(
            bootstrap_servers=transaction_broker.bootstrap,
            transactional_id=name,
            transaction_timeout_ms=transaction_timeout_ms,
        )
        await client.start()
        try:
            await client.begin_transaction()
            try:
                await client.send_and_wait(name, b"slow")
            except aiokafka_errors.KafkaError:
                return False
            async with consumer(transaction_broker) as reader:
                place = TopicPartition(name, 0)
                await eventually(lambda: reader.end_offsets([place]), {place: 2})
            with pytest.raises(aiokafka_errors.KafkaError):
                await client.commit_transaction()
        finally:
            await client.stop()
        assert await read(transaction_broker, name) == []
        return True

    async def work() -> None:
        if not await was_written(topic, 500):
            assert await was_written(f"{topic}-patient", 30_000)

    run(work())
