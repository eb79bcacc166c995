"""What `ottla doctor` makes of what it sees."""

from __future__ import annotations

import pytest

from ottla.cli.diagnosis import (
    Finding,
    GroupSeen,
    judge_disks,
    judge_groups,
    judge_listeners,
    judge_partitions,
    judge_quorum,
    judge_replicas,
    judge_security,
    judge_transactions,
)
from ottla.cli.transactions import OpenTransaction
from ottla.client.admin import LogDir, QuorumDescription, QuorumReplica, ReplicaLog
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import ErrorCode, KafkaError
from ottla.client.metadata import Broker, PartitionInfo, TopicInfo

NOW = 1_794_800_000_000
GIB = 1 << 30
PLACE = TopicPartition("orders", 0)


def only(findings: list[Finding]) -> Finding:
    (found,) = findings
    assert found.todo
    return found


@pytest.mark.parametrize(
    ("asked", "host", "reason", "expected"),
    [
        ("10.0.0.5:9092", "kafka", "the name 'kafka' is not known", "sent on to kafka:9092"),
        ("10.0.0.5:9092", "localhost", None, "look for it on their own"),
        ("10.0.0.5:9092", "127.0.0.1", None, "look for it on their own"),
        ("10.0.0.5:9092", "0.0.0.0", None, "is nowhere"),
        ("10.0.0.5:9092", "10.0.0.5", "nothing listens there", "nothing listens there"),
    ],
)
def test_unreachable_listeners_are_reported(asked: str, host: str, reason: str | None, expected: str) -> None:
    found = only(judge_listeners([asked], [Broker(1, host, 9092)], {} if reason is None else {1: reason}))
    assert expected in found.what
    assert "advertised.listeners" in found.todo


def test_a_refused_connection_may_mean_a_stopped_broker_also_if_another_address_was_asked() -> None:
    reason = "nothing listens there (connection refused)"
    found = only(judge_listeners(["localhost:9092"], [Broker(3, "127.0.0.1", 9094)], {3: reason}))
    assert found.todo.startswith("is broker 3 running?")


@pytest.mark.parametrize(("asked", "host"), [("localhost:9092", "127.0.0.1"), ("10.0.0.5:9092", "kafka.example.org")])
def test_listeners_that_can_be_reached_are_not(asked: str, host: str) -> None:
    assert judge_listeners([asked], [Broker(1, host, 9092)], {}) == []


def quorum(leader_id: int, *caught_up_at: int) -> QuorumDescription:
    voters = tuple(QuorumReplica(number, 10, at, at) for number, at in enumerate(caught_up_at, 1))
    return QuorumDescription(leader_id, 3, 10, voters, ())


def test_a_quorum_without_a_leader_with_silent_voters_or_another_clock_is_told() -> None:
    assert judge_quorum(quorum(1, NOW, NOW - 500, NOW - 900), NOW) == []
    assert judge_quorum(quorum(1, -1), NOW) == []
    assert "no leader" in only(judge_quorum(quorum(-1, NOW), NOW)).what
    assert "no leader" in only(judge_quorum(None, NOW)).what
    silent = only(judge_quorum(quorum(1, NOW, NOW - 60_000, NOW), NOW))
    assert "controller 2 does not follow" in silent.what
    assert "one more and nothing can be changed" in silent.what
    clock = only(judge_quorum(quorum(1, NOW + 90_000), NOW))
    assert (clock.check, "90 s ahead" in clock.what) == ("clock", True)


def topic(name: str, *isr_of: tuple[int, ...], is_internal: bool = False, replicas: int = 3) -> dict[str, TopicInfo]:
    brokers = tuple(range(1, replicas + 1))
    partitions = tuple(
        PartitionInfo(name, number, isr[0] if isr else -1, 0, brokers, isr) for number, isr in enumerate(isr_of)
    )
    return {name: TopicInfo(name, bytes(16), is_internal, partitions)}


def test_partitions_that_lack_replicas_are_told_the_worst_first() -> None:
    assert judge_partitions(topic("orders", (1, 2, 3)), {}) == []
    offline, scarce, behind = judge_partitions(topic("orders", (), (1,), (1, 2)), {"orders": 2})
    assert "orders-0" in offline.what and "neither read nor written" in offline.what
    assert "orders-1" in scarce.what and "min.insync.replicas" in scarce.what
    assert "orders-2" in behind.what and "too slow: broker 3;" in behind.todo


def test_one_copy_of_the_offsets_is_worth_a_note() -> None:
    internal = topic("__consumer_offsets", (1,), is_internal=True, replicas=1)
    assert not only(judge_replicas(internal, 3)).is_problem
    assert judge_replicas(internal, 1) == judge_replicas(topic("orders", (1,), replicas=1), 3) == []


def test_a_disk_that_is_full_or_dead_is_told() -> None:
    logs = {PLACE: ReplicaLog(5 * GIB, 0, False)}
    assert judge_disks({1: [LogDir("/data", 100 * GIB, 50 * GIB, logs), LogDir("/old", -1, -1, {})]}) == []
    full = only(judge_disks({1: [LogDir("/data", 100 * GIB, 9 * GIB, logs)]}))
    assert "9.0 GiB of 100.0 GiB" in full.what
    assert "orders-0 5.0 GiB" in full.todo
    dead = only(judge_disks({1: [LogDir("/data", -1, -1, {}, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))]}))
    assert "/data of broker 1 is offline" in dead.what


def seen(state: str, member_count: int, committed: int, end: int) -> dict[str, GroupSeen]:
    return {"billing": GroupSeen(state, member_count, {PLACE: committed}, end - committed)}


def test_groups_that_stand_still_are_told() -> None:
    stable = seen("Stable", 2, 50, 100)
    assert judge_groups(stable, seen("Stable", 2, 70, 100), 2) == []
    assert judge_groups(seen("Stable", 2, 100, 100), seen("Stable", 2, 100, 100), 2) == []
    assert "committed nothing in 2 s" in only(judge_groups(stable, seen("Stable", 2, 50, 120), 2)).what
    assert "has no members" in only(judge_groups(stable, seen("Empty", 0, 50, 100), 2)).what
    joining = seen("PreparingRebalance", 2, 50, 100)
    assert "rebalances" in only(judge_groups(joining, joining, 2)).what
    assert judge_groups(joining, seen("Stable", 2, 60, 100), 2) == []


def test_a_group_without_members_that_commits_is_read_for() -> None:
    """Spark and Flink commit what they have read without joining the group."""
    assert judge_groups(seen("Empty", 0, 50, 100), seen("Empty", 0, 70, 100), 2) == []
    assert "has no members" in only(judge_groups(seen("Empty", 0, 50, 90), seen("Empty", 0, 50, 100), 2)).what


def test_one_record_is_not_records() -> None:
    assert "is 1 record behind" in only(judge_groups({}, seen("Empty", 0, 9, 10), 2)).what


def test_hanging_transactions_are_told() -> None:
    assert judge_transactions([], NOW) == []
    one = OpenTransaction(PLACE, 7, 0, 0, 12, NOW - 5_400_000)
    found = only(judge_transactions([one], NOW))
    assert "for 90 min" in found.what and "orders-0" in found.what


def test_a_listener_that_is_open_to_other_machines_is_a_problem() -> None:
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"}
    (found,) = judge_security({1: {**protocols, "listeners": "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093"}})
    assert (found.is_problem, "PLAINTEXT://:9092" in found.what) == (True, True)
    assert judge_security({1: {**protocols, "listeners": "PLAINTEXT://127.0.0.1:9092"}}) == []
    secured = {**protocols, "listeners": "SASL_SSL://:9092"}
    (note,) = judge_security({1: secured})
    assert (note.is_problem, "no authorizer" in note.what) == (False, True)
    assert judge_security({1: {**secured, "authorizer.class.name": "x"}}) == []
