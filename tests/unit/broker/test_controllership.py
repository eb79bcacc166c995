"""What the active controller knows of brokers without writing it down: who is alive, and who knows of a handover."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.metadata.controllership import Controllership, forwarding
from ottla.broker.peers import peers
from ottla.broker.serving.api import Caller, Peer
from ottla.cluster import BrokerImage
from ottla.controller.heartbeats import Heartbeats
from ottla.machine import Decision
from ottla.net import OsSockets
from ottla.raft.leader import Leader, Replica
from ottla.raft.voters import Voters
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.unit.controller.clusters import Cluster, partition_of


class World:
    """A node, as far as its controllership looks at it: broker 1 leads a quorum of 1 and 2, and 3 only follows."""

    def __init__(self) -> None:
        self.time = 0
        leader = Leader(1, 5, 0, Voters.static(1, 2))
        self.node: Any = SimpleNamespace(
            config=SimpleNamespace(node_id=1, broker_session_timeout_ms=9_000),
            now=lambda: self.time,
            loop=SimpleNamespace(call_later=lambda *_: SimpleNamespace(cancel=lambda: None)),
            lifecycle=SimpleNamespace(broker_epoch=7),
            metadata_log=SimpleNamespace(end_offset=100),
            image_offset=100,
            quorum=SimpleNamespace(machine=SimpleNamespace(role=leader)),
            is_stopping=False,
        )
        self.leader = leader
        self.controllership = Controllership(cast(Any, self.node))
        brokers = {id: BrokerImage(id, id, bytes(16), is_fenced=False) for id in (1, 2, 3)}
        self.controllership._controller = SimpleNamespace(image=SimpleNamespace(brokers=brokers))  # type: ignore[assignment]


def test_a_process_is_certainly_alive_while_it_has_a_session_and_a_connection() -> None:
    world = World()
    world.node.spawn = lambda work: work.close()
    alive = world.controllership.is_certainly_alive
    assert alive(1) and not alive(2)
    first, second = (Peer("127.0.0.1", port, "CONTROLLER", "controller") for port in (1, 2))
    for peer in (first, first, second):
        world.controllership.heard_from(2, peer)
    assert alive(2)
    world.controllership.connection_lost(2)
    assert alive(2)
    world.controllership.connection_lost(2)
    assert not alive(2)
    world.controllership.heard_from(2, Peer("127.0.0.1", 3, "CONTROLLER", "controller"))
    world.time = 9_000
    assert not alive(2)


def test_a_handover_is_known_when_every_other_broker_has_copied_it() -> None:
    world = World()
    known = world.controllership.is_handover_known
    assert not known(2)
    world.controllership.hands_over(2)
    assert not known(2)
    world.leader.observers[3, b"d" * 16] = Replica(end_offset=99)
    assert not known(2)
    world.leader.observers[3, b"d" * 16].end_offset = 100
    assert known(2)
    world.node.image_offset = 99
    assert not known(2)
    world.controllership.hands_over(1)
    assert not known(1)
    world.leader.replicas[2].end_offset = 100
    assert known(1)
    world.controllership.let_go(1)
    assert not known(1)


def test_of_brokers_that_go_together_none_stays_in_sync() -> None:
    world = World()
    cluster = Cluster(1, 2, 3)
    cluster.create("t", [2, 3, 1])
    controllership = world.controllership
    controllership._controller = cluster.controller

    async def commit(decision: Decision[None]) -> None:
        cluster.commit(decision)

    spawned: list[Coroutine[Any, Any, None]] = []
    world.node.commit, world.node.spawn = commit, spawned.append
    controllership.heartbeats.begin([1, 2, 3], 0)
    world.time = 9_000
    controllership._fence_silent()
    for work in spawned:
        with pytest.raises(StopIteration):
            work.send(None)
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr) == (1, (1,))


def test_the_metadata_log_has_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers come in order: one that waits for a commit must not hold back what the commit waits for."""
    sent: list[tuple[int, Message]] = []

    class Recorder:
        def __init__(self, *_: object, client_id: str) -> None:
            made.append(self)
            self.number = len(made)

        def send(self, request: Message, on_answer: object, *, timeout_ms: int) -> None:
            sent.append((self.number, request))

    made: list[Recorder] = []
    monkeypatch.setattr(peers, "Peer", Recorder)
    nothing: Any = None
    others = peers.Peers(nothing, OsSockets(), nothing, client_id="1")
    for _ in range(2):
        others.send("127.0.0.1", 9093, ApiVersionsRequest(), nothing, 1)
        others.send_in_quorum("127.0.0.1", 9093, ApiVersionsRequest(), nothing, 1)
    assert [number for number, _ in sent] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("heard_at", "deadline"),
    [
        (8_000, 17_000),  # a whole session after it was last heard from
        (500, 11_000),  # long ago: it gets a second to find the new controller
        (30_000, 19_000),  # no longer than everybody else
    ],
)
def test_the_session_of_a_silent_leader_began_when_it_was_last_heard_from(heard_at: int, deadline: int) -> None:
    heartbeats = Heartbeats(9_000)
    heartbeats.begin([1, 2, 3], 10_000)
    heartbeats.backdate(3, heard_at, 10_000, 1_000)
    heartbeats.backdate(7, 0, 10_000, 1_000)  # no broker, or one that is fenced
    assert heartbeats.deadline() == deadline
    assert heartbeats.expired(deadline) == ([1, 2, 3] if deadline == 19_000 else [3])


@pytest.mark.parametrize(
    ("role", "code", "answer"), [("broker", 41, "forwarded"), ("broker", 3, 3), ("controller", 41, 41)]
)
def test_what_a_controller_can_no_longer_answer_the_next_one_does(role: str, code: int, answer: object) -> None:
    """Of a client of a broker; who asks the controller itself is told, and looks for the next one."""

    async def lost(*_: object) -> None:
        raise KafkaError(ErrorCode(code))

    async def forward(*_: object) -> str:
        return "forwarded"

    async def answered() -> object:
        try:
            answer: Any = forwarding(lost)(None, node, Caller("c", Peer("127.0.0.1", 1, "", role), 19, 7))
            return await answer
        except KafkaError as error:
            return error.code

    node: Any = SimpleNamespace(controllership=SimpleNamespace(is_active=True, forward=forward))
    assert asyncio.run(answered()) == answer
