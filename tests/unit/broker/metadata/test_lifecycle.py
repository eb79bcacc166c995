"""A broker's standing with the active controller, which is a list of answers here."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.metadata.controllership import Controllership
from ottla.broker.metadata.lifecycle import Lifecycle
from ottla.broker.metadata.ports import ANSWER_TIMEOUT_MS
from ottla.cluster import BrokerImage
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from tests.unit.broker.rooms import LocalBroker, TimedGround, make_logs, make_metadata, run_timed

FENCED = BrokerHeartbeatResponse(is_fenced=True)
UNFENCED = BrokerHeartbeatResponse(is_fenced=False)
STALE = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
REGISTERED = BrokerRegistrationResponse(broker_epoch=7)
UNREACHABLE = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the active controller cannot be reached")


class Answers(Controllership):
    """The active controller of another node. Heartbeats get these answers, one after another, and so do
    registrations; a heartbeat beyond the last answer waits for ever."""

    is_active = False

    def __init__(self, beats: list[Message | KafkaError], registrations: list[Message | KafkaError]) -> None:
        self.beats = beats
        self.registrations = registrations
        self.lifecycle: Lifecycle
        self.registration_count = 0
        self.obstacles: list[str] = []
        """What the lifecycle says of the controller at each heartbeat."""
        self.ended = asyncio.Event()

    async def ask(self, request: Message, *, timeout_ms: int = ANSWER_TIMEOUT_MS) -> Any:
        if isinstance(request, BrokerHeartbeatRequest):
            if not self.beats:
                self.ended.set()
                await asyncio.Event().wait()
            self.obstacles.append(self.lifecycle.obstacle)
            answer = self.beats.pop(0)
        else:
            assert isinstance(request, BrokerRegistrationRequest)
            self.registration_count += 1
            answer = self.registrations.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return answer


def make_lifecycle(folder: Path, controllership: Answers) -> tuple[TimedGround, Lifecycle]:
    """Of broker 1, which the image has as unfenced."""
    ground = TimedGround(folder)
    metadata = make_metadata(ground)
    ground.image.brokers[1] = BrokerImage(1, 7, bytes(16), is_fenced=False)
    broker = LocalBroker(make_logs(ground))
    lifecycle = Lifecycle(ground, metadata.quorum, controllership, broker, metadata.cluster_id)
    controllership.lifecycle = lifecycle
    return ground, lifecycle


def test_a_broker_that_cannot_register_anew_tries_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its heartbeats ended at the first failure, and the broker stayed fenced until a restart."""

    async def scenario() -> None:
        answers = Answers([UNFENCED, STALE, STALE, UNFENCED], [UNREACHABLE, REGISTERED])
        ground, lifecycle = make_lifecycle(tmp_path, answers)
        await lifecycle.unfence()
        lifecycle.is_fenced = True
        await answers.ended.wait()
        assert answers.registration_count == 2
        assert lifecycle.broker_epoch == 7
        assert not lifecycle.is_fenced
        await ground.close()
        assert ground.bugs == []

    run_timed(scenario())
    assert "retrying: the active controller cannot be reached" in caplog.text


def test_a_broker_that_is_unregistered_before_it_is_unfenced_registers_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        answers = Answers([UNREACHABLE, FENCED, STALE, UNFENCED], [REGISTERED])
        _, lifecycle = make_lifecycle(tmp_path, answers)
        await lifecycle.unfence()
        assert answers.registration_count == 1
        assert answers.obstacles == ["", "it does not answer heartbeats", "", ""]
        assert not lifecycle.is_fenced

    run_timed(scenario())
