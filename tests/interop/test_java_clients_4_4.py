"""Java's clients of Kafka 4.4.0: the programs that the clients of 4.3.1 run too. Their newer versions of ApiVersions,
TxnOffsetCommit and DeleteGroups are answered, and the check of the cluster and the node (KIP-1242) is on.

The jar is named by OTTLA_KAFKA_CLIENTS_4_4_JAR, or fetched by Maven once; what it needs is the anchor's."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path

import pytest

from ottla.client.admin import Admin
from tests.interop.conftest import GROUP_SETTINGS, ON_KAFKA, new_server
from tests.interop.servers import Server, kafka_anchor
from tests.interop.toolbox import JAVA_SOURCES
from tests.spark.official import single_jar

ARTIFACT = "org.apache.kafka:kafka-clients:4.4.0"
SETTINGS = (
    *GROUP_SETTINGS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
    "transaction.state.log.num.partitions=4",
)

pytestmark = [
    pytest.mark.skipif(kafka_anchor() is None, reason="Java's clients: no anchor script or no java"),
    pytest.mark.skipif(ON_KAFKA, reason="a broker of 4.3.1 has nothing new for them"),
    pytest.mark.skipif(
        os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="three JVMs for minutes: OTTLA_INTEROP_ALL=1 runs it"
    ),
]


def class_path() -> str:
    clients = single_jar(ARTIFACT, "OTTLA_KAFKA_CLIENTS_4_4_JAR")
    if clients is None:
        pytest.skip("no jar of Kafka 4.4's clients and no Maven to fetch it")
    home = Path(os.environ.get("KAFKA_ANCHOR", Path.home() / ".cache" / "kafka-4.3.1"))
    others = [str(jar) for jar in (home / "libs").glob("*.jar") if not jar.name.startswith("kafka-clients-")]
    return os.pathsep.join([clients, *sorted(others)])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("program", "arguments"),
    [("JavaClients.java", ()), ("JavaTransactions.java", ("4", "check.*")), ("JavaGroups.java", ("6", "check.*"))],
)
def test_programs_run_with_the_clients_of_kafka_4_4(
    program: str, arguments: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = JAVA_SOURCES / program
    checks = set(re.findall(r"static void (check\w+)\(\)", source.read_text()))
    assert checks
    server: Server = new_server(tmp_path / "data", SETTINGS)
    server.start()
    request.addfinalizer(server.stop)
    command = [
        "java",
        "-Xmx256M",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        class_path(),
        str(source),
        server.bootstrap,
        *arguments,
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=850, check=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith(("ok ", "failed "))]
    assert lines, result.stdout[-2000:] + result.stderr[-2000:]
    assert [line for line in lines if line.startswith("failed ")] == []
    assert {re.split(r"[ :]", line)[1] for line in lines} == checks
    assert server.is_running(), server.output()


@pytest.mark.timeout(300)
def test_a_share_consumer_of_kafka_4_4_rejects_and_its_records_are_in_the_dead_letter_queue(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: Server = new_server(tmp_path / "data", SETTINGS)
    server.start()
    request.addfinalizer(server.stop)

    async def upgrade() -> None:
        async with Admin(bootstrap_servers=server.bootstrap) as admin:
            await admin.update_features({"metadata.version": 33, "share.version": 2})

    asyncio.run(upgrade())
    source = JAVA_SOURCES / "ShareDeadLetters.java"
    command = [
        "java",
        "-Xmx256M",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        class_path(),
        str(source),
        server.bootstrap,
        "jobs",
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    lines = [line for line in result.stdout.splitlines() if line.startswith(("queue ", "letter "))]
    reasons = ["Offset rejected by client."] * 2 + ["Offset delivery count exceeded the threshold."] * 2
    assert lines == ["queue dlq.jobs"] + [
        f"letter k{number} v{number}|n={number}|__dlq.errors.topic=jobs|__dlq.errors.partition={number % 2}"
        f"|__dlq.errors.offset={number // 2}|__dlq.errors.group=jobs"
        f"|__dlq.errors.delivery.count={1 + number // 2}|__dlq.errors.message={reason}"
        for number, reason in enumerate(reasons)
    ]
