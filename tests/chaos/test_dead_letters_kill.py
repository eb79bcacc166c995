"""Dead letters of a share group on three nodes, while leaders of the queue and of the topic are killed."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client import AcknowledgeType, Consumer, Producer, ShareConsumer, ShareLetter, TopicPartition
from ottla.client.admin import Admin, ConfigChange, ConfigResource, NewTopic, ResourceType
from ottla.testing import Cluster

COUNT = 400
TOPIC, QUEUE, GROUP = "jobs", "dlq.jobs", "workers"
SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "errors.deadletterqueue.topic.name": QUEUE,
    "errors.deadletterqueue.copy.record.enable": "true",
}
REQUIRED, ONCE = ({f"ottla.errors.deadletterqueue.{kind}.enable": "true"} for kind in ("required", "once"))


async def prepare(bootstrap: str, settings: dict[str, str]) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        await admin.update_features({"metadata.version": 31, "share.version": 2})
        safe = {"min.insync.replicas": "2"}
        await admin.create_topics([NewTopic(TOPIC, config=safe, assignments={0: [1, 2, 3]})])
        enabled = {**safe, "errors.deadletterqueue.group.enable": "true"}
        await admin.create_topics([NewTopic(QUEUE, config=enabled, assignments={0: [2, 3, 1]})])
        changes = [ConfigChange(name, value) for name, value in {**SETTINGS, **settings}.items()]
        await admin.alter_configs({ConfigResource(ResourceType.GROUP, GROUP): changes})
        for number in range(COUNT):
            producer.send(TOPIC, b"%d" % number)
            if number % 10 == 9:
                await producer.flush()  # batches are handed out whole


async def reject(bootstrap: str, stop: asyncio.Event, limit: Callable[[], int]) -> None:
    """Reject as many records as there may be now; an acknowledgement that failed is made again when the record comes
    again."""
    rejected: set[int] = set()
    consumer: ShareConsumer[Any, Any]
    async with ShareConsumer(
        bootstrap_servers=bootstrap, group_id=GROUP, share_acknowledgement_mode="explicit", max_poll_records=20
    ) as consumer:
        consumer.subscribe([TOPIC])
        while not stop.is_set():
            if len(rejected) < limit():
                for record in await consumer.poll(200):
                    consumer.acknowledge(record, AcknowledgeType.REJECT)
                    rejected.add(record.offset)
                await consumer.commit_sync()
            await asyncio.sleep(0.02)


async def letters_until_all(bootstrap: str, disturb: Any) -> Counter[int]:
    """How often each record has a letter, once each has one."""
    found: Counter[int] = Counter()
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(QUEUE, 0)])
        async with asyncio.timeout(150):
            while len(found) < COUNT:
                for record in await consumer.poll(500):
                    letter = ShareLetter.of(record)
                    assert letter is not None and record.value == b"%d" % letter.offset
                    found[letter.offset] += 1
                await asyncio.to_thread(disturb, len(found))
    return found


SLOW = pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="slow: make interop runs it")


@pytest.mark.parametrize(
    ("killed", "settings", "kill_count"),
    [
        pytest.param(QUEUE, REQUIRED, 1, id="queue"),
        pytest.param(TOPIC, REQUIRED, 1, id="topic", marks=SLOW),
        pytest.param(QUEUE, ONCE, 3, id="queue-once", marks=SLOW),
        pytest.param(TOPIC, ONCE, 3, id="topic-once", marks=SLOW),
    ],
)
@pytest.mark.timeout(240)
def test_each_rejected_record_has_a_letter_whichever_leader_is_killed(
    killed: str, settings: dict[str, str], kill_count: int
) -> None:
    with Cluster(3) as cluster:
        asyncio.run(prepare(cluster.bootstrap_servers, settings))
        cluster.wait_until_in_sync(TOPIC, QUEUE)
        kills: list[int] = []

        def disturb(count: int) -> None:
            if len(kills) < kill_count and count >= COUNT // (kill_count + 1) * (len(kills) + 1):
                node = cluster.leader(killed)
                kills.append(node.id)
                node.kill()
                cluster.leader(killed)
                node.start()

        async def play() -> Counter[int]:
            stop = asyncio.Event()
            # The next kill comes when a part of the records has letters, and while others get theirs.
            part = COUNT // (kill_count + 1)
            rejecting = asyncio.create_task(
                reject(cluster.bootstrap_servers, stop, lambda: part * (len(kills) + 1) + 40)
            )
            found = await letters_until_all(cluster.bootstrap_servers, disturb)
            stop.set()
            await rejecting
            return found

        found = asyncio.run(play())
        assert len(kills) == kill_count and set(found) == set(range(COUNT))
        doubles = sum(found.values()) - COUNT
        print(f"killed the leader of {killed}: {doubles} letters twice")
        if killed == QUEUE:
            assert doubles == 0, "a batch whose answer was lost is known to the next leader"
        if settings == ONCE:
            assert doubles == 0, "the next leader of the topic finds the letters that are there"
