"""A live broker is fenced for two seconds while a new group joins and its coordinator moves on twice.

The member has no timeouts of its own, as librdkafka has none that matter: it waits five minutes for a JoinGroup. So a
request that stays parked is a member that reads nothing.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from ottla.sim.client import Client, NoAnswer
from ottla.sim.cluster import PORT
from ottla.sim.replicas import Cluster
from ottla.sim.shape import Shape
from ottla.wire.apis import response_class
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP, TOPIC = "group", "topic"
BACKOFF_S = 0.1
ANSWER_S = 8.0
"""More than any one answer may take: a new group waits 3 s for further members."""
JOINED_S = 15.0


class Joining:
    """A member on its way into a group that has no other, with a connection to each broker."""

    def __init__(self, sim: Cluster, group_id: str, *, is_classic: bool) -> None:
        self._group_id = group_id
        self._clients = {id: Client(sim.network, "member", (name, PORT)) for id, name in enumerate(sim.names, 1)}
        self._is_classic = is_classic
        self._rng = random.Random(sim.seed)

    async def ask(self, broker_id: int, request: Message) -> Any:
        key = type(request).__schema__.api_key
        assert key is not None
        try:
            return await self._clients[broker_id].request(request, response_class(key), timeout_s=ANSWER_S)
        except NoAnswer as error:
            assert "no answer within" not in str(error), f"broker {broker_id} does not answer {request}"
            return None

    async def join(self) -> None:
        """Until the group is there and this is its member."""
        while True:
            coordinator_id = await self.find()
            join = self.classic if self._is_classic else self.consumer
            if coordinator_id > 0 and await join(coordinator_id):
                return
            await asyncio.sleep(BACKOFF_S)

    async def find(self) -> int:
        asked_id = self._rng.choice(list(self._clients))
        if await self.ask(asked_id, MetadataRequest(topics=None)) is None:
            return -1
        found = await self.ask(asked_id, FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group_id]))
        return -1 if found is None or found.coordinators[0].error_code else found.coordinators[0].node_id

    async def classic(self, coordinator_id: int) -> bool:
        member_id = ""
        while True:
            joined = await self.ask(
                coordinator_id,
                JoinGroupRequest(
                    group_id=self._group_id,
                    session_timeout_ms=45_000,
                    rebalance_timeout_ms=300_000,
                    member_id=member_id,
                    protocol_type="consumer",
                    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
                ),
            )
            if joined is None or joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
            member_id = joined.member_id
        if joined is None or joined.error_code:
            return False
        synced = await self.ask(
            coordinator_id,
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
            ),
        )
        return synced is not None and not synced.error_code

    async def consumer(self, coordinator_id: int) -> bool:
        answer = await self.ask(
            coordinator_id,
            ConsumerGroupHeartbeatRequest(
                group_id=self._group_id,
                member_id="member",
                member_epoch=0,
                rebalance_timeout_ms=300_000,
                subscribed_topic_names=[TOPIC],
                topic_partitions=[],
            ),
        )
        return answer is not None and not answer.error_code

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


async def fence(sim: Cluster, broker_id: int) -> None:
    """As the controller does with a broker that it takes for gone; the next heartbeat ends it."""
    node = sim.host(sim.controller()).node
    assert node is not None
    node.metadata.controllership.heartbeats.forget(broker_id)
    await node.metadata.controllership._fence(broker_id)


@pytest.mark.parametrize("is_classic", [True, False], ids=["classic", "consumer"])
@pytest.mark.parametrize(
    ("kill_s", "fence_s", "has_logins", "min_isr"),
    [
        (0, 0, True, 2),
        (0, 0.1, True, 1),
        (0.01, 0.2, False, 2),
        (0.1, 0, True, 2),
        (0.5, 0.4, False, 1),
        (3, 0, True, 2),
    ],
)
def test_a_new_group_joins_though_its_coordinator_dies_and_the_next_one_is_fenced(
    is_classic: bool, kill_s: float, fence_s: float, has_logins: bool, min_isr: int
) -> None:
    """`kill_s` after the member began the coordinator is killed, `fence_s` after the next one leads it is fenced."""
    sim = Cluster(1, shape=Shape(has_logins=has_logins), properties={"min.insync.replicas": str(min_isr)})
    sim.create_topic(TOPIC, 3)
    before = Joining(sim, "before", is_classic=is_classic)  # each coordinator has records to load
    sim.run(before.join())
    before.close()
    sim.settle()
    joining = Joining(sim, GROUP, is_classic=is_classic)

    def has_moved_from(*ids: int) -> bool:
        return sim.coordinator(GROUP)[0] not in (*ids, -1)

    async def disturb() -> None:
        await asyncio.sleep(kill_s)
        first = sim.coordinator(GROUP)[0]
        sim.kill(sim.names[first - 1])
        await sim.until(lambda: has_moved_from(first), "a second coordinator")
        second = sim.coordinator(GROUP)[0]
        await asyncio.sleep(fence_s)
        await sim.until(lambda: any(node.metadata.controllership.is_active for node in sim.live()), "a controller")
        await fence(sim, second)
        await sim.until(lambda: has_moved_from(first, second), "a third coordinator")
        node = sim.host(sim.names[second - 1]).node
        assert node is not None
        await sim.until(lambda: not node.metadata.lifecycle.is_fenced, "the second broker is back", within_s=5)

    async def scenario() -> None:
        disturbing = asyncio.ensure_future(disturb())
        async with asyncio.timeout(JOINED_S):
            await joining.join()
        await disturbing

    sim.run(scenario())
    joining.close()
    sim.heal()
    sim.settle()
    sim.finish()
