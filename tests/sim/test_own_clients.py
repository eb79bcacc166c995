"""Ottla's own producer, consumer and admin, unchanged, against simulated nodes, and the checkers of their workloads."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from ottla.client import Admin, Consumer, ConsumerRecord, Producer
from ottla.sim import group_workload, transaction_workload
from ottla.sim.checkers import Violation
from ottla.sim.cluster import Sim
from ottla.sim.own_clients import COPIED, PARTITION_COUNT, WRITTEN, Copiers, Readers, Writers, check_order
from ottla.sim.programs import Program
from ottla.sim.replicas import Cluster

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


def test_a_killed_program_says_nothing_more_and_starts_again() -> None:
    sim = Sim(3, properties=PROPERTIES)
    sim.node()
    sim.create_topic("t")
    sent: list[int] = []

    async def work(program: Program) -> None:
        async with program.using(Producer(**program.surroundings())) as producer:
            while not program.is_asked_to_end:
                await producer.send("t", b"x", timestamp=sim.clock())
                sent.append(program.incarnation)

    program = Program(sim, "writer", ["node-1"], work)
    program.start()
    sim.sleep(1)
    program.kill()
    count = len(sent)
    assert count and not program.is_running
    sim.sleep(5)
    assert len(sent) == count
    program.start()
    sim.sleep(1)
    assert sent[-1] == 2
    sim.run(program.ended())
    sim.finish()


# What the workloads check


def own_world(seed: int = 1) -> tuple[Cluster, Writers, Readers, Copiers]:
    """Workloads in peace: applications neither die nor freeze."""
    sim = Cluster(seed, properties=group_workload.PROPERTIES | {"offsets.topic.replication.factor": "3"})
    writers = Writers(sim, random.Random(seed))
    readers = Readers(sim, random.Random(seed), writers)
    copiers = Copiers(sim, random.Random(seed), writers)
    for workload in (writers, readers, copiers):
        workload.is_rough = False
    return sim, writers, readers, copiers


async def lived(sim: Cluster, *workloads: Writers | Readers | Copiers) -> None:
    for workload in workloads:
        await workload.set_up()
    await asyncio.sleep(3)
    for workload in workloads:
        await workload.settle()
    await sim.settled()
    for workload in workloads:
        await workload.verify()


def test_own_clients_keep_their_promises_in_peace() -> None:
    sim, writers, readers, copiers = own_world()
    sim.run(lived(sim, writers, readers, copiers))
    assert all(readers.handed), "every partition was written and read"
    sim.finish()


def test_a_record_that_is_there_twice_or_too_early_is_found() -> None:
    check_order("t-0", [(0, (b"a", b"1:")), (1, (b"b", b"1:")), (2, (b"a", b"3:"))])
    with pytest.raises(Violation, match="once"):
        check_order("t-0", [(0, (b"a", b"1:")), (1, (b"a", b"1:"))])
    with pytest.raises(Violation, match="once"):
        check_order("t-0", [(0, (b"a", b"2:")), (1, (b"a", b"1:"))])


def test_records_acknowledged_without_an_offset_are_looked_for_in_the_log() -> None:
    sim, writers, _, _ = own_world()
    sim.run(lived(sim, writers))
    offset, there = sim.run(sim.verified(WRITTEN, 0))[-1]
    before = sim.run(sim.verified(WRITTEN, 0))[-2][1]
    for content in (there, before):
        writers.acknowledged(0, -1, content)
    sim.run(writers.verify())
    assert writers.histories[0].end_offset == offset + 1
    writers.acknowledged(0, -1, (b"writer-0.1", b"1000000:"))
    with pytest.raises(Violation, match=r"lost: own-written-0: acknowledged without an offset"):
        sim.run(writers.verify())
    sim.finish()


def test_a_group_that_skips_a_record_is_found() -> None:
    sim, _, readers, _ = own_world()

    def record(offset: int) -> ConsumerRecord[Any, Any]:
        return ConsumerRecord(WRITTEN, 0, offset, 0, None, b"1:", ())

    readers.take("reader", record(0))
    readers.take("reader", record(1))
    readers.take("another", record(0))  # at least once
    with pytest.raises(Violation, match=r"skipped: .* no client got what is at 2"):
        readers.take("reader", record(3))
    sim.finish()


@pytest.mark.parametrize(("fault", "found"), [("twice", "copied"), ("lost", "copied"), ("uncommitted", "lost")])
def test_a_copy_that_is_not_exact_is_found(fault: str, found: str) -> None:
    sim, writers, _, copiers = own_world()

    async def work() -> None:
        await lived(sim, writers, copiers)
        if fault == "uncommitted":
            copiers.copied[0] += 1
        else:
            offset = copiers.copied[0] - 1 if fault == "twice" else copiers.copied[0] + 1

            async def disturb(program: Program) -> None:
                async with program.using(Producer(**program.surroundings())) as producer:
                    await producer.send(COPIED, str(offset).encode(), partition=0, timestamp=sim.clock())

            program = Program(sim, "disturber", sim.names, disturb)
            program.start()
            await program.ended()
        await copiers.verify()

    with pytest.raises(Violation, match=found):
        sim.run(work())


@pytest.mark.parametrize(("timeout_ms", "found"), [(8_000, None), (300_000, "liveness: a transaction stays open")])
def test_copies_behind_a_transaction_that_is_not_complete_are_waited_for(timeout_ms: int, found: str | None) -> None:
    """Found by a seed: an application had ended while its transaction, aborted by its timeout, waited for a marker."""
    sim, writers, _, copiers = own_world()

    async def work() -> None:
        await writers.set_up()
        is_open = asyncio.Event()

        async def hang(program: Program) -> None:
            settings: dict[str, Any] = {"transactional_id": "hanging", "transaction_timeout_ms": timeout_ms}
            async with program.using(Producer(**program.surroundings(), **settings)) as producer:
                await producer.begin_transaction()
                for partition in range(PARTITION_COUNT):
                    await producer.send(COPIED, b"hanging", partition=partition, timestamp=sim.clock())
                is_open.set()
                await asyncio.sleep(600)

        program = Program(sim, "hanging", sim.names, hang)
        program.start()
        await is_open.wait()
        program.kill()
        await copiers.set_up()
        for workload in (writers, copiers):
            await workload.settle()
        await copiers.verify()

    if found is None:
        sim.run(work())
        assert all(copiers.copied), "copies stand behind the open transaction"
        sim.finish()
    else:
        with pytest.raises(Violation, match=found):
            sim.run(work())
        sim.abandon()
