"""Three real nodes, replication factor 3, acks=all: no kill and no freeze loses acknowledged records."""

from __future__ import annotations

import os
import signal
import time
from random import Random

import pytest

from tests.chaos.cluster import QUICK_SESSION, check, start_writing, until
from tests.chaos.conftest import NewCluster

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "4"))


@pytest.mark.timeout(900 + 60 * ROUNDS)
def test_a_killed_leader_takes_nothing_with_it(start_cluster: NewCluster) -> None:
    cluster, topic = start_cluster(), "killed"
    writer = start_writing(cluster, topic)
    rng = Random(21)
    try:
        for _ in range(ROUNDS):
            time.sleep(rng.uniform(0, 0.3))
            victim, controller = cluster.leader(topic), cluster.controller()
            cluster.kill(victim)
            writer.wait_for(1000)
            together, longest = writer.take_gaps()
            print(
                f"killed node {victim}{' with the controller' if victim == controller else ''}:"
                f" no acknowledgement for {together:.2f} s, of one partition for {longest:.2f} s"
            )
            cluster.start(victim)
            cluster.wait_until_in_sync(topic)
            writer.take_gaps()
    finally:
        writer.stop()
    check(cluster, writer, topic)


@pytest.mark.timeout(900)
def test_two_killed_of_three_stop_the_cluster_and_lose_nothing(start_cluster: NewCluster) -> None:
    cluster, topic = start_cluster(), "halted"
    writer = start_writing(cluster, topic)
    try:
        leader = cluster.leader(topic)
        other = next(id for id in cluster.nodes if id != leader)
        cluster.kill(leader, other)
        time.sleep(1)
        cluster.start(leader, other)
        writer.wait_for(1000)
    finally:
        writer.stop()
    check(cluster, writer, topic)


@pytest.mark.timeout(900)
def test_a_leader_that_was_frozen_acknowledges_nothing_that_others_do_not_have(start_cluster: NewCluster) -> None:
    cluster, topic = start_cluster(*QUICK_SESSION), "frozen"
    writer = start_writing(cluster, topic)
    try:
        victim = cluster.leader(topic)
        os.kill(cluster.nodes[victim].pid, signal.SIGSTOP)
        until(lambda: cluster.leader(topic) != victim, "others lead")
        writer.wait_for(1000)
        together, longest = writer.take_gaps()
        print(f"froze node {victim}: no acknowledgement for {together:.2f} s, of one partition for {longest:.2f} s")
        os.kill(cluster.nodes[victim].pid, signal.SIGCONT)
        writer.wait_for(1000)
    finally:
        os.kill(cluster.nodes[victim].pid, signal.SIGCONT)
        writer.stop()
    check(cluster, writer, topic)


@pytest.mark.timeout(900)
def test_a_rolling_restart_fails_no_request(start_cluster: NewCluster) -> None:
    cluster, topic = start_cluster(), "rolling"
    writer = start_writing(cluster, topic)
    try:
        for id, node in cluster.nodes.items():
            node.stop()
            cluster.start(id)
            cluster.wait_until_in_sync(topic)
            writer.wait_for(300)
            together, longest = writer.take_gaps()
            print(f"restarted node {id}: no acknowledgement for {together:.2f} s, of one partition for {longest:.2f} s")
    finally:
        writer.stop()
    check(cluster, writer, topic)
