"""Share groups on simulated nodes: Ottla's own share consumers, what was once wrong, and the checkers themselves."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from ottla.broker.coordinators.runtime import partition_for
from ottla.broker.share import share as share_room
from ottla.broker.share.dead_letters import DeadLetterQueues
from ottla.broker.share.hosted_partition import HostedSharePartition
from ottla.broker.share.letter_producers import LetterProducers
from ottla.client import (
    AcknowledgeType,
    Admin,
    Consumer,
    KafkaError,
    Producer,
    ShareConsumer,
    ShareLetter,
    TopicPartition,
)
from ottla.client.admin.configs import ConfigChange, ConfigResource
from ottla.groups.share.partition import AcknowledgeType as Said
from ottla.groups.share.partition import DeliveryState
from ottla.groups.share.state_records import SharePartitionKey
from ottla.sim import group_workload, share_workload, transaction_workload
from ottla.sim.checkers import Violation
from ottla.sim.cluster import Sim
from ottla.sim.programs import Program
from ottla.sim.replicas import Cluster
from ottla.sim.share_witness import ShareWitness
from ottla.sim.share_workload import GROUP, QUEUE, TOPIC, Shares, may_lose_share
from ottla.wire.config_resources import ResourceType
from ottla.wire.internal_topics import SHARE_GROUP_STATE_TOPIC

PLACE = (TOPIC, 0, 7)
MEMBER = "m"


def one_node(more: dict[str, str] | None = None) -> Sim:
    seed = 1
    properties = {
        **group_workload.PROPERTIES,
        **transaction_workload.PROPERTIES,
        **share_workload.properties(seed, 1),
        "group.share.record.lock.duration.ms": "4000",
        "group.share.delivery.count.limit": "5",
        **(more or {}),
    }
    return Sim(seed, properties=properties)


def member(program: Program, **settings: Any) -> ShareConsumer[Any, Any]:
    made: dict[str, Any] = {
        **program.surroundings(),
        "group_id": GROUP,
        "share_acknowledgement_mode": "explicit",
        **settings,
    }
    return ShareConsumer(**made)


async def prepared(program: Program, count: int) -> None:
    async with program.using(Admin(**program.surroundings())) as admin:
        await admin.create_topic(TOPIC, partition_count=1, replication_factor=program.sim.replication_factor)
        await admin.alter_share_group_offsets(GROUP, {TopicPartition(TOPIC, 0): 0})
    async with program.using(Producer(**program.surroundings())) as producer:
        for number in range(count):
            await producer.send(TOPIC, str(number).encode(), partition=0, timestamp=program.sim.clock())


async def polled(consumer: ShareConsumer[Any, Any]) -> list[tuple[int, int]]:
    """Offset and delivery count of the next records."""
    consumer.subscribe([TOPIC])
    while not (records := await consumer.poll(1_000)):
        pass
    return [(record.offset, record.delivery_count or 0) for record in records]


def run_program(sim: Sim, work: Any, name: str = "scene") -> None:
    program = Program(sim, name, sim.names, work)
    program.start()
    sim.run(program.ended())


# The workload in peace: every part of it works


@pytest.mark.parametrize(
    ("is_explicit", "is_transactional", "has_letters"),
    [(False, False, False), (False, True, True), (True, False, True), (True, True, False)],
)
def test_a_share_group_keeps_its_promises_in_peace(
    is_explicit: bool, is_transactional: bool, has_letters: bool
) -> None:
    sim = one_node()
    sim.node()
    shares = Shares(sim, random.Random(3))
    shares.is_rough = False
    shares.is_explicit, shares.is_transactional, shares.has_letters = is_explicit, is_transactional, has_letters
    shares._sharing["share_acknowledgement_mode"] = "explicit" if is_explicit else "implicit"

    async def live() -> None:
        await shares.set_up()
        await asyncio.sleep(4)
        await shares.settle()
        await shares.verify()

    sim.run(live())
    assert shares.sent and shares.witness.confirmed
    assert not (has_letters and is_explicit) or DeliveryState.ARCHIVED in shares.witness.final.values()
    kinds = {kind for said in shares.witness.said.values() for kind in said}
    assert kinds >= ({Said.ACCEPT, Said.RELEASE, Said.REJECT, Said.RENEW} if is_explicit else {Said.ACCEPT})
    sim.finish()
    assert share_room.__dict__["HostedSharePartition"] is HostedSharePartition, "the witness is gone with its world"


# What was once wrong


def test_a_delivery_to_a_member_that_left_counts_also_after_the_leader_was_killed() -> None:
    """A member's end took its delivery back: a record that kills its members was delivered without end."""
    sim = one_node()
    sim.node()
    seen: list[list[tuple[int, int]]] = []

    async def work(program: Program) -> None:
        async with program.using(member(program)) as consumer:
            seen.append(await polled(consumer))

    run_program(sim, lambda program: prepared(program, 2), "setting-up")
    for number in (1, 2):
        run_program(sim, work, f"member-{number}")
    sim.kill()
    sim.node()
    run_program(sim, work, "member-3")
    assert seen == [[(0, 1), (1, 1)], [(0, 2), (1, 2)], [(0, 3), (1, 3)]]
    sim.finish()


def three_nodes(seed: int) -> Cluster:
    replicated = {**share_workload.properties(seed, 3), "offsets.topic.replication.factor": "3"}
    return Cluster(seed, properties={**group_workload.PROPERTIES, **replicated})


def coordinator_of(sim: Cluster) -> str:
    """The host of the share coordinator of the only partition."""
    key = SharePartitionKey(GROUP, sim.live()[0].ground.image.topics_by_name[TOPIC].id, 0)
    return sim.leader(SHARE_GROUP_STATE_TOPIC, partition_for(key.text, 2))


@pytest.mark.parametrize(("seed", "cut_s"), [(5, 0.3), (4, 30.0)])
def test_counts_do_not_go_back_when_a_leader_dies_before_the_end_of_a_lock_is_written(seed: int, cut_s: float) -> None:
    """The end of a lock was written beside the next delivery: a leader that died in between forgot one. And the end of
    a lock counted as written when the coordinator had not answered for 15 s."""
    sim = three_nodes(seed)
    witness = ShareWitness(sim)
    witness.install()
    counts: list[int] = []
    holders: list[Program] = []

    async def work(program: Program) -> None:
        async with program.using(member(program)) as consumer:
            ((_, count),) = await polled(consumer)
            counts.append(count)
            holders.append(program)
            await asyncio.sleep(60)

    run_program(sim, lambda program: prepared(program, 1), "setting-up")
    leader, coordinator = sim.leader(TOPIC), coordinator_of(sim)
    assert leader != coordinator, "another seed has them on two nodes"
    assert cut_s < 1 or sim.controller() not in (leader, coordinator), "another seed has the controller elsewhere"
    members = [Program(sim, f"member-{number}", sim.names, work) for number in (1, 2)]
    for one in members:
        one.start()
    sim.sleep(4)  # one has the record, the other waits
    assert counts == [1]
    sim.network.cut(leader, coordinator, both_ways=True)
    holders[0].kill()
    sim.sleep(cut_s)  # the record waits for the coordinator
    assert counts == [1], "it was delivered for the second time before that was written"
    sim.kill(leader)
    sim.kill(coordinator)  # and with it what it was sent and had not read
    for one in members:
        one.kill()
    sim.heal()
    before = len(counts)
    third = Program(sim, "member-3", sim.names, work)
    third.start()
    while len(counts) == before:
        sim.sleep(0.1)
    assert counts == sorted(counts), counts
    third.kill()
    sim.finish()


def test_a_confirmed_acceptance_outlives_a_kill_at_once_on_three_nodes() -> None:
    sim = Cluster(
        5,
        properties={
            **group_workload.PROPERTIES,
            **share_workload.properties(5, 3),
            "offsets.topic.replication.factor": "3",
        },
    )
    witness = ShareWitness(sim)
    witness.install()
    seen: list[list[tuple[int, int]]] = []

    async def accept(program: Program) -> None:
        async with program.using(member(program, max_poll_records=3, share_acquire_mode="record_limit")) as consumer:
            consumer.subscribe([TOPIC])
            while not (records := await consumer.poll(1_000)):
                pass
            for record in records:
                witness.say((TOPIC, 0, record.offset), Said.ACCEPT)
                consumer.acknowledge(record, AcknowledgeType.ACCEPT)
            assert not any((await consumer.commit_sync()).values())
            for record in records:
                witness.confirm((TOPIC, 0, record.offset), Said.ACCEPT, record.delivery_count or 0)
            sim.kill(sim.leader(TOPIC))

    async def rest(program: Program) -> None:
        async with program.using(member(program)) as consumer:
            seen.append(await polled(consumer))

    run_program(sim, lambda program: prepared(program, 5), "setting-up")
    run_program(sim, accept, "member-1")
    sim.heal()
    run_program(sim, rest, "member-2")
    assert [offset for offset, _ in seen[0]] == [3, 4]
    sim.finish()


# The checkers find what they are for


def test_a_record_that_comes_back_or_counts_less_is_found() -> None:
    witness = ShareWitness(one_node())
    witness.handed_out(PLACE, MEMBER, 1)
    witness.handed_out(PLACE, MEMBER, 1)  # a leader died before it knew that the member had it
    witness.handed_out(PLACE, MEMBER, 2)
    with pytest.raises(Violation, match=r"counts: .* it had 2"):
        witness.handed_out(PLACE, MEMBER, 1)
    witness.confirm(PLACE, Said.RELEASE, 2)
    with pytest.raises(Violation, match=r"counts: .* 2 were confirmed"):
        witness.handed_out(PLACE, MEMBER, 2)
    witness.confirm(PLACE, Said.ACCEPT, 3)
    with pytest.raises(Violation, match="came back"):
        witness.handed_out(PLACE, MEMBER, 4)


def test_an_end_that_no_member_asked_for_is_found() -> None:
    witness = ShareWitness(one_node())
    with pytest.raises(Violation, match="unasked"):
        witness.ended(PLACE, DeliveryState.ACKNOWLEDGED, 1, 5)
    with pytest.raises(Violation, match="unasked"):
        witness.ended(PLACE, DeliveryState.ARCHIVED, 4, 5)
    witness.ended(PLACE, DeliveryState.ARCHIVED, 5, 5)
    assert PLACE in witness.exhausted
    witness.say(PLACE, Said.ACCEPT)
    witness.ended(PLACE, DeliveryState.ACKNOWLEDGED, 1, 5)


def test_a_lock_that_ends_early_or_does_not_hold_is_found() -> None:
    sim = one_node()
    sim.node()
    witness = ShareWitness(sim)
    witness.install()

    async def work(program: Program) -> None:
        await prepared(program, 3)
        async with program.using(member(program)) as consumer:
            await polled(consumer)
            node = sim.host().node
            assert node is not None
            (hosted,) = list(node.share)
            machine: Any = hosted.machine
            now = sim.loop.now()
            with pytest.raises(Violation, match="early"):
                machine._locks[0].expires_at += 100_000
                machine.expire(now + 50_000)

            def take_away() -> None:
                run = machine._runs[0]
                run.state, run.member_id, run.change_id = DeliveryState.AVAILABLE, "", 0

            take_away()
            with pytest.raises(Violation, match="twice"):
                machine.acquire("other", 0, [(0, 2)], 10, is_strict=True, now=now)
            take_away()
            machine._locks.clear()
            with pytest.raises(Violation, match=r"unwritten: .* delivery 3, but 0 are stored"):
                machine.acquire("other", 0, [(0, 2)], 10, is_strict=True, now=now)

    run_program(sim, work)
    sim.abandon()


def test_a_record_that_reached_no_member_is_found() -> None:
    sim = one_node()
    shares = Shares(sim, random.Random(3))
    shares.sent[PLACE] = b"x"
    with pytest.raises(Violation, match="lost"):
        sim.run(shares.verify())
    sim.abandon()


# Dead letters that are written once


STEPS = [
    (LetterProducers, "open", "after"),
    (DeadLetterQueues, "write", "before"),
    (DeadLetterQueues, "write", "after"),
    (LetterProducers, "find_written", "before"),  # by the next leader, of the letter that is there
    (LetterProducers, "find_written", "after"),
    (HostedSharePartition, "_confirm", "after"),
    (HostedSharePartition, "_write_once", "before"),  # of its end
]


def test_a_record_has_one_letter_whichever_step_of_its_leader_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leader dies at the next of STEPS, its successor at the one after that; new records come in between."""
    sim = three_nodes(5)
    end = sim.loop.time() + 600
    left = list(STEPS)
    letters: list[tuple[int, int]] = []

    def die_at(owner: type, name: str) -> None:
        original = getattr(owner, name)

        async def step(self: Any, *arguments: Any) -> Any:
            is_due = bool(left) and left[0][:2] == (owner, name) and left[0][2] == "before"
            result = None if is_due else await original(self, *arguments)
            if is_due or (left and left[0] == (owner, name, "after")):
                del left[0]
                leader = sim.leader(TOPIC)
                sim.loop.call_soon(sim.kill, leader, context=sim.loop.neutral)
                await asyncio.sleep(3_600)
            return result

        monkeypatch.setattr(owner, name, step)

    async def prepare(program: Program) -> None:
        await prepared(program, 0)
        async with program.using(Admin(**program.surroundings())) as admin:
            await admin.update_features(share_workload.WITH_LETTERS)
            config = {"errors.deadletterqueue.group.enable": "true"}
            await admin.create_topic(QUEUE, partition_count=1, replication_factor=3, config=config)
            settings = {"errors.deadletterqueue.topic.name": QUEUE, "ottla.errors.deadletterqueue.once.enable": "true"}
            changes = [ConfigChange(name, value) for name, value in settings.items()]
            await admin.alter_configs({ConfigResource(ResourceType.GROUP, GROUP): changes})

    async def send(program: Program) -> None:
        async with program.using(Producer(**program.surroundings())) as producer:
            while not program.is_asked_to_end:
                await producer.send(TOPIC, b"x", partition=0, timestamp=sim.clock())
                await asyncio.sleep(1)

    async def reject(program: Program) -> None:
        async with program.using(member(program)) as consumer:
            consumer.subscribe([TOPIC])
            while not program.is_asked_to_end:
                try:
                    for record in await consumer.poll(500):
                        consumer.acknowledge(record, AcknowledgeType.REJECT)
                    await consumer.commit_sync()
                except KafkaError as error:
                    assert may_lose_share(error), error

    async def read(program: Program) -> None:
        async with program.using(Admin(**program.surroundings())) as admin:
            place = TopicPartition(TOPIC, 0)
            while (at := (await admin.list_share_group_offsets(GROUP))[place]).lag:
                assert sim.loop.time() < end, at
                await asyncio.sleep(1)
        async with program.using(Consumer(**program.surroundings(), auto_offset_reset="earliest")) as consumer:
            consumer.assign([TopicPartition(QUEUE, 0)])
            quiet_at = sim.loop.time() + 3
            while sim.loop.time() < quiet_at:
                for record in await consumer.poll(500):
                    letter = ShareLetter.of(record)
                    assert letter is not None
                    letters.append((letter.offset, record.offset))

    run_program(sim, prepare, "setting-up")
    for owner, name in dict.fromkeys((owner, name) for owner, name, _ in STEPS):
        die_at(owner, name)
    programs = [Program(sim, "sender", sim.names, send), Program(sim, "rejecter", sim.names, reject)]
    for one in programs:
        one.start()
    while left:
        before = len(left)
        while len(left) == before:
            assert sim.loop.time() < end, f"{left[0]} is not reached"
            sim.sleep(0.5)
        sim.sleep(1)
        sim.heal()
    sim.run(programs[0].ended())
    sim.sleep(10)
    sim.run(programs[1].ended())
    run_program(sim, read, "reader")
    assert sorted(offset for offset, _ in letters) == list(range(len(letters))) and len(letters) > 3, letters
    sim.finish()
