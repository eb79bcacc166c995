"""Ottla's own producer, consumer and admin, unchanged, against simulated nodes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.client import Admin, Consumer, Producer
from ottla.sim import group_workload, transaction_workload
from ottla.sim.cluster import Sim

PROPERTIES = {**group_workload.PROPERTIES, **transaction_workload.PROPERTIES}


def settings(sim: Sim, name: str) -> dict[str, Any]:
    """What a client of this world is made with: its host's sockets, its own chance, the node's address."""
    return {
        "rng": random.Random(name),
        "sockets": sim.network.host(name),
        "bootstrap_servers": "node-1:9092",
    }


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_what_own_producers_write_own_consumers_read(group_protocol: str) -> None:
    sim = Sim(7, properties=PROPERTIES)
    sim.node()

    async def work() -> None:
        async with Admin(**settings(sim, "admin")) as admin:
            await admin.create_topic("t", partition_count=2, replication_factor=1)
        async with Producer(**settings(sim, "producer")) as producer:
            for number in range(100):
                producer.send("t", str(number).encode(), timestamp=sim.clock())
        async with (
            Producer(**settings(sim, "transactional"), transactional_id="x") as producer,
            producer.transaction(),
        ):
            for number in range(100, 200):
                producer.send("t", str(number).encode(), timestamp=sim.clock())
        reading: dict[str, Any] = {
            **settings(sim, "consumer"),
            "group_id": "g",
            "group_protocol": group_protocol,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
        }
        found: list[int] = []
        async with Consumer(**reading) as consumer:
            consumer.subscribe(["t"])
            while len(found) < 200:
                found += [int(record.value or b"") for record in await consumer.poll(1_000)]
            await consumer.commit()
        assert sorted(found) == list(range(200))

    sim.run(work())
    sim.finish()
