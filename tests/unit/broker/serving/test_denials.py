"""A flood of denials is a bounded number of log lines and audit events."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from ottla.broker.audit import AuditEvent
from ottla.broker.serving.authorization import Authorization
from ottla.broker.serving.denials import MAX_PRINCIPALS, PERIOD_MS, REPORTS_PER_PERIOD
from ottla.config.implemented import STANDARD_AUTHORIZER
from ottla.security.principal import Principal
from ottla.wire.acls import AclOperation, AclResource
from tests.unit.broker.rooms import TimedGround, run_timed

READ, TOPIC = AclOperation.READ, AclResource.TOPIC
FLOOD = 5_000


def flood(authorization: Authorization, name: str, count: int) -> None:
    access = authorization.access(Principal("User", name), "10.0.0.1", "INSIDE")
    for number in range(count):
        assert not access.is_allowed(READ, TOPIC, f"topic-{number}")


def test_one_report_has_the_number_of_denials_over_the_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        ground = TimedGround(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER)
        ground.loop = asyncio.get_running_loop()
        events: list[AuditEvent] = []
        ground.audit.sink = events.append
        authorization = Authorization(ground)
        authorization.use_image()
        caplog.clear()
        flood(authorization, "mallory", FLOOD)
        assert len(events) == len(caplog.records) == REPORTS_PER_PERIOD
        flood(authorization, "alice", 1)
        assert events[-1].principal == "User:alice", "the flood of one principal hides no other"
        assert authorization.denied_count == FLOOD + 1
        await asyncio.sleep(PERIOD_MS / 1000 + 1)
        assert len(events) == len(caplog.records) == REPORTS_PER_PERIOD + 2
        assert (events[-1].principal, events[-1].host) == ("User:mallory", "10.0.0.1")
        assert events[-1].details == {"denials": FLOOD - REPORTS_PER_PERIOD}
        flood(authorization, "mallory", 1)
        assert len(events) == REPORTS_PER_PERIOD + 3, "a new period"
        await asyncio.sleep(PERIOD_MS / 1000 + 1)
        flood(authorization, "mallory", REPORTS_PER_PERIOD)
        assert len(events) == 2 * REPORTS_PER_PERIOD + 3, "the denials of an earlier period do not count"

    with caplog.at_level(logging.INFO, "ottla.authorizer"):
        run_timed(scenario())


def test_principals_that_were_denied_long_ago_are_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        ground = TimedGround(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER)
        ground.loop = asyncio.get_running_loop()
        authorization = Authorization(ground)
        for number in range(MAX_PRINCIPALS):
            flood(authorization, f"user-{number}", 1)
        await asyncio.sleep(PERIOD_MS / 1000 + 1)
        flood(authorization, "alice", 1)
        assert len(authorization._denials._periods) == 1

    run_timed(scenario())
