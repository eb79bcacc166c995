"""What the logs of a simulated cluster tell an operator of its life."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from ottla.cluster import PartitionImage
from ottla.sim.replicas import Cluster
from tests.sim.test_replicas import with_records


def told(caplog: pytest.LogCaptureFixture, *rooms: str) -> Counter[str]:
    """Lines of rooms, without epochs and offsets, by how many nodes wrote them."""
    return Counter(
        re.sub(r"(epoch|offset) \d+", r"\1 *", record.getMessage())
        for record in caplog.records
        if record.levelno >= logging.INFO and record.name.startswith(tuple(f"ottla.{room}" for room in rooms))
    )


@pytest.fixture
def sim(caplog: pytest.LogCaptureFixture) -> Iterator[Cluster]:
    caplog.set_level(logging.INFO, "ottla")
    yield from with_records(Cluster(1))


def image(sim: Cluster) -> PartitionImage:
    found = sim.image("topic")
    assert found is not None
    return found


def test_every_node_tells_of_a_follower_that_dies_and_comes_back(
    sim: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    sim.create_topic("other", partitions=4)
    sim.sleep(1)
    assert told(caplog, "metadata")["topic other created: 4 partitions, replication factor 3"] == 3
    name = sim.followers("topic")[0]
    dead = sim.host(name).node_id
    isr, leader = list(image(sim).isr), image(sim).leader
    smaller = [id for id in isr if id != dead]
    caplog.clear()

    sim.kill(name)
    sim.wait_for(lambda: len(image(sim).isr) == 2, "the ISR shrinks")
    sim.sleep(1)
    lines = told(caplog, "metadata")
    assert lines[f"broker {dead} fenced (epoch *)"] == 2
    assert lines[f"partition topic-0: ISR shrank from {isr} to {smaller} (leader {leader}, epoch *)"] == 2
    caplog.clear()

    sim.host(name).begin()
    sim.settle()
    lines = told(caplog, "metadata", "storage")
    assert lines[f"broker {dead} registered (epoch *, PLAINTEXT://{name}:9092)"] == 3
    assert lines[f"broker {dead} unfenced (epoch *)"] == 3
    grown = [*smaller, dead]
    assert lines[f"partition topic-0: ISR grew from {smaller} to {grown} (leader {leader}, epoch *)"] == 3
    assert sum(line.startswith("/data/topic-0: recovered, ") for line in lines) == 1


def test_the_election_of_a_new_quorum_leader_is_told(sim: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    sim.kill(sim.controller())
    sim.sleep(10)
    new = sim.host(sim.controller()).node_id
    lines = told(caplog, "raft", "controller")
    assert lines[f"metadata quorum: node {new} leads epoch *"] >= 2
    assert lines["this node is the active controller, of epoch *"] == 1


def test_debug_tells_what_each_machine_was_given_and_wants(sim: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    caplog.set_level(logging.DEBUG, "ottla")
    sim.create_topic("another")
    sim.kill(sim.controller())
    sim.sleep(5)
    steps = [message for message in caplog.messages if message.startswith("machine=")]
    line = re.compile(
        r"machine=(raft|controller|suspicions|waits|follower) node=\d( leader=\d)? event=.+ -> effects=\[.*\]"
    )
    assert steps and all(line.fullmatch(step) for step in steps)
    assert max(map(len, steps)) < 4_000
    for words in (
        "event=Tick() -> effects=[",
        "event=CreateTopicsResponse(topics=[CreatableTopicResult(name='another', ",
        "effects=[TopicRecord(name='another', ",
        "effects=[Persist(state=QuorumState(",
        "LeaderChanged(leader_id=",
        "AppendFetched(records=<",
        "event=BrokersChanged(epochs=",
    ):
        assert any(words in step for step in steps), words
