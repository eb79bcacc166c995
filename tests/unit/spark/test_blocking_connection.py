"""A worker's connection to a broker: each request gets its own answer, whatever else is under way."""

from __future__ import annotations

from math import inf

import pytest

from ottla.client.config import ClientConfig
from ottla.client.errors import NetworkError, RequestTimedOut
from ottla.spark.blocking_connection import BlockingConnection
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.spark.stand_in_brokers import Brokers

CONFIG = ClientConfig.parse({"bootstrap.servers": "h:1", "request.timeout.ms": "30000"})


@pytest.fixture
def brokers() -> Brokers:
    return Brokers({"a": 1, "b": 2, "c": 3})


def connected(brokers: Brokers, limit_seconds: float = inf) -> BlockingConnection:
    return BlockingConnection("h", 1, CONFIG, limit_seconds, blocking=brokers.in_place)


def asks_for(topic: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)])


def test_each_ticket_gets_its_answer_in_any_order(brokers: Brokers) -> None:
    connection = connected(brokers)
    first, second, third = (connection.send(asks_for(topic)) for topic in "abc")
    assert connection.receive(second).topics[0].name == "b"
    assert connection.receive(third).topics[0].name == "c"
    assert connection.receive(first).topics[0].name == "a"
    assert connection.in_flight_count == 0


def test_a_question_behind_requests_under_way_takes_no_answer_of_theirs(brokers: Brokers) -> None:
    connection = connected(brokers)
    under_way = connection.send(asks_for("a"))
    assert connection.request(FindCoordinatorRequest(key="x"), max_version=3).node_id == 1
    assert connection.in_flight_count == 1
    assert connection.receive(under_way).topics[0].name == "a"


def test_an_answer_that_is_read_stays_whole_while_another_is_kept(brokers: Brokers) -> None:
    connection = connected(brokers)
    connection.request(asks_for("a"))
    in_use = connection._buffer
    before = bytes(in_use)
    connection.send(asks_for("b"))
    connection._receive_early()
    assert connection._buffer is in_use and bytes(in_use) == before


def test_a_ticket_of_a_connection_that_ended_is_a_network_error(brokers: Brokers) -> None:
    connection = connected(brokers)
    ticket = connection.send(asks_for("a"))
    connection.close()
    with pytest.raises(NetworkError, match="h:1 ended before an answer came"):
        connection.receive(ticket)


def test_a_read_that_is_interrupted_ends_the_connection(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of its answer would be read as the beginning of the next one."""
    connection = connected(brokers)
    ticket = connection.send(asks_for("a"))
    monkeypatch.setattr(connection, "_frame", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        connection.receive(ticket)
    assert connection.is_closed and brokers.sockets[0].is_closed


def test_an_answer_may_take_as_long_as_its_caller_has(brokers: Brokers) -> None:
    connection = connected(brokers, limit_seconds=7)
    for limit_seconds, allowed_ms in ((None, 7_000), (99, 30_000), (3, 3_000)):
        if limit_seconds is not None:
            connection = connected(brokers)
            connection.limit(limit_seconds)
        ticket = connection.send(asks_for("a"))
        brokers.sockets[-1]._incoming.clear()
        with pytest.raises(RequestTimedOut, match=f"h:1 did not answer Metadata within {allowed_ms} ms"):
            connection.receive(ticket)
        assert brokers.in_place.waits.pop() == allowed_ms / 1000
