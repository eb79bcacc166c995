"""Java's consumers in groups, all assignors and both protocols: java/JavaGroups.java makes the checks in one JVM."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.interop.servers import Server, kafka_anchor
from tests.interop.toolbox import JAVA_SOURCES

PROGRAM = JAVA_SOURCES / "JavaGroups.java"
NAMES = re.findall(r"static void (check\w+|slowCheck\w+)\(\)", PROGRAM.read_text())
ALL = os.environ.get("OTTLA_INTEROP_ALL") == "1"
CHECKS = [name for name in NAMES if ALL or name.startswith("check")]


@pytest.fixture(scope="module")
def verdicts(group_broker: Server) -> dict[str, str]:
    """What the program printed about each check."""
    script = kafka_anchor()
    if script is None:
        pytest.skip("Java's clients: no anchor script or no java")
    command = [str(script), str(PROGRAM), group_broker.bootstrap, "6", "|".join(CHECKS)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=850, check=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith(("ok ", "failed "))]
    assert lines, result.stdout[-2000:] + result.stderr[-2000:]
    return {re.split(r"[ :]", line)[1]: line for line in lines}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("check", CHECKS)
def test_java_groups(verdicts: dict[str, str], check: str) -> None:
    verdict = verdicts.get(check, "the program ended before this check")
    assert verdict.startswith("ok "), verdict
