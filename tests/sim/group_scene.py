"""A node with one group on it, for named scenarios: members that live by themselves until a scenario steps in."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

from ottla.sim.classic_member import NEW, ClassicMember, State
from ottla.sim.cluster import Host, Sim
from ottla.sim.consumer_member import ConsumerMember
from ottla.sim.group_workload import PROPERTIES, Groups, Program
from ottla.sim.members import Member
from ottla.sim.workloads import until_done
from ottla.wire.errors import ErrorCode

GROUP = "group"
TOPIC = "groups-0"
PARTITIONS = 4


class Scene(Groups):
    """`Groups` without chance: a topic of four partitions, one group, and members as the scenario wants them."""

    def __init__(self, sim: Sim) -> None:
        self.sim = sim
        self.host: Host = sim.host()
        super().__init__(sim, self.host, random.Random(f"scene {sim.seed}"), kinds=("classic", "consumer", "mixed"))
        self._topic_names = [TOPIC]
        self.groups = {GROUP: ("classic", [TOPIC])}

    async def set_up(self) -> None:
        await until_done(
            lambda: self._client.create_topic(TOPIC, PARTITIONS, self._configs), ErrorCode.TOPIC_ALREADY_EXISTS
        )
        await self.open_coordinator()
        await self.see_topics()
        await self.produce_everywhere()

    async def produce_everywhere(self) -> None:
        for partition in list(self.ends):
            await until_done(lambda partition=partition: self.produce(partition), ErrorCode.NONE)  # type: ignore[misc]

    def classic(self, *, instance_id: str | None = None) -> Program:
        member = self.new_member(GROUP, [TOPIC], is_classic=True, instance_id=instance_id)
        assert isinstance(member, ClassicMember)
        member.speak(NEW)
        return self.start(member)

    def consumer(self, *, instance_id: str | None = None) -> Program:
        member = self.new_member(GROUP, [TOPIC], is_classic=False, instance_id=instance_id)
        assert isinstance(member, ConsumerMember)
        member.commit_version = member.fetch_version = 9
        member.assignor = None
        return self.start(member)

    def member(self, is_classic: bool) -> Program:
        return self.classic() if is_classic else self.consumer()

    async def until(self, claim: Callable[[], bool], *, within_s: float = 30.0) -> None:
        async with asyncio.timeout(within_s):
            while not claim():
                self.look_for_failures()
                await asyncio.sleep(0.001)

    async def settled(self) -> None:
        """Everything is produced, read and committed once more."""
        await self.produce_everywhere()
        await self._until_settled()
        await self.check_offsets(GROUP)

    def settle_now(self) -> None:
        self.sim.run(self.settled())

    def kill_and_start(self, *, is_power_loss: bool = False) -> None:
        if is_power_loss:
            self.host.power_loss()
        else:
            self.host.kill()
        self.sim.run(self.host.start())
        self.sim.run(self.sim.all_answered())

    def committed(self) -> dict[tuple[str, int], int]:
        return self.sim.run(self.committed_offsets(GROUP))


def is_joined(program: Program) -> bool:
    """It knows its generation and has not asked for its assignment yet."""
    return isinstance(program.member, ClassicMember) and program.member.state is State.JOINED


def owned(member: Member) -> list[int]:
    return sorted(partition for _, partition in member.claims)


def new_scene(seed: int = 1, properties: Mapping[str, str] | None = None) -> Scene:
    sim = Sim(seed, properties={**PROPERTIES, **(properties or {})})
    scene = Scene(sim)
    sim.run(scene.host.start())
    sim.run(scene.set_up())
    return scene
