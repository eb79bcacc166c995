"""The shipped node in a simulated world: crashes at every write of what it does, and what clients may rely on."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from ottla.sim.client import NoAnswer
from ottla.sim.cluster import Host, Sim
from ottla.sim.disk import Crashed
from ottla.sim.workloads import Counter
from ottla.wire.errors import ErrorCode, KafkaError

Work = Callable[[Sim, Host], Coroutine[Any, Any, None]]
PROPERTIES = {"metadata.log.max.record.bytes.between.snapshots": "300"}


@pytest.fixture
def sim() -> Iterator[Sim]:
    sim = Sim(1, properties=PROPERTIES)
    yield sim
    sim.finish()


def crash_everywhere(prepare: Callable[[Sim], None], work: Work, check: Callable[[Sim], None]) -> None:
    """Stop the machine at each write of `work`, by kill and by power loss; the node must start and be right."""
    sim = Sim(1, properties=PROPERTIES)
    prepare(sim)
    host = sim.host()
    before = host.device.operation_count
    sim.run(work(sim, host))
    count = host.device.operation_count - before
    sim.finish()
    for operation in range(count):
        # One or the other at each write; over a roll or a snapshot both meet every kind of write.
        for is_power_loss in (False, True) if "OTTLA_SIM_LUCK" in os.environ else (operation % 2 == 0,):
            sim = Sim(1, properties=PROPERTIES)
            prepare(sim)
            host = sim.host()
            try:
                sim.run(until_crash(sim, host, work, operation))
                host.device.rng.seed(f"luck {operation}")
                if is_power_loss:
                    host.power_loss()
                else:
                    host.kill()
                sim.restart()
                check(sim)
                sim.finish()
            except Exception as error:
                error.add_note(f"{'power loss' if is_power_loss else 'kill'} at write {operation} of {count}")
                for line in list(sim.loop.trace.lines)[-40:]:
                    error.add_note(line)
                raise


async def until_crash(sim: Sim, host: Host, work: Work, operation: int) -> None:
    crash = host.crash_at(operation)
    working = sim.loop.create_task(work(sim, host))
    await asyncio.wait([working, crash], return_when=asyncio.FIRST_COMPLETED)
    assert crash.done(), f"no crash at write {operation}"
    working.cancel()
    try:
        await working
    except (asyncio.CancelledError, Crashed, NoAnswer, KafkaError):
        return


def test_the_first_start_survives_a_crash_at_every_write() -> None:
    async def work(sim: Sim, host: Host) -> None:
        await host.start()

    def check(sim: Sim) -> None:
        sim.create_topic("topic")
        sim.produce("topic", 3)
        sim.check("topic")

    crash_everywhere(lambda sim: None, work, check)


def with_topic(sim: Sim) -> None:
    sim.node()
    sim.create_topic("topic", flush_messages="1")
    sim.produce("topic", 3, is_synced=True)


def check_topic(sim: Sim) -> None:
    sim.check("topic")
    sim.produce("topic", 2, is_synced=True)
    sim.check("topic")


def test_producing_with_a_flush_before_every_acknowledgement_survives_a_crash_at_every_write() -> None:
    async def work(sim: Sim, host: Host) -> None:
        for _ in range(3):
            await sim.produce_batch("topic", 2, 0, -1, 100, None, True)

    crash_everywhere(with_topic, work, check_topic)


def test_creating_and_deleting_topics_survives_a_crash_at_every_write() -> None:
    created: list[str] = []

    async def work(sim: Sim, host: Host) -> None:
        created.clear()
        client = sim.client()
        for index in range(2):
            await client.create_topic(f"new-{index}", 2)
            created.append(f"new-{index}")
            await asyncio.sleep(3)
        await client.delete_topic("new-0")
        created.remove("new-0")
        await asyncio.sleep(70)

    def check(sim: Sim) -> None:
        check_topic(sim)
        topics = {topic.name for topic in sim.run(sim.client().metadata()).topics}
        assert set(created) <= topics | {"new-0"}
        for name in sorted(topics - {"topic"}, key=str):
            sim.produce(str(name), 1, partition=1)
            sim.check(str(name), 1)

    crash_everywhere(with_topic, work, check)


def test_a_clean_stop_survives_a_crash_at_every_write() -> None:
    async def work(sim: Sim, host: Host) -> None:
        await sim.produce_batch("topic", 2, 0, -1, 100, None, True)
        await host.stop()

    crash_everywhere(with_topic, work, check_topic)


def test_acknowledged_records_survive_a_kill(sim: Sim) -> None:
    sim.node()
    sim.create_topic("topic", partitions=2)
    for _ in range(5):
        sim.produce("topic", 4)
        sim.produce("topic", 1, partition=1)
        sim.kill()
        sim.restart()
        sim.check("topic")
        sim.check("topic", 1)


def test_a_power_loss_takes_only_what_was_not_flushed(sim: Sim) -> None:
    sim.node()
    sim.create_topic("kept", flush_messages="1")
    sim.create_topic("risky")
    for _ in range(5):
        sim.produce("kept", 4, is_synced=True)
        sim.produce("risky", 4)
        sim.power_loss()
        sim.restart()
        sim.check("kept")
        sim.check("risky")


def test_a_full_disk_refuses_writes_serves_reads_and_recovers_by_itself(sim: Sim) -> None:
    host = sim.node()
    sim.create_topic("topic")
    sim.produce("topic", 10)
    host.device.capacity_bytes = host.device.used_bytes
    with pytest.raises(KafkaError) as refused:
        for _ in range(50):
            sim.produce("topic", 10, size=1_000)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    sim.check("topic")
    assert len(sim.run(sim.client().metadata()).topics) == 1
    sim.sleep(30)
    host.device.capacity_bytes = None
    sim.sleep(5)
    sim.produce("topic", 10)
    sim.check("topic")
    sim.create_topic("another")
    sim.produce("another", 1)
    sim.check("another")


def test_a_topic_created_on_a_full_disk_is_usable_once_there_is_room(sim: Sim) -> None:
    host = sim.node()
    sim.create_topic("before")
    host.device.capacity_bytes = host.device.used_bytes
    created = []
    for index in range(60):
        try:
            sim.create_topic(f"topic-{index}", partitions=2)
            created.append(f"topic-{index}")
        except (KafkaError, NoAnswer):
            break
    assert 0 < len(created) < 60, "the metadata log fills its last page, then refuses"
    sim.sleep(10)
    host.device.capacity_bytes = None
    sim.sleep(10)
    for topic in created:
        sim.produce(topic, 1, partition=1)
        sim.check(topic, 1)


def test_a_failed_log_dir_goes_offline_and_the_others_serve_on() -> None:
    sim = Sim(2, properties={"log.dirs": "/data,/more"})
    host = sim.node()
    sim.create_topic("topic", partitions=4)
    for partition in range(4):
        sim.produce("topic", 3, partition=partition)
    there = [int(name[len("topic-") :]) for name in host.device.mount().names("/more") if name.startswith("topic-")]
    here = [partition for partition in range(4) if partition not in there]
    assert here and there, "partitions are spread over the log dirs"
    host.device.fail("write", "/more/", errno.EIO, count=1_000)
    for partition in there:
        with pytest.raises(KafkaError) as refused:
            sim.produce("topic", 1, partition=partition)
        assert refused.value.code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    for partition in here:
        sim.produce("topic", 1, partition=partition)
        sim.check("topic", partition)
    sim.create_topic("another", partitions=2)
    for partition in range(2):
        sim.produce("another", 1, partition=partition)
    host.device.faults.clear()
    sim.stop()
    sim.restart()
    for partition in range(4):
        sim.check("topic", partition)
        sim.produce("topic", 1, partition=partition)
        sim.check("topic", partition)
    sim.finish()


def test_partitions_of_a_log_dir_that_is_offline_at_the_start_are_not_made_anew_elsewhere() -> None:
    """Nothing of theirs may be hidden by an empty log: they are unavailable until their log dir is back."""
    sim = Sim(2, properties={"log.dirs": "/data,/more"})
    host = sim.node()
    sim.create_topic("topic", partitions=4)
    for partition in range(4):
        sim.produce("topic", 3, partition=partition)
    there = [int(name[len("topic-") :]) for name in host.device.mount().names("/more") if name.startswith("topic-")]
    sim.stop()
    host.device.fail("names", "/more", errno.EIO, count=1_000)
    sim.restart()
    for partition in there:
        with pytest.raises(KafkaError):
            sim.produce("topic", 1, partition=partition)
    sim.create_topic("new", partitions=2)
    sim.produce("new", 1, partition=1)
    assert not [name for name in host.device.mount().names("/data") if name in [f"topic-{index}" for index in there]]
    host.device.faults.clear()
    sim.restart()
    for partition in range(4):
        sim.check("topic", partition)
    sim.finish()


def test_a_partition_whose_creation_found_no_room_is_in_one_log_dir_after_a_restart() -> None:
    """A full log dir, then another: what the first attempt left must not look like a second replica."""
    sim = Sim(3, properties={"log.dirs": "/data,/more"})
    host = sim.node()
    for index in range(4):
        sim.create_topic(f"before-{index}")
        sim.produce(f"before-{index}", 3)
    host.device.capacity_bytes = host.device.used_bytes
    created = []
    for index in range(8):
        try:
            sim.create_topic(f"topic-{index}")
            created.append(f"topic-{index}")
        except (KafkaError, NoAnswer):
            break
        sim.sleep(1.5)
    assert created
    host.device.capacity_bytes = None
    sim.sleep(5)
    for _ in range(2):
        for topic in [*created, *(f"before-{index}" for index in range(4))]:
            sim.check(topic)
            sim.produce(topic, 1)
        sim.kill()
        sim.restart()
    sim.finish()


def test_a_producer_that_retries_over_kills_and_resets_is_written_exactly_once(sim: Sim) -> None:
    host = sim.node()
    workload = Counter(sim, host, sim.rng, "once", {"flush.messages": "1"}, is_idempotent=True, is_durable=True)
    sim.run(workload.set_up())

    async def disturbed() -> None:
        for _ in range(6):
            producing = sim.loop.create_task(produce())
            await asyncio.sleep(sim.rng.uniform(0.0, 0.2))
            if sim.rng.random() < 0.5:
                sim.network.reset("producer-once", host.name)
            else:
                host.kill() if sim.rng.random() < 0.5 else host.power_loss()
                await host.start()
            await producing

    async def produce() -> None:
        for _ in range(5):
            await workload.step()

    sim.run(disturbed())
    sim.run(workload.verify())


def test_one_seed_writes_one_trace_whatever_strings_hash_to() -> None:
    fingerprints = set()
    for hash_seed in ("1", "2"):
        command = [
            sys.executable,
            "-m",
            "ottla.sim",
            "--seed",
            "5",
            "--only",
            "node",
            "--seconds",
            "2",
            "--fingerprint",
        ]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        fingerprints.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(fingerprints) == 1
    assert fingerprints.pop().startswith("passed")
