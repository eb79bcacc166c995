"""Dead letters of share groups (KIP-1191) with real nodes: our client, a queue on one node and on three."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.__main__ import main
from ottla.client import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition
from ottla.client.admin import LATEST, Admin, ConfigChange, ConfigEntry, ConfigResource, NewTopic, ResourceType
from tests.interop.servers import Kafka, Ottla, kafka_anchor

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
WITH_LETTERS = {"metadata.version": 31, "share.version": 2}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ottla]:
    server = Ottla(tmp_path_factory.mktemp("ottla") / "data")
    server.start()
    asyncio.run(upgrade(server.bootstrap))
    yield server
    server.stop()


async def upgrade(bootstrap: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.update_features(WITH_LETTERS)


async def configure(admin: Admin, group: str, **settings: str) -> None:
    changes = [ConfigChange("share.auto.offset.reset", "earliest")]
    changes += [ConfigChange(name.replace("_", "."), value) for name, value in settings.items()]
    await admin.alter_configs({ConfigResource(ResourceType.GROUP, group): changes})


async def create_queue(admin: Admin, name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> None:
    settings = {"errors.deadletterqueue.group.enable": "true", **configs}
    await admin.create_topics([NewTopic(name, partitions, replicas, settings)])


async def letters(bootstrap: str, topic: str, count: int, seconds: float = 60) -> list[Any]:
    """The first so many records of a topic."""
    found: list[Any] = []
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, one.partition) for one in await consumer.partitions_for(topic)])
        async with asyncio.timeout(seconds):
            while len(found) < count:
                found += await consumer.poll(500)
    return found


def test_a_rejected_record_is_found_in_the_groups_queue(broker: Ottla, topic: str) -> None:
    async def play() -> None:
        queue = f"dlq.{topic}"
        async with (
            Admin(bootstrap_servers=broker.bootstrap) as admin,
            Producer(bootstrap_servers=broker.bootstrap) as producer,
        ):
            await admin.create_topics([NewTopic(topic, 2)])
            await create_queue(admin, queue)
            await configure(
                admin,
                topic,
                errors_deadletterqueue_topic_name=queue,
                errors_deadletterqueue_copy_record_enable="true",
                share_delivery_count_limit="2",
                ottla_share_redelivery_backoff_ms="200",
            )
            for number in range(20):
                await producer.send(topic, b"v%d" % number, b"k%d" % number, [("n", b"%d" % number)], number % 2)
            consumer: ShareConsumer[Any, Any]
            accepted = 0
            async with ShareConsumer(
                bootstrap_servers=broker.bootstrap, group_id=topic, share_acknowledgement_mode="explicit"
            ) as consumer:
                consumer.subscribe([topic])
                async with asyncio.timeout(60):
                    while accepted < 16:
                        for record in await consumer.poll(500):
                            number = int((record.value or b"")[1:])
                            kind = {0: REJECT, 1: REJECT, 2: RELEASE, 3: RELEASE}.get(number, ACCEPT)
                            accepted += kind is ACCEPT
                            consumer.acknowledge(record, kind)
                        await consumer.commit_sync()
                    found = await asyncio.gather(letters(broker.bootstrap, queue, 4), drain(consumer))
        by_value = {record.value: dict(record.headers) for record in found[0]}
        assert {
            value: (headers["n"], headers["__dlq.errors.delivery.count"]) for value, headers in by_value.items()
        } == {
            b"v0": (b"0", b"1"),
            b"v1": (b"1", b"1"),
            b"v2": (b"2", b"2"),
            b"v3": (b"3", b"2"),
        }
        assert by_value[b"v1"]["__dlq.errors.partition"] == b"1" and by_value[b"v1"]["__dlq.errors.offset"] == b"0"
        assert by_value[b"v1"]["__dlq.errors.topic"] == by_value[b"v1"]["__dlq.errors.group"] == topic.encode()
        assert by_value[b"v2"]["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."

    async def drain(consumer: ShareConsumer[Any, Any]) -> None:
        """Release what comes again, until it does not."""
        quiet = 0
        while quiet < 4:
            records = await consumer.poll(500)
            for record in records:
                consumer.acknowledge(record, RELEASE)
            await consumer.commit_sync()
            quiet = 0 if records else quiet + 1

    asyncio.run(play())


async def reject_all(bootstrap: str, group: str, topics: list[str], count: int) -> list[Any]:
    """Have a member of a share group reject so many records; those."""
    consumer: ShareConsumer[Any, Any]
    got: list[Any] = []
    async with ShareConsumer(
        bootstrap_servers=bootstrap, group_id=group, share_acknowledgement_mode="explicit"
    ) as consumer:
        consumer.subscribe(topics)
        async with asyncio.timeout(60):
            while len(got) < count:
                records = list(await consumer.poll(500))
                for record in records:
                    consumer.acknowledge(record, REJECT)
                await consumer.commit_sync()
                got += records
    return got


def ottla(capfd: pytest.CaptureFixture[str], broker: Ottla, *arguments: str) -> str:
    code = main([*arguments, "--broker", broker.bootstrap])
    said = capfd.readouterr()
    assert code == 0, said.err
    return said.out + said.err


@pytest.mark.parametrize("copies", ["true", "false"])
def test_letters_are_sent_back_to_the_group_that_gave_them_up(
    broker: Ottla, topic: str, capfd: pytest.CaptureFixture[str], copies: str
) -> None:
    queue, again = f"dlq.{topic}", f"{topic}.retry.{topic}"

    async def prepare() -> None:
        async with (
            Admin(bootstrap_servers=broker.bootstrap) as admin,
            Producer(bootstrap_servers=broker.bootstrap) as producer,
        ):
            await admin.create_topics([NewTopic(topic, 2)])
            await create_queue(admin, queue)
            await configure(
                admin,
                topic,
                errors_deadletterqueue_topic_name=queue,
                errors_deadletterqueue_copy_record_enable=copies,
            )
            for number in range(6):
                await producer.send(topic, b"v%d" % number, b"k", [("n", b"%d" % number)], number % 2)
        await reject_all(broker.bootstrap, topic, [topic], 6)
        await letters(broker.bootstrap, queue, 6)

    async def reject_again() -> list[Any]:
        found = await reject_all(broker.bootstrap, topic, [topic, again], 6)
        await letters(broker.bootstrap, queue, 12)
        return found

    asyncio.run(prepare())
    described = ottla(capfd, broker, "groups", "describe", topic)
    copied = "with copies" if copies == "true" else "without copies"
    assert f"dead letters in {queue}  6 records  {copied}" in described
    assert "nothing was sent" in ottla(capfd, broker, "records", "redrive", topic, "--dry-run")
    said = ottla(capfd, broker, "records", "redrive", topic)
    assert said.splitlines()[1].split() == [topic, again, "6"]
    assert f"no dead letters of {topic}" in ottla(capfd, broker, "records", "redrive", topic)
    redriven = asyncio.run(letters(broker.bootstrap, again, 6))
    assert {(one.value, one.key, one.headers[0], one.partition) for one in redriven} == {
        (b"v%d" % number, b"k", ("n", b"%d" % number), number % 2) for number in range(6)
    }
    assert asyncio.run(count_of(broker.bootstrap, topic)) == 6, "other groups of the topic do not see them again"

    assert {record.topic for record in asyncio.run(reject_again())} == {again}
    said = ottla(capfd, broker, "records", "redrive", topic)
    assert said.splitlines()[1].split() == [again, again, "6"]
    last = asyncio.run(letters(broker.bootstrap, again, 12))[-1]
    assert dict(last.headers)["ottla.redrive.topic"] == topic.encode()
    assert dict(last.headers)["ottla.redrive.count"] == b"2"


async def count_of(bootstrap: str, topic: str) -> int:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        places = [TopicPartition(topic, index) for index in range(2)]
        return sum(one.offset for one in (await admin.list_offsets(dict.fromkeys(places, LATEST))).values())


def test_redrive_says_what_is_missing(broker: Ottla, topic: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["records", "redrive", topic, "--broker", broker.bootstrap]) == 1
    assert f"there is no share group '{topic}'" in capfd.readouterr().err

    async def prepare(**settings: str) -> None:
        async with Admin(bootstrap_servers=broker.bootstrap) as admin:
            await configure(admin, topic, **settings)

    asyncio.run(prepare())
    assert main(["records", "redrive", topic, "--broker", broker.bootstrap]) == 1
    assert "has no dead-letter queue" in capfd.readouterr().err


def test_the_work_queue_retries_sets_aside_and_tries_again(broker: Ottla, capfd: pytest.CaptureFixture[str]) -> None:
    program = [sys.executable, "-m", "examples.work_queue", "--bootstrap-server", broker.bootstrap]

    def told(*arguments: str) -> list[str]:
        done = subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=120, check=True)
        return done.stdout.splitlines()

    assert told("add", "resize:1", "poison", "flaky:3", "flaky:9") == ["4 jobs added"]
    lines = told("work", "--idle-seconds", "5")
    assert [line for line in lines if "again" not in line] == [
        "job 0: resized 1",
        "job 1: dead, there is no job 'poison'",
        "job 2: done at delivery 3",
    ]
    assert [line for line in lines if line.startswith("job 3")] == [
        f"job 3: again, delivery {count} of 9" for count in range(1, 6)
    ]
    assert told("dead") == [
        "poison jobs at 1: Offset rejected by client.",
        "flaky:9 jobs at 3: Offset delivery count exceeded the threshold.",
    ]
    ottla(capfd, broker, "records", "redrive", "workers")
    assert "job 0: dead, there is no job 'poison'" in told("work", "--idle-seconds", "3")


def test_a_queue_is_created_when_the_cluster_allows_it(broker: Ottla, topic: str) -> None:
    async def play() -> dict[str, ConfigEntry]:
        async with (
            Admin(bootstrap_servers=broker.bootstrap) as admin,
            Producer(bootstrap_servers=broker.bootstrap) as producer,
        ):
            allowed = ConfigChange("errors.deadletterqueue.auto.create.topics.enable", "true")
            await admin.alter_configs({ConfigResource(ResourceType.BROKER, ""): [allowed]})
            await admin.create_topics([NewTopic(topic, 1)])
            await configure(admin, topic, errors_deadletterqueue_topic_name=f"dlq.{topic}")
            await producer.send(topic, b"v")
            await reject_all(broker.bootstrap, topic, [topic], 1)
            for _ in range(600):
                if f"dlq.{topic}" in await admin.list_topics():
                    break
                await asyncio.sleep(0.05)
            (letter,) = await letters(broker.bootstrap, f"dlq.{topic}", 1)
            assert (letter.key, letter.value) == (None, None)
            return await admin.topic_config(f"dlq.{topic}")

    config = asyncio.run(play())
    assert config["errors.deadletterqueue.group.enable"].value == "true"
    assert config["message.timestamp.type"].value == "CreateTime"


@pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="starts a JVM: OTTLA_INTEROP_ALL=1")
def test_redrive_works_with_apache_kafka(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if kafka_anchor() is None:
        pytest.skip("no Apache Kafka at hand")
    server = Kafka(tmp_path / "data")
    server.start()

    async def prepare() -> None:
        """What a broker of 4.4 would have written: one letter has a copy, one has not."""
        async with (
            Admin(bootstrap_servers=server.bootstrap) as admin,
            Producer(bootstrap_servers=server.bootstrap) as producer,
        ):
            await admin.create_topics([NewTopic("jobs", 1, 1), NewTopic("dlq.jobs", 1, 1)])
            await configure(admin, "workers")
            for number in range(3):
                await producer.send("jobs", b"v%d" % number)
            for offset, value in ((0, b"v0"), (2, None)):
                where = {"topic": b"jobs", "partition": b"0", "offset": b"%d" % offset, "group": b"workers"}
                headers = [(f"__dlq.errors.{name}", text) for name, text in where.items()]
                await producer.send("dlq.jobs", value, None, headers)

    try:
        asyncio.run(prepare())
        assert main(["records", "redrive", "workers", "--queue", "dlq.jobs", "--broker", server.bootstrap]) == 0
        assert "jobs.retry.workers" in capfd.readouterr().out
        redriven = asyncio.run(letters(server.bootstrap, "jobs.retry.workers", 2))
        assert [record.value for record in redriven] == [b"v0", b"v2"]
        assert main(["records", "redrive", "workers", "--queue", "dlq.jobs", "--broker", server.bootstrap]) == 0
        assert "no dead letters of workers" in "".join(capfd.readouterr())
    finally:
        server.stop()
