"""Kafka's own command line tools: what they print about Ottla is what they print about Apache Kafka."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.interop.conftest import ON_KAFKA
from tests.interop.servers import SINCE_4_4, Server, kafka_anchor
from tests.interop.toolbox import Printed, Toolbox


class Tools:
    """The tools, aimed at one server."""

    def __init__(self, toolbox: Toolbox, server: Server) -> None:
        self._toolbox = toolbox
        self._to = ("--bootstrap-server", server.bootstrap)

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> Printed:
        return self._toolbox(tool, *self._to, *arguments, stdin=stdin)

    def fails(self, tool: str, *arguments: str) -> str:
        printed = self._toolbox.run(tool, *self._to, *arguments)
        assert printed.code == 1, f"{tool} {arguments} did not fail: {printed}"
        return printed.out + printed.err

    def offsets(self, topic: str, moment: str) -> dict[int, int]:
        """What get-offsets prints: only partitions that have such an offset."""
        lines = self("get-offsets", "--topic", topic, "--time", moment).lines
        return {int(line.split(":")[1]): int(line.split(":")[2]) for line in lines}


@pytest.fixture
def run(tools: Toolbox, broker: Server) -> Tools:
    return Tools(tools, broker)


def test_topics_creates_describes_lists_grows_and_deletes(run: Tools, topic: str) -> None:
    created = run("topics", "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=1000000")
    assert created.lines == [f"Created topic {topic}."]
    described = run("topics", "--describe", "--topic", topic).lines
    assert re.fullmatch(
        rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 3\tReplicationFactor: 1"
        r"\tConfigs: min.insync.replicas=1,retention.ms=1000000",
        described[0],
    )
    row = "\tTopic: {}\tPartition: {}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
    assert [line.rstrip() for line in described[1:]] == [row.format(topic, p).rstrip() for p in range(3)]
    assert topic in run("topics", "--list").lines
    run("topics", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in run("topics", "--describe", "--topic", topic).out
    assert topic not in run("topics", "--describe", "--unavailable-partitions").out
    assert topic not in run("topics", "--describe", "--under-replicated-partitions").out
    assert topic in run("topics", "--describe", "--topics-with-overrides").out
    run("topics", "--delete", "--topic", topic)
    assert topic not in run("topics", "--list").lines
    assert "does not exist as expected" in run.fails("topics", "--describe", "--topic", topic)


def test_topics_refuses_what_kafka_refuses(run: Tools, topic: str) -> None:
    run("topics", "--create", "--topic", topic, "--replica-assignment", "1,1")
    assert "PartitionCount: 2" in run("topics", "--describe", "--topic", topic).out
    run("topics", "--create", "--if-not-exists", "--topic", topic)
    assert f"Topic '{topic}' already exists." in run.fails("topics", "--create", "--topic", topic)
    other = topic + "-refused"
    create_other = ("topics", "--create", "--topic", other)
    message = run.fails(*create_other, "--config", "retention.ms=abc")
    assert "abc" in message
    assert "retention.ms" in message
    assert "replication factor" in run.fails(*create_other, "--replication-factor", "3").lower()
    assert "partition" in run.fails("topics", "--alter", "--topic", topic, "--partitions", "1")
    assert "bad name" in run.fails("topics", "--create", "--topic", "bad name")
    assert "partition" in run.fails(*create_other, "--partitions", "0").lower()
    assert other not in run("topics", "--list").lines


def test_configs_of_a_topic_change_and_show_their_sources(run: Tools, topic: str) -> None:
    run("topics", "--create", "--topic", topic, "--config", "retention.ms=1000000")
    assert run("configs", "--describe", "--topic", topic).lines == [
        f"Dynamic configs for topic {topic} are:",
        "  retention.ms=1000000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000000}",
    ]
    change = (
        "--add-config",
        "max.message.bytes=65536,cleanup.policy=[compact,delete]",
        "--delete-config",
        "retention.ms",
    )
    assert run("configs", "--alter", "--topic", topic, *change).lines == [
        f"Completed updating config for topic {topic}."
    ]
    assert run("configs", "--describe", "--topic", topic).lines[1:] == [
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete,"
        " DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  max.message.bytes=65536 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=65536,"
        " DEFAULT_CONFIG:message.max.bytes=1048588}",
    ]
    message = run.fails("configs", "--alter", "--topic", topic, "--add-config", "nonsense=1")
    assert "InvalidConfigurationException" in message
    assert "nonsense" in message
    assert "max.message.bytes" in run.fails(
        "configs", "--alter", "--topic", topic, "--add-config", "max.message.bytes=-7"
    )
    assert "UnknownTopicOrPartitionException" in run.fails(
        "configs", "--alter", "--topic", topic + "-absent", "--add-config", "max.message.bytes=7"
    )


def test_every_topic_setting_has_kafkas_default_source_and_synonyms(run: Tools, topic: str) -> None:
    run("topics", "--create", "--topic", topic)
    ours = run("configs", "--describe", "--all", "--topic", topic).lines[1:]
    kafkas = Path(__file__).with_name("kafka_topic_settings.txt").read_text().splitlines()
    assert [line.strip() for line in ours if line.strip().split("=")[0] not in SINCE_4_4] == kafkas


def test_every_broker_setting_shown_is_one_of_kafkas_with_kafkas_default(run: Tools) -> None:
    """The file holds what Apache Kafka shows, without the settings that its own start script gave it."""
    theirs = dict(
        line.split("=", 1) for line in Path(__file__).with_name("kafka_broker_settings.txt").read_text().splitlines()
    )
    ours = dict(line.strip().split("=", 1) for line in run("configs", "--describe", "--all", "--broker", "1").lines[1:])
    given_at_start = {
        *("advertised.listeners", "broker.id", "controller.listener.names", "controller.quorum.voters", "listeners"),
        *(
            "group.initial.rebalance.delay.ms",
            "log.dirs",
            "node.id",
            "offsets.topic.replication.factor",
            "process.roles",
        ),
        *("share.coordinator.state.topic.min.isr", "share.coordinator.state.topic.replication.factor"),
        *("transaction.state.log.min.isr", "transaction.state.log.replication.factor"),
    }
    wrong = {
        name: (value, theirs.get(name))
        for name, value in ours.items()
        if name not in {*given_at_start, *SINCE_4_4}
        and "STATIC_BROKER_CONFIG" not in value
        and theirs.get(name) != value
    }
    assert not wrong
    for name in ("log.retention.hours", "num.partitions", "auto.create.topics.enable", "message.max.bytes", "log.dirs"):
        assert name in ours


def test_configs_of_brokers_change_and_go(run: Tools) -> None:
    run("configs", "--alter", "--broker", "1", "--add-config", "log.cleaner.threads=2")
    assert run("configs", "--describe", "--broker", "1").lines == [
        "Dynamic configs for broker 1 are:",
        "  log.cleaner.threads=2 sensitive=false"
        " synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2, DEFAULT_CONFIG:log.cleaner.threads=1}",
    ]
    run("configs", "--alter", "--broker", "1", "--delete-config", "log.cleaner.threads")
    run("configs", "--alter", "--broker-defaults", "--add-config", "log.retention.ms=7777777")
    assert (
        "  log.retention.ms=7777777 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7777777}"
        in run("configs", "--describe", "--broker-defaults").lines
    )
    run("configs", "--alter", "--broker-defaults", "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in run("configs", "--describe", "--broker-defaults").out
    assert run.fails(
        "configs", "--alter", "--broker", "1", "--add-config", "broker.id=9"
    )  # cannot change while it runs
    assert run.fails("configs", "--alter", "--broker", "1", "--add-config", "log.cleaner.threads=many")


def test_configs_of_a_broker_default_reach_topics(run: Tools, topic: str) -> None:
    run("topics", "--create", "--topic", topic)
    run("configs", "--alter", "--broker-defaults", "--add-config", "log.segment.bytes=33333333")
    try:
        for _ in range(1_200):
            shown = run("configs", "--describe", "--all", "--topic", topic).out
            if "segment.bytes=33333333" in shown:
                break
            time.sleep(0.1)
        assert (
            "  segment.bytes=33333333 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes"
            in shown
        )
    finally:
        run("configs", "--alter", "--broker-defaults", "--delete-config", "log.segment.bytes")


def test_configs_keeps_quotas_of_users_and_clients(run: Tools) -> None:
    both = ("--user", "user-1", "--client", "client-1")
    run("configs", "--alter", *both, "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048")
    assert run("configs", "--describe", *both).lines == [
        "Quota configs for user-principal 'user-1', client-id 'client-1' are"
        " consumer_byte_rate=2048.0, producer_byte_rate=1024.0"
    ]
    assert "client-1" in run("configs", "--describe", "--entity-type", "users", "--entity-type", "clients").out
    run("configs", "--alter", *both, "--delete-config", "producer_byte_rate,consumer_byte_rate")
    assert run("configs", "--describe", *both).lines == []
    run("configs", "--alter", "--client-defaults", "--add-config", "request_percentage=5000")
    assert run("configs", "--describe", "--client-defaults").lines == [
        "Quota configs for the default client-id are request_percentage=5000.0"
    ]
    run("configs", "--alter", "--client-defaults", "--delete-config", "request_percentage")
    assert run.fails("configs", "--alter", "--client", "x", "--add-config", "producer_byte_rate=minus")


def test_client_metrics_subscriptions_are_kept(run: Tools) -> None:
    run(
        "configs",
        "--alter",
        "--client-metrics",
        "by-configs",
        "--add-config",
        "metrics=org.apache.kafka.,interval.ms=10000",
    )
    assert run("configs", "--describe", "--client-metrics", "by-configs").lines == [
        "Dynamic configs for client-metric by-configs are:",
        "  interval.ms=10000 sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=10000}",
        "  metrics=org.apache.kafka. sensitive=false"
        " synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:metrics=org.apache.kafka.}",
    ]
    options = ("--metrics", "org.apache.kafka.consumer.", "--interval", "5000", "--match", "client_id=x.*")
    run("client-metrics", "--alter", "--name", "by-tool", *options)
    assert run("client-metrics", "--describe", "--name", "by-tool").lines == [
        "Client metrics configs for by-tool are:",
        "  interval.ms=5000",
        "  match=client_id=x.*",
        "  metrics=org.apache.kafka.consumer.",
    ]
    assert {"by-configs", "by-tool"} <= set(run("client-metrics", "--list").lines)
    run("client-metrics", "--delete", "--name", "by-tool")
    run("configs", "--alter", "--client-metrics", "by-configs", "--delete-config", "metrics,interval.ms")
    assert not {"by-configs", "by-tool"} & set(run("client-metrics", "--list").lines)


def test_console_producer_and_consumer_carry_keys_headers_and_nulls(run: Tools, topic: str) -> None:
    run("topics", "--create", "--topic", topic)
    reader = [
        *("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
        *("--reader-property", "null.marker=NIL"),
    ]
    text = "h1:v1,h2:v2\tk1\tvalue 1\nh3:v3\tk2\tvalue 2\nh:v\tk3\tNIL\n"
    run("console-producer", "--topic", topic, *reader, "--command-property", "acks=all", stdin=text)
    formatter = ("key", "headers", "offset", "partition")
    options = [part for name in formatter for part in ("--formatter-property", f"print.{name}=true")]
    of_partition = ("--topic", topic, "--partition", "0")
    read = run("console-consumer", *of_partition, "--offset", "earliest", "--max-messages", "3", *options).lines
    assert read == [
        "Partition:0\tOffset:0\th1:v1,h2:v2\tk1\tvalue 1",
        "Partition:0\tOffset:1\th3:v3\tk2\tvalue 2",
        "Partition:0\tOffset:2\th:v\tk3\tnull",
    ]
    assert run("console-consumer", *of_partition, "--offset", "1", "--max-messages", "1").lines == ["value 2"]
    assert run("console-consumer", *of_partition, "--offset", "latest", "--timeout-ms", "300").lines == []
    committed = ("--isolation-level", "read_committed", "--max-messages", "3")
    assert len(run("console-consumer", *of_partition, "--offset", "earliest", *committed).lines) == 3


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_compresses(run: Tools, topic: str, codec: str) -> None:
    lines = [f"line {number} " + "x" * 50 for number in range(500)]
    run("topics", "--create", "--topic", topic)
    run("console-producer", "--topic", topic, "--compression-codec", codec, stdin="\n".join(lines))
    of_partition = ("--topic", topic, "--partition", "0", "--offset", "earliest")
    assert run("console-consumer", *of_partition, "--max-messages", "500").lines == lines


def test_console_producer_creates_the_topic_it_writes_to(run: Tools, topic: str) -> None:
    run("console-producer", "--topic", topic, stdin="first\nsecond\n")
    assert sum(run.offsets(topic, "latest").values()) == 2


def test_get_offsets_knows_every_special_time(run: Tools, topic: str, tmp_path: Path) -> None:
    run("topics", "--create", "--topic", topic, "--partitions", "2")
    for number in range(3):
        run("console-producer", "--topic", topic, "--reader-property", "parse.key=true", stdin=f"k\tvalue {number}\n")
    latest = run.offsets(topic, "latest")
    assert sorted(latest.values()) == [0, 3]
    used = max(latest, key=lambda partition: latest[partition])
    for name, code in (("latest", "-1"), ("earliest", "-2"), ("max-timestamp", "-3"), ("earliest-local", "-4")):
        assert run.offsets(topic, name) == run.offsets(topic, code)
    assert run.offsets(topic, "earliest") == {0: 0, 1: 0}
    assert run.offsets(topic, "earliest-local") == {0: 0, 1: 0}
    assert run.offsets(topic, "max-timestamp") == {used: 2}
    assert run.offsets(topic, "latest-tiered") == run.offsets(topic, "-5") == {}
    assert run.offsets(topic, "earliest-pending-upload") == run.offsets(topic, "-6") == {}
    assert run.offsets(topic, "0") == {used: 0}
    assert run.offsets(topic, str(int(time.time() * 1000) + 3_600_000)) == {}

    plan = tmp_path / "delete.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": used, "offset": 2}]}))
    assert (
        f"partition: {topic}-{used}\tlow_watermark: 2" in run("delete-records", "--offset-json-file", str(plan)).lines
    )
    assert run.offsets(topic, "earliest") == {used: 2, 1 - used: 0}
    assert run.offsets(topic, "0") == {used: 2}
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": used, "offset": 9}]}))
    assert "OffsetOutOfRangeException" in run("delete-records", "--offset-json-file", str(plan)).out


def test_log_dirs_tells_sizes(run: Tools, broker: Server, topic: str) -> None:
    run("topics", "--create", "--topic", topic, "--partitions", "2")
    run("console-producer", "--topic", topic, "--reader-property", "parse.key=true", stdin="k\tvalue\n")
    described = json.loads(run("log-dirs", "--describe", "--topic-list", topic).lines[-1])
    (log_dir,) = described["brokers"][0]["logDirs"]
    assert log_dir["error"] is None
    assert Path(log_dir["logDir"]).resolve() == broker.data.resolve()
    sizes = {replica["partition"]: replica["size"] for replica in log_dir["partitions"]}
    assert sorted(sizes) == [f"{topic}-0", f"{topic}-1"]
    for name, size in sizes.items():
        assert size == (broker.data / name / ("0" * 20 + ".log")).stat().st_size
    assert all(replica["offsetLag"] == 0 and not replica["isFuture"] for replica in log_dir["partitions"])


def test_broker_api_versions_finds_every_api_of_this_issue_usable(run: Tools, broker: Server) -> None:
    lines = run("broker-api-versions").lines
    assert lines[0] == f"{broker.bootstrap} (id: 1 rack: null isFenced: false) -> ("
    shown = {line.split(":")[0].strip(): line.split(":", 1)[1].strip(" ,") for line in lines[1:] if ":" in line}
    expected = {
        "Produce(0)": "0 to 13 [usable: 13]",
        "Fetch(1)": "4 to 18 [usable: 18]",
        "ListOffsets(2)": "1 to 11 [usable: 11]",
        "Metadata(3)": "0 to 13 [usable: 13]",
        "ApiVersions(18)": "0 to 5 [usable: 4]",
        "CreateTopics(19)": "2 to 7 [usable: 7]",
        "DeleteTopics(20)": "1 to 6 [usable: 6]",
        "DeleteRecords(21)": "0 to 2 [usable: 2]",
        "InitProducerId(22)": "0 to 5 [usable: 5]",
        "OffsetForLeaderEpoch(23)": "2 to 4 [usable: 4]",
        "DescribeConfigs(32)": "1 to 4 [usable: 4]",
        "AlterConfigs(33)": "0 to 2 [usable: 2]",
        "DescribeLogDirs(35)": "1 to 5 [usable: 5]",
        "CreatePartitions(37)": "0 to 3 [usable: 3]",
        "IncrementalAlterConfigs(44)": "0 to 1 [usable: 1]",
        "DescribeClientQuotas(48)": "0 to 1 [usable: 1]",
        "AlterClientQuotas(49)": "0 to 1 [usable: 1]",
        "DescribeQuorum(55)": "0 to 2 [usable: 2]",
        "UpdateFeatures(57)": "0 to 2 [usable: 2]",
        "DescribeCluster(60)": "0 to 2 [usable: 2]",
        "DescribeProducers(61)": "0 [usable: 0]",
        "ListConfigResources(74)": "0 to 1 [usable: 1]",
        "DescribeTopicPartitions(75)": "0 [usable: 0]",
    }
    assert {name: shown.get(name) for name in expected} == expected


def test_features_quorum_and_cluster_are_described(run: Tools, broker: Server, tools: Toolbox) -> None:
    features = {line.split()[1]: line.split() for line in run("features", "describe").lines}
    # The tool of 4.3.1 has no name for 4.4's level.
    newest = ["4.3-IV0"] if ON_KAFKA else ["UNKNOWN", "33"]
    assert features["metadata.version"][3] == "3.3-IV3"
    assert features["metadata.version"][5 : 5 + len(newest)] == newest
    assert features["metadata.version"][6 + len(newest)] == "4.3-IV0"
    assert features["kraft.version"][3:8:2] == ["0", "1", "0"]
    assert features["transaction.version"][3:8:2] == ["0", "2", "2"]
    status = dict(line.split(":", 1) for line in run("metadata-quorum", "describe", "--status").lines)
    assert status["LeaderId"].strip() == "1"
    assert int(status["LeaderEpoch"]) >= 1
    assert int(status["HighWatermark"]) > 0
    assert status["MaxFollowerLag"].strip() == "0"
    assert '"id": 1' in status["CurrentVoters"]
    replicas = run("metadata-quorum", "describe", "--replication").lines
    assert replicas[0].split() == [
        *("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
    ]
    assert (replicas[1].split()[0], replicas[1].split()[-1]) == ("1", "Leader")
    to = ("--bootstrap-server", broker.bootstrap)
    meta = dict(
        line.split("=", 1) for line in (broker.data / "meta.properties").read_text().splitlines() if "=" in line
    )
    assert tools("cluster", "cluster-id", *to).lines == [f"Cluster ID: {meta['cluster.id']}"]
    endpoint = tools("cluster", "list-endpoints", *to).lines[1].split()
    assert endpoint == ["1", "127.0.0.1", str(broker.port), "null", "unfenced", "broker"]
    assert "can be upgraded to 2" in run("features", "upgrade", "--feature", "transaction.version=2", "--dry-run").out


def test_describe_producers_shows_the_last_sequence(run: Tools, topic: str) -> None:
    run("topics", "--create", "--topic", topic)
    perf = ("--num-records", "1000", "--record-size", "100", "--throughput", "-1", "--command-property", "acks=all")
    assert run("producer-perf-test", "--topic", topic, *perf).lines[-1].startswith("1000 records sent")
    rows = run("transactions", "describe-producers", "--topic", topic, "--partition", "0").lines
    assert len(rows) == 2
    assert rows[1].split()[1:4] == ["0", "-1", "999"]


def test_verifiable_producer_gets_every_record_acknowledged(broker: Server, topic: str) -> None:
    script = kafka_anchor()
    if script is None:
        pytest.skip("Kafka's verifiable producer: no anchor script or no java")
    command = ["verifiable-producer", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--max-messages", "200"]
    result = subprocess.run([str(script), *command, "--acks", "-1"], capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    offsets = [event["offset"] for event in events if event["name"] == "producer_send_success"]
    assert sorted(offsets) == list(range(200))
    (summary,) = [event for event in events if event["name"] == "tool_data"]
    assert (summary["sent"], summary["acked"]) == (200, 200)


def dumped(tools: Toolbox, file: Path, *options: str) -> list[str]:
    printed = tools("dump-log", "--files", str(file), *options)
    complaints = [line for line in (printed.out + printed.err).splitlines() if "rror" in line or "ismatch" in line]
    assert not complaints, complaints
    return printed.lines


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_dump_log_reads_segments_and_their_indexes(
    run: Tools, tools: Toolbox, broker: Server, topic: str, codec: str
) -> None:
    run(
        "topics",
        "--create",
        "--topic",
        topic,
        "--config",
        "segment.bytes=1048576",
        "--config",
        "index.interval.bytes=4096",
    )
    perf = ["--num-records", "4000", "--record-size", "600", "--throughput", "-1"]
    run("producer-perf-test", "--topic", topic, *perf, "--command-property", "acks=all", f"compression.type={codec}")
    folder = broker.data / f"{topic}-0"
    count = 0
    for segment in sorted(folder.glob("*.log")):
        lines = dumped(tools, segment, "--deep-iteration", "--print-data-log")
        batches = [line for line in lines if line.startswith("baseOffset")]
        records = [line for line in lines if line.startswith("| offset")]
        assert all("isvalid: true" in line and f"compresscodec: {codec}" in line for line in batches)
        first = int(segment.stem)
        assert [int(line.split()[2]) for line in records] == list(range(first, first + len(records)))
        count += len(records)
        for index in (segment.with_suffix(".index"), segment.with_suffix(".timeindex")):
            assert index.exists()
            dumped(tools, index, "--verify-index-only")
            dumped(tools, index)
        if first:
            snapshot = dumped(tools, segment.with_suffix(".snapshot"))
            assert any(line.startswith("producerId: ") for line in snapshot)
    assert count == 4000
    if codec == "none":
        assert len(list(folder.glob("*.log"))) >= 2
    assert (folder / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    described = run("topics", "--describe", "--topic", topic).out
    topic_id = described.split("TopicId: ")[1].split("\t")[0]
    assert (folder / "partition.metadata").read_text().splitlines() == ["version: 0", f"topic_id: {topic_id}"]


def test_dump_log_decodes_the_metadata_log(run: Tools, tools: Toolbox, broker: Server, topic: str) -> None:
    run("topics", "--create", "--topic", topic, "--config", "retention.ms=123456")
    text = ""
    for segment in sorted((broker.data / "__cluster_metadata-0").glob("*.log")):
        text += "\n".join(dumped(tools, segment, "--cluster-metadata-decoder"))
    assert "LeaderChange: " in text
    assert '"type":"FEATURE_LEVEL_RECORD"' in text
    assert '"type":"REGISTER_BROKER_RECORD"' in text
    assert f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{topic}"' in text
    assert '"type":"PARTITION_RECORD"' in text
    assert f'"resourceName":"{topic}","name":"retention.ms","value":"123456"' in text
    assert "isvalid: false" not in text
