"""When the next fetch leaves: after the application has its few records if it waits for them, after a pause if the
records are damaged, at once otherwise."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client.config import ConsumerConfig
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.subscription import OffsetReset, Subscription
from ottla.client.fetcher import Fetcher
from ottla.client.metadata import Metadata
from ottla.records import Record, build
from ottla.wire.errors import KafkaError
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

PARTITION = TopicPartition("t", 0)


class OneBroker:
    """What a fetcher knows of a cluster: one broker that answers when the test says so."""

    metadata = Metadata()

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[FetchResponse]] = []
        self.offsets: asyncio.Queue[int] = asyncio.Queue()
        """Where each fetch began."""

    def leader(self, topic: str, partition: int) -> int:
        return 1

    def begin(self, node_id: int, request: FetchRequest, **_: Any) -> asyncio.Future[FetchResponse]:
        self.offsets.put_nowait(request.topics[0].partitions[0].fetch_offset)
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]

    def answer(self, value: bytes, *, is_damaged: bool = False) -> None:
        records = build([Record(0, 0, None, value)])
        records[-1] ^= is_damaged
        data = PartitionData(partition_index=0, high_watermark=1, last_stable_offset=1, records=memoryview(records))
        topic = FetchableTopicResponse(topic=PARTITION.topic, partitions=[data])
        self.answers[-1].set_result(FetchResponse(responses=[topic]))


@pytest.mark.parametrize(
    ("size", "is_awaited", "gives_way"), [(10, True, True), (10, False, False), (60_000, True, False)]
)
def test_few_records_that_are_waited_for_are_handed_out_before_the_next_fetch(
    size: int, is_awaited: bool, gives_way: bool
) -> None:
    async def run() -> None:
        subscription = Subscription(OffsetReset.parse("earliest"))
        subscription.assign([PARTITION])
        subscription.assigned[PARTITION].seek(0)
        broker, woken = OneBroker(), asyncio.Event()
        config = ConsumerConfig.parse({"bootstrap.servers": "x:1"})
        fetcher = Fetcher(broker, config, subscription, woken.set)  # type: ignore[arg-type]
        fetcher.pump()
        fetcher.is_awaited = is_awaited
        broker.answer(bytes(size))
        await woken.wait()
        assert (fetcher.gives_way, len(broker.answers)) == (gives_way, 1 if gives_way else 2)
        assert [len(record.value or b"") for record in subscription.collect(10)] == [size]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (fetcher.gives_way, len(broker.answers)) == (False, 2)
        await fetcher.stop()

    asyncio.run(run())


def test_damaged_records_are_fetched_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        subscription = Subscription(OffsetReset.parse("earliest"))
        subscription.assign([PARTITION])
        subscription.assigned[PARTITION].seek(0)
        broker, woken = OneBroker(), asyncio.Event()
        config = ConsumerConfig.parse({"bootstrap.servers": "x:1"})
        fetcher = Fetcher(broker, config, subscription, woken.set)  # type: ignore[arg-type]
        now = fetcher._now()
        monkeypatch.setattr(fetcher, "_now", lambda: now)
        fetcher.pump()
        broker.answer(b"v", is_damaged=True)
        assert [await broker.offsets.get(), await broker.offsets.get()] == [0, 1]
        with pytest.raises(KafkaError, match="CORRUPT_MESSAGE: t-0 at offset 0"):
            subscription.collect(10)
        fetcher.pump()
        broker.answers[-1].set_result(FetchResponse())
        await asyncio.wait(fetcher._tasks.values())
        assert broker.offsets.empty(), "a pause comes first"
        now += config.retry_backoff_ms
        fetcher.pump()
        assert broker.offsets.get_nowait() == 0
        woken.clear()
        broker.answer(b"v")
        await woken.wait()
        assert [record.value for record in subscription.collect(10)] == [b"v"]
        await fetcher.stop()

    asyncio.run(run())
