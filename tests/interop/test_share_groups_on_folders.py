"""Share groups in a data folder that Ottla and Apache Kafka 4.3.1 use in turn: acknowledged records do not come back,
released ones come with their delivery counts, and the group's start offsets and lag are the same."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from ottla.client import AcknowledgeType, Producer, ShareConsumer, TopicPartition
from ottla.client.admin import Admin, ConfigChange, ConfigResource, NewTopic, ResourceType
from tests.interop.conftest import ON_KAFKA, StartServer
from tests.interop.servers import Server, kafka_anchor

pytestmark = [
    pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java"),
    pytest.mark.skipif(ON_KAFKA, reason="both servers take part"),
    pytest.mark.skipif(
        os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="Kafka and Ottla in turn: only with `make interop`"
    ),
    pytest.mark.timeout(900),
]
TOPIC, GROUP = "jobs", "workers"
PLACE = TopicPartition(TOPIC, 0)
SETTINGS = (
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    "share.coordinator.state.topic.num.partitions=3",
    "share.coordinator.snapshot.update.records.per.snapshot=3",
    "group.share.min.heartbeat.interval.ms=200",
    "group.share.heartbeat.interval.ms=300",
    "offsets.topic.num.partitions=4",
)
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


async def prepare(bootstrap: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, assignments={0: [1]})])
        group = ConfigResource(ResourceType.GROUP, GROUP)
        changes = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
        await admin.alter_configs({group: [ConfigChange(name, value) for name, value in changes.items()]})


async def produce(bootstrap: str, first: int, end: int) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(first, end):
            await producer.send(TOPIC, b"%d" % number, partition=0)


async def take(bootstrap: str, count: int, said: dict[int, AcknowledgeType]) -> dict[int, int]:
    """Delivery counts of the next records by offset; acknowledged as `said`, those not in it with ACCEPT."""
    got: dict[int, int] = {}
    consumer: ShareConsumer[Any, Any]
    async with ShareConsumer(
        bootstrap_servers=bootstrap, group_id=GROUP, share_acknowledgement_mode="explicit", max_poll_records=count
    ) as consumer:
        consumer.subscribe([TOPIC])
        async with asyncio.timeout(120):
            while len(got) < count:
                for record in await consumer.poll(500):
                    assert record.value == b"%d" % record.offset
                    if record.offset in got:
                        consumer.acknowledge(record, RELEASE)
                        continue
                    got[record.offset] = record.delivery_count or 0
                    consumer.acknowledge(record, said.get(record.offset, ACCEPT))
                assert not any((await consumer.commit_sync()).values())
    return got


async def offsets(bootstrap: str) -> Any:
    """The group's start offset and lag."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        async with asyncio.timeout(60):
            while True:
                found = (await admin.list_share_group_offsets(GROUP)).get(PLACE)
                if found is not None:
                    return found
                await asyncio.sleep(0.5)


@pytest.mark.parametrize("begins_on_kafka", [False, True])
def test_a_share_group_goes_on_under_the_other_server(
    begins_on_kafka: bool, start_server: StartServer, tmp_path: Path
) -> None:
    folder = tmp_path / "data"

    def start(number: int) -> Server:
        return start_server(*SETTINGS, data=folder, on_kafka=begins_on_kafka == (number % 2 == 0))

    server = start(0)
    asyncio.run(prepare(server.bootstrap))
    asyncio.run(produce(server.bootstrap, 0, 10))
    got = asyncio.run(take(server.bootstrap, 10, {3: RELEASE, 5: RELEASE, 7: REJECT}))
    assert got == dict.fromkeys(range(10), 1)
    before = asyncio.run(offsets(server.bootstrap))
    server.stop()
    server = start(1)
    assert asyncio.run(offsets(server.bootstrap)) == before
    asyncio.run(produce(server.bootstrap, 10, 14))
    got = asyncio.run(take(server.bootstrap, 6, {3: RELEASE, 12: RELEASE}))
    assert got.keys() == {3, 5, 10, 11, 12, 13}, "accepted and rejected ones do not come back"
    assert got[3] >= 2 and got[5] >= 2 and got[10] == 1
    before = asyncio.run(offsets(server.bootstrap))
    server.stop()
    server = start(2)
    assert asyncio.run(offsets(server.bootstrap)) == before
    got = asyncio.run(take(server.bootstrap, 2, {}))
    assert got.keys() == {3, 12} and got[12] >= 2 and got[3] >= 3
    server.stop()
