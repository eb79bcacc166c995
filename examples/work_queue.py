"""A work queue: workers share the jobs of a topic, retry what fails for a while, and set aside what never works.

    python examples/work_queue.py --bootstrap-server localhost:9092 add resize:1 resize:2 poison flaky:3
    python examples/work_queue.py --bootstrap-server localhost:9092 work          # as many of them as you like
    python examples/work_queue.py --bootstrap-server localhost:9092 dead

A job that raises Temporary is released, and another worker (or the same one) gets it. A job that raises anything else,
or is at its last delivery, becomes a record of the topic jobs.dead with the reason in its headers, and is rejected. The
dead letter is written before the job is rejected: a worker that dies in between leaves a duplicate, never a lost job.
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
    ShareRecord,
    TopicPartition,
)
from ottla.client.admin import ConfigChange, ConfigResource, ResourceType
from ottla.client.errors import ErrorCode

JOBS, DEAD, GROUP = "jobs", "jobs.dead", "workers"
DELIVERY_LIMIT = 5
"""share.delivery.count.limit of the group: a job is delivered so often at most."""

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
    """The topics, and a group that begins with the oldest job."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        for topic in (JOBS, DEAD):
            try:
                await admin.create_topics([NewTopic(topic, 1)])
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        change = ConfigChange("share.auto.offset.reset", "earliest")
        await admin.alter_configs({ConfigResource(ResourceType.GROUP, GROUP): [change]})


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
    async with Producer(bootstrap_servers=bootstrap) as producer, ShareConsumer(**settings) as consumer:
        consumer.subscribe([JOBS])
        idle_at = asyncio.get_running_loop().time() + idle_seconds
        while asyncio.get_running_loop().time() < idle_at:
            for job in await consumer.poll(1_000):
                consumer.acknowledge(job, await outcome(job, producer))
                idle_at = asyncio.get_running_loop().time() + idle_seconds
            await consumer.commit_sync()


async def outcome(job: Job, producer: Producer) -> AcknowledgeType:
    """What becomes of a job."""
    try:
        print(f"job {job.offset}: {await handle(job)}", flush=True)
        return AcknowledgeType.ACCEPT
    except Temporary as error:
        if job.delivery_count < DELIVERY_LIMIT:
            print(f"job {job.offset}: again, {error}", flush=True)
            return AcknowledgeType.RELEASE
        reason = f"given up after {job.delivery_count} deliveries: {error}"
    except Exception as error:
        reason = str(error)
    headers = (
        *job.headers,
        ("job.offset", str(job.offset).encode()),
        ("job.deliveries", str(job.delivery_count).encode()),
        ("job.error", reason.encode()),
    )
    await producer.send(DEAD, job.value, job.key, headers)
    print(f"job {job.offset}: dead, {reason}", flush=True)
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
                print((record.value or b"").decode(), {name: (text or b"").decode() for name, text in record.headers})


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
