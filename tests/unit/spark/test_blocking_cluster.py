"""A cluster as a worker sees it: how long it waits for brokers, what it says, and which connection it lends."""

from __future__ import annotations

import pytest

from ottla.client.config import ConsumerConfig, ProducerConfig
from ottla.client.errors import NoBrokerReached, RequestTimedOut, UnknownTopicOrPartition
from ottla.spark.blocking_cluster import BlockingCluster
from ottla.spark.options import Topics, parse_write_options
from tests.unit.spark.stand_in_brokers import Brokers, Socket


def cluster_at(brokers: Brokers, *servers: str, timeout_ms: int = 10_000) -> BlockingCluster:
    settings = {"bootstrap.servers": ",".join(servers), "default.api.timeout.ms": str(timeout_ms)}
    return BlockingCluster(ConsumerConfig.parse(settings), blocking=brokers.in_place)


def passed(brokers: Brokers) -> float:
    """Seconds since the test began."""
    return brokers.in_place.seconds - 1_000


def test_no_broker_is_an_answer_within_the_time_of_a_call() -> None:
    brokers = Brokers({})
    brokers.refusing = {7, 8}
    with pytest.raises(NoBrokerReached, match=r"no broker of h:7, h:8 answers: cannot connect to h:7: .*h:8") as raised:
        cluster_at(brokers, "h:7", "h:8").partitions(Topics(names=("a",)))
    assert 5 < passed(brokers) <= 10
    assert "kafka.bootstrap.servers" in str(raised.value)


def test_addresses_that_never_answer_share_the_time_of_a_call() -> None:
    brokers = Brokers({})
    brokers.in_place.never_connects = True
    with pytest.raises(NoBrokerReached, match="cannot connect to h:7: timed out; cannot connect to h:8: timed out"):
        cluster_at(brokers, "h:7", "h:8").partitions(Topics(names=("a",)))
    assert passed(brokers) == pytest.approx(10, abs=0.2)


def test_a_broker_that_does_not_answer_is_left_within_the_time_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers({"a": 1})
    cluster = cluster_at(brokers, "h:1")
    cluster.refresh(None)

    def nothing_yet(self: Socket, *_: object) -> int:
        raise BlockingIOError

    monkeypatch.setattr(Socket, "recv_into", nothing_yet)
    with pytest.raises((RequestTimedOut, NoBrokerReached), match="h:1"):
        cluster.partitions(Topics(names=("a",)))
    assert passed(brokers) == pytest.approx(10, abs=0.2)
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
def test_a_topic_that_is_not_there_comes_with_a_remedy(topics: Topics, said: str) -> None:
    brokers = Brokers({"orders": 2})
    with pytest.raises(UnknownTopicOrPartition, match=said):
        cluster_at(brokers, "h:1").partitions(topics)


def test_a_partition_that_is_not_there_comes_with_how_many_there_are() -> None:
    brokers = Brokers({"orders": 2})
    cluster = cluster_at(brokers, "h:1")
    (last,) = cluster.partitions(Topics(names=("orders",)))[1:]
    with pytest.raises(UnknownTopicOrPartition, match=r"no orders-5 .*; orders has 2 partitions, from 0 on: correct"):
        cluster.partitions(Topics(partitions=(last, last._replace(partition=5))))


def test_a_topic_to_write_to_that_is_not_there_comes_with_a_remedy() -> None:
    brokers = Brokers({"orders": 2})
    cluster = BlockingCluster(ProducerConfig.parse({"bootstrap.servers": "h:1"}), blocking=brokers.in_place)
    with pytest.raises(UnknownTopicOrPartition, match=r"there is no topic ordres .*did you mean 'orders'"):
        cluster.topic_partitions("ordres")
    assert passed(brokers) < 11


def test_a_new_topic_that_brokers_list_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy broker of Apache Kafka took more than three seconds."""
    brokers = Brokers({})
    in_place = brokers.in_place

    def sleep(seconds: float) -> None:
        in_place.seconds += seconds
        if passed(brokers) >= 8:
            brokers.topics["late"] = 3

    monkeypatch.setattr(in_place, "sleep", sleep)
    writing = BlockingCluster(ProducerConfig.parse({"bootstrap.servers": "h:1"}), blocking=in_place)
    assert len(writing.topic_partitions("late")) == 3
    brokers.topics.clear()
    in_place.seconds = 1_000
    assert len(cluster_at(brokers, "h:1").partitions(Topics(names=("late",)))) == 3


def test_a_missing_topic_takes_no_longer_than_a_call_may() -> None:
    brokers = Brokers({})
    with pytest.raises(UnknownTopicOrPartition):
        cluster_at(brokers, "h:1", timeout_ms=2_000).partitions(Topics(names=("a",)))
    assert passed(brokers) < 3


def test_a_connection_is_lent_to_one_borrower_at_a_time() -> None:
    brokers = Brokers({"a": 1})
    cluster = cluster_at(brokers, "h:1")
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
