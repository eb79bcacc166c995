"""A broker's standing with the active controller, which is a list of answers here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.metadata.lifecycle import Lifecycle
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatResponse

FENCED = BrokerHeartbeatResponse(is_fenced=True)
UNFENCED = BrokerHeartbeatResponse(is_fenced=False)
STALE = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)


class Scripted(Lifecycle):
    """Heartbeats get these answers, one after another; the last one ends the test. Registrations get the outcomes."""

    def __init__(self, answers: list[BrokerHeartbeatResponse | None], outcomes: list[KafkaError | None]) -> None:
        self.ended = asyncio.Event()
        self.registration_count = 0
        self.obstacles: list[str] = []
        self._answers: Iterator[BrokerHeartbeatResponse | None] = iter(answers)
        self._outcomes = iter(outcomes)

        async def settled(_: object) -> None:
            self.ended.set()

        running = asyncio.get_running_loop()
        node: Any = SimpleNamespace(
            rng=Random(1),
            config=SimpleNamespace(node_id=1, broker_heartbeat_interval_ms=0),
            loop=running,
            quorum=SimpleNamespace(wait_until=settled),
            spawn=lambda work: work.close(),
        )
        super().__init__(node)

    async def _beat(self, *, wants_to_stop: bool = False) -> BrokerHeartbeatResponse | None:
        self.obstacles.append(self.obstacle)
        try:
            return next(self._answers)
        except StopIteration:
            self.ended.set()
            await asyncio.Event().wait()
            raise AssertionError("the test has ended") from None

    async def register(self) -> None:
        self.registration_count += 1
        outcome = next(self._outcomes)
        if outcome is not None:
            raise outcome


def test_a_broker_that_cannot_register_anew_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    """Its heartbeats ended at the first failure, and the broker stayed fenced until a restart."""

    async def scenario() -> None:
        refusal = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the active controller cannot be reached")
        lifecycle = Scripted([STALE, STALE, UNFENCED], [refusal, None])
        beating = asyncio.ensure_future(lifecycle._beat_on())
        await asyncio.wait([beating, asyncio.ensure_future(lifecycle.ended.wait())], return_when="FIRST_COMPLETED")
        assert not beating.done()
        beating.cancel()
        assert lifecycle.registration_count == 2
        assert not lifecycle.is_fenced

    asyncio.run(scenario())
    assert "tries again: the active controller cannot be reached" in caplog.text


def test_a_broker_that_is_unregistered_before_it_is_unfenced_registers_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.metadata.lifecycle.CATCH_UP_MS", 0)

    async def scenario() -> None:
        lifecycle = Scripted([None, FENCED, STALE, UNFENCED], [None])
        await lifecycle.unfence()
        assert lifecycle.registration_count == 1
        assert lifecycle.obstacles == ["", "it does not answer heartbeats", "", ""]
        assert not lifecycle.is_fenced

    asyncio.run(scenario())
