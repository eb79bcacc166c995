"""Java's share consumer of Kafka 4.3.1 and 4.4.0: java/JavaShareGroups.java makes the checks in one JVM.

With OTTLA_TEST_KAFKA=1 they run against Apache Kafka."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop.conftest import shared_server
from tests.interop.java_checks import JavaChecks, names_of_checks
from tests.interop.servers import Server, kafka_anchor
from tests.interop.test_java_clients_4_4 import class_path
from tests.interop.toolbox import JAVA_SOURCES

PROGRAM = JAVA_SOURCES / "JavaShareGroups.java"
SETTINGS = (
    "auto.create.topics.enable=false",
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
    "share.coordinator.state.topic.num.partitions=4",
    "group.share.max.size=5",
    "group.share.min.heartbeat.interval.ms=200",
    "group.share.heartbeat.interval.ms=300",
    "group.share.min.record.lock.duration.ms=1000",
)

pytestmark = [
    pytest.mark.skipif(kafka_anchor() is None, reason="Java's clients: no anchor script or no java"),
    pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="JVMs for minutes: OTTLA_INTEROP_ALL=1"),
]


@pytest.fixture(scope="module")
def share_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from shared_server(tmp_path_factory.mktemp("shares"), SETTINGS)


@pytest.fixture(scope="module", params=["4.3.1", "4.4.0"])
def checks(request: pytest.FixtureRequest, share_server: Server) -> JavaChecks:
    """With the clients of one version."""
    java = (
        [str(kafka_anchor())]
        if request.param == "4.3.1"
        else ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", class_path()]
    )
    return JavaChecks(lambda check: [*java, str(PROGRAM), share_server.bootstrap, "4", check or "check.*"])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("check", names_of_checks(PROGRAM))
def test_java_share_groups(checks: JavaChecks, check: str) -> None:
    verdict = checks.verdict(check)
    assert verdict.startswith("ok "), verdict
