"""Java's transactional producer, read_committed consumers and admin client: java/JavaTransactions.java makes the
checks, one JVM per version of the transaction protocol runs them (version 1 only with OTTLA_INTEROP_ALL=1)."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.interop.conftest import new_server
from tests.interop.servers import Server, kafka_anchor
from tests.interop.toolbox import JAVA_SOURCES

PROGRAM = JAVA_SOURCES / "JavaTransactions.java"
CHECKS = re.findall(r"static void (check\w+)\(\)", PROGRAM.read_text())
SETTINGS = (
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
    "transaction.state.log.num.partitions=4",
    "offsets.topic.num.partitions=4",
    "group.initial.rebalance.delay.ms=0",
)
PROTOCOL_VERSIONS = [2, 1] if os.environ.get("OTTLA_INTEROP_ALL") == "1" else [2]


@pytest.fixture(scope="module", params=PROTOCOL_VERSIONS)
def verdicts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What the program printed about each check."""
    script = kafka_anchor()
    if script is None:
        pytest.skip("Java's clients: no anchor script or no java")
    server: Server = new_server(tmp_path_factory.mktemp("transactions") / "data", SETTINGS)
    server.start()
    try:
        command = [str(script), str(PROGRAM), server.bootstrap, "4", "check.*"]
        if request.param != PROTOCOL_VERSIONS[0]:
            command.append(str(request.param))
        result = subprocess.run(command, capture_output=True, text=True, timeout=850, check=False)
        assert server.is_running(), server.output()
    finally:
        server.stop()
    lines = [line for line in result.stdout.splitlines() if line.startswith(("ok ", "failed "))]
    assert lines, result.stdout[-2000:] + result.stderr[-2000:]
    yield {re.split(r"[ :]", line)[1]: line for line in lines}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("check", CHECKS)
def test_java_transactions(verdicts: dict[str, str], check: str) -> None:
    verdict = verdicts.get(check, "the program ended before this check")
    assert verdict.startswith("ok "), verdict
