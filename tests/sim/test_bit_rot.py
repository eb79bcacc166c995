"""A bit flips in one replica of three, or a node stops in the middle of a write: others have what was acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from ottla.client import Consumer
from ottla.sim.bit_rot import Rot
from ottla.sim.checkers import Violation
from ottla.sim.programs import Program
from ottla.sim.replicas import Cluster
from ottla.wire.errors import ErrorCode, KafkaError
from tests.sim.test_replicas import with_records


@pytest.fixture
def sim() -> Iterator[Cluster]:
    yield from with_records(Cluster(1))


def rotten(sim: Cluster, name: str, other: str, seed: int = 1) -> Rot:
    """One replica has a bad batch of those that all have."""
    sim.settle()
    rot = Rot(sim, "topic", 0, name, other)
    assert rot.flip(Random(seed))
    return rot


def test_a_follower_refuses_what_has_rotted_on_its_leader_and_copies_it_from_the_next(sim: Cluster) -> None:
    leader = sim.leader("topic")
    follower = sim.followers("topic")[0]
    rot = rotten(sim, leader, follower)
    sim.run(rot.wipe(follower))
    sim.sleep(10)
    assert sim.log(follower, "topic") == []
    sim.run(rot.repair())
    sim.settle()
    assert len(sim.log(follower, "topic")) == 1


def test_a_consumer_is_not_taken_in_by_what_has_rotted_and_reads_it_from_the_next_leader(sim: Cluster) -> None:
    leader = sim.leader("topic")
    rot = rotten(sim, leader, sim.followers("topic")[0])
    with pytest.raises(KafkaError) as refused:
        sim.run(sim.router().fetch("topic", 0, 0))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    sim.run(rot.repair())
    sim.run(sim.verified("topic"))


def test_an_own_consumer_that_met_what_has_rotted_reads_it_from_the_next_leader(sim: Cluster) -> None:
    rot = rotten(sim, sim.leader("topic"), sim.followers("topic")[0])
    refusals: list[ErrorCode] = []
    found: list[int] = []

    async def read(program: Program) -> None:
        async with program.using(Consumer(**program.surroundings(), auto_offset_reset="earliest")) as consumer:
            consumer.assign([("topic", 0)])
            while not found:
                try:
                    found.extend(record.offset for record in await consumer.poll(300))
                except KafkaError as error:
                    refusals.append(error.code)

    program = Program(sim, "reader", sim.names, read)
    program.start()
    sim.sleep(5)
    assert set(refusals) == {ErrorCode.CORRUPT_MESSAGE} and not found
    sim.run(rot.repair())
    sim.run(asyncio.wait_for(program.ended(), 30))
    assert found[0] == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_replica_is_cut_where_it_has_rotted_and_copies_the_rest(sim: Cluster, seed: int) -> None:
    sim.produce("topic", 5)
    name = sim.names[seed % 3]
    other = next(other for other in sim.names if other != name)
    rotten(sim, name, other, seed)
    with pytest.raises(Violation, match=r"^replicas: "):
        sim.check_replicas("topic")
    sim.kill(name)
    sim.heal()
    sim.settle()
    sim.check_replicas("topic")


def test_what_has_spread_is_found_out(sim: Cluster) -> None:
    first, second = sim.followers("topic")
    rot = rotten(sim, first, second)
    other = rotten(sim, second, first)
    with pytest.raises(Violation, match=r"^spread: "):
        sim.run(rot.repair())
    sim.run(rot.wipe(first))
    sim.run(other.wipe(second))


@pytest.mark.parametrize("is_power_loss", [False, True], ids=["kill", "power loss"])
def test_leaders_stop_in_the_middle_of_a_write(sim: Cluster, is_power_loss: bool) -> None:
    for operation in range(0, 12, 2):
        sim.settle()
        host = sim.host(sim.leader("topic"))
        crashes = host.crash_at(operation)
        writing = [sim.loop.create_task(sim.produced("topic", 3)) for _ in range(6)]
        sim.run(asyncio.wait_for(crashes, 60))
        host.power_loss() if is_power_loss else host.kill()
        sim.run(asyncio.wait_for(asyncio.gather(*writing), 60))
        sim.heal()
