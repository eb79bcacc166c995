"""kafka-consumer-groups, kafka-groups and the consumers among Kafka's tools, and dump-log on the offsets topic."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.servers import Server
from tests.interop.test_librdkafka import Clients, consume, create, produce
from tests.interop.toolbox import Printed, Toolbox

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")

TopicPartition = confluent_kafka.TopicPartition
PROTOCOLS = ["classic", "consumer"]


class GroupTools:
    """The tools, aimed at one server."""

    def __init__(self, toolbox: Toolbox, server: Server) -> None:
        self._toolbox = toolbox
        self._to = ("--bootstrap-server", server.bootstrap)

    def __call__(self, tool: str, *arguments: str) -> Printed:
        return self._toolbox(tool, *self._to, *arguments)

    def run(self, tool: str, *arguments: str) -> Printed:
        return self._toolbox.run(tool, *self._to, *arguments)

    def table(self, tool: str, *arguments: str) -> list[dict[str, str]]:
        """The rows of a printed table by their column's name."""
        lines = self(tool, *arguments).lines
        lines = [line for line in lines if not line.startswith(("Consumer group", "WARN", "Warn"))]
        names = lines[0].replace("COORDINATOR (ID)", "COORDINATOR ID").split()
        rows = [line.split() for line in lines[1:]]
        return [dict(zip(names, row, strict=tool != "groups")) for row in rows]  # a simple group has no protocol

    def reset(self, group: str, *how: str) -> dict[int, int]:
        rows = self.table("consumer-groups", "--reset-offsets", "--group", group, *how)
        assert {row["GROUP"] for row in rows} <= {group}
        return {int(row["PARTITION"]): int(row["NEW-OFFSET"]) for row in rows}

    def offsets(self, group: str) -> dict[int, int]:
        rows = self.table("consumer-groups", "--describe", "--group", group)
        return {int(row["PARTITION"]): int(row["CURRENT-OFFSET"]) for row in rows if row["CURRENT-OFFSET"] != "-"}


@pytest.fixture
def run(tools: Toolbox, group_broker: Server) -> GroupTools:
    return GroupTools(tools, group_broker)


@pytest.fixture
def admin(group_broker: Server) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": group_broker.bootstrap})


@pytest.fixture
def clients(group_broker: Server) -> Iterator[Clients]:
    opened = Clients(group_broker.bootstrap)
    yield opened
    opened.close()


@pytest.fixture
def filled(admin: Any, clients: Clients, topic: str) -> str:
    """A topic of three partitions with ten records each."""
    create(admin, topic, partitions=3)
    for partition in range(3):
        produce(clients.producer(), topic, [b"%d" % number for number in range(10)], partition)
    return topic


def member(clients: Clients, group: str, topic: str, protocol: str, **settings: Any) -> Any:
    """A consumer that owns all three partitions, has read everything and committed 4 and 10 of two of them."""
    patient = {"max_poll_interval_ms": 3_600_000}  # it is not polled while the tools look at it
    consumer = clients.consumer(group_id=group, group_protocol=protocol, client_id="a-client", **patient, **settings)
    consumer.subscribe([topic])
    assert len(consume(consumer, 30)) == 30
    offsets = [TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 10)]
    consumer.commit(offsets=offsets, asynchronous=False)
    return consumer


def committed(clients: Clients, group: str, topic: str, *offsets: int) -> None:
    """Commit offsets of a group that has no members."""
    wish = [TopicPartition(topic, partition, offset) for partition, offset in enumerate(offsets)]
    clients.consumer(group_id=group).commit(offsets=wish, asynchronous=False)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_living_group_is_listed_and_described(
    run: GroupTools, clients: Clients, group_broker: Server, filled: str, protocol: str
) -> None:
    group = f"living-{filled}"
    consumer = member(clients, group, filled, protocol)
    assert group in run("consumer-groups", "--list").lines
    kind = protocol.capitalize()
    assert {"GROUP": group, "STATE": "Stable"} in run.table("consumer-groups", "--list", "--state")
    assert {"GROUP": group, "TYPE": kind} in run.table("consumer-groups", "--list", "--type")
    both = run.table("consumer-groups", "--list", "--state", "stable", "--type", protocol)
    assert {"GROUP": group, "TYPE": kind, "STATE": "Stable"} in both
    other = "consumer" if protocol == "classic" else "classic"
    assert group not in run("consumer-groups", "--list", "--type", other).out
    assert group not in run("consumer-groups", "--list", "--state", "Empty,Dead").out
    assert {"GROUP": group, "TYPE": kind, "PROTOCOL": "consumer"} in run.table("groups", "--list")
    assert group in run("groups", "--list", "--consumer").out
    assert group in run("groups", "--list", "--group-type", protocol).out
    assert group not in run("groups", "--list", "--group-type", other).out

    of = ("--describe", "--group", group)
    rows = run.table("consumer-groups", *of)
    shown = [[row[name] for name in ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")] for row in rows]
    assert sorted(shown) == [["0", "4", "10", "6"], ["1", "10", "10", "0"], ["2", "-", "10", "-"]]
    assert {(row["TOPIC"], row["HOST"], row["CLIENT-ID"]) for row in rows} == {(filled, "/127.0.0.1", "a-client")}
    member_id = consumer.memberid()
    assert {row["CONSUMER-ID"] for row in rows} == {member_id}
    assert {row["LEADER-EPOCH"] for row in run.table("consumer-groups", *of, "--offsets", "--verbose")} == {"-"}
    (row,) = run.table("consumer-groups", *of, "--members")
    assert (row["CONSUMER-ID"], row["#PARTITIONS"]) == (member_id, "3")
    (row,) = run.table("consumer-groups", *of, "--members", "--verbose")
    assert row["CURRENT-ASSIGNMENT"] == f"{filled}:0,1,2"
    (row,) = run.table("consumer-groups", *of, "--state")
    assert row["COORDINATOR"] == group_broker.bootstrap
    assert (row["ID"], row["STATE"], row["#MEMBERS"]) == ("(1)", "Stable", "1")
    assert row["ASSIGNMENT-STRATEGY"] == ("range" if protocol == "classic" else "uniform")
    (row,) = run.table("consumer-groups", *of, "--state", "--verbose")
    if protocol == "consumer":
        assert row["GROUP-EPOCH"] == row["TARGET-ASSIGNMENT-EPOCH"] == "2"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_living_group_is_neither_reset_nor_deleted(
    run: GroupTools, clients: Clients, filled: str, protocol: str
) -> None:
    group = f"guarded-{filled}"
    consumer = member(clients, group, filled, protocol)
    of = ("--group", group, "--topic", filled)
    refused = run.run("consumer-groups", "--reset-offsets", *of, "--to-earliest", "--execute")
    assert "inactive" in refused.out
    assert "GroupNotEmptyException" in run.run("consumer-groups", "--delete", "--group", group).out
    assert "GroupSubscribedToTopicException" in run.run("consumer-groups", "--delete-offsets", *of).out
    assert run.offsets(group) == {0: 4, 1: 10}
    consumer.close()
    clients._consumers.remove(consumer)
    assert "no active members" in run.run("consumer-groups", "--describe", "--group", group).err
    assert run.offsets(group) == {0: 4, 1: 10}
    (row,) = run.table("consumer-groups", "--list", "--state", "empty", "--type", protocol)[-1:]
    assert row["STATE"] == "Empty"
    assert run.reset(group, "--topic", filled, "--to-earliest", "--execute") == {0: 0, 1: 0, 2: 0}
    assert run.offsets(group) == {0: 0, 1: 0, 2: 0}
    assert "deleted successfully" in run("consumer-groups", "--delete", "--group", group).out.replace(
        "was successful", "deleted successfully"
    )
    assert "GroupIdNotFoundException" in run.run("consumer-groups", "--describe", "--group", group).out


def test_offsets_are_reset_in_every_way(
    run: GroupTools, admin: Any, clients: Clients, filled: str, tmp_path: Path
) -> None:
    group = f"reset-{filled}"
    committed(clients, group, filled, 4, 10, 7)
    every = ("--topic", filled)
    assert run.reset(group, *every, "--to-earliest", "--dry-run") == {0: 0, 1: 0, 2: 0}
    assert run.offsets(group) == {0: 4, 1: 10, 2: 7}
    exported = run("consumer-groups", "--reset-offsets", "--group", group, *every, "--to-current", "--export")
    plan = sorted(line for line in exported.lines if line.startswith(filled))
    assert plan == [f"{filled},0,4", f"{filled},1,10", f"{filled},2,7"]
    for how, expected in (
        (("--to-earliest",), {0: 0, 1: 0, 2: 0}),
        (("--shift-by", "3"), {0: 3, 1: 3, 2: 3}),
        (("--to-latest",), {0: 10, 1: 10, 2: 10}),
        (("--shift-by", "-4"), {0: 6, 1: 6, 2: 6}),
        (("--to-offset", "8"), {0: 8, 1: 8, 2: 8}),
        (("--to-offset", "5000"), {0: 10, 1: 10, 2: 10}),
        (("--to-current",), {0: 10, 1: 10, 2: 10}),
        (("--shift-by", "-5000"), {0: 0, 1: 0, 2: 0}),
    ):
        assert run.reset(group, *every, *how, "--execute") == expected
        assert run.offsets(group) == expected
    file = tmp_path / "plan.csv"
    file.write_text("\n".join(plan))
    assert run.reset(group, "--from-file", str(file), "--execute") == {0: 4, 1: 10, 2: 7}
    assert run.offsets(group) == {0: 4, 1: 10, 2: 7}
    assert run.reset(group, "--topic", f"{filled}:1,2", "--to-offset", "2", "--execute") == {1: 2, 2: 2}
    assert run.reset(group, "--all-topics", "--shift-by", "1", "--execute") == {0: 5, 1: 3, 2: 3}
    assert run.offsets(group) == {0: 5, 1: 3, 2: 3}


def test_offsets_are_reset_by_time(run: GroupTools, admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic)
    producer = clients.producer()
    now = int(time.time() * 1000)
    for hours in range(10, 0, -1):  # however long the tools take, it is not half an hour
        producer.produce(topic, b"x", partition=0, timestamp=now - hours * 3_600_000)
    assert producer.flush(120) == 0
    group = f"time-{topic}"
    moment = datetime.datetime.fromtimestamp(now / 1000 - 6.5 * 3_600, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.000")
    of = ("--topic", topic)
    assert run.reset(group, *of, "--to-datetime", moment, "--execute") == {0: 4}
    assert run.reset(group, *of, "--to-datetime", "2001-01-01T00:00:00.000", "--execute") == {0: 0}
    assert run.reset(group, *of, "--by-duration", "PT3H30M", "--execute") == {0: 7}
    assert run.reset(group, *of, "--by-duration", "PT0M1S", "--execute") == {0: 10}
    assert run.offsets(group) == {0: 10}


def test_offsets_and_groups_are_deleted(run: GroupTools, clients: Clients, filled: str) -> None:
    group, other = f"deleted-{filled}", f"deleted-too-{filled}"
    committed(clients, group, filled, 1, 2, 3)
    committed(clients, other, filled, 1)
    printed = run("consumer-groups", "--delete-offsets", "--group", group, "--topic", f"{filled}:1")
    assert [line.split() for line in printed.lines[-1:]] == [[filled, "1", "Successful"]]
    assert run.offsets(group) == {0: 1, 2: 3}
    printed = run("consumer-groups", "--delete-offsets", "--group", group, "--topic", "no-such-topic")
    assert "UnknownTopicOrPartitionException" in printed.out
    printed = run("consumer-groups", "--delete", "--group", group, "--group", other, "--group", "no-such-group")
    assert "'no-such-group' could not be deleted" in printed.out
    assert "GroupIdNotFoundException" in printed.out
    listed = run("consumer-groups", "--list").lines
    assert group not in listed and other not in listed


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_console_consumer_goes_on_where_its_group_stopped(run: GroupTools, filled: str, protocol: str) -> None:
    group = f"console-{filled}"
    of = ("--topic", filled, "--group", group, "--command-property", f"group.protocol={protocol}")
    first = run("console-consumer", *of, "--from-beginning", "--max-messages", "12").lines
    rest = run("console-consumer", *of, "--max-messages", "18").lines
    assert sorted(first + rest) == sorted(str(number) for number in range(10) for _ in range(3))
    assert run.offsets(group) == {0: 10, 1: 10, 2: 10}
    assert run("console-consumer", *of, "--timeout-ms", "1500").lines == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_verifiable_consumer_reads_and_commits(run: GroupTools, filled: str, protocol: str) -> None:
    group = f"verifiable-{filled}"
    of = ("--topic", filled, "--group-id", group, "--group-protocol", protocol, "--reset-policy", "earliest")
    events = [json.loads(line) for line in run("verifiable-consumer", *of, "--max-messages", "30").lines]
    by_name: dict[str, list[Any]] = {}
    for event in events:
        by_name.setdefault(event["name"], []).append(event)
    assert sum(len(event["partitions"]) for event in by_name["partitions_assigned"]) == 3
    assert sum(event["count"] for event in by_name["records_consumed"]) == 30
    assert all(event["success"] for event in by_name["offsets_committed"])
    assert run.offsets(group) == {0: 10, 1: 10, 2: 10}


def test_dump_log_decodes_the_offsets_topic(
    tools: Toolbox, run: GroupTools, clients: Clients, group_broker: Server, filled: str
) -> None:
    classic, consumer = f"dumped-classic-{filled}", f"dumped-consumer-{filled}"
    member(clients, classic, filled, "classic", group_instance_id="an-instance")
    member(clients, consumer, filled, "consumer")
    seen: dict[tuple[str, str], list[Any]] = {}
    for segment in sorted(group_broker.data.glob("__consumer_offsets-*/*.log")):
        printed = tools("dump-log", "--offsets-decoder", "--files", str(segment))
        assert "isvalid: false" not in printed.out and "Error" not in printed.out + printed.err
        for line in printed.lines:
            if " payload: " in line:
                key = json.loads(line.split(" key: ", 1)[1].split(" payload: ", 1)[0])
                payload = line.split(" payload: ", 1)[1]
                value = None if payload.startswith("<DELETE>") else json.loads(payload)
                group = key["data"].get("group") or key["data"].get("groupId")
                seen.setdefault((group, str(key["type"])), []).append((key["data"], value and value["data"]))
    offsets = {key["partition"]: value["offset"] for key, value in seen[classic, "1"]}
    assert offsets == {0: 4, 1: 10}
    (_, value) = seen[classic, "2"][-1]
    assert (value["protocolType"], value["protocol"], value["generation"]) == ("consumer", "range", 1)
    assert value["members"][0]["groupInstanceId"] == "an-instance"
    assert {key["partition"]: value["offset"] for key, value in seen[consumer, "1"]} == {0: 4, 1: 10}
    kinds = {int(kind) for group, kind in seen if group == consumer}
    assert {3, 5, 6, 7, 8} <= kinds  # group, member, target of the group, target of the member, current assignment
    (_, value) = seen[consumer, "5"][-1]
    assert (value["clientId"], value["subscribedTopicNames"]) == ("a-client", [filled])
    (_, value) = seen[consumer, "8"][-1]
    assert sorted(value["assignedPartitions"][0]["partitions"]) == [0, 1, 2]
