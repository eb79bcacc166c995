"""One seed, one cluster: nodes that die, pause, lose power and each other, and clients that count on them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import cast

from ottla.sim import group_workload, share_workload, streams_member
from ottla.sim.client import NoAnswer
from ottla.sim.cluster import DATA, Host
from ottla.sim.cluster_admin import Careless, Moves, Topics, VoterChanges
from ottla.sim.cluster_client import BELIEVED_S
from ottla.sim.group_workload import Groups
from ottla.sim.network import Weather
from ottla.sim.own_clients import Copiers, Readers, Writers
from ottla.sim.replica_disturbances import SECOND, Disturbances
from ottla.sim.replica_workloads import TOPICS, Counter, Reader
from ottla.sim.replicas import SETTLING_S, Cluster
from ottla.sim.router import PASSING
from ottla.sim.secured import Permissions
from ottla.sim.shape import Shape
from ottla.sim.share_workload import Shares
from ottla.sim.transaction_workload import Ring
from ottla.sim.workloads import Workload
from ottla.wire.errors import KafkaError

CLUSTER = "cluster"
"""Workloads drawn by the seed, on nodes drawn by the seed."""
REPLICAS, RING, GROUPS, TOPIC_CHANGES, MOVES, VOTERS, CLIENTS, SECURED, SPARK, SHARES, STREAMS = (
    "replicas",
    "replicas-ring",
    "replicas-groups",
    "replicas-topics",
    "replicas-moves",
    "replicas-voters",
    "replicas-clients",
    "replicas-secured",
    "replicas-spark",
    "replicas-shares",
    "replicas-streams",
)
WORLDS = (CLUSTER, REPLICAS, RING, GROUPS, TOPIC_CHANGES, MOVES, VOTERS, CLIENTS, SECURED, SPARK, SHARES, STREAMS)
"""Worlds of several nodes, by what goes on in them."""
SPARK_SHARE = 0.15
"""The share of worlds with drawn workloads in which a Spark sink writes instead of them."""
PAUSE_S = 0.05


def new_cluster(seed: int, only: str = CLUSTER) -> Cluster:
    rng = random.Random(f"properties {seed}")
    is_dynamic = only == VOTERS or (only == CLUSTER and rng.random() < 0.2)
    shape = Shape.drawn(rng, is_dynamic=is_dynamic)
    if only == SECURED:
        shape = replace(shape, has_logins=True)
    properties = {
        **group_workload.PROPERTIES,
        **streams_member.drawn_properties(random.Random(f"streams {seed}")),
        **share_workload.properties(seed, 3),
        "offsets.topic.replication.factor": "3",
        "broker.session.timeout.ms": str(rng.choice((2_000, 9_000))),
        "broker.heartbeat.interval.ms": str(rng.choice((500, 1_000))),
        "replica.lag.time.max.ms": str(rng.choice((1_000, 5_000, 30_000))),
        "leader.imbalance.check.interval.seconds": str(rng.choice((3, 300))),
        "replica.high.watermark.checkpoint.interval.ms": str(rng.choice((500, 5_000))),
        "log.flush.offset.checkpoint.interval.ms": str(rng.choice((500, 5_000))),
        "log.dirs": DATA if is_dynamic or rng.random() < 0.6 else f"{DATA},{SECOND}",
        "transaction.state.log.num.partitions": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "metadata.log.max.record.bytes.between.snapshots": str(rng.choice((500, 5_000, 1_000_000))),
        "transaction.two.phase.commit.enable": str(seed % 2 == 0).lower(),
    }
    weather = Weather(
        delay_s=(0.000_1, rng.choice((0.000_5, 0.005, 0.05))),
        partial_probability=rng.choice((0.0, 0.1)),
        buffer_bytes=rng.choice((20_000, 200_000)),
    )
    return Cluster(seed, shape=shape, properties=properties, weather=weather, is_started=False)


class Everyone:
    """Stands where workloads of one node expect its host."""

    name = ""
    power_loss_count = 0

    def __init__(self, sim: Cluster) -> None:
        self._sim = sim

    @property
    def incarnation(self) -> int:
        return self._sim.incarnation


def draw(sim: Cluster, only: str) -> list[Workload]:
    """The workloads of this world."""
    everyone = cast(Host, Everyone(sim))
    tiny = {"internal.segment.bytes": str(sim.rng.choice((25_000, 100_000))), "index.interval.bytes": "100"}
    partition_count = sim.rng.choice((1, 2))
    partitions = [(topic, partition) for topic in TOPICS for partition in range(partition_count)]

    def part(name: str) -> random.Random:
        return random.Random(f"{name} {sim.seed}")

    chosen = only.removeprefix("replicas-")
    kinds = [chosen, *([REPLICAS] if only in (MOVES, VOTERS) else [])]
    if only == CLUSTER:
        kinds = sim.rng.choice(
            (
                [REPLICAS],
                ["ring"],
                ["groups"],
                [REPLICAS, "topics"],
                ["ring", "moves"],
                ["groups", "moves"],
                ["clients"],
                ["shares"],
            )
        )
        if part("spark").random() < SPARK_SHARE:
            kinds = ["spark"]
        kinds = [*kinds, *(["voters"] if sim.shape.has_dynamic_voters else [])]
    found: list[Workload] = []
    if REPLICAS in kinds:
        configs = {topic: tiny if sim.rng.random() < 0.7 else {} for topic in TOPICS}
        found += [
            Counter(sim, topic, partition, partition_count, configs[topic], is_idempotent=topic == "once")
            for topic, partition in partitions
        ]
        found += [Reader(sim, topic, partition) for topic, partition in partitions]
    if "ring" in kinds:
        found.append(Ring(sim, everyone, part("ring"), near_last_epoch=0.0))
    if "groups" in kinds:
        found.append(Groups(sim, everyone, part("groups"), tiny))
    if "streams" in kinds:
        found.append(Groups(sim, everyone, part("streams"), tiny, kinds=("streams",)))
    if "clients" in kinds:
        writers = Writers(sim, part("writers"))
        found += [writers, Readers(sim, part("readers"), writers), Copiers(sim, part("copiers"), writers)]
    if "shares" in kinds:
        found.append(Shares(sim, part("shares")))
    if "secured" in kinds:
        found.append(Permissions(sim, part("permissions")))
    if "spark" in kinds:
        from ottla.sim.spark_sink import SparkSink  # needs pyarrow

        found.append(SparkSink(sim, part("sink")))
    if "topics" in kinds:
        found.append(Topics(sim, part("topics")))
    if "moves" in kinds:
        found += [Moves(sim, part("moves")), Careless(sim, part("careless"))]
    if "voters" in kinds:
        found.append(VoterChanges(sim, part("voters")))
    return found


async def verified(sim: Cluster, workload: Workload) -> None:
    """At rest preferred leaders still lead again by themselves: what meets that is read again, when no client believes
    in the leader before any longer."""
    for is_last in (*[False] * 9, True):
        try:
            await workload.verify()
        except (NoAnswer, KafkaError) as error:
            if is_last or (isinstance(error, KafkaError) and error.code not in PASSING):
                raise
            await asyncio.sleep(2 * BELIEVED_S)
            await sim.settled()
        else:
            return


async def live(sim: Cluster, *, duration_s: float, only: str = CLUSTER) -> None:
    loop = sim.loop
    await sim.start_all()
    workloads = draw(sim, only)
    names = " ".join(workload.name for workload in workloads)
    loop.trace.note("world", f"{sim.shape.broker_count} brokers, controllers {sim.shape.controllers}: {names}")
    for workload in workloads:
        await workload.set_up()
    await sim.settled()

    async def turn(workload: Workload) -> None:
        while True:
            await workload.step()
            await asyncio.sleep(PAUSE_S)

    disturbances = Disturbances(sim)
    running = [loop.create_task(turn(workload), name=workload.name) for workload in workloads]
    disturbing = loop.create_task(disturbances.run(), name="disturbances")

    def fail_early() -> None:
        loop.check()
        for task in (*running, disturbing, sim.watching):
            if task.done() and not task.cancelled():
                task.result()

    await asyncio.wait([*running, disturbing, sim.watching], timeout=duration_s, return_when=asyncio.FIRST_EXCEPTION)
    fail_early()
    disturbances.stop()
    await disturbing
    loop.trace.note("world", "liveness")
    async with asyncio.timeout(SETTLING_S):
        await disturbances.end()
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    fail_early()
    async with asyncio.timeout(SETTLING_S):
        for workload in workloads:
            await workload.settle()
    fail_early()
    await sim.settled()
    sim.check_metadata()
    sim.reconnect()
    for workload in workloads:
        await verified(sim, workload)
    for topic, partition in sim.histories:
        sim.check_replicas(topic, partition)
    fail_early()
