"""Java's own producer, consumer and admin client: java/JavaClients.java makes the checks, one JVM runs them all."""

from __future__ import annotations

import pytest

from tests.interop.java_checks import JavaChecks, names_of_checks
from tests.interop.servers import Server, kafka_anchor
from tests.interop.toolbox import JAVA_SOURCES

PROGRAM = JAVA_SOURCES / "JavaClients.java"

pytestmark = pytest.mark.skipif(kafka_anchor() is None, reason="Java's clients: no anchor script or no java")


@pytest.fixture(scope="module")
def checks(broker: Server) -> JavaChecks:
    return JavaChecks(lambda check: [str(kafka_anchor()), str(PROGRAM), broker.bootstrap, *([check] if check else [])])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("check", names_of_checks(PROGRAM))
def test_java_client(checks: JavaChecks, check: str) -> None:
    verdict = checks.verdict(check)
    assert verdict.startswith("ok "), verdict
