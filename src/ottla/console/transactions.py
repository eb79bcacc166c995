"""Transactions: those that are open, those that hang, and how to end them."""

from __future__ import annotations

import time
from typing import Any

from ottla.cli.doctor import HANGING_MS
from ottla.cli.transactions import RUNNING, described, find_hanging_of
from ottla.client.core.partitions import TopicPartition
from ottla.console.call import Call
from ottla.console.search_request import integer, text


async def transactions(call: Call) -> dict[str, Any]:
    admin = await call.admin()
    hanging: list[dict[str, Any]] = []
    if call.flag("hanging"):
        now = int(time.time() * 1000)
        for one in await find_hanging_of(admin, HANGING_MS, now):
            hanging.append(
                {
                    "topic": one.partition.topic,
                    "partition": one.partition.partition,
                    "producer_id": one.producer_id,
                    "producer_epoch": one.producer_epoch,
                    "coordinator_epoch": one.coordinator_epoch,
                    "start_offset": one.start_offset,
                    "last_at": one.last_timestamp,
                }
            )
    return {
        "open": [
            {
                "transactional_id": one.transactional_id,
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "state": one.state,
                "started_at": one.start_timestamp if one.start_timestamp > 0 else None,
                "timeout_ms": one.timeout_ms,
                "partitions": [{"topic": at.topic, "partition": at.partition} for at in sorted(one.partitions)],
                "coordinator_id": one.coordinator_id,
            }
            for one in await described(admin, RUNNING)
        ],
        "hanging": hanging,
    }


async def end(call: Call) -> dict[str, Any]:
    name = text(call.asked().get("transactional_id"), "transactional_id")
    admin = await call.admin()
    found = (await admin.describe_transactions([name]))[name]
    if call.is_preview():
        rows = [{"topic": at.topic, "partition": at.partition} for at in sorted(found.partitions)]
        return {"preview": {"state": found.state, "partitions": rows}, "confirm": name}
    call.confirm(name)
    await admin.fence_producers([name])
    return {"ok": True}


async def end_hanging(call: Call) -> dict[str, Any]:
    asked = call.asked()
    topic = text(asked.get("topic"), "topic")
    at = TopicPartition(topic, integer(asked.get("partition"), "partition", 0, 2**31 - 1))
    producer_id = integer(asked.get("producer_id"), "producer_id", 0, 2**63 - 1)
    producer_epoch = integer(asked.get("producer_epoch"), "producer_epoch", 0, 2**15 - 1)
    coordinator_epoch = integer(asked.get("coordinator_epoch"), "coordinator_epoch", 0, 2**31 - 1)
    start = integer(asked.get("start_offset"), "start_offset", 0, 2**63 - 1)
    if call.is_preview():
        preview = {"topic": topic, "partition": at.partition, "start_offset": start, "producer_id": producer_id}
        return {"preview": preview, "confirm": topic}
    call.confirm(topic)
    await (await call.admin()).abort_transaction(at, producer_id, producer_epoch, coordinator_epoch)
    return {"ok": True}
