"""Java's own producer, consumer and admin client: java/JavaClients.java makes the checks, one JVM runs them all."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.interop.servers import Server, kafka_anchor
from tests.interop.toolbox import JAVA_SOURCES

PROGRAM = JAVA_SOURCES / "JavaClients.java"
CHECKS = re.findall(r"static void (check\w+)\(\)", PROGRAM.read_text())


@pytest.fixture(scope="module")
def verdicts(broker: Server) -> dict[str, str]:
    """What the program printed about each check."""
    script = kafka_anchor()
    if script is None:
        pytest.skip("Java's clients: no anchor script or no java")
    command = [str(script), str(PROGRAM), broker.bootstrap]
    result = subprocess.run(command, capture_output=True, text=True, timeout=850, check=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith(("ok ", "failed "))]
    assert lines, result.stdout[-2000:] + result.stderr[-2000:]
    return {re.split(r"[ :]", line)[1]: line for line in lines}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("check", CHECKS)
def test_java_client(verdicts: dict[str, str], check: str) -> None:
    verdict = verdicts.get(check, "the program ended before this check")
    assert verdict.startswith("ok "), verdict
