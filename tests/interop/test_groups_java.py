"""Java's consumers in groups, all assignors and both protocols: java/JavaGroups.java makes the checks in one JVM."""

from __future__ import annotations

import os

import pytest

from tests.interop.java_checks import JavaChecks, names_of_checks
from tests.interop.servers import Server, kafka_anchor
from tests.interop.toolbox import JAVA_SOURCES

PROGRAM = JAVA_SOURCES / "JavaGroups.java"
ALL = os.environ.get("OTTLA_INTEROP_ALL") == "1"
CHECKS = names_of_checks(PROGRAM, r"check\w+|slowCheck\w+" if ALL else r"check\w+")

pytestmark = pytest.mark.skipif(kafka_anchor() is None, reason="Java's clients: no anchor script or no java")


@pytest.fixture(scope="module")
def checks(group_broker: Server) -> JavaChecks:
    return JavaChecks(
        lambda check: [str(kafka_anchor()), str(PROGRAM), group_broker.bootstrap, "6", check or "|".join(CHECKS)]
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("check", CHECKS)
def test_java_groups(checks: JavaChecks, check: str) -> None:
    verdict = checks.verdict(check)
    assert verdict.startswith("ok "), verdict
