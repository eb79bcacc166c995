"""A cluster as a worker sees it: how long it waits for brokers, what it says, and which connection it lends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ottla.client.config import ConsumerConfig, ProducerConfig
from ottla.client.errors import NoBrokerReached, RequestTimedOut, UnknownTopicOrPartition
from ottla.spark.blocking_cluster import BlockingCluster
from ottla.spark.options import Topics, parse_write_options
from tests.unit.spark.conftest import StartBrokers
from tests.unit.spark.stand_in_brokers import Brokers, Socket


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that pass only by sleeping and waiting."""
    now = [1_000.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("ottla.spark.blocking_cluster.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return now


def cluster_at(*servers: str, timeout_ms: int = 10_000) -> BlockingCluster:
    settings = {"bootstrap.servers": ",".join(servers), "default.api.timeout.ms": str(timeout_ms)}
    return BlockingCluster(ConsumerConfig.parse(settings))


def test_no_broker_is_an_answer_within_the_time_of_a_call(start_brokers: StartBrokers, clock: list[float]) -> None:
    start_brokers({}).refusing = {7, 8}
    with pytest.raises(NoBrokerReached, match=r"no broker of h:7, h:8 answers: cannot connect to h:7: .*h:8") as raised:
        cluster_at("h:7", "h:8").partitions(Topics(names=("a",)))
    assert 5 < clock[0] - 1_000 <= 10
    assert "kafka.bootstrap.servers" in str(raised.value)


def test_addresses_that_never_answer_share_the_time_of_a_call(
    start_brokers: StartBrokers, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(address: tuple[str, int], timeout: float) -> Socket:
        clock[0] += timeout
        raise TimeoutError("timed out")

    monkeypatch.setattr("ottla.spark.blocking_connection.socket.create_connection", connect)
    with pytest.raises(NoBrokerReached, match="cannot connect to h:7: timed out; cannot connect to h:8: timed out"):
        cluster_at("h:7", "h:8").partitions(Topics(names=("a",)))
    assert clock[0] - 1_000 == pytest.approx(10, abs=0.2)


def test_a_broker_that_does_not_answer_is_left_within_the_time_of_a_call(
    start_brokers: StartBrokers, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = start_brokers({"a": 1})
    cluster = cluster_at("h:1")
    cluster.refresh(None)

    def wait_in_vain(self: Socket, *_: object) -> int:
        clock[0] += self.timeout_seconds
        raise TimeoutError

    monkeypatch.setattr(Socket, "recv_into", wait_in_vain)
    with pytest.raises((RequestTimedOut, NoBrokerReached), match="h:1"):
        cluster.partitions(Topics(names=("a",)))
    assert clock[0] - 1_000 == pytest.approx(10, abs=0.2)
    assert all(socket.is_closed for socket in brokers.sockets)


def test_a_sink_takes_the_time_of_a_call_by_both_names() -> None:
    def allowed(**given: str) -> int:
        options = {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}
        return parse_write_options({"kafka.bootstrap.servers": "h:1", "topic": "t", **options}).config.max_block_ms

    assert allowed() == 60_000
    assert allowed(default_api_timeout_ms="10000") == 10_000
    assert allowed(default_api_timeout_ms="10000", max_block_ms="20000") == 20_000


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        (Topics(names=("ordres",)), "there is no ordres in the cluster at h:1: did you mean 'orders'"),
        (
            Topics(names=("zzz",)),
            r"create the topic first \(ottla topics create zzz\), or correct the option subscribe",
        ),
    ],
)
def test_a_topic_that_is_not_there_comes_with_a_remedy(
    topics: Topics, said: str, start_brokers: StartBrokers, clock: list[float]
) -> None:
    start_brokers({"orders": 2})
    with pytest.raises(UnknownTopicOrPartition, match=said):
        cluster_at("h:1").partitions(topics)


def test_a_partition_that_is_not_there_comes_with_how_many_there_are(
    start_brokers: StartBrokers, clock: list[float]
) -> None:
    start_brokers({"orders": 2})
    cluster = cluster_at("h:1")
    (last,) = cluster.partitions(Topics(names=("orders",)))[1:]
    with pytest.raises(UnknownTopicOrPartition, match=r"no orders-5 .*; orders has 2 partitions, from 0 on: correct"):
        cluster.partitions(Topics(partitions=(last, last._replace(partition=5))))


def test_a_topic_to_write_to_that_is_not_there_comes_with_a_remedy(
    start_brokers: StartBrokers, clock: list[float]
) -> None:
    start_brokers({"orders": 2})
    cluster = BlockingCluster(ProducerConfig.parse({"bootstrap.servers": "h:1"}))
    with pytest.raises(UnknownTopicOrPartition, match=r"there is no topic ordres .*did you mean 'orders'"):
        cluster.topic_partitions("ordres")
    assert clock[0] - 1_000 < 11


def test_a_new_topic_that_brokers_list_late_is_found(
    start_brokers: StartBrokers, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy broker of Apache Kafka took more than three seconds."""
    brokers = start_brokers({})

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        if clock[0] >= 1_008:
            brokers.topics["late"] = 3

    monkeypatch.setattr("ottla.spark.blocking_cluster.time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    writing = BlockingCluster(ProducerConfig.parse({"bootstrap.servers": "h:1"}))
    assert len(writing.topic_partitions("late")) == 3
    brokers.topics.clear()
    clock[0] = 1_000
    assert len(cluster_at("h:1").partitions(Topics(names=("late",)))) == 3


def test_a_missing_topic_takes_no_longer_than_a_call_may(start_brokers: StartBrokers, clock: list[float]) -> None:
    start_brokers({})
    with pytest.raises(UnknownTopicOrPartition):
        cluster_at("h:1", timeout_ms=2_000).partitions(Topics(names=("a",)))
    assert clock[0] - 1_000 < 3


def test_a_connection_is_lent_to_one_borrower_at_a_time(start_brokers: StartBrokers) -> None:
    brokers: Brokers = start_brokers({"a": 1})
    cluster = cluster_at("h:1")
    cluster.refresh(None)
    first, second = cluster.lend(1), cluster.lend(1)
    assert len({id(one) for one in (cluster.node(1), first, second)}) == 3
    cluster.give_back(first)
    assert cluster.lend(1) is first
    cluster.close()
    assert [socket.is_closed for socket in brokers.sockets] == [True, False, False], "borrowers close theirs"
    for one in (first, second):
        cluster.give_back(one)
    cluster.close()
    assert all(socket.is_closed for socket in brokers.sockets)
