"""Starts of nodes in a simulated world: what they say while they wait, and what a stop in the middle leaves."""

from __future__ import annotations

import logging

import pytest

from ottla.sim.cluster import Sim
from ottla.sim.replicas import Cluster
from tests.sim.test_replicas import with_records

STEP_S = 0.0002


def test_a_node_alone_of_three_names_the_controllers_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ottla.node")
    for sim in with_records(Cluster(1)):
        for name in sim.names:
            sim.stop(name)
        caplog.clear()
        first, *others = sim.names
        sim.host(first).begin()
        sim.sleep(65)
        waits = [line for line in caplog.messages if line.startswith("waiting for controllers")]
        assert len(waits) == 5, "after 1, 11, 21, 31 and 61 s"
        assert all(name in waits[0] for name in others) and ": connection refused" in waits[0]
        assert waits[0].endswith("(1 of 3 is up, 2 are needed)") and waits[-1].endswith(", for 61 s now")
        sim.stop(first)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_stop_at_any_moment_of_a_start_loses_nothing(is_clean: bool) -> None:
    sim = Sim(1)
    sim.node()
    for number in range(5):
        sim.create_topic(f"topic-{number}")
        sim.produce(f"topic-{number}", 10)
    if is_clean:
        sim.stop()
    else:
        sim.kill()
    stop_count = 0
    while True:
        started = sim.host().begin()
        sim.sleep(stop_count * STEP_S)
        if started.done():
            break
        sim.stop()
        stop_count += 1
    assert stop_count > 10, "starts were stopped in the middle"
    for number in range(5):
        sim.check(f"topic-{number}")
    sim.finish()


def test_a_cluster_whose_nodes_are_stopped_while_they_start_goes_on_afterwards() -> None:
    for sim in with_records(Cluster(1)):
        for name in sim.names:
            sim.stop(name)
        for stopped_ms in range(0, 400, 40):
            for name in sim.names:
                sim.host(name).begin()
            sim.sleep(stopped_ms / 1000)
            for name in reversed(sim.names):
                sim.stop(name)
        for name in sim.names:
            sim.host(name).begin()
