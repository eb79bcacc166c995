"""A connection between a channel and handlers made of lists: order, limits, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.caller import Caller, Client
from ottla.broker.serving.api import Api
from ottla.broker.serving.api_table import ApiTable
from ottla.broker.serving.connection import MAX_PLAIN_REQUEST_BYTES, MAX_WAITING_PER_CONNECTION, Connection, ServedApi
from ottla.broker.serving.serving import Serving
from ottla.net import OsSockets, ReceiveBuffers
from ottla.wire import decode
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.frames import decode_response_header, encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.unit.broker.rooms import Ground

INIT_PRODUCER_ID = 22
API_VERSIONS = 18


class Channel:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_closed = False
        self.is_paused = False
        self.out_bytes = 0
        self.drained: list[Callable[[], None]] = []

    def send(self, parts: list[Any]) -> None:
        """Answers, each with its size first: several may leave together."""
        data = b"".join(bytes(part) for part in parts)
        while data:
            end = 4 + int.from_bytes(data[:4], "big")
            self.sent.append(data[:end])
            data = data[end:]

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def when_drained(self, callback: Callable[[], None]) -> None:
        callback()


class OneApi(ApiTable):
    """A table of InitProducerId alone."""

    def __init__(self, ground: Ground, handler: Callable[[Any, Caller], Any]) -> None:
        super().__init__(ground)
        self.api = ServedApi(Api(key=INIT_PRODUCER_ID, handler=handler, needs=()), (), (), ground.metrics)

    def served(self, key: int) -> ServedApi | None:
        return self.api if key == INIT_PRODUCER_ID else None


class World:
    """A connection to a node that serves one API with a handler of the test's."""

    def __init__(self) -> None:
        self.ground = Ground()
        self.lost: list[int] = []
        """Brokers whose connection closed."""
        self.answer: Callable[[Any, Caller], Any] = lambda request, caller: InitProducerIdResponse()
        apis = OneApi(self.ground, lambda request, caller: self.answer(request, caller))
        self.api = apis.api
        self.channel = Channel()
        serving = Serving(self.ground, OsSockets(), ReceiveBuffers(), apis, self.lost.append)
        self.connection = Connection(serving, self.channel, Client("10.0.0.9", 5555, "PLAINTEXT", "broker"))

    def ask(self, correlation_id: int, timeout_ms: int = 0, version: int = 4) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=timeout_ms)
        frame = b"".join(encode_request(INIT_PRODUCER_ID, version, correlation_id, "tester", request))
        self.connection.frame_received(memoryview(frame)[4:])

    def answered(self) -> list[int]:
        """Correlation ids in the order in which answers left."""
        return [decode_response_header(sent[4:], INIT_PRODUCER_ID, 4)[0] for sent in self.channel.sent]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    assert made.ground.bugs == []


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


def test_an_answer_that_is_ready_leaves_at_once(world: World) -> None:
    world.ask(7)
    assert world.answered() == [7]


def test_answers_leave_in_the_order_of_their_requests(world: World) -> None:
    async def scenario() -> None:
        slow: dict[int, asyncio.Future[InitProducerIdResponse]] = {}

        def answer(request: InitProducerIdRequest, caller: Caller) -> Any:
            if request.transaction_timeout_ms:
                future = slow[request.transaction_timeout_ms] = asyncio.get_running_loop().create_future()
                return future
            return InitProducerIdResponse()

        world.answer = answer
        world.ask(1, timeout_ms=1)
        world.ask(2)
        world.ask(3, timeout_ms=3)
        world.ask(4)
        assert world.answered() == []
        slow[3].set_result(InitProducerIdResponse())
        await asyncio.sleep(0)
        assert world.answered() == []
        slow[1].set_result(InitProducerIdResponse())
        await asyncio.sleep(0)
        assert world.answered() == [1, 2, 3, 4]

    run(scenario)


def test_too_many_waiting_requests_stop_the_reading_until_they_are_answered(world: World) -> None:
    async def scenario() -> None:
        waiting: list[asyncio.Future[InitProducerIdResponse]] = []

        def answer(request: InitProducerIdRequest, caller: Caller) -> Any:
            waiting.append(asyncio.get_running_loop().create_future())
            return waiting[-1]

        world.answer = answer
        for number in range(MAX_WAITING_PER_CONNECTION):
            assert not world.channel.is_paused
            world.ask(number)
        assert world.channel.is_paused
        for future in waiting:
            future.set_result(InitProducerIdResponse())
        await asyncio.sleep(0)
        assert not world.channel.is_paused
        assert world.answered() == list(range(MAX_WAITING_PER_CONNECTION))

    run(scenario)


def test_a_closed_connection_cancels_what_waits(world: World) -> None:
    async def scenario() -> None:
        future: asyncio.Future[InitProducerIdResponse] = asyncio.get_running_loop().create_future()
        world.answer = lambda request, caller: future
        world.ask(1)
        world.connection.client.broker_id = 7
        world.connection.channel_closed()
        await asyncio.sleep(0)
        assert future.cancelled()
        assert world.channel.sent == []
        assert world.lost == [7]

    run(scenario)


def test_a_throttled_client_is_answered_and_then_not_read_for_a_while(world: World) -> None:
    async def scenario() -> None:
        def answer(request: InitProducerIdRequest, caller: Caller) -> Any:
            caller.throttle_ms = 1
            return InitProducerIdResponse(throttle_time_ms=1)

        world.answer = answer
        world.ask(1)
        assert world.answered() == [1]
        assert world.channel.is_paused
        await asyncio.sleep(0.01)
        assert not world.channel.is_paused

    run(scenario)


def test_an_error_of_a_handler_becomes_the_code_of_the_response(world: World) -> None:
    def refuse(request: InitProducerIdRequest, caller: Caller) -> Any:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    world.answer = refuse
    world.ask(1)
    sent = world.channel.sent[0][4:]
    _, position = decode_response_header(sent, INIT_PRODUCER_ID, 4)
    assert decode(InitProducerIdResponse, 4, sent, position).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_bug_in_a_handler_is_told_and_the_client_gets_an_unknown_server_error(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: InitProducerIdRequest, caller: Caller) -> Any:
        raise ZeroDivisionError

    world.answer = fail
    world.ask(1)
    assert [type(bug) for bug in world.ground.bugs] == [ZeroDivisionError]
    world.ground.bugs.clear()
    sent = world.channel.sent[0][4:]
    _, position = decode_response_header(sent, INIT_PRODUCER_ID, 4)
    assert decode(InitProducerIdResponse, 4, sent, position).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "InitProducerId failed" in caplog.text


@pytest.mark.parametrize(
    "frame", [b"", b"\0", b"\xff" * 40, b"\0\x16\0\x04\0\0\0\1\0\x7fabc", b"\0\x16\0\x04\0\0\0\1\0\1a"]
)
def test_bytes_that_are_no_request_close_the_connection(world: World, frame: bytes) -> None:
    world.connection.frame_received(memoryview(frame))
    assert world.channel.is_closed
    assert world.channel.sent == []
    assert world.ground.metrics.refused_requests.value == 1


def test_a_version_that_is_not_served_closes_the_connection(world: World) -> None:
    world.api.max_version = 3
    world.ask(1, version=4)
    assert world.channel.is_closed


def test_an_api_of_the_other_role_closes_the_connection(world: World) -> None:
    world.api.roles = ("controller",)
    world.ask(1)
    assert world.channel.is_closed


def test_an_unknown_version_of_api_versions_is_answered_in_version_zero(world: World) -> None:
    request = b"".join(encode_request(API_VERSIONS, 4, 9, "tester", ApiVersionsRequest()))[4:]
    request = request[:2] + (99).to_bytes(2, "big") + request[4:]
    world.connection.frame_received(memoryview(request))
    sent = world.channel.sent[0][4:]
    correlation_id, position = decode_response_header(sent, API_VERSIONS, 0)
    answer = decode(ApiVersionsResponse, 0, sent, position)
    assert correlation_id == 9
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [api.api_key for api in answer.api_keys] == [API_VERSIONS]


def test_no_answer_is_sent_where_none_is_wanted(world: World) -> None:
    world.answer = lambda request, caller: None
    world.ask(1)
    assert world.channel.sent == []
    assert not world.channel.is_closed


def test_a_refused_request_without_answer_closes_the_connection(world: World) -> None:
    def refuse(request: InitProducerIdRequest, caller: Caller) -> None:
        caller.is_refused = True

    world.answer = refuse
    world.ask(1)
    assert world.channel.is_closed


def test_a_request_without_records_may_not_be_as_large_as_one_with(world: World) -> None:
    request = InitProducerIdRequest(transactional_id="x" * 30_000)
    frame = b"".join(encode_request(INIT_PRODUCER_ID, 4, 1, "tester", request))[4:]
    world.connection.frame_received(memoryview(frame + bytes(MAX_PLAIN_REQUEST_BYTES)))
    assert world.channel.is_closed
    assert world.channel.sent == []


def test_a_request_that_is_to_be_done_in_order_stops_the_reading_until_it_is_done(world: World) -> None:
    async def scenario() -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def handle(request: InitProducerIdRequest, caller: Caller) -> Any:
            caller.done_in_order = done
            return answer

        world.answer = handle
        world.ask(1)
        assert world.channel.is_paused
        done.set_result(None)
        await asyncio.sleep(0)
        assert not world.channel.is_paused and world.answered() == []
        answer.set_result(InitProducerIdResponse())
        await asyncio.sleep(0)
        assert world.answered() == [1]

    run(scenario)


def test_a_delayed_request_without_an_answer_makes_room_for_the_next(world: World) -> None:
    async def scenario() -> None:
        waiting: list[asyncio.Future[Any]] = []

        def handle(request: InitProducerIdRequest, caller: Caller) -> Any:
            waiting.append(asyncio.get_running_loop().create_future())
            caller.done_in_order = waiting[-1]
            return waiting[-1]

        world.answer = handle
        world.ask(1)
        world.ask(2)
        waiting[1].set_result(InitProducerIdResponse())
        waiting[0].set_result(None)
        await asyncio.sleep(0)
        assert world.answered() == [2] and not world.channel.is_closed

    run(scenario)
