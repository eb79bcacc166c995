"""Java's transactional producer, read_committed consumers and admin client: java/JavaTransactions.java makes the
checks, one JVM per version of the transaction protocol runs them (version 1 only with OTTLA_INTEROP_ALL=1)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop.conftest import shared_server
from tests.interop.java_checks import JavaChecks, names_of_checks
from tests.interop.servers import Server, kafka_anchor
from tests.interop.toolbox import JAVA_SOURCES

PROGRAM = JAVA_SOURCES / "JavaTransactions.java"
SETTINGS = (
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
    "transaction.state.log.num.partitions=4",
    "offsets.topic.num.partitions=4",
    "group.initial.rebalance.delay.ms=0",
)
PROTOCOL_VERSIONS = [2, 1] if os.environ.get("OTTLA_INTEROP_ALL") == "1" else [2]

pytestmark = pytest.mark.skipif(kafka_anchor() is None, reason="Java's clients: no anchor script or no java")


@pytest.fixture(scope="module", params=PROTOCOL_VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    protocol_version: int = request.param
    return protocol_version


@pytest.fixture(scope="module")
def server(version: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from shared_server(tmp_path_factory.mktemp(f"transactions-{version}"), SETTINGS)


@pytest.fixture(scope="module")
def checks(version: int, server: Server) -> JavaChecks:
    command = [str(kafka_anchor()), str(PROGRAM), server.bootstrap, "4"]
    return JavaChecks(lambda check: [*command, check or "check.*", str(version)])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("check", names_of_checks(PROGRAM))
def test_java_transactions(checks: JavaChecks, check: str) -> None:
    verdict = checks.verdict(check)
    assert verdict.startswith("ok "), verdict
