"""Failed TLS handshakes as audit events."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.broker.audit import AuditEvent
from ottla.broker.serving.refused_handshakes import EVENTS_PER_PERIOD, PERIOD_S, RefusedHandshakes
from tests.unit.broker.rooms import TimedGround, run_timed


def test_a_flood_of_failed_handshakes_is_a_bounded_number_of_events(tmp_path: Path) -> None:
    async def scenario() -> None:
        ground = TimedGround(tmp_path)
        ground.loop = asyncio.get_running_loop()
        events: list[AuditEvent] = []
        ground.audit.sink = events.append
        refused = RefusedHandshakes(ground, "SSL")
        for number in range(5_000):
            refused.add(f"10.0.0.{number % 250}", "the client's certificate is refused: certificate has expired")
        assert len(events) == EVENTS_PER_PERIOD
        assert (events[0].host, events[0].listener, events[0].is_success) == ("10.0.0.0", "SSL", False)
        assert "expired" in events[0].reason and events[0].details == {}
        await asyncio.sleep(PERIOD_S + 1)
        assert len(events) == EVENTS_PER_PERIOD + 1
        assert events[-1].details == {"handshakes": 5_000 - EVENTS_PER_PERIOD}
        assert ground.metrics.logins("SSL").failed_authentication == 5_000

        refused.add("10.0.0.1", "again")
        assert len(events) == EVENTS_PER_PERIOD + 2
        await asyncio.sleep(PERIOD_S + 1)
        assert len(events) == EVENTS_PER_PERIOD + 2

    run_timed(scenario())


def test_without_audit_failures_are_only_counted(tmp_path: Path) -> None:
    ground = TimedGround(tmp_path)
    RefusedHandshakes(ground, "SSL").add("10.0.0.1", "no shared cipher")
    assert ground.metrics.logins("SSL").failed_authentication == 1
