"""Every command against a cluster, in this process."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from ottla.__main__ import COMMANDS
from tests.cli.conftest import Ottla
from tests.interop.servers import Server

FOR_EVER = "retention.ms=-1"
"""Records of 1970 would be deleted at once."""


def test_topics_are_made_listed_changed_and_deleted(ottla: Ottla, topic: str) -> None:
    made = ottla("topics", "create", topic, "-p", "3", "-c", "retention.ms=60000")
    assert (made.code, made.err) == (0, f"{topic} created with 3 partitions, 1 replica\n")
    again = ottla("topics", "create", topic)
    assert (again.code, "ottla topics describe" in again.err) == (1, True)
    assert ottla("topics", "create", topic, "--if-not-exists").err == f"{topic} is there already\n"
    some = ottla("topics", "create", topic, f"{topic}-2")
    assert (some.code, f"{topic}-2 created" in some.err, "already exists" in some.err) == (1, True, True)
    (row,) = json.loads(ottla("topics", "list", topic, "--sizes", "-o", "json").out)
    assert (row["name"], row["partitions"], row["size_bytes"]) == (topic, 3, 0)
    assert [topic, "3"] in [line.split()[:2] for line in ottla("topics", "list", f"{topic[:-1]}?").lines]
    described = ottla("topics", "describe", topic).out
    assert "retention.ms=60000" in described
    assert len(described.splitlines()) == 6
    grown = ottla("topics", "alter", topic, "--partitions", "5", "--unset", "retention.ms", "-c", "max.message.bytes=9")
    assert (grown.code, "5 partitions, it had 3" in grown.err) == (0, True)
    (document,) = json.loads(ottla("topics", "describe", topic, "-o", "json").out)
    assert (len(document["partitions"]), document["configs"]) == (5, {"max.message.bytes": "9"})
    shrunk = ottla("topics", "alter", topic, "--partitions", "2")
    assert (shrunk.code, "never gets fewer" in shrunk.err) == (1, True)
    asked = ottla("topics", "delete", topic)
    assert (asked.code, "--yes" in asked.err, "nothing was changed" in asked.err) == (2, True, True)
    assert ottla("topics", "delete", topic, "--yes").err == f"{topic} deleted\n"
    gone = ottla("topics", "delete", topic, "--yes")
    assert (gone.code, f"there is no topic '{topic}'" in gone.err) == (1, True)
    assert ottla("topics", "delete", topic, "--if-exists").code == 0


def test_the_nearest_topic_is_suggested(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", f"customers-{topic}")
    for command in (["consume"], ["topics", "describe"], ["topics", "offsets"]):
        said = ottla(*command, f"custmers-{topic}")
        assert (said.code, f"did you mean 'customers-{topic}'?" in said.err) == (1, True)
    said = ottla("produce", f"custmers-{topic}", "-m", "x")
    assert (said.code, "did you mean" in said.err) == (1, True)


def test_lines_become_records_and_records_lines(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "2")
    assert ottla("produce", topic, "-p", "1", stdin=b"one\r\ntwo\n\nthree").code == 0
    assert ottla("consume", topic, "-e").out == "one\ntwo\n\nthree\n"
    assert ottla("produce", topic, "--key-separator", r"\t", "-p", "0", "-H", "a=b", stdin=b"k\tv\n").code == 0
    assert ottla("consume", topic, "-p", "0", "-e", "-f", r"%p/%o %k=%v %h\n").out == "0/0 k=v a=b\n"
    assert ottla("produce", topic, "--key-separator", "→", "-p", "0", stdin="ä→ö".encode()).code == 0
    assert ottla("consume", topic, "-p", "0", "--from", "-1", "-e", "-f", "%k %v").out == "ä ö"
    wrong = ottla("produce", topic, "--key-separator", ":", stdin=b"a:b\nno separator\n")
    assert (wrong.code, "line 2 has no ':'" in wrong.err) == (1, True)


def test_json_goes_in_as_it_came_out(ottla: Ottla, topic: str) -> None:
    for name in (topic, f"{topic}-copy"):
        ottla("topics", "create", name, "-p", "1", "-c", FOR_EVER)
    ottla("produce", topic, "-m", "text", "-m", "é", "-k", "key", "-H", "h=1", "-z", "zstd")
    ottla("produce", topic, "--null", "-k", "gone", "--acks", "1")
    ottla("produce", topic, "--json", stdin=b'{"value_base64": "/wA=", "headers": {"x": "y"}, "timestamp": 5}\n')
    first = ottla("consume", topic, "-e", "-o", "json").out
    assert ottla("produce", f"{topic}-copy", "--json", stdin=first.encode()).code == 0
    second = ottla("consume", f"{topic}-copy", "-e", "-o", "json").out
    documents = [json.loads(line) for line in first.splitlines()]
    assert [one["value"] for one in documents[:3]] == ["text", "é", None]
    assert (documents[3]["value_base64"], documents[3]["timestamp"]) == ("/wA=", 5)
    assert [{**json.loads(line), "topic": topic} for line in second.splitlines()] == documents


def test_json_without_a_value_is_refused_with_its_line(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "1")
    said = ottla("produce", topic, "--json", stdin=b'{"value": "a"}\n{"value": null}\n{"id": 1}\n{"value": "b"}\n')
    assert (said.code, "line 3 has no 'value'" in said.err) == (1, True)
    assert "2 records before it were written" in said.err
    said = ottla("produce", topic, "--json", "-m", '{"value": "c", "key": "k"}', "-m", "text")
    assert (said.code, "message 2 is not valid JSON" in said.err, "1 record before it was written" in said.err) == (
        1,
        True,
        True,
    )
    assert ottla("consume", topic, "-e", "-f", r"%k %v %V\n").lines == [" a 1", "  -1", "k c 1"]
    copied = ottla("produce", topic, "--json", "--repartition", "-m", '{"value": "d", "partition": 9}')
    assert copied.code == 0


def test_arguments_that_are_no_text_are_bytes(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "1")
    assert ottla("produce", topic, "-m", os.fsdecode(b"\xff"), "-k", os.fsdecode(b"\xfe")).code == 0
    assert ottla("consume", topic, "-e", "--key", os.fsdecode(b"\xfe"), "-f", "%v{hex}").out == "ff"


def test_a_range_ends_where_it_is_told_to(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "1", "-c", FOR_EVER)
    lines = "".join(f'{{"value": "{number}", "timestamp": {1000 * number}}}\n' for number in range(1, 11))
    ottla("produce", topic, "--json", stdin=lines.encode())
    cases = [
        (["--from", "-2", "-e"], "9 10"),
        (["--from", "3", "--to", "5"], "4 5"),
        (["--from", "@7000", "--to", "@9000"], "7 8"),
        (["--from", "1970-01-01T00:00:09Z", "-e"], "9 10"),
        (["--to", "+2"], "1 2"),
        (["-n", "3"], "1 2 3"),
        (["--from", "end", "-e"], ""),
        (["--from", "1h ago", "-e"], ""),
        (["--grep", "^1", "-e"], "1 10"),
        (["--grep", "1", "-v", "--from", "6", "-e"], "7 8 9"),
    ]
    for arguments, values in cases:
        said = ottla("consume", topic, *arguments)
        assert (arguments, said.code, said.out.split()) == (arguments, 0, values.split())
    assert ottla("consume", topic, "--grep", "^1", "-e").err == "2 of 10 records matched, in 1 partition\n"


def test_a_key_is_looked_for_in_its_partition_only(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "8")
    lines = "".join(f"user-{number % 40}:{number}\n" for number in range(400))
    ottla("produce", topic, "--key-separator", ":", stdin=lines.encode())
    found = ottla("consume", topic, "--key", "user-7", "-e", "-f", r"%p %v\n")
    rows = [line.split() for line in found.lines]
    assert [int(value) for _, value in rows] == list(range(7, 400, 40))
    assert len({partition for partition, _ in rows}) == 1
    matched, scanned = int(found.err.split()[0]), int(found.err.split()[2])
    assert (matched, scanned < 400, "in 1 partition" in found.err) == (10, True, True)
    everywhere = ottla("consume", topic, "--key", "user-7", "--all-partitions", "-e")
    assert "10 of 400 records matched, in 8 partitions" in everywhere.err


def test_only_committed_records_are_read_if_wanted(ottla: Ottla, cluster: Server, topic: str) -> None:
    import asyncio

    from ottla.client import Producer

    ottla("topics", "create", topic, "-p", "1")

    async def write() -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id=topic) as producer:
            await producer.init_transactions()
            for value, ends in ((b"kept", producer.commit_transaction), (b"dropped", producer.abort_transaction)):
                await producer.begin_transaction()
                await producer.send(topic, value)
                await ends()

    asyncio.run(write())
    assert ottla("consume", topic, "-e", "--isolation", "read_committed").out == "kept\n"
    assert ottla("consume", topic, "-e").out == "kept\ndropped\n"
    (row,) = json.loads(ottla("transactions", "list", "-o", "json").out)[-1:]
    assert row["state"] in ("CompleteAbort", "PrepareAbort", "CompleteCommit")


def test_a_group_reads_is_reset_and_deleted(ottla: Ottla, topic: str) -> None:
    group = f"group-{topic}"
    ottla("topics", "create", topic, "-p", "2")
    ottla("produce", topic, "-p", "1", stdin=b"a\nb\nc\nd\n")
    assert ottla("consume", topic, "-g", group, "-n", "3").out.split() == ["a", "b", "c"]
    assert ottla("consume", topic, "-g", group, "-e").out.split() == ["d"]
    ottla("produce", topic, "-p", "1", stdin=b"e\n")
    (listed,) = [one for one in json.loads(ottla("groups", "list", "--lag", "-o", "json").out) if one["group"] == group]
    assert (listed["state"], listed["lag"]) == ("Empty", 1)
    (document,) = json.loads(ottla("groups", "describe", group, "-o", "json").out)
    assert [(row["partition"], row["committed"], row["lag"]) for row in document["partitions"]] == [
        (0, 0, 0),
        (1, 4, 1),
    ]
    assert ottla("groups", "describe", group).lines[-1].split()[:5] == [topic, "1", "4", "5", "1"]

    tried = ottla("groups", "reset", group, "--to", "beginning", "-o", "json")
    assert ([row["new"] for row in json.loads(tried.out)], "--yes" in tried.err) == ([0, 0], True)
    assert json.loads(ottla("groups", "describe", group, "-o", "json").out)[0]["lag"] == 1
    ottla("groups", "reset", group, "--shift", "-2", "--topic", f"{topic}:1", "--execute")
    assert ottla("consume", topic, "-g", group, "-e").out.split() == ["c", "d", "e"]
    ottla("groups", "reset", group, "--to", "1h ago", "--execute")
    assert json.loads(ottla("groups", "describe", group, "-o", "json").out)[0]["lag"] == 5

    assert ottla("groups", "delete-offsets", group, "--topic", f"{topic}:0", "--yes").code == 0
    assert ottla("groups", "delete", group, "--yes").err == f"{group} deleted\n"
    gone = ottla("groups", "describe", group)
    assert (gone.code, f"there is no group '{group}'" in gone.err) == (1, True)


def test_a_topic_is_cloned_with_its_shape_and_settings(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "3", "-c", "retention.ms=7d", "-c", "cleanup.policy=compact")
    assert ottla("topics", "clone", topic, f"{topic}-2").err == f"{topic}-2 created with 3 partitions, 1 replica\n"
    (document,) = json.loads(ottla("topics", "describe", f"{topic}-2", "-o", "json").out)
    settings = {"retention.ms": "604800000", "cleanup.policy": "compact"}
    assert (len(document["partitions"]), document["configs"]) == (3, settings)
    wider = ottla("topics", "clone", topic, f"{topic}-3", "-p", "5", "-c", "retention.ms=1h", "-o", "json")
    assert json.loads(wider.out) == [{"topic": f"{topic}-3", "created": True, "partitions": 5, "replicas": 1}]
    (document,) = json.loads(ottla("topics", "describe", f"{topic}-3", "-o", "json").out)
    assert document["configs"] == {**settings, "retention.ms": "3600000"}
    again = ottla("topics", "clone", topic, f"{topic}-2")
    assert (again.code, "already exists" in again.err) == (1, True)


def test_a_group_is_cloned_with_its_offsets(ottla: Ottla, topic: str) -> None:
    group, copy = f"group-{topic}", f"copy-{topic}"
    ottla("topics", "create", topic, "-p", "1")
    ottla("produce", topic, stdin=b"a\nb\nc\n")
    ottla("consume", topic, "-g", group, "-n", "2")
    assert ottla("groups", "clone", group, copy).err == f"{copy} has the offsets of {group} for 1 partition\n"
    assert ottla("consume", topic, "-g", copy, "-e").out == "c\n"
    asked = ottla("groups", "clone", group, copy)
    assert (asked.code, "which has committed 1 partition" in asked.err, "--yes" in asked.err) == (2, True, True)
    (row,) = json.loads(ottla("groups", "clone", group, copy, "--topic", topic, "--yes", "-o", "json").out)
    assert (row["before"], row["committed"]) == (3, 2)
    documents = json.loads(ottla("groups", "describe", "--all", "-o", "json").out)
    assert {group, copy} <= {one["group"] for one in documents}
    nothing = ottla("groups", "list", "--state", "stable")
    assert nothing.err.startswith("no group is Stable; there are ")
    missing = ottla("groups", "clone", f"{group}x", copy)
    assert (missing.code, f"did you mean '{group}'?" in missing.err) == (1, True)


def test_kafkas_own_flags_reset_a_group(ottla: Ottla, topic: str) -> None:
    group = f"group-{topic}"
    ottla("topics", "create", topic, "-p", "1")
    ottla("produce", topic, stdin=b"a\nb\nc\n")
    ottla("consume", topic, "-g", group, "-e")
    for flags, offset in (
        (["--to-earliest"], 0),
        (["--to-latest"], 3),
        (["--to-offset", "1"], 1),
        (["--shift-by", "1"], 2),
        (["--to-datetime", "2001-01-01T00:00:00.000"], 0),
    ):
        said = ottla("groups", "reset", group, *flags, "--execute", "-o", "json")
        assert [row["new"] for row in json.loads(said.out)] == [offset], flags


def test_a_pattern_without_a_match_is_named(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic)
    said = ottla("topics", "list", "absent-*", topic)
    assert (said.code, "no topic matches 'absent-*'; there " in said.err, topic in said.out) == (0, True, True)
    assert f"no topic matches 'x{topic}'; did you mean '" in ottla("topics", "list", f"x{topic}").err


def test_options_of_all_commands_stand_before_or_after(ottla: Ottla, cluster: Server, topic: str) -> None:
    ottla("topics", "create", topic)
    options = ["-b", cluster.bootstrap, "-o", "json"]
    said = {
        ottla(*options, "topics", "list", topic).out,
        ottla("topics", *options, "list", topic).out,
        ottla("topics", "list", topic, *options).out,
    }
    assert [row["name"] for row in json.loads(said.pop())] == [topic]
    assert said == set()


def test_a_named_cluster_is_worked_on(
    ottla: Ottla, cluster: Server, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_CLUSTERS", str(tmp_path / "clusters.toml"))
    monkeypatch.delenv("OTTLA_BROKER")
    ottla("clusters", "add", "here", "-b", cluster.bootstrap, "--set", "schema.registry.url=http://127.0.0.1:1")
    ottla("clusters", "add", "nowhere", "-b", "127.0.0.1:1", "--use")
    assert ottla("--cluster", "here", "topics", "create", topic).code == 0
    said = ottla("topics", "list")
    assert (said.code, "nothing listens on 127.0.0.1:1" in said.err) == (1, True)
    assert "this is the cluster 'nowhere'" in said.err
    ottla("clusters", "use", "here")
    assert topic in ottla("topics", "list").out
    assert topic in ottla("completion", "words", "--", "--cluster", "here", "topics", "describe", topic[:3]).lines
    assert ottla("topics", "list", "-b", "127.0.0.1:1").code == 1


def test_settings_and_quotas_are_set_and_taken_back(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic)
    assert ottla("configs", "set", "topic", topic, "retention.ms=5000", "cleanup.policy=compact").code == 0
    assert [line.split()[:2] for line in ottla("configs", "describe", "topic", topic).lines[1:]] == [
        ["cleanup.policy", "compact"],
        ["retention.ms", "5000"],
    ]
    assert len(json.loads(ottla("configs", "describe", "topic", topic, "--all", "-o", "json").out)) > 20
    ottla("configs", "unset", "topic", topic, "retention.ms", "cleanup.policy")
    assert "defaults" in ottla("configs", "describe", "topic", topic).err
    for wrong in (
        ottla("configs", "set", "topic", topic, "retension.ms=1"),
        ottla("topics", "create", f"{topic}-2", "-c", "retension.ms=1"),
    ):
        assert (wrong.code, "did you mean 'retention.ms'?" in wrong.err) == (1, True)
    assert ottla("configs", "set", "broker", "all", "log.cleaner.threads=2").code == 0
    (broker,) = json.loads(ottla("cluster", "brokers", "-o", "json").out)
    assert "log.cleaner.threads" in ottla("configs", "describe", "broker", str(broker["id"])).out
    assert ottla("configs", "unset", "broker", "all", "log.cleaner.threads").code == 0
    assert ottla("configs", "set", "quotas", f"user={topic}", "client-id=default", "producer_byte_rate=1024").code == 0
    quota = {"user": topic, "client-id": "default", "quota": "producer_byte_rate", "value": 1024.0}
    assert wait_for_quotas(ottla, topic, [quota]) == [quota]
    assert ottla("configs", "unset", "quotas", f"user={topic}", "client-id=default", "producer_byte_rate").code == 0
    assert wait_for_quotas(ottla, topic, []) == []


def wait_for_quotas(ottla: Ottla, user: str, expected: list[object]) -> list[object]:
    """A broker of Apache Kafka learns of quotas a moment after the controller has written them."""
    ends_at = time.monotonic() + 120
    while True:
        found: list[object] = json.loads(ottla("configs", "describe", "quotas", f"user={user}", "-o", "json").out)
        if found == expected or time.monotonic() > ends_at:
            return found


def test_the_cluster_tells_about_itself(ottla: Ottla) -> None:
    cluster_id = ottla("cluster", "id").out.strip()
    assert len(cluster_id) == 22
    assert ottla("cluster", "id", "-o", "yaml").out.startswith("cluster_id: ")
    (broker,) = json.loads(ottla("cluster", "brokers", "-o", "json").out)
    assert ottla("cluster", "controller").out.startswith(f"leader {broker['id']}  epoch ")
    features = {one["feature"]: one for one in json.loads(ottla("cluster", "features", "-o", "json").out)}
    assert features["metadata.version"]["finalized"] > 0
    (folder,) = json.loads(ottla("cluster", "log-dirs", "--partitions", "-o", "json").out)
    assert (folder["broker"], folder["error"], folder["usable_bytes"] > 0) == (broker["id"], None, True)


def test_records_are_deleted_only_when_told_twice(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "1")
    ottla("produce", topic, stdin=b"a\nb\nc\n")
    tried = ottla("records", "delete", topic, "--before", "2")
    assert ("nothing was deleted" in tried.err, ottla("consume", topic, "-e").out) == (True, "a\nb\nc\n")
    done = ottla("records", "delete", topic, "--before", "2", "--execute", "-o", "json")
    assert [(row["first"], row["deleted"]) for row in json.loads(done.out)] == [(2, 2)]
    assert ottla("consume", topic, "-e").out == "c\n"
    assert ottla("topics", "offsets", topic, "--at", "now").lines[1].split() == [topic, "0", "2", "3", "1", "3"]


def test_the_doctor_finds_a_group_without_members(ottla: Ottla, topic: str, tmp_path: Path) -> None:
    patient = tmp_path / "client.properties"
    patient.write_text("default.api.timeout.ms=60000\n")  # a machine that is busy is not ill
    ottla("topics", "create", topic, "-p", "1")
    ottla("produce", topic, stdin=b"a\nb\n")
    ottla("consume", topic, "-g", f"group-{topic}", "-n", "1")
    said = ottla("doctor", "-o", "json", "--command-config", str(patient))
    report = json.loads(said.out)
    assert (said.code, report["ok"]) == (1, False)
    checks = {one["check"]: one for one in report["checks"]}
    for well in ("listeners", "quorum", "partitions", "disks", "transactions"):
        assert checks[well]["ok"], checks[well]
    assert any(
        f"group-{topic} is 1 record behind and has no members" in one["what"] for one in checks["groups"]["findings"]
    )
    for group in json.loads(ottla("groups", "list", "-o", "json").out):
        ottla("groups", "delete", group["group"], "-y")
    said = ottla("doctor", "--command-config", str(patient))
    assert (said.code, "PROBLEM" in said.out) == (0, False)


@pytest.mark.parametrize("command", [["describe"], ["offsets"], ["delete", "--yes"]])
def test_a_pattern_where_names_are_expected_is_refused_as_one(ottla: Ottla, command: list[str]) -> None:
    said = ottla("topics", command[0], "orders*", *command[1:])
    assert (said.code, "'orders*' is no name of a topic, and patterns are for" in said.err) == (1, True), said.err


def test_the_group_of_a_spark_sink_has_no_lag(ottla: Ottla, cluster: Server, topic: str, tmp_path: Path) -> None:
    """Its offset counts batches. As a group that is behind, the doctor would advise to delete it."""
    import asyncio

    from ottla.client.admin import Admin
    from ottla.client.core.offsets import OffsetAndMetadata
    from ottla.client.metadata import TopicPartition

    group = f"group-{topic}"
    ottla("topics", "create", topic, "-p", "1")
    ottla("produce", topic, stdin=b"a\nb\nc\n")

    async def commit() -> None:
        note = f"1:{'A' * 22}==:0123abcd:1:AAAA"
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.alter_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(1, note)})

    asyncio.run(commit())
    (document,) = json.loads(ottla("groups", "describe", group, "-o", "json").out)
    assert [(row["committed"], row["end"], row["lag"]) for row in document["partitions"]] == [(1, 3, None)]
    report = json.loads(ottla("doctor", "--wait", "0", "-o", "json").out)
    assert not [one for check in report["checks"] for one in check["findings"] if group in one["what"]]


def test_a_group_that_has_read_all_of_a_transactional_topic_is_not_behind(
    ottla: Ottla, cluster: Server, topic: str, tmp_path: Path
) -> None:
    """Many clients commit the last record plus one, which is in front of the transaction's marker."""
    import asyncio

    from ottla.client import Producer
    from ottla.client.admin import Admin
    from ottla.client.core.offsets import OffsetAndMetadata
    from ottla.client.metadata import TopicPartition

    patient = tmp_path / "client.properties"
    patient.write_text("default.api.timeout.ms=60000\n")
    group = f"group-{topic}"
    ottla("topics", "create", topic, "-p", "2")

    async def write() -> None:
        """Partition 0: a record, its marker, an aborted record, its marker. Partition 1: three records, a marker."""
        async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id=topic) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(topic, b"kept", partition=0)
            for value in (b"a", b"b", b"c"):
                await producer.send(topic, value, partition=1)
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.send(topic, b"dropped", partition=0)
            await producer.abort_transaction()
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.alter_group_offsets(
                group,
                {TopicPartition(topic, 0): OffsetAndMetadata(1), TopicPartition(topic, 1): OffsetAndMetadata(1)},
            )

    asyncio.run(write())
    (document,) = json.loads(ottla("groups", "describe", group, "-o", "json").out)
    assert [(row["committed"], row["end"], row["lag"]) for row in document["partitions"]] == [(1, 4, 0), (1, 4, 2)]
    ottla("groups", "reset", group, "--to", "3", "--topic", f"{topic}:1", "--execute")
    (document,) = json.loads(ottla("groups", "describe", group, "-o", "json").out)
    assert [(row["committed"], row["end"], row["lag"]) for row in document["partitions"]] == [(1, 4, 0), (3, 4, 0)]
    (listed,) = [one for one in json.loads(ottla("groups", "list", "--lag", "-o", "json").out) if one["group"] == group]
    assert listed["lag"] == 0
    report = json.loads(ottla("doctor", "-o", "json", "--command-config", str(patient)).out)
    (groups,) = [one for one in report["checks"] if one["check"] == "groups"]
    assert not any(group in one["what"] for one in groups["findings"])
    ottla("groups", "delete", group)


def test_completion_knows_commands_options_topics_and_groups(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic)
    assert ottla("completion", "words", "--", "to").lines == ["top", "topics"]
    assert ottla("completion", "words", "--", "topics", "de").lines == ["delete", "describe"]
    assert ottla("completion", "words", "--", "topics", "describe", topic[:-1]).lines.count(topic) == 1
    assert ottla("completion", "words", "--", "configs", "set", "topic", topic).lines[0] == topic
    assert "--isolation" in ottla("completion", "words", "--", "consume", topic, "--").lines
    assert ottla("completion", "words", "--", "consume", topic, "-o", "").lines == ["json", "text", "yaml"]
    began = time.monotonic()
    unreachable = ottla("completion", "words", "--", "topics", "-b", "127.0.0.1:1", "describe", "")
    assert (unreachable.code, unreachable.out, unreachable.err) == (0, "", "")
    assert time.monotonic() - began < 100
    for shell in ("bash", "zsh", "fish"):
        assert "completion words" in ottla("completion", shell).out


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help_with_examples(ottla: Ottla, command: str) -> None:
    said = ottla(command, "--help")
    assert (said.code, f"ottla {command}" in said.out.partition("examples:")[2]) == (0, True)
    if "COMMAND" in said.out:
        assert ottla(command).out == said.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["topics", "lst"], "there is no command 'ottla topics lst'; did you mean 'list'?"),
        (["consume", "t", "--from", "soon"], "no place in a log"),
        (["consume", "t", "-f", "%q"], "%q is no placeholder"),
        (["consume", "t", "-g", "g", "--from", "1"], "-g reads where the group is"),
        (["consume", "t", "--grep", "("], "--grep '('"),
        (["consume", "t", "-n", "0"], "at least 1"),
        (["produce", "t", "--key-separator", "\\q"], "is no escape"),
        (["produce", "t", "--json", "--null"], "--null does not go with --json"),
        (["produce", "t", "--json", "--key-separator", ":"], "--key-separator does not go with --json"),
        (["produce", "t", "-m", "x", "--file", "y"], "--file does not go with -m"),
        (["topics", "alter", "t"], "nothing to change"),
        (["topics", "create", "t", "-c", "nonsense"], "no NAME=VALUE"),
        (["configs", "set", "broker", "one", "a=b"], "is no broker"),
        (["configs", "set", "quotas", "alice", "a=1"], "whose quotas?"),
        (["topics", "list", "--command-config", "/absent"], "cannot be read"),
        (["tpoics", "list"], "did you mean 'topics'?"),
        (["clusters", "-b", "h", "list"], "there is no option -b\n"),
        (["-b", "h", "clusters", "add", "c"], "-b stands after the subcommand: ottla clusters add ... -b\n"),
        (["records", "delete", "t", "--to", "end"], "there is no option --to\n"),
    ],
)
def test_misuse_is_told_with_exit_code_2(ottla: Ottla, arguments: list[str], expected: str) -> None:
    said = ottla(*arguments)
    assert (said.code, expected in said.err) == (2, True), said


def test_settings_come_from_a_file(ottla: Ottla, tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "client.properties")
    with open(path, "w") as file:
        file.write("request.timeout.ms=10000\nacks=1\nmax.poll.records=10\n")
    assert ottla("topics", "list", "--command-config", path).code == 0
    with open(path, "w") as file:
        file.write("reqest.timeout.ms=10000\n")
    said = ottla("topics", "list", "--command-config", path)
    assert (said.code, "did you mean request.timeout.ms?" in said.err) == (1, True)
