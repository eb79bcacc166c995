"""A work queue: workers share the jobs of a topic, retry what fails for a while, and set aside what never works.

    python examples/work_queue.py --bootstrap-server localhost:9092 add resize:1 resize:2 poison flaky:3
    python examples/work_queue.py --bootstrap-server localhost:9092 work          # as many of them as you like
    python examples/work_queue.py --bootstrap-server localhost:9092 dead
    ottla records redrive workers                                                 # when the cause is mended

A job that raises Temporary is released: after a pause, longer each time, a worker gets it again. A job that raises
anything else is rejected. The broker writes a dead letter of rejected jobs, and of those delivered five times, to
dlq.jobs (KIP-1191), and keeps the job in flight until the letter is written. `ottla records redrive` sends letters
back through jobs.retry.workers, which only these workers read.

The cluster needs share.version 2: `ottla cluster features upgrade 4.4`, or kafka-features.sh.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from ottla.client import (
    AcknowledgeType,
    Admin,
    Consumer,
    KafkaError,
    NewTopic,
    Producer,
    ShareConsumer,
    ShareLetter,
    ShareRecord,
    TopicPartition,
)
from ottla.client.admin import ConfigChange, ConfigResource, ResourceType
from ottla.client.errors import ErrorCode

JOBS, DEAD, AGAIN, GROUP = "jobs", "dlq.jobs", "jobs.retry.workers", "workers"
GROUP_SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "5",
    "errors.deadletterqueue.topic.name": DEAD,
    "errors.deadletterqueue.copy.record.enable": "true",
    "ottla.errors.deadletterqueue.required.enable": "true",
    "ottla.share.redelivery.backoff.ms": "200",
}
"""The last two are Ottla's own: leave them out for Apache Kafka."""

Job = ShareRecord[bytes | None, bytes | None]


class Temporary(Exception):
    """The job may succeed later."""


async def handle(job: Job) -> str:
    """The work itself: `resize:<n>` succeeds, `flaky:<n>` succeeds at its n-th delivery, anything else never does."""
    kind, _, number = (job.value or b"").decode().partition(":")
    await asyncio.sleep(0.01)
    if kind == "resize":
        return f"resized {number}"
    if kind == "flaky":
        if job.delivery_count < int(number):
            raise Temporary(f"delivery {job.delivery_count} of {number}")
        return f"done at delivery {job.delivery_count}"
    raise ValueError(f"there is no job {kind!r}")


async def prepare(bootstrap: str) -> None:
    """The topics, and a group that begins with the oldest job and has a dead-letter queue."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        version = (await admin.describe_features()).features.get("share.version")
        if version is None or version.finalized < 2:
            raise SystemExit("dead letters need share.version 2: ottla cluster features upgrade 4.4")
        queue = NewTopic(DEAD, 1, config={"errors.deadletterqueue.group.enable": "true"})
        for topic in (NewTopic(JOBS, 1), NewTopic(AGAIN, 1), queue):
            try:
                await admin.create_topics([topic])
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        changes = [ConfigChange(name, value) for name, value in GROUP_SETTINGS.items()]
        await admin.alter_configs({ConfigResource(ResourceType.GROUP, GROUP): changes})


async def add(bootstrap: str, jobs: list[str]) -> None:
    await prepare(bootstrap)
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for job in jobs:
            await producer.send(JOBS, job.encode())
    print(f"{len(jobs)} jobs added")


async def work(bootstrap: str, idle_seconds: float) -> None:
    """Handle jobs until none came for idle_seconds."""
    await prepare(bootstrap)
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "group_id": GROUP}
    settings |= {"share_acknowledgement_mode": "explicit", "share_acquire_mode": "record_limit", "max_poll_records": 10}
    async with ShareConsumer(**settings) as consumer:
        consumer.subscribe([JOBS, AGAIN])
        idle_at = asyncio.get_running_loop().time() + idle_seconds
        while asyncio.get_running_loop().time() < idle_at:
            for job in await consumer.poll(1_000):
                consumer.acknowledge(job, await outcome(job))
                idle_at = asyncio.get_running_loop().time() + idle_seconds
            await consumer.commit_sync()


async def outcome(job: Job) -> AcknowledgeType:
    """What becomes of a job."""
    try:
        print(f"job {job.offset}: {await handle(job)}", flush=True)
        return AcknowledgeType.ACCEPT
    except Temporary as error:
        print(f"job {job.offset}: again, {error}", flush=True)
        return AcknowledgeType.RELEASE
    except Exception as error:
        print(f"job {job.offset}: dead, {error}", flush=True)
        return AcknowledgeType.REJECT


async def dead(bootstrap: str) -> None:
    """Show the dead letters."""
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        place = TopicPartition(DEAD, 0)
        consumer.assign([place])
        consumer.seek_to_beginning()
        end = (await consumer.end_offsets([place]))[place]
        while await consumer.position(place) < end:
            for record in await consumer.poll(1_000):
                letter = ShareLetter.of(record)
                if letter is not None:
                    print((record.value or b"").decode(), f"{letter.topic} at {letter.offset}:", letter.message)


def main() -> None:
    parser = argparse.ArgumentParser(description="A work queue on a share group.")
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("add").add_argument("jobs", nargs="+")
    commands.add_parser("work").add_argument("--idle-seconds", type=float, default=30)
    commands.add_parser("dead")
    given = parser.parse_args()
    if given.command == "add":
        asyncio.run(add(given.bootstrap_server, given.jobs))
    elif given.command == "work":
        asyncio.run(work(given.bootstrap_server, given.idle_seconds))
    else:
        asyncio.run(dead(given.bootstrap_server))


if __name__ == "__main__":
    main()
