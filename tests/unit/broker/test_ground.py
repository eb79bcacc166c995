"""What every room stands on: background work, timers, and settings that change while the node runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ottla.cluster import BrokerImage, Endpoint, ImageChanges
from ottla.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.sim.loop import Loop
from ottla.wire.errors import ErrorCode, KafkaError
from tests.unit.broker.rooms import TimedGround, run_timed


async def fail(error: Exception) -> None:
    raise error


def test_background_work_that_fails_is_logged_and_counted_as_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        ground = TimedGround()
        error = ZeroDivisionError("one by none")
        await asyncio.wait([ground.spawn(fail(error))])
        assert ground.bugs == [error]
        assert ground.metrics.internal_errors.value == 1

    run_timed(scenario())
    assert "a bug: background work failed" in caplog.text
    assert "one by none" in caplog.text


def test_a_kafka_error_of_background_work_is_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        ground = TimedGround()
        work = ground.spawn(fail(KafkaError(ErrorCode.NOT_CONTROLLER)))
        await asyncio.wait([work])
        assert isinstance(work.exception(), KafkaError)
        assert (ground.bugs, ground.metrics.internal_errors.value) == ([], 0)

    run_timed(scenario())
    assert caplog.messages == []


def test_the_result_of_background_work_is_that_of_its_task() -> None:
    async def work() -> int:
        return 7

    async def scenario() -> None:
        assert await TimedGround().spawn(work()) == 7

    run_timed(scenario())


def test_a_bug_is_counted_without_a_listener_as_well() -> None:
    ground = TimedGround()
    ground.on_bug = None
    ground.bug(ZeroDivisionError())
    assert ground.metrics.internal_errors.value == 1


def test_work_is_done_at_every_interval_until_the_node_stops() -> None:
    async def scenario() -> None:
        ground = TimedGround()
        began_at = ground.now()
        done_at: list[int] = []
        ground.every(1_000, lambda: done_at.append(ground.now() - began_at))
        await asyncio.sleep(3.5)
        assert done_at == [1_000, 2_000, 3_000]
        ground.is_stopping = True
        await asyncio.sleep(10)
        assert len(done_at) == 3

    run_timed(scenario())


def test_work_that_fails_once_is_done_again_at_the_next_interval() -> None:
    counts = [0]

    def work() -> None:
        counts[0] += 1
        if counts[0] == 1:
            raise ZeroDivisionError

    async def scenario() -> None:
        ground, loop = TimedGround(), asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        ground.every(1_000, work)
        await asyncio.sleep(2.5)
        assert isinstance(loop.first_error, ZeroDivisionError)
        assert len(loop.errors) == 1
        loop.errors.clear()  # or the simulator's loop would fail the test
        await ground.close()

    run_timed(scenario())
    assert counts == [2]


def test_closing_ends_background_work_and_timers() -> None:
    async def scenario() -> None:
        ground = TimedGround()
        ticks: list[int] = []
        ended: list[str] = []

        async def wait_for_ever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append("cleaned up")

        waiting = ground.spawn(wait_for_ever())
        ground.every(1_000, lambda: ticks.append(ground.now()))
        await asyncio.sleep(1.5)
        await ground.close()
        assert ground.is_stopped
        assert waiting.cancelled()
        assert ended == ["cleaned up"], "closing waits for the end of what it cancels"
        await asyncio.sleep(10)
        assert len(ticks) == 1
        assert ground.bugs == [], "what is cancelled is no bug"

    run_timed(scenario())


def test_settings_of_the_cluster_and_of_this_broker_lie_over_those_of_its_file() -> None:
    ground = TimedGround(max_connections="10")
    configs = ground.image.configs
    configs[BROKER_RESOURCE, ""] = {"max.connections": "20"}
    configs[BROKER_RESOURCE, "2"] = {"max.connections": "40"}
    ground.image_changed(ImageChanges(configs_changed={(TOPIC_RESOURCE, "t"): None}))
    assert ground.config.max_connections == 10, "no setting of a broker has changed"
    ground.image_changed(ImageChanges(configs_changed={(BROKER_RESOURCE, ""): None}))
    assert ground.config.max_connections == 20
    configs[BROKER_RESOURCE, "1"] = {"max.connections": "30"}
    ground.image_changed(ImageChanges(configs_changed={(BROKER_RESOURCE, "1"): None}))
    assert ground.config.max_connections == 30
    assert ground.static_config.max_connections == 10


def test_brokers_are_listed_by_the_listener_that_a_client_came_through() -> None:
    ground = TimedGround()
    inside, outside = Endpoint("PLAINTEXT", "inside", 9092, 0), Endpoint("OUT", "outside", 9192, 0)
    brokers = ground.image.brokers
    brokers[1] = BrokerImage(1, 1, bytes(16), is_fenced=False, endpoints={"PLAINTEXT": inside, "OUT": outside})
    brokers[2] = BrokerImage(2, 2, bytes(16), is_fenced=False, endpoints={"PLAINTEXT": inside}, rack="r")
    brokers[3] = BrokerImage(3, 3, bytes(16), is_fenced=True, endpoints={"PLAINTEXT": inside})
    assert ground.brokers("PLAINTEXT") == [(1, "inside", 9092, None), (2, "inside", 9092, "r")]
    assert ground.brokers("OUT") == [(1, "outside", 9192, None)]
    assert ground.broker_address(3) == ("inside", 9092), "a fenced broker has an address"
    assert ground.broker_address(4) is None


def test_a_broker_lists_itself_if_all_are_fenced() -> None:
    """librdkafka sent nothing for 200 s after the only broker had listed none while it stopped."""
    ground = TimedGround()
    inside, other = Endpoint("PLAINTEXT", "inside", 9092, 0), Endpoint("PLAINTEXT", "other", 9092, 0)
    brokers = ground.image.brokers
    brokers[2] = BrokerImage(2, 2, bytes(16), is_fenced=True, endpoints={"PLAINTEXT": other})
    assert ground.brokers("PLAINTEXT") == [], "this one is not registered"
    brokers[1] = BrokerImage(1, 1, bytes(16), is_fenced=True, endpoints={"PLAINTEXT": inside})
    assert ground.brokers("PLAINTEXT") == [(1, "inside", 9092, None)]
    assert ground.brokers("OUT") == []
    brokers[2] = replace(brokers[2], is_fenced=False)
    assert ground.brokers("PLAINTEXT") == [(2, "other", 9092, None)]
